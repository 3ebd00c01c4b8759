#!lua flags=allow-oom
-- Proves the life of RLocks.
-- On a server out of memory, too: what is held is kept there.
--
-- KEYS  the locks, one for each owner
-- ARGV  1 the ttl of them all, ms, or nothing if they have leases; then the owners; then as many keys of cards
--       and as many cards, or none
-- Answer: for each 0 gone, 1 held, -1 not understood.
--@include redisson/card.lua
local call, count, ttl, answers = redis.call, #KEYS, ARGV[1], {}
for i = 1, count do
  local held = redis.pcall('HEXISTS', KEYS[i], ARGV[i + 1])
  if held == 1 and ttl ~= '' then
    call('PEXPIRE', KEYS[i], ttl)
    keep_card(ARGV[i + 1 + count], ARGV[i + 1 + 2 * count], ttl)
  end
  answers[i] = type(held) == 'table' and -1 or held
end
return answers
