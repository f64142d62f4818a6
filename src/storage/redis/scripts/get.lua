-- KEYS records
-- Answers of each what there is to tell of it: nothing where it cannot be read.
local function tellOne(name)
  local version, _, value, _, _, consumed = read(RECORD .. name)
  local answer = {}
  if version then tell(answer, name, version, value, consumed) end
  return answer
end

local answers = {}
for i, key in ipairs(KEYS) do
  local isFine, told = pcall(tellOne, nameOf(key))
  answers[i] = isFine and told
end
return answers
