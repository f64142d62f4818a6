-- KEYS index   ARGV how many
-- Answers what `members` does of so many, after the names of those that are left.
local index = string.sub(KEYS[1], #INDEX + 1)
local names = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. redis.call('TIME')[1], '+inf')
local answer = { table.concat(names, ' ', ARGV[1] + 1) }
for i = 1, math.min(#names, ARGV[1]) do tellMember(answer, names[i], index) end
return answer
