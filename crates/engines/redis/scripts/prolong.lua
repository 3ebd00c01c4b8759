-- What is stored of a claim, with the ttl that it is renewed for. Its note stays: a renewal may be older than that.
local function prolonged(stored, mine)
  local times, ttl = string.sub(mine, 46, 49), string.match(mine, '^%x+:%d+:%a:%d+:%d+:(%d+)')
  return (string.gsub(stored, '^(%x+:)%d+(:%a:%d+:%d+:)%d+', '%1' .. times .. '%2' .. ttl, 1))
end
