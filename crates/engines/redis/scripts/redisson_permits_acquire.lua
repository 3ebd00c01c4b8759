-- Takes permits under ids that the client has chosen, if enough are free. Asked again with the same ids it takes none.
--
-- KEYS  1 the counter  2 the permits that are out
-- ARGV  1 the channel  2 the lease, ms, or nothing  3 and on the ids
-- Answer: 1 if they were taken, else 0; how many are free now; and in how many ms the first lease ends, below 0 if none
--         does.
--@include redisson_tell.lua
--@include redisson_permits_time.lua
--@include rights.lua
local many = #ARGV - 2
local before = redis.call('ZSCORE', KEYS[2], ARGV[3])
if before and tonumber(before) > now then return { 1, 0, -1 } end
check_rights({
  { 'DECRBY', KEYS[1], 1 }, { 'INCRBY', KEYS[1], 1 }, { 'PTTL', KEYS[1] },
  { 'ZADD', KEYS[2], 0, 'x' }, { 'PEXPIRE', KEYS[2], 1 }
})
reclaim(many)
local there = counted(redis.call('GET', KEYS[1]))
if not there then return redis.error_reply(NONUMBER) end
if there >= many then
  there = redis.call('DECRBY', KEYS[1], many)
  local until_ms = expiry(ARGV[2])
  local new = 0
  for i = 3, #ARGV do new = new + redis.call('ZADD', KEYS[2], until_ms, ARGV[i]) end
  -- What had expired and was not taken back yet is not taken twice.
  if new < many then there = redis.call('INCRBY', KEYS[1], many - new) end
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl > 0 then redis.call('PEXPIRE', KEYS[2], ttl) end
  return { 1, there, -1 }
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local ends = tonumber(first[2]) or NEVER
return { 0, there, ends < NEVER and math.max(ends - now, 1) or -1 }
