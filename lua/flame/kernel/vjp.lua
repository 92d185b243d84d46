--- Gradients that the script itself gives for kernels: flame.kernel{vjp = …}, a function or CUDA C
-- text. Derived gradients are made in C (src/rule/rule.h).
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail, is_tensor = arguments.fail, flame.is_tensor

local function is_output(q) return q.role == "out" or q.role == "inout" end

-- ---- calls --------------------------------------------------------------------------------------
local function list_set(list)
  local set = {}
  for _, name in ipairs(list or {}) do set[name] = true end
  return set
end

-- The arguments of a call by the position of their parameter; tensors as snapshots of their
-- current values. n: the number of elements, in place of an omitted count; memory: the values that
-- k:constant has set.
local function values_of(params, args, n, memory)
  local values, at = {}, 0
  for i, q in ipairs(params) do
    if q.hidden then
      values[i] = q.role == "in" and internal.snapshot(memory[q.name]) or nil
    elseif q.role ~= "out" then
      at = at + 1
      local v = args[at]
      if v == nil and not q.null then v = n end
      values[i] = is_tensor(v) and internal.snapshot(v) or v
    end
  end
  return values
end

local function active_of(params, values, config)
  local skip, active, inputs = list_set(config.nodiff), {}, {}
  for i, q in ipairs(params) do
    local v = values[i]
    if is_tensor(v) and v.requires_grad and q.float and not skip[q.name] then
      active[#active + 1], inputs[#inputs + 1] = i, v
    end
  end
  return active, inputs
end

-- The gradients with respect to the active parameters, by the script's vjp, if output 'which' has
-- the gradient g and the other outputs (results at out_params) have zeros.
local function gradient(p, values, active, result, g, out_params, which)
  local seeds = {}
  for k, i in ipairs(out_params) do
    if not p.params[i].hidden then
      seeds[#seeds + 1] = k == which and g or flame.zeros_like(result[i])
    end
  end
  local plain, at = {}, 0
  for i, q in ipairs(p.params) do
    if q.role ~= "out" and not q.hidden then
      at = at + 1
      plain[at] = values[i]
    end
  end
  local config = p.config
  if type(config.vjp) ~= "string" then
    local list = table.move(plain, 1, at, #seeds + 1, table.move(seeds, 1, #seeds, 1, {}))
    local grads, by = table.pack(config.vjp(table.unpack(list, 1, #seeds + at))), {}
    local n, last = 0, 0                             -- last: of the arguments that are tensors
    for i, q in ipairs(p.params) do
      if q.role ~= "out" and not q.hidden then
        n = n + 1
        by[i] = grads[n]
        if is_tensor(values[i]) then last = n end
      end
    end
    if grads.n < last then
      fail(p.name, "vjp: gave %d value%s, the last tensor is argument %d\1: return one for each" ..
        " argument, nil where there is no gradient", grads.n, grads.n == 1 and "" or "s", last)
    end
    local out = {}
    for k, i in ipairs(active) do
      local d, shape = by[i], table.concat(values[i].shape, ", ")
      if d ~= nil and not (is_tensor(d) and table.concat(d.shape, ", ") == shape) then
        fail(p.name, "vjp: the gradient by %s must be a tensor of shape (%s), got %s",
          p.params[i].name, shape,
          is_tensor(d) and "(" .. table.concat(d.shape, ", ") .. ")" or type(d))
      end
      out[k] = d
    end
    return table.unpack(out, 1, #active)
  end
  return config.vjp_kernel(p, plain, at, seeds, active, values)
end

-- The tensors of a call as a list for the graph to keep, since a Lua function that holds them
-- would keep them until it is collected; and a function that rebuilds the call from such a list.
local function handed_over(call)
  local kept, place, rest = {}, {}, { values = {}, results = {} }
  for part, others in pairs(rest) do
    for i, v in pairs(call[part]) do
      if is_tensor(v) then
        kept[#kept + 1] = v
        place[#kept] = { part, i }
      else others[i] = v end
    end
  end
  local geometry = call.geometry
  return kept, function(list)
    local again = { values = {}, results = {}, geometry = geometry }
    for part, others in pairs(rest) do for i, v in pairs(others) do again[part][i] = v end end
    for k, at in ipairs(place) do again[at[1]][at[2]] = list[k] end
    return again
  end
end

-- A call's outputs by position of their parameter, as snapshots; and the list of these positions.
local function outputs_of(params, results)
  local by_param, order = {}, {}
  for i, q in ipairs(params) do
    if is_output(q) then
      order[#order + 1] = i
      by_param[i] = internal.snapshot(results[#order])
    end
  end
  return by_param, order
end

-- Makes a call's outputs tracked by the script's vjp; returns all, hidden ones included.
local function track_all(p, results, args, geometry, n, rule)
  local config = p.config
  local values = values_of(p.params, args, n, config.memory)
  local active, inputs = active_of(p.params, values, config)
  for _, name in ipairs(config.nodiff or {}) do
    for i, q in ipairs(p.params) do
      if q.name == name and is_tensor(values[i]) then values[i] = values[i]:detach() end
    end
  end
  if #active == 0 then return table.unpack(results) end
  local by_param, out_params = outputs_of(p.params, results)
  local floats, list = {}, {}                      -- positions of the float results, these results
  for j, r in ipairs(results) do
    if r:is_floating_point() then floats[#floats + 1], list[#list + 1] = j, r end
  end
  if #list == 0 then return table.unpack(results) end
  local kept, call_with = handed_over({ values = values, results = by_param, geometry = geometry })
  local made = table.pack(internal.custom(list, inputs, function(which, g, _, _, held)
    local j, again = floats[which], call_with(held)
    local function given(seed, of)
      return gradient(p, again.values, active, again.results, seed, out_params, of)
    end
    if rule then
      require("flame.tools.proof").of_given(config, active, rule, floats, given)
    end
    return given(g, j)
  end, kept))
  local tracked_results = { table.unpack(results) }
  for m, j in ipairs(floats) do tracked_results[j] = made[m] end
  return table.unpack(tracked_results)
end

--- Called by src/lua/kernel_call.c for tracked results. rule: a derived gradient to compare with.
function internal.kernel_given(k, results, args, geometry, n, rule)
  local p = internal.kernel_info(k)
  local list, out, from, at = table.pack(track_all(p, results, args, geometry, n, rule)), {}, 0, 0
  for _, q in ipairs(p.params) do
    if is_output(q) then from = from + 1 end
    if is_output(q) and not q.hidden or q.gave_nil then
      at = at + 1
      out[at] = not q.null and list[from] or nil
    end
  end
  return table.unpack(out, 1, at)
end

-- ---- as text ------------------------------------------------------------------------------------
--- The arguments of a gradient kernel: kinds and values of its parameters; also which parameters of
--- p its outputs are the gradients of, and the largest number of elements of these.
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
    end
  end
  return kinds, vals, made, count
end

-- The vjp function for a gradient written in CUDA: a kernel whose outputs are named d<input>,
-- grad_<input>, d_<input> or <input>_grad.
local function from_source(source)
  local k = flame.kernel(source)
  local params = internal.kernel_info(k).params
  for _, q in ipairs(params) do
    if q.hidden or q.part then
      fail("kernel", "vjp: %s '%s' %s\1: make it a parameter%s",
        q.part and "the array" or "variable", q.name,
        q.part and "in a struct" or "of file scope", q.part and "" or " or a local")
    end
  end
  return function(p, plain, n, seeds, active, values)
    local args = table.move(plain, 1, n, 1, {})
    for j = 1, #seeds do args[n + j] = seeds[j]:contiguous() end
    local kinds, vals, made, count = bind_vjp(p, params, args, values)
    -- the results are tracked if the arguments are: a second derivative differentiates this kernel
    local out = table.pack(internal.kernel_run(k, count, table.concat(kinds), vals))
    local by, list = {}, {}
    for m, i in ipairs(made) do
      if is_tensor(values[i]) then by[i] = out[m]:reshape(values[i].shape) end
    end
    for m, i in ipairs(active) do list[m] = by[i] end
    return table.unpack(list, 1, #active)
  end
end

return { from_source = from_source }
