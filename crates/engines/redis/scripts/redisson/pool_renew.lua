#!lua flags=allow-oom
-- Proves the life of permits.
-- On a server out of memory, too: what is held is kept there.
--
-- KEYS  the permits, one for each claim
-- ARGV  1 the ttl of them all, ms, or nothing if they have leases; then what they begin with; then as many keys of cards
--       and as many cards; then how many each has
-- Answer: for each 0 gone, 1 held, -1 not understood.
--@include redisson/card.lua
--@include redisson/pool_ids.lua
local call, count, ttl, answers = redis.call, #KEYS, ARGV[1], {}
local weights = #ARGV - count
for i = 1, count do
  local base = ARGV[i + 1]
  local score = redis.pcall('ZSCORE', KEYS[i], permit(base, 0))
  if type(score) == 'table' then
    answers[i] = -1
  elseif not score or score - now <= 0 then
    answers[i] = 0
  else
    answers[i] = 1
    if ttl ~= '' then
      for number = 0, ARGV[weights + i] - 1 do call('ZADD', KEYS[i], 'XX', ms(now + ttl), permit(base, number)) end
      keep_card(ARGV[i + 1 + count], ARGV[i + 1 + 2 * count], ttl)
    end
  end
end
return answers
