-- KEYS records   ARGV operation, tombstone, version or ''
-- Answers how many this operation has removed.
local removed, required = 0, tonumber(ARGV[3])
for _, key in ipairs(KEYS) do
  local version, last, value = read(key)
  if value and version == (required or version) then
    -- Deletes before it writes: out of memory, Redis refuses a script only at its first growing write.
    redis.call('DEL', key)
    write(key, ARGV[2], version + 1, ARGV[1])
    removed = removed + 1
  elseif version and not value then
    -- Who ended it may have been refused.
    touch(key)
    if last == ARGV[1] then removed = removed + 1 end
  end
end
return removed
