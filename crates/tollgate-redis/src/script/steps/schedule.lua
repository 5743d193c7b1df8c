-- TAT = w + f/l. Adds and compares only: products are made by the caller. A fresh key has w = -1.
-- Rule: l. Cost: T·q, then T·(B − q), each as a whole part and a fraction; a whole part of −1 for a
-- cost above B is never reached.
local RULE, COST = 1, 4

local function read(key, n, A, r)
  local s = redis.pcall('GET', key)
  if not s then return -1, 0 end
  if type(s) == 'table' then return nil end
  local quota_id = A[r + 1]
  local after = #quota_id + 2
  if string.byte(s) ~= 91 or string.sub(s, 2, after - 1) ~= quota_id then return nil end
  local w, f = string.match(s, '^,(%d+),(%d+)%]$', after)
  if not w then return nil end
  w, f = tonumber(w), tonumber(f)
  if w >= 9007199254740992 or f >= A[r + 2] then return nil end
  return w, f
end

local function step(w, f, n, A, r, j)
  if w < n then w, f = n, 0 end
  local latest = n + A[j + 2]
  if w > latest or (w == latest and f > A[j + 3]) then return false, w, f end
  w, f = w + A[j], f + A[j + 1]
  if f >= A[r + 2] then w, f = w + 1, f - A[r + 2] end
  return true, w, f
end

local function words(out, o, w, f)
  if w < 0 then
    out[o + 1] = 0
    return o + 1
  end
  out[o + 1], out[o + 2], out[o + 3] = 2, w, f
  return o + 3
end

local function write(key, w, f, n, A, r, grace)
  local text = string.format('[%s,%.0f,%.0f]', A[r + 1], w, f)
  local done = redis.pcall('SET', key, text, 'PX', math.floor((w - n) / 1000) + 2 + grace)
  if done.err then return done end
end
