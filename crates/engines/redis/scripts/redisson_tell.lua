-- What the scripts of Redisson's objects share: the counter, and the channel.
local NONUMBER = 'NONUMBER the counter is no number'
-- The counter as a number: 0 if there is none, nil if it is something else.
local function counted(value)
  if not value then return 0 end
  return string.match(value, '^%-?%d+$') and tonumber(value)
end
-- Whoever may not tell changes nothing: a script that stops half-way is not undone.
local NOTELL = { err = 'NOPERM this user may not publish to the channel of this object' }
local function check_tell(channel)
  if channel ~= '' and not redis.acl_check_cmd('@tell@', channel, '0') then error(NOTELL) end
end
-- In a cluster there is no channel where it would be in another slot than the key.
local function tell(channel, payload)
  if channel ~= '' then redis.call('@tell@', channel, payload) end
end
