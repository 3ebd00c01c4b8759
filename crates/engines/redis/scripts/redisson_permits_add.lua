-- Adds permits, or takes some away. Redisson sets the counter anew and so ends its ttl; this keeps it.
--
-- KEYS  1 the counter
-- ARGV  1 the channel  2 how many, below 0 to take away
-- Answer: how many are free now.
--@include redisson_tell.lua
check_tell(ARGV[1])
local value = redis.call('INCRBY', KEYS[1], ARGV[2])
if tonumber(ARGV[2]) > 0 then tell(ARGV[1], ARGV[2]) end
return value
