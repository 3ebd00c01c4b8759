-- Shows Redisson's locks.
--
-- KEYS  for each lock: it, its queue, its permits, the record of its last break, its token
-- ARGV  1 what the keys of cards begin with; then for each lock what the keys of read holds begin with
-- Answer: the time in ms; then for each its type, its capacity, the record, its token, and its places: h(eld) or q(ueued), the
--         owner, what is left, ms, its card and its count.
--@include redisson/rw_kinds.lua
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out = { now }
-- A hash with more fields is not taken for a lock.
local READERS = 10000
for i = 1, #KEYS, 5 do
  local lock, queue, permits, record, token = unpack(KEYS, i, i + 4)
  local before, kind, capacity, places = ARGV[1 + (i + 4) / 5], redis.call('TYPE', lock).ok, 1, {}
  local function show(state, owner, left, count)
    local card = redis.call('TYPE', ARGV[1] .. owner).ok == 'string' and redis.call('GET', ARGV[1] .. owner)
    places[#places + 1] = { state, owner, left, card, tonumber(count) or 0 }
  end
  if kind == 'hash' then
    local left = redis.call('PTTL', lock)
    local mode, size = redis.call('HGET', lock, 'mode'), redis.call('HLEN', lock)
    if mode == 'read' or mode == 'write' then capacity = 4294967295 end
    -- Anybody's data may lie there, and of any size: an RLock has one field.
    local is_lock = size == 1 or (capacity > 1 and size <= READERS)
    if not is_lock then places[1] = false end
    local fields = is_lock and redis.call('HGETALL', lock) or {}
    for f = 1, #fields, 2 do
      local field = fields[f]
      if capacity == 1 or string.sub(field, -6) == ':write' then
        show('h', field, left, fields[f + 1])
      elseif field ~= 'mode' then
        local lives = reader_left(lock, before, field, fields[f + 1])
        if lives > 0 then show('h', field, lives, fields[f + 1]) end
      end
    end
  elseif kind == 'string' and redis.call('TYPE', permits).ok == 'zset' then
    local all = redis.call('ZRANGE', permits, '(' .. string.format('%d', now), '+inf', 'BYSCORE', 'WITHSCORES')
    capacity = (tonumber(redis.call('GET', lock)) or 0) + redis.call('ZCARD', permits)
    for p = 1, #all, 2 do
      -- What a claim of ours takes begins alike; Redisson's stand alone.
      local hex = string.gsub(all[p], '.', function(byte) return string.format('%02x', string.byte(byte)) end)
      local base = string.sub(hex, 1, 24)
      local ours = redis.call('EXISTS', ARGV[1] .. base) == 1
      if not ours or string.sub(hex, 25) == '00000000' then show('h', ours and base or hex, all[p + 1] - now, 1) end
    end
  end
  if kind ~= 'string' and redis.call('TYPE', queue).ok == 'list' then
    for _, owner in ipairs(redis.call('LRANGE', queue, 0, -1)) do show('q', owner, -1, 1) end
  end
  local broken = redis.call('TYPE', record).ok == 'string' and redis.call('GET', record)
  local number = redis.call('TYPE', token).ok == 'string' and tonumber(redis.call('GET', token)) or 0
  out[#out + 1] = { kind, capacity, broken, number, places }
end
return out
