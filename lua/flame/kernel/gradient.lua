--- User kernels: gradients of calls (flame.kernel is in kernel/new.lua). Parsing, checking and
-- launching are C (internal.kernel_*); here is what a call needs beside its launch.
--
-- A derivative of a kernel is a kernel again, so gradients have gradients: a "program" below is
-- a kernel with the meaning of its parameters, as given or derived; vjp and jvp take programs and
-- give tracked results. The gradient of a vjp is taken through the jvp (for u fixed,
-- d<u, J'g> = d<g, Ju>), so a generated adjoint is never derived itself.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local fail = arguments.fail
local is_tensor = flame.is_tensor
local INPUT, OUTPUT, FRESH = 1, 2, 4

-- ---- programs ----------------------------------------------------------------------------------
--- The program of a kernel as given. params[i]: role in | inout | out | scalar | struct, dtype.
-- Where atomics return what the kernel uses, derivatives are those of a kernel that reads what the
-- tracked launch has written down: a last parameter more.
local function program_of(k, as_given)
  local info = internal.kernel_info(k)
  local replay = not as_given and info.config.replay
  if replay then
    local params = internal.kernel_info(replay).params
    table.move(info.params, 1, #info.params, 1, params)
    return { kernel = replay, name = info.name, params = params, derived = info.config.derived,
      replays = true }
  end
  return { kernel = k, name = info.name, params = info.params, derived = info.config.derived }
end

-- Which sizes of a launch are 1, as bits: block.y, block.z, grid.y, grid.z. Derivatives of
-- one-dimensional launches know that a thread's index is its own.
local function flat_bits(geometry)
  return (geometry[5] == 1 and 1 or 0) + (geometry[6] == 1 and 2
    or 0) + (geometry[2] == 1 and 4 or 0) +
    (geometry[3] == 1 and 8 or 0)
end

local function wants_key(what, wants, bits, gather)
  return what .. table.concat(wants, ",") .. (flame.deterministic() and "d" or "f")
    .. (gather and "g" or "") .. bits
end

local function is_output(q) return q.role == "out" or q.role == "inout" end

local function sizes(n) return { n } end

--- The elements that an output's value or an input's gradient has, as a flat size.
local function count_of(v) return is_tensor(v) and v:numel() or v.count end

local function number_of(v) return is_tensor(v) and v:item() or v end

-- Extents of a launch: threads of a block along x, y, z, blocks, their products, blocks in all.
local function extents_of(g)
  return { g[4], g[5], g[6], g[1], g[2], g[3], g[1] * g[4], g[2] * g[5], g[3] * g[6],
    g[1] * g[2] * g[3] }
end

-- Integer arguments of a call, by parameter.
local function integers_of(p, call)
  local all = {}
  for i, q in ipairs(p.params) do
    local v = call.values[i]
    if is_tensor(v) and v:is_floating_point() then v = nil end
    all[i] = q.role == "scalar" and v and math.tointeger(number_of(v)) or false
  end
  return all
end

-- Is what was derived right for this launch? Its limits are {extent, parameter or 0, factor}.
local function holds(limits, p, call)
  if #limits == 0 then return true elseif not call then return false end
  local extents, integers = extents_of(call.geometry), integers_of(p, call)
  for _, l in ipairs(limits) do
    local most = l[2] == 0 and 1 or integers[l[2]]
    if not most or (extents[l[1]] or 0) > l[3] * most then return false end
  end
  return true
end

--- The derived program: parts[i] = {kernel, roles of its parameters, gather, positive}; raises what
-- can not be derived. An adjoint may be two kernels if 'gather' allows the one
-- with its own geometry. call: the launch, which proofs may use; nil: any.
local function derive(p, what, wants, call, gather)
  local bits = call and flat_bits(call.geometry) or 15
  local key = wants_key(what, wants, bits, gather)
  local made = p.derived[key] or {}
  for _, d in ipairs(made) do
    if holds(d.limits, p, call) then return d end
  end
  local known = what == "adjoint" and call
  local parts, limits = internal.kernel_derive(p.kernel, what, wants,
    flame.deterministic(), bits, gather,
    known and extents_of(call.geometry), known and integers_of(p, call))
  if not parts then internal.fail(p.name, limits) end
  local d = { kernel = parts[1].kernel, roles = parts[1].roles, parts = parts, derived = {},
    name = p.name, limits = limits }
  made[#made + 1], p.derived[key] = d, made
  return d
end

-- A flat, contiguous tensor of this dtype: what a launch takes.
local function flat(v, dtype)
  if v.dtype ~= dtype then v = v:to(dtype) end
  return v:contiguous()
end

-- ---- vjp and jvp --------------------------------------------------------------------------------
local vjp, jvp

local function tracked(list)
  if not flame.is_grad_enabled() then return false end
  for _, v in ipairs(list) do
    if v.requires_grad then return true end
  end
  return false
end

-- Threads of a block along x, y, z, then blocks, then both together.
local function extent(geometry, which)
  if which < 3 then return geometry[4 + which] end
  if which < 6 then return geometry[which - 2] end
  return geometry[which - 5] * geometry[which - 2]
end

-- What parameter i held before the launch; an output that is no argument held zeros.
local function contents(p, call, i)
  return p.params[i].role == "out" and flame.zeros_like(call.results[i]:detach()) or call.values[i]
end

-- What parameter q of an adjoint is launched with: letter, value.
local function adjoint_argument(q, p, call, seeds, shared)
  local i = q.param
  local v, of = call.values[i], p.params[i]
  if q.role == "unused" then return "0", false end
  if q.role == "shared" then return "v", shared end
  if q.role == "launch" then return "v", extent(call.geometry, q.count) end
  if q.role == "size" then return "v", v:numel() end
  if q.role == "original" then
    if of.role == "struct" then return "s", v end
    if of.role == "scalar" then return "v", number_of(v) end
    return "i", contents(p, call, i):detach()
  elseif q.role == "final" then return "i", call.results[i]:detach()
  elseif q.role == "cotangent" then
    if not seeds[i] then return "0", false end
    return "i", flat(seeds[i]:detach(), q.dtype)
  elseif q.role == "work" then
    if seeds[i] then return "c", flat(seeds[i]:detach(), q.dtype) end
    return "o", sizes(count_of(call.results[i]))
  elseif q.role == "scratch" then
    if of.role == "inout" then return "c", v:detach() end
    return "o", sizes(count_of(call.results[i]))
  elseif q.role == "kept" then
    return "o", sizes(count_of(of.role == "out" and call.results[i] or v))
  elseif q.role == "grad" then return "o", sizes(v:numel())
  elseif q.role == "grad_scalar" then return "o", sizes(math.max(q.count, 1)) end
  error("no such role: " .. q.role)
end

-- A geometry whose dynamic shared memory has room for the copies that the
-- derived kernel keeps there.
local function enlarged(geometry, roles)
  for _, q in ipairs(roles) do
    if q.role == "shared" then
      local g = table.move(geometry, 1, 7, 1, {})
      local bytes = (geometry[7] + 15) // 16 * 16
      g[7] = q.count * bytes
      return g, bytes
    end
  end
  return geometry, 0
end

-- A gather counts elements and threads in an int (FL_KAD_GATHER_MOST of src/kernel/ad/ad.h); tests
-- set this to -1 to have the sums by atomics.
internal.kernel_gather = 0x7fffffff - (1 << 21)

local function may_gather(call)
  local most = internal.kernel_gather
  for _, v in pairs(call.values) do
    if is_tensor(v) and v:numel() > most then return false end
  end
  for which = 6, 8 do
    if extent(call.geometry, which) > most then return false end
  end
  return true
end

-- Are the scalars greater than 0 that a gather takes for sizes?
local function suits(d, call)
  for _, i in ipairs(d.parts[1].positive or {}) do
    local v = call.values[i]
    if not (type(number_of(v)) == "number" and number_of(v) > 0) then return false end
  end
  return true
end

-- A thread for each element of the largest gradient.
local function gather_geometry(roles, call)
  local n = 1
  for _, q in ipairs(roles) do
    if q.role == "size" then n = math.max(n, call.values[q.param]:numel()) end
  end
  return { n, 1, 1, 0, 1, 1, 0 }
end

-- Launch one kernel of the adjoint; its gradients into 'grads'.
local function run_part(part, p, call, active, seeds, grads)
  local geometry, shared = enlarged(call.geometry, part.roles)
  if part.gather then geometry = gather_geometry(part.roles, call) end
  local kinds, values, made = {}, {}, {}
  for k, q in ipairs(part.roles) do
    kinds[k], values[k] = adjoint_argument(q, p, call, seeds, shared)
    if kinds[k] == "o" or kinds[k] == "c" then made[#made + 1] = q end
  end
  if #made == 0 then return end
  local out = table.pack(internal.kernel_run(part.kernel, geometry, table.concat(kinds), values))
  for k, q in ipairs(made) do
    local v = call.values[q.param]
    if q.role == "grad" or (q.role == "work" and active[q.param]) then
      grads[q.param] = out[k]:to(v.dtype):reshape(v.shape)
    elseif q.role == "grad_scalar" and is_tensor(v) then
      grads[q.param] = out[k]:to(v.dtype):reshape(v.shape)
    end
  end
end

--- Launch the adjoint: gradients by parameter.
local function run_adjoint(p, call, active, seeds)
  local wants = {}
  for i, q in ipairs(p.params) do
    wants[i] = (active[i] and INPUT or 0) + (seeds[i] and OUTPUT or 0) + (q.role == "out"
      and FRESH or 0)
  end
  local gather = may_gather(call)
  local d = derive(p, "adjoint", wants, call, gather)
  if gather and not suits(d, call) then d = derive(p, "adjoint", wants, call, false) end
  local grads = {}
  for _, q in ipairs(d.roles) do             -- a kernel that only adds to x: what comes in goes out
    local i = q.param
    if q.role == "cotangent" and q.through and active[i] and seeds[i] then
      grads[i] = seeds[i]:detach():to(call.values[i].dtype):reshape(call.values[i].shape)
    end
  end
  for _, part in ipairs(d.parts) do run_part(part, p, call, active, seeds, grads) end
  return grads
end

-- Parameters whose values have gradients: those in 'active', then others that are tracked.
local function with_tracked(p, call, active)
  local all, set = {}, {}
  for k, i in ipairs(active) do all[k], set[i] = i, true end
  for i, q in ipairs(p.params) do
    local v = call.values[i]
    if not set[i] and q.float and (q.role == "in" or q.role == "inout" or q.role == "scalar")
        and is_tensor(v)
      and v.requires_grad then
      all[#all + 1] = i
    end
  end
  return all, set
end

--- Gradients of <seeds, outputs> by the values of the parameters in 'active' (a list), in its
-- order; they depend on all values that are tracked. call: {values, results,
-- geometry} by parameter.
function vjp(p, call, active, seeds)
  local inputs, out_params = {}, {}
  local all, set = with_tracked(p, call, active)
  for k, i in ipairs(all) do inputs[k] = call.values[i] end
  for i in pairs(seeds) do out_params[#out_params + 1] = i end
  table.sort(out_params)
  for _, i in ipairs(out_params) do inputs[#inputs + 1] = seeds[i] end
  local by_param = flame.no_grad(run_adjoint, p, call, set, seeds)
  local grads = {}
  for k, i in ipairs(active) do grads[k] = by_param[i] or flame.zeros_like(call.values[i]) end
  if not tracked(inputs) then return grads end
  for k = 1, #inputs do inputs[k] = internal.snapshot(inputs[k]) end
  return table.pack(internal.custom(grads, inputs, function(which, u)
    local tangents = { [active[which]] = u }
    local forward, t = jvp(p, call, tangents)
    local second, back = {}, {}
    for _, i in ipairs(all) do
      if t.of_value[i] then second[#second + 1] = t.of_value[i] end
    end
    local t_seeds = {}
    for _, i in ipairs(out_params) do
      if t.of_tangent[i] then t_seeds[t.of_tangent[i]] = seeds[i] end
    end
    local g = next(t_seeds) and vjp(t.program, t.call, second, t_seeds) or {}
    local at = 0
    for k, i in ipairs(all) do
      if t.of_value[i] then
        at = at + 1
        back[k] = g[at]
      end
    end
    for k, i in ipairs(out_params) do back[#all + k] = forward[i] end
    return table.unpack(back, 1, #all + #out_params)
  end))
end

-- What parameter q of a tangent kernel is: role in its program, value, and a letter for a launch.
local function tangent_argument(q, p, call, tangents, shared)
  local i = q.param
  local v, of = call.values[i], p.params[i]
  if q.role == "unused" then return "null", false, "0" end
  if q.role == "original" then
    if of.role == "struct" then return "struct", v, "s" end
    if of.role == "scalar" then return "scalar", v, "v" end
    return "in", contents(p, call, i), "i"
  elseif q.role == "result" then
    if of.role == "inout" then return "inout", v, "c" end
    return "out", { count = count_of(call.results[i]) }, "o"
  elseif q.role == "shared" then return "scalar", shared, "v"
  elseif q.role == "tangent" then return "in", flat(tangents[i], q.dtype), "i"
  elseif q.role == "tangent_scalar" then return "scalar", tangents[i], "v"
  elseif q.role == "tangent_result" then
    if of.role == "inout" and tangents[i] then return "inout", flat(tangents[i], q.dtype), "c" end
    return "out", { count = count_of(call.results[i]) }, "o"
  end
  error("no such role: " .. q.role)
end

--- The tangent kernel as a program with its call, ready to launch.
local function tangent_of(p, call, tangents)
  local wants = {}
  for i, q in ipairs(p.params) do
    wants[i] = (tangents[i] and INPUT or 0) + (is_output(q) and OUTPUT or 0) + (q.role == "out"
      and FRESH or 0)
  end
  local d = derive(p, "tangent", wants, call)
  local geometry, shared = enlarged(call.geometry, d.roles)
  local t = {
    program = { kernel = d.kernel, name = p.name, params = {}, derived = d.derived,
      roles = d.roles },
    call = { values = {}, results = {}, geometry = geometry }, of_value = {}, of_tangent = {},
    kinds = {}, made = {} }
  for k, q in ipairs(d.roles) do
    local role, v, letter = tangent_argument(q, p, call, tangents, shared)
    t.program.params[k] = { role = role, dtype = q.dtype, float = q.dtype ~= nil }
    t.call.values[k], t.kinds[k] = v, letter
    if q.role == "original" and (role == "in" or role == "scalar") then t.of_value[q.param] = k end
    if q.role == "result" and role == "inout" then t.of_value[q.param] = k end
    if q.role == "tangent_result" then t.of_tangent[q.param] = k end
    if letter == "o" or letter == "c" then t.made[#t.made + 1] = k end
  end
  return t
end

local function launch_values(t)
  local values = {}
  for k, kind in ipairs(t.kinds) do
    local v = t.call.values[k]
    if kind == "o" then v = sizes(v.count)
    elseif kind == "v" then v = number_of(v)
    elseif kind == "i" or kind == "c" then v = flat(v:detach(), t.program.params[k].dtype) end
    values[k] = v
  end
  return values
end

--- Tangents of the outputs by parameter, tracked where what they are made of is; and the tangent
-- call itself. tangents: by parameter.
function jvp(p, call, tangents)
  local t = tangent_of(p, call, tangents)
  local out = table.pack(flame.no_grad(internal.kernel_run, t.program.kernel, t.call.geometry,
    table.concat(t.kinds), launch_values(t)))
  local results, list, params = {}, {}, {}
  for n, k in ipairs(t.made) do t.call.results[k] = out[n] end
  for i, k in pairs(t.of_tangent) do
    params[#params + 1] = { i = i, k = k }
    list[#params] = t.call.results[k]:reshape(call.results[i].shape)
  end
  local inputs, active = {}, {}
  for k, q in ipairs(t.program.params) do
    local v = t.call.values[k]
    if is_tensor(v) and q.float and v.requires_grad
        and (q.role == "in" or q.role == "inout" or q.role == "scalar") then
      inputs[#inputs + 1], active[#active + 1] = internal.snapshot(v), k
    end
  end
  if #inputs > 0 and flame.is_grad_enabled() then
    list = table.pack(internal.custom(list, inputs, function(which, g)
      return table.unpack(vjp(t.program, t.call, active, { [params[which].k] = g }), 1, #active)
    end))
  end
  for n, q in ipairs(params) do results[q.i] = list[n] end
  return results, t
end

-- ---- a call's gradient --------------------------------------------------------------------------
local function list_set(list)
  local set = {}
  for _, name in ipairs(list or {}) do set[name] = true end
  return set
end

--- The arguments by parameter; those of tensors as they are now. memory: what k:constant has set.
local function values_of(params, args, n, memory)
  local values, at = {}, 0
  for i, q in ipairs(params) do
    if q.hidden then
      values[i] = q.role == "in" and internal.snapshot(memory[q.name]) or nil
    elseif q.role ~= "out" then
      at = at + 1
      local v = args[at]
      if v == nil then v = n end
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

local function given_gradient(p, config, values, active, result, g, out_params, which)
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
  if config.vjp and type(config.vjp) ~= "string" then
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
      fail(p.name, "vjp: gave %d values, the last tensor is argument %d\1: return one for each" ..
        " argument, nil where there is no gradient", grads.n, last)
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

--- The tensors of a call as a list for the graph to keep, so that a function that only the
-- collector can end keeps none of them; and a function that makes the call again with such a list.
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

--- The outputs by their parameters, as they are now; and those parameters in order.
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

-- Results of all outputs, those of hidden ones too.
local function track_all(k, results, args, geometry, n)
  local p = program_of(k)
  local config = internal.kernel_info(k).config
  local outputs = 0
  for _, q in ipairs(p.params) do outputs = outputs + (is_output(q) and 1 or 0) end
  local recorded = p.replays and #results > outputs and table.remove(results)
  if p.replays and not recorded then p = program_of(k, true) end
  local values = values_of(p.params, args, n, config.memory)
  if recorded then values[#p.params] = recorded end
  local active, inputs = active_of(p.params, values, config)
  for _, name in ipairs(config.nodiff or {}) do
    for i, q in ipairs(p.params) do
      if q.name == name and is_tensor(values[i]) then values[i] = values[i]:detach() end
    end
  end
  if #active == 0 then return table.unpack(results) end
  local by_param, out_params = outputs_of(p.params, results)
  local floats, list = {}, {}                      -- places of the float results, and they
  for j, r in ipairs(results) do
    if r:is_floating_point() then floats[#floats + 1], list[#list + 1] = j, r end
  end
  if #list == 0 then return table.unpack(results) end
  local kept, call_with = handed_over({ values = values, results = by_param, geometry = geometry })
  local made = table.pack(internal.custom(list, inputs, function(which, g, _, _, held)
    local j, again = floats[which], call_with(held)
    if internal.checks_gradients() then
      config.proven = config.proven or {}
      require("flame.tools.proof").once(config.proven, table.concat(active, ","), function()
        return require("flame.tools.proof").of_kernel(p, config, again, active, out_params, floats)
      end)
    end
    if config.vjp then
      return given_gradient(p, config, again.values, active, again.results, g, out_params, j)
    end
    return table.unpack(vjp(p, again, active, { [out_params[j]] = g }), 1, #active)
  end, kept))
  local tracked_results = { table.unpack(results) }
  for m, j in ipairs(floats) do tracked_results[j] = made[m] end
  return table.unpack(tracked_results)
end

--- Called for a result that is to be tracked (src/lua/kernel_call.c).
function internal.kernel_track(k, results, args, geometry, n)
  local list, at = table.pack(track_all(k, results, args, geometry, n)), 0
  for _, q in ipairs(internal.kernel_info(k).params) do
    if is_output(q) then
      if q.hidden then table.remove(list, at + 1) else at = at + 1 end
    end
  end
  return table.unpack(list, 1, at)
end

return { of = program_of, derive = derive, is_output = is_output, tracked = tracked, jvp = jvp,
  run_adjoint = run_adjoint, given_gradient = given_gradient, flat = flat, number_of = number_of,
  sizes = sizes }
