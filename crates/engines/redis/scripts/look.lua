-- Shows lines as they are stored.
--
-- KEYS  the lines, then as many keys of records of breaks
-- Answer: the time in ms; then for each its type, its content, what Redis will keep it for, and the record.
local time = redis.call('TIME')
local out = { time[1] * 1000 + math.floor(time[2] / 1000) }
local n = #KEYS / 2
for i = 1, n do
  local key, kind = KEYS[i], redis.call('TYPE', KEYS[i]).ok
  local content = false
  if kind == 'string' then
    content = redis.call('GET', key)
  elseif kind == 'zset' and '@layout@' == 'native' then
    content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  end
  local record = redis.call('TYPE', KEYS[n + i]).ok == 'string' and redis.call('GET', KEYS[n + i])
  out[#out + 1] = { kind, content, redis.call('PTTL', key), record }
end
return out
