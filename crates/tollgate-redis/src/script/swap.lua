-- Writes keys, all or none, if each still holds what it held.
-- ARGV per key: what it held, what it shall hold, and until when at least (epoch, in ms).
-- A value is 'n' for nothing, 's' and a text, or 'l' and the elements of a list with spaces between.
-- Reply: 1 if all were written, 0 if some key has changed.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, key in ipairs(KEYS) do
  local found = redis.pcall('GET', key)
  local held = 'n'
  if type(found) == 'table' then
    found = redis.pcall('LRANGE', key, 0, -1)
    if found.err then return 0 end
    held = string.format('l%s', table.concat(found, ' '))
  elseif found then
    held = string.format('s%s', found)
  end
  if held ~= ARGV[3 * i - 2] then return 0 end
end
for i, key in ipairs(KEYS) do
  local kind, value = string.sub(ARGV[3 * i - 1], 1, 1), string.sub(ARGV[3 * i - 1], 2)
  local keep = math.max(tonumber(ARGV[3 * i]) - now, 3600000)
  if kind == 's' then
    redis.call('SET', key, value, 'PX', keep)
  else
    redis.call('DEL', key)
    for element in string.gmatch(value, '%S+') do redis.call('RPUSH', key, element) end
    if kind == 'l' then redis.call('PEXPIRE', key, keep) end
  end
end
return 1
