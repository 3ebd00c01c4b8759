-- Enters the line, or is told where it stands in it already.
--
-- KEYS  1 the line   2 the mark, in a cluster (else it has one name for all)
-- ARGV  1 the claim  2 how long it is held if it is granted now: its lease or its ttl, ms
--       3 what to do if not: n(othing), w(atch), l(ine); then s if the grant is to be stamped
-- Answer: see lean.lua; a bare integer is the fence of a grant.
--
-- A script that stops half-way is not undone. So what a user may lack the right to is known before its claim is written, or
-- the claim is taken back: an attempt that was refused leaves nothing.
--
-- Nobody there, and nobody in need to know more: two calls, no closures.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local fence = redis.pcall('INCR', KEYS[2] or '@mark@')
  -- A mark that was forgotten starts below any clock.
  if #ARGV[3] == 1 and type(fence) == 'number' and fence > 1000000000000000 and fence < 9007199254740992 then
    return fence
  end
  local fine, answer = pcall(function()
    --@include clock.lua
    fence = lifted(fence)
    redis.call('SET', KEYS[1], ARGV[1] .. '|' .. int(fence), 'XX', 'KEEPTTL')
    return fence
  end)
  if fine then return answer end
  --@include undo.lua
end
--@include clock.lua
local wait = string.sub(ARGV[3], 1, 1)
-- A mutex with a living holder: the end of the line, without a look at the rest of it. The claim is written last.
if wait == 'l' and string.sub(ARGV[1], 51, 51) == 'm' then
  local first = redis.pcall('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if first[2] and -first[2] > now and string.sub(first[1], 51, 51) == 'm' then
    local score = int(4000000000000000 + time[1] * 1000000 + time[2])
    local ahead = redis.call('ZCOUNT', KEYS[1], '4000000000000000', '(' .. score)
    if redis.call('PTTL', KEYS[1]) < 1.5 * ARGV[2] + 1000 then
      redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2] + 1000, 'GT')
    end
    if redis.call('ZADD', KEYS[1], 'NX', score, ARGV[1]) == 1 then
      return { 'q', ahead + 1, ahead == 0 and -first[2] - now + 1 or tonumber(string.sub(ARGV[1], 46, 49)) }
    end
  end
end
--@include lean.lua
--@include line.lua
local mine = ARGV[1]
if not is_open() then
  local value = redis.call('GET', key)
  if id(value) == id(mine) then return confirm_lean(value, mine) end
  local holder, asked = read(value), read(mine)
  if holder.capacity ~= asked.capacity then return { 'c', holder.capacity } end
  local fits = holder.weight + asked.weight <= asked.capacity
  if not fits and wait ~= 'l' then return turned_away(wait) end
  check_line()
  -- A node whose slot is on its way to another makes no key anew: the holder would be taken out, and not be put back.
  if KEYS[2] then
    local beside = key .. ':moves'
    check_rights({ { 'EXISTS', beside } })
    -- That is never there. Where it cannot even be looked for, the slot moves; nothing was written yet.
    if type(redis.pcall('EXISTS', beside)) == 'table' then
      error({ err = 'TRYAGAIN the slot of this lock is on its way' })
    end
  end
  open(value)
  return join(mine, asked, wait)
end
check_line()
pass_over_the_dead()
advance()
local asked = read(mine)
if redis.call('EXISTS', key) == 1 then
  local score = find(mine)
  if score then return standing(mine, score) end
  local capacity = read(redis.call('ZRANGE', key, 0, 0)[1]).capacity
  if capacity ~= asked.capacity then return { 'c', capacity } end
end
return join(mine, asked, wait)
