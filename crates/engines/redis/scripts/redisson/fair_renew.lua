#!lua flags=allow-oom
-- Proves the life of an owner or a waiter of a fair lock.
-- On a server out of memory, too: what is held is kept there.
--
-- KEYS  1 the lock   2 to 4 see fair_queue.lua
-- ARGV  1 the ttl, ms, or nothing if it has a lease  2 the owner  3 the key of its card, or nothing  4 the card
--       5 how long a place is kept, ms
-- Answer: 0 gone, 1 held, 2 waiting, -1 not understood.
--@include redisson/card.lua
--@include redisson/fair_queue.lua
local held = redis.pcall('HEXISTS', KEYS[1], ARGV[2])
if type(held) == 'table' then return { -1 } end
if held == 1 then
  if ARGV[1] ~= '' then
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    note(ARGV[2], tonumber(ARGV[1]))
    keep_card(ARGV[3], ARGV[4], ARGV[1])
  end
  return { 1 }
end
purge()
return { prove(ARGV[2], tonumber(ARGV[5])) and 2 or 0 }
