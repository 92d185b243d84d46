--- Corner cases from PyTorch's samples for its operators: 0-d and empty inputs, batched arguments,
--- gradients at large values, options by name, and calls that must raise.
local raises = require("spec.support.helper").raises
local flame = require "flame"
local helper = require "spec.support.helper"
local T, linalg, huge = flame.tensor, flame.linalg, math.huge
local function eq(expected, x, o) assert.allclose(expected, x, o) end
local function D(v) return T(v, { dtype = "f64" }) end
local function gradient(f, v)
  local x = T(v, { dtype = "f64", requires_grad = true })
  return f(x):sum():gradients({ x })[x]
end

describe("0-d and empty inputs", function()
  it("count as a list of one where PyTorch has it so", function()
    assert.same({ 3 }, T(3):unfold(1, 1, 1):totable())
    assert.same({ { 1 } }, (function()
      local l = T(3):nonzero({ as_tuple = true })
      return { l[1]:totable() }
    end)())
    eq(6, T(2):index_reduce(1, T({ 1 }, { dtype = "i64" }), T(3), "prod"))
    eq({ { 1, 2, 4 } }, linalg.vander(T(2), { N = 3 }))
    eq(0, flame.multi_margin_loss(T(0.5), T(1):long()))
    eq(2, linalg.vector_norm(T(-2), 2, {}, { keepdim = false }))
  end)
  it("give empty results, and norms where the largest is of something", function()
    assert.same({ 0, 1, 2 }, flame.local_response_norm(flame.zeros(0, 1, 2), 1).shape)
    assert.same({ 0, 5 },
      flame.bilinear(flame.zeros(0, 3), flame.zeros(0, 4), flame.zeros(5, 3, 4)).shape)
    eq(0, linalg.norm(flame.zeros(5, 0), huge))
    eq(0, linalg.norm(flame.zeros(0, 5), 1))
    raises("norm: ord = 1 has no value", linalg.norm, flame.zeros(5, 0), 1)
  end)
  it("raise where there is no axis", function()
    raises("flipud: x is 0-d", flame.flipud, T(1))
    raises("unfold: size 2 and step 1 do not fit axis 1 with 1 elements", flame.unfold,
      T(1), 1, 2, 1)
  end)
end)

describe("broadcasting of arguments", function()
  it("comes before the norms of cosine_similarity", function()
    local x, y = D { { { 1, 2, 3 }, { 4, 5, 6 } } }, D { { { 1, 0, 2 } }, { { 3, 1, 1 } } }
    eq(flame.cosine_similarity(x:expand(2, 2, 3):contiguous(), y:expand(2, 2, 3):contiguous(), -2),
      flame.cosine_similarity(x, y, { dim = -2 }))
  end)
  it("spreads x of masked_scatter over the mask", function()
    eq({ { 5, 2 }, { 1, 6 } },
      T({ 1, 2 }):masked_scatter(T { { true, false }, { false, true } }, T { 5, 6 }))
  end)
  it("takes limits of matrix_rank and pinv one a matrix", function()
    local x = flame.eye(2):expand(3, 2, 2) * T({ 1, 0.5 }):reshape(2, 1)
    assert.same({ 2, 1, 0 }, linalg.matrix_rank(x, { atol = T { 0.1, 0.7, 2 } }):totable())
    eq({ { { 1, 0 }, { 0, 2 } }, { { 1, 0 }, { 0, 0 } }, { { 0, 0 }, { 0, 0 } } },
      linalg.pinv(x, { atol = T { 0.1, 0.7, 2 } }))
  end)
end)

