-- Charges keys independently. The step of the algorithm stands in front.
-- ARGV: the instant (negative: the server's clock), the grace in ms, then blocks:
--   number of keys, number of runs, family, quota id, numbers of the quota,
--   and per run: how many charges, numbers of the cost.
-- A block charges each of the next keys with all of its runs, in order.
-- Reply: the instant, then per key the words it had (their number first), -1 where the state is not
-- one of this quota, or may not be written, and nothing was done, -2 where the write was refused for want of memory, -3 where
-- the key is on another node.
local A = ARGV
for i = 1, #A do A[i] = tonumber(A[i]) or A[i] end
local n, grace = A[1], A[2]
if n < 0 then
  local time = redis.call('TIME')
  n = time[1] * 1000000 + time[2]
end
local out, o, k, i, has_written = {n}, 1, 0, 3, false
while A[i] do
  local keys, runs, r = A[i], A[i + 1], i + 2
  local costs = r + 2 + RULE
  for _ = 1, keys do
    k = k + 1
    local key, told = KEYS[k], o
    local a, b = read(key, n, A, r)
    if a then
      local x, y, j, charged = a, b, costs, false
      for _ = 1, runs do
        for _ = 1, A[j] do
          local granted
          granted, x, y = step(x, y, n, A, r, j + 1)
          if not granted then break end
          charged = true
        end
        j = j + 1 + COST
      end
      o = words(out, o, a, b)
      local refused = charged and write(key, x, y, n, A, r, grace)
      if refused then
        local kind = string.match(refused.err, '^%u+')
        -- A right may be missing for this key only; all else that is no key's concerns the server.
        local is_own = kind == 'OOM' or string.find(refused.err, 'key', 1, true)
        if not has_written and not is_own then return refused end
        for p = told + 2, o do out[p] = nil end
        o = told + 1
        out[o] = kind == 'OOM' and -2 or -1
      end
      has_written = has_written or charged and not refused
    else
      local found = redis.pcall('GET', key)
      local is_away = type(found) == 'table' and string.find(found.err, 'non local key', 1, true)
      o = o + 1
      out[o] = is_away and -3 or -1
    end
  end
  i = costs + runs * (1 + COST)
end
return out
