#!lua flags=allow-oom
-- Proves the life of claims, and advances the lines they stand in.
-- On a server out of memory, too: what is held is kept there.
--
-- KEYS  the lines, one for each claim; last the mark
-- ARGV  1 the ttl of them all, ms, or nothing if they have leases of their own; then the claims
-- Answer: for each 0 gone, 1 held, 2 waiting, -1 not understood.
local ttl, answers, rest = ARGV[1], {}, {}
for i = 1, #KEYS - 1 do
  local mine, value = ARGV[i + 1], redis.pcall('GET', KEYS[i])
  if not value then
    answers[i] = 0
  elseif ttl ~= '' and type(value) == 'string' and string.find(value, mine, 1, true) == 1 then
    redis.call('PEXPIRE', KEYS[i], ttl)
    answers[i] = 1
  else
    rest[#rest + 1] = i
  end
end
if #rest == 0 then return answers end
--@include clock.lua
--@include lean.lua
--@include line.lua
mark = KEYS[#KEYS]
for _, i in ipairs(rest) do
  key = KEYS[i]
  -- What is no lock of ours is the trouble of one claim only.
  local fine, answer = pcall(renew, ARGV[i + 1])
  answers[i] = fine and answer or -1
end
return answers
