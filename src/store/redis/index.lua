-- KEYS index   ARGV member, expires or 'inf', now
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
local longest = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
if longest == 'inf' then redis.call('PERSIST', KEYS[1]) else redis.call('EXPIREAT', KEYS[1], longest) end
return 1
