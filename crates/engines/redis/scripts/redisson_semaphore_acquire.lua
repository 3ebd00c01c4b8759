-- Takes permits, if there are enough.
--
-- KEYS  1 the counter
-- ARGV  1 how many
-- Answer: 1 if they were taken, else 0; and how many there are now.
--@include redisson_tell.lua
local there = counted(redis.call('GET', KEYS[1]))
if not there then return redis.error_reply(NONUMBER) end
if there >= tonumber(ARGV[1]) then return { 1, redis.call('DECRBY', KEYS[1], ARGV[1]) } end
return { 0, there }
