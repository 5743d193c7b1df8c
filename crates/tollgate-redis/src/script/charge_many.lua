-- Charges keys independently. The step of the algorithm stands in front.
-- ARGV: the instant (negative: the server's clock), the grace in ms, then blocks:
--   number of keys, number of runs, family, quota id, numbers of the quota,
--   and per run: how many charges, numbers of the cost.
-- A block charges each of the next keys with all of its runs, in order.
-- Reply: the instant, then per key the words it had (their number first), -1 where the state is not
-- one of this quota and nothing was done, -2 where the write was refused for want of memory.
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
    local key, before = KEYS[k], o
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
        local is_full = string.sub(refused.err, 1, 3) == 'OOM'
        -- Before the first write, anything else concerns the server and not the key.
        if not is_full and not has_written then return refused end
        for p = before + 2, o do out[p] = nil end
        o = before + 1
        out[o] = is_full and -2 or -1
      end
      has_written = has_written or charged and not refused
    else
      o = o + 1
      out[o] = -1
    end
  end
  i = costs + runs * (1 + COST)
end
return out
