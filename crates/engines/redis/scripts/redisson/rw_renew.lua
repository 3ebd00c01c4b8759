#!lua flags=allow-oom
-- Proves the life of readers and writers.
-- On a server out of memory, too: what is held is kept there.
--
-- KEYS  the locks, one for each owner; then as many keys of read holds: of a writer the lock again
-- ARGV  1 the ttl of them all, ms, or nothing if they have leases; then the owners; then as many keys of cards
--       and as many cards, or none
-- Answer: for each 0 gone, 1 held, -1 not understood.
--@include redisson/card.lua
local call, count, ttl, answers = redis.call, #KEYS / 2, ARGV[1], {}
for i = 1, count do
  local lock, hold, owner = KEYS[i], KEYS[i + count], ARGV[i + 1]
  local held = redis.pcall('HEXISTS', lock, owner)
  if held == 1 and call('EXISTS', hold) == 0 then
    -- A reader whose time is over does not come back.
    call('HDEL', lock, owner)
    if call('HLEN', lock) == 1 then call('DEL', lock) end
    held = 0
  end
  if held == 1 and ttl ~= '' then
    call('PEXPIRE', hold, ttl)
    if hold ~= lock then call('PEXPIRE', lock, math.max(call('PTTL', lock), ttl)) end
    keep_card(ARGV[i + 1 + count], ARGV[i + 1 + 2 * count], ttl)
  end
  answers[i] = type(held) == 'table' and -1 or held
end
return answers
