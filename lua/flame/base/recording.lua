--- What is recorded, as far as functions that are composed in Lua ask.
local flame = require "flame"
local recording = {}

--- Are gradients of any of these needed? If not, nothing is kept for them.
function recording.tracked(...)
  if not flame.is_grad_enabled() then return false end
  for _, v in ipairs { ... } do if v.requires_grad then return true end end
  return false
end

return recording
