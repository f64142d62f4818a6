-- KEYS record
-- Answers what there is to tell of the record, then of its companions that stand, and of theirs: what is
-- not here, which another node may have, is left to be asked for.
local names, named, answer = { nameOf(KEYS[1]) }, {}, {}
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
