-- A reader of an RReadWriteLock.
--
-- KEYS  1 the lock   2 the key of this read hold
-- ARGV  see hold.lua; 7 the key of a semaphore's permits
--@include redisson/hold.lua
local mode = redis.pcall('HGET', key, 'mode')
local mine = mode and type(mode) == 'string' and call('HEXISTS', key, owner) == 1
if mine and call('EXISTS', KEYS[2]) == 1 then
  if not is('f') then
    call('PEXPIRE', KEYS[2], ARGV[2])
    call('PEXPIRE', key, math.max(call('PTTL', key), ARGV[2]))
  end
  return confirmed(nil, call('PTTL', KEYS[2]))
end
if mine and mode == 'read' then
  -- Its time was over while others kept the lock.
  call('HDEL', key, owner)
  if call('HLEN', key) == 1 then
    call('DEL', key)
    mode = false
  end
end
if wait == '?' then return { 'g' } end
if type(mode) == 'table' or (not mode and call('EXISTS', key) == 1) then return { 'c', other_kind() } end
if mode and mode ~= 'read' then return turned_away(call('PTTL', key)) end
check_grant()
check_rights({ { 'HSET', key, 'x', 1 }, { 'SET', KEYS[2], 1 } })
call('SET', KEYS[2], 1, 'PX', ARGV[2])
if not mode then call('HSET', key, 'mode', 'read') end
call('HSET', key, owner, 1)
keep(key, math.max(call('PTTL', key), ARGV[2]), function()
  call('HDEL', key, owner)
  call('DEL', KEYS[2])
  if not mode then call('DEL', key) end
end)
return granted(0)
