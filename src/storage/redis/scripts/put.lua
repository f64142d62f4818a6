-- KEYS records   ARGV how many of them each group has; and for each record: its value; and a line each of
-- operation, expires or '', version or '', until, consumed or '', indexes, entered
-- Writes those of a group one after the other until one is refused, notes each in its indexes, up to
-- `until`, and answers for each group how many were written, and why the next was not: nothing where its
-- version is another; or the indexes in which it has to be noted first, those it is given and those it
-- stands in already. In a Cluster these are elsewhere: `entered` are those in which the caller has just
-- noted it.
local LINES = string.rep('(.-)\n', 6) .. '(.*)'
local function has(names, name) return string.find(names, name, 1, true) end

local function put(key, value, operation, expires, required, till, used, given, entered)
  local version, last, standing, stands, lasting, consumed, winner = read(key)
  if standing and last == operation then
    -- The reply to the same write was lost on its way.
    touch(key)
    return true
  end
  if required == '' then
    if version and not standing then return false end
  elseif (version or 0) ~= tonumber(required) then
    return false
  end

  local lasts = (lasting or 0) >= (tonumber(expires) or math.huge)
  local indexes, missing, noted = given, false, tonumber(till)
  for name in string.gmatch(stands or '', '%S+') do
    if not has(indexes, name) then indexes = indexes .. ' ' .. name end
  end
  for name in string.gmatch(indexes, '%S+') do
    if not has(entered, name) then
      if not (lasts and has(stands or '', name)) then missing = true end
      noted = lasting
    end
  end
  if missing and IS_CLUSTER then return false, indexes end
  if missing then noted = tonumber(till) end
  if indexes == '' then indexes, noted = nil, nil end
  consumed = tonumber(used) or consumed

  -- The record first: out of memory, Redis refuses a script only at its first write, if that grows.
  write(key, expires, (version or 0) + 1, operation, value, indexes, noted, consumed, winner)
  for name in string.gmatch(missing and indexes or '', '%S+') do
    enter(INDEX .. name, nameOf(key), till)
  end
  return true
end

local answer, first = {}, 1
for size in string.gmatch(ARGV[1], '%d+') do
  local made, missing = 0, false
  for i = first, first + size - 1 do
    local written, why = put(KEYS[i], ARGV[i * 2], string.match(ARGV[i * 2 + 1], LINES))
    if not written then
      missing = why or false
      break
    end
    made = made + 1
  end
  answer[#answer + 1], answer[#answer + 2] = made, missing
  first = first + size
end
return answer
