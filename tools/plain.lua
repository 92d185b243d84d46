--- busted output handler: failures with their trace, and one line of totals at the end.
-- The line is read by tools/test: "specs: N passed, N failed, N pending".

return function()
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()

  local function describe(kind, f)
    local message = f.message
    if type(message) ~= "string" then message = require "pl.pretty".write(message) end
    local trace = f.trace or {}
    io.write(("%s: %s:%s: %s\n%s\n"):format(kind, trace.short_src or "?",
      trace.currentline or "?", f.name, message))
    if kind == "error" and trace.traceback then io.write(trace.traceback, "\n") end
  end

  handler.suiteEnd = function()
    for _, f in ipairs(handler.failures) do describe("failed", f) end
    for _, f in ipairs(handler.errors) do describe("error", f) end
    for _, f in ipairs(handler.pendings) do
      io.write("pending: ", f.name, type(f.message) == "string" and ": " .. f.message or "", "\n")
    end
    io.write(("specs: %d passed, %d failed, %d pending\n"):format(handler.successesCount,
      handler.failuresCount + handler.errorsCount, handler.pendingsCount))
    io.flush()
    return nil, true
  end

  busted.subscribe({ "suite", "end" }, handler.suiteEnd)
  return handler
end
