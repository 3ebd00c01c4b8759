-- Who sets free what an owner with a name of another form holds knows the hash of that, without the ending of a writer.
local owner = ARGV[1]
if string.sub(owner, 1, 1) == '#' then
  local hash, ending = string.sub(owner, 2, 33), string.sub(owner, 34)
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local name = string.sub(field, 1, #field - #ending)
    if name .. ending == field and string.sub(redis.sha1hex(name), 1, 32) == hash then owner = field end
  end
end
