-- KEYS records   ARGV index, prefix of records
-- Answers what there is to tell of those that stand in the index, and of those that have ended.
local answer = {}
for _, key in ipairs(KEYS) do
  local record = read(key)
  local stands = string.find(' ' .. (record.indexes or '') .. ' ', ' ' .. ARGV[1] .. ' ', 1, true)
  if record.version and (stands or not record.value) then
    tell(answer, string.sub(key, #ARGV[2] + 1), record)
  end
end
return answer
