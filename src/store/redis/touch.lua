-- KEYS record   Writes what stands there already: so that WAIT speaks of it.
local operation = redis.call('HGET', KEYS[1], 'operation')
if operation then redis.call('HSET', KEYS[1], 'operation', operation) end
return 1
