-- KEYS record   Answers the second in which it expires, or false, and its fields, all of one moment.
local left, time = redis.call('PTTL', KEYS[1]), redis.call('TIME')
local expires = left >= 0 and string.format('%.0f', time[1] + (time[2] / 1000 + left) / 1000)
return { expires, unpack(redis.call('HMGET', KEYS[1], 'value', 'version', 'consumed', 'indexes')) }
