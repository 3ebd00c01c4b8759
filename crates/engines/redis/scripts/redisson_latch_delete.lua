-- Removes a latch. Those who wait are told that nothing is left to count: Redisson 4.7 says '1' here, which has its own
-- waiters wait on.
--
-- KEYS  1 the count
-- ARGV  1 the channel
-- Answer: 1 if there was one, else 0.
--@include redisson_tell.lua
check_tell(ARGV[1])
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
tell(ARGV[1], '0')
return 1
