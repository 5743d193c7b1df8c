-- A window's start and the units in it. A fresh key has a start before any time.
-- Rule: W, the anchor (0 epoch, 1 first hit), L. Cost: the units.
local RULE, COST = 3, 1

local function read(key, n, A, r)
  local s = redis.pcall('GET', key)
  if not s then return -9007199254740992, 0 end
  if type(s) == 'table' then return nil end
  local family, start, count = string.match(s, '^%[(%d+,%d+,%d+),%d+,(%d+),(%d+)%]$')
  if family ~= A[r] then return nil end
  start, count = tonumber(start), tonumber(count)
  if start >= 4503599627370496 or count > 281474976710656 then return nil end
  return start, count
end

local function step(start, count, n, A, r, j)
  if n >= start + A[r + 2] then
    start, count = n, 0
    if A[r + 3] == 0 then start = n - math.fmod(n, A[r + 2]) end
  end
  if count + A[j] > A[r + 4] then return false, start, count end
  return true, start, count + A[j]
end

local function words(out, o, start, count)
  if start < 0 then
    out[o + 1] = 0
    return o + 1
  end
  out[o + 1], out[o + 2], out[o + 3] = 2, start, count
  return o + 3
end

local function write(key, start, count, n, A, r, grace)
  local text = string.format('[%s,%.0f,%.0f]', A[r + 1], start, count)
  local keep = math.floor((start + A[r + 2] - n) / 1000) + 2 + grace
  local done = redis.pcall('SET', key, text, 'PX', keep)
  if done.err then return done end
end
