--- flame.kernel: reads the options that a script gives, and makes the kernel.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local methods = require "flame.kernel.methods"
local sources = require "flame.kernel.source"
local adjoint = require "flame.kernel.vjp"
local overload = require "flame.kernel.overload"
local blocks = require "flame.kernel.block"
local files_of = require "flame.kernel.include"
local entries = require "flame.kernel.entries"
require "flame.kernel.show"
local fail, def = arguments.fail, arguments.def

-- ---- flame.kernel -------------------------------------------------------------------------------

-- Checks the list o[what] of names of parameters, for the kernel k. Names that are given for
-- several kernels need fit only one of them: o.names[what] has those that have fitted none.
local function check_names(what, o, k)
  local list, open = o[what], o.names and o.names[what]
  if list == nil then return end
  if type(list) ~= "table" then
    fail("kernel", "%s must be a list of parameter names, got %s", what, arguments.word(list))
  end
  local known, info = {}, internal.kernel_info(k)
  if what == "inout" and info.refusal then return end     -- it has no variables of the file
  for _, q in ipairs(info.params) do known[q.name] = q.role end
  for _, name in ipairs(list) do
    local constant = what == "inout" and known[name] and known[name] ~= "inout"
    if open then
      if known[name] and not constant then open[name] = nil end
    elseif constant then
      fail("kernel",
        "inout: '%s' is no pointer that the kernel may write: it is const or no pointer", name)
    elseif not known[name] then
      fail("kernel", "%s: there is no parameter '%s', the kernel has: %s", what,
        tostring(name), methods.names(known))
    end
  end
end

-- The kernel 'entry' of a text with these options for NVRTC and files that it may include. With
-- o.parsed, which has the kernels made of each text, the text is parsed only once for different
-- entries; an entry that was asked for before is parsed again.
local function parsed(o, text, entry, flags, files)
  local before = o.parsed and o.parsed[text]
  if before and before.taken[entry or ""] then before = nil end
  local k = internal.kernel_new(text, entry, flags, o.inout, o.label, nil, nil, files,
    before and before.kernel)
  if o.parsed then
    o.parsed[text] = before or { kernel = k, taken = {} }
    o.parsed[text].taken[entry or ""] = true
  end
  return k
end

-- The kernel, its text, its name, and files that the text may include. special: the entry is an
-- explicit specialisation; if an #if removes it, takes the template.
local function read(o, flags)
  local source, name, special = sources.text_of(o.source, o.constants, o.entry)
  local files = files_of(source, o.include)
  if special then
    local ok, found = pcall(parsed, o, source, name, flags, files)
    if ok then return found, source, name, files end
    local why = tostring(found)
    if not why:find("there is no entry", 1, true)
        and not why:find("named with its arguments", 1, true) then
      error(found, 0)
    end
    source, name = sources.text_of(o.source, o.constants, o.entry, true)
  end
  return parsed(o, source, name, flags, files), source, name, files
end

-- The same options with another entry.
local function of_entry(o, entry)
  local other = {}
  for name, v in pairs(o) do other[name] = v end
  other.entry = entry
  return other
end

-- The kernel for the options of flame.kernel, and 'label', the name of the text's file in messages.
-- parsed: nil, or where kernels of one text keep what they share.
local function new_kernel(o)
  local inout, nodiff, vjp = o.inout, o.nodiff, o.vjp
  local template = sources.template_of(o.source, o.constants, o.entry)
  if template and overload.is_known(template, inout) then
    return overload.new(template, function(entry) return new_kernel(of_entry(o, entry)) end, inout)
  end
  local list = sources.options(o.options, o.include)
  local k, source, name, files = read(o, list)
  check_names("inout", o, k)
  check_names("nodiff", o, k)
  local function formed(forms, of)
    local other = internal.kernel_new(source, name, list, inout, nil, forms, of, files)
    internal.kernel_rule(other, nodiff, vjp)
    return other
  end
  local function again(given)
    return new_kernel(of_entry(o, sources.renamed(o.source, o.constants, o.entry, given)))
  end
  local config = { vjp = vjp, nodiff = nodiff, shape = o.shape, grid = o.grid,
    threads = o.threads, block = o.block, shared = o.shared,
    memory = o.parsed and o.parsed.memory or {}, again = again, formed = { make = formed } }
  for _, q in ipairs(internal.kernel_info(k).params) do
    if (q.list or q.part) and vjp then
      fail("kernel", "vjp: %s is %s\1: its gradients are derived", q.name,
        q.part and "in a struct with pointers" or "a list of tensors")
    end
    if q.hidden and q.zeros and q.role == "in" and not config.memory[q.name] then
      config.memory[q.name] = flame.zeros(q.count, { dtype = q.dtype })
    end
  end
  if type(vjp) == "string" then config.vjp_kernel = adjoint.from_source(vjp) end
  internal.kernel_rule(k, nodiff, vjp)
  return blocks.configured(k, config)
end

-- The kernel or, for a table of entries, the kernels that the options 'o' ask for.
local function made(o)
  o.source = o.source:gsub("^\xEF\xBB\xBF", "")              -- a mark of UTF-8
  if type(o.entry) == "table" then return entries.new(o, new_kernel) end
  return new_kernel(o)
end

local function of_source(source, entry, block, grid, threads, shared, shape, inout, vjp, nodiff,
    flags, include, constants)
  return made { source = source, entry = entry, block = block, grid = grid, threads = threads,
    shared = shared, shape = shape, inout = inout, vjp = vjp, nodiff = nodiff, options = flags,
    include = include, constants = constants }
end
--- A kernel from CUDA C text. It runs as given on CUDA. If it keeps to the language of
--- docs/kernels.md, it also runs on the CPU and is differentiable. For entry = {"a", "b"}: a table
--- of kernels by name.
def([[.kernel(source: str, *, entry?: str|table, block?: any, grid?: any, threads?: any,
    shared?: any, shape?: any, inout?: any, vjp?: str|fn, nodiff?: any, options?: any,
    include?: any, constants?: table) -> Kernel|table]], of_source,
  [[.kernel(*, source: str, entry?: str|table, block?: any, grid?: any, threads?: any,
    shared?: any, shape?: any, inout?: any, vjp?: str|fn, nodiff?: any, options?: any,
    include?: any, constants?: table) -> Kernel|table]], of_source)

--- A kernel, or several, from a file of CUDA C, as by flame.kernel; messages name the file and its
--- lines.
def([[.kernel_file(path: str, *, entry?: str|table, block?: any, grid?: any, threads?: any,
    shared?: any, shape?: any, inout?: any, vjp?: str|fn, nodiff?: any, options?: any,
    include?: any, constants?: table) -> Kernel|table]], function(path, entry, block, grid,
      threads, shared, shape, inout, vjp, nodiff, flags, include, constants)
    return made { source = internal.io_read(path, "kernel_file"), label = path, entry = entry,
      block = block, grid = grid, threads = threads, shared = shared, shape = shape,
      inout = inout, vjp = vjp, nodiff = nodiff, options = flags, include = include,
      constants = constants }
  end)