describe("gradients", function()
  it("of logcumsumexp are finite at large values", function()
    eq({ 5, 0, 0 },
      gradient(function(x) return x:logcumsumexp(1) * D { 1, 1, 3 } end, { 10000, -8, 3 }))
  end)
  it("of eigh are symmetric, of a Hermitian pinv those of pinv, as PyTorch's", function()
    local v = { { 2, 0.3, 0.1 }, { 0.3, 1, 0.2 }, { 0.1, 0.2, 3 } }
    local g = gradient(function(x)
      local _, q = linalg.eigh(x)
      return q:abs() * D { 1, 2, 3 }
    end, v)
    assert.is_true(g:amax():item() ~= 0)
    eq(g:t(), g, { rtol = 1e-9 })
    local function by(o)
      return gradient(function(x)
        return linalg.pinv(x, o) * D { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } }
      end, v)
    end
    eq(by(), by({ hermitian = true }), { rtol = 1e-9 })
  end)
  it("of var and std where the correction leaves no element, or less than none, are PyTorch's", function()
    local function var(n) return function(x) return x:var(1, { correction = n }) end end
    local function std(n) return function(x) return x:std(1, { correction = n }) end end
    local none = { 0 / 0, 0 / 0, 0 / 0 }
    for _, n in ipairs { 3, 4 } do assert.equal(huge, var(n)(D { 1, 2, 4 }):item()) end
    eq({ -huge, -huge, huge }, gradient(var(3), { 1, 2, 4 }))
    eq(none, gradient(var(3), { 3, 3, 3 }), { equal_nan = true })
    eq(none, gradient(std(3), { 1, 2, 4 }), { equal_nan = true })
    eq({ 8 / 3, 2 / 3, -10 / 3 }, gradient(var(4), { 1, 2, 4 }), { rtol = 1e-12 })
    eq({ 0, 0, 0 }, gradient(std(4), { 1, 2, 4 }))
    eq({ -8 / 3, -2 / 3, 10 / 3 }, gradient(var(2), { 1, 2, 4 }), { rtol = 1e-12 })
    eq({ 0 / 0 }, gradient(var(1), { 5 }), { equal_nan = true })
    local x = D({ 5 }):requires_grad_(true)
    local g = x:var(1):gradients({ x }, { create_graph = true })[x]
    eq({ 0 / 0 }, g:sum():gradients({ x })[x], { equal_nan = true })
  end)
  it("of quantile and nanquantile flow to q", function()
    for _, name in ipairs { "quantile", "nanquantile" } do
      eq({ 8, 16 },
        gradient(function(q) return flame[name](D { 1, 3, 7, 4, 11 }, q) end, { 0.3, 0.9 })
        * T({ 2, 1 }):double(), { rtol = 1e-9 })
    end
  end)
end)

describe("replicating pads", function()
  it("repeat what a negative amount cuts off", function()
    assert.same({ 1, 1 }, T({ 1, 2, 3 }):pad({ 5, -6 }, { mode = "replicate" }):totable())
    assert.same({ 3, 3 }, T({ 1, 2, 3 }):pad({ -3, 2 }, { mode = "replicate" }):totable())
    assert.same({ 2, 3, 3 }, T({ 1, 2, 3 }):pad({ -1, 1 }, { mode = "replicate" }):totable())
    assert.same({ 0 }, T({ 1, 2, 3 }):pad({ -1, -2 }, { mode = "replicate" }).shape)
    eq({ 2, 0, 0 },
      gradient(function(x) return x:pad({ 2, -3 }, { mode = "replicate" }) end, { 1, 2, 3 }))
  end)
end)

describe("shifts to the right", function()
  it("keep the sign up to the last bit and beyond", function()
    for dtype, bits in pairs { i8 = 8, i16 = 16, i32 = 32, i64 = 64 } do
      local x = T({ 100, -100, -1, 0 }, { dtype = dtype })
      for n = 0, bits do
        local want = {}
        for k, v in ipairs { 100, -100, -1, 0 } do
          want[k] = n < 62 and v // (1 << n) or (v < 0 and -1 or 0)
        end
        assert.same(want, x:bitwise_right_shift(n):totable(), dtype .. " " .. n)
      end
      assert.same({ 0, -1, -1, 0 }, x:bitwise_right_shift(T({ -1 }, { dtype = dtype })):totable())
    end
    assert.same({ 1, 0, 0 },
      T({ 255, 127, 255 },
        { dtype = "u8" }):bitwise_right_shift(T({ 7, 7, 8 }, { dtype = "u8" })):totable())
  end)
end)

