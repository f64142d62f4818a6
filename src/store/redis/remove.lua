-- KEYS records   ARGV operation, tombstone   Answers how many this operation has removed.
local removed = 0
for _, key in ipairs(KEYS) do
  local version, last, value = read(key)
  if value then
    -- Deletes before it writes: out of memory, Redis refuses a script only at its first growing write.
    redis.call('DEL', key)
    write(key, ARGV[2], version + 1, ARGV[1])
    removed = removed + 1
  elseif version then
    -- Who ended it may have been refused.
    touch(key)
    if last == ARGV[1] then removed = removed + 1 end
  end
end
return removed
