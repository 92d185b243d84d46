--- C++ templates as kernels, named without template arguments: the types of a call's tensors say
-- which instance runs. flame.kernel (kernel/new.lua) makes them; kernel/source.lua reads the text.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local method = require "flame.kernel.method"
-- int64_t is long
local C_TYPES = setmetatable({ i64 = "long" }, { __index = require("flame.base.dtypes").kernel })
local fail = arguments.fail

local KernelTemplate = { __name = "KernelTemplate" }
objects.classes.KernelTemplate = KernelTemplate
local states = setmetatable({}, { __mode = "k" })

local function state_of(self)
  return states[self] or fail("of", "need a kernel that is a template, got %s",
    arguments.word(self))
end

-- The type T and the name of a formal "torch::PackedTensorAccessor32<T, 2, …> x", or nil.
local function accessed(formal)
  return formal:match("Accessor%w*%s*<%s*([%w_]+)%s*,.*>%s*([%a_][%w_]*)%s*$")
end

-- How each type parameter T of a template is found from a call: T -> list of the formals "T *x"
-- and accessors of T, as {name =, place = the position among all formals, given = that among the
-- arguments of a call, nil for an output}, inputs first. written: the accessors that are outputs,
-- a set of names.
local function places(template, inout, written)
  local list, outputs, named, given = {}, {}, {}, 0
  for _, name in ipairs(type(inout) == "table" and inout or {}) do named[name] = true end
  for i, formal in ipairs(template.formals) do
    local base, name = formal:match("^(.-)%s*%*.-([%a_][%w_]*)%s*$")
    local of, accessor = accessed(formal)
    local is_input = not base and not written[accessor or ""] or named[accessor or name]
      or base and base:find("%f[%w_]const%f[^%w_]")
    if is_input then given = given + 1 end
    local kind = of or base and base:gsub("%f[%w_]const%f[^%w_]", ""):match("^%s*([%a_][%w_]*)%s*$")
    if kind then
      list[kind], outputs[kind] = list[kind] or {}, outputs[kind] or {}
      table.insert((is_input and list or outputs)[kind],
        { name = accessor or name, place = i, given = is_input and given or nil })
    end
  end
  for kind, of in pairs(outputs) do table.move(of, 1, #of, #list[kind] + 1, list[kind]) end
  return list
end

-- The instance for these C types of type parameters, {T = "float"}; made once for each.
local function instance(state, types)
  local list = {}
  for i, p in ipairs(state.template.parameters) do
    list[i] = types[p.name] or p.default or fail(state.template.name,
      "%s is not known from the arguments\1: name the kernel with all of them, entry = \"%s<…>\"",
      p.name, state.template.name)
  end
  local key = table.concat(list, ", ")
  local k = state.kernels[key]
  if not k then
    k = state.make(("%s<%s>"):format(state.template.name, key))
    if state.with then k = k:with(state.with) end
    state.kernels[key] = k
  end
  return k
end

-- The instance of floats; nil if it can not be read.
local function of_floats(state)
  local types = {}
  for _, p in ipairs(state.template.parameters) do types[p.name] = p.is_type and "float" or nil end
  local read, k = pcall(instance, state, types)
  return read and k or nil
end

-- state.places, which is made at the first call. Which accessors the kernel writes is known only
-- after an instance was read: the one for floats is. If it can not be read, all accessors count as
-- inputs.
local function places_of(state)
  if state.places then return state.places end
  local k, written = of_floats(state), {}
  for _, q in ipairs(k and internal.kernel_info(k).params or {}) do
    written[q.name] = q.role == "out"
  end
  state.places = places(state.template, state.inout, written)
  return state.places
end

-- The instance for the dtypes of the tensors '...', of which number 'first' is the first argument;
-- where: "place" or "given", see 'places'.
local function chosen(self, where, first, ...)
  local state, types = state_of(self), {}
  for _, p in ipairs(state.template.parameters) do
    local list = p.is_type and places_of(state)[p.name]
    local from, x                                        -- the first argument of T that is not nil
    for _, formal in ipairs(list or {}) do
      if x == nil and formal[where] then
        x = select(formal[where] + first - 1, ...)
        if type(x) == "table" then x = x[1] end
        from = (x ~= nil or not from) and formal or from
      end
    end
    if from then
      if not flame.is_tensor(x) then
        fail(state.template.name, "%s must be a tensor, got %s", from.name, arguments.word(x))
      end
      types[p.name] = C_TYPES[x.dtype]
    end
  end
  return instance(state, types)
end

KernelTemplate.__call = function(self, ...)
  method.refuse_kernels(state_of(self).template.name, ...)
  if not method.is_module((...)) then return chosen(self, "given", 1, ...)(...) end
  local args = table.pack(method.plain(of_floats(state_of(self)), ...))
  return chosen(self, "given", 1, table.unpack(args, 1, args.n))(table.unpack(args, 1, args.n))
end
KernelTemplate.__tostring = function(self)
  local names = {}
  for i, p in ipairs(state_of(self).template.parameters) do names[i] = p.name end
  return ("kernel %s<%s>"):format(state_of(self).template.name, table.concat(names, ", "))
end
KernelTemplate.__index, KernelTemplate.__newindex =
  objects.closed("a kernel that is a template", KernelTemplate, {}, function(self, key)
    if ({ report = 1, source = 1, constant = 1 })[key] then
      fail("", "%s is of a kernel, and '%s' is a template\1: write k:of(\"f32\"):%s(…)", key,
        state_of(self).template.name, key)
    end
  end)

local function put(text, f)
  KernelTemplate[text:match(":([%w_]+)%(")] = internal.declare(text, "", f)
end

local function new(template, make, inout)
  local self = setmetatable({}, KernelTemplate)
  local state = { template = template, make = make, kernels = {}, inout = inout }
  states[self] = state
  local open = false
  for _, formal in ipairs(template.formals) do open = open or accessed(formal) ~= nil end
  state.places = not open and places(template, inout, {}) or nil
  return self
end

--- The template's kernel for these dtypes, one for each type parameter, in order: k:of("f16") is
--- what k(x) runs for an x of f16.
put("KernelTemplate:of(dtypes...: str) -> Kernel", function(self, ...)
  local state, types, n = state_of(self), {}, 0
  for _, p in ipairs(state.template.parameters) do
    local dtype = p.is_type and select(n + 1, ...)
    if dtype then
      n = n + 1
      types[p.name] = C_TYPES[dtype] or fail("of", "'%s' is no dtype%s", dtype,
        internal.hint(dtype, C_TYPES))
    end
  end
  if select("#", ...) > n then
    fail("of", "got %d dtypes, and the template has %d types\1: give one for each type",
      select("#", ...), n)
  end
  return instance(state, types)
end)

--- The same template with another geometry of all kernels: see Kernel:with.
put("KernelTemplate:with(options: table) -> KernelTemplate", function(self, options)
  local state, all = state_of(self), {}
  for name, v in pairs(state.with or {}) do all[name] = v end
  if options.grid ~= nil then all.threads = nil end
  if options.threads ~= nil then all.grid = nil end
  for name, v in pairs(options) do all[name] = v end
  local other = new(state.template, state.make, state.inout)
  states[other].with = all
  return other
end)

--- Kernel:launch of the instance that the arguments' types choose; all parameters are
--- given.
put("KernelTemplate:launch(geometry: table, ...) -> ...", function(self, geometry, ...)
  return chosen(self, "place", 1, ...):launch(geometry, ...)
end)

--- Kernel:tune of the instance that the arguments' types choose; returns a kernel.
put("KernelTemplate:tune(list: table, ...) -> Kernel", function(self, list, ...)
  return chosen(self, "given", 1, ...):tune(list, ...)
end)

-- Does a call determine each template parameter that has no default?
local function is_known(template, inout)
  local list = places(template, inout, {})
  for _, p in ipairs(template.parameters) do
    if not p.default and not (p.is_type and list[p.name] and list[p.name][1].given) then
      return false
    end
  end
  return true
end

return { new = new, is_known = is_known }
