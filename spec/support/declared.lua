local internal = require("flame").internal

--- declared(text): a function declared by 'text', one form (signature) per line. A call of it
--- returns the number of the form that fits, and the parameters as the function receives them.
return function(text)
  local forms = {}
  for _ in text:gmatch("[^\n]+") do
    local k = #forms + 1
    forms[k] = function(...) return k, ... end
  end
  return (internal.declare(text, "", table.unpack(forms)))
end
