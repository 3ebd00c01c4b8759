-- What the forms of Redisson's locks have in common.
--
-- ARGV  1 the owner, client:thread  2 how long it is held: its lease or its ttl, ms
--       3 what to do: n(othing), w(atch) or l(ine) if it cannot be had, ? to ask only; then o if others of this process
--         watch the lock, f if it has a lease  4 a fence to raise its own to, or nothing
--       5 the key of its card, 6 the card: what Redisson's keys have no room for. Or nothing
-- Answer: see lean.lua; a bare integer is the fence of a grant, 0 for one beside others.
local key, owner, how = KEYS[1], ARGV[1], ARGV[3]
local call, wait = redis.call, string.sub(how, 1, 1)
local WHOLE = 4294967295

local function is(letter) return string.find(how, letter, 2, true) end

--@include rights.lua

-- What every grant comes to.
local function check_grant()
  check_rights({ { 'PEXPIRE', key, 1 }, { 'PTTL', key } })
  if ARGV[6] ~= '' then check_rights({ { 'SET', ARGV[5], 'x' } }) end
  if is('o') then check_rights({ { 'EXISTS', key } }) end
end

-- What is wrong with a card is no reason to stop half-way.
local function leave_card()
  if ARGV[6] ~= '' then redis.pcall('SET', ARGV[5], ARGV[6], 'PX', ARGV[2]) end
end

-- Others of this process watch it: what is read is tracked.
local function granted(token)
  leave_card()
  if is('o') then call('EXISTS', key) end
  return token
end

-- Nothing without its expiry: who may not set that takes nothing.
local function keep(name, ms, undo)
  local set = redis.pcall('PEXPIRE', name, ms)
  if type(set) == 'table' then
    undo()
    error(set)
  end
end

-- What is there is another kind of lock: its capacity.
local function other_kind()
  local kind = call('TYPE', key).ok
  if kind == 'hash' then return call('HEXISTS', key, 'mode') == 1 and WHOLE or 1 end
  local count = kind == 'string' and tonumber(call('GET', key))
  if count then return count + call('ZCARD', ARGV[7]) end
  error({ err = 'FOREIGN what is stored there is no lock, but a ' .. kind })
end

-- It is ours: asked about, or sent again. `left`: of its time, ms.
local function confirmed(token, left)
  local number, floor = tonumber(token and call('GET', token)) or 0, tonumber(ARGV[4])
  if token and floor and floor > number then
    call('SET', token, ARGV[4])
    number = floor
  end
  leave_card()
  return { 'h', number, is('f') and math.max(left, 1) or -1 }
end

-- `left` is how long it stays as it is: -1 if nobody knows.
local function turned_away(left)
  if wait == 'n' then return { 'r' } end
  return { 'w', left < 0 and 60000 or left + 1 }
end
