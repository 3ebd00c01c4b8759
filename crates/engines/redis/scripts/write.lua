-- Writes to a map, a set or a list and gives the key its time to live: both, or neither.
--
-- KEYS  1 the key
-- ARGV  1 the ttl, ms  2 HSET, SADD, RPUSH or LPUSH  3… what that takes after the key
-- Answer: how many fields or members are new; for a list how long it is now.
--
-- A right that is missing must show before something is written.
if not redis.acl_check_cmd('PEXPIRE', KEYS[1], ARGV[1]) then
  return redis.error_reply("NOPERM this user has no permissions to run the 'pexpire' command on this key")
end
-- No more than Lua's stack takes at once; even, for fields and their values go together.
local most, answer = 4000, 0
local is_list = ARGV[2] == 'RPUSH' or ARGV[2] == 'LPUSH'
for first = 3, #ARGV, most do
  local n = redis.call(ARGV[2], KEYS[1], unpack(ARGV, first, math.min(first + most - 1, #ARGV)))
  answer = is_list and n or answer + n
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return answer
