#!lua flags=allow-oom
-- Releases a reader or the writer of an RReadWriteLock, whatever its count is.
-- On a server out of memory, too: what is held can be given back there.
--
-- KEYS  1 the lock
-- ARGV  1 the owner  2 the key of its card, or nothing  3 Redisson's channel  4 to 8 as in mutex_leave.lua, or nothing;
--       last what the keys of read holds begin with
-- Answer: 1 if it was there, else 0.
--@include redisson/rw_kinds.lua
--@include redisson/owner.lua
local call, key, before = redis.call, KEYS[1], ARGV[#ARGV]
local writes = string.sub(owner, -6) == ':write'
local count = call('HGET', key, owner)
if not count then return 0 end
call('HDEL', key, owner)
if not writes then
  for number = 1, holds(count) do call('DEL', hold_key(before, owner, number)) end
end
if ARGV[2] ~= '' then call('DEL', ARGV[2]) end
local longest = drop_dead_readers(key, before)
if longest > 0 then
  -- Redisson does not tell of the change from writer to readers, and lets readers sleep.
  if writes then
    call('HSET', key, 'mode', 'read')
    redis.call('@tell@', ARGV[3], '1')
  end
  if call('HGET', key, 'mode') == 'read' then call('PEXPIRE', key, longest) end
elseif call('HLEN', key) <= 1 then
  call('DEL', key)
  redis.call('@tell@', ARGV[3], writes and '1' or '0')
end
if #ARGV > 4 then
  --@include redisson/break.lua
end
return 1
