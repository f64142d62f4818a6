-- Adds a record to an index, before it is written. An index may list records that do not name it: readers
-- leave those out. A record that its index does not list would never be found.
--
-- KEYS  the index: a sorted set of records by the time until which it lists them
-- ARGV  the record, and that time
local index = KEYS[1]
redis.call('ZREMRANGEBYSCORE', index, '-inf', redis.call('TIME')[1])
redis.call('ZADD', index, 'GT', ARGV[2], ARGV[1])
local last = redis.call('ZRANGE', index, -1, -1, 'WITHSCORES')[2]
redis.call('EXPIREAT', index, string.format('%.0f', last))
return 1
