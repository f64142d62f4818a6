-- KEYS record   ARGV expires or '', operation, version, indexes, noted, consumed or '', value or nothing
local expires, operation, version, indexes, noted, consumed, value = unpack(ARGV)
if indexes == '' then indexes, noted = nil, nil end
noted, consumed = tonumber(noted), tonumber(consumed)
write(KEYS[1], expires, tonumber(version), operation, value, indexes, noted, consumed)
return 1
