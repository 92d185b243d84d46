--- For specs of user kernels: checks that derivatives are right, by central differences of the
-- value (flame.gradcheck, to second order) and by <J v, u> = <v, J' u> between forward and reverse
-- mode; and that derived kernels have no races.
local flame = require "flame"
local interpreter = dofile("spec/support/interpreter.lua")

local proof = {}

local function list_of(v) return type(v) == "table" and v or { v } end

--- A fixed tensor like x whose elements all differ, as the direction of a derivative.
function proof.direction(x, phase)
  local n = x:numel()
  return (flame.arange(n, { dtype = x.dtype, device = x.device }) * 0.9 + phase):sin()
    :reshape(x.shape)
end

local function floats(list)
  local out = {}
  for _, x in ipairs(list) do
    if x:is_floating_point() then out[#out + 1] = x end
  end
  return out
end

local function dot(a, b)
  local sum = 0
  for i = 1, #a do sum = sum + (a[i]:double() * b[i]:double()):sum():item() end
  return sum
end

--- <J v, u> and <v, J' u>.
function proof.both_modes(f, inputs)
  local function of_floats(...)
    return table.unpack(floats(table.pack(f(...))))
  end
  local v, u = {}, {}
  for i, x in ipairs(inputs) do v[i] = proof.direction(x, 0.4) end
  local results, jv = flame.jvp(of_floats, inputs, v)
  for i, y in ipairs(list_of(results)) do u[i] = proof.direction(y, 1.1) end
  local _, gu = flame.vjp(of_floats, inputs, u)
  return dot(list_of(jv), u), dot(v, list_of(gu))
end

--- o: {order = 2, tol = relative, …options of gradcheck}.
function proof.check(f, inputs, o)
  o = o or {}
  local how = { order = o.order or 2, eps = o.eps, atol = o.atol, rtol = o.rtol }
  assert(flame.gradcheck(f, inputs, how))
  local forward, reverse = proof.both_modes(f, inputs)
  local tol = (o.tol or 1e-9) * math.max(1, math.abs(forward))
  assert(math.abs(forward - reverse) <= tol,
    ("<J v, u> = %.17g, <v, J' u> = %.17g"):format(forward, reverse))
end

--- Runs the file of a spec once more in a child process on the CPU, with each launch checked;
--- words: the value of FLAME_CHECK.
function proof.checked(spec, words)
  if os.getenv "FLAME_PROOF_CHILD" then return end
  local p = assert(io.popen(("FLAME_PROOF_CHILD=1 FLAME_DEVICE=cpu FLAME_CHECK=%s '%s' tools/busted.lua %s 2>&1")
    :format(words, interpreter, spec)))
  local said = p:read "a"
  assert(p:close(), said)
end

return proof
