-- Charges one key once: the call of a caller that shares it with no other. The step of the algorithm stands in front.
-- ARGV: one list in JSON, which costs the server less than its elements would one by one: the grace in
--   ms, family, quota id, numbers of the quota, numbers of the cost, and the instant, unless the server's
--   clock decides.
-- Reply: as that of charge_many.lua for one key.
local A, key = cjson.decode(ARGV[1]), KEYS[1]
local n = A[4 + RULE + COST]
if not n then
  local time = redis.call('TIME')
  n = time[1] * 1000000 + time[2]
end
local a, b = read(key, n, A, 2)
if not a then return {n, -1} end
local granted, x, y = step(a, b, n, A, 2, 4 + RULE)
-- With room for a short state: it would be moved for almost every word.
local out = {n, nil, nil, nil}
words(out, 1, a, b)
local refused = granted and write(key, x, y, n, A, 2, A[1])
if refused then
  if string.sub(refused.err, 1, 3) ~= 'OOM' then return refused end
  return {n, -2}
end
return out
