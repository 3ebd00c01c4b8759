-- Permits of an RPermitExpirableSemaphore, which the keeper renews.
--
-- KEYS  1 the counter   2 the permits   3 the token
-- ARGV  see hold.lua, and 1 is what the permits begin with; 7 as KEYS 2  8 how many  9 of how many  10 Redisson's channel
--@include redisson/hold.lua
--@include redisson/pool_ids.lua
local weight, capacity = tonumber(ARGV[8]), tonumber(ARGV[9])
local exclusive = weight == capacity and KEYS[3] or nil
local score = tonumber(call('ZSCORE', KEYS[2], permit(owner, 0)))
if score and score > now then
  local left = score - now
  if not is('f') then
    for number = 0, weight - 1 do call('ZADD', KEYS[2], 'XX', ms(now + ARGV[2]), permit(owner, number)) end
  end
  return confirmed(exclusive, left)
end
if wait == '?' then return { 'g' } end
local free = redis.pcall('GET', key)
if type(free) == 'table' then return { 'c', other_kind() } end
if free and not tonumber(free) then error({ err = 'FOREIGN what is stored there is no semaphore' }) end
check_grant()
check_rights({
  { 'SET', key, 1 }, { 'INCRBY', key, 1 }, { 'DECRBY', key, 1 }, { 'ZADD', KEYS[2], 0, 'x' }, { 'ZREM', KEYS[2], 'x' },
  { 'ZCARD', KEYS[2] }, { 'ZRANGE', KEYS[2], 0, 0 }, { 'PEXPIRE', KEYS[2], 1 }
})
check_rights({ { '@tell@', ARGV[10], 'x' } })
if exclusive then check_rights({ { 'INCR', KEYS[3] } }) end
local dead = call('ZRANGE', KEYS[2], '-inf', ms(now), 'BYSCORE')
for _, each in ipairs(dead) do call('ZREM', KEYS[2], each) end
if free and #dead > 0 then
  free = call('INCRBY', key, #dead)
  redis.call('@tell@', ARGV[10], free)
end
local taken = call('ZCARD', KEYS[2])
if not free and taken == 0 then
  free = capacity
  call('SET', key, ARGV[9])
end
free = tonumber(free) or 0
if free + taken ~= capacity then return { 'c', free + taken } end
if free < weight then
  local first = call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  return turned_away(first and first - now or -1)
end
call('DECRBY', key, weight)
local new = 0
for number = 0, weight - 1 do new = new + call('ZADD', KEYS[2], ms(now + ARGV[2]), permit(owner, number)) end
-- Redisson's clocks may have ended some before their time: the rest was never given back, and is not taken twice.
if new < weight then call('INCRBY', key, weight - new) end
local left = call('PTTL', key)
if left > 0 then call('PEXPIRE', KEYS[2], left) end
return granted(exclusive and call('INCR', KEYS[3]) or 0)
