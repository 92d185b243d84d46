--- Every op of src/tensor/ops.def, over shapes, dtypes and views, against formulas in plain Lua
-- (spec/support/scalars.lua): values and dtypes; first and second derivatives and forward mode in
-- f64. A new line of ops.def needs an entry in scalars.lua and is then tested here; without one the
-- spec fails. With FLAME_DEVICE=cuda it runs on the GPU and compares with the CPU as well.
require "spec.support.helper"
local flame = require "flame"
local oracle, views = require "spec.support.scalars", require "spec.ops.walk.views"
local special = require "spec.ops.walk.special"

local FLOATS, INTS = { "f64", "f32", "f16", "bf16" }, { "i64", "i32", "i16", "i8", "u8" }
local EPS, TINY, BITS = {}, {}, {}
for dtype, t in pairs(oracle.types) do
  EPS[dtype], TINY[dtype], BITS[dtype] = t.eps, t.tiny, t.high
end
local SHAPES = { {}, { 0 }, { 1 }, { 7 }, { 3, 5 }, { 2, 0, 3 }, { 2, 3, 5 } }
local on_cuda = flame.default_device() ~= "cpu"

-- ---- numbers ------------------------------------------------------------------------------------
local state = 12345
local function uniform(a, b)
  state = (state * 1103515245 + 12345) % 2147483648
  return a + (b - a) * (state / 2147483648)
end
local round = oracle.round          -- rounds a number to a dtype
local function between(a, b) return function() return uniform(a, b) end end
local function apart(a, b)
  return function() return uniform(-1, 1) < 0 and -uniform(a, b) or uniform(a, b) end
end
local DRAW = {
  REALS = apart(0.1, 3.2), ABOVE0 = between(0.2, 4), UNIT = apart(0.05, 0.9),
  ABOVE1 = between(1.1, 4), NONZERO = apart(0.3, 3), SMALL = between(-1, 1),
  SMALLPOS = between(0.05, 2), INTS = function() return math.floor(uniform(-2, 3)) * 1.0 end,
}
local function draw_for(op, dtype)
  if dtype == "bool" then return function() return uniform(0, 1) < 0.5 and 1 or 0 end end
  if not BITS[dtype] then
    local draw = assert(DRAW[op.domain], op.name .. ": no draw for the domain " .. op.domain)
    return function() return round(dtype, draw()) end
  end
  local low = (op.domain == "ABOVE0" or op.domain == "ABOVE1") and 1 or dtype == "u8" and 0 or -4
  if op.domain == "UNIT" then low = 0 end
  return function() return math.floor(uniform(low, op.domain == "UNIT" and 1 or 6)) end
end

--- For operands of this dtype: the dtype in which the op computes, and that of its result; nil: the
--- op refuses them.
local function kinds_of(op, dtype)
  local float = EPS[dtype] ~= nil
  if op.kind == "FLOAT" then return float and dtype or "f32", float and dtype or "f32" end
  if op.kind == "TEST" then return dtype, "bool" end
  if op.kind == "NUM" and dtype == "bool" or op.kind == "INT" and float then return nil end
  return dtype, dtype
end

-- ---- comparing ----------------------------------------------------------------------------------
local counted = 0
local function compare(what, y, dtype, shape, expected, entry, scale)
  local place = " " .. table.concat(shape, "x")
  assert(y.dtype == dtype, what .. place .. ": dtype " .. y.dtype .. ", expected " .. dtype)
  assert.same(shape, y.shape, what)
  local got = views.flat(y)
  for i, e in ipairs(expected) do
    local g, want = got[i], round(dtype, e)
    counted = counted + 1
    local same = g == want or g ~= g and want ~= want
    if not same and EPS[dtype] then
      local ulps = (entry.ulps or 0) + (dtype == "f64" and entry.f64 or 0)
      if (dtype == "f16" or dtype == "bf16") and ulps > 0 then ulps = 1 end
      local bound = 2 * EPS[dtype] * (ulps * math.abs(want) + (entry.near
        or 0) + (scale and scale[i] or 0)) + ulps * TINY[dtype]
      same = math.abs(g - want) <= bound
    end
    if not same then
      error(("%s%s: element %d is %.17g, expected %.17g"):format(what, place, i, g, want), 2)
    end
  end
end
local function on_both(f, ...)
  local here = f(...)
  if not on_cuda then return here end
  local args = { ... }
  for i, v in ipairs(args) do if flame.is_tensor(v) then args[i] = v:cpu() end end
  return here, f(table.unpack(args))
