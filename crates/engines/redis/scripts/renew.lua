#!lua flags=allow-oom
-- Proves the life of claims, and advances the lines they stand in.
-- On a server out of memory, too: what is held is kept there.
--
-- KEYS  the lines, one for each claim; then the mark, if those who fit are to be made holders: see clock.lua
-- ARGV  1 the ttl of them all, ms, or nothing if they have leases of their own; then the claims
-- Answer: for each 0 gone, 1 held, 2 waiting, -1 not understood; a bare 1 if all are held. One more number at the end if
--         somebody is to be made a holder by a call that names the mark.
local call, ttl, count = redis.call, ARGV[1], #ARGV - 1
-- Nothing is said for what is no line of one.
local values, rest = call('MGET', unpack(KEYS, 1, count)), {}
for i = 1, count do
  local value = values[i]
  if value and ttl ~= '' and string.find(value, ARGV[i + 1], 1, true) == 1 then
    call('PEXPIRE', KEYS[i], ttl)
  else
    rest[#rest + 1] = i
  end
end
if #rest == 0 then return 1 end
local answers = {}
for i = 1, count do answers[i] = 1 end
--@include clock.lua
--@include lean.lua
--@include line.lua
mark = KEYS[count + 1]
for _, i in ipairs(rest) do
  key = KEYS[i]
  -- What is no lock of ours is the trouble of one claim only.
  local fine, answer = pcall(renew, ARGV[i + 1])
  answers[i] = fine and answer or -1
end
if owed then answers[count + 1] = 1 end
return answers
