-- KEYS records   ARGV for each: operation, value, expires or '', version or '', indexes, entered, until,
-- companions
-- `entered` are the indexes in which the caller has just noted the record, up to `until`.
-- Writes one after the other, and answers how many were written and why not the next: nothing where its
-- version is another; or the indexes in which it has to be noted first: those it is given, and those it
-- stands in already.
local function has(names, name) return string.find(names, name, 1, true) end

local function put(key, operation, value, expires, version, given, entered, till, companions)
  local record = redis.call('HMGET', key, 'version', 'value', 'operation', 'indexes', 'until')
  local current, standing, last = tonumber(record[1]) or 0, record[2], record[3]
  -- The reply to the same write was lost on its way. It is written once more, for WAIT speaks only of
  -- what was written on the connection it is sent on (so for all of these scripts).
  if last == operation and standing then
    redis.call('HSET', key, 'operation', operation)
    return true
  end
  if version == '' then
    if current > 0 and not standing then return false end
  elseif current ~= tonumber(version) then
    return false
  end

  local stands = standing and record[4] or ''
  local lasts = (tonumber(record[5]) or 0) >= (expires == '' and math.huge or tonumber(expires))
  local indexes, missing, noted = given, false, till
  for name in string.gmatch(stands, '%S+') do
    if not has(indexes, name) then indexes = indexes .. ' ' .. name end
  end
  for name in string.gmatch(indexes, '%S+') do
    if not has(entered, name) then
      if not (lasts and has(stands, name)) then missing = true end
      noted = record[5]
    end
  end
  if missing then return false, indexes end

  redis.call('HSET', key, 'version', current + 1, 'value', value, 'operation', operation)
  if indexes ~= '' then redis.call('HSET', key, 'indexes', indexes, 'until', noted) end
  if companions == '' then redis.call('HDEL', key, 'companions')
  else redis.call('HSET', key, 'companions', companions) end
  if expires == '' then redis.call('PERSIST', key) else redis.call('EXPIREAT', key, expires) end
  return true
end

for i, key in ipairs(KEYS) do
  local written, why = put(key, unpack(ARGV, i * 8 - 7, i * 8))
  if not written then return { i - 1, why } end
end
return { #KEYS }
