-- KEYS record   ARGV operation, tombstone
local value, last = unpack(redis.call('HMGET', KEYS[1], 'value', 'operation'))
if not value then
  -- Written again, so that WAIT speaks of it: who ended it may have been refused.
  if last then redis.call('HSET', KEYS[1], 'operation', last) end
  return last == ARGV[1] and 1 or 0
end
-- Deletes before it writes: out of memory, Redis refuses a script only at its first growing write.
redis.call('HDEL', KEYS[1], 'value', 'consumed', 'winner', 'indexes', 'until', 'companions')
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'operation', ARGV[1])
redis.call('EXPIREAT', KEYS[1], ARGV[2])
return 1
