#!lua flags=allow-oom
-- Releases a fair lock, whatever its count is, or leaves its queue.
-- On a server out of memory, too: what is held can be given back there.
--
-- KEYS  1 the lock  2 to 4 see fair_queue.lua  5 the mark's key, for the channels of breaks
-- ARGV  1 the owner  2 the key of its card, or nothing  3 Redisson's channel, before a waiter's name
--       4 to 7 as in mutex_leave.lua, or nothing; last how long its place was kept, ms
-- Answer: 1 if it was there, else 0.
--@include redisson/fair_queue.lua
--@include redisson/owner.lua
local held = redis.call('HDEL', KEYS[1], owner) == 1
local ahead = ahead_of(owner)
if not held and not ahead then return 0 end
if held then redis.call('ZREM', ours, owner) end
if ahead then
  shift(ahead + 1, tonumber(ARGV[#ARGV]))
  drop(owner)
end
if ARGV[2] ~= '' then redis.call('DEL', ARGV[2]) end
purge()
call_head(ARGV[3], KEYS[5])
if #ARGV > 4 then
  redis.call('SET', ARGV[7], ARGV[5], 'PX', ARGV[6])
  redis.call('@publish@', KEYS[5] .. ':' .. string.sub(ARGV[4], 1, 32), 'b' .. string.sub(ARGV[4], 33, 44))
end
return 1
