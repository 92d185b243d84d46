-- Attention in half types at sizes that on some GPUs cuDNN's fused kernels take, lengths from 512
-- in steps of 64, or those of attention_hopper.cu, heads of 64 and 128 at any length, with q, k and
-- v in one packed array. On all devices values and gradients must be near those of ops in f32 that
-- make all scores, and have the same bits in each run.
local flame = require "flame"
local TOLERANCE = { f16 = 2e-3, bf16 = 1.5e-2 }   -- of the largest value

--- { dtype, batches, heads of q, of k and v, queries, keys, features, causal }
local CASES = {
  { "bf16", 1, 4, 4, 512, 512, 64, true }, { "f16", 2, 2, 1, 576, 512, 80, true },
  { "bf16", 1, 2, 2, 512, 640, 128, false }, { "bf16", 1, 2, 2, 520, 512, 64, true },
  { "f16", 1, 2, 1, 512, 576, 64, true },
  { "bf16", 2, 6, 2, 200, 333, 64, true }, { "f16", 1, 3, 3, 333, 200, 56, false },
  { "bf16", 1, 4, 2, 300, 65, 64, true }, { "f16", 1, 2, 2, 65, 300, 40, true },
  { "bf16", 3, 5, 5, 129, 193, 48, false }, { "bf16", 1, 1, 1, 1, 1, 64, true },
  { "bf16", 2, 4, 2, 200, 333, 128, true }, { "f16", 1, 3, 3, 333, 200, 104, false },
}
local LONG
-- more tiles than a GPU has multiprocessors, three and more for each
if flame.default_device():find("^cuda") then
  table.insert(CASES, { "bf16", 8, 12, 12, 640, 640, 64, true })
  table.insert(CASES, { "f16", 8, 12, 4, 576, 640, 64, false })
  table.insert(CASES, { "bf16", 8, 12, 12, 640, 576, 128, true })
  LONG = { "bf16", 1, 1, 1, 4100, 4160, 64, true }
end

--- Random inputs of a case: rows of (h + 2 hk) d features with q, k and v, and a cotangent.
local function inputs(c)
  local dtype, b, h, hk, t, s, d = table.unpack(c)
  flame.manual_seed(3)
  local x = flame.randn({ b, math.max(t, s), (h + 2 * hk) * d }, { dtype = dtype })
  local g = flame.randn({ b, t, h * d }, { dtype = dtype })
  flame.eval(x, g)
  return x, g
end

--- The heads first to first + n - 1 in the rows of x, as a tensor (b, n, rows, d).
local function heads(x, first, n, rows, d)
  return x:narrow(2, 1, rows):narrow(3, (first - 1) * d + 1, n * d)
    :reshape(x.shape[1], rows, n, d):transpose(2, 3)
end

local function of_all_scores(q, k, v, causal, scale)
  local group = q.shape[2] // k.shape[2]
  k, v = k:repeat_interleave(group, 2), v:repeat_interleave(group, 2)
  local scores = (q * (scale or q.shape[4] ^ -0.5)):matmul(k:transpose(-2, -1))
  if causal then
    local hidden = flame.ones(q.shape[3], k.shape[3], { dtype = "bool" }):triu(1)
    scores = scores:masked_fill(hidden, -math.huge)
  end
  return scores:softmax(-1):matmul(v)
end

local function attend(q, k, v, causal, scale)
  return flame.scaled_dot_product_attention(q, k, v, { is_causal = causal, scale = scale,
    enable_gqa = q.shape[2] ~= k.shape[2] })
end

--- The result of f for packed x, and x's gradient for cotangent g. each: evaluates after each step.
local function both(f, x, g, c, each, scale)
  local _, b, h, hk, t, s, d, causal = table.unpack(c)
  x = x:detach():clone():requires_grad_(true)
  local q, k, v = heads(x, 1, h, t, d), heads(x, h + 1, hk, s, d), heads(x, h + hk + 1, hk, s, d)
  if each then flame.eval(q, k, v) end
  local y = f(q, k, v, causal, scale):transpose(2, 3):reshape(b, t, h * d)
  if each then flame.eval(y) end
  y:backward(g)
  flame.eval(y, x.grad)
  return y:detach(), x.grad
end

local function error_of(got, want)
  return ((got:float() - want):abs():max() / want:abs():max()):item()
end

