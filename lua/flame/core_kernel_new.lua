--- flame.kernel: what a script gives, and the kernel it gets.
local _, _, internal = ...
local fail, def = internal.failf, internal.def

-- ---- flame.kernel -------------------------------------------------------------------------------
local SPEC = { source = true, entry = true, block = true, grid = true, shared = true,
  shape = true, inout = true, vjp = true, nodiff = true, options = true, include = true,
  constants = true }

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

---A kernel from CUDA C text. It runs as given on CUDA; in the language of docs/kernels.md also on
---the CPU, and differentiates.
---@param spec string|table  the source, or {source=, entry=, block=, grid=, shared=, shape=, inout=, vjp=, nodiff=, options=, include=, …}
---@return flame.Kernel
def("kernel", 1, function(spec)
  if type(spec) == "string" then spec = { source = spec } end
  if type(spec) ~= "table" then
    fail("kernel", "need the source as a string or {source = …}, got %s", internal.word(spec))
  end
  check_spec("kernel", spec, SPEC)
  if type(spec.source) ~= "string" then
    fail("kernel", "source must be a string, got %s", internal.word(spec.source))
  end
  local source, entry = internal.kernel_text(spec.source, spec.constants, spec.entry)
  local k = internal.kernel_new(source, entry,
    internal.kernel_options(spec.options, spec.include), spec.inout)
  check_names("kernel", "inout", spec.inout, k)
  check_names("kernel", "nodiff", spec.nodiff, k)
  local config = { derived = {}, vjp = spec.vjp, nodiff = spec.nodiff, shape = spec.shape,
    grid = spec.grid, block = spec.block, shared = spec.shared }
  if type(spec.vjp) == "string" then config.vjp_kernel = internal.vjp_from_source(spec.vjp)
  elseif spec.vjp ~= nil and not internal.callable(spec.vjp) then
    fail("kernel", "vjp must be a function or CUDA C text, got %s", internal.word(spec.vjp))
  end
  if not spec.vjp then
    config.recorder, config.replay, config.records = internal.kernel_record(k)
  end
  return internal.kernel_with(k, config)
end, "module")

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
  return internal.kernel_with(self, config)
end

internal.kernel_program.methods = Kernel                  -- for core_kernel_show.lua
internal.kernel_methods(Kernel)
