-- Time, and the fences that are minted by it.
local mark = KEYS[2] or '@mark@'
-- Whole numbers, quicker than what Redis makes of them.
local function int(n) return string.format('%d', n) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- The hybrid clock: a mark that lags behind the time is set to it.
local function lifted(fence)
  local us = time[1] * 1000000 + time[2]
  if fence + 1000 >= us then return fence end
  redis.call('SET', mark, int(us))
  return us
end
