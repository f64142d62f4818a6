-- KEYS record   ARGV operation, time
local value, consumed, winner = unpack(redis.call('HMGET', KEYS[1], 'value', 'consumed', 'winner'))
if not value then return 0 end
if consumed and winner ~= ARGV[1] then return 0 end
if consumed then
  redis.call('HSET', KEYS[1], 'winner', winner)
  return 1
end
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'consumed', ARGV[2], 'winner', ARGV[1])
return 1
