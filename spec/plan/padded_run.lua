--- Random programs of products of half floats whose sizes are no multiples of 8, with steps between
--- them that go along rows, along columns or from element to element. A program is run op by op,
--- where each result is kept and so has no padding, and as one plan, whose matrices may be padded
--- (src/plan/pitch.c): all results and gradients must have the same bits.
local flame = require "flame"
local generator = dofile("spec/support/generator.lua")


local sizes <const> = { 256, 257, 258, 260, 261, 264, 271, 272 }

--- Bits of x on the host. Bits of -0 and NaN count as well.
local function bits(x)
  x = x:detach():contiguous():cpu()
  local wide = { f64 = "i64", f32 = "i32", f16 = "i16", bf16 = "i16" }
  return x:view(wide[x.dtype] or x.dtype)
end

--- What stands in the arena before a program is NaN, so padding that counts is seen.
local function spoil()
  local a = flame.full({ 1024, 1024 }, 0 / 0)
  flame.eval((a + 1):matmul(flame.ones(1024, 1)):sum())
end

--- Steps on y, of 'rows' rows of n half floats; keep(x) is x, evaluated if the program is run op by
--- op. Each returns an array of the same shape and dtype as y.
local between = {
  softmax = function(y, keep) return keep(y:softmax(2)) end,
  log_softmax = function(y, keep) return keep(keep(y:to "f32"):log_softmax(2)):to(y.dtype) end,
  tanh = function(y, keep) return keep(y:tanh()) end,
  norm = function(y, keep)
    return keep(flame.layer_norm(y, { y.shape[2] }))
  end,
  columns = function(y, keep) return keep(y - keep(y:mean(1, true))) end,
  rows = function(y, keep) return keep(y * keep(y:square():mean(2, true) + 1):rsqrt()) end,
  largest = function(y, keep) return keep(y / keep(y:abs():max() + 1)) end,
  picked = function(y, keep)
    local at = keep(flame.arange(y.shape[1]):mul(7):fmod(y.shape[1]):to "i64" + 1)
    return keep(y:index_select(1, at))
  end,
  labels = function(y, keep)
    local at = keep(flame.arange(y.shape[1]):mul(5):fmod(y.shape[2]):to "i64" + 1):unsqueeze(2)
    return keep(y - keep(y:gather(2, at)))
  end,
  flipped = function(y, keep) return keep(y:flip(2):softmax(2)) end,
  turned = function(y, keep) return keep(keep(y:t():contiguous()):softmax(1)):t() end,
  shifted = function(y, keep)
    return keep(flame.cat({ y:narrow(2, 2, y.shape[2] - 1), y:narrow(2, 1, 1) }, 2))
  end,
  half = function(y, keep)
    local n = y.shape[1] // 2
    return keep(flame.cat({ y:narrow(1, 1, n):softmax(2), y:narrow(1, n + 1, y.shape[1] - n) }, 1))
  end,
  flat = function(y, keep) return keep(y:flatten():tanh()):reshape(y.shape) end,
  written = function(y, keep)
    local z = keep(y:clone())
    z[{ {}, { 3, 11 } }] = z:narrow(2, 3, 9) * 2
    return keep(z)
  end,
  summed = function(y, keep) return keep(y + keep(y:cumsum(2)) * 0.01) end,
}
local names = {}
for name in pairs(between) do names[#names + 1] = name end
table.sort(names)

--- A function that runs the program of the seed with 'keep' and returns a list of its results; and
--- what is in it.
local function program(seed)
  local r = generator(seed)
  local choose = r.pick
  local dtype = choose { "bf16", "bf16", "f16" }
  local M, K, N = choose(sizes), choose(sizes), choose(sizes)
  local first, second = choose(names), choose(names)
  local last = choose { "product", "loss", "both", "self" }
  local wide, biased = r.chance(1 / 2), r.chance(1 / 3)
  local computed, batch = r.chance(1 / 2), r.chance(1 / 3)
  if batch and M % 2 == 1 then M = M + 1 end
  local x = (flame.randn(M, K) * 0.5):to(dtype):requires_grad_(true)
  local w = (flame.randn(N, K) * 0.1):to(wide and "f32" or dtype):requires_grad_(true)
  local b = biased and flame.randn(N):to(wide and "f32" or dtype):requires_grad_(true) or nil
  local v = (flame.randn(N, r.int(257, 265)) * 0.1):to(dtype):requires_grad_(true)
  local labels = flame.randint({ M }, 1, N)
  flame.eval(x, w, v, labels, b)
  local kinds = { dtype, M, K, N, first, second, last, wide and "wide" or "half",
    biased and "bias" or "plain", computed and "computed" or "stored", batch and "batch" or "flat" }
  --- The loss, and a list of results; what is between them can be collected.
  local function forward(keep)
    local from = computed and keep(x * 2) or x
    if batch then from = from:reshape(2, M // 2, K) end
    local y = keep(flame.linear(from, keep(w:to(dtype)), b and keep(b:to(dtype)) or nil))
    if batch then y = y:reshape(M, N) end
    y = between[second](between[first](y, keep), keep)
    local out, loss = { y:detach():sum(1) }, keep(y:to "f32"):square():sum() * 1e-3
    if last ~= "loss" then
      local z = last == "self" and keep(y:t():matmul(y)) or keep(y:matmul(v))
      out[2] = z:detach() * 1
      loss = loss + keep(z:to "f32"):square():sum() * 1e-3
    end
    if last ~= "product" then loss = loss + flame.cross_entropy(keep(y:to "f32"), labels) end
    return loss, out
  end
  return function(keep)
    x.grad, w.grad, v.grad = nil, nil, nil
    if b then b.grad = nil end
    local loss, out = forward(keep)
    collectgarbage()
    loss:backward()
    for _, p in ipairs { x, w, v, b } do out[#out + 1] = p.grad end
    out[#out + 1] = loss:detach()
    flame.eval(out)
    return out
  end, table.concat(kinds, " ")
end

--- What is wrong with the program of the seed, or nil; and what is in it.
local function check(seed)
  flame.seed(seed)
  local run, kinds = program(seed)
  local want = {}
  for i, x in ipairs(run(function(x) flame.eval(x) return x end)) do want[i] = bits(x) end
  for turn = 1, 3 do                                  -- the third is replayed
    spoil()
    for i, x in ipairs(run(function(x) return x end)) do
      local other = bits(x):ne(want[i]):sum():item()
      if other > 0 then
        return ("seed %d: %s: result %d, turn %d: %d elements differ"):format(seed, kinds, i, turn,
          other), kinds
      end
    end
  end
  return nil, kinds
end

--- Softmax of 264 rows of 32,777 half floats, which a GPU may read once (cuda/text/text_row.c),
--- from a product, times a matrix: both products pad them, with zeros. The greatest of a row is in
--- its last column; it is -96 or 1, and the others are below it by far, so that a zero among them
--- would be seen as the greatest, or in the sum. Returns values of each row.
local function long_rows(keep)
  flame.seed(4)
  local rows, columns = 264, 32777
  local sign = flame.where((flame.arange(rows) % 2):eq(0), -1, 0.01):unsqueeze(2)
  local x = flame.cat({ flame.rand(rows, 128), sign * flame.rand(rows, 128) }, 2):to "bf16"
  local w = flame.cat({ flame.rand(columns, 128) * -4, flame.zeros(columns, 128) }, 2)
  w[columns] = flame.cat { flame.zeros(128), flame.rand(128) * 3 }
  local v = flame.rand(columns, 256):to "bf16"
  w = w:to "bf16"
  flame.eval(x, w, v)
  spoil()
  local function product()
    local y = keep(x:matmul(w:t()))
    return keep(y:softmax(2)):matmul(v)
  end
  local values = product()
  collectgarbage()
  flame.eval(values)
  return values
end

--- A number that tells the bits of these values: computed op by op, or as one plan.
local function long_hash(apart)
  local values = bits(long_rows(function(x) if apart then flame.eval(x) end return x end))
  local hash = 0
  for _, v in ipairs(values:flatten():totable()) do hash = (hash * 33 + v) % (1 << 48) end
  return hash
end

--- Values of a product y, of so many rows and columns, not read element by element of a row
--- or from row to row; and a matrix of which the product with its transpose is taken.
local reads = {
  --- Rows of 128 x 257 elements, which a GPU may read once; 257 do not fill words.
  axes = { 4096, 272, function(y, keep)
    local z = y:view(32, 128, 272):narrow(3, 1, 257)
    local e = keep((z:to "f32" - keep(z:to "f32":amax({ 2, 3 }, true))):exp())
    z = keep((e / keep(e:sum({ 2, 3 }, true))):to(y.dtype)):view(4096, 257)
    return keep(z:sum(2)), z
  end },
  --- Bytes of a row, as integers of another size than its elements.
  bytes = { 258, 258, function(y, keep)
    return keep(y:view "u8":narrow(2, 300, 100):to "i32":sum(2)), y
  end },
  --- Every second row, as integers of another size: these have an odd number of columns.
  words = { 258, 258, function(y, keep)
    return keep(y:view "i32"[{ { 2, -1, 2 } }]:bitwise_and(7):sum(1)), y
  end },
}

--- How many of the values of reads[name] differ between op by op and one plan.
local function differ(name)
  local rows, columns, read = table.unpack(reads[name])
  local x = (flame.randn(rows, 256) * 0.5):to "bf16"
  local w = (flame.randn(256, columns) * 0.2):to "bf16"
  flame.eval(x, w)
  local function values(keep)
    local value, z = read(keep(x:matmul(w)), keep)
    return { value, z:t():matmul(z) }
  end
  local function run(keep)
    local list = values(keep)
    collectgarbage()
    flame.eval(list)
    return flame.cat { bits(list[1]):flatten():to "i64", bits(list[2]):flatten():to "i64" }
  end
  local want = run(function(y) flame.eval(y) return y end)
  spoil()
  return run(function(y) return y end):ne(want):sum():item()
end

return { check = check, names = names, long_hash = long_hash, reads = reads, differ = differ }
