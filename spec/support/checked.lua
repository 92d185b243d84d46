--- Random programs whose index checks may fail: which values must then fail, which writes must not
--- happen, and what all other values must be.
--
-- A program is a list of steps on arrays of 6 x 4: x is a list of values, to which steps append,
-- and w are two tensors that steps write. run does the steps with the library on a device; expect
-- does them one by one on nested tables, in plain Lua (checked_steps.lua): a value made from one
-- that failed fails, and a write of such a value leaves its target as it was.
--
-- Programs vary in what is gathered (rows, elements, a loss's classes, positions that are gathered
-- themselves), in gradients, in how much of it is read (all, rows, columns, every second row, one
-- row, one element, part of a join, nothing), in whether positions or a reader wait for what the
-- run computes, in the positions' dtype and whether they are computed, in what is written (all,
-- rows, one row, scattered rows and elements, sums, in place), in whether the written value is held
-- or read by a pending op when it is written again, in which values are kept or dropped, in what is
-- evaluated when, and in where an index is out of range and by how much. They do not have: other
-- shapes, other dtypes of values than f32, user kernels, effects.
local flame = require "flame"
local T = dofile("spec/support/program_draw.lua")
local S = dofile("spec/support/checked_steps.lua")
local ordered = require "spec.support.ordered"
local M = { ops = {} }
local ROWS <const>, COLUMNS <const>, KEPT <const> = 6, 4, 8
local FAILED, map = S.FAILED, S.map

