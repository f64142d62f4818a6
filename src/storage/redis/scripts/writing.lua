-- Stands before the scripts that write, after record.lua.

-- `expires` is a second, '' for never, or 'KEEPTTL'.
local function write(key, expires, ...)
  local last = select('#', ...)
  while select(last, ...) == nil do last = last - 1 end
  local packed = cmsgpack.pack(unpack({ ... }, 1, last))
  if expires == '' then redis.call('SET', key, packed)
  elseif expires == 'KEEPTTL' then redis.call('SET', key, packed, expires)
  else redis.call('SET', key, packed, 'EXAT', expires) end
end

-- Writes what stands there already: WAIT speaks only of what was written on the connection it is sent
-- on, and what is asked for a second time may have been done on another.
local function touch(key)
  local left = redis.call('PTTL', key)
  -- Of these two only SET is refused out of memory.
  if left > 0 then redis.call('PEXPIRE', key, left)
  elseif left == -1 then redis.call('SET', key, redis.call('GET', key)) end
end

-- Notes a record in an index, up to a second or 'inf'.
local function enter(index, member, till)
  redis.call('ZREMRANGEBYSCORE', index, '-inf', redis.call('TIME')[1])
  redis.call('ZADD', index, till, member)
  local longest = redis.call('ZRANGE', index, -1, -1, 'WITHSCORES')[2]
  if longest == 'inf' then redis.call('PERSIST', index) else redis.call('EXPIREAT', index, longest) end
end
