local internal = require("flame").internal

--- The function of a text with a form on each line: it gives the number of the form and the
-- parameters.
return function(text)
  local forms = {}
  for _ in text:gmatch("[^\n]+") do
    local k = #forms + 1
    forms[k] = function(...) return k, ... end
  end
  return (internal.declare(text, "", table.unpack(forms)))
end