describe("large attention", function()
  for _, c in ipairs(CASES) do
    local name = table.concat({ table.unpack(c, 1, 7) }, " ") .. (c[8] and " causal" or "")
    it("has the values and gradients of all scores in f32: " .. name, function()
      local x, g = inputs(c)
      local y, dx = both(attend, x, g, c)
      local y32, dx32 = both(of_all_scores, x:float(), g:float(), c)
      assert.is_true(error_of(y, y32) < TOLERANCE[c[1]], "result")
      assert.is_true(error_of(dx, dx32) < TOLERANCE[c[1]], "gradient")
    end)
  end

  it("takes any scale, also one that is negative or 0", function()
    for _, i in ipairs { 2, 5 } do
      local c = CASES[i]
      local x, g = inputs(c)
      for _, scale in ipairs { -0.2, 0, 1e-3, -1, 1e-50 } do
        local y, dx = both(attend, x, g, c, false, scale)
        local y32, dx32 = both(of_all_scores, x:float(), g:float(), c, false, scale)
        assert.is_true(error_of(y, y32) < TOLERANCE[c[1]], scale)
        assert.is_true(error_of(dx, dx32) < TOLERANCE[c[1]], scale)
      end
    end
  end)

  it("has the same bits at each run, by steps and in one plan", function()
    for i = 1, 2 do
      local x, g = inputs(CASES[i])
      local y, dx = both(attend, x, g, CASES[i])
      for run = 1, 4 do
        local again, dx_again = both(attend, x, g, CASES[i], run > 2)
        assert.is_true(y:eq(again):all():item(), "result")
        assert.is_true(dx:eq(dx_again):all():item(), "gradient")
      end
    end
  end)

  for _, d in ipairs { 64, 40, 128 } do
    it("has the same bits wherever its rows lie, also not aligned to 16 bytes: " .. d, function()
      local c = { "bf16", 2, 3, 3, 200, 264, d, true }
      local x, g = inputs(c)
      local _, dx = both(attend, x, g, c)
      local n = x:numel()
      local moved = flame.zeros(n + 1, { dtype = "bf16" })
      moved[{ { 2, n + 1 } }] = x:reshape(n)
      flame.eval(moved)
      local y = moved:narrow(1, 2, n):view(x.shape):detach():requires_grad_(true)
      local q, k, v = heads(y, 1, 3, 200, d), heads(y, 4, 3, 264, d), heads(y, 7, 3, 264, d)
      attend(q, k, v, true):transpose(2, 3):reshape(2, 200, 3 * d):backward(g)
      assert.is_true(dx:eq(y.grad):all():item())
    end)

    it("has a gradient without NaN but where a query's row is NaN: " .. d, function()
      local c = { "bf16", 1, 4, 2, 200, 200, d, true }
      local x, g = inputs(c)
      x = x:clone()
      x[{ 1, 100, 1 }] = 0 / 0                                  -- a query of the first head
      local _, dx = both(attend, x, g, c)
      local bad = dx:isnan()
      local columns = bad:any(1):any(1):reshape(8, d):any(-1):tolist()
      assert.are.same({ true, false, false, false, true, false, true, false }, columns)
      local rows = bad:narrow(3, 1, d):any(-1):reshape(200):long()
      assert.are.equal(1, rows:sum():item())                    -- of q's gradient its own
      assert.are.equal(200, bad:narrow(3, 6 * d + 1, d):any(-1):sum():item())  -- all of v's
    end)
  end

  it("may have other last bits after deterministic(false), and no others", function()
    local x, g = inputs(CASES[1])
    local before = flame.deterministic(false)
    local ok, y, dx = pcall(both, attend, x, g, CASES[1])
    flame.deterministic(true)
    assert.is_true(ok, y)
    assert.is_false(before)
    local y32, dx32 = both(of_all_scores, x:float(), g:float(), CASES[1])
    assert.is_true(error_of(y, y32) < TOLERANCE.bf16)
    assert.is_true(error_of(dx, dx32) < TOLERANCE.bf16)
  end)

  if LONG then it("has gradients of long rows after deterministic(false)", function()
    local x, g = inputs(LONG)
    flame.deterministic(false)
    local ok, _, dx = pcall(both, attend, x, g, LONG)
    flame.deterministic(true)
    assert.is_true(ok, _)
    local _, dx32 = both(of_all_scores, x:float(), g:float(), LONG)
    assert.is_true(error_of(dx, dx32) < TOLERANCE.bf16)
  end) end
end)
