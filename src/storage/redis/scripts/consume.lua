-- KEYS record   ARGV operation, time
local version, last, value, indexes, noted, consumed, winner = read(KEYS[1])
if not value then return 0 end
if consumed then
  if winner ~= ARGV[1] then return 0 end
  touch(KEYS[1])
else
  local time = tonumber(ARGV[2])
  write(KEYS[1], 'KEEPTTL', version + 1, last, value, indexes, noted, time, ARGV[1])
end
return 1
