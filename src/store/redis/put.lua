-- KEYS record   ARGV operation, value, expires or '', version or '', indexes
-- Answers false, or the indexes that the record stands in: those it had, and those it is given now.
local record = redis.call('HMGET', KEYS[1], 'version', 'value', 'operation', 'indexes')
local version, value, last = tonumber(record[1]) or 0, record[2], record[3]
-- The reply to the same write was lost on its way.
if last == ARGV[1] and value then return record[4] end
if ARGV[4] == '' then
  if version > 0 and not value then return false end
elseif version ~= tonumber(ARGV[4]) then
  return false
end
local indexes = ARGV[5]
for index in string.gmatch(value and record[4] or '', '%S+') do
  if not string.find(indexes, index, 1, true) then indexes = indexes .. ' ' .. index end
end
redis.call('HSET', KEYS[1],
  'version', version + 1, 'value', ARGV[2], 'operation', ARGV[1], 'indexes', indexes)
if ARGV[3] == '' then redis.call('PERSIST', KEYS[1]) else redis.call('EXPIREAT', KEYS[1], ARGV[3]) end
return indexes
