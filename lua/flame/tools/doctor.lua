--- flame.info(), the facts that FLAME_DEBUG prints, and flame-lua --doctor, which looks at the
-- driver, the libraries and the folder of compiled kernels, lets each device compute something that
-- can be checked, and says what to do about missing parts.
local flame = require "flame"
local internal = flame.internal

-- What to try if a device's results are wrong.
local advice = {
  cpu = "run it with FLAME_BLAS=off, and report the lines of flame-lua --info",
  cuda = "run it with FLAME_CACHE_DIR=off and with another driver, and report the lines of "
    .. "flame-lua --info" }

--- Computes a x + y and a matrix product on a device, and compares them with numbers computed in
--- plain Lua. Returns true, or false and the reason.
local function self_test(device)
  local function check(what, value, expected)
    if value == expected then return end
    error(("%s is %s, not %s; %s"):format(what, value, expected, advice[device:match "%a+"]), 0)
  end
  local ok, why = pcall(function()
    local n = 37
    local make = { dtype = "f32", device = device }
    local x, y = flame.arange(n, make), flame.ones({ n }, make)
    local z = (x * 2.5 + y):totable()
    for i = 1, n do check("element " .. i .. " of 2.5 x + y", z[i], 2.5 * i + 1) end
    local a = flame.arange(n * n, make):reshape(n, n) % 7 - 3
    local product, rows = a:matmul(a:t()):totable(), a:totable()
    for i = 1, n, 9 do
      for j = 1, n, 7 do
        local sum = 0
        for k = 1, n do sum = sum + rows[i][k] * rows[j][k] end
        check(("element (%d, %d) of a product"):format(i, j), product[i][j], sum)
      end
    end
  end)
  if ok then return true, "computes what it should" end
  return false, (tostring(why):gsub("^[^:\n]*:%d+: ", ""))
end

local function megabytes(bytes) return (("%.1f MiB"):format(bytes / 1048576):gsub(",", ".")) end

local function memory_line(device)
  local m = flame.memory(device)
  return ("%s: %s in tensors, %s reserved, %s at most, %s free"):format(device,
    megabytes(m.allocated), megabytes(m.reserved),
    megabytes(m.peak), megabytes(m.free))
end

local function devices()
  local list = { "cpu" }
  for i = 0, flame.cuda.count() - 1 do list[#list + 1] = "cuda:" .. i end
  return list
end

-- Facts that concern machines with a GPU only.
local for_cuda = { nvrtc = true, cublaslt = true, cufft = true, cusolver = true, cudnn = true,
  nccl = true, nvml = true, cache = true }
local optional = { blas = true, cufft = true, cusolver = true, cublas = true, cudnn = true,
  nccl = true, nvml = true }

--- Returns the lines about CUDA (what was found, and problems with their remedies), and the line on
--- BLAS. deep: as for fl_facts (engine/facts.h).
local function cuda_lines(deep)
  local lines = {}
  local function add(ok, text)
    lines[#lines + 1] = (ok and "[CUDA Info] " or "[CUDA Warning] ") .. text
  end
  local blas
  for _, fact in ipairs(internal.facts(deep)) do
    if fact.name == "blas" then blas = "blas: " .. fact.text
    else add(fact.ok, fact.name .. ": " .. fact.text) end
  end
  for i = 0, flame.cuda.count() - 1 do
    local device = "cuda:" .. i
    local ok, text = self_test(device)
    add(ok, device .. ": the self-test " .. (ok and "passed" or "failed: " .. text))
  end
  return lines, blas
end

--- Called if the debug switch is set: writes the lines about CUDA to standard error, once.
function internal.debug_block()
  if not io then return end
  for _, line in ipairs((cuda_lines(false))) do io.stderr:write(line, "\n") end
end

--- Versions, devices with a self-test, memory and the settings in force, as text.
function internal.info()
  local settings, lua = internal.settings()
  local lines = { ("flame %s, %s"):format(flame.version, lua),
    "default device: " .. flame.default_device() }
  local available, why = flame.cuda.available()
  lines[#lines + 1] = available and ("cuda: %d device%s"):format(flame.cuda.count(),
    flame.cuda.count() == 1 and "" or "s")
    or ("cuda: none (%s)"):format(why)
  local about, blas = cuda_lines(available)
  table.move(about, 1, #about, #lines + 1, lines)
  lines[#lines + 1] = blas
  local live = flame.memory().live_tensors
  local ok, text = self_test "cpu"                 -- cuda_lines makes the self-tests of GPUs
  lines[#lines + 1] = "self-test cpu: " .. (ok and "passed" or "failed: " .. text)
  for _, device in ipairs(devices()) do
    lines[#lines + 1] = "memory " .. memory_line(device)
  end
  lines[#lines + 1] = ("memory: %d tensors, %s of the host"):format(live,
    megabytes(flame.memory("cpu").host))
  local names = {}
  for name in pairs(settings) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do lines[#lines + 1] = name .. "=" .. settings[name] end
  return table.concat(lines, "\n") .. "\n"
end

--- Prints what was found and what is wrong, with what to do. Returns true if nothing necessary is
--- missing.
---@param write fun(line: string)
function internal.doctor(write)
  local bad, available = 0, flame.cuda.available()
  local function line(ok, name, text, needed)
    local mark = ok and "ok     " or needed and "WRONG  " or "absent "
    if not ok and needed then bad = bad + 1 end
    write(("%s %-18s %s"):format(mark, name, text))
  end
  line(true, "flame", flame.version)
  for _, fact in ipairs(internal.facts(true)) do
    local needed = fact.name ~= "driver" and not optional[fact.name]
      and (available or not for_cuda[fact.name])
    line(fact.ok, fact.name, fact.text, needed)
  end
  for _, device in ipairs(devices()) do
    local ok, text = self_test(device)
    line(ok, "self-test " .. device, text, true)
  end
  if not available then write("No CUDA device can be used: everything runs on the CPU.") end
  write(bad == 0 and "Nothing is wrong."
    or ("%d thing%s wrong: see above for what to do."):format(bad, bad == 1 and " is" or "s are"))
  return bad == 0
end
