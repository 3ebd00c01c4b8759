#!lua flags=allow-oom
-- Says whether a value of ours is there, and proves its life. Never sets it.
-- On a server out of memory, too: a hold can be asked about there.
--
-- KEYS  1 the key    2 the mark, in a cluster, if a fence may be minted: see clock.lua
-- ARGV  1 the value  2 a fence to raise its own to, or nothing
--@include clock.lua
--@include lean.lua
floor = tonumber(ARGV[2])
local value = redis.call('GET', key)
if not value or id(value) ~= id(ARGV[1]) then return { 'g' } end
return confirm_lean(value, ARGV[1])
