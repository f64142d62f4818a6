-- KEYS record   ARGV operation, value, expires or '', version or '', indexes, entered, until
-- `entered` are the indexes in which the caller has just noted the record, up to `until`.
-- Answers 1; false where the version is another; or, with nothing written, the indexes in which the
-- record has to be noted first: those it is given, and those it stands in already.
local record = redis.call('HMGET', KEYS[1], 'version', 'value', 'operation', 'indexes', 'until')
local version, value, last = tonumber(record[1]) or 0, record[2], record[3]
-- The reply to the same write was lost on its way. It is written once more, for WAIT speaks only of
-- what was written on the connection it is sent on (so for all of these scripts).
if last == ARGV[1] and value then
  redis.call('HSET', KEYS[1], 'operation', ARGV[1])
  return 1
end
if ARGV[4] == '' then
  if version > 0 and not value then return false end
elseif version ~= tonumber(ARGV[4]) then
  return false
end

local expires = ARGV[3] == '' and math.huge or tonumber(ARGV[3])
local stands = value and record[4] or ''
local lasts = (tonumber(record[5]) or 0) >= expires
local function has(names, name) return string.find(names, name, 1, true) end

local indexes, missing, noted = ARGV[5], false, ARGV[7]
for name in string.gmatch(stands, '%S+') do
  if not has(indexes, name) then indexes = indexes .. ' ' .. name end
end
for name in string.gmatch(indexes, '%S+') do
  if not has(ARGV[6], name) then
    if not (lasts and has(stands, name)) then missing = true end
    noted = record[5]
  end
end
if missing then return indexes end

redis.call('HSET', KEYS[1],
  'version', version + 1, 'value', ARGV[2], 'operation', ARGV[1], 'indexes', indexes, 'until', noted)
if ARGV[3] == '' then redis.call('PERSIST', KEYS[1]) else redis.call('EXPIREAT', KEYS[1], ARGV[3]) end
return 1
