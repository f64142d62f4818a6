-- KEYS records   ARGV index
-- Answers what there is to tell of those that stand in the index, and of those that have ended.
local answer = {}
for _, key in ipairs(KEYS) do
  tellMember(answer, nameOf(key), ARGV[1])
end
return answer
