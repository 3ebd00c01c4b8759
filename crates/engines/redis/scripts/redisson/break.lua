if ARGV[5] then
  redis.call('SET', ARGV[7], ARGV[5], 'PX', ARGV[6])
  redis.call('@publish@', ARGV[8] .. ':' .. string.sub(ARGV[4], 1, 32), 'b' .. string.sub(ARGV[4], 33, 44))
end
