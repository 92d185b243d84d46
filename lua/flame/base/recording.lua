--- What functions composed in Lua need to know about recording: which line their ops belong to, and
--- whether a gradient is needed.
local flame = require "flame"
local internal = flame.internal
local recording = {}

--- From pin() on all ops belong to the line of the script that called the library, looked up
-- once. 'unpin' ends that; it comes first, as an error may come in between:
--   local _ <close> = recording.unpin
--   recording.pin()
recording.pin = internal.pin
recording.unpin = setmetatable({}, { __close = function() internal.unpin() end })

--- Are gradients of any of these needed? If not, nothing is kept for them.
function recording.tracked(...)
  if not flame.is_grad_enabled() then return false end
  for _, v in ipairs { ... } do if v.requires_grad then return true end end
  return false
end

return recording
