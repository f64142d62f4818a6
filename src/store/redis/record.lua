-- Stands before each script. A record is one string: these fields, packed one after the other as far as
-- there are any. A tombstone has version and operation.
local FIELDS = { 'version', 'operation', 'value', 'companions', 'indexes', 'noted', 'consumed', 'winner' }

-- Without a version where nothing stands.
local function read(key)
  local packed, record = redis.call('GET', key), {}
  local fields = packed and { cmsgpack.unpack(packed) } or {}
  for i, name in ipairs(FIELDS) do record[name] = fields[i] end
  return record
end

-- `...` says until when, as SET does.
local function write(key, record, ...)
  local fields, last = {}, 0
  for i, name in ipairs(FIELDS) do
    fields[i] = record[name]
    if fields[i] then last = i end
  end
  redis.call('SET', key, cmsgpack.pack(unpack(fields, 1, last)), ...)
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

-- What is told of a record, after its name.
local function tell(answer, name, record)
  for _, field in ipairs({ name, record.version, record.value or false, record.consumed or false }) do
    answer[#answer + 1] = field
  end
end
