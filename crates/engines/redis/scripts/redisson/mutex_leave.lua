#!lua flags=allow-oom
-- Releases an RLock, whatever its count is: one of ours is never above 1, and a break ends them all.
-- On a server out of memory, too: what is held can be given back there.
--
-- KEYS  1 the lock
-- ARGV  1 the owner  2 the key of its card, or nothing  3 Redisson's channel  4 of a break: the claim's identity
--       5 the record  6 how long to keep that, ms  7 its key  8 what the channels of sessions begin with
-- Answer: 1 if it was there, else 0.
--@include redisson/owner.lua
if redis.call('HDEL', KEYS[1], owner) == 0 then return 0 end
redis.call('@tell@', ARGV[3], '0')
if ARGV[2] ~= '' then redis.call('DEL', ARGV[2]) end
--@include redisson/break.lua
return 1
