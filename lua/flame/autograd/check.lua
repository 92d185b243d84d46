--- gradcheck: gradients of a function against central differences, element by element. Checks that
--- run without a request (FLAME_CHECK=grad) are in tools/proof.lua.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, def, is_tensor = arguments.fail, arguments.def, flame.is_tensor

--- Fixed weights, one per element of y: the checks differentiate the sum of weight times element.
local function weights(y)
  local n = math.max(y:numel(), 1)
  return flame.arange(0, n - 1, { dtype = y.dtype, device = y.device }):mul(0.7):cos():narrow(1, 1,
    y:numel()):reshape(y.shape)
end
local function weighted(f, xs)
  local results, sum = table.pack(f(table.unpack(xs))), nil
  for i = 1, results.n do
    local y = results[i]
    if is_tensor(y) and y:is_floating_point() then
      local s = (y * weights(y)):sum()
      sum = sum and sum + s or s
    end
  end
  return sum or fail("gradcheck", "f must return a float tensor")
end

local function position_text(i, shape)
  local at = {}
  for d = #shape, 1, -1 do
    table.insert(at, 1, (i - 1) % shape[d] + 1)
    i = (i - 1) // shape[d] + 1
  end
  return "(" .. table.concat(at, ", ") .. ")"
end

--- The derivative of f's weighted sum by element i of xs[k], as a central difference of steps eps.
local function numeric(f, xs, k, i, eps)
  local flat = xs[k]:reshape(-1)
  local at = flame.tensor({ i }, { dtype = "i64", device = flat.device })
  local step = flame.full({ 1 }, eps, { dtype = flat.dtype, device = flat.device })
  local function at_step(sign)
    local moved = { table.unpack(xs) }
    moved[k] = flat:index_add(1, at, step * sign):reshape(xs[k].shape):clone()
    return flame.no_grad(weighted, f, moved):item()
  end
  return (at_step(1) - at_step(-1)) / (2 * eps)
end

local function check(f, xs, o, order)
  local own = {}
  for i, x in ipairs(xs) do own[i] = x:detach():clone():requires_grad_(true) end
  local y = weighted(f, own)
  local grads = y.requires_grad and internal.gradients({ y }, nil, own, {}) or {}
  for i in ipairs(own) do own[i] = own[i]:detach() end
  local worst
  for k, x in ipairs(own) do
    local analytic = grads[k] and grads[k]:reshape(-1):totable() or {}
    for i = 1, x:numel() do
      local a, n = analytic[i] or 0, numeric(f, own, k, i, o.eps)
      local excess = math.abs(a - n) - (o.atol + o.rtol * math.abs(n))
      if (excess > 0 or excess ~= excess)
          and (not worst or excess > worst.excess or excess ~= excess) then
        worst = { excess = excess ~= excess and math.huge or excess, input = k,
          at = position_text(i,
          x.shape), a = a, n = n }
      end
    end
  end
  if worst then
    fail("gradcheck", "%sinput %d at %s: analytic %.10g, numeric %.10g",
      order == 2 and "second order, " or "",
      o.place[worst.input], worst.at, worst.a, worst.n)
  end
end

--- Compares f's gradients with respect to the tensors of inputs with central differences, and
--- raises for the worst one that differs. The defaults of eps, atol and rtol depend on the dtypes;
--- order = 2 checks second derivatives as well.
def([[.gradcheck(f: fn, inputs: T|any[], *, eps?: num, atol?: num, rtol?: num,
    order: int = 1) -> bool]], function(f, inputs, eps, atol, rtol, order)
  if is_tensor(inputs) then inputs = { inputs } end
  local exact, xs, place, n, whole = true, {}, {}, #inputs, f
  for i = 1, n do
    if is_tensor(inputs[i]) and inputs[i]:is_floating_point() then
      xs[#xs + 1], place[#place + 1] = inputs[i], i
      exact = exact and inputs[i].dtype == "f64"
    end
  end
  if #xs == 0 then fail("gradcheck", "inputs has no float tensor") end
  if #xs < n then                                 -- the other arguments are passed unchanged
    f = function(...)
      local all = { table.unpack(inputs, 1, n) }
      for k, i in ipairs(place) do all[i] = (select(k, ...)) end
      return whole(table.unpack(all, 1, n))
    end
  end
  if order ~= 1 and order ~= 2 then fail("gradcheck", "order must be 1 or 2, got %d", order) end
  local o = { eps = eps or exact and 1e-6 or 1e-2, atol = atol or exact and 1e-5 or 1e-2,
    rtol = rtol or exact and 1e-3 or 2e-2, place = place }
  check(f, xs, o, 1)
  if order == 2 then
    check(function(...)
      local own = { ... }
      for i, x in ipairs(own) do
        if not x.requires_grad then own[i] = x:detach():requires_grad_(true) end
      end
      local _ <close> = flame.enable_grad()
      local y = weighted(f, own)
      local g = internal.gradients({ y }, nil, own, { create_graph = true, retain_graph = true })
      for i = 1, #own do g[i] = g[i] or flame.zeros_like(own[i]) end
      return table.unpack(g, 1, #own)
    end, xs, o, 2)
  end
  return true
end)
