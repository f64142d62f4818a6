-- KEYS record
-- Answers the second in which it expires, or false, its indexes, and what there is to tell.
local left, time = redis.call('PTTL', KEYS[1]), redis.call('TIME')
local expires = left >= 0 and string.format('%.0f', time[1] + (time[2] / 1000 + left) / 1000)
local version, _, value, indexes, _, consumed = read(KEYS[1])
local answer = { expires, indexes or '' }
if version then tell(answer, nameOf(KEYS[1]), version, value, consumed) end
return answer
