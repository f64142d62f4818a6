-- KEYS index   ARGV member, expires or 'inf'
enter(KEYS[1], ARGV[1], ARGV[2])
return 1
