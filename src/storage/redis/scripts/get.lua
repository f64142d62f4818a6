-- KEYS records
-- Answers of each what there is to tell of it, then of its companions that stand, and of theirs: what is
-- not here, which another node may have, is left to be asked for. Nothing where it cannot be read: others
-- are asked for with it.
local function tellAll(first)
  local names, named, answer = { first }, {}, {}
  for i = 1, 12 do
    local name = names[i]
    if not name then break end
    local version, _, value, companions, _, _, consumed = read(RECORD .. name)
    if version then tell(answer, name, version, value, consumed) end
    for companion in string.gmatch(companions or '', '%S+') do
      if not named[companion] then names[#names + 1] = companion end
      named[companion] = true
    end
  end
  return answer
end

local answers = {}
for i, key in ipairs(KEYS) do
  local isFine, told = pcall(tellAll, nameOf(key))
  answers[i] = isFine and told
end
return answers
