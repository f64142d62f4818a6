-- KEYS records   ARGV prefix of records, index
-- Answers what there is to tell of those that stand in the index, and of those that have ended.
local answer = {}
for _, key in ipairs(KEYS) do
  tellMember(answer, ARGV[1], string.sub(key, #ARGV[1] + 1), ARGV[2])
end
return answer
