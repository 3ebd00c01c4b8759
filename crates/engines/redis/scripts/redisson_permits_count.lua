-- How many permits are free, and how many are out. What has expired is taken back first.
--
-- KEYS  1 the counter  2 the permits that are out
-- ARGV  1 the channel
-- Answer: how many are free, how many are out, and both together, which is 0 where there is no counter.
--@include redisson_tell.lua
--@include redisson_permits_time.lua
reclaim(-1)
local value = redis.call('GET', KEYS[1])
local there, out = counted(value), redis.call('ZCARD', KEYS[2])
if not there then return redis.error_reply(NONUMBER) end
return { there, out, value and there + out or 0 }
