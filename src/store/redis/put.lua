-- KEYS records   ARGV prefix of indexes or '', then for each: operation, value, expires or '', version or
-- '', indexes, companions, until, entered
-- Writes one after the other, notes each in its indexes, up to `until`, and answers how many were written.
-- Without a prefix the indexes are elsewhere: `entered` are those in which the caller has just noted it. It
-- is told why the next was not written: nothing where its version is another; or the indexes in which it
-- has to be noted first, those it is given and those it stands in already.
local prefix = ARGV[1]
local function has(names, name) return string.find(names, name, 1, true) end

local function put(key, operation, value, expires, version, given, companions, till, entered)
  local record = read(key)
  local standing = record.value
  if standing and record.operation == operation then
    -- The reply to the same write was lost on its way.
    touch(key)
    return true
  end
  if version == '' then
    if record.version and not standing then return false end
  elseif (record.version or 0) ~= tonumber(version) then
    return false
  end

  local stands = standing and record.indexes or ''
  local lasts = (record.noted or 0) >= (tonumber(expires) or math.huge)
  local indexes, missing, noted = given, false, tonumber(till)
  for name in string.gmatch(stands, '%S+') do
    if not has(indexes, name) then indexes = indexes .. ' ' .. name end
  end
  for name in string.gmatch(indexes, '%S+') do
    if not has(entered, name) then
      if not (lasts and has(stands, name)) then missing = true end
      noted = record.noted
    end
  end
  if missing and prefix == '' then return false, indexes end

  record.version, record.operation, record.value = (record.version or 0) + 1, operation, value
  record.companions = companions ~= '' and companions or nil
  if indexes ~= '' then record.indexes, record.noted = indexes, missing and tonumber(till) or noted end
  -- The record first: out of memory, Redis refuses a script only at its first write, if that grows.
  if expires == '' then write(key, record) else write(key, record, 'EXAT', expires) end
  for name in string.gmatch(missing and indexes or '', '%S+') do
    enter(prefix .. name, string.sub(key, #prefix + 1), till)
  end
  return true
end

for i, key in ipairs(KEYS) do
  local written, why = put(key, unpack(ARGV, i * 8 - 6, i * 8 + 1))
  if not written then return { i - 1, why } end
end
return { #KEYS }
