-- What a user lacks must be known before the first write: a script that stops half-way is not undone.
local function check_rights(calls)
  for _, call in ipairs(calls) do
    if not redis.acl_check_cmd(unpack(call)) then
      error({ err = 'NOPERM this user may not run ' .. string.lower(call[1]) })
    end
  end
end
