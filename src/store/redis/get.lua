-- KEYS record   ARGV prefix of records
-- Answers key, value, version and when consumed, of the record, then of its companions that stand, and
-- of theirs: what is not here, which another node may have, is left to be asked for.
local names, answer = { string.sub(KEYS[1], #ARGV[1] + 1) }, {}
for i = 1, 12 do
  local name = names[i]
  if not name then break end
  local record = redis.call('HMGET', ARGV[1] .. name, 'value', 'version', 'consumed', 'companions')
  if record[2] then
    for _, field in ipairs({ name, record[1], record[2], record[3] }) do answer[#answer + 1] = field end
    for companion in string.gmatch(record[4] or '', '%S+') do names[#names + 1] = companion end
  end
end
return answer