describe("dtypes", function()
  it("stay in addbmm and widen in sum_to_size, as in PyTorch", function()
    local i = flame.ones({ 2, 2, 2 }, { dtype = "i32" })
    assert.equal("i32", flame.addbmm(i[1], i, i).dtype)
    assert.equal("i64", i:sum_to_size(2, 2).dtype)
    assert.equal("i32", i:sum_to_size(2, 2, 2).dtype)
  end)
  it("of integers take alpha, of bool a sign, booleans and reductions", function()
    local b, one = T { true, false }, T({ 1 }, { dtype = "i64" })
    assert.same({ -2, 5 },
      T({ 1, 5 }):long():index_add(1, one, T({ 3 }):long(), { alpha = -1 }):totable())
    local i = T({ 1, 5 }):long()
    assert.same({ 7, 11 }, i:add(2, { alpha = 3 }):totable())
    assert.same({ -5, -1 }, i:sub(2, { alpha = 3 }):totable())
    for y, dtype in pairs { [2] = "i64", [2.5] = "f32" } do
      assert.equal(dtype, i:add(y, { alpha = 3 }).dtype)
    end
    assert.equal("f32", i:add(2, { alpha = 0.5 + 1e300 }).dtype)
    assert.same({ true, false }, b:sign():totable())
    assert.same({ true, true }, b:masked_fill(T { false, true }, true):totable())
    assert.same({ false, false }, b:index_fill(1, one, false):totable())
    assert.same({ true, false, true }, b:pad({ 0, 1 }, { value = true }):totable())
    assert.same({ false, false }, b:scatter_reduce(1, one, T { false }, "prod"):totable())
  end)
  it("f16 and bf16 have norms whose squares they can not hold", function()
    for _, dtype in ipairs { "f16", "bf16" } do
      local x = T({ 300, 400 }, { dtype = dtype, requires_grad = true })
      local n = x:norm()
      assert.equal(dtype, n.dtype)
      eq(500, n)
      eq({ 0.6, 0.8 }, n:gradients({ x })[x], { rtol = 4e-3 })
    end
  end)
end)

