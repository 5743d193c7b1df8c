-- `a` is the estimate; `b` holds the counts shifted to the current bucket, and what was read.
-- Rule: w, S, L, and the base of the digits in which a bucket is weighed. Cost: the units.
local RULE, COST = 4, 1

-- floor(units * passed / w), exactly: digit by digit where the product would not be exact.
local function share(units, passed, w, base)
  if units * passed < 9007199254740992 then return math.floor(units * passed / w) end
  local digits, count = {}, 0
  while units > 0 do
    count = count + 1
    digits[count] = math.fmod(units, base)
    units = math.floor(units / base)
  end
  local rest, quotient = 0, 0
  for i = count, 1, -1 do
    local product = rest * base + passed * digits[i]
    local digit = math.floor(product / w)
    rest = product - digit * w
    quotient = quotient * base + digit
  end
  return quotient
end

local function read(key, n, A, r)
  local w, S = A[r + 2], A[r + 3]
  local s = redis.pcall('GET', key)
  if type(s) == 'table' then return nil end
  local counts, at, bucket, raw = {}, n, math.floor(n / w), {}
  for i = 1, S + 1 do counts[i] = 0 end
  if s then
    local family, rest = string.match(s, '^%[(%d+,%d+,%d+),%d+,([%d,]+)%]$')
    if family ~= A[r] then return nil end
    for word in string.gmatch(rest, '%d+') do
      local number = tonumber(word)
      if #raw > 0 and number > 281474976710656 then return nil end
      raw[#raw + 1] = number
    end
    if #raw ~= S + 2 or raw[1] * w > 4503599627370496 then return nil end
    if raw[1] * w > n then at, bucket = raw[1] * w, raw[1] end
    local shift = bucket - raw[1]
    for i = shift + 1, S + 1 do counts[i] = raw[i - shift + 1] end
  end
  local estimate = counts[S + 1] - share(counts[S + 1], at - bucket * w, w, A[r + 5])
  for i = 1, S do estimate = estimate + counts[i] end
  return estimate, {counts = counts, bucket = bucket, raw = raw}
end

local function step(estimate, b, n, A, r, j)
  if estimate + A[j] > A[r + 4] then return false, estimate, b end
  b.counts[1] = b.counts[1] + A[j]
  return true, estimate + A[j], b
end

local function words(out, o, estimate, b)
  out[o + 1] = #b.raw
  for i = 1, #b.raw do out[o + 1 + i] = b.raw[i] end
  return o + 1 + #b.raw
end

local function write(key, estimate, b, n, A, r, grace)
  local text = {A[r + 1], string.format('%.0f', b.bucket)}
  for i = 1, #b.counts do text[i + 2] = string.format('%.0f', b.counts[i]) end
  local fresh = (b.bucket + A[r + 3] + 1) * A[r + 2]
  local keep = math.floor((fresh - n) / 1000) + 2 + grace
  local done = redis.pcall('SET', key, string.format('[%s]', table.concat(text, ',')), 'PX', keep)
  if done.err then return done end
end
