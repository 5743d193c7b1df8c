-- Charges several keys, all or none, perhaps only once. The list S of steps stands in front.
-- KEYS: the keys that are charged, then that of the record if there is a request id.
-- ARGV: the instant (negative: the server's clock), the grace in ms, the request id ('' for none),
--   what it is bound to, how long it is kept, then charges:
--   0 and evidence that is already known, or
--   step, key, family, quota id, numbers of the quota, numbers of the cost.
-- Reply: the instant and 0 with, per charge, the words its key had (their number first);
--   1 with the record of an id that was charged before; 2 where a state is not one of its quota and
--   nothing was done; 3 where the write was refused for want of memory; 4 where the record is none.
local A, n, grace, id = ARGV, tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
if n < 0 then
  local time = redis.call('TIME')
  n = time[1] * 1000000 + time[2]
end
if id ~= '' then
  local kept = redis.pcall('GET', KEYS[#KEYS])
  if kept then
    local expires = type(kept) == 'string' and string.match(kept, '^%[%]\n%["[^"]*","[^"]*",(%d+),')
    if not expires then return {n, 4} end
    if tonumber(expires) > n then return {n, 1, kept} end
  end
end
for i = 6, #A do A[i] = tonumber(A[i]) or A[i] end
local slots, charges, all, i = {}, {}, true, 6
while A[i] do
  local step = S[A[i]]
  if step then
    local key, r = A[i + 1], i + 2
    local j = r + 2 + step.rule
    local slot = slots[key]
    if not slot then
      local a, b = step.read(KEYS[key], n, A, r)
      if not a then return {n, 2} end
      slot = {a = a, b = b, x = a, y = b, r = r, step = step}
      slots[key] = slot
    end
    local granted
    granted, slot.x, slot.y = step.step(slot.x, slot.y, n, A, r, j)
    all = all and granted
    charges[#charges + 1] = slot
    i = j + step.cost
  else
    charges[#charges + 1] = A[i + 1]
    i = i + 2
  end
end
local out, o, evidence = {n, 0}, 2, {}
for c, slot in ipairs(charges) do
  if type(slot) == 'table' then
    local from = o + 2
    o = slot.step.words(out, o, slot.a, slot.b)
    local before = {}
    for p = from, o do before[p - from + 1] = string.format(',%.0f', out[p]) end
    local quota_id, words = A[slot.r + 1], table.concat(before)
    if words == '' then
      evidence[c] = string.format(',[%s],[]', quota_id)
    else
      evidence[c] = string.format(',[%s],[%s%s]', quota_id, quota_id, words)
    end
  else
    evidence[c] = slot
  end
end
if not all then return out end
for key = 1, #KEYS do
  local slot = slots[key]
  local refused = slot and slot.step.write(KEYS[key], slot.x, slot.y, n, A, slot.r, grace)
  if refused then
    if string.sub(refused.err, 1, 3) ~= 'OOM' then return refused end
    return {n, 3}
  end
end
if id ~= '' then
  local keep = tonumber(A[5])
  local record = string.format(
    '[]\n["%s","%s",%.0f,%.0f%s]', id, A[4], n + keep, n, table.concat(evidence))
  redis.call('SET', KEYS[#KEYS], record, 'PX', math.floor(keep / 1000) + 1 + grace)
end
return out
