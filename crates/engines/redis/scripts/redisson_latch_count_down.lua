#!lua flags=allow-oom
-- Counts down by one; at zero the latch is gone, and those who wait are told.
-- On a server out of memory, too.
--
-- KEYS  1 the count
-- ARGV  1 the channel
-- Answer: what is left.
--@include redisson_tell.lua
check_tell(ARGV[1])
if not redis.acl_check_cmd('DEL', KEYS[1]) then error({ err = 'NOPERM this user may not run del' }) end
local left = redis.call('DECR', KEYS[1])
if left <= 0 then redis.call('DEL', KEYS[1]) end
if left == 0 then tell(ARGV[1], '0') end
return math.max(left, 0)
