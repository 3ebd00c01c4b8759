-- The claim is in the store, and what comes with it was refused. Only SET is sure to be allowed, so it has it end at once.
redis.call('SET', KEYS[1], ARGV[1], 'XX', 'PX', 1)
error(answer)
