-- The queue of a fair lock: a list of owners, and a sorted set of the times until which each is waited for, ms. Redisson
-- drops who is first and late, and whoever gets the lock takes its own waiting time off those behind it. So everybody
-- stands there for the time of who is ahead and its own.
--
-- Ours prove their life every second or two, and stand in a third key with the time until which that holds; so does who
-- holds the lock, if it is one of ours. What one of Redisson's would take off is guessed from its default; of ours it is
-- what they take off at the most, and not what is left of their proof: that is less each time.
--
-- KEYS  1 the lock   2 the list   3 the times   4 ours
local FOREIGN, OURS = 300000, 5000
local queue, times, ours = KEYS[2], KEYS[3], KEYS[4]
local now
do
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function ms(number) return string.format('%d', number) end

local function drop(one)
  redis.call('LREM', queue, 0, one)
  redis.call('ZREM', times, one)
  redis.call('ZREM', ours, one)
end

-- From the head on, as Redisson does; but of ours those who are silent, and nobody else. True if there was anyone.
local function purge()
  local dropped = false
  while true do
    local head = redis.call('LINDEX', queue, 0)
    if not head then return dropped end
    local stays = redis.call('ZSCORE', ours, head) or redis.call('ZSCORE', times, head)
    if stays and stays - now > 0 then return dropped end
    drop(head)
    dropped = true
  end
end

-- The lock is free: whoever is first is told, one of Redisson's over `channel`, one of ours over its session's.
local function call_head(channel, mark)
  local head = redis.call('LINDEX', queue, 0)
  if not head or redis.call('EXISTS', KEYS[1]) == 1 then return end
  redis.call('@tell@', channel .. ':' .. head, '0')
  local client, thread = string.match(head, '^(.+):(%d+)$')
  if client and redis.call('ZSCORE', ours, head) then
    local id = string.format('%012x', tonumber(thread))
    redis.call('@publish@', mark .. ':' .. string.gsub(client, '-', ''), 'a' .. id .. KEYS[1])
  end
end

-- How many are ahead, and how long they may take; nil if it is not there.
local function ahead_of(one)
  local ahead = redis.call('LPOS', queue, one)
  if not ahead then return end
  local known, span = {}, 0
  for _, each in ipairs(redis.call('ZRANGE', ours, 0, -1)) do known[each] = true end
  for i, other in ipairs(redis.call('LRANGE', queue, 0, ahead)) do
    if i <= ahead then span = span + (known[other] and OURS or FOREIGN) end
  end
  return ahead, span
end

-- Forgets those of ours who held the lock until their time was over.
local function forget_lost()
  for _, each in ipairs(redis.call('ZRANGE', ours, '-inf', ms(now), 'BYSCORE')) do
    if not redis.call('LPOS', queue, each) then redis.call('ZREM', ours, each) end
  end
end

-- One of ours lives for so long, ms.
local function note(one, span)
  redis.call('ZADD', ours, ms(now + span), one)
  redis.call('PEXPIRE', ours, ms(2 * span), 'GT')
  if redis.call('PTTL', ours) < 0 then redis.call('PEXPIRE', ours, ms(2 * span)) end
end

-- It lives, and keeps its place. `kept`: for how long that holds, ms.
local function prove(one, kept)
  local ahead, span = ahead_of(one)
  if not ahead then return end
  redis.call('ZADD', times, ms(now + span + kept), one)
  note(one, kept)
  return ahead
end

-- Takes its waiting time off those behind.
local function shift(from, kept)
  local all = redis.call('LRANGE', queue, from, -1)
  for _, other in ipairs(all) do redis.call('ZINCRBY', times, -kept, other) end
end
