-- Adds a record to an index, before it is written; or takes a record out, after it was removed. An index may
-- list records that do not name it: readers leave those out. A record that its index does not list would
-- never be found.
--
-- KEYS  the index: a sorted set of records by the time until which it lists them
-- ARGV  the record, and that time; and for a removal 'remove'
--
-- Each addition raises the time. A removed record thus leaves the index only if no later write has added it:
-- `n` of the removed record is less than the time then.
local index, record, time = KEYS[1], ARGV[1], tonumber(ARGV[2])
local listed = tonumber(redis.call('ZSCORE', index, record) or -1)
if ARGV[3] == 'remove' then
  if listed <= time then redis.call('ZREM', index, record) end
  return 1
end
redis.call('ZREMRANGEBYSCORE', index, '-inf', redis.call('TIME')[1])
redis.call('ZADD', index, string.format('%.0f', math.max(time, listed + 1)), record)
local last = redis.call('ZRANGE', index, -1, -1, 'WITHSCORES')[2]
redis.call('EXPIREAT', index, string.format('%.0f', last))
return 1