end
--- Checks f(args) on the default device and, if that is a GPU, on the CPU too.
local function check(what, f, args, dtype, shape, expected, entry, scale)
  for _, y in ipairs { on_both(f, table.unpack(args)) } do
    compare(what, y, dtype, shape, expected, entry, scale)
  end
end

-- ---- the forms ----------------------------------------------------------------------------------
local walk = {}
local function all_dtypes()
  local list = { table.unpack(FLOATS) }
  table.move(INTS, 1, #INTS, #list + 1, list)
  list[#list + 1] = "bool"
  return list
end
local DTYPES = all_dtypes()

function walk.unary(op, entry)
  local f = flame[op.name]
  for _, dtype in ipairs(DTYPES) do
    local compute, result = kinds_of(op, dtype)
    local draw = draw_for(op, dtype)
    if not compute then
      assert.has_error(function() f(views.tensor(flame, { 1 }, { 1 }, dtype)) end)
    else
      local function one(kind, shape)
        local x, values = views.make(flame, kind, shape, dtype, draw)
        if not x then return end
        local expected = {}
        for i, v in ipairs(values) do
          if op.kind == "INT" and dtype == "bool" then expected[i] = 1 - v
          else expected[i] = entry[1](EPS[compute] and v * 1.0 or v) end
        end
        check(("%s %s %s"):format(op.name, dtype, kind), f, { x }, result, shape, expected, entry)
      end
      for _, shape in ipairs(SHAPES) do
        for _, kind in ipairs(views.names) do
          if kind == "contiguous" or #shape == 2 or (dtype == "f32" and #shape > 1) then
            one(kind, shape)
          end
        end
      end
      if dtype == "f32" or dtype == "f64" then
        one("contiguous", { 1003 })
        one("permuted", { 33, 31 })
      end
    end
  end
end

local PAIRS = { { {}, {} }, { { 3, 1 }, { 4 } }, { {}, { 3 } }, { { 2, 1, 3 }, { 1, 4, 1 } },
  { { 0 }, { 1 } }, { { 5 }, { 5 } } }
local function binary_case(op, entry, dtype, a_shape, b_shape, a_kind, b_kind)
  local f = flame[op.name]
  local compute, result = kinds_of(op, dtype)
  local draw = draw_for(op, dtype)
  local x, xs = views.make(flame, a_kind, a_shape, dtype, draw)
  local y, ys = views.make(flame, b_kind, b_shape, dtype, draw)
  if not x or not y then return end
  local shape = views.joint(a_shape, b_shape)
  local bool_logic = op.kind == "SAME" and dtype == "bool"
  local expected = views.each(shape, function(ix)
    local p = xs[views.place(a_shape, views.clip(ix, a_shape))]
    local q = ys[views.place(b_shape, views.clip(ix, b_shape))]
    if EPS[compute] then p, q = p * 1.0, q * 1.0 end
    local v = entry[1](p, q)
    return bool_logic and (v ~= 0 and 1 or 0) or v
  end)
  check(("%s %s %s, %s"):format(op.name, dtype, a_kind, b_kind), f, { x, y }, result, shape,
    expected, entry)
end
function walk.binary(op, entry)
  local f = flame[op.name]
  for _, dtype in ipairs(DTYPES) do
    if not kinds_of(op, dtype) then
      local x = views.tensor(flame, { 1 }, { 1 }, dtype)
      assert.has_error(function() f(x, x) end)
    else
      for _, p in ipairs(PAIRS) do
        binary_case(op, entry, dtype, p[1], p[2], "contiguous", "contiguous")
      end
      for k, kind in ipairs(views.names) do
        binary_case(op, entry, dtype, { 3, 5 }, { 3, 5 }, kind, views.names[#views.names + 1 - k])
      end
      if dtype == "f32" then
        binary_case(op, entry, dtype, { 1003 }, { 1003 }, "contiguous", "sliced")
      end
    end
  end
  -- a number on either side of an operator acts as a tensor of the other operand's dtype
  local x = views.tensor(flame, { 2.0, 3.0, 1.5 }, { 3 }, "f64")
  if op.kind ~= "INT" then
    for _, side in ipairs { "left", "right" } do
      local expected = {}
      for i, v in ipairs { 2.0, 3.0, 1.5 } do
        if side == "left" then
          expected[i] = entry[1](2.5, v)
        else
          expected[i] = entry[1](v, 2.5)
        end
      end
      check(op.name .. " number", function(t)
        if side == "left" then return f(2.5, t) end
        return f(t, 2.5)
      end, { x },
        op.kind == "TEST" and "bool" or "f64", { 3 }, expected, entry)
    end
  end
end

function walk.ternary(op, entry)
  local f = flame[op.name]
  for _, dtype in ipairs(DTYPES) do
    local draw = draw_for({ name = op.name, domain = "REALS" }, dtype)
    for _, kind in ipairs(views.names) do
      local shape = { 3, 5 }
      local first = op.name == "where" and "bool" or dtype
      local a, as = views.make(flame, kind, shape, first,
        draw_for({ name = op.name, domain = "REALS" }, first))
      local b, bs = views.make(flame, "contiguous", { 5 }, dtype, draw)
      local c, cs = views.make(flame, "permuted", shape, dtype, draw)
      local expected = views.each(shape, function(ix)
        return entry[1](as[views.place(shape, ix)], bs[ix[2]], cs[views.place(shape, ix)])
      end)
      check(op.name .. " " .. dtype .. " " .. kind, f, { a, b, c }, dtype, shape, expected, entry)
    end
  end
end

-- The axes over which a tensor of this shape is reduced: all, each one, first and last.
local function axes_of(shape)
  local list = { false }
  for d = 1, #shape do list[#list + 1] = { d } end
  if #shape > 1 then list[#list + 1] = { 1, -1 } end
  return list
end
local function reduce_case(op, entry, dtype, kind, shape, axes, keepdim)
  local x, values = views.make(flame, kind, shape, dtype, draw_for(op, dtype))
  if not x then return end
  local gone, out, rows, order = {}, {}, {}, {}
  for d = 1, #shape do gone[d] = not axes end
  for _, d in ipairs(axes or {}) do gone[d < 0 and #shape + 1 + d or d] = true end
  for d = 1, #shape do
    if not gone[d] then out[#out + 1] = shape[d] elseif keepdim then out[#out + 1] = 1 end
  end
  local small = {}
  for d = 1, #shape do small[d] = gone[d] and 1 or shape[d] end
  for k = 1, views.numel(small) do rows[k] = {} end
  views.each(shape, function(ix)
    local row = rows[views.place(small, views.clip(ix, small))]
    row[#row + 1] = values[views.place(shape, ix)]
  end)
  for k, row in ipairs(rows) do
    if #row == 0 then order[k] = entry.empty else order[k] = entry[1](row) end
  end
  local result = op.kind == "SUMS" and (EPS[dtype] and dtype or "i64")
    or op.kind == "TEST" and "bool"
    or op.kind == "POSITION" and "i64" or dtype
  local function f(t)
    if op.name:find "^arg" then
      return t[op.name](t, axes and axes[1] or nil, { keepdim = keepdim })
    end
    return t[op.name](t, axes or nil, { keepdim = keepdim })
  end
  local what = ("%s %s %s axes %s"):format(op.name, dtype, kind,
    axes and table.concat(axes, ",") or "all")
  if views.numel(shape) == 0 and entry.empty == nil and #rows > 0 then
    assert.has_error(function() f(x) end)
    return
  end
  -- the bound of rounding errors grows with the length and the sum of magnitudes
  local scale, rounds = {}, { ulps = 0 }
  for k, row in ipairs(rows) do
    local sum, product = 0, 1
    for _, v in ipairs(row) do sum, product = sum + math.abs(v), product * math.abs(v) end
    scale[k] = EPS[dtype]
      and (op.name == "sum" and sum * #row or op.name == "prod" and 2 * product * #row) or 0
    if dtype == "f16" or dtype == "bf16" then
      scale[k] = math.min(scale[k], math.abs(order[k] or 0))
    end
  end
  check(what, f, { x }, result, out, order, rounds, scale)
end
function walk.reduce(op, entry)
  for _, dtype in ipairs(DTYPES) do
    for _, shape in ipairs { {}, { 0 }, { 5 }, { 3, 4 }, { 2, 0, 3 }, { 2, 3, 5 } } do
      for _, axes in ipairs(axes_of(shape)) do
        if not (op.name:find "^arg" and axes and #axes > 1) then
          for k, kind in ipairs(views.names) do
            if kind == "contiguous" or #shape == 2 and op.name ~= "prod" or dtype == "f32" then
              reduce_case(op, entry, dtype, kind, shape, axes, k % 2 == 0)
            end
          end
        end
      end
    end
    if op.name ~= "prod" and (dtype == "f32" or dtype == "i32") then
      reduce_case(op, entry, dtype, "contiguous", { 1300 }, false, false)
      reduce_case(op, entry, dtype, "permuted", { 37, 41 }, { 1 }, false)
      reduce_case(op, entry, dtype, "permuted", { 37, 41 }, { 2 }, true)
    end
  end
end

-- ---- derivatives --------------------------------------------------------------------------------
local function f64(shape, draw, kind)
  return (select(3, views.make(flame, kind or "contiguous", shape, "f64", draw)))
end
--- Checks derivatives of f with respect to its tensors: first and second order, and forward mode
--- against differences.
local function derivatives(what, f, xs)
  local ok, e = pcall(flame.gradcheck, f, xs)
  assert(ok, what .. ": " .. tostring(e))
  ok, e = pcall(flame.gradcheck, f, xs, { order = 2 })
  assert(ok, what .. ": " .. tostring(e))
  local v, ahead, behind, h = {}, {}, {}, 1e-5
  for i, x in ipairs(xs) do
    v[i] = flame.arange(1, math.max(x:numel(), 1), { dtype = "f64" }):mul(0.9):sin():narrow(1, 1,
      x:numel()):reshape(x.shape)
    ahead[i], behind[i] = x + v[i] * h, x - v[i] * h
  end
  local y, t = flame.jvp(f, xs, v)
  local slope = (f(table.unpack(ahead)) - f(table.unpack(behind))) / (2 * h)
  assert(flame.allclose(y, f(table.unpack(xs)), { rtol = 1e-12 }), what .. ": jvp's value")
  local near = flame.allclose(t, slope, { rtol = 1e-5, atol = 1e-6 })
  assert(near, what .. ": jvp gives\n" .. tostring(t) .. "\nexpected\n" .. tostring(slope))
end
local smooth = {}
function smooth.unary(op)
  local draw = DRAW[op.domain]
  if op.name == "frac" or op.domain == "REALS" then draw = apart(0.15, 0.85) end
  for _, kind in ipairs { "contiguous", "permuted", "expanded" } do
    local _, view = views.kinds[kind]({ 2, 3 })
    derivatives(op.name .. " " .. kind, function(x) return flame[op.name](view(x)) end,
      { f64({ 2, 3 }, draw, kind) })
  end
end
function smooth.binary(op)
  local draw = DRAW[op.domain]
  local second = op.name == "pow" and between(0.5, 2) or draw
  for _, p in ipairs { { { 3 }, { 3 } }, { { 2, 1 }, { 3 } }, { {}, { 2 } } } do
    derivatives(op.name, flame[op.name], { f64(p[1], draw), f64(p[2], second) })
  end
  derivatives(op.name .. " number",
    function(x) return flame[op.name](x, 1.7) + flame[op.name](1.3, x) end, { f64({ 3 }, draw) })
end
function smooth.ternary(op)
  local x, y = f64({ 2, 3 }, DRAW.REALS), f64({ 3 }, DRAW.REALS)
  if op.name == "where" then
    derivatives(op.name, function(a, b) return flame.where(a:gt(0.2), a, b) end, { x, y })
  else
    derivatives(op.name, function(a) return a:clamp(-1.1, 1.3) end, { x })
  end
end
function smooth.reduce(op)
  for _, axes in ipairs { false, { 1 }, { 2 }, { 1, 2 } } do
    derivatives(op.name, function(x) return x[op.name](x, axes or nil) end,
      { f64({ 2, 3 }, DRAW.NONZERO) })
  end
end

describe("every op of the table", function()
  local ops = flame.internal.ops()
  it("is in the list that the binding is made from", function()
    assert.is_true(#ops > 80)
  end)
  -- WALK_PART=2/8 tests every eighth op only, so that eight processes can share the work
  local part, parts = (os.getenv("WALK_PART") or "1/1"):match("(%d+)/(%d+)")
  for number, op in ipairs(ops) do
    if number % parts ~= part % parts then goto next end
    if op.form == "special" then
      it(op.name .. " does what the oracle's example says", function()
        local run = special[op.name]
        assert(run, "spec/ops/walk/special.lua has no example of " .. op.name)
        run(flame, views)
      end)
    else
      local entry = oracle[op.form][op.name]
      it(op.name .. " agrees with the oracle for all shapes, dtypes and views", function()
        assert(entry,
          "spec/support/scalars.lua has no entry for the " .. op.form .. " op " .. op.name)
        walk[op.form](op, entry)
      end)
      if op.tracked then
        it(op.name .. " has first and second derivatives and a forward product",
          function() smooth[op.form](op) end)
      else
        it(op.name .. " gives an untracked result", function()
          local x = flame.tensor({ 0.5, 1.5 }, { requires_grad = true })
          if op.kind == "INT" then return end
          local y = op.form == "binary" and flame[op.name](x, x) or flame[op.name](x)
          assert.is_false(y.requires_grad)
        end)
      end
    end
    ::next::
  end
  it("is checked in many elements", function()
    assert.is_true(counted > 50000 // parts // 4, counted .. " elements")
  end)
end)
