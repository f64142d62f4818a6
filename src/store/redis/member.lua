
-- Tells of a record that stands in an index, or has ended.
local function tellMember(answer, prefix, name, index)
  local record = read(prefix .. name)
  local stands = string.find(' ' .. (record.indexes or '') .. ' ', ' ' .. index .. ' ', 1, true)
  if record.version and (stands or not record.value) then tell(answer, name, record) end
end
