#!lua flags=allow-oom
-- Compare and delete.
-- On a server out of memory, too: what is held can be given back there.
--
-- KEYS  1 the key
-- ARGV  1 the value  2 the record of a break, if it is one  3 how long to keep that, ms  4 what channels begin with
--       5 the key of that record
-- Answer: 1 if it was there, else 0.
--
-- Who sets a lock of another client's free names it by the hash of its value, with the number 0.
local value = redis.call('GET', KEYS[1])
if not value then return 0 end
local mine = string.sub(ARGV[1], 1, 44)
if string.sub(value, 1, 44) ~= mine and string.sub(redis.sha1hex(value), 1, 32) .. '000000000000' ~= mine then return 0 end
-- First: if that is refused, the hold stays.
if ARGV[2] then redis.call('SET', ARGV[5], ARGV[2], 'PX', ARGV[3]) end
redis.call('DEL', KEYS[1])
if ARGV[2] then
  redis.call('@publish@', ARGV[4] .. ':' .. string.sub(mine, 1, 32), 'b' .. string.sub(mine, 33, 44))
end
return 1
