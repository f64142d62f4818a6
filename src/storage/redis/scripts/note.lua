-- Notes a record in an index, before it is written: an index may name records that do not name it, and
-- readers leave those out; a record that no index names would never be found.
--
-- KEYS  the index: a sorted set of records by the time until which they are noted
-- ARGV  the record, and that time
local index = KEYS[1]
redis.call('ZREMRANGEBYSCORE', index, '-inf', redis.call('TIME')[1])
redis.call('ZADD', index, 'GT', ARGV[2], ARGV[1])
local last = redis.call('ZRANGE', index, -1, -1, 'WITHSCORES')[2]
redis.call('EXPIREAT', index, string.format('%.0f', last))
return 1