describe("options by name", function()
  it("work where PyTorch has a default", function()
    local y, x = T { { 1, 2, 4 }, { 3, 5, 9 } }, T { { 0, 1, 3 }, { 0, 2, 3 } }
    eq({ 7.5, 15 }, flame.trapezoid(y, x, { dim = 2 }))
    eq({ { 1.5, 7.5 }, { 8, 15 } }, flame.cumulative_trapezoid(y, x, { dim = -1 }))
    eq({ 4 + 6 + 8 }, T({ { 1, 2, 3 }, { 5, 8, 11 } }):pdist({ p = 1 }))
    assert.same({ { 0, 1, 0 } }, flame.one_hot(T({ 2 }):long(), { num_classes = 3 }):totable())
    raises("trapezoid: no option 'axis'", flame.trapezoid, y, x, { axis = 1 })
  end)
  it("give the axis of reductions, scans, softmax and parts, as PyTorch's dim", function()
    local x = flame.randn(3, 4)
    for name in ("sum mean prod std var amax amin any all argmax argmin nansum nanmean count_nonzero max min median nanmedian mode "
      .. "logsumexp std_mean var_mean softmax log_softmax softmin cumsum cumprod cummax logcumsumexp unbind squeeze"):gmatch(
        "%S+") do
      local a, b = { x[name](x, 1) }, { x[name](x, { dim = 1 }) }
      for k, y in ipairs(a) do
        for i, part in ipairs(type(y) == "table" and y or { y }) do
          assert.is_true(flame.equal(part, type(y) == "table" and b[k][i] or b[k]), name)
        end
      end
    end
    assert.same({ 3, 1 }, x:sum({ dim = 2, keepdim = true }).shape)
    assert.same({ 1, 1 }, x:var({ dim = { 1, 2 }, keepdim = true }).shape)
    eq(x:var(1, { correction = 0 }), x:var({ dim = 1, correction = 0 }))
    eq(x:softmax(1):double(), x:softmax({ dim = 1, dtype = "f64" }), { rtol = 1e-5 })
    eq(x:quantile(0.3, 1), x:quantile(0.3, { dim = 1 }))
    eq(x:norm(1, 2), x:norm({ p = 1, dim = 2 }))
    eq(flame.cat({ x, x }, 2), flame.cat({ x, x }, { dim = 2 }))
    eq(x:chunk(2, 2)[2], x:chunk(2, { dim = 2 })[2])
    raises("sum: dim is given by position and by name", x.sum, x, 1, { dim = 2 })
    raises("cumsum: axis 3 is out of range", x.cumsum, x, { dim = 3 })
    raises("unbind: no option 'axis', there is: dim", x.unbind, x, { axis = 1 })
    eq(x:flip(1), x:flip({ dims = 1 }))
    raises("flip: no option 'axis', there is: dims", x.flip, x, { dims = { 1 }, axis = 1 })
    raises("reshape: no option 'dims', there is: shape", x.reshape, x,
      { dims = { -1 } })
    eq(x:flip(1, 2), x:flip { dims = { 1, 2 } })
    eq(x:permute(2, 1), x:permute { dims = { 2, 1 } })
    eq(x:fill(3), x:fill { value = 3 })
    eq((x + 3):mvlgamma(2), (x + 3):mvlgamma { p = 2 })
    raises("mvlgamma: no option 'q', there is: p", x.mvlgamma, x, { q = 2 })
    local planes = flame.randn(1, 4, 4, 4)
    eq(planes:pixel_shuffle(2), planes:pixel_shuffle { upscale_factor = 2 })
    eq(planes:pixel_unshuffle(2), planes:pixel_unshuffle { downscale_factor = 2 })
    eq(planes:channel_shuffle(2), planes:channel_shuffle { groups = 2 })
  end)
  it("give the diagonal of tril, diagonal and diag, and the axes of flatten and roll", function()
    local x = flame.randn(3, 4)
    eq(x:tril(1), x:tril({ diagonal = 1 }))
    eq(x:diagonal(-1, 2, 1), x:diagonal({ offset = -1, dim1 = 2, dim2 = 1 }))
    eq(x:diag(1), x:diag({ diagonal = 1 }))
    assert.same({ 12 }, x:flatten({ start_dim = 1 }).shape)
    assert.same({ 3, 4 }, x:flatten({ end_dim = 1 }).shape)
    eq(x:roll(1, 2), x:roll(1, { dims = 2 }))
    eq(T { 0, 5 }, T({ 2, 2 }):long():bincount({ weights = T { 2, 3 } }))
  end)
  it("of LU factorisations", function()
    local a, b = D { { 1, 2 }, { 3, 5 } }, D { { 1 }, { 2 } }
    local lu, p = linalg.lu_factor(a, { pivot = true })
    eq(linalg.solve(a:t(), b), linalg.lu_solve(lu, p, b, { adjoint = true }))
    eq(linalg.solve(a, b:t(), { left = false }):t():t(),
      linalg.lu_solve(lu, p, b:t(), { left = false }))
    eq(linalg.solve(a:t(), b:t(), { left = false }),
      linalg.lu_solve(lu, p, b:t(), { left = false, adjoint = true }))
    raises("lu: pivot = false is not supported", linalg.lu, a, { pivot = false })
  end)
  it("move axes of tensorsolve", function()
    local a, x = flame.randn(2, 3, 6):double(), flame.randn(6):double()
    local b = flame.einsum("ijk,k->ij", a, x)
    eq(x, linalg.tensorsolve(a, b), { rtol = 1e-6 })
    local c = flame.einsum("kji,ik->j", a, flame.randn(6, 2):double())
    local big = flame.randn(2, 6, 3):double()
    local y = linalg.tensorsolve(big, flame.ones({ 6 }, { dtype = "f64" }), { dims = { 1, 3 } })
    eq(flame.ones(6), flame.einsum("ijk,ik->j", big, y), { rtol = 1e-6 })
    assert.same({ 3 }, c.shape)
  end)
end)

