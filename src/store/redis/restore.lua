-- KEYS record   ARGV expires or '', operation, version, indexes, noted, consumed or '', value or nothing
local _, operation, version, indexes, noted, consumed, value = unpack(ARGV)
local record = { version = tonumber(version), operation = operation, value = value }
if indexes ~= '' then record.indexes, record.noted = indexes, tonumber(noted) end
record.consumed = tonumber(consumed)
if ARGV[1] == '' then write(KEYS[1], record) else write(KEYS[1], record, 'EXAT', ARGV[1]) end
return 1
