-- What the scripts of Redisson's objects share: the counter, and the channel.
local NONUMBER = 'NONUMBER the counter is no number'
-- The counter as a number: 0 if there is none, nil if it is something else.
local function counted(value)
  if not value then return 0 end
  return string.match(value, '^%-?%d+$') and tonumber(value)
end
-- In a cluster there is no channel where it would be in another slot than the key.
local function tell(channel, payload)
  if channel ~= '' then redis.call('@tell@', channel, payload) end
end
