-- SET key value NX PX, with a fence beside; who finds its own value there holds it.
--
-- KEYS  1 the key    2 the mark, in a cluster
-- ARGV  1 the value  2 how long, ms   3 what to do if it is taken: n(othing) or w(atch); then s if it is to be
--       stamped, o if that too and others of the process watch the key
--       4 a fence to mint if that is the largest and not ahead of the time, if one of several stores is asked
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if ARGV[4] and #ARGV[3] == 1 then
    -- So little above the last fence that it cannot be far ahead of the time, either.
    local above = ARGV[4] - (redis.call('GET', KEYS[2] or '@mark@') or 0)
    if above > 0 and above < 1000 then
      redis.call('SET', KEYS[2] or '@mark@', ARGV[4])
      return ARGV[4] + 0
    end
  end
  local fence = redis.call('INCR', KEYS[2] or '@mark@')
  if fence > 1000000000000000 and #ARGV[3] == 1 and not ARGV[4] then return fence end
  --@include clock.lua
  local hint = tonumber(ARGV[4])
  if hint and hint > fence and hint < time[1] * 1000000 + time[2] + 1000000 then
    fence = hint
    redis.call('SET', mark, int(fence))
  end
  fence = lifted(fence)
  if hint and #ARGV[3] == 1 then return fence end
  redis.call('SET', KEYS[1], ARGV[1] .. '|' .. int(fence), 'XX', 'KEEPTTL')
  -- Others of the same process watch it: what is read is tracked.
  if ARGV[3] == 'wo' then redis.call('GET', KEYS[1]) end
  return fence
end
--@include clock.lua
--@include lean.lua
local value = redis.call('GET', key)
if id(value) == id(ARGV[1]) then return confirm_lean(value, ARGV[1]) end
if string.sub(ARGV[3], 1, 1) == 'n' then return { 'r' } end
return { 'w', redis.call('PTTL', key) + 1 }
