-- Stands before each script, behind RECORD and INDEX, which keys begin with. A record is one string: version, operation, value, companions, indexes,
-- noted, consumed and winner, packed one after the other as far as there are any. A tombstone has the
-- first two.

-- Nothing where nothing stands.
local function read(key)
  local packed = redis.call('GET', key)
  if packed then return cmsgpack.unpack(packed) end
end

local function nameOf(key) return string.sub(key, #RECORD + 1) end

-- What is told of a record, after its name.
local function tell(answer, name, version, value, consumed)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = name, version, value or false, consumed or false
end

-- Tells of a record that stands in an index, or has ended.
local function tellMember(answer, name, index)
  local version, _, value, _, indexes, _, consumed = read(RECORD .. name)
  local stands = string.find(' ' .. (indexes or '') .. ' ', ' ' .. index .. ' ', 1, true)
  if version and (stands or not value) then tell(answer, name, version, value, consumed) end
end
