-- Reads keys. ARGV: the instant (negative: the server's clock).
-- Reply: the instant, then per key its text, its list, nothing, or -1 for anything else.
local n = tonumber(ARGV[1])
if n < 0 then
  local time = redis.call('TIME')
  n = time[1] * 1000000 + time[2]
end
local out = {n}
for i, key in ipairs(KEYS) do
  local found = redis.pcall('GET', key)
  if type(found) == 'table' then
    found = redis.pcall('LRANGE', key, 0, -1)
    if found.err then found = -1 end
  end
  out[i + 1] = found
end
return out
