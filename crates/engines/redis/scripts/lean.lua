-- A line of one: a string, the claim and, if the grant was stamped, '|' and its fence. Redis itself ends it.
--
-- A claim is session (32 hex digits), number (12), then :kept:kind:weight:capacity:ttl:lease:note. Kept has four digits, so
-- the kind is the 51st character: m for a mutex without a lease.
--
-- Answers: {'h', fence, what is left of a lease or -1}   it is held
--          {'q', how many are ahead, how long to sleep}  it waits
--          {'w', how long to sleep}                      it took no place, and is told of changes
--          {'r'} refused   {'g'} gone   {'c', capacity} in use with another capacity
--          {'m'} nothing is known before a fence is minted: ask again and name the mark
local key = KEYS[1]
local floor

local function id(text) return string.sub(text, 1, 44) end
local function bare(text) return string.match(text, '^[^|]*') end

local function read(text)
  local kept, weight, capacity, ttl, lease = string.match(text, '^%x+:(%d+):%a:(%d+):(%d+):(%d+):(%d+):')
  if not kept or string.sub(text, 45, 45) ~= ':' then error({ err = 'FOREIGN what is stored there is no lock' }) end
  return {
    kept = tonumber(kept), weight = tonumber(weight), capacity = tonumber(capacity),
    ttl = tonumber(ttl), lease = tonumber(lease)
  }
end

local function mint() return lifted(redis.call('INCR', mark)) end

-- What a holder has left, ms. One whose expiry somebody took away has all its time: it was never told of an end.
local function left_of(info)
  local left = redis.call('PTTL', key)
  if left == -1 then return info.lease > 0 and info.lease or info.ttl end
  return math.max(left, 1)
end

-- How long to wait for a key with so much left, ms: what never ends, or has ended, is polled.
local function how_long(left) return left < 0 and -1 or left + 1 end

--@include prolong.lua

-- A higher fence than its own may be asked for.
local function raised(fence)
  if not floor or floor <= fence then return fence end
  check_fence(floor)
  if floor > tonumber(redis.call('GET', mark) or 0) then redis.call('SET', mark, int(floor)) end
  return floor
end

-- Whether a fence cannot be told without the mark, and that was not named.
local function needs_mark(known) return not mark and (not known or (floor and floor > known)) end

-- The only holder asks, or repeats itself.
local function confirm_lean(value, mine)
  local info = read(mine)
  local known = tonumber(string.match(value, '|(%d+)$'))
  if needs_mark(known) then return { 'm' } end
  local fence = raised(known or mint())
  local left = info.ttl
  if info.lease > 0 then left = left_of(info) end
  redis.call('SET', key, mine .. '|' .. int(fence), 'PX', left)
  return { 'h', fence, info.lease > 0 and left or -1 }
end
