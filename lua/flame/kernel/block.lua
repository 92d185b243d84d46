--- A kernel's block size: block = "auto", shared memory as a function of the block, and k:tune.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local fail = arguments.fail

-- ---- configurations -----------------------------------------------------------------------------

-- A copy of a kernel's configuration, which the caller may change without changing the kernel.
local function copy(k)
  local config = {}
  for name, v in pairs(internal.kernel_info(k).config) do config[name] = v end
  config.own = nil
  local memory = config.memory or {}
  config.memory = {}
  for name, v in pairs(memory) do config.memory[name] = v end
  return config
end

--- The kernel of k's text for these forms, in addition to those that k already has: which arguments
--- are nil, how long its lists of tensors are, which lengths are equal (src/lua/kernel_form.c). All
--- kernels that differ only in geometry share one parse of the text.
function internal.kernel_formed(k, forms)
  local config = internal.kernel_info(k).config
  local read, own = config.formed, config.own or {}
  config.own = own
  if not own[forms] then
    local all, its = (config.forms or "") .. forms, {}
    read[all] = read[all] or read.make(all, k)
    for name, v in pairs(config) do its[name] = v end      -- .memory is shared: k:constant sets it
    its.own, its.forms = nil, all
    own[forms] = internal.kernel_with(read[all], its)
  end
  return own[forms]
end

local function volume(block)
  if type(block) ~= "table" then return block end
  local n = 1
  for _, size in ipairs(block) do n = n * size end
  return n
end

-- Bytes of dynamic shared memory for a block of this many threads.
local function bytes_of(info, threads)
  local shared = info.config.shared
  if math.type(shared) or shared == nil then return shared or 0 end
  local n = shared(threads)
  if math.type(n) ~= "integer" then
    fail(info.name, "the shared function must return a number of bytes, got %s", arguments.word(n))
  end
  return n
end

-- A copy of a list of numbers or of lists, so that later changes of the list change no kernel.
local function copied(list)
  local own = {}
  for i, v in ipairs(list) do own[i] = type(v) == "table" and copied(v) or v end
  return own
end

-- The kernel with this configuration.
local function configured(k, config)
  if type(config.shape) == "table" and not (getmetatable(config.shape) or {}).__call then
    config.shape = copied(config.shape)
  end
  local info = internal.kernel_info(k)
  local shared, block = config.shared, config.block
  if config.grid ~= nil and config.threads ~= nil then
    fail(info.name, "grid is how many blocks, threads how many threads\1: give one of them")
  end
  info.config = config
  if type(block) == "string" and block ~= "auto" then
    fail(info.name, "block = \"%s\": a block is a number, up to three, or \"auto\"", block)
  end
  config.bytes = shared
  if shared ~= nil and not math.type(shared) and type(shared) ~= "function" then
    fail(info.name, "shared must be a number of bytes, or a function of the threads of a block "
      .. "that returns one, got %s", arguments.word(shared))
  elseif type(shared) == "function" then
    config.bytes = block ~= "auto" and bytes_of(info, volume(block or info.threads)) or 0
  end
  return internal.kernel_with(k, config)
end

-- ---- block = "auto" -----------------------------------------------------------------------------

-- Threads per block, in the order in which they are preferred if a multiprocessor can hold equally
-- many threads of each. 256 is the largest: the gradient runs with the same block, and its threads
-- may need all registers that a thread can have.
local SIZES <const> = { 256, 128, 64, 32 }
local MOST_SHARED <const> = 227 * 1024

