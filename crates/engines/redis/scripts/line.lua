-- A line of more than one: a sorted set, made of the string as soon as somebody waits or holds beside. By score:
--   below 0           a claim that is held: minus its expiry, ms
--   0 to WAITING      what is known of claims, under a capital letter and the claim: F its fence, X until when a renewed
--                     waiter is kept, P a pushed grant whose lease has not begun; and U, the capacity in use (not of 1)
--   WAITING and more  a claim that waits: when it entered, us
local WAITING = 4000000000000000
local FROM, ALL_HELD = '4000000000000000', '(0'
local found

local function is_open()
  local kind = redis.call('TYPE', key).ok
  if kind == 'zset' then return true end
  if kind == 'string' then return false end
  error({ err = 'FOREIGN what is stored there is no lock, but a ' .. kind })
end

-- The line must not vanish under those who stand in it.
local function outlive(info)
  redis.call('PEXPIRE', key, 2 * math.max(info.ttl, info.lease) + 1000, 'GT')
end

local function hold(claim, info, expires, fence)
  if fence then
    redis.call('ZADD', key, int(-expires), claim, int(fence), 'F' .. claim)
  else
    redis.call('ZADD', key, int(-expires), claim)
  end
  if info.capacity > 1 then redis.call('ZINCRBY', key, info.weight, 'U') end
end

--@include rights.lua

-- All that entering a line may come to.
local function check_line()
  check_rights({
    { 'DEL', key }, { 'ZADD', key, 0, 'x' }, { 'ZREM', key, 'x' }, { 'ZRANGE', key, 0, 0 }, { 'ZSCORE', key, 'x' },
    { 'ZCOUNT', key, 0, 0 }, { 'ZINCRBY', key, 0, 'x' }, { 'PEXPIRE', key, 1 }, { 'PTTL', key }, { 'EXISTS', key },
    { 'SET', key, 'x' }, { 'INCR', mark }, { 'SET', mark, 1 }, { '@publish@', mark .. ':x', 'x' }
  })
end

-- From one holder to a line.
local function open(value)
  local claim = bare(value)
  local info = read(claim)
  local left = left_of(info)
  redis.call('DEL', key)
  hold(claim, info, now + left, tonumber(string.match(value, '|(%d+)$')))
  redis.call('PEXPIRE', key, 2 * math.max(info.ttl, info.lease) + 1000)
end

local function remove(claim, score)
  redis.call('ZREM', key, claim, 'F' .. claim, 'X' .. claim, 'P' .. claim)
  if score < 0 then
    local info = read(claim)
    if info.capacity > 1 then redis.call('ZINCRBY', key, -info.weight, 'U') end
  end
end

local function used(capacity)
  if capacity == 1 then return redis.call('ZCOUNT', key, '-inf', ALL_HELD) end
  return tonumber(redis.call('ZSCORE', key, 'U') or 0)
end

local function tell(claim, word)
  redis.call('@publish@', (mark or ARGV[4]) .. ':' .. string.sub(claim, 1, 32), word)
end

-- Drops holders whose time is up. Waiters are judged when they reach the head.
local function pass_over_the_dead()
  for _, claim in ipairs(redis.call('ZRANGE', key, int(-now), ALL_HELD, 'BYSCORE')) do
    remove(claim, -1)
  end
end

-- Whether somebody fits who was not made a holder, for want of the mark.
local owed = false

