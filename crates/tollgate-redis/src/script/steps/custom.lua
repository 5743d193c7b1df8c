-- A state of plain words: `a` is the list of them, `b` what was read and when the state is fresh.
-- Rule: the three parameters. Cost: the units.
local RULE, COST = 3, 1

local function read(key, n, A, r)
  local s = redis.pcall('GET', key)
  if not s then return {}, {raw = {}} end
  if type(s) == 'table' then return nil end
  local quota_id, rest = string.match(s, '^%[(%d+,%d+,%d+,%d+)([%d,]*)%]$')
  if quota_id ~= A[r + 1] then return nil end
  local found = {}
  for word in string.gmatch(rest, '%d+') do
    local number = tonumber(word)
    if number >= 9007199254740992 then return nil end
    found[#found + 1] = number
  end
  return found, {raw = found}
end

local function step(a, b, n, A, r, j)
  local following, fresh = own_step(a, n, A[j], {A[r + 2], A[r + 3], A[r + 4]})
  if not following then return false, a, b end
  return true, following, {raw = b.raw, fresh = fresh}
end

local function words(out, o, a, b)
  out[o + 1] = #b.raw
  for i = 1, #b.raw do out[o + 1 + i] = b.raw[i] end
  return o + 1 + #b.raw
end

local function write(key, a, b, n, A, r, grace)
  local text = {A[r + 1]}
  for i = 1, #a do text[i + 1] = string.format('%.0f', a[i]) end
  local keep = math.max(math.floor((b.fresh - n) / 1000), 0) + 2 + grace
  local done = redis.pcall('SET', key, string.format('[%s]', table.concat(text, ',')), 'PX', keep)
  if done.err then return done end
end
