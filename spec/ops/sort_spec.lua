-- Sorting, selecting, counting, sampling, running sums: compared with plain loops in Lua, for every
-- dtype and for sizes on both sides of the limits between algorithms; gradients to second order. On
-- a GPU (FLAME_DEVICE) positions must be equal to those on the CPU.
local flame = require "flame"
local helper = require "spec.support.helper"

local DEVICE = flame.default_device()
local FLOATS = { "f64", "f32", "f16", "bf16" }
local DTYPES = { "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool" }
local NAN = 0 / 0

local fails = require("spec.support.helper").says
local function T(v, dtype) return flame.tensor(v, { dtype = dtype or "f32" }) end

local rough = dofile "spec/support/rough.lua"
--- Values from the dtype's whole range.
local function wild(shape, dtype)
  local size = ({ f64 = 8, f32 = 4, f16 = 2, bf16 = 2, i64 = 8, i32 = 4, i16 = 2, i8 = 1, u8 = 1,
    bool = 1 })[dtype]
  local n = size
  for _, s in ipairs(shape) do n = n * s end
  local bytes = flame.randint({ n }, 0, dtype == "bool" and 1 or 255):to("u8")
  return flame.from_bytes(bytes:bytes(), shape, dtype):to(DEVICE)
end

local function number(v) if type(v) == "boolean" then return v and 1 or 0 end return v end
local function below(a, b)
  if a ~= a then return false end
  return b ~= b or a < b
end
--- Stable order of a list.
local function order_of(list, descending)
  local at = {}
  for i = 1, #list do at[i] = i end
  table.sort(at, function(i, j)
    local a, b = number(list[i]), number(list[j])
    if descending then a, b = b, a end
    if below(a, b) then return true elseif below(b, a) then return false end
    return i < j
  end)
  return at