describe("parts and lists", function()
  it("tensor_split cuts at the positions of a tensor, atleast_nd lifts lists", function()
    local parts = flame.arange(5.0):tensor_split(T({ 1, 3 }, { dtype = "i64" }))
    assert.same({ { 1 }, { 2, 3 }, { 4, 5 } },
      { parts[1]:totable(), parts[2]:totable(), parts[3]:totable() })
    assert.equal(2, #flame.arange(5.0):tensor_split(T(2):long()))
    for _, n in ipairs { flame.tensor { true, false }, flame.tensor(true) } do
      local why = helper.message(flame.tensor_split, flame.arange(5.0), n)
      assert.matches("tensor_split: n is bool of %d axes, need integers", tostring(why))
    end
    local up = flame.atleast_2d { T(1), T { 1, 2 } }
    assert.same({ { 1, 1 }, { 1, 2 } }, { up[1].shape, up[2].shape })
  end)
  it("istft tells one side from two by the size", function()
    local x = flame.randn(40)
    for _, onesided in ipairs { true, false } do
      local y = flame.stft(x, 8, { onesided = onesided })
      eq(x, flame.istft(y, 8), { atol = 1e-4 })
    end
  end)
  it("Hermitian transforms over several axes undo each other", function()
    local x = flame.randn(3, 4, 6):double()
    eq(x, flame.hfft2(flame.ihfft2(x)), { atol = 1e-9 })
    eq(x, flame.hfftn(flame.ihfftn(x, nil, { 1, 3 }, "ortho"), { dim = { 1, 3 }, norm = "ortho" }),
      { atol = 1e-9 })
    assert.equal("f32", flame.hfft(T({ { 1, 0 }, { 2, 0 } }, { dtype = "u8" })).dtype)
  end)
end)

describe("wrong values", function()
  it("raise and say which", function()
    raises("isclose: rtol = -0.4 is negative", flame.isclose, T(1), T(1), { rtol = -0.4 })
    raises("huber_loss: delta = 0, need delta > 0", flame.huber_loss, T(1), T(1), { delta = 0 })
    raises("gradient: axis 2 is named twice", flame.gradient, flame.zeros(3, 3),
      { dim = { 2, -1 } })
    raises("cov: fweights is f32, need integers", flame.cov, flame.zeros(2, 3),
      { fweights = flame.ones(3) })
    raises("cov: aweights has a negative element", flame.cov, flame.zeros(2, 3),
      { aweights = T { 1, -1, 1 } })
    raises("start must be an integer, got a tensor", flame.narrow, flame.zeros(3), 1, T(1), 1)
    raises("round: 1 argument at most, got 2; it is round(x: T, *, decimals: int = 0) -> T",
      flame.round, T(1), T(1))
    raises("chain_matmul: tensors[1] must be a tensor, got nil", flame.chain_matmul, nil,
      flame.zeros(2, 2))
    raises("istft: 9 arguments at most, got 10", flame.istft,
      flame.zeros(3, 2, 2), 4, 1, 4,
      nil, true, false, true, 3, 9)
    assert.is_true(flame.kl_div(T { 0 }, T { -1 }, { reduction = "sum" }):isnan():item())
  end)
end)

describe("arguments of a wrong type", function()
  it("raise with the function's name, what was given and the parameters, wherever they are met", function()
    local x = flame.zeros(2)
    raises("softshrink: lambd must be a number, got boolean", flame.softshrink, x, true)
    raises("softshrink_: lambd must be a number, got boolean", x.softshrink_, x, true)
    raises("fftshift: dim must be an axis or a list of axes, got boolean", flame.fftshift, x, true)
    raises("addcmul: tensor1 must be a tensor or a number, got nothing", flame.addcmul, x)
    raises("cat: tensors must be a list of tensors, got a tensor", flame.cat, x)
    raises("sort: descending must be true or false, got a tensor", flame.sort, x, 1, x)
  end)
  it("leave the errors of a script's own functions as they are", function()
    local mine = {}
    local ok, e = pcall(flame.gradcheck, function() error(mine) end, { flame.zeros(1) })
    assert.is_true(not ok and e == mine)
    assert.matches("corners_spec.lua:%d+: attempt to perform arithmetic",
      helper.message(flame.checkpoint, function() return nil + 1 end))
    local co = coroutine.wrap(function()
      return flame.checkpoint(function() return coroutine.yield(1) end)
    end)
    assert.equal(1, co())
  end)
end)

describe("calls by their numbers", function()
  it("refuse sizes beside a 0 whose product can not be counted", function()
    local call, x = flame.internal.call, flame.zeros(0)
    local most = math.maxinteger
    assert.equal(0, call("scan", "cumsum", { x }, { 0, 3, 5, 0, 0 }, { 0 }, "f32"):numel())
    raises("sizes or dtypes do not fit a call of scan", call, "scan", "cumsum", { x },
      { 0, most, 2, 0, 0 }, { 0 }, "f32")
    raises("sizes or dtypes do not fit a call of extreme", call, "extreme", "cummax", { x },
      { 0, 2, most, 0, 1 }, { 0 }, "f32")
  end)
end)

describe("flame.autograd.reset", function()
  it("forgets what was recorded: handles keep their values, leaves stay leaves", function()
    local w = T({ 1, 2 }, { requires_grad = true })
    local y = (w * w):exp()
    local before = flame.autograd.stats().entries
    flame.autograd.reset()
    assert.is_true(flame.autograd.stats().entries < before - 1)
    assert.is_false(y.requires_grad)
    eq({ math.exp(1), math.exp(4) }, y)
    raises("backward: the tensor is not tracked", y.backward, y:sum());
    (w * w):sum():backward()
    eq({ 2, 4 }, w.grad)
  end)
  it("switches tracking on and anomaly mode off, and takes no arguments", function()
    flame.autograd.anomaly(true)
    do
      local _ <close> = flame.no_grad()
      flame.autograd.reset()
      assert.is_true(flame.is_grad_enabled())
    end
    assert.is_false(flame.autograd.anomaly())
    raises("autograd.reset: 0 arguments at most, got 1", flame.autograd.reset, 1)
    raises("autograd.stats: 0 arguments at most, got 1", flame.autograd.stats, 1)
  end)
  it("ends a backward that runs, with an error", function()
    local x = T({ 1, 2 }, { requires_grad = true })
    local y = x * 2
    y:register_hook(function() flame.autograd.reset() end)
    raises("backward: second backward: a hook freed this graph", y.backward, y:sin():sum())
    assert.is_nil(x.grad)
  end)
end)

describe("a function of the script in a backward", function()
  it("may untrack the leaf that the gradient goes to: it arrives nowhere", function()
    local x = T({ 1, 2 }, { requires_grad = true })
    x:register_hook(function() x:requires_grad_(false) end);
    (x * 2):sum():backward()
    assert.is_nil(x.grad)
  end)
  it("gives gradients that sum to the input's shape, no smaller ones", function()
    local function of(give)
      local x = T({ 1, 2 }, { requires_grad = true })
      flame.func { name = "double", forward = function(_, v) return v * 2 end,
        backward = give }(x):sum():backward()
      return x.grad
    end
    eq({ 3, 3 }, of(function(_, g) return g:expand(3, 2) end))
    raises("double: gradient 1 of backward has shape (), its tensor (2)", of,
      function(_, g) return g:sum() end)
    raises("double: gradient 1 of backward has shape (1), its tensor (2)", of,
      function(_, g) return g:sum(1, true) end)
  end)
  it("gives back what is no tensor as it is, and gets no gradient for it", function()
    local x, seen = T({ 1, 2 }, { requires_grad = true }), nil
    local f = flame.func { name = "both", forward = function(_, v)
      return "tag", v * 2, nil, v * 3
    end,
      backward = function(_, tag, g, none, h) seen = { tag, none } return 2 * g + 3 * h end }
    local tag, y, none, z = f(x)
    assert.equal("tag", tag)
    assert.is_nil(none);
    (y + z):sum():backward()
    eq({ 5, 5 }, x.grad)
    assert.same({}, seen)
  end)
end)

describe("flame.grad", function()
  it("takes nested tables, and gives gradients in their form", function()
    local g = flame.grad(function(p, k)
      return (p.w * p.rest[1]):sum() * k
    end)({ w = D { 1, 2 }, rest = { D { 3, 4 } }, n = 7 }, 2)
    eq({ 6, 8 }, g.w)
    eq({ 2, 4 }, g.rest[1])
    assert.equal(7, g.n)
    raises("grad: argument 1 must be a tensor, got table",
      flame.grad(function() return D(1) end), { n = 7 })
  end)
end)

describe("checkpoint", function()
  it("says so when f gives another shape as it runs again", function()
    local x, n = T({ 1, 2 }, { requires_grad = true }), 0
    local y = flame.checkpoint(function(v) n = n + 1 return n == 2 and v:sum() or v * v end, x)
    raises("checkpoint: result 1 has shape (2), and is () when f runs again", y.backward, y:sum())
  end)
end)

describe("under no_grad", function()
  it("functions that give gradients give them all the same, untracked", function()
    local cube = function(x) return (x ^ 3):sum() end
    flame.no_grad(function()
      local g = flame.grad(cube)(D { 1, 2 })
      local _, h = flame.value_and_grad(cube)(D { 1, 2 })
      eq({ 3, 12 }, g)
      eq({ 3, 12 }, h)
      assert.is_false(g.requires_grad)
      assert.is_false(flame.is_grad_enabled())
    end)
  end)
end)

describe("gradcheck", function()
  it("hands on what is no float tensor, and names inputs by their place in the list", function()
    local rows = T({ 2, 2 }, { dtype = "i64" })
    assert.is_true(flame.gradcheck(function(i, x, k) return x:index_select(1, i) ^ k end,
      { rows, D { 1, 2 }, 3 }, { order = 2 }))
    local wrong = flame.func { name = "wrong", forward = function(_, _, x) return x * 2 end,
      backward = function(_, g) return nil, g end }
    raises("gradcheck: input 2 at (1): analytic 1", flame.gradcheck,
      function(i, x) return wrong(i, x):amax() end, { rows, D { 1 } })
    raises("gradcheck: inputs has no float tensor", flame.gradcheck,
      function(x) return x end, { 3 })
    raises("gradcheck: order must be 1 or 2, got 3", flame.gradcheck, function(x) return x end,
      { D { 1 } }, { order = 3 })
  end)
end)

describe("steps", function()
  it("have the gradient 0, as PyTorch's, also where it would be multiplied by infinity", function()
    for _, name in ipairs { "floor", "ceil", "round", "trunc", "sign" } do
      local x = flame.tensor({ 1.5, -2.3, 0, 7 }, { requires_grad = true })
      local y = x[name](x)
      assert.is_true(y.requires_grad, name);
      (y * math.huge):sum():backward()
      assert.same({ 0, 0, 0, 0 }, x.grad:totable(), name)
      local _, t = flame.jvp(function(a) return a[name](a) end, x:detach(), flame.ones(4))
      assert.same({ 0, 0, 0, 0 }, t:totable(), name)
    end
    local x, y = flame.tensor({ 1.5, -2.3 }, { requires_grad = true }),
      flame.tensor({ 2, 3 }, { requires_grad = true })
    x:floordiv(y):sum():backward()
    assert.same({ 0, 0, 0, 0 }, flame.cat({ x.grad, y.grad }):totable())
    x.grad, y.grad = nil, nil
    local q = flame.div(x, y * flame.tensor({ 0, 1 }), { rounding_mode = "trunc" })
    assert.same({ math.huge, -0.0 }, q:totable())
    q:sum():backward()
    assert.same({ 0, 0, 0, 0 }, flame.cat({ x.grad, y.grad }):totable())
    x.grad, y.grad = nil, nil
    x:copysign(y):sum():backward()
    assert.same({ 1, -1, 0, 0 }, flame.cat({ x.grad, y.grad }):totable())
    x.grad = nil;
    (x - x:floor()):sum():backward()
    assert.same({ 1, 1 }, x.grad:totable())
    assert.is_false(flame.tensor({ 1, 2 }, { dtype = "i64" }):sign().requires_grad)
  end)
end)
