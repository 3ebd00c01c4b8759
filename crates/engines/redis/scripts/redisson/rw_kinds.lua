-- RReadWriteLock: a hash with its mode, a count for each owner, and beside it a key with the lease of each read hold.
--
-- The keys of read holds: what is before the owner, and what is after it.
local function hold_key(before, reader, number) return before .. ':' .. reader .. ':rwlock_timeout:' .. number end

-- A count may be any number that somebody has written there: so many holds are looked at, and the server stays with us.
local MOST = 1000
local function holds(count) return math.min(tonumber(count) or 0, MOST) end

-- What is left of a reader's longest hold, ms: 0 if none is. One with more than can be looked at is as alive as the lock.
local function reader_left(lock, before, reader, count)
  local left = (tonumber(count) or 0) > MOST and math.max(redis.call('PTTL', lock), 1) or 0
  for number = 1, holds(count) do left = math.max(left, redis.call('PTTL', hold_key(before, reader, number))) end
  return left
end

-- Drops readers whose leases are over, and says how long the last of the others has. Writers are left alone.
local function drop_dead_readers(lock, before)
  local fields, longest, dead = redis.call('HGETALL', lock), 0, {}
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field ~= 'mode' and string.sub(field, -6) ~= ':write' then
      local left = reader_left(lock, before, field, fields[i + 1])
      if not string.find(field, ':', 1, true) then
        error({ err = 'FOREIGN what is stored there is no lock: an owner has a colon' })
      end
      if left <= 0 then dead[#dead + 1] = field end
      longest = math.max(longest, left)
    end
  end
  for _, field in ipairs(dead) do redis.call('HDEL', lock, field) end
  return longest
end
