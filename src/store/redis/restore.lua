-- KEYS record   ARGV expires or '', then the names and values of all its fields
-- The first write is one that grows: out of memory, Redis refuses it before anything is lost.
redis.call('HSET', KEYS[1], 'version', 0)
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
if ARGV[1] ~= '' then redis.call('EXPIREAT', KEYS[1], ARGV[1]) end
return 1
