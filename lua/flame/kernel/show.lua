--- Reports about kernels, k:source and k:report, from facts that src/lua/kernel_report.c collects;
-- and compiled kernels: flame.kernel_cache, flame.warmup.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local cubin = require "flame.kernel.image"
local Kernel = require("flame.kernel.methods").Kernel
local fail, def = arguments.fail, arguments.def

---The kernel's text as given, or that of the "adjoint" or "tangent" kernel derived from it.
---@param which? string
---@return string
function Kernel:source(which)
  if which == nil or which == "forward" then return internal.kernel_info(self).text end
  if which ~= "adjoint" and which ~= "tangent" then
    fail("source", "which must be \"adjoint\" or \"tangent\", got %s", tostring(which))
  end
  local texts = internal.kernel_show(self, which)
  for i, part in ipairs(texts) do texts[i] = internal.kernel_info(part).text end
  return table.concat(texts, "\n")
end

-- Sets r.registers and r.spills (bytes of local memory) of a kernel: from the device that compiled
-- it last, or else from a compilation by NVRTC for sm_90.
local function put_usage(r, kernel, name)
  local info = internal.kernel_info(kernel)
  r.shared_bytes = math.max(r.shared_bytes or 0, info.shared_bytes)
  r.registers, r.spills, r.compiled = info.registers, info.spilled,
    info.registers >= 0 and "device" or nil
  if r.compiled then return end
  local image = internal.kernel_image(kernel)
  if not image then return end
  local registers, bytes = cubin.usage(image, name)
  if registers then r.registers, r.spills, r.compiled = registers, bytes or -1, "sm_90" end
end

local KINDS = { "plain", "block_sums", "atomics", "gathers" }

local function usage_text(r)
  local text = r.compiled and ("%d registers, %d bytes of local memory (%s)"):format(r.registers,
    r.spills, r.compiled) or "not compiled"
  return r.shared_bytes > 0 and text .. (", %d bytes of shared memory"):format(r.shared_bytes)
    or text
end

