#!lua flags=allow-oom
-- Compare and PEXPIRE, for several keys.
-- On a server out of memory, too: what is held is kept there.
--
-- KEYS  the keys, one for each value
-- ARGV  1 the ttl of them all, ms, or nothing if they have leases of their own; then the values
-- Answer: for each 0 gone, 1 held.
--@include prolong.lua
local answers = {}
for i = 1, #KEYS do
  local mine, value = ARGV[i + 1], redis.pcall('GET', KEYS[i])
  answers[i] = 0
  if type(value) == 'string' and string.sub(value, 1, 44) == string.sub(mine, 1, 44) then
    answers[i] = 1
    if ARGV[1] ~= '' then
      if string.find(value, mine, 1, true) == 1 then
        redis.call('PEXPIRE', KEYS[i], ARGV[1])
      else
        redis.call('SET', KEYS[i], prolonged(value, mine), 'PX', ARGV[1])
      end
    end
  end
end
return answers
