-- RPermitExpirableSemaphore: a counter, and a sorted set of permits by their expiry, ms. A permit is 16 bytes; those of one
-- claim of ours begin with the same twelve. Redisson goes by its clients' clocks, we by the server's.
local function permit(base, number)
  if #base == 16 then return base end
  local bytes = {}
  for place = 4, 1, -1 do
    bytes[place] = number % 256
    number = math.floor(number / 256)
  end
  return base .. string.char(unpack(bytes))
end
local now
do
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function ms(number) return string.format('%d', number) end
