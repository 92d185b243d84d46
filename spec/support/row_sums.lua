--- Gradients of norms, whose sums over rows a GPU may add up in the kernel that goes through the
--- rows (plan/across.c). Each program is computed as a whole, and op by op, where each sum has its
--- own kernel: the bits must be the same.
local flame = require "flame"

local function leaf(shape, dtype)
  return flame.randn(shape):to(dtype):detach():requires_grad_()
end

--- The results of the program, as tensors that are not computed yet.
local programs = {
  layer = function(v)
    local y = flame.layer_norm(v.x, { v.n }, v.w, v.b)
    y:backward(v.g)
    return { y, v.x.grad, v.w.grad, v.b.grad }
  end,
  rms = function(v)
    local y = flame.rms_norm(v.x, { v.n }, v.w)
    y:backward(v.g)
    return { y, v.x.grad, v.w.grad }
  end,
  bare = function(v)                            -- no weights: what is summed is the gradient of x
    local y = flame.layer_norm(v.x, { v.n })
    y:backward(v.g)
    return { y, v.x.grad, v.x.grad:sum(v.lead), (v.x.grad * v.g):sum(v.lead) }
  end,
  residual = function(v)                        -- as in a transformer; sums a rounded result, too
    local y = flame.layer_norm(v.x, { v.n }, v.w, v.b)
    flame.eval(y)
    y:backward(v.g)
    local d = v.x.grad + v.r
    local half = d:to "bf16"
    return { d, half, half:sum(v.lead), v.w.grad, v.b.grad }
  end,
  softmax = function(v)                         -- sums of values of each point before and after
    local y = (v.x * v.w + v.b):softmax(-1)
    return { y, y:sum(v.lead), (y * v.g):sum(v.lead), v.g:sum(v.lead) }
  end,
  dropout = function(v)
    flame.seed(5)
    local y = flame.layer_norm(flame.dropout(v.x, 0.3), { v.n }, v.w, v.b)
    y:backward(v.g)
    return { y, v.x.grad, v.w.grad, v.b.grad }
  end,
}

local function values(case)
  flame.seed(case.n)
  local shape, lead = {}, {}
  for i, size in ipairs(case.rows) do shape[i], lead[i] = size, i end
  shape[#shape + 1] = case.n
  local v = { n = case.n, lead = lead, w = leaf({ case.n }, case.dtype),
    b = leaf({ case.n }, case.dtype), r = leaf(shape, case.dtype):detach() }
  if case.wider then                            -- rows that are parts of longer ones
    shape[#shape] = case.n + case.wider
    v.x = leaf(shape, case.dtype):detach():narrow(-1, 2, case.n):requires_grad_()
    v.g = leaf(shape, case.dtype):detach():narrow(-1, 1, case.n)
  elseif case.swapped then                      -- rows in another order than in memory
    shape[1], shape[2] = shape[2], shape[1]
    v.x = leaf(shape, case.dtype):detach():transpose(1, 2):requires_grad_()
    v.g = leaf(shape, case.dtype):detach():transpose(1, 2)
  else v.x, v.g = leaf(shape, case.dtype), leaf(shape, case.dtype):detach() end
  flame.eval(v.x, v.w, v.b, v.g, v.r)
  return v
end

--- The results as a whole or, with 'apart', op by op; and the number of launches.
local function compute(case, apart)
  local v = values(case)
  flame.stats "reset"
  local before = apart and flame.internal.budget(1)
  local results = programs[case.program](v)
  if apart then flame.internal.budget(before) end
  flame.eval(table.unpack(results))
  return results, flame.stats().launches
end

local M = {}

--- "same bits", or which results differ; the number of launches as a whole; and the results. Twice
--- as a whole, since the second run is replayed.
function M.compare(case)
  compute(case)
  local whole, few = compute(case)
  local apart = compute(case, true)
  local wrong = {}
  for i, t in ipairs(whole) do
    if not t:eq(apart[i]):all():item() then wrong[#wrong + 1] = i end
  end
  return #wrong == 0 and "same bits" or "other bits: " .. table.concat(wrong, " "), few, whole
end

--- Cases in which a GPU joins the sums: rows of a warp, of 256 and 512 threads, of which vectors
--- are aligned or not, in one, two and three axes. 'quick': those of few elements.
M.cases = {
  { program = "layer", rows = { 8192 }, n = 72, dtype = "f32", quick = true },
  { program = "rms", rows = { 8200 }, n = 101, dtype = "bf16", quick = true },
  { program = "residual", rows = { 64, 128 }, n = 68, dtype = "f32", quick = true },
  { program = "layer", rows = { 96, 86 }, n = 66, dtype = "f32", wider = 3, quick = true },
  { program = "layer", rows = { 2050 }, n = 1028, dtype = "f32", quick = true },
  { program = "layer", rows = { 91, 96 }, n = 100, dtype = "f16", swapped = true },
  { program = "bare", rows = { 8, 16, 65 }, n = 128, dtype = "f64" },
  { program = "softmax", rows = { 8192 }, n = 80, dtype = "f32" },
  { program = "dropout", rows = { 8192 }, n = 96, dtype = "f32" },
  { program = "rms", rows = { 2048 }, n = 1031, dtype = "f32" },
  { program = "residual", rows = { 16384 }, n = 768, dtype = "f32" },
  { program = "layer", rows = { 16000 }, n = 1024, dtype = "bf16" },
  { program = "layer", rows = { 16384 }, n = 4096, dtype = "f32" },
  { program = "layer", rows = { 4096 }, n = 8192, dtype = "bf16" },
  { program = "rms", rows = { 4100 }, n = 5000, dtype = "f32" },
}

--- Sums beside an array that is read in each row for the last time, and has the size of their
--- partial results, so its memory could be reused. apart: each op is computed by itself.
function M.beside(apart)
  flame.seed(3)
  local rows <const>, n <const> = 8192, 72
  local x, g, a = flame.randn(rows, n), flame.randn(rows, n), flame.randn(128, n)
  local u, v = flame.randn(2100, 1), flame.randn(1, 2100)
  flame.eval(x, g, a, u, v)
  local y = x:softmax(2) * a:cumsum(1):narrow(1, 1, 1)
  local all = { y, (y * g):sum(1), u:matmul(v):cumsum(1):narrow(1, 1, 2) }
  local before = apart and flame.internal.budget(1)
  flame.eval(table.unpack(all))
  if apart then flame.internal.budget(before) end
  return all
end

--- 13 sums, times 87 gains in all: more than the kernel that joins them may read.
function M.many(apart)
  flame.seed(3)
  local x, gains = flame.randn(8192, 68), {}
  for i = 1, 87 do gains[i] = flame.randn(68) end
  flame.eval(x, table.unpack(gains))
  local y, used = x:softmax(2), 0
  local total = (y * 2):sum()
  for i = 1, 13 do
    local s = (y * (i + 0.5)):sum(1)
    for _ = 1, i <= 10 and 8 or i == 11 and 5 or 1 do
      used = used + 1
      s = s * gains[used]
    end
    total = total + s:cumsum(1):sum()
  end
  local before = apart and flame.internal.budget(1)
  flame.eval(total)
  if apart then flame.internal.budget(before) end
  return { total }
end

--- "layer 8192 x 72 f32"
function M.name(case)
  local how = case.wider and ", parts of longer rows" or case.swapped and ", in another order" or ""
  return ("%s %s x %d %s%s"):format(case.program, table.concat(case.rows, " x "), case.n,
    case.dtype, how)
end

return M
