-- Charges one key once: what callers send who meet nobody. The twin of the algorithm stands in front.
-- ARGV: one list in JSON, which costs the server less than its elements would one by one: the instant
--   (negative: the server's clock), the grace in ms, family, shape, numbers of the quota, numbers of
--   the cost.
-- Reply: as that of take.lua for one key.
local A, key = cjson.decode(ARGV[1]), KEYS[1]
local n = A[1]
if n < 0 then
  local time = redis.call('TIME')
  n = time[1] * 1000000 + time[2]
end
local a, b = read(key, n, A, 3)
if not a then return {n, -1} end
local granted, x, y = step(a, b, n, A, 3, 5 + RULE)
local out = {n}
words(out, 1, a, b)
local refused = granted and write(key, x, y, n, A, 3, A[2])
if refused then
  if string.sub(refused.err, 1, 3) ~= 'OOM' then return refused end
  return {n, -2}
end
return out
