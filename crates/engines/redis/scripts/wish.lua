-- Notes that somebody asks the holder of a claim to let go. Nothing is done to the lock.
--
-- KEYS  1 the wishes of the claim's session: the numbers of claims, 12 digits each
-- ARGV  1 the claim's number  2 how long to keep it, ms: what the claim lives for without a renewal, which reads this
local numbers, mine = redis.call('GET', KEYS[1]) or '', ARGV[1]
local is_noted = false
for at = 1, #numbers, 12 do is_noted = is_noted or string.sub(numbers, at, at + 11) == mine end
-- No more than the last hundred: those of past claims are nobody's any more.
if not is_noted then numbers = string.sub(numbers .. mine, -1200) end
-- Those of other claims are kept for as long as they were to be.
local left = math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))
redis.call('SET', KEYS[1], numbers, 'PX', string.format('%d', left))
return 1
