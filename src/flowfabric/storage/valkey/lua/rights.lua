-- ff_rights <command ...>: which of these commands the user may not send about keys and channels of ours.
-- Asked at boot, so that a right that is missing is told then, and not by the first task that needs it.

local CHANNELS = {PUBLISH = true, SUBSCRIBE = true, UNSUBSCRIBE = true}

redis.register_function{
  function_name = 'ff_rights', flags = {'no-writes'},
  callback = function(_, args)
    local missing = {}
    for i = 1, #args do
      local about = CHANNELS[args[i]] and ff.keys.channel('due') or ff.keys.SINGLE .. 'due'
      local first = args[i] == 'PUBSUB' and 'NUMSUB' or about
      if not redis.acl_check_cmd(args[i], first, about) then missing[#missing + 1] = args[i] end
    end
    return missing
  end,
}
