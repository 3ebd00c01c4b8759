--@include prolong.lua
-- Keeps what is known beside Redisson's keys. `card` is nothing where that is nothing.
local function keep_card(card, claim, ttl)
  local known = card and card ~= '' and redis.pcall('GET', card)
  -- What is wrong with one card is no reason to lose a lock, or those that are renewed with it.
  if type(known) == 'string' then redis.pcall('SET', card, prolonged(known, claim), 'PX', ttl) end
end
