#!lua flags=allow-oom
-- Gives permits back, and tells those who wait.
-- On a server out of memory, too.
--
-- KEYS  1 the counter  2 the permits that are out
-- ARGV  1 the channel  2 how: one, all (of them or none), any (that there are)  3 and on the ids
-- Answer: 1 if all of them were out and their leases not over, else 0.
--@include redisson_tell.lua
--@include redisson_permits_time.lua
--@include rights.lua
check_rights({ { 'INCRBY', KEYS[1], 1 } })
check_tell(ARGV[1])
local live = 1
for i = 3, #ARGV do
  local ends = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if not ends or tonumber(ends) <= now then live = 0 end
end
if ARGV[2] == 'all' then
  if live == 0 then return 0 end
  reclaim(-1)
end
local back = 0
for i = 3, #ARGV do back = back + redis.call('ZREM', KEYS[2], ARGV[i]) end
if back == 0 then return 0 end
local value = redis.call('INCRBY', KEYS[1], back)
tell(ARGV[1], ARGV[2] == 'one' and value or back)
return live