-- A report as text: registers, memory, parameters, and lines whose gradients add to memory.
local function report_text(r)
  local list, a = { ("%s: %s"):format(r.name, r.refusal or usage_text(r)) }, r.adjoint
  if r.block then list[1] = list[1] .. ", blocks of " .. table.concat(r.block, " x ") end
  for _, q in ipairs(r.parameters) do list[#list + 1] = "  " .. q end
  if a and a.refusal then list[#list + 1] = "no gradient: " .. tostring(a.refusal) end
  if not a or a.refusal then return table.concat(list, "\n") end
  local text = "adjoint: %s, %d bytes per thread for loops"
  list[#list + 1] = text:format(usage_text(a), a.slot_bytes)
  for _, line in ipairs(a.lines) do
    local counts = {}
    for _, kind in ipairs(KINDS) do
      if (line[kind] or 0) > 0 then
        counts[#counts + 1] = ("%s %d"):format(kind:gsub("_", " "), line[kind])
      end
    end
    list[#list + 1] = ("  line %d: gradient of %s: %s"):format(line.line, line.array,
      table.concat(counts, ", "))
  end
  for _, loop in ipairs(a.loops) do
    list[#list + 1] = ("  line %d: %d bytes per thread for the loop"):format(loop.line, loop.bytes)
  end
  if a.unordered then
    list[#list + 1] = ("  line %d: summed in any order on a GPU, deterministic or not"):format(
      a.unordered)
  end
  if #a.keeps > 0 then list[#list + 1] = "  keeps " .. table.concat(a.keeps, ", ") end
  return table.concat(list, "\n")
end

--- What is known of the kernel and its derived backward: {name, parameters, registers, spills,
--- lines, adjoint = {…}}. registers and spills are -1 where neither a device nor NVRTC has compiled
--- it. print writes it as text.
---@return table
function Kernel:report()
  local info = internal.kernel_info(self)
  local r = setmetatable(
    { name = info.name, refusal = info.refusal, parameters = {}, block = info.block,
      lines = internal.kernel_lines(self, self) },
    { __name = "flame.report", __tostring = report_text })
  put_usage(r, self, info.name)
  for i, q in ipairs(info.params) do
    local form = q.role == "in" and "const %s *%s: %s"
      or (q.role == "out" or q.role == "inout") and "%s *%s: %s"
      or "%s %s: %s"
    r.parameters[i] = form:format(q.type, q.name, q.role)
  end
  if info.refusal then return r end
  local ok, parts, keeps = pcall(internal.kernel_show, self, "adjoint")
  if not ok then
    r.adjoint = { refusal = parts }
    return r
  end
  local t = { slot_bytes = 0, plain = 0, block_sums = 0, atomics = 0, gathers = 0, lines = {},
    loops = {}, keeps = keeps, registers = -1, spills = -1, shared_bytes = 0 }
  for _, part in ipairs(parts) do
    local a, use = internal.kernel_info(part), {}
    for _, loop in ipairs(a.loops) do
      t.loops[#t.loops + 1], t.slot_bytes = loop, t.slot_bytes + loop.bytes
    end
    t.unordered = t.unordered or a.unordered
    for _, kind in ipairs(KINDS) do t[kind] = t[kind] + a[kind] end
    for _, line in ipairs(internal.kernel_lines(part, self)) do
      t.lines[#t.lines + 1] = line
    end
    put_usage(use, part, a.name)
    t.shared_bytes = math.max(t.shared_bytes, use.shared_bytes)
    t.registers, t.spills, t.compiled = math.max(t.registers, use.registers),
      math.max(t.spills, use.spills), use.compiled
  end
  t.saved_bytes, r.adjoint = t.slot_bytes, t
  return r
end

--- What help says of a kernel, a template of kernels or kernels of one text; nil: k is something
--- else.
local function help(k)
  local meta = type(k) == "table" and getmetatable(k) or {}
  if meta == objects.classes.KernelTemplate then return tostring(k) .. ": help(k:of(\"f32\"))" end
  if meta.__name == "flame.kernels" then
    local list = {}
    for name, one in pairs(k) do list[#list + 1] = name .. ": " .. help(one) end
    table.sort(list)
    return table.concat(list, "\n")
  end
  if not internal.is_kernel(k) then return nil end
  local args, open = internal.kernel_arguments(k)
  local info, types, results = internal.kernel_info(k), {}, {}
  for _, q in ipairs(info.params) do
    types[q.name] = (q.list and "list of " or "") .. q.type .. (q.pointer and " *" or "")
    if (q.role == "out" or q.role == "inout") and not q.hidden then
      results[#results + 1] = q.name
    end
  end
  for i, name in ipairs(args) do
    args[i] = (open and i == #args and "%s?: %s" or "%s: %s"):format(name, types[name] or "table")
  end
  local text = "%s(%s) -> %s\n  k:report() tells what it costs, k:source() is its text."
  return text:format(info.name, table.concat(args, ", "),
    #results > 0 and table.concat(results, ", ") or "nothing")
end

-- ---- compiled kernels ---------------------------------------------------------------------------
---The cache of compiled kernels on disk: entries, bytes, and this context's hits and misses.
---"clear" empties it.
def('.kernel_cache(what?: "clear") -> table', function(what)
  local entries, bytes, hits, misses = internal.kernel_cache(what == "clear")
  return { entries = entries, bytes = bytes, hits = hits, misses = misses }
end)

--- Calls f(…) as a rehearsal: each evaluation is planned and its kernels are compiled, but nothing
--- runs. Afterwards optimisers, schedules and scalers have their old state again, also if f raised.
local function rehearse(f, ...)
  local before, clock = flame.stats(), flame.timer()
  local changed = {}        -- table of an optimiser, schedule or scaler -> its fields (optim.lua)
  local function back()
    internal.rehearsal = nil
    for t, was in pairs(changed) do
      for key in next, t do rawset(t, key, nil) end
      for key, v in next, was do rawset(t, key, v) end
    end
  end
  internal.rehearse(back, function(...)
    internal.rehearsal = changed
    f(...)
  end, ...)
  local after = flame.stats()
  return { plans = after.plans - before.plans, compiles = after.compiles - before.compiles,
    ms = clock() * 1000 }
end

--- Prepares in advance what is otherwise made at first use. A list of kernels is compiled, all at
--- once, for the device named in it (device =). A function, such as a training step with backward
--- and optimiser, is called without computing anything: each evaluation is planned, and its kernels
--- are compiled, including those of gradients. Existing tensors keep their values and gradients,
--- optimisers, schedules, scalers and random numbers their state; values read in the function are
--- 0, and large ones are undefined. The script's own tables change as in a step, and f may not
--- yield. Gives {plans, compiles, ms}.
def(".warmup(f: fn, ...) -> table", rehearse, ".warmup(list: table)", function(list)
  for key in pairs(list) do
    if type(key) == "string" and key ~= "device" then
      objects.no_option("warmup", key, { device = true })
    end
  end
  local device = list.device or flame.default_device()
  for i, k in ipairs(list) do
    if not internal.is_kernel(k) then
      fail("warmup", "entry %d is a %s, need a kernel", i, type(k))
    end
  end
  internal.kernel_ready(table.move(list, 1, #list, 1, {}), device)
end)

return { help = help }
