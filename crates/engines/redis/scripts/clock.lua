-- Time, and the fences that are minted by it.
--
-- Every fence comes from the mark, a key beside the line. While a slot of a cluster moves, a call that names keys on both
-- nodes is refused, so what is held must not need the mark to be kept: there a call names it only if it is to mint, and
-- where it is not named `mark` is nil. Such a call renews, confirms and removes as any other, but makes nobody the holder.
-- That is safe: a claim that is not promoted yet only waits longer, and no fence is given that the mark does not know of.
local mark = KEYS[2] or '@mark@'
-- Whole numbers, quicker than what Redis makes of them.
local function int(n) return string.format('%d', n) end
local time = redis.call('TIME')
local now, us = time[1] * 1000 + math.floor(time[2] / 1000), time[1] * 1000000 + time[2]
-- No fence is ahead of the time by more than this, us; so a mark that was lost begins again ahead by as much.
local LEAD = 20000
-- Above 2^53 numbers are not exact here, and two fences could be the same.
local function check_fence(fence)
  if fence >= 9007199254740992 then error({ err = 'FOREIGN what is stored in the mark is no fence' }) end
end
-- The hybrid clock: a mark that lags behind the time is set to it. `fence` is the answer to an INCR of the mark.
local function lifted(fence)
  if type(fence) == 'table' then error(fence) end
  check_fence(fence)
  if fence + 1000 >= us then return fence end
  if fence < 1000000000000000 then us = us + LEAD end
  redis.call('SET', mark, int(us))
  return us
end
