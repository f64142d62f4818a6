-- Makes a change of one record, unless it is refused (`write` in store.ts).
--
-- KEYS  the record
-- ARGV  an id of this operation; the value, '' where none is given; and the change as JSON: version, expires,
--       and for a put indexes (with spaces between) and `indexed`, until when all of those list it;
--       `consumed` makes it a consumption, `tombstone` a removal; `restored`, the version of an entry, replaces
--       whatever is there by a put or a tombstone, whose `consumed` is a time only
-- Answers { 'written' }, { 'refused' }, or { 'unindexed', indexes }: the caller has to add the record to
-- these, and try again. The answer to a removal has the indexes of the removed record and its `n`, also when it
-- was removed before: the caller has to take it out of them.
--
-- A record is one string: a line of JSON, and the value.
--   v version, o operation that wrote it, e expires, c consumed, i indexes, n listed in them until,
--   t present for a tombstone, which keeps i and n
-- A lost reply makes the client send a script again: it finds its operation, and answers the same.
local key, operation, value = KEYS[1], ARGV[1], ARGV[2]
local change = cjson.decode(ARGV[3])

local function read()
  local packed = redis.call('GET', key)
  if not packed then return { v = 0 }, '' end
  local lineEnd = string.find(packed, '\n', 1, true)
  return cjson.decode(string.sub(packed, 1, lineEnd - 1)), string.sub(packed, lineEnd + 1)
end

local function write(head, value)
  local packed = cjson.encode(head) .. '\n' .. value
  if head.e then redis.call('SET', key, packed, 'EXAT', string.format('%d', math.max(head.e, 1)))
  else redis.call('SET', key, packed) end
  return { 'written' }
end

-- Writes again what is there: WAIT confirms only what was written on its own connection, and this may
-- have been written on another. Out of memory, SET is refused, and PEXPIRE is not.
local function touch()
  local left = redis.call('PTTL', key)
  if left > 0 then redis.call('PEXPIRE', key, left)
  elseif left == -1 then redis.call('SET', key, redis.call('GET', key)) end
end

local function has(names, name) return string.find(' ' .. names .. ' ', ' ' .. name .. ' ', 1, true) end

local function isAllowed(head)
  if change.restored then return true end
  local isRecord = head.v > 0 and not head.t
  if change.consumed then return isRecord and not head.c end
  if change.version and change.version ~= head.v then return false end
  return isRecord or not change.tombstone
end

-- The indexes of a record that is put, until when they list it, and whether that is too little.
local function indexesOf(head)
  local all, known = change.indexes, head.i or ''
  for name in string.gmatch(known, '%S+') do
    if not has(all, name) then all = all == '' and name or all .. ' ' .. name end
  end
  if all == '' then return nil, nil, false end
  local indexed, names = head.n or 0, known
  if change.indexed then indexed, names = change.indexed, change.indexes end
  local isMissing = indexed < (change.expires or 1e12)
  for name in string.gmatch(all, '%S+') do isMissing = isMissing or not has(names, name) end
  return all, indexed, isMissing
end

local head, standing = read()
if change.restored then head = { v = change.restored - 1 } end
local function answer(outcome)
  if not change.tombstone then return { outcome } end
  return { outcome, head.i or '', head.n or 0 }
end

if head.o == operation then
  touch()
  return answer('written')
end
if not isAllowed(head) then
  -- A record that was not removed stays in its indexes.
  if not (change.tombstone and head.t) then return { 'refused' } end
  -- The caller that removed it may have failed, because no replica confirmed the removal.
  touch()
  return answer('refused')
end

local version = head.v + 1
if change.tombstone then
  -- Deletes first: out of memory, Redis refuses a script only at its first growing write.
  if not change.restored then redis.call('DEL', key) end
  write({ v = version, o = operation, e = change.tombstone, t = 1, i = head.i, n = head.n }, '')
  return answer('written')
end
if change.consumed and not change.restored then
  head.v, head.o, head.c = version, operation, change.consumed
  return write(head, standing)
end
local indexes, indexed, isMissing = indexesOf(head.t and {} or head)
if isMissing then return { 'unindexed', indexes } end
return write({
  v = version, o = operation, e = change.expires, i = indexes, n = indexed,
  c = change.consumed or not head.t and head.c or nil,
}, value)
