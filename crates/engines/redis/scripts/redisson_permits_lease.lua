-- Has the lease of a permit end at another time, or only looks when it does. What has expired is taken back first.
--
-- KEYS  1 the counter  2 the permits that are out
-- ARGV  1 the channel  2 the id  3 the lease from now on, ms, nothing for one without an end; not given to look
-- Answer: in how many ms it ends, -1 for never, 0 if the permit is not out.
--@include redisson_tell.lua
--@include redisson_permits_time.lua
reclaim(-1)
local ends = redis.call('ZSCORE', KEYS[2], ARGV[2])
if not ends then return 0 end
if ARGV[3] then
  ends = expiry(ARGV[3])
  redis.call('ZADD', KEYS[2], ends, ARGV[2])
end
ends = tonumber(ends)
return ends == NEVER and -1 or ends - now
