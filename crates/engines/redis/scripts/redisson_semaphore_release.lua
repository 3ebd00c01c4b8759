#!lua flags=allow-oom
-- Gives permits back, and tells those who wait.
-- On a server out of memory, too.
--
-- KEYS  1 the counter
-- ARGV  1 the channel  2 how many  3 x if only where there is a counter
-- Answer: 1 if they were given back, else 0.
--@include redisson_tell.lua
check_tell(ARGV[1])
if ARGV[3] == 'x' and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
tell(ARGV[1], redis.call('INCRBY', KEYS[1], ARGV[2]))
return 1
