-- Sets the count of a latch that has none.
--
-- KEYS  1 the count
-- ARGV  1 the channel  2 the count
-- Answer: 1 if it was set, else 0.
--@include redisson_tell.lua
check_tell(ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
tell(ARGV[1], '1')
return 1
