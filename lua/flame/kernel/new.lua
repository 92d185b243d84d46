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
require "flame.kernel.show"
local fail, def = arguments.fail, arguments.def

-- ---- flame.kernel -------------------------------------------------------------------------------

local function check_names(op, what, list, k)
  if list == nil then return end
  if type(list) ~= "table" then
    fail(op, "%s must be a list of parameter names, got %s", what, arguments.word(list))
  end
  local known, info = {}, internal.kernel_info(k)
  if what == "inout" and info.refusal then return end     -- it has no variables of the file
  for _, q in ipairs(info.params) do known[q.name] = q.role end
  for _, name in ipairs(list) do
    if what == "inout" and known[name] and known[name] ~= "inout" then
      fail(op,
        "inout: '%s' is no pointer that the kernel may write: it is const or no pointer", name)
    elseif not known[name] then
      fail(op, "%s: there is no parameter '%s', the kernel has: %s", what,
        tostring(name), methods.names(known))
    end
  end
end

local function new_kernel(text, entry, block, grid, threads, shared, shape, inout, vjp, nodiff,
    flags, include, constants, label)
  text = text:gsub("^\xEF\xBB\xBF", "")              -- a mark of UTF-8
  local template = sources.template_of(text, constants, entry)
  if template and overload.is_known(template, inout) then
    return overload.new(template, function(of_types)
      return new_kernel(text, of_types, block, grid, threads, shared, shape, inout, vjp, nodiff,
        flags, include, constants, label)
    end, inout)
  end
  local function again(given)
    return new_kernel(text, sources.renamed(text, constants, entry, given), block, grid, threads,
      shared, shape, inout, vjp, nodiff, flags, include, constants, label)
  end
  local source, name, special = sources.text_of(text, constants, entry)
  local list, k = sources.options(flags, include), nil
  local files = files_of(source, include)
  if special then          -- an explicit specialisation; if an #if removes it, take the template
    local ok, found = pcall(internal.kernel_new, source, name, list, inout, label, nil, nil,
      files)
    k = ok and found
    local why = not ok and tostring(found) or ""
    if why:find("there is no entry", 1, true) or why:find("named with its arguments", 1, true) then
      source, name = sources.text_of(text, constants, entry, true)
    elseif not ok then
      error(found, 0)
    end
  end
  k = k or internal.kernel_new(source, name, list, inout, label, nil, nil, files)
  check_names("kernel", "inout", inout, k)
  check_names("kernel", "nodiff", nodiff, k)
  local function formed(forms, of)
    local other = internal.kernel_new(source, name, list, inout, nil, forms, of, files)
    internal.kernel_rule(other, nodiff, vjp)
    return other
  end
  local config = { vjp = vjp, nodiff = nodiff, shape = shape, grid = grid,
    threads = threads, block = block, shared = shared, memory = {}, again = again,
    formed = { make = formed } }
  for _, q in ipairs(internal.kernel_info(k).params) do
    if (q.list or q.part) and vjp then
      fail("kernel", "vjp: %s is %s\1: its gradients are derived", q.name,
        q.part and "in a struct with pointers" or "a list of tensors")
    end
    if q.hidden and q.zeros and q.role == "in" then
      config.memory[q.name] = flame.zeros(q.count, { dtype = q.dtype })
    end
  end
  if type(vjp) == "string" then config.vjp_kernel = adjoint.from_source(vjp) end
  internal.kernel_rule(k, nodiff, vjp)
  return blocks.configured(k, config)
end
--- A kernel from CUDA C text. It runs as given on CUDA. If it keeps to the language of
--- docs/kernels.md, it also runs on the CPU and is differentiable.
def(".kernel(source: str) -> Kernel", new_kernel,
  [[.kernel(*, source: str, entry?: str, block?: any, grid?: any, threads?: any, shared?: any,
    shape?: any, inout?: any, vjp?: str|fn, nodiff?: any, options?: any, include?: any,
    constants?: table) -> Kernel]], new_kernel)

--- A kernel from a file of CUDA C, as by flame.kernel; messages name the file and its
--- lines.
def([[.kernel_file(path: str, *, entry?: str, block?: any, grid?: any, threads?: any, shared?: any,
    shape?: any, inout?: any, vjp?: str|fn, nodiff?: any, options?: any, include?: any,
    constants?: table) -> Kernel]], function(path, entry, block, grid, threads, shared, shape,
      inout, vjp, nodiff, flags, include, constants)
    return new_kernel(internal.io_read(path, "kernel_file"), entry, block, grid, threads, shared,
      shape, inout, vjp, nodiff, flags, include, constants, path)
  end)