-- A block {nx, ny, nz} of about this many threads, 32 along x if more than one axis is free. axes,
-- by axis: a fixed size, 0 if it is free (internal.kernel_blocks).
local function shaped(axes, threads)
  local block, open = {}, 0
  for i = 1, 3 do
    block[i] = math.max(axes[i], 1)
    if axes[i] == 0 then open = open + 1 end
  end
  local left = math.max(threads // volume(block), 1)
  for i = 1, 3 do
    if axes[i] == 0 then
      open = open - 1
      block[i] = open > 0 and i == 1 and math.min(left, 32) or math.min(left, i == 3 and 64 or left)
      left = left // block[i]
    end
  end
  return block
end

-- The list of blocks from which block = "auto" chooses, the preferred one first.
local function blocks_of(axes, most)
  local list, met = {}, {}
  for _, n in ipairs(SIZES) do
    local block = (most == 0 or n <= most) and shaped(axes, n)
    local threads = block and volume(block)
    if block and not met[threads] then
      met[threads] = true
      list[#list + 1] = block
    end
  end
  return #list > 0 and list or { shaped(axes, most) }
end

--- Chooses the block of a kernel with block = "auto" for a device: on a GPU the one of which a
--- multiprocessor holds most threads. The choice is stored with the compiled kernels; a CPU takes
--- the stored one, else the first up to MOST_SHARED bytes. sized: the script gave grid or threads.
function internal.kernel_auto(k, device, sized)
  local info, axes, most = internal.kernel_info(k), internal.kernel_blocks(k)
  if not sized and (axes[2] >= 0 or axes[3] >= 0) then
    fail(info.name, "block = \"auto\": it has threads along %s\1: say how many, threads = {nx, ny}",
      axes[2] >= 0 and "y" or "z")
  end
  local list, threads, bytes, best = blocks_of(axes, most), {}, {}, 1
  for i, block in ipairs(list) do
    threads[i] = volume(block)
    bytes[i] = bytes_of(info, threads[i])
  end
  local key = table.concat({ "block 2", info.name, info.digest, table.concat(bytes, " ") }, "\0")
  local resident, kept = internal.kernel_resident(k, device, threads, bytes),
    internal.kernel_choice(key)
  for i in ipairs(list) do
    local better = not resident and (threads[i] == kept
      or threads[best] ~= kept and bytes[best] > MOST_SHARED)
    if better or resident and resident[i] > resident[best] then best = i end
  end
  if resident and kept ~= threads[best] then internal.kernel_choice(key, threads[best]) end
  local block = list[best]
  internal.kernel_settle(k, device, block[1], block[2], block[3], bytes[best])
end

-- ---- k:tune -------------------------------------------------------------------------------------

local function block_text(b)
  local sizes = type(b) == "table" and b or { b }
  for _, n in ipairs(sizes) do arguments.need_int("tune", "a block", n) end
  return table.concat(sizes, "x")
end

local function template_text(given)
  if type(given) ~= "table" then given = { given } end
  for i, v in ipairs(given) do
    if type(v) ~= "number" and type(v) ~= "string" and type(v) ~= "boolean" then
      fail("tune", "argument %d of a template is a %s, need a number or the name of a type", i,
        type(v))
    end
  end
  local texts = {}
  for i, v in ipairs(given) do texts[i] = tostring(v) end
  return "<" .. table.concat(texts, ",") .. ">"
end

local function need_list(what, list, such)
  if type(list) == "table" and #list > 0 then return list end
  fail("tune", "need a list of %s, %s, got %s", what, such,
    type(list) == "table" and "none" or arguments.word(list))
end

-- The choices that tune tries, a list of {block =, template =}; and as a text, for key_of.
local function choices_of(list)
  local named = type(list) == "table" and (list.block ~= nil or list.template ~= nil)
  for key in pairs(named and list or {}) do
    if key ~= "block" and key ~= "template" then
      objects.no_option("tune", key, { block = true, template = true })
    end
  end
  local blocks, templates = list, { false }
  if named then
    blocks = list.block or { false }
    if list.template then
      templates = need_list("arguments of the template", list.template, "{{16}, {32}}")
    end
  end
  local out, texts = {}, {}
  for _, t in ipairs(templates) do
    for _, b in ipairs(need_list("blocks", blocks, "{64, 128, {16, 16}}")) do
      out[#out + 1] = { template = t and (type(t) == "table" and t or { t }) or nil,
        block = b or nil }
      texts[#texts + 1] = (t and template_text(t) or "") .. (b and block_text(b) or "")
    end
  end
  return out, table.concat(texts, " ")
end

-- The kernel with one of the choices.
local function made(k, choice)
  local config = copy(k)
  config.block = choice.block or config.block
  if not choice.template then return configured(k, config) end
  local other = config.again and config.again(choice.template)
    or fail("tune", "a binary has no template")
  config.again = internal.kernel_info(other).config.again
  return configured(other, config)
end

-- The key under which tune stores its choice: the kernel's text and entry, the list of choices,
-- types and shapes of the arguments. Second result: the device of the arguments.
local function key_of(k, texts, ...)
  local info, device = internal.kernel_info(k), flame.default_device()
  local parts = { "tune 2", info.name, info.digest, texts }
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

-- Position of the kernel with the least median of five runs; a later one is taken only if it needs
-- less than 97 % of the time.
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

-- See Kernel:tune.
local function tuned(k, list, ...)
  local choices, texts = choices_of(list)
  local key, device = key_of(k, texts, ...)
  local best = internal.kernel_choice(key)
  if best < 1 or best > #choices then
    best = 1
    if device:find("^cuda") and not internal.rehearsal then
      local all = {}
      for i, choice in ipairs(choices) do all[i] = made(k, choice) end
      best = fastest(all, ...)
      internal.kernel_choice(key, best)
    end
  end
  return made(k, choices[best])
end

return { copy = copy, configured = configured, tuned = tuned }
