#!lua flags=allow-oom
-- Leaves, held or waiting, and makes the next one the holder.
-- On a server out of memory, too: what is held can be given back and handed over there.
--
-- KEYS  1 the line   2 the mark, in a cluster, if somebody may be made the holder: see clock.lua
-- ARGV  1 the claim  2 'l' if others are thought to wait; or the record of a break  3 how long to keep that, ms
--       4 what channels begin with, of a break
-- The record of a break is written first: if that is refused, the hold stays.
-- Answer: 0 it was not there, 1 it was, 2 it was there alone; 3 and 4 as 0 and 1, and somebody is to be made the holder
--         by a call that names the mark: this one again, or the renewal of whoever waits.
--
-- The holder of a mutex, and a waiter behind it who has not had to prove its life yet: the hand-over, without a look at
-- the rest of the line.
if ARGV[2] == 'l' and (KEYS[2] or '@mark@') then
  local call, key = redis.call, KEYS[1]
  local three = redis.pcall('ZRANGE', key, 0, 2)
  local first, next = three[1], three[3]
  if first == ARGV[1] and next and three[2] == 'F' .. first and string.sub(first, 51, 51) == 'm' then
    local time, kept = call('TIME'), string.sub(next, 46, 49)
    local us = time[1] * 1000000 + time[2]
    if string.sub(next, 51, 51) == 'm' and call('ZSCORE', key, next) - 4000000000000000 + kept * 1000 > us then
      local mark = KEYS[2] or '@mark@'
      local fence = redis.pcall('INCR', mark)
      -- As in clock.lua. A mark that is no fence keeps nobody from leaving: the long way takes the claim out first.
      if type(fence) == 'number' and fence < 9007199254740992 then
        local behind = fence + 1000 < us
        local least = fence < 1000000000000000 and us + 20000 or us
        fence = string.format('%d', behind and least or fence)
        if behind then call('SET', mark, fence) end
        call('ZREM', key, first, three[2])
        call('ZADD', key, string.format('%d', -us / 1000 - kept), next, fence, 'F' .. next)
        call('@publish@', mark .. ':' .. string.sub(next, 1, 32), 'g' .. string.sub(next, 33, 44) .. fence)
        return 1
      end
    end
  end
end
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] and not ARGV[2] then
  redis.call('DEL', KEYS[1])
  return 2
end
if not value then return 0 end
local record = ARGV[3] and ARGV[2]
if type(value) == 'string' then
  if string.sub(value, 1, 44) ~= string.sub(ARGV[1], 1, 44) then return 0 end
  if record then redis.call('SET', KEYS[1] .. ':b', record, 'PX', ARGV[3]) end
  redis.call('DEL', KEYS[1])
  if record then
    redis.call('@publish@', ARGV[4] .. ':' .. string.sub(value, 1, 32), 'b' .. string.sub(value, 33, 44))
  end
  return 2
end
--@include clock.lua
--@include lean.lua
--@include line.lua
is_open()
local mine = ARGV[1]
local score = find(mine, true)
if score then
  if record then redis.call('SET', key .. ':b', record, 'PX', ARGV[3]) end
  remove(found, score)
  if record then
    tell(found, 'b' .. string.sub(found, 33, 44))
  end
end
pass_over_the_dead()
advance()
return (score and 1 or 0) + (owed and 3 or 0)
