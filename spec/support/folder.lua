--- folder(f, …): calls f in a new folder, which is removed afterwards with what is in it, and gives
-- f's results. For calls with random arguments, some of which are names of files. Needs a build for
-- tests.
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
