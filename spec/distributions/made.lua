-- Distributions made from a name and a list of arguments, for the specs: tensor(v) in f64,
-- make(name, args, dtype), and title(name, args), a text for a test's title.
local flame = require "flame"
local D = require "flame.distributions"

local made = {}
function made.tensor(v) return flame.tensor(v, { dtype = "f64" }) end
--- The distribution of that name, with parameters in f64 or in 'dtype'.
function made.make(name, args, dtype)
  local list = {}
  for i, v in ipairs(args) do list[i] = made.tensor(v):to(dtype or "f64") end
  if name == "Bernoulli" or name == "Geometric" or name == "Categorical" then
    return D[name] { probs = list[1] }
  end
  return D[name](table.unpack(list))
end
function made.title(name, args)
  local parts = {}
  for i, v in ipairs(args) do parts[i] = type(v) == "number" and ("%g"):format(v) or "…" end
  return ("%s(%s)"):format(name, table.concat(parts, ", "))
end
return made
