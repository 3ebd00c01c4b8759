-- Who sets free what an owner with a name of another form holds knows the hash of that.
local owner = ARGV[1]
if string.sub(owner, 1, 1) == '#' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(redis.sha1hex(field), 1, 32) == string.sub(owner, 2) then owner = field end
  end
end
