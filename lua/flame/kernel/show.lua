--- What kernels show of themselves: k:source, k:report. The facts are C (src/lua/kernel_report.c).
-- And what is compiled of them: flame.kernel_cache, flame.warmup.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local objects = require "flame.base.objects"
local program = require "flame.kernel.gradient"
local cubin = require "flame.kernel.image"
local Kernel = require("flame.kernel.methods").Kernel
local fail, def = arguments.fail, arguments.def
local INPUT, OUTPUT, FRESH = 1, 2, 4

local function adjoint_for_show(self)
  local p = program.of(self)
  local wants = {}
  for i, q in ipairs(p.params) do
    wants[i] = program.is_output(q) and q.float and not q.hidden and OUTPUT or 0
    if (q.role == "in" or q.role == "inout" or q.role == "scalar") and q.float then
      wants[i] = wants[i] + INPUT
    end
    if q.role == "out" then wants[i] = wants[i] + FRESH end
  end
  return p, wants
end

-- A launch as far as the kernel says it: extents that it does not say are 0, which is no size.
local function launch_for_show(self)
  local config = internal.kernel_info(self).config
  if type(config.block) ~= "table" then return nil end
  local b, g = config.block, type(config.grid) == "table" and config.grid or { 0 }
  return { geometry = { g[1], g[2] or 1, g[3] or 1, b[1], b[2] or 1, b[3] or 1, 0 }, values = {} }
end

---The text: as given, or of the "adjoint" or "tangent" that is derived from it.
---@param which? string
---@return string
function Kernel:source(which)
  if which == nil or which == "forward" then return internal.kernel_info(self).text end
  if which ~= "adjoint" and which ~= "tangent" then
    fail("source", "which must be \"adjoint\" or \"tangent\", got %s", tostring(which))
  end
  local p, wants = adjoint_for_show(self)
  local texts = {}
  local d = program.derive(p, which, wants, launch_for_show(self), true)
  for i, part in ipairs(d.parts) do texts[i] = internal.kernel_info(part.kernel).text end
  return table.concat(texts, "\n")
end

-- Registers and local bytes into r: of the device that compiled it last, else of NVRTC for sm_90.
local function put_usage(r, kernel, name)
  local info = internal.kernel_info(kernel)
  r.registers, r.spills, r.compiled = info.registers, info.spilled,
    info.registers >= 0 and "device" or nil
  if r.compiled then return end
  local image = internal.kernel_image(kernel)
  if not image then return end
  local registers, bytes = cubin.usage(image, name)
  if registers then r.registers, r.spills, r.compiled = registers, bytes or -1, "sm_90" end
end

--- What the backward of this program keeps until it runs: names of arguments and results.
local function kept_by(p, parts)
  local list, seen = {}, {}
  for _, part in ipairs(parts) do
    for _, q in ipairs(part.roles) do
      local of = p.params[q.param]
      if of and not seen[q.param]
          and (q.role == "original" or q.role == "final" or q.role == "scratch") and
        of.role ~= "scalar" and of.role ~= "struct"
        and not (q.role == "scratch" and of.role == "out") then
        seen[q.param] = true
        list[#list + 1] = of.name
      end
    end
  end
  return list
end

local KINDS = { "plain", "block_sums", "atomics", "gathers" }

local function usage_text(r)
  return r.compiled and ("%d registers, %d bytes of local memory (%s)"):format(r.registers,
    r.spills, r.compiled) or "not compiled"
end

-- A report as text: what it costs, its parameters, and the lines that add to memory.
local function report_text(r)
  local list, a = { ("%s: %s"):format(r.name, r.refusal or usage_text(r)) }, r.adjoint
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
    { name = info.name, refusal = info.refusal, parameters = {},
      lines = internal.kernel_lines(self, self) },
    { __name = "flame.report", __tostring = report_text })
  put_usage(r, self, info.name)
  for i, q in ipairs(info.params) do
    local form = q.role == "in" and "const %s *%s: %s" or program.is_output(q) and "%s *%s: %s"
      or "%s %s: %s"
    r.parameters[i] = form:format(q.type, q.name, q.role)
  end
  if info.refusal then return r end
  local p, wants = adjoint_for_show(self)
  local ok, d = pcall(program.derive, p, "adjoint", wants, launch_for_show(self), true)
  if not ok then
    r.adjoint = { refusal = d }
    return r
  end
  local t = { slot_bytes = 0, plain = 0, block_sums = 0, atomics = 0, gathers = 0, lines = {},
    keeps = kept_by(p, d.parts), registers = -1, spills = -1 }
  for _, part in ipairs(d.parts) do
    local a, use = internal.kernel_info(part.kernel), {}
    t.slot_bytes = t.slot_bytes + a.slot_bytes
    t.unordered = t.unordered or a.unordered
    for _, kind in ipairs(KINDS) do t[kind] = t[kind] + a[kind] end
    for _, line in ipairs(internal.kernel_lines(part.kernel, self)) do
      t.lines[#t.lines + 1] = line
    end
    put_usage(use, part.kernel, a.name)
    t.registers, t.spills, t.compiled = math.max(t.registers, use.registers),
      math.max(t.spills, use.spills), use.compiled
  end
  t.saved_bytes, r.adjoint = t.slot_bytes, t
  return r
end

-- ---- compiled kernels ---------------------------------------------------------------------------
---Compiled kernels on disk: entries, bytes, and this context's hits and misses.
---"clear" removes them.
def('.kernel_cache(what?: "clear") -> table', function(what)
  local entries, bytes, hits, misses = internal.kernel_cache(what == "clear")
  return { entries = entries, bytes = bytes, hits = hits, misses = misses }
end)

---Compile kernels ahead, at once; their first call then compiles nothing. The list may say where:
---device =.
def(".warmup(list: table)", function(list)
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