local function sorted(t)
  local names = {}
  for name in ordered(t) do names[#names + 1] = name end
  return names
end
local VALUES, WRITES = sorted(S.value), sorted(S.write)
for _, list in ipairs { VALUES, WRITES } do table.move(list, 1, #list, #M.ops + 1, M.ops) end

--- count positions from 1 to n; each: none comes twice; forward: none is counted from the end.
local function positions(r, count, n, each, forward)
  local left, ix = {}, {}
  for i = 1, n do left[i] = i end
  for k = 1, count do
    ix[k] = each and table.remove(left, r.int(1, #left)) or r.int(1, n)
    if r.chance(0.2) and not forward then ix[k] = ix[k] - n - 1 end
  end
  return ix
end

local function step(r, odds)
  local s = { a = r.int(1, KEPT), b = r.int(1, KEPT), w = r.int(1, 2), k = r.int(1, ROWS),
    op = r.chance(0.3) and r.pick(WRITES) or r.pick(VALUES), which = r.int(1, KEPT),
    shown = r.pick { "pending", "held", false }, how = r.pick { "stored", "computed", "i32" },
    grid = {} }
  local function spoil(ix, n)
    if r.chance(odds) then ix[r.int(1, #ix)] = r.pick { 0, n + 1, -n - 1, 1 << 30 } end
  end
  s.after = r.chance(0.35) and r.pick { "all", "alone", "read", "drop", "written" } or nil
  s.ix = positions(r, ROWS, ROWS, S.each[s.op], S.forward[s.op])
  s.labels = positions(r, ROWS, COLUMNS, false, S.forward[s.op])
  s.order = positions(r, ROWS, ROWS, true, true)
  for i = 1, ROWS do s.grid[i] = positions(r, COLUMNS, COLUMNS, false, true) end
  spoil(s.ix, ROWS)
  spoil(s.labels, COLUMNS)
  spoil(s.grid[r.int(1, ROWS)], COLUMNS)
  return s
end

function M.make(seed)
  local r, steps = T.generator(seed), {}
  local odds = r.pick { 0, 0.1, 0.3 }
  for i = 1, r.int(2, 9) do steps[i] = step(r, odds) end
  return { seed = seed, steps = steps }
end

--- The three values and two written tensors with which programs begin; make(i) makes the i-th.
local function start(make)
  local t = {}
  for i = 1, 3 do t[i] = make(i) end
  return t, { make(1), make(2) }
end
local function nth(x, i) return x[(i - 1) % #x + 1] end
local function append(x, v)
  x[#x + 1] = v
  if #x > KEPT then table.remove(x, 1) end
end
local function drop(x, s)
  if #x > 3 then table.remove(x, (s.which - 1) % #x + 1) end
end

--- What the values are and, after them, the tensors that are written: nested tables or FAILED. Then
--- whether anything fails, and whether a write fails after which its tensor is not written as a
--- whole. Or nil, if some value depends on how others are rounded.
function M.expect(program)
  local x, w = start(function(i)
    return map(function(k, j) return math.sin((k * 4 - 4 + j) * 0.3 * i) end)
  end)
  local any, refused = false, {}
  for _, s in ipairs(program.steps) do
    local f = S.value[s.op] or S.write[s.op]
    local ok, y = pcall(f[2], nth(x, s.a), nth(x, s.b), s, w[s.w])
    if y == S.UNSOUND then return nil end
    if not ok and y ~= FAILED then error(y, 0) end
    any = any or not ok
    if S.value[s.op] then append(x, ok and y or FAILED) else
      if ok then w[s.w] = y end
      refused[s.w] = not ok or s.op ~= "whole" and refused[s.w]
      if s.shown then append(x, w[s.w]) end
    end
    if s.after == "drop" then drop(x, s) end
  end
  x[#x + 1], x[#x + 2] = w[1], w[2]
  return x, any, refused[1] or refused[2]
end

local function as_read(s, device)
  local function place(ix)
    local t = flame.tensor(ix, { dtype = s.how == "i32" and "i32" or "i64" }):to(device)
    return s.how == "computed" and t + 0 or t
  end
  return setmetatable({ ix = place(s.ix), order = place(s.order), grid = place(s.grid),
    labels = place(s.labels) }, { __index = s })
end

--- Runs a program. Returns what expect does: values, and whether there was an error.
function M.run(program, device)
  local raised = false
  local function try(f, ...)
    local ok, y = pcall(f, ...)
    local known = ok or y == FAILED or tostring(y):find(" at position ", 1, true)
    if not known then error(y, 0) end
    raised = raised or not ok
    return ok, y
  end
  local function read(v) return try(function() return v:totable() end) end
  local x, w = start(function(i)
    return (flame.arange(24.0) * (0.3 * i)):sin():reshape(6, 4):to(device):clone()
  end)
  flame.eval(x)
  flame.eval(w)
  local function act(s)
    local f, a, b = (S.value[s.op] or S.write[s.op])[1], nth(x, s.a), nth(x, s.b)
    -- an op of a failed value fails, some with a message about FAILED, which stands for it here
    local lost = a == FAILED or b == FAILED
    local ok, y = (lost and pcall or try)(f, a, b, as_read(s, device), w[s.w])
    if S.value[s.op] then append(x, ok and y or FAILED)
    elseif s.shown then append(x, s.shown == "held" and w[s.w][{ {} }] or w[s.w] * 1) end
  end
  for _, s in ipairs(program.steps) do
    act(s)
    if s.after == "all" then try(flame.eval)
    elseif s.after == "alone" and nth(x, s.which) ~= FAILED then try(flame.eval, nth(x, s.which))
    elseif s.after == "written" then try(flame.eval, w[s.w])
    elseif s.after == "read" then read(nth(x, s.which))
    elseif s.after == "drop" then
      drop(x, s)
      collectgarbage()
    end
  end
  x[#x + 1], x[#x + 2] = w[1], w[2]
  for i, v in ipairs(x) do
    -- the first read after a write that did not happen raises
    local ok, y = read(v)
    if not ok then ok, y = read(v) end
    x[i] = ok and y or FAILED
  end
  return x, raised
end

local function difference(e, v)
  if e == FAILED or v == FAILED then
    return e ~= v and (e == FAILED and "a value where a check fails" or "fails without a reason")
  end
  for i = 1, ROWS do for j = 1, COLUMNS do
    if not (math.abs(e[i][j] - v[i][j]) <= 1e-3 * (1 + math.abs(e[i][j]))) then
      return ("[%d][%d] is %.6g, expected %.6g"):format(i, j, v[i][j], e[i][j])
    end
  end end
end

--- What is wrong with a program on a device: a text, or nil.
function M.fault(program, device)
  local e, any, refused = M.expect(program)
  if not e then return nil end
  local x, raised = M.run(program, device)
  for i, v in ipairs(e) do
    local d = difference(v, x[i])
    if d then return ("%s: value %d of %d: %s"):format(device, i, #e, d) end
  end
  if raised and not any then return device .. ": an error without a reason" end
  if refused and not raised then return device .. ": a write is lost without an error" end
end

--- The program with positions that are all in range.
local function harmless(program)
  local function within(ix, n)
    local fine = {}
    for k, i in ipairs(ix) do fine[k] = (i == 0 or i > n or i < -n) and 1 or i end
    return fine
  end
  local steps = {}
  for i, s in ipairs(program.steps) do
    local grid = {}
    for k, row in ipairs(s.grid) do grid[k] = within(row, COLUMNS) end
    steps[i] = setmetatable({ ix = within(s.ix, ROWS), labels = within(s.labels, COLUMNS),
      grid = grid }, { __index = s })
  end
  return { steps = steps }
end

--- Like M.fault, but after the program was run 'times' times with positions in range: on a GPU its
--- plans are then graphs, whose checks are read later.
function M.repeated(program, device, times)
  if not M.expect(program) then return nil end
  for _ = 1, times do M.run(harmless(program), device) end
  return M.fault(program, device)
end

--- The program as text, for messages.
function M.show(program)
  local t = {}
  for i, s in ipairs(program.steps) do
    local grid = {}
    for k, row in ipairs(s.grid) do grid[k] = table.concat(row, " ") end
    t[i] = ("  %s a%d b%d w%d k%d%s %s [%s] {%s} order [%s] labels [%s]%s"):format(s.op, s.a, s.b,
      s.w, s.k, s.shown and " " .. s.shown or "", s.how, table.concat(s.ix, " "),
      table.concat(grid, "; "), table.concat(s.order, " "), table.concat(s.labels, " "),
      s.after and (" then %s %d"):format(s.after, s.which) or "")
  end
  return table.concat(t, "\n")
end

--- The program without the steps, and the actions after steps, that its fault does not need.
function M.reduced(program, device)
  local steps = { table.unpack(program.steps) }
  local again = true
  while again do
    again = false
    for i = #steps, 1, -1 do
      local fewer = { table.unpack(steps) }
      table.remove(fewer, i)
      local ok, why = pcall(M.fault, { steps = fewer }, device)
      if not ok or why then steps, again = fewer, true end
    end
    for i, s in ipairs(steps) do
      local same = { table.unpack(steps) }
      same[i] = setmetatable({ after = false }, { __index = s })
      local ok, why
      if s.after then ok, why = pcall(M.fault, { steps = same }, device) end
      if s.after and (not ok or why) then steps, again = same, true end
    end
  end
  return { seed = program.seed, steps = steps }
end

--- Checks the program of a seed; a text with the reduced program if there is a fault.
function M.check(seed, device)
  local program = M.make(seed)
  local ok, why = pcall(M.fault, program, device)
  if ok and not why then return nil end
  local less = M.reduced(program, device)
  local _, last = pcall(M.fault, less, device)
  return ("program %d: %s\nreduced: %s\n%s"):format(seed, why, last, M.show(less))
end
return M
