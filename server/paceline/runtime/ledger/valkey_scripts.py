"""What a shared ledger does in one step, as Lua that Valkey or Redis runs.

The same rules as `paceline.core.purse`, and a test holds the two together. Lua's numbers are
doubles, so amounts come as two whole numbers, thousandths and the pico left, and are written down
as text. All keys share one hash tag, so that a cluster keeps them in one place.

A purse is a hash. A meter is four fields of it, `NAME:u1`, `u0`, `h1`, `h0`: used and held, in
thousandths and pico. What runs is in a hash of its process, from where whoever settles it first
takes it away; that is what makes settling happen once.
"""

from __future__ import annotations

_METERS = """
local MILLI = 1000000000
local function text(n) return string.format('%.0f', n) end
local function norm(hi, lo)
  local over = math.floor(lo / MILLI)
  return hi + over, lo - over * MILLI
end
local function add(purse, meter, kind, hi, lo)
  if hi ~= 0 then redis.call('HINCRBY', purse, meter .. ':' .. kind .. '1', text(hi)) end
  if lo ~= 0 then
    local now = redis.call('HINCRBY', purse, meter .. ':' .. kind .. '0', text(lo))
    local over = math.floor(now / MILLI)
    if over ~= 0 then
      redis.call('HINCRBY', purse, meter .. ':' .. kind .. '1', text(over))
      redis.call('HINCRBY', purse, meter .. ':' .. kind .. '0', text(-over * MILLI))
    end
  end
end
local function drop(purse, meter)
  local held = redis.call('HMGET', purse, meter .. ':h1', meter .. ':h0')
  if (tonumber(held[1]) or 0) == 0 and (tonumber(held[2]) or 0) == 0 then
    for _, kind in ipairs({'u1', 'u0', 'h1', 'h0'}) do
      redis.call('HDEL', purse, meter .. ':' .. kind)
    end
  end
end
"""

HOLD = (
    _METERS
    + """
local purse, open, processes = KEYS[1], KEYS[2], KEYS[3]
local q = cjson.decode(ARGV[1])
local id, row, process = ARGV[2], ARGV[3], ARGV[4]
if redis.call('HEXISTS', open, id) == 1 then return {'held'} end
local none, terms, now = cjson.null, q.terms, q.now

local function used(meter)
  local v = redis.call('HMGET', purse,
    meter .. ':u1', meter .. ':u0', meter .. ':h1', meter .. ':h0')
  return norm((tonumber(v[1]) or 0) + (tonumber(v[3]) or 0),
              (tonumber(v[2]) or 0) + (tonumber(v[4]) or 0))
end
-- Whether `most` more would pass the limit, and what is used of it now.
local function short(meter, limit, most)
  if limit == none or most == none or (most[1] == 0 and most[2] == 0) then return false end
  local hi, lo = 0, 0
  if meter then hi, lo = used(meter) end
  local h, l = norm(hi + most[1], lo + most[2])
  if h > limit[1] or (h == limit[1] and l > limit[2]) then return true, text(hi), text(lo) end
  return false
end
local function larger(most, limit)
  return most[1] > limit[1] or (most[1] == limit[1] and most[2] > limit[2])
end

-- Days and months begin anew, and never go back.
local day = tonumber(redis.call('HGET', purse, 'day') or '-1')
local month = tonumber(redis.call('HGET', purse, 'month') or '-1')
if q.day > day then
  if day >= 0 then
    drop(purse, 'day' .. text(day) .. '.usd')
    drop(purse, 'day' .. text(day) .. '.credits')
  end
  day = q.day
  redis.call('HSET', purse, 'day', text(day))
  if q.month > month then
    if month >= 0 then
      drop(purse, 'month' .. text(month) .. '.usd')
      drop(purse, 'month' .. text(month) .. '.credits')
    end
    month = q.month
    redis.call('HSET', purse, 'month', text(month))
  end
end
local periods = {total = 'total', day = 'day' .. text(day), month = 'month' .. text(month)}
local usd, credits = {}, {}
for _, period in pairs(periods) do
  usd[#usd + 1] = period .. '.usd'
  credits[#credits + 1] = period .. '.credits'
end

if terms ~= none then
  local period = periods[terms.period]
  local lacks, hi, lo = short(period .. '.usd', terms.budget_usd, q.usd)
  if lacks then return {'budget_usd', hi, lo, 'period', text(day), text(month)} end
  lacks, hi, lo = short(period .. '.credits', terms.budget_credits, q.credits)
  if lacks then return {'budget_credits', hi, lo, 'period', text(day), text(month)} end
  lacks, hi, lo = short('prepaid.usd', terms.prepaid_usd, q.usd)
  if lacks then return {'prepaid_usd', hi, lo, ''} end

  local windows, full, waits = {}, nil, -1
  for _, name in ipairs({'primary', 'secondary'}) do
    local window = terms[name]
    if window ~= none then
      local found = redis.call('HMGET', purse, name .. '.minutes', name .. '.began')
      local began, running = tonumber(found[2]), false
      if began and tonumber(found[1]) == window.minutes then
        running = began + window.minutes * 60000000 > now
      end
      local meter = running and (name .. '@' .. text(began))
      local lacking, h, l = short(meter, window.credits, q.credits)
      if lacking then
        local ends, wait = '', math.huge
        if running and not larger(q.credits, window.credits) then
          wait = began + window.minutes * 60000000
          ends = text(wait)
        end
        if wait > waits then full, waits = {'window', h, l, ends, name}, wait end
      end
      windows[#windows + 1] = {name, window.minutes, meter, began}
    end
  end
  local prepaid = terms.prepaid_credits
  if #windows == 0 then
    lacks, hi, lo = short('prepaid.credits', prepaid, q.credits)
    if lacks then return {'prepaid_credits', hi, lo, ''} end
  elseif full then
    if prepaid == none or (prepaid[1] == 0 and prepaid[2] == 0)
      or short('prepaid.credits', prepaid, q.credits) then return full end
  end
  if terms.prepaid_usd ~= none then usd[#usd + 1] = 'prepaid.usd' end
  if #windows > 0 and not full then
    for _, each in ipairs(windows) do
      local name, minutes, meter, before = each[1], each[2], each[3], each[4]
      if not meter then
        if before then drop(purse, name .. '@' .. text(before)) end
        redis.call('HSET', purse, name .. '.minutes', text(minutes), name .. '.began', text(now))
        meter = name .. '@' .. text(now)
      end
      credits[#credits + 1] = meter
    end
  elseif prepaid ~= none then
    credits[#credits + 1] = 'prepaid.credits'
  end
end

if q.usd ~= none then
  for _, meter in ipairs(usd) do add(purse, meter, 'h', q.usd[1], q.usd[2]) end
end
if q.credits ~= none then
  for _, meter in ipairs(credits) do add(purse, meter, 'h', q.credits[1], q.credits[2]) end
end
redis.call('HSET', open, id, cjson.encode({row = row, usd = usd, credits = credits,
  most_usd = q.usd ~= none and {text(q.usd[1]), text(q.usd[2])} or none,
  most_credits = q.credits ~= none and {text(q.credits[1]), text(q.credits[2])} or none}))
local time = redis.call('TIME')
redis.call('ZADD', processes, 'NX', text(tonumber(time[1]) + q.lease), process)
return {'ok'}
"""
)
"""KEYS purse, open, processes; ARGV question (JSON), id, row, process.

Answers ok, held (the id runs already), or what is lacking: name, used, when it resets.
"""

