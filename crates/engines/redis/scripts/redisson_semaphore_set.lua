-- Gives a semaphore its permits, if it has no counter yet.
--
-- KEYS  1 the counter
-- ARGV  1 the channel  2 how many  3 how long they last, ms, or nothing
-- Answer: 1 if they were set, else 0.
--@include redisson_tell.lua
check_tell(ARGV[1])
if redis.call('GET', KEYS[1]) then return 0 end
if ARGV[3] == '' then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
tell(ARGV[1], ARGV[2])
return 1
