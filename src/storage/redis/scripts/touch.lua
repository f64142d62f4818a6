-- KEYS records
for _, key in ipairs(KEYS) do touch(key) end
return 1