-- Makes holders of those who fit now, and tells them.
local function advance()
  while true do
    local head = redis.call('ZRANGE', key, FROM, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    local claim = head[1]
    if not claim then break end
    local info = read(claim)
    local renewed = redis.call('ZSCORE', key, 'X' .. claim)
    local lives = tonumber(renewed) or (head[2] - WAITING) / 1000 + info.kept
    if lives <= now then
      redis.call('ZREM', key, claim, 'X' .. claim)
    elseif used(info.capacity) + info.weight > info.capacity then
      return
    elseif not mark then
      owed = true
      return
    else
      local fence = mint()
      if renewed then redis.call('ZREM', key, 'X' .. claim) end
      hold(claim, info, now + info.kept, fence)
      if info.lease > 0 then redis.call('ZADD', key, 0, 'P' .. claim) end
      tell(claim, 'g' .. string.sub(claim, 33, 44) .. int(fence))
    end
  end
  if redis.call('ZCOUNT', key, '-inf', ALL_HELD) == 0 then redis.call('DEL', key) end
end

-- The claim's score, and in `found` the text it stands there under: a holder may have got another note or ttl.
local function find(claim, thoroughly)
  found = claim
  local score = redis.call('ZSCORE', key, claim)
  if score or not thoroughly then return tonumber(score) end
  local all = redis.call('ZRANGE', key, '-inf', ALL_HELD, 'BYSCORE', 'WITHSCORES')
  for i = 1, #all, 2 do
    if id(all[i]) == id(claim) then
      found = all[i]
      return tonumber(all[i + 1])
    end
  end
end

local function queued(claim, score, info)
  local ahead = redis.call('ZCOUNT', key, FROM, '(' .. int(score))
  local sleep = info.kept
  if ahead == 0 then
    local soonest = redis.call('ZRANGE', key, ALL_HELD, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
    if soonest[2] then sleep = -soonest[2] - now + 1 end
  end
  return { 'q', ahead + redis.call('ZCOUNT', key, '-inf', ALL_HELD), sleep }
end

-- One who stands in line asks, or repeats itself: that proves its life like a renewal.
local function standing(mine, score)
  local info = read(mine)
  if score >= WAITING then
    if owed then return { 'm' } end
    redis.call('ZADD', key, int(now + info.kept), 'X' .. found)
    outlive(info)
    return queued(found, score, info)
  end
  local known = tonumber(redis.call('ZSCORE', key, 'F' .. found))
  if needs_mark(known) then return { 'm' } end
  local expires = now + info.ttl
  if info.lease > 0 then
    expires = redis.call('ZREM', key, 'P' .. found) == 1 and now + info.lease or -score
  end
  local fence = raised(known or mint())
  -- In this order: a line that is empty in between would lose its expiry.
  redis.call('ZADD', key, int(-expires), mine, int(fence), 'F' .. mine)
  if found ~= mine then redis.call('ZREM', key, found, 'F' .. found) end
  outlive(info)
  return { 'h', fence, info.lease > 0 and expires - now or -1 }
end

local function turned_away(wait)
  if wait == 'n' then return { 'r' } end
  local sleep = how_long(redis.call('PTTL', key))
  local soonest = is_open()
      and redis.call('ZRANGE', key, ALL_HELD, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  return { 'w', soonest and -soonest - now + 1 or sleep }
end

-- Takes a place behind everybody: held if it fits beside them.
local function join(mine, info, wait)
  local span = info.lease > 0 and info.lease or info.ttl
  if redis.call('EXISTS', key) == 0 then
    local fence = mint()
    redis.call('SET', key, mine .. '|' .. int(fence), 'PX', span)
    return { 'h', fence, info.lease > 0 and span or -1 }
  end
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
  local behind = tonumber(last[2]) >= WAITING
  if not behind and used(info.capacity) + info.weight <= info.capacity then
    local fence = mint()
    hold(mine, info, now + span, fence)
    outlive(info)
    return { 'h', fence, info.lease > 0 and span or -1 }
  end
  if wait ~= 'l' then return turned_away(wait) end
  local score = WAITING + time[1] * 1000000 + time[2]
  if behind then score = math.max(score, last[2] + 1) end
  redis.call('ZADD', key, int(score), mine)
  outlive(info)
  return queued(mine, score, info)
end

-- What is there, once for all the claims that are renewed in it: nothing, a line of one, or of more.
local kinds = {}
local function kind_of_line()
  local kind = kinds[key]
  if not kind then
    kind = redis.call('EXISTS', key) == 0 and 'none' or is_open() and 'line' or 'lean'
    if kind == 'line' then
      pass_over_the_dead()
      advance()
      if redis.call('EXISTS', key) == 0 then kind = 'none' end
    end
    kinds[key] = kind
  end
  return kind
end

-- 0 gone, 1 held, 2 waiting.
local function renew(mine)
  local kind = kind_of_line()
  if kind == 'none' then return 0 end
  local info = read(mine)
  if kind == 'lean' then
    local value = redis.call('GET', key)
    if id(value) ~= id(mine) then return 0 end
    if info.lease > 0 then return 1 end
    redis.call('SET', key, prolonged(value, mine), 'PX', info.ttl)
    return 1
  end
  local score = find(mine, true)
  if not score then return 0 end
  if info.lease > 0 or not kinds[key .. '|'] then
    outlive(info)
    kinds[key .. '|'] = true
  end
  if score >= WAITING then
    redis.call('ZADD', key, int(now + info.kept), 'X' .. found)
    return 2
  end
  if info.lease == 0 or redis.call('ZSCORE', key, 'P' .. found) then
    local stays = prolonged(found, mine)
    redis.call('ZADD', key, int(-now - info.ttl), stays)
    if found ~= stays then
      for _, letter in ipairs({ 'F', 'P' }) do
        local known = redis.call('ZSCORE', key, letter .. found)
        if known then redis.call('ZADD', key, known, letter .. stays) end
      end
      redis.call('ZREM', key, found, 'F' .. found, 'P' .. found)
    end
  end
  return 1
end
