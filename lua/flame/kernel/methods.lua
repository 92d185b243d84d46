--- Methods of kernels. k:source and k:report are in kernel/show.lua.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local blocks = require "flame.kernel.block"
local fail = arguments.fail

local function names(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, " ")
end

local function check_spec(op, spec, known)
  for name in pairs(spec) do
    if not known[name] then objects.no_option(op, name, known) end
  end
end

local Kernel = {}
local WITH = { shape = true, grid = true, threads = true, block = true, shared = true }

--- The same kernel with another geometry: {shape =, grid =, threads =, block =, shared =}.
---@param o table
---@return flame.Kernel
function Kernel:with(o)
  if type(o) ~= "table" then
    fail("with", "need a table {shape =, grid =, threads =, block =, shared =}, got %s",
      arguments.word(o))
  end
  check_spec("with", o, WITH)
  local config = blocks.copy(self)
  if o.grid ~= nil then config.threads = nil end
  if o.threads ~= nil then config.grid = nil end
  for name, v in pairs(o) do config[name] = v end
  return blocks.configured(self, config)
end

--- The same kernel with the fastest choice for these arguments: one of a list of blocks of threads,
--- {64, 128, {16, 16}}, or, with {block = a list, template = a list}, one of all pairs of a block
--- and a list of arguments, as in {{16}, {32}}, that replace the template's last arguments. The
--- kernel must be right with each choice. On a GPU they are timed once, on copies, and the choice
--- is kept in the folder of compiled kernels; a CPU takes the one kept there, else the first.
---@param list table
---@param ... any
---@return flame.Kernel
function Kernel:tune(list, ...) return blocks.tuned(self, list, ...) end

-- The hidden parameter for file-scope variable 'name', which k:constant sets; raises without one.
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

--- Sets a __constant__ or __device__ array of file scope that the kernel reads and its text does
--- not initialise, to a tensor of its elements or a number. Launches that are recorded afterwards
--- take it as an argument that has a gradient. Returns the kernel.
---@param name string
---@param value flame.Tensor|number
---@return flame.Kernel
function Kernel:constant(name, value)
  local q = constant_of(self, name)
  if type(value) == "number" then value = flame.tensor({ value }, { dtype = q.dtype }) end
  if not flame.is_tensor(value) then
    fail("constant", "%s must be a tensor or a number, got %s", name, arguments.word(value))
  end
  if value.dtype ~= q.dtype or value:numel() ~= q.count then
    fail("constant", "%s has %d element%s of %s, got %d of %s", name, q.count,
      q.count == 1 and "" or "s", q.dtype, value:numel(), value.dtype)
  end
  internal.kernel_info(self).config.memory[name] = value
  return self
end

internal.kernel_methods(Kernel)

return { Kernel = Kernel, names = names }
