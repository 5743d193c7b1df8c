-- A native list, so that a check costs the logarithm of its length. The first element is
-- "quota id;base"; each further one is "time;sum", the sum of all units up to and including it, with a
-- mark at the end if it has none of its own and only keeps the time. The units of an entry are its
-- sum less the sum before it; the base is the sum before the first.
-- `a` is the number of live units; `b` the list as it was found.
-- Rule: W, L. Cost: the units.
local RULE, COST = 2, 1

local function entry(key, i)
  local time, sum, mark = string.match(redis.call('LINDEX', key, i), '^(%d+);(%d+)(;?)$')
  return time and tonumber(time), sum and tonumber(sum), mark == ';'
end

-- The first element from `low` to `high` for which `holds`, which never ceases to hold once it does;
-- `high` + 1 if there is none.
local function first(key, low, high, holds)
  if low <= high and holds(entry(key, low)) then return low end
  while low <= high do
    local middle = math.floor((low + high) / 2)
    if holds(entry(key, middle)) then high = middle - 1 else low = middle + 1 end
  end
  return low
end

local function read(key, n, A, r)
  local head = redis.pcall('LINDEX', key, 0)
  local b = {name = key, at = n, low = 1, high = 0, base = 0, sum = 0, units = 0, asked = 0, added = 0, needs = {}}
  if not head then return 0, b end
  if type(head) == 'table' then return nil end
  local family, base = string.match(head, '^(%d+,%d+,%d+),%d+;(%d+)$')
  if family ~= A[r] then return nil end
  b.head, b.base, b.high = head, tonumber(base), redis.call('LLEN', key) - 1
  b.newest, b.sum, b.mark = entry(key, -1)
  if not b.newest then return nil end
  if b.newest > n then b.at = b.newest end
  local from = b.at - A[r + 2]
  b.low = first(key, 1, b.high, function(time) return time > from end)
  if b.low > 1 then
    local _
    _, b.base = entry(key, b.low - 1)
  end
  b.units = b.sum - b.base
  return b.units, b
end

-- A denial says when enough of the oldest units will have left: the list is asked for that later.
local function step(units, b, n, A, r, j)
  local cost, limit = A[j], A[r + 3]
  b.asked = b.asked + cost
  local over = math.max(units + cost, b.units + b.asked) - limit
  if over > 0 then
    -- Alone, after the charges before it, and together with them.
    local needs = b.needs
    needs[#needs + 1] = b.units + cost - limit
    needs[#needs + 1] = units + cost - limit
    needs[#needs + 1] = b.units + b.asked - limit
  end
  if units + cost > limit then return false, units, b end
  b.added = b.added + cost
  return true, units + cost, b
end

-- As few entries as give the same decisions for the costs that were asked.
local function words(out, o, units, b)
  local head, counted = o + 1, 0
  o = head
  table.sort(b.needs)
  for _, need in ipairs(b.needs) do
    if need > counted and need <= b.units then
      local i = first(b.name, b.low, b.high, function(_, sum) return sum - b.base >= need end)
      local time, sum = entry(b.name, i)
      out[o + 1], out[o + 2] = time, sum - b.base - counted
      o, counted = o + 2, sum - b.base
    end
  end
  if b.units > counted then
    local time = b.newest
    if b.mark then time = entry(b.name, -2) end
    out[o + 1], out[o + 2] = time, b.units - counted
    o = o + 2
  end
  if b.mark and b.low <= b.high then
    out[o + 1], out[o + 2] = b.newest, 0
    o = o + 2
  end
  out[head] = o - head
  return o
end

-- Begins the sums anew: they must stay exact for ever.
local function rebase(key, base)
  local all = redis.call('LRANGE', key, 1, -1)
  redis.call('LTRIM', key, 0, 0)
  for _, text in ipairs(all) do
    local time, sum = string.match(text, '^(%d+);(%d+)')
    redis.call('RPUSH', key, string.format('%s;%.0f', time, tonumber(sum) - base))
  end
end

local function write(key, units, b, n, A, r, grace)
  local sum = b.sum + b.added
  local newest = string.format('%.0f;%.0f', b.at, sum)
  local done
  if not b.head then
    done = redis.pcall('RPUSH', key, string.format('%s;0', A[r + 1]), newest)
  elseif b.low <= b.high and (b.mark or b.newest == b.at) then
    done = redis.pcall('LSET', key, -1, newest)
  else
    done = redis.pcall('RPUSH', key, newest)
  end
  if type(done) == 'table' and done.err then return done end
  if b.head then
    if b.low > 1 then redis.call('LTRIM', key, b.low - 1, -1) end
    local base = b.base
    if sum > 4503599627370496 then
      rebase(key, base)
      base = 0
    end
    redis.call('LSET', key, 0, string.format('%s;%.0f', A[r + 1], base))
  end
  redis.call('PEXPIRE', key, math.floor((b.at + A[r + 2] - n) / 1000) + 2 + grace)
end
