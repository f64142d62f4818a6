-- KEYS record   ARGV operation, time
local record = read(KEYS[1])
if not record.value then return 0 end
if record.consumed then
  if record.winner ~= ARGV[1] then return 0 end
  touch(KEYS[1])
  return 1
end
record.version = record.version + 1
record.consumed, record.winner = tonumber(ARGV[2]), ARGV[1]
write(KEYS[1], record, 'KEEPTTL')
return 1
