-- Keys of several slots that one node serves: only the first is declared, the others are arguments.
-- ARGV, before all else: how many others there are, a key of another node ('' if this node has refused
--   one before), the others.
-- Error FOREIGN where that key is not refused: nothing was done, for then none would be.
do
  local more = tonumber(ARGV[1])
  if ARGV[2] ~= '' then
    local found = redis.pcall('GET', ARGV[2])
    if type(found) ~= 'table' or not string.find(found.err, 'non local key', 1, true) then
      return redis.error_reply('FOREIGN keys of other nodes are not refused here')
    end
  end
  for i = 1, more do KEYS[i + 1] = ARGV[i + 2] end
  for i = 1, #ARGV do ARGV[i] = ARGV[i + more + 2] end
end
