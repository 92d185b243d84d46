--- Gradients of kernels that the script gives as CUDA C text: flame.kernel{vjp = "…"}.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, is_tensor = arguments.fail, flame.is_tensor
local gradient = require "flame.kernel.gradient"
local is_output, tracked = gradient.is_output, gradient.tracked

--- What a gradient's parameters get: their kinds and values, the parameters of p that its outputs
--- are gradients of, and the elements of the largest.
local function bind_vjp(p, params, args, values)
  local wanted, kinds, vals = {}, {}, {}
  for i, q in ipairs(p.params) do
    for _, name in ipairs(
        { "d" .. q.name, "grad_" .. q.name, "d_" .. q.name, q.name .. "_grad" }) do
      wanted[name] = i
    end
  end
  local at, made, count = 0, {}, 1
  for j, q in ipairs(params) do
    if is_output(q) then
      local i = wanted[q.name]
      if not i then
        fail(p.name, "vjp: output '%s' is no gradient of a parameter (d<name> is)", q.name)
      end
      local size = is_tensor(values[i]) and values[i]:numel() or 1
      kinds[j], vals[j], made[#made + 1] = "o", { size }, i
      count = math.max(count, size)
    else
      at = at + 1
      kinds[j], vals[j] = q.role == "in" and "i" or q.role == "struct" and "s" or "v", args[at]
      if (q.role == "in") ~= is_tensor(vals[j]) and q.role ~= "scalar" or vals[j] == nil then
        fail(p.name,
          "vjp: parameter %d, %s, does not fit: parameters are the kernel's arguments, then the gradients of its " ..
          "outputs", j, q.name)
      end
      if q.role == "in" then vals[j] = vals[j]:detach() end
    end
  end
  return kinds, vals, made, count
end

--- A gradient written in CUDA: its outputs are named d<input>, grad_<input>,
--- d_<input> or <input>_grad.
local function from_source(source)
  local k = flame.kernel(source)
  local params = internal.kernel_info(k).params
  for _, q in ipairs(params) do
    if q.hidden then
      fail("kernel", "vjp: variable '%s' of file scope\1: make it a parameter or a local", q.name)
    end
  end
  return function(p, plain, n, seeds, active, values)
    local args = table.move(plain, 1, n, 1, {})
    for j = 1, #seeds do args[n + j] = seeds[j]:contiguous() end
    local kinds, vals, made, count = bind_vjp(p, params, args, values)
    local geometry = { count, 1, 1, 0, 1, 1, 0 }
    local out = table.pack(internal.kernel_run(k, geometry, table.concat(kinds), vals))
    local given, by, list = {}, {}, {}
    for _, v in ipairs(args) do given[#given + 1] = is_tensor(v) and v or nil end
    if tracked(given) then                       -- a second derivative is that of this kernel
      out = table.pack(internal.kernel_track(k, table.move(out, 1, #made, 1, {}), args, geometry))
    end
    for m, i in ipairs(made) do
      if is_tensor(values[i]) then by[i] = out[m]:reshape(values[i].shape) end
    end
    for m, i in ipairs(active) do list[m] = by[i] end
    return table.unpack(list, 1, #active)
  end
end

return { from_source = from_source }
