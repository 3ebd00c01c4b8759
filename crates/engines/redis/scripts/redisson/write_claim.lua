-- The writer of an RReadWriteLock.
--
-- KEYS  1 the lock   2 the token
-- ARGV  see hold.lua; 7 the key of a semaphore's permits  8 what the keys of read holds begin with
--@include redisson/hold.lua
--@include redisson/rw_kinds.lua
local mode = redis.pcall('HGET', key, 'mode')
if mode and type(mode) == 'string' and call('HEXISTS', key, owner) == 1 then
  if not is('f') then call('PEXPIRE', key, ARGV[2]) end
  return confirmed(KEYS[2], call('PTTL', key))
end
if wait == '?' then return { 'g' } end
if type(mode) == 'table' or (not mode and call('EXISTS', key) == 1) then return { 'c', other_kind() } end
check_grant()
check_rights({ { 'INCR', KEYS[2] }, { 'HSET', key, 'x', 1 }, { 'DEL', key } })
if mode == 'read' then
  local longest = drop_dead_readers(key, ARGV[8])
  if longest > 0 then return turned_away(longest) end
  call('DEL', key)
elseif mode then
  return turned_away(call('PTTL', key))
end
local token = call('INCR', KEYS[2])
call('HSET', key, 'mode', 'write', owner, 1)
keep(key, ARGV[2], function() call('DEL', key) end)
return granted(token)
