#!lua flags=allow-oom
-- Gives permits back.
-- On a server out of memory, too: what is held can be given back there.
--
-- KEYS  1 the counter  2 the permits
-- ARGV  1 what they begin with  2 the key of the card, or nothing  3 Redisson's channel  4 to 8 as in mutex_leave.lua, or
--       nothing; last how many
-- Answer: 1 if one was there, else 0.
--@include redisson/pool_ids.lua
--@include rights.lua
check_rights({ { 'INCRBY', KEYS[1], 1 } })
local back = 0
for number = 0, ARGV[#ARGV] - 1 do back = back + redis.call('ZREM', KEYS[2], permit(ARGV[1], number)) end
if ARGV[2] ~= '' then redis.call('DEL', ARGV[2]) end
if back == 0 then return 0 end
local free = redis.call('INCRBY', KEYS[1], back)
redis.call('@tell@', ARGV[3], free)
if #ARGV > 4 then
  --@include redisson/break.lua
end
return 1
