-- Time and expiry of permits, after redisson_tell.lua. KEYS 1 is the counter, 2 the permits that are out, by expiry;
-- ARGV 1 the channel.
--
-- The time is the server's. Redisson takes the client's, so its own clients already have to agree with each other about
-- it; what counts on the wire is a moment since 1970 in ms, and the server's clock is as good a judge of that as any of
-- theirs, and the same one for all of us.
local NEVER = 922337203685477
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- When a lease from now on ends; nothing for one without an end.
local function expiry(lease)
  local at = lease == '' and NEVER or math.min(now + tonumber(lease), NEVER)
  return string.format('%.0f', at)
end
-- Takes back what has expired, at most so many. Whoever comes by does it.
local function reclaim(most)
  local expired = redis.call('ZRANGEBYSCORE', KEYS[2], 0, string.format('%.0f', now), 'LIMIT', 0, most)
  if #expired == 0 then return end
  -- Before the first write: what is taken out must be counted.
  if not redis.acl_check_cmd('INCRBY', KEYS[1], 1) then error({ err = 'NOPERM this user may not run incrby' }) end
  check_tell(ARGV[1])
  for _, id in ipairs(expired) do redis.call('ZREM', KEYS[2], id) end
  local value = redis.call('INCRBY', KEYS[1], #expired)
  if value > 0 then tell(ARGV[1], value) end
end
