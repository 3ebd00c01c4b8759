-- SET key value NX PX, with a fence beside; who finds its own value there holds it.
--
-- KEYS  1 the key    2 the mark, in a cluster
-- ARGV  1 the value  2 how long, ms   3 what to do if it is taken: n(othing) or w(atch); then s if it is to be
--       stamped, o if that too and others of the process watch the key
--       4 a fence to mint if that is the largest and not ahead of the time, if one of several stores is asked
--
-- A script that stops half-way is not undone: what is refused after the value was set takes it back, and nothing is left.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local fence = redis.pcall('INCR', KEYS[2] or '@mark@')
  if #ARGV[3] == 1 and not ARGV[4] and type(fence) == 'number' and fence > 1000000000000000
      and fence < 9007199254740992 then
    return fence
  end
  local fine, answer = pcall(function()
    --@include clock.lua
    local hint = tonumber(ARGV[4])
    -- By this server's clock, and not by that of whoever asks: else a client whose clock is fast would have fences fall when
    -- the mark is lost after it.
    if hint and type(fence) == 'number' and hint > fence and fence > 1000000000000000 and hint <= us + LEAD then
      fence = hint
      redis.call('SET', mark, int(fence))
    end
    fence = lifted(fence)
    if hint and #ARGV[3] == 1 then return fence end
    redis.call('SET', KEYS[1], ARGV[1] .. '|' .. int(fence), 'XX', 'KEEPTTL')
    -- Others of the same process watch it: what is read is tracked.
    if ARGV[3] == 'wo' then redis.call('GET', KEYS[1]) end
    return fence
  end)
  if fine then return answer end
  --@include undo.lua
end
--@include clock.lua
--@include lean.lua
local value = redis.call('GET', key)
if id(value) == id(ARGV[1]) then return confirm_lean(value, ARGV[1]) end
if string.sub(ARGV[3], 1, 1) == 'n' then return { 'r' } end
return { 'w', how_long(redis.call('PTTL', key)) }
