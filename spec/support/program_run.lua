--- Runs random programs (programs.lua), checks what they give, and makes failing ones smaller.
--
-- run(program, mode) returns the values that a program reads and those live at its end. mode: the
-- budget (pending ops after which the library evaluates) and the collector's mode. check(program,
-- modes) wants the same bits in all modes, values within the bounds of oracle.lua, and agreement
-- with the CPU on other devices. shrink(program, fails) drops steps while fails(program) is true.
local flame = require "flame"
local P = dofile("spec/support/programs.lua")
local O, generator, internal = P.oracle, P.generator, flame.internal

-- ---- running ------------------------------------------------------------------------------------
local R = dofile("spec/support/program_steps.lua")(flame)
local function take(vars, k)
  local x = vars[k]
  if x == nil then error("variable " .. tostring(k) .. " is gone", 0) end
  return x
end
--- Leaf s of a long program with its axis of size LONG stretched to the program's length.
local function stretched(s)
  local r, shape = generator(s.seed), {}
  for d, n in ipairs(s.shape) do shape[d] = n == P.LONG and s.long or n end
  return { shape = shape, data = P.data(r, shape, s.dtype), dtype = s.dtype, how = s.how,
    grad = s.grad }
end
function R.leaf(s)
  if s.long then s = stretched(s) end
  local data = s.data
  if s.dtype == "bool" then
    local function truth(t)
      if type(t) ~= "table" then return t == 1 end
      local u = {}
      for i, v in ipairs(t) do u[i] = truth(v) end
      return u
    end
    data = truth(data)
  end
  local n = O.numel(s.shape)
  local pending = s.how == "pending" and s.dtype ~= "bool"
    and (O.is_float(s.dtype) and "f64" or "i64")
  local dtype = pending or s.dtype
  local x = n == 0 and flame.zeros(s.shape, { dtype = dtype })
    or flame.tensor(data, { dtype = dtype })
  if s.how == "turned" then x = x:transpose(1, #s.shape):contiguous() end
  if s.how == "stored" or s.how == "turned" then flame.eval(x) end
  if s.how == "turned" then x = x:transpose(1, #s.shape) end
  if pending then x = x:to(s.dtype) end
  if s.grad then x:requires_grad_(true) end
  return x
end
local give_up = R.eval
function R.eval(s, _, vars, mode)
  give_up(s, nil, vars)
  -- with a budget of 1 no op is pending that a collection could drop
  if mode.collector ~= "stop" and mode.budget > 1 then collectgarbage() end
  local list = {}
  for i, k in ipairs(s.list) do list[i] = take(vars, k) end
  flame.eval(table.unpack(list))
end
function R.gc(s, _, _, mode)
  if mode.collector == "stop" then return end
  if s.how == 1 then
    collectgarbage()
  elseif s.how == 2 then
    collectgarbage("step")
  else
    collectgarbage()
    collectgarbage()
  end
end
function R.refuse(_, x)
  local ok, message = pcall(x.add_, x, 1)
  if ok then error("a write to a view was not refused", 0) end
  if not tostring(message):find("write to a view", 1, true) then
    error("refused with: " .. tostring(message), 0)
  end
end
function R.late(s, x, vars)
  local ok, bad = pcall(function()      -- raises here if index_select was evaluated
    return (x:index_select(s.d, flame.tensor({ 1, s.at }, { dtype = "i64" })) * 2):sum()
  end)
  if not ok and not tostring(bad):find("out of range", 1, true) then error(bad, 0) end
  if ok and s.keep then vars.bad[#vars.bad + 1] = bad end
end
function R.missed(s, x, vars)
  vars.missed = vars.missed + 1         -- a later read raises the error
  local ids = flame.tensor({ 1, s.at }, { dtype = "i64" })
  if not s.add or x.dtype == "bool" then x[ids] = x.dtype == "bool" or 1 return end
  local ones = flame.ones({ 2, table.unpack(x.shape, 2) }, { dtype = x.dtype })
  local ok, why = pcall(function() x:copy_(x + flame.zeros_like(x):index_add(1, ids, ones)) end)
  -- raises here if index_add was evaluated before copy_
  if not ok and not tostring(why):find("out of range", 1, true) then error(why, 0) end
end
--- Returns f(). A read after a write out of range (R.missed) raises its error once: f is then
--- called again, at most as often as there were such writes.
local function told(vars, f)
  local ok, y = pcall(f)
  while not ok and vars.missed > 0 and tostring(y):find("out of range", 1, true) do
    vars.missed = vars.missed - 1
    ok, y = pcall(f)
  end
  if not ok then error(y, 0) end
  return y
end
R["error"] = function(s, x)
  local tries = {
    function() return x + flame.zeros(11, 13) + flame.zeros(12, 13) end,
    function() return x:reshape(97, 89) end,
    function() return x:sum(9) end,
    function() return x:matmul(flame.zeros(3, 3, { dtype = "i8" }), 2) end,
  }
  if pcall(tries[s.how]) then error("an error was not raised", 0) end
end
function R.backward(s, x) x:backward(nil, { retain_graph = s.retain }) end

--- The bytes, shape and dtype of a tensor; with 'full' also v, its value as nested tables.
local function snapshot(x, full)
  local t = { dtype = x.dtype, shape = x.shape, bytes = x:detach():bytes() }
  if full then t.v = #t.shape == 0 and x:item() or O.numel(t.shape) == 0 and {} or x:totable() end
  return t
end

--- A run's log, { k = variable, x = snapshot } per read and live variable, and grads; or nil, why.
function P.run(program, mode, full)
  local vars, log = { bad = {}, missed = 0 }, { n = 0 }
  local before = internal.budget(mode.budget)
  if mode.collector == "stop" then collectgarbage("stop") else collectgarbage(mode.collector) end
  flame.seed(program.seed)
  local ok, message = xpcall(function()
    for k, s in ipairs(program.steps) do
      log.step = k
      if s.f == "read" then
        log.n = log.n + 1
        log[log.n] = { k = s.a, step = k,
          x = told(vars, function() return snapshot(take(vars, s.a), full) end) }
      elseif program.skip and program.skip[s.f] then
        log.step = k
      else
        local y = told(vars, function() return R[s.f](s, s.a and take(vars, s.a), vars, mode) end)
        if y ~= nil then vars[s.o] = y end
      end
    end
    for _, x in ipairs(vars.bad) do
      local read, why = pcall(x.item, x)
      if read or not tostring(why):find("out of range", 1, true) then
        error("a position out of range: " .. tostring(why), 0)
      end
    end
    vars.bad = nil
    told(vars, function() return (flame.tensor({ 1 }) + 1):item() end)
    vars.missed = nil
    local order = {}
    for k in pairs(vars) do order[#order + 1] = k end
    table.sort(order)
    for _, k in ipairs(order) do
      log.n = log.n + 1
      log[log.n] = { k = k, x = snapshot(vars[k], full) }
    end
    log.grads = {}
    for _, s in ipairs(program.steps) do
      if s.grad and vars[s.o] and vars[s.o].grad then
        log.grads[s.o] = snapshot(vars[s.o].grad, full)
      end
    end
  end, function(m) return tostring(m) end)
  for k in pairs(vars) do vars[k] = nil end
  internal.budget(before)
  collectgarbage("restart")
  if not ok then return nil, ("step %d: %s"):format(log.step or 0, message) end
  return log
end

-- ---- comparing ----------------------------------------------------------------------------------
local UNPACK = { f64 = "<d", f32 = "<f", f16 = "<I2", bf16 = "<I2",
  i64 = "<i8", i32 = "<i4", i16 = "<i2", i8 = "<b", u8 = "<B", bool = "<B" }
local function is_nan(dtype, v)
  if dtype == "f16" then
    return v & 0x7fff > 0x7c00
  elseif dtype == "bf16" then
    return v & 0x7fff > 0x7f80
  end
  return v ~= v
end
--- Returns text on where two snapshots differ in a bit, or nil. NaNs of all kinds are equal.
local function same_bits(a, b)
  if a.dtype ~= b.dtype or table.concat(a.shape, ",") ~= table.concat(b.shape, ",") then
    return "another dtype or shape"
  end
  if a.bytes == b.bytes then return nil end
  local size = string.packsize(UNPACK[a.dtype])
  for i = 1, #a.bytes, size do
    local p, q = string.unpack(UNPACK[a.dtype], a.bytes, i),
      string.unpack(UNPACK[a.dtype], b.bytes, i)
    if a.bytes:sub(i, i + size - 1) ~= b.bytes:sub(i, i + size - 1)
        and not (is_nan(a.dtype, p) and is_nan(a.dtype, q)) then
      return ("element %d: %s and %s"):format((i - 1) // size + 1, p, q)
    end
  end
end

--- Returns text on where a snapshot lies outside the bounds of the oracle's value, or nil.
local function outside(got, want)
  if got.dtype ~= want.dtype then return ("dtype %s, expected %s"):format(got.dtype, want.dtype) end
  if table.concat(got.shape, ",") ~= table.concat(want.shape, ",") then
    return ("shape (%s), expected (%s)"):format(table.concat(got.shape, ","),
      table.concat(want.shape, ","))
  end
  local flat = {}
  local function walk(t)
    if type(t) == "table" then for i = 1, #t do walk(t[i]) end else flat[#flat + 1] = t end
  end
  walk(got.v)
  for i, p in ipairs(O.flat(want)) do
    local y = flat[i]
    if y == true then y = 1 elseif y == false then y = 0 end
    local same = y == p[1] or (y ~= y and p[1] ~= p[1]) or p[2] == math.huge
    if not same and not (type(y) == "number" and math.abs(y - p[1]) <= p[2]) then
      return ("element %d: %.17g, expected %.17g within %.3g"):format(i, y, p[1], p[2])
    end
  end
end

-- Ops that may give other bits on another device: sums and products of floats, since devices add in
-- different orders; matrix products; f64's elementary functions, which come from the platform; and
-- whatever is computed from such values. Everything else has the same bits (docs/accuracy.md):
-- functions of other floats, integers, views, random numbers, and sums at positions, which are
-- added in order.
local ORDERS = { sum = true, prod = true, mean = true, var = true }
local ELEMENTARY = { exp = true, log = true, sin = true, cos = true, tanh = true, sigmoid = true,
  pow = true, atan2 = true }
local COMPOSITES = { softmax = true, layer_norm = true, cross_entropy = true, mm = true }
local function may_differ(s, vars, loose)
  local made = vars[(s.f == "set" or s.f == "inplace") and s.a or s.o]
  local dtype = made and made.dtype
  if COMPOSITES[s.f] or s.f == "red" and ORDERS[s.op] and O.is_float(dtype) then return true end
  if dtype == "f64" and (ELEMENTARY[s.op] or s.f == "silu" or s.f == "gelu") then return true end
  for _, name in ipairs { "a", "b", "c", "w" } do if loose[s[name]] then return true end end
  for _, k in ipairs(s.list or {}) do if loose[k] then return true end end
  return false
end
--- The oracle's values in the order of P.run's log, and a list that says for each of them whether
--- its bits may differ between devices.
function P.expect(program)
  local vars, loose, log, differs = {}, {}, {}, {}
  local function note(k) log[#log + 1], differs[#log + 1] = vars[k]:clone(), loose[k] or false end
  O.seed(program.seed)
  for _, s in ipairs(program.steps) do
    if s.f == "read" then note(s.a)
    else
      P.step(vars, s)
      local any = may_differ(s, vars, loose)
      loose[(s.f == "set" or s.f == "inplace") and s.a or s.o] = any
      if s.o2 then loose[s.o2] = any end
    end
  end
  local order = {}
  for k in pairs(vars) do order[#order + 1] = k end
  table.sort(order)
  for _, k in ipairs(order) do note(k) end
  return log, differs
end

local function compare_logs(a, b, name)
  if a.n ~= b.n then return ("%s: %d values read, %d in the first mode"):format(name, b.n, a.n) end
  for i = 1, a.n do
    local why = same_bits(a[i].x, b[i].x)
    if why then return ("%s: variable %d (read %d of %d): %s"):format(name, a[i].k, i, a.n, why) end
  end
  for k, x in pairs(a.grads) do
    local why = b.grads[k] and same_bits(x, b.grads[k]) or not b.grads[k] and "no gradient"
    if why then return ("%s: gradient of %d: %s"):format(name, k, why) end
  end
end

--- The sum of the program's losses after h is added to element k of leaf o, without rounding.
local function loss_at(program, o, k, h)
  local vars, sum = {}, 0
  O.wide = true
  O.seed(program.seed)
  for _, s in ipairs(program.steps) do
    if s.f == "backward" then sum = sum + vars[s.a]:item()
    elseif s.f ~= "read" then
      P.step(vars, s)
      if s.o == o and s.f == "leaf" then
        local moved = O.flat(vars[o])[k]
        moved[1] = moved[1] + h
      end
    end
  end
  O.wide = false
  return sum
end
--- The elements of a snapshot as a list of numbers, bools as 0 and 1.
local function numbers(x)
  local list = {}
  local function walk(t)
    if type(t) == "table" then for i = 1, #t do walk(t[i]) end return end
    list[#list + 1] = t == true and 1 or t or 0
  end
  walk(x.v)
  return list
end
--- Compares two random elements of each gradient with central differences of two widths, unless
--- these disagree. Returns text on the first gradient that is wrong, or nil.
function P.check_gradients(program, log, r)
  for _, s in ipairs(program.steps) do
    local g = s.grad and log.grads[s.o]
    local n = g and O.numel(s.shape) or 0
    for _ = 1, math.min(n, 2) do
      local k = r.int(1, n)
      local h = 2^-17
      local d1 = (loss_at(program, s.o, k, h) - loss_at(program, s.o, k, -h)) / (2 * h)
      local d2 = (loss_at(program, s.o, k, 4 * h) - loss_at(program, s.o, k, -4 * h)) / (8 * h)
      local got = numbers(g)[k]
      local loss = math.abs(loss_at(program, s.o, k, 0))
      local wobble = math.abs(d1 - d2)
      local tol = (program.float == "f64" and 1e-6 or 2e-3) * (1 + math.abs(d1)) + 20 * wobble
        + 1e-10 * loss / h
      P.counts.gradients = (P.counts.gradients or 0) + 1
      if wobble < 1e-3 * (1 + math.abs(d1)) and math.abs(d1) < 1e4
          and not (math.abs(got - d1) <= tol) then
        return ("gradient of %d, element %d: %.10g, expected %.10g within %.3g"):format(s.o,
          k, got, d1, tol)
      end
    end
  end
end

local function near(a, b, bound) return a == b or a ~= a and b ~= b or math.abs(a - b) <= bound end
--- Text on where the logs of two devices differ, or nil. Values must have equal bits or, where
--- 'differs' allows it, be within the oracle's bound. Gradients: a bound by dtype; none if mixed.
local function compare_devices(here, there, want, differs, program)
  if here.n ~= there.n then return ("cpu: %d values read, %d here"):format(there.n, here.n) end
  for i = 1, here.n do
    local name = ("cpu: variable %d (read %d of %d): "):format(here[i].k, i, here.n)
    local why = not differs[i] and same_bits(here[i].x, there[i].x)
    if why then return name .. why end
    if differs[i] then
      local p, q = numbers(here[i].x), numbers(there[i].x)
      for j, c in ipairs(O.flat(want[i])) do
        if c[2] ~= math.huge and not near(p[j], q[j], c[2]) then
          return ("%selement %d: %.17g, there %.17g within %.3g"):format(name, j, p[j], q[j], c[2])
        end
      end
      P.counts.near = (P.counts.near or 0) + 1
    else P.counts.same = (P.counts.same or 0) + 1 end
  end
  if program.mixed then return nil end    -- sums in bf16 that cancel have no useful bound
  for k, x in pairs(here.grads) do
    if not there.grads[k] then return ("cpu: no gradient of %d"):format(k) end
    local p, q, largest = numbers(x), numbers(there.grads[k]), 1
    for _, v in ipairs(q) do largest = math.max(largest, math.abs(v)) end
    local bound = (program.float == "f64" and 1e-9 or 2e-3) * largest
    for j = 1, #q do
      if not near(p[j], q[j], bound) then
        return ("cpu: gradient of %d, element %d: %.9g, there %.9g within %.3g"):format(k, j,
          p[j], q[j], bound)
      end
    end
  end
end

--- The second device, on which programs are run for comparison: the CPU; nil if that is the first.
P.second = flame.default_device() ~= "cpu" and "cpu" or nil
P.counts = {}
--- Returns text on why the program fails, or nil. modes: a list of { budget =, collector = }.
function P.check(program, modes, no_oracle)
  local first, why = P.run(program, modes[1], true)
  if not first then
    return ("budget %d, %s: %s"):format(modes[1].budget, modes[1].collector, why)
  end
  for i = 2, #modes do
    local log, message = P.run(program, modes[i])
    local name = ("budget %d, %s"):format(modes[i].budget, modes[i].collector)
    if not log then return name .. ": " .. message end
    local bad = compare_logs(first, log, name)
    if bad then return bad end
  end
  if no_oracle then return nil end
  local expected, differs = program.expected, nil       -- the oracle's values do not change
  if P.second or not expected then expected, differs = P.expect(program) end
  if P.second then
    local device = flame.default_device()
    flame.default_device(P.second)
    local there, message = P.run(program, modes[1], true)
    flame.default_device(device)
    if not there then return "cpu: " .. message end
    local bad = compare_devices(first, there, expected, differs, program)
    if bad then return bad end
  end
  for i, want in ipairs(expected) do
    local bad = outside(first[i].x, want)
    if bad then return ("oracle: variable %d (read %d): %s"):format(first[i].k, i, bad) end
  end
  if program.float then return P.check_gradients(program, first, generator(program.seed + 1)) end
end

local BUDGETS, COLLECTORS = { 1, 7, 1 << 20 }, { "stop", "generational", "incremental" }
--- Three modes with each budget once and each mode of the collector once. Three seeds in a row have
--- all nine pairs.
function P.modes_of(seed)
  local modes = {}
  for i, budget in ipairs(BUDGETS) do
    modes[i] = { budget = budget, collector = COLLECTORS[(seed + i) % 3 + 1] }
  end
  return modes
end
--- Returns why the mixed program of a seed fails and the smallest program that still fails, or nil.
--- Of eight seeds in a row one makes a long program and two make programs that end in backward.
--- Programs run with each op evaluated by itself, and with several ops, or all, evaluated together.
function P.check_mixed(seed, counts)
  local program = P.mix(seed, seed % 8 == 1 or seed % 8 == 5, seed % 8 == 3)
  local budget, collector = ({ 7, 1 << 20, 20, 1 << 20 })[(seed >> 3) % 4 + 1],
    COLLECTORS[seed % 3 + 1]
  local modes = { { budget = 1, collector = "generational" },
    { budget = budget, collector = collector } }
  P.count_mixed(program, counts)
  local function fails(p) return P.check(p, modes, p.long) end
  local why = fails(program)
  if not why then return nil end
  local small = P.shrink(program, fails)
  return ("seed %d: %s\nsmallest program: %s\n%s"):format(seed, why, fails(small) or why,
    P.text(small))
end

-- ---- smaller ------------------------------------------------------------------------------------
local READS = { "a", "b", "c", "i", "w" }
--- A copy of the program without step number 'out' and without the steps that need its result.
local function without_step(program, out)
  local gone, steps = {}, {}
  for k, s in ipairs(program.steps) do
    local drop = k == out
    for _, name in ipairs(READS) do if gone[s[name]] then drop = true end end
    for _, v in ipairs(s.list or {}) do if gone[v] then drop = true end end
    if not drop then steps[#steps + 1] = s
    elseif s.f ~= "set" and s.f ~= "inplace" and s.f ~= "del" then
      gone[s.o] = true
      if s.o2 then gone[s.o2] = true end
    end
  end
  return { seed = program.seed, float = program.float, mixed = program.mixed, long = program.long,
    smooth = program.smooth, steps = steps }
end
function P.shrink(program, fails)
  local changed = true
  while changed do
    changed = false
    for k = #program.steps, 1, -1 do
      if k <= #program.steps then
        local less = without_step(program, k)
        local ok, bad = pcall(fails, less)
        if ok and bad then program, changed = less, true end
      end
    end
  end
  return program
end

local function show(v)
  if type(v) ~= "table" then return type(v) == "string" and ("%q"):format(v) or tostring(v) end
  local t = {}
  for i, x in ipairs(v) do t[i] = show(x) end
  return "{" .. table.concat(t, ", ") .. "}"
end
function P.text(program)
  local lines =
    { ("-- seed %d%s"):format(program.seed, program.float and ", " .. program.float or "") }
  for _, s in ipairs(program.steps) do
    local keys, t = {}, {}
    for k in pairs(s) do if k ~= "f" then keys[#keys + 1] = k end end
    table.sort(keys)
    for _, k in ipairs(keys) do t[#t + 1] = k .. " = " .. show(s[k]) end
    lines[#lines + 1] = ("{ f = %q, %s },"):format(s.f, table.concat(t, ", "))
  end
  return table.concat(lines, "\n")
end
return P
