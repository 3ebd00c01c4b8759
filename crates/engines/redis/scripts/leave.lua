#!lua flags=allow-oom
-- Leaves, held or waiting, and makes the next one the holder.
-- On a server out of memory, too: what is held can be given back and handed over there.
--
-- KEYS  1 the line   2 the mark, in a cluster
-- ARGV  1 the claim  2 the record of a break, if it is one  3 how long to keep that, ms
-- Answer: 1 if it was there, else 0.
local value = redis.pcall('GET', KEYS[1])
if not value then return 0 end
if type(value) == 'string' then
  if value ~= ARGV[1] and string.sub(value, 1, 44) ~= string.sub(ARGV[1], 1, 44) then return 0 end
  redis.call('DEL', KEYS[1])
  if ARGV[2] then
    redis.call('SET', KEYS[1] .. ':b', ARGV[2], 'PX', ARGV[3])
    local channel = (KEYS[2] or '@mark@') .. ':' .. string.sub(value, 1, 32)
    redis.call('@publish@', channel, 'b' .. string.sub(value, 33, 44))
  end
  return 1
end
--@include clock.lua
-- The holder of a mutex, and a living waiter behind it: the hand-over, without a look at the rest of the line.
if not ARGV[2] then
  local first = redis.pcall('ZRANGE', KEYS[1], 0, 0)[1]
  if first == ARGV[1] and string.sub(first, 51, 51) == 'm' then
    local head = redis.call('ZRANGE', KEYS[1], '4000000000000000', '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    local next = head[1]
    if next and string.sub(next, 51, 51) == 'm' then
      local kept = string.sub(next, 46, 49)
      if (head[2] - 4000000000000000) / 1000 + kept > now then
        local fence = int(lifted(redis.call('INCR', mark)))
        redis.call('ZREM', KEYS[1], first, 'F' .. first, 'X' .. next)
        redis.call('ZADD', KEYS[1], int(-now - kept), next, fence, 'F' .. next)
        redis.call('@publish@', mark .. ':' .. string.sub(next, 1, 32), 'g' .. string.sub(next, 33, 44) .. fence)
        return 1
      end
    end
  end
end
--@include lean.lua
--@include line.lua
is_open()
local mine = ARGV[1]
local score = find(mine, true)
if score then
  remove(found, score)
  if ARGV[2] then
    redis.call('SET', key .. ':b', ARGV[2], 'PX', ARGV[3])
    tell(found, 'b' .. string.sub(found, 33, 44))
  end
end
pass_over_the_dead()
advance()
return score and 1 or 0
