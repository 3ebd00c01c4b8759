#!lua flags=allow-oom
-- Releases a fair lock, whatever its count is, or leaves its queue.
-- On a server out of memory, too: what is held can be given back there.
--
-- KEYS  1 the lock  2 to 4 see fair_queue.lua
-- ARGV  1 the owner  2 the key of its card, or nothing  3 Redisson's channel, before a waiter's name
--       4 to 8 as in mutex_leave.lua, or nothing; last what the channels of sessions begin with, and how long its place
--       was kept, ms
-- Answer: 1 if it was there, else 0.
--@include redisson/fair_queue.lua
--@include redisson/owner.lua
local held = redis.call('HDEL', KEYS[1], owner) == 1
local ahead = ahead_of(owner)
redis.call('ZREM', ours, owner)
if not held and not ahead then return 0 end
if ahead then
  shift(ahead + 1, tonumber(ARGV[#ARGV]))
  drop(owner)
end
if ARGV[2] ~= '' then redis.call('DEL', ARGV[2]) end
purge()
call_head(ARGV[3], ARGV[#ARGV - 1])
if #ARGV > 5 then
  --@include redisson/break.lua
end
return 1
