#!lua flags=allow-oom
-- Says where a claim stands, and proves its life. Never enters.
-- On a server out of memory, too: a hold can be asked about there.
--
-- KEYS  1 the line   2 the mark, in a cluster, if a fence may be minted: see clock.lua
-- ARGV  1 the claim  2 a fence to raise its own to, or nothing
--@include clock.lua
--@include lean.lua
--@include line.lua
local mine = ARGV[1]
floor = tonumber(ARGV[2])
if redis.call('EXISTS', key) == 0 then return { 'g' } end
if not is_open() then
  local value = redis.call('GET', key)
  if id(value) ~= id(mine) then return { 'g' } end
  return confirm_lean(value, mine)
end
pass_over_the_dead()
advance()
local score = find(mine, true)
if not score then return { 'g' } end
return standing(mine, score)
