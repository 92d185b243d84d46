local internal = require("flame").internal

--- Returns a function declared by 'text', which has a form on each line. A call returns the number
--- of the form that it matches, and its parameters.
return function(text)
  local forms = {}
  for _ in text:gmatch("[^\n]+") do
    local k = #forms + 1
    forms[k] = function(...) return k, ... end
  end
  return (internal.declare(text, "", table.unpack(forms)))
end