end
local function same_values(list, v)
  assert.equal(#list, #v)
  for i = 1, #list do assert.is_true(list[i] == v[i] or (list[i] ~= list[i] and v[i] ~= v[i])) end
end

describe("sort", function()
  it("agrees with a stable sort of every dtype, in both directions", function()
    for _, dtype in ipairs(DTYPES) do
      for _, n in ipairs { 1, 2, 7, 33, 100, 257 } do
        for _, make in ipairs { rough, wild } do
          local x = make({ n }, dtype)
          local list = x:totable()
          for _, descending in ipairs { false, true } do
            local v, i = x:sort(1, { descending = descending })
            local at = order_of(list, descending)
            assert.same(at, i:totable(), dtype .. " " .. n)
            local want = {}
            for k = 1, n do want[k] = list[at[k]] end
            same_values(want, v:totable())
            assert.equal(dtype, v.dtype)
            assert.same(at, x:argsort(1, descending):totable())
          end
        end
      end
    end
  end)

  it("sorts long rows: neighbours in order, ties by position, a permutation", function()
    for _, case in ipairs { { "f32", { 70001 } }, { "f64", { 70001 } }, { "i64", { 2, 40000 } },
      { "u8", { 100003 } },
      { "f16", { 3, 5000 } }, { "i32", { 300, 2049 } }, { "bf16", { 2, 66000 } },
      { "bool", { 70000 } } } do
      for _, make in ipairs { rough, wild } do
        local x = make(case[2], case[1])
        local n = case[2][#case[2]]
        for _, descending in ipairs { false, true } do
          local v, i = x:sort(-1, descending)
          assert.is_true(flame.equal(i:sort(-1),
            flame.arange(1, n, { dtype = "i64" }):expand(case[2])))
          local a, b = v:narrow(-1, 1, n - 1), v:narrow(-1, 2, n - 1)
          if descending then a, b = b, a end
          local p, q = i:narrow(-1, 1, n - 1), i:narrow(-1, 2, n - 1)
          local tie = a:eq(b)
          local fine = a:le(b)
          if v:is_floating_point() then
            tie = tie:logical_or(a:isnan():logical_and(b:isnan()))
            fine = fine:logical_or(b:isnan())
          end
          assert.is_true(fine:all():item())
          assert.is_true(tie:logical_not():logical_or(p:lt(q)):all():item())
        end
      end
    end
  end)

  it("takes any axis of any view, and leaves x alone", function()
    local x = flame.randn(4, 5, 6)
    for _, y in ipairs { x, x:permute(3, 1, 2), x[{ { 1, 4, 2 }, {}, { 6, 1, -1 } }],
        x:select(2, 3), x:unsqueeze(2):expand(4, 3, 5, 6) } do
      for axis = 1, y.ndim do
        local v, i = y:sort(axis - y.ndim - 1)
        local w, k = y:movedim(axis, -1):contiguous():sort(-1)
        assert.is_true(flame.equal(v, w:movedim(-1, axis)))
        assert.is_true(flame.equal(i, k:movedim(-1, axis)))
        assert.is_true(v:is_contiguous() and i:is_contiguous())
      end
    end
    local v, i = flame.tensor(3):sort()
    assert.equal(3, v:item())
    assert.equal(1, i:item())
    assert.same({ 0, 3 }, (flame.zeros(0, 3):sort(2)).shape)
    assert.same({ 3, 0 }, (flame.zeros(3, 0):sort(2)).shape)
    assert.same({ { 1, 2 }, { 3, 4 } }, T({ { 3, 2 }, { 1, 4 } }):msort():totable())
  end)

  it("says what is wrong with its arguments", function()
    local x = flame.ones(2, 3)
    fails("sort: axis 3 is out of range, the tensor has 2 axes (1 to 2, or -1 to -2)", x.sort, x, 3)
    fails("sort: descending must be true or false, got number 1", x.sort, x, 1, { descending = 1 })
    fails("sort: no option 'ascending', there is: dim descending stable; did you mean 'descending'?",
      x.sort, x, 1, { ascending = true })
    fails("topk: k = 4, axis 2 has 3 elements", x.topk, x, 4)
    fails("kthvalue: k = 0, axis 2 has 3 elements", x.kthvalue, x, 0)
    fails("median: axis 2 has no elements", flame.median, flame.zeros(2, 0), 2)
  end)
end)

describe("topk, kthvalue and median", function()
  it("are the head, one place and the middle of a sort, for every dtype", function()
    for _, dtype in ipairs(DTYPES) do
      for _, shape in ipairs { { 1, 1 }, { 3, 8 }, { 2, 300 }, { 2, 5000 }, { 1, 100000 } } do
        local x, n = rough(shape, dtype), shape[2]
        for _, k in ipairs { 1, math.min(n, 7), n // 100, n // 3, n } do
          for _, largest in ipairs { true, false } do
            local v, i = x:topk(k, 2, { largest = largest })
            local w, j = x:sort(2, { descending = largest })
            assert.is_true(flame.equal(i, j:narrow(2, 1, k)), dtype)
            assert.equal(v:bytes(), w:narrow(2, 1, k):contiguous():bytes())
          end
          if k > 0 then
            local v, i = x:kthvalue(k, 2)
            local w = x:sort(2):narrow(2, k, 1):contiguous()
            local here = x:eq(w)
            if x:is_floating_point() then
              here = here:logical_or(x:isnan():logical_and(w:isnan()))
            end
            assert.is_true(flame.equal(i, here:to("i32"):argmax(2)))
            assert.equal(x:gather(2, i:unsqueeze(2)):bytes(), v:bytes())
          end
        end
      end
    end
  end)

  it("has medians like PyTorch's: the lower one, NaN if there is one", function()
    assert.equal(2, T({ 4, 1, 3, 2 }):median():item())
    local v, i = T({ { 4, 1, 3, 2 }, { 5, NAN, 1, NAN }, { 7, 7, 7, 7 } }):median(2,
      { keepdim = true })
    assert.same({ 3, 1 }, v.shape)
    assert.same({ { 4 }, { 2 }, { 1 } }, i:totable())
    assert.equal(2, v:totable()[1][1])
    assert.is_true(v:isnan():totable()[2][1])
    assert.is_true(T({ 1, NAN }):median():isnan():item())
    assert.equal(1, T({ NAN, 5, 1, NAN }):nanmedian():item())
    assert.is_true(T({ NAN, NAN }):nanmedian():isnan():item())
    assert.is_true(flame.zeros(0):median():isnan():item())
    assert.equal(3, flame.tensor(3):median(1):item())
  end)
end)

describe("random positions", function()
  it("randperm is a permutation, reproducible by the seed", function()
    for _, n in ipairs { 0, 1, 2, 1000, 100000 } do
      flame.seed(7)
      local p = flame.randperm(n)
      flame.seed(7)
      assert.is_true(flame.equal(p, flame.randperm(n)))
      assert.is_true(flame.equal(p:sort(1), flame.arange(1, n, { dtype = "i64" })))
    end
    assert.equal("i32", flame.randperm(3, { dtype = "i32" }).dtype)
    fails("randperm: n = -1, need 0 or more", flame.randperm, -1)
  end)
  it("randperm has every order equally often", function()
    flame.seed(3)
    local count = {}
    for _ = 1, 1200 do
      local key = table.concat(flame.randperm(3):totable())
      count[key] = (count[key] or 0) + 1
    end
    for _, key in ipairs { "123", "132", "213", "231", "312", "321" } do
      assert.is_true(math.abs(count[key] - 200) < 60, key)
    end
  end)
  it("multinomial draws by weight, without replacement no class twice", function()
    flame.seed(5)
    local p = T { 1, 0, 3, 6 }
    local n = p:multinomial(40000, true):bincount({ minlength = 4 }):totable()
    for k, want in ipairs { 4000, 0, 12000, 24000 } do
      assert.is_true(math.abs(n[k] - want) <= 400, k)
    end
    local first = p:expand({ 40000, 4 }):multinomial(1):reshape(-1)
      :bincount({ minlength = 4 }):totable()
    for k, want in ipairs { 4000, 0, 12000, 24000 } do
      assert.is_true(math.abs(first[k] - want) <= 400, k)
    end
    local all = flame.ones(50, 9):multinomial(9)
    assert.is_true(flame.equal(all:sort(2),
      flame.arange(1, 9, { dtype = "i64" }):expand({ 50, 9 })))
    for _, c in ipairs(p:expand({ 100, 4 }):multinomial(3):reshape(-1):bincount():totable()) do
      assert.is_true(c <= 100)
    end
    fails("multinomial: probs has a value that is negative, infinite or NaN at position 2",
      flame.multinomial, T { 1, -1 }, 1)
    fails("multinomial: row 2 of probs is 0 everywhere", flame.multinomial,
      T { { 1, 1 }, { 0, 0 } }, 1)
    fails("multinomial: n = 3 of 2 classes without replacement", flame.multinomial, T { 1, 1 }, 3)
  end)
  it("multinomial with replacement tells of bad weights by the next read, and draws on", function()
    local function drawn(p) return flame.multinomial(p, 2, true):totable() end
    local negative = "multinomial: probs has a value that is negative, infinite or NaN at position "
    fails(negative .. 2, drawn, T { 1, -1 })
    fails(negative .. 4, drawn, T { { 0, 0, 0 }, { 0 / 0, 1, math.huge } })
    fails("multinomial: row 2 of probs is 0 everywhere", drawn, T { { 1, 1 }, { 0, 0 }, { 0, 0 } })
    fails("multinomial: probs is 0 everywhere", drawn, T { { 0, 0 } })
    assert.same({ 3, 3 }, drawn(T { 0, 0, 5 }))
    if DEVICE == "cpu" then return end
    local x, bad = flame.arange(5.0), flame.zeros(5)
    -- the line that the message names
    local at = flame.multinomial(bad, 1000, true)
    local taken = flame.eval(x:index_select(1, at))
    local line = debug.getinfo(1, "l").currentline - 2
    local why = helper.message(function() return (x + 1):totable() end)
    local told = "sort_spec.lua:" .. line .. ": multinomial: probs is 0 everywhere (read at"
    assert.truthy(why:find(told, 1, true), why)
    assert.same({ 2, 3, 4, 5, 6 }, (x + 1):totable())
    assert.is_true(taken:ge(1):logical_and(taken:le(5)):all():item())
    flame.eval(flame.multinomial(bad, 3, true))
    assert.is_false((pcall(flame.synchronize)))
    flame.synchronize()
  end)
end)

-- What follows compares a GPU with the CPU.
if DEVICE == "cpu" then return end
describe("on " .. DEVICE, function()
  local SHAPES = { { 1, 1 }, { 1, 31 }, { 3, 33 }, { 5, 257 }, { 2, 1024 }, { 2, 2047 },
    { 2, 2048 }, { 2, 2049 }, { 7, 4097 },
    { 3, 12289 }, { 1, 100003 }, { 1, 1000000 }, { 1000, 7 }, { 300, 1000 } }
  it("positions are the CPU's", function()
    for _, dtype in ipairs(DTYPES) do
      for _, shape in ipairs(SHAPES) do
        for _, make in ipairs { rough, wild } do
          local x = make(shape, dtype)
          local host = x:cpu()
          local where_ = ("%s (%d, %d)"):format(dtype, shape[1], shape[2])
          for _, flag in ipairs { true, false } do
            assert.equal(host:argsort(2, flag):bytes(), x:argsort(2, flag):bytes(), where_)
            for _, k in ipairs { 1, 5, shape[2] // 3, shape[2] } do
              k = math.min(k, shape[2])
              assert.equal(select(2, host:topk(k, 2, flag)):bytes(),
                select(2, x:topk(k, 2, flag)):bytes(), where_ .. " k " .. k)
              if k > 0 then
                assert.equal(select(2, host:kthvalue(k, 2)):bytes(),
                  select(2, x:kthvalue(k, 2)):bytes(), where_ .. " kth " .. k)
              end
            end
          end
          assert.equal(select(2, host:median(2)):bytes(), select(2, x:median(2)):bytes(), where_)
          for axis = 1, 2 do
            assert.equal(select(2, host:cummax(axis)):bytes(),
              select(2, x:cummax(axis)):bytes(), where_)
            assert.equal(select(2, host:cummin(axis)):bytes(),
              select(2, x:cummin(axis)):bytes(), where_)
            for _, name in ipairs { "cummax", "cummin" } do         -- values: a NaN's bits are free
              local a, b = host[name](host, axis), (x[name](x, axis)):cpu()
              assert.is_true(a:eq(b):logical_or(a:ne(a):logical_and(b:ne(b))):all():item(),
                where_ .. name)
            end
          end
          assert.equal(host:nonzero():bytes(), x:nonzero():bytes(), where_)
          local sorted = host:sort(2)
          for _, right in ipairs { true, false } do
            assert.equal(sorted:searchsorted(host, { right = right }):bytes(),
              sorted:to(DEVICE):searchsorted(x, { right = right }):bytes(), where_)
          end
        end
      end
    end
  end)
  it("scans are the CPU's: integers exactly, floats within rounding", function()
    for _, dtype in ipairs(DTYPES) do
      for _, shape in ipairs(SHAPES) do
        local x = dtype == "bool" and flame.rand(shape):gt(0.5)
          or flame.randint(shape, dtype == "u8" and 0 or -3, 3):to(dtype)
        for axis = 1, 2 do
          local a, b = x:cpu():cumsum(axis), x:cumsum(axis)
          if a:is_floating_point() and (dtype == "f16" or dtype == "bf16") then
            assert.is_true(flame.allclose(a, b:cpu(), 0.02, 0.5))
          else
            assert.equal(a:bytes(), b:bytes(), dtype)     -- small whole numbers: exact in any order
          end
          if not x:is_floating_point() then
            assert.equal(x:cpu():cumprod(axis):bytes(), x:cumprod(axis):bytes())
          end
        end
      end
    end
    for _, dtype in ipairs(FLOATS) do
      for _, shape in ipairs(SHAPES) do
        local x = (flame.rand(shape, { dtype = dtype }) + 0.5):to(dtype)
        local tol = ({ f64 = 1e-12, f32 = 1e-5, f16 = 0.02, bf16 = 0.1 })[dtype]
        for axis = 1, 2 do
          assert.is_true(flame.allclose(x:cpu():logcumsumexp(axis),
            x:logcumsumexp(axis):cpu(), tol, tol))
          if shape[axis] < 300 then
            assert.is_true(flame.allclose(x:cpu():cumprod(axis), x:cumprod(axis):cpu(),
              10 * tol, tol, true))
          end
        end
      end
    end
  end)
  it("scans of one long row are the CPU's, from either end, and the same bits each time", function()
    for _, n in ipairs { 8191, 8193, 100003, 5000001 } do
      local x = flame.randint({ n }, -3, 3):float()
      -- whole numbers: exact in any order
      assert.equal(x:cpu():cumsum(1):bytes(), x:cumsum(1):bytes())
      assert.equal(x:long():cpu():cumsum(1):bytes(), x:long():cumsum(1):bytes())
      assert.equal(select(2, x:cpu():cummax(1)):bytes(), select(2, x:cummax(1)):bytes())
      assert.equal(x:cpu():cummin(1):bytes(), (x:cummin(1)):bytes())
      local y = flame.randn(n)
      local first = y:cumsum(1):bytes()
      for _ = 1, 3 do assert.is_true(first == y:cumsum(1):bytes()) end
      assert.is_true(flame.allclose(y:cpu():double():cumsum(1),
        y:cumsum(1):cpu():double(), 1e-6, 1e-3))
      local z = flame.randn(n):requires_grad_(true)               -- its gradient sums from the back
      z:cumsum(1):sum():backward()
      assert.equal(n, z.grad:narrow(1, 1, 1):item())
      assert.equal(1, z.grad:narrow(1, n, 1):item())
    end
  end)
  it("nonzero counts before it places, whatever the alignment", function()
    for _, n in ipairs { 0, 1, 4095, 4097, 1000003 } do
      local x = flame.rand(n + 1):lt(0.3)
      for from = 1, math.min(2, n + 1) do
        local v = x:narrow(1, from, n + 2 - from)
        assert.equal(v:cpu():nonzero():bytes(), v:nonzero():bytes())
      end
    end
  end)
  it("draws the CPU's permutations and samples", function()
    local first
    for _, device in ipairs { "cpu", DEVICE } do
      flame.seed(11)
      local p = flame.randperm(100003, { device = device })
      local w = flame.rand(20, 500, { device = device })
      local a, b = w:multinomial(30), w:multinomial(30, true)
      local text = p:bytes() .. a:bytes() .. b:bytes()
      first = first or text
      assert.is_true(first == text)
    end
  end)
  it("sorts a row of 1e8 #slow", function()
    local x = flame.rand(100000000)
    local v = x:sort(1)
    assert.is_true(v:narrow(1, 2, 99999999):ge(v:narrow(1, 1, 99999999)):all():item())
    assert.is_true(math.abs(v:sum({ dtype = "f64" }):item() - x:sum({ dtype = "f64" }):item()) < 1)
  end)
end)
