-- RLock with RFencedLock's token.
--
-- KEYS  1 the lock, a hash of its owner   2 the token
-- ARGV  see hold.lua; 7 the key of a semaphore's permits
if string.sub(ARGV[3], 1, 1) ~= '?' and redis.call('EXISTS', KEYS[1]) == 0 then
  -- Nothing is written that cannot be given its expiry and its card.
  if not redis.acl_check_cmd('PEXPIRE', KEYS[1], 1) or (ARGV[6] ~= '' and not redis.acl_check_cmd('SET', ARGV[5], 'x')) then
    error({ err = 'NOPERM this user may not run pexpire, or set where a reason is kept' })
  end
  local token = redis.call('INCR', KEYS[2])
  redis.call('HSET', KEYS[1], ARGV[1], 1)
  local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if set == 1 and ARGV[6] == '' and not string.find(ARGV[3], 'o', 2, true) then return token end
  --@include redisson/hold.lua
  keep(key, ARGV[2], function() call('DEL', key) end)
  return granted(token)
end
--@include redisson/hold.lua
local mine = redis.pcall('HEXISTS', key, owner)
if mine == 1 then
  if not is('f') then call('PEXPIRE', key, ARGV[2]) end
  return confirmed(KEYS[2], call('PTTL', key))
end
if wait == '?' then return { 'g' } end
if type(mine) == 'table' or call('HEXISTS', key, 'mode') == 1 then return { 'c', other_kind() } end
return turned_away(call('PTTL', key))
