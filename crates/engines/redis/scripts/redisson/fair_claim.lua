-- Redisson's fair lock.
--
-- KEYS  1 the lock   2 to 4 see fair_queue.lua   5 the token
-- ARGV  see hold.lua; 7 the key of a semaphore's permits  8 how long its place is kept, ms  9 Redisson's channel, before a
--       waiter's name  10 what the channels of sessions begin with
--@include redisson/hold.lua
--@include redisson/fair_queue.lua
local kept = tonumber(ARGV[8])
local mine = redis.pcall('HEXISTS', key, owner)
if mine == 1 then
  if not is('f') then call('PEXPIRE', key, ARGV[2]) end
  return confirmed(KEYS[5], call('PTTL', key))
end
if type(mine) == 'table' or call('HEXISTS', key, 'mode') == 1 then return { 'c', other_kind() } end
check_grant()
check_rights({
  { 'INCR', KEYS[5] }, { 'HSET', key, 'x', 1 }, { 'HKEYS', key }, { 'EXISTS', key }, { 'LINDEX', queue, 0 },
  { 'LPOS', queue, 'x' }, { 'LLEN', queue }, { 'LRANGE', queue, 0, 0 }, { 'LREM', queue, 0, 'x' }, { 'RPUSH', queue, 'x' },
  { 'ZADD', times, 0, 'x' }, { 'ZREM', times, 'x' }, { 'ZINCRBY', times, 0, 'x' }, { 'ZSCORE', times, 'x' },
  { 'ZADD', ours, 0, 'x' }, { 'ZREM', ours, 'x' }, { 'ZRANGE', ours, 0, 0 }, { 'ZSCORE', ours, 'x' }, { 'ZCARD', ours },
  { 'PEXPIRE', ours, 1 }, { 'PTTL', ours }, { '@publish@', ARGV[10] .. ':x', 'x' }
})
check_rights({ { '@tell@', ARGV[9] .. ':x', 'x' } })
local purged = purge()
local head = call('LINDEX', queue, 0)
local stands = call('LPOS', queue, owner)
if wait == '?' and not stands then return { 'g' } end
if (not head or head == owner) and call('EXISTS', key) == 0 then
  local token = call('INCR', KEYS[5])
  call('HSET', key, owner, 1)
  keep(key, ARGV[2], function() call('DEL', key) end)
  if head then
    drop(owner)
    shift(0, kept)
  end
  forget_lost()
  note(owner, tonumber(ARGV[2]))
  if wait == '?' then
    leave_card()
    return { 'h', token, is('f') and tonumber(ARGV[2]) or -1 }
  end
  return granted(token)
end
local left = call('PTTL', key)
if wait == 'n' or wait == 'w' then return turned_away(left) end
local lives = call('ZSCORE', ours, owner)
if not stands then call('RPUSH', queue, owner) end
local ahead = stands
if not stands or not lives or lives - now < kept / 2 then ahead = prove(owner, kept) end
-- Whether everybody ahead is one of ours, who tells the next one by name.
local holder = call('HKEYS', key)[1]
local holds = holder and call('ZSCORE', ours, holder)
local told = (holds or not holder) and call('ZCARD', ours) == call('LLEN', queue) + (holds and 1 or 0)
if left == -2 then
  -- It is the turn of another one, who may not know.
  if purged then call_head(ARGV[9], ARGV[10]) end
  return { 'q', ahead, 100, 0, head }
end
return { 'q', ahead + 1, ahead == 0 and left >= 0 and left + 1 or kept, told and 1 or 0 }
