--@include prolong.lua
-- Keeps what is known beside Redisson's keys. `card` is nothing where that is nothing.
local function keep_card(card, claim, ttl)
  local known = card and card ~= '' and redis.call('GET', card)
  if known then redis.call('SET', card, prolonged(known, claim), 'PX', ttl) end
end
