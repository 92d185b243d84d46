--- For functions that record several ops: which line of the script these ops are attributed to, and
--- whether a gradient is needed.
local flame = require "flame"
local internal = flame.internal
local recording = {}

--- From pin() on, ops are attributed to the line of the script that called the library. Closing
-- 'unpin' ends that; it is declared first, since an error may come in between:
--   local _ <close> = recording.unpin
--   recording.pin()
recording.pin = internal.pin
recording.unpin = setmetatable({}, { __close = function() internal.unpin() end })

--- Is a gradient needed for any of these tensors? If not, the caller need not keep values for it.
function recording.tracked(...)
  if not flame.is_grad_enabled() then return false end
  for _, v in ipairs { ... } do if v.requires_grad then return true end end
  return false
end

return recording
