-- Ops on broadcast operands are computed once for each row, line or block of columns
-- (src/cpu/program/lower.c). Their results must have the bits of the same ops on operands that were
-- expanded and evaluated before.
local flame = require "flame"

local shapes = {
  { 64, 128 }, { 300, 1000 }, { 5000, 3 }, { 9, 2500 }, { 3, 9000 }, { 2, 70000 }, { 700, 16 },
  { 3, 300, 40 }, { 2, 1100, 17 }, { 5, 40, 1300 }, { 2, 3, 5000 }, { 4, 6, 7, 64 },
  { 2, 1030, 1030 },
}

--- The shape of an operand: axes whose bit is set in 'mask' are those of 'shape', the others 1.
local function part(shape, mask)
  local s = {}
  for d = 1, #shape do s[d] = mask >> (d - 1) & 1 == 1 and shape[d] or 1 end
  return s
end

local function same(a, b, what)
  local equal = a:eq(b):all():item()
  assert.is_true(equal, what)
end

--- Compares f(x, m, k) for broadcast m and k with f of m and k that were expanded to x's shape.
local function compare(shape, dtype, f, what)
  local x = flame.randn(shape, { dtype = dtype })
  for mask = 0, (1 << #shape) - 2 do
    local m = flame.uniform(part(shape, mask), 1, 2):to(dtype)
    local k = flame.uniform(part(shape, ~mask), 1, 2):to(dtype)
    local wide_m, wide_k = (m:expand(shape) * 1), (k:expand(shape) * 1)
    flame.eval(x, m, k, wide_m, wide_k)
    local y, z = f(x, m, k), f(x, wide_m, wide_k)
    flame.eval(y)
    flame.eval(z)
    same(y, z, ("%s of (%s), mask %d, %s"):format(what, table.concat(shape, ", "), mask, dtype))
  end
end

describe("work on broadcast operands", function()
  for _, dtype in ipairs { "f32", "f64", "bf16" } do
    it("of maps gives the bits of expanded operands, " .. dtype, function()
      for _, shape in ipairs(shapes) do
        compare(shape, dtype,
          function(x, m, k) return (x - m:log()) * (k + 1):rsqrt() + m * k end, "map")
      end
    end)
    it("before sums along each axis, " .. dtype, function()
      for _, shape in ipairs(shapes) do
        for d = 1, #shape do
          compare(shape, dtype,
            function(x, m, k) return ((x - m:log()) * (k + 1):rsqrt()):sum(d) end, "sum over " .. d)
        end
      end
    end)
  end

  it("of indices per row, per line, per element", function()
    for _, shape in ipairs { { 40, 300 }, { 700, 16 }, { 9, 2500 }, { 1100, 64 } } do
      local r, n = shape[1], shape[2]
      local x = flame.randn(shape)
      local row, line = flame.randint({ r }, 1, r), flame.randint({ n }, 1, n)
      local whole_row, whole_line = row:reshape(r, 1):expand(r, n) * 1,
        line:reshape(1, n):expand(r, n) * 1
      flame.eval(x, row, line, whole_row, whole_line)
      same(x:index_select(1, row), x:gather(1, whole_row), "rows")
      same(x:index_select(2, line), x:gather(2, whole_line), "lines")
      same(x:index_select(1, row):sum(1), (x:gather(1, whole_row) * 1):sum(1), "sum of rows")
      same(x:index_select(1, row) * 2 + 1, x:gather(1, whole_row) * 2 + 1, "rows, then work")
    end
  end)
end)

describe("a tensor whose unit stride is not along its last axis", function()
  for _, dtype in ipairs { "f32", "f64", "i64", "i32", "bf16", "u8" } do
    it("is copied in " .. dtype .. ", whatever its sizes", function()
      for _, size in ipairs { { 67, 131 }, { 130, 64 }, { 9, 515 }, { 515, 10 }, { 256, 257 } } do
        local m, n = size[1], size[2]
        local x = flame.randint({ m, n }, 0, 200):to(dtype)
        local want, got, back = x:totable(), (x:t():contiguous()):totable(),
          (x:flip(1):t() + 1):totable()
        for i = 1, m do
          for j = 1, n do
            if got[j][i] ~= want[i][j] then error(("%d x %d: at %d, %d"):format(m, n, j, i)) end
            if back[j][i] ~= want[m + 1 - i][j] + 1 then
              error(("%d x %d, plus 1: at %d, %d"):format(m, n, j, i))
            end
          end
        end
      end
    end)
  end
end)
