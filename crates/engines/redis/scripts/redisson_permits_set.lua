-- Sets how many permits there are, those that are out included.
--
-- KEYS  1 the counter  2 the permits that are out
-- ARGV  1 the channel  2 how many  3 n to do so only where there is no counter
-- Answer: 1 if they were set, else 0.
--@include redisson_tell.lua
check_tell(ARGV[1])
local value = redis.call('GET', KEYS[1])
if not value then
  redis.call('SET', KEYS[1], ARGV[2])
  tell(ARGV[1], ARGV[2])
  return 1
end
if ARGV[3] == 'n' then return 0 end
local there = counted(value)
if not there then return redis.error_reply(NONUMBER) end
local more = tonumber(ARGV[2]) - there - redis.call('ZCARD', KEYS[2])
if more ~= 0 then
  redis.call('INCRBY', KEYS[1], string.format('%.0f', more))
  tell(ARGV[1], ARGV[2])
end
return 1
