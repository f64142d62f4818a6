-- KEYS records   ARGV operation, tombstone   Answers how many this operation has removed.
local removed = 0
for _, key in ipairs(KEYS) do
  local record = read(key)
  if record.value then
    -- Deletes before it writes: out of memory, Redis refuses a script only at its first growing write.
    redis.call('DEL', key)
    write(key, { version = record.version + 1, operation = ARGV[1] }, 'EXAT', ARGV[2])
    removed = removed + 1
  elseif record.version then
    -- Who ended it may have been refused.
    touch(key)
    if record.operation == ARGV[1] then removed = removed + 1 end
  end
end
return removed
