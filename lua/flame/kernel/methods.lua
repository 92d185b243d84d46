--- Methods of kernels. k:source and k:report are in kernel/show.lua.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
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
local WITH = { shape = true, grid = true, block = true, shared = true }

---The same kernel with another geometry: {shape =, grid =, block =, shared =}.
---@param o table
---@return flame.Kernel
function Kernel:with(o)
  if type(o) ~= "table" then
    fail("with", "need a table {shape =, grid =, block =, shared =}, got %s", arguments.word(o))
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
    fail("constant", "%s must be a tensor or a number, got %s", name, arguments.word(value))
  end
  if value.dtype ~= q.dtype or value:numel() ~= q.count then
    fail("constant", "%s has %d elements of %s, got %d of %s", name, q.count, q.dtype,
      value:numel(), value.dtype)
  end
  internal.kernel_info(self).config.memory[name] = value
  return self
end

-- ---- blocks of threads --------------------------------------------------------------------------

local function block_list(blocks)
  if type(blocks) ~= "table" or #blocks == 0 then
    fail("tune", "need a list of blocks, {64, 128, {16, 16}}, got %s",
      type(blocks) == "table" and "none" or arguments.word(blocks))
  end
  local texts = {}
  for i, b in ipairs(blocks) do
    local sizes = type(b) == "table" and b or { b }
    for _, n in ipairs(sizes) do arguments.need_int("tune", "a block", n) end
    texts[i] = table.concat(sizes, "x")
  end
  return table.concat(texts, " ")
end

--- What is chosen by: the text, its entry, the blocks, types and shapes of the arguments.
local function key_of(k, blocks, ...)
  local info = internal.kernel_info(k)
  local parts, device = { "blocks 1", info.text, info.name, blocks }, flame.default_device()
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    if flame.is_tensor(x) then
      parts[#parts + 1], device = x.dtype .. "(" .. table.concat(x.shape, " ") .. ")", x.device
    else parts[#parts + 1] = type(x) end
  end
  return table.concat(parts, "\0"), device
end

local function seconds(k, ...)
  local clock = flame.timer()
  for _ = 1, 3 do
    local results = table.pack(k(...))
    flame.eval(table.unpack(results, 1, results.n))
  end
  flame.synchronize()
  return clock()
end

--- Which of these runs fastest: each in turn, five times; the first unless a median is 3 % lower.
local function fastest(list, ...)
  local _ <close> = flame.no_grad()
  local medians = {}
  for i, k in ipairs(list) do
    seconds(k, ...)
    medians[i] = {}
  end
  for _ = 1, 5 do
    for i, k in ipairs(list) do table.insert(medians[i], seconds(k, ...)) end
  end
  local best = 1
  for i in ipairs(list) do
    table.sort(medians[i])
    medians[i] = medians[i][3]
    if medians[i] < medians[best] * 0.97 then best = i end
  end
  return best
end

---The same kernel with the block of threads that is fastest for these arguments, of a list such as
---{64, 128, {16, 16}}; the kernel must be right with each. On a GPU they are timed once, on copies,
---and the choice is kept in the folder of compiled kernels; a CPU takes the one that is kept there,
---else the first.
---@param blocks table
---@param ... any
---@return flame.Kernel
function Kernel:tune(blocks, ...)
  local key, device = key_of(self, block_list(blocks), ...)
  local best = internal.kernel_choice(key)
  if best < 1 or best > #blocks then
    best = 1
    if device:find("^cuda") and not internal.rehearsal then
      local list = {}
      for i, b in ipairs(blocks) do list[i] = self:with { block = b } end
      best = fastest(list, ...)
      internal.kernel_choice(key, best)
    end
  end
  return self:with { block = blocks[best] }
end

internal.kernel_methods(Kernel)

return { Kernel = Kernel, names = names }
