-- Makes all changes to records of one slot, or none where one is refused (`write` in store.ts).
--
-- KEYS  the records
-- ARGV  an id of this operation; and two for each record: its value, '' where none is given, and the change
--       as JSON: version, expires, and for a put indexes (with spaces between) and `indexed`, until when
--       all of those list it; `consumed` makes it a consumption, `tombstone` a removal
-- Answers { 'written' }, { 'failed', position }, or { 'unindexed', position, indexes }: the caller has to
-- add the record to these, and try again. The answer to a removal has the indexes of the removed record and
-- its `n`, also when it was removed before: the caller has to take it out of them.
--
-- A record is one string: a line of JSON, and the value.
--   v version, o operation that wrote it, e expires, c consumed, i indexes, n listed in them until,
--   t present for a tombstone, which keeps i and n
-- A lost reply makes the client send a script again: it finds its operation, and answers the same.
local operation = ARGV[1]

local function read(key)
  local packed = redis.call('GET', key)
  if not packed then return { v = 0 }, '' end
  local lineEnd = string.find(packed, '\n', 1, true)
  return cjson.decode(string.sub(packed, 1, lineEnd - 1)), string.sub(packed, lineEnd + 1)
end

local function write(key, head, value)
  local packed = cjson.encode(head) .. '\n' .. value
  if head.e then redis.call('SET', key, packed, 'EXAT', string.format('%d', head.e))
  else redis.call('SET', key, packed) end
end

-- Writes again what is there: WAIT confirms only what was written on its own connection, and this may
-- have been written on another. Out of memory, SET is refused, and PEXPIRE is not.
local function touch(key)
  local left = redis.call('PTTL', key)
  if left > 0 then redis.call('PEXPIRE', key, left)
  elseif left == -1 then redis.call('SET', key, redis.call('GET', key)) end
end

local function has(names, name) return string.find(' ' .. names .. ' ', ' ' .. name .. ' ', 1, true) end

local function isAllowed(change, head)
  local isRecord = head.v > 0 and not head.t
  if change.version and change.version ~= head.v then return false end
  if change.tombstone then return isRecord end
  if change.consumed then return isRecord and not head.c end
  return change.version or not head.t
end

-- The indexes of a record that is put, until when they list it, and whether that is too little.
local function indexesOf(change, head)
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

local changes = {}
for i, key in ipairs(KEYS) do
  local change = cjson.decode(ARGV[2 * i + 1])
  change.key, change.value = key, ARGV[2 * i]
  change.head, change.standing = read(key)
  if change.head.o == operation then
    for _, again in ipairs(KEYS) do touch(again) end
    return { 'written' }
  end
  changes[i] = change
end

for i, change in ipairs(changes) do
  local head = change.head
  if not isAllowed(change, head) then
    -- The caller that removed it may have failed, because no replica confirmed the removal.
    if not (change.tombstone and head.t) then return { 'failed', i } end
    touch(change.key)
    return { 'failed', i, head.i or '', head.n or 0 }
  end
  if not (change.tombstone or change.consumed) then
    local isMissing
    change.indexes, change.indexed, isMissing = indexesOf(change, head.t and {} or head)
    if isMissing then return { 'unindexed', i, change.indexes } end
  end
end

-- Deletes first: out of memory, Redis refuses a script only at its first growing write.
for _, change in ipairs(changes) do
  if change.tombstone then redis.call('DEL', change.key) end
end
for _, change in ipairs(changes) do
  local head, version = change.head, change.head.v + 1
  if change.tombstone then
    local indexed = { v = version, o = operation, e = change.tombstone, t = 1, i = head.i, n = head.n }
    write(change.key, indexed, '')
  elseif change.consumed then
    head.v, head.o, head.c = version, operation, change.consumed
    write(change.key, head, change.standing)
  else
    write(change.key, {
      v = version, o = operation, e = change.expires, i = change.indexes, n = change.indexed,
      c = not head.t and head.c or nil,
    }, change.value)
  end
end
-- A batch may leave some of its removed records in their indexes: `walk` takes those out.
local first = changes[1] or {}
if not first.tombstone then return { 'written' } end
return { 'written', 0, first.head.i or '', first.head.n or 0 }
