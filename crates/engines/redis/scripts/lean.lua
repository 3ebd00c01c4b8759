-- A line of one: a string, the claim and, if the grant was stamped, '|' and its fence. Redis itself ends it.
--
-- A claim is session (32 hex digits), number (12), then :kept:kind:weight:capacity:ttl:lease:note. Kept has four digits, so
-- the kind is the 51st character: m for a mutex without a lease.
--
-- Answers: {'h', fence, what is left of a lease or -1}   it is held
--          {'q', how many are ahead, how long to sleep}  it waits
--          {'w', how long to sleep}                      it took no place, and is told of changes
--          {'r'} refused   {'g'} gone   {'c', capacity} in use with another capacity
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

--@include prolong.lua

-- A higher fence than its own may be asked for.
local function raised(fence)
  if not floor or floor <= fence then return fence end
  if floor > tonumber(redis.call('GET', mark) or 0) then redis.call('SET', mark, int(floor)) end
  return floor
end

-- The only holder asks, or repeats itself.
local function confirm_lean(value, mine)
  local info = read(mine)
  local fence = raised(tonumber(string.match(value, '|(%d+)$')) or mint())
  local left = info.ttl
  if info.lease > 0 then left = math.max(redis.call('PTTL', key), 1) end
  redis.call('SET', key, mine .. '|' .. int(fence), 'PX', left)
  return { 'h', fence, info.lease > 0 and left or -1 }
end
