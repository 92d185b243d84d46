-- Distributions of lists of arguments, for the specs: tensor(v) in f64, make(name, args), and
-- title(name, args), which names one in a test's title.
local flame = require "flame"
local D = require "flame.distributions"

local made = {}
function made.tensor(v) return flame.tensor(v, { dtype = "f64" }) end
--- The distribution; parameters in f64, or of another dtype.
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
