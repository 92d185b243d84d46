--- flame.kernel: what a script gives, and the kernel it gets.
local flame, _, internal = ...
local fail, def = internal.failf, internal.def

-- ---- flame.kernel -------------------------------------------------------------------------------

local function names(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, " ")
end

local function check_spec(op, spec, known)
  for name in pairs(spec) do
    if not known[name] then internal.no_option(op, name, known) end
  end
end

local function check_names(op, what, list, k)
  if list == nil then return end
  if type(list) ~= "table" then
    fail(op, "%s must be a list of parameter names, got %s", what, internal.word(list))
  end
  local known = {}
  for _, q in ipairs(internal.kernel_info(k).params) do known[q.name] = q.role end
  for _, name in ipairs(list) do
    if what == "inout" and known[name] and known[name] ~= "inout" then
      fail(op,
        "inout: '%s' is no pointer that the kernel may write: it is const or no pointer", name)
    elseif not known[name] then
      fail(op, "%s: there is no parameter '%s', the kernel has: %s", what,
        tostring(name), names(known))
    end
  end
end

local function new_kernel(text, entry, block, grid, shared, shape, inout, vjp, nodiff, flags,
    include, constants)
  local source
  source, entry = internal.kernel_text(text, constants, entry)
  local k = internal.kernel_new(source, entry, internal.kernel_options(flags, include), inout)
  check_names("kernel", "inout", inout, k)
  check_names("kernel", "nodiff", nodiff, k)
  local config = { derived = {}, vjp = vjp, nodiff = nodiff, shape = shape, grid = grid,
    block = block, shared = shared, memory = {} }
  for _, q in ipairs(internal.kernel_info(k).params) do
    if q.hidden and q.zeros and q.role == "in" then
      config.memory[q.name] = flame.zeros(q.count, { dtype = q.dtype })
    end
  end
  if type(vjp) == "string" then config.vjp_kernel = internal.vjp_from_source(vjp) end
  if not vjp then
    config.recorder, config.replay, config.records = internal.kernel_record(k)
  end
  return internal.kernel_with(k, config)
end
---A kernel from CUDA C text. It runs as given on CUDA; in the language of docs/kernels.md also on
---the CPU, and differentiates.
def(".kernel(source: str) -> Kernel", new_kernel,
  [[.kernel(*, source: str, entry?: str, block?: any, grid?: any, shared?: any, shape?: any,
    inout?: any, vjp?: str|fn, nodiff?: any, options?: any, include?: any,
    constants?: table) -> Kernel]], new_kernel)

local Kernel = {}
local WITH = { shape = true, grid = true, block = true, shared = true }

---The same kernel with another geometry: {shape =, grid =, block =, shared =}.
---@param o table
---@return flame.Kernel
function Kernel:with(o)
  if type(o) ~= "table" then
    fail("with", "need a table {shape =, grid =, block =, shared =}, got %s", internal.word(o))
  end
  check_spec("with", o, WITH)
  local config = {}
  for name, v in pairs(internal.kernel_info(self).config) do config[name] = v end
  for name, v in pairs(o) do config[name] = v end
  local memory = config.memory or {}
  config.memory = {}
  for name, v in pairs(memory) do config.memory[name] = v end
  return internal.kernel_with(self, config)
end

-- The variable of file scope that the script may set, in the kernel's parameters.
local function constant_of(k, name)
  local known = {}
  for _, q in ipairs(internal.kernel_info(k).params) do
    if q.hidden and q.role == "in" then
      if q.name == name then return q end
      known[q.name] = true
    end
  end
  fail("constant", "there is no constant '%s' to set, the kernel has: %s", tostring(name),
    next(known) and names(known) or "none")
end

---Sets a __constant__ or __device__ array of file scope that the kernel reads and no text gives a
---value: to a tensor of its elements, or a number. Launches that are recorded from now on take it,
---as an argument that has a gradient. Returns the kernel.
---@param name string
---@param value flame.Tensor|number
---@return flame.Kernel
function Kernel:constant(name, value)
  local q = constant_of(self, name)
  if type(value) == "number" then value = flame.tensor({ value }, { dtype = q.dtype }) end
  if not flame.is_tensor(value) then
    fail("constant", "%s must be a tensor or a number, got %s", name, internal.word(value))
  end
  if value.dtype ~= q.dtype or value:numel() ~= q.count then
    fail("constant", "%s has %d elements of %s, got %d of %s", name, q.count, q.dtype,
      value:numel(), value.dtype)
  end
  internal.kernel_info(self).config.memory[name] = value
  return self
end

internal.kernel_program.methods = Kernel                  -- for kernel/show.lua
internal.kernel_methods(Kernel)
