--- folder(f, …): returns f(…), called in a new working folder, which is then removed with all that
-- is in it. For calls with random arguments, of which some are names of files. Needs a build with
-- test hooks.
local internal = require("flame").internal

return function(f, ...)
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir " .. path))
  local before = internal.enter_folder(path)
  local results = table.pack(xpcall(f, debug.traceback, ...))
  internal.enter_folder(before)
  assert(os.execute("rm -rf " .. path))
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end
