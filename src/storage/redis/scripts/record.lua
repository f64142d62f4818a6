-- Stands before each script, behind RECORD and INDEX, which keys begin with. A record is one string: version, operation, value, indexes,
-- noted, consumed and winner, packed one after the other as far as there are any. A tombstone has the
-- first two.

-- Nothing where nothing stands.
local function read(key)
  local packed = redis.call('GET', key)
  if packed then return cmsgpack.unpack(packed) end
end

local function nameOf(key) return string.sub(key, #RECORD + 1) end

-- What is told of a record: name, version and when it was consumed in one line, and below it what it says;
-- of a tombstone the line alone.
local function tell(answer, name, version, value, consumed)
  local line = name .. ' ' .. version .. ' ' .. (consumed or '')
  answer[#answer + 1] = value and line .. '\n' .. value or line
end

-- Tells of a record that stands in an index, or has ended.
local function tellMember(answer, name, index)
  local version, _, value, indexes, _, consumed = read(RECORD .. name)
  local stands = string.find(' ' .. (indexes or '') .. ' ', ' ' .. index .. ' ', 1, true)
  if version and (stands or not value) then tell(answer, name, version, value, consumed) end
end