SETTLE = (
    _METERS
    + """
local purse, open, entries, seq = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, q = ARGV[1], cjson.decode(ARGV[2])
local found = redis.call('HGET', open, id)
if not found then return 0 end
redis.call('HDEL', open, id)
local stake, none = cjson.decode(found), cjson.null
for _, unit in ipairs({'usd', 'credits'}) do
  local most, cost = stake['most_' .. unit], q[unit]
  for _, meter in ipairs(stake[unit]) do
    if most ~= none then
      add(purse, meter, 'h', -tonumber(most[1]), -tonumber(most[2]))
    end
    if cost ~= none then add(purse, meter, 'u', cost[1], cost[2]) end
  end
end
if q.sums == none then return 1 end
local number = redis.call('INCR', seq)
redis.call('ZADD', entries, ARGV[3], string.format('%016d', number) .. ARGV[4])
redis.call('ZREMRANGEBYRANK', entries, 0, -q.keep - 1)
local series = ARGV[5]
for i = 5, #KEYS, 2 do
  local rollup, index = KEYS[i], KEYS[i + 1]
  for at, sum in ipairs(q.sums) do
    if sum ~= 0 then redis.call('HINCRBY', rollup, series .. '#' .. at, text(sum)) end
  end
  if index ~= '' then redis.call('ZADD', index, q.starts[(i - 3) / 2], rollup) end
end
return 1
"""
)
"""KEYS purse, open, entries, seq, then pairs of a rollup and its index; ARGV id, question (JSON),
moment, row, series. Answers 1 the first time, else 0."""

LEASE = """
local processes, process = KEYS[1], ARGV[1]
local now = redis.call('TIME')[1]
local ends = string.format('%.0f', tonumber(now) + tonumber(ARGV[2]))
local latest = redis.call('ZREVRANGE', processes, 0, 0, 'WITHSCORES')[2]
if latest and tonumber(latest) < tonumber(now) then
  -- Nobody was heard of: it was the store that was away. Whoever lives has time to say so.
  for _, each in ipairs(redis.call('ZRANGEBYSCORE', processes, '(0', '(' .. now)) do
    redis.call('ZADD', processes, ends, each)
  end
end
redis.call('ZADD', processes, ends, process)
return redis.call('ZRANGEBYSCORE', processes, '-inf', '(' .. now)
"""
"""KEYS processes; ARGV process, lease in seconds. Renews it, and answers whose has run out.

A process that ended well has left 0 for the end of its lease. Where the leases of all have run out,
the others' are renewed once too: a store that was away for longer than a lease can't tell who died.
"""
