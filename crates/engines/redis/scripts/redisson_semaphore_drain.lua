-- Takes all permits that there are. Redisson sets the counter anew and so ends its ttl; this keeps it.
--
-- KEYS  1 the counter
-- Answer: how many there were.
--@include redisson_tell.lua
local value = redis.call('GET', KEYS[1])
if not value then return 0 end
local there = counted(value)
if not there then return redis.error_reply(NONUMBER) end
redis.call('SET', KEYS[1], '0', 'KEEPTTL')
return there
