--- lua/flame/ops/signal.lua, ops/loss.lua and linalg/factored.lua: short-time Fourier transforms,
-- flame.gradient, modes, CTC, multi-label margins, bags of embeddings, LU in LAPACK's form.
-- Expected values come from the definitions: sums, and for CTC all paths.
local raises = require("spec.support.helper").raises
local flame = require "flame"
local T = flame.tensor
local nan = 0 / 0
local function d(list) return T(list, { dtype = "f64" }) end
local function ids(list) return T(list, { dtype = "i64" }) end
local function eq(expected, x, tol)
  assert.allclose(expected, x, { rtol = tol or 1e-10, atol = tol or 1e-12 })
end
local function wave(n)
  local list = {}
  for i = 1, n do list[i] = math.sin(i * 1.3) + 0.1 * i end
  return d(list)
end

describe("short-time transforms", function()
  it("are the transforms of windows", function()
    local x, w = wave(12), d { 0.5, 1, 1, 0.5 }
    local y = x:stft(4, { hop_length = 2, window = w, center = false })
    assert.same({ 3, 5, 2 }, y.shape)
    for k = 1, 5 do eq((x:narrow(1, 2 * k - 1, 4) * w):rfft():totable(), y:select(2, k)) end
    local whole = x:stft(4,
      { hop_length = 2, window = w, center = false, onesided = false, normalized = true })
    eq((y * 0.5):totable(), whole:narrow(1, 1, 3))
    local shorter = x:stft(4, 2, 2, d { 1, 2 }, false)
    eq((x:narrow(1, 1, 4) * d { 0, 1, 2, 0 }):rfft():totable(), shorter:select(2, 1))
  end)
  it("have an inverse, with the edges mirrored or not, in batches, differentiable", function()
    local w = flame.hann_window(8, { dtype = "f64" }) + 0.1
    for _, o in ipairs { { center = true }, { center = false }, { onesided = false },
        { normalized = true }, { window = w } } do
      local x = flame.stack({ wave(24), wave(24) * 2 }, 1)
      local both = { hop_length = 2, window = o.window, onesided = o.onesided,
        normalized = o.normalized, center = o.center }
      local y = flame.istft(x:stft(8, both), 8, both)
      eq(x:totable(), y, 1e-9)
    end
    local x = wave(20)
    eq(x:narrow(1, 1, 17):totable(), flame.istft(x:stft(8), 8, { length = 17 }), 1e-9)
    assert.is_true(flame.gradcheck(function(v) return v:stft(4, { hop_length = 3 }) end,
      { wave(9) }))
    local y = flame.stack({ wave(9):reshape(3, 3), wave(9):reshape(3, 3) }, -1)
    assert.is_true(flame.gradcheck(function(v) return flame.istft(v, 4) end, { y }))
  end)
  it("raise on what does not fit", function()
    raises("stft: n_fft = 16, x has 8 elements", flame.stft, wave(8), 16, { center = false })
    raises("stft: window has shape (3), need (4)", flame.stft, wave(8), 4,
      { window = d { 1, 1, 1 } })
    raises("istft: x has shape (5, 2, 2), need (…, 3, frames, 2)", flame.istft,
      flame.zeros(5, 2, 2), 4)
    raises("istft: the windows leave gaps", flame.istft, flame.zeros(3, 3, 2), 4,
      { hop_length = 4, window = d({ 0, 1, 1, 0 }):float() })
  end)
  it("hfft is real, and ihfft its inverse", function()
    local x = wave(7)
    local half = x:ihfft()
    assert.same({ 4, 2 }, half.shape)
    eq(x:totable(), half:hfft({ n = 7 }))
    eq((x:rfft() / 7 * d { 1, -1 }):totable(), half)
    eq((x:ihfft({ norm = "ortho" })):totable(), half * math.sqrt(7))
    raises("hfft: norm must be", flame.hfft, half, { norm = "none" })
  end)
  it("windows", function()
    eq({ 0, 0.5, 1, 0.5 }, flame.bartlett_window(4))
    eq({ 0, 2 / 3, 2 / 3, 0 }, flame.bartlett_window(4, false), 1e-6)
    local k = flame.kaiser_window(3, false, 2.5, { dtype = "f64" })
    eq({ 1 / d({ 2.5 }):i0():item(), 1, 1 / d({ 2.5 }):i0():item() }, k)
    assert.same({ 1 }, flame.kaiser_window(1):totable())
  end)
  it("windows have SciPy's values, symmetric and periodic", function()
    for _, c in ipairs {
      { "cosine_window", 5, { sym = true },
        { 0.30901699437494745, 0.8090169943749475, 1.0, 0.8090169943749476, 0.30901699437494756 } },
      { "cosine_window", 4, { sym = false },
        { 0.30901699437494745, 0.8090169943749475, 1.0, 0.8090169943749476 } },
      { "gaussian_window", 5, { std = 1.3, sym = true },
        { 0.3062259800580424, 0.7438930621376465, 1.0, 0.7438930621376465, 0.3062259800580424 } },
      { "gaussian_window", 4, { std = 1.3, sym = false },
        { 0.3062259800580424, 0.7438930621376465, 1.0, 0.7438930621376465 } },
      { "exponential_window", 5, { tau = 2.5, sym = true },
        { 0.44932896411722156, 0.6703200460356392, 1.0, 0.6703200460356392, 0.44932896411722156 } },
      { "exponential_window", 4, { tau = 2.5, sym = false },
        { 0.44932896411722156, 0.6703200460356392, 1.0, 0.6703200460356392 } },
      { "general_cosine_window", 5, { a = { 0.4, 0.3, 0.2, 0.1 }, sym = true },
        { 0.20000000000000004, 0.19999999999999998, 0.9999999999999999, 0.19999999999999998,
          0.20000000000000004 } },
      { "general_cosine_window", 4, { a = { 0.4, 0.3, 0.2, 0.1 }, sym = false },
        { 0.20000000000000004, 0.19999999999999998, 0.9999999999999999, 0.19999999999999998 } },
      { "general_hamming_window", 5, { alpha = 0.6, sym = true },
        { 0.19999999999999996, 0.6, 1.0, 0.6, 0.19999999999999996 } },
      { "general_hamming_window", 4, { alpha = 0.6, sym = false },
        { 0.19999999999999996, 0.6, 1.0, 0.6 } },
      { "nuttall_window", 5, { sym = true },
        { 0.0003628000000000381, 0.22698240000000006, 1.0, 0.22698240000000006,
          0.0003628000000000381 } },
      { "nuttall_window", 4, { sym = false },
        { 0.0003628000000000381, 0.22698240000000006, 1.0, 0.22698240000000006 } },
      { "hann_window", 5, { sym = true },
        { 0.0, 0.5, 1.0, 0.5, 0.0 } },
      { "hann_window", 4, { sym = false },
        { 0.0, 0.5, 1.0, 0.5 } },
      { "hamming_window", 5, { sym = true },
        { 0.08000000000000007, 0.54, 1.0, 0.54, 0.08000000000000007 } },
      { "hamming_window", 4, { sym = false },
        { 0.08000000000000007, 0.54, 1.0, 0.54 } },
      { "blackman_window", 5, { sym = true },
        { -1.3877787807814457e-17, 0.34, 0.9999999999999999, 0.34, -1.3877787807814457e-17 } },
      { "blackman_window", 4, { sym = false },
        { -1.3877787807814457e-17, 0.34, 0.9999999999999999, 0.34 } },
      { "bartlett_window", 5, { sym = true },
        { 0.0, 0.5, 1.0, 0.5, 0.0 } },
      { "bartlett_window", 4, { sym = false },
        { 0.0, 0.5, 1.0, 0.5 } },
      { "kaiser_window", 5, { beta = 7.5, sym = true },
        { 0.003729098706855622, 0.3946276132193213, 1.0, 0.3946276132193213,
          0.003729098706855622 } },
      { "kaiser_window", 4, { beta = 7.5, sym = false },
        { 0.003729098706855622, 0.3946276132193213, 1.0, 0.3946276132193213 } },
      { "exponential_window", 5, { center = 1, tau = 2, sym = false },
        { 0.6065306597126334, 1.0, 0.6065306597126334, 0.3678794411714424, 0.22313016014842982 } },
    } do
      local o = c[3]
      o.dtype = "f64"
      eq(c[4], flame[c[1]](c[2], o), 1e-15)
      o.periodic, o.sym = not o.sym, nil
      eq(c[4], flame[c[1]](c[2], o), 1e-15)
      assert.same({ 0 }, flame[c[1]](0, { a = o.a }).shape)
      assert.same({ 1 }, flame[c[1]](1, { a = o.a }):totable())
    end
    assert.is_true(flame.equal(flame.cosine_window(6, false),
      flame.cosine_window(6, { sym = true })))
    assert.is_true(flame.equal(flame.gaussian_window(6, true, 2),
      flame.gaussian_window(6, { std = 2 })))
    assert.is_true(flame.equal(flame.general_cosine_window(6, { 0.5, 0.5 }), flame.hann_window(6)))
    assert.is_true(flame.equal(flame.general_cosine_window(6, d { 0.42, 0.5, 0.08 }),
      flame.blackman_window(6)))
    raises("hann_window: periodic = false and sym = false contradict", flame.hann_window, 4, false,
      { sym = false })
    raises("hann_window: sym must be true or false, got number", flame.hann_window, 4, { sym = 1 })
    raises("gaussian_window: std = 0, need more than 0", flame.gaussian_window, 4, { std = 0 })
    raises("exponential_window: tau = -1, need more than 0", flame.exponential_window,
      4, { tau = -1 })
    raises("exponential_window: a symmetric window has its own center", flame.exponential_window, 4,
      { center = 1, sym = true })
    raises("general_cosine_window: a must be a list of numbers or a tensor, got nothing",
      flame.general_cosine_window, 4)
    raises("general_cosine_window: a[2] must be a number, got string", flame.general_cosine_window,
      4, { 1, "2" })
    raises("nuttall_window: n = -1, need at least 0", flame.nuttall_window, -1)
    raises("no option 'sim'", flame.nuttall_window, 4, { sim = true })
  end)
end)

describe("numerical gradients", function()
  it("are exact for lines, and for parabolas with edge_order = 2", function()
    local x = flame.arange(0, 5, { dtype = "f64" })
    eq({ 2, 2, 2, 2, 2, 2 }, (x * 2):gradient()[1])
    eq({ 0, 2, 4, 6, 8, 10 }, (x * x):gradient({ edge_order = 2 })[1])
    eq({ 0.5, 1, 2, 3, 4, 4.5 }, (x * x):gradient({ spacing = 2 })[1])
    local at = d { 0, 1, 3, 3.5, 6, 7 }
    local want = (at * 2 + 1):totable()
    eq(want, (at * at + at):gradient({ spacing = { at }, edge_order = 2 })[1])
    local grid = x:reshape(2, 3)
    assert.equal(2, #grid:gradient())
    eq({ { 3, 3, 3 }, { 3, 3, 3 } }, grid:gradient({ dim = 1 })[1])
    raises("gradient: axis 1 has 2 elements, need 3", flame.gradient, d { 1, 2 },
      { edge_order = 2 })
  end)
  it("diff takes what stands before and behind", function()
    eq({ 1, 2, 5 }, d({ 1, 3 }):diff(1, 1, d { 0 }, d { 8 }))
    eq({ 5 }, d({ 1, 3 }):diff({ append = d { 10 }, n = 2 }))
  end)
end)

describe("statistics along an axis", function()
  it("mode is the most frequent value, the smaller of two", function()
    local v, i = ids({ { 3, 1, 3 }, { 2, 2, 1 }, { 5, 4, 6 } }):mode(2)
    assert.same({ 3, 2, 4 }, v:totable())
    assert.same({ 3, 2, 2 }, i:totable())
    v = ids({ { 3, 1, 3 }, { 3, 2, 1 } }):mode(1, { keepdim = true })
    assert.same({ { 3, 1, 1 } }, v:totable())
    raises("mode: axis 1 has no elements", flame.mode, flame.zeros(0))
  end)
  it("nanquantile leaves NaN out", function()
    local x = d { { 1, nan, 3 }, { nan, nan, nan } }
    local y = x:nanquantile(0.5, 2):totable()
    assert.equal(2, y[1])
    assert.is_true(y[2] ~= y[2])
    assert.equal(2.5, x:nanquantile(0.75):item())
    eq({ { 1 }, { 3 } }, x:narrow(1, 1, 1):nanquantile(d { 0, 1 }, 2))
  end)
  it("cov with weights is cov of repeated columns", function()
    local x = d { { 1, 2, 4 }, { 3, 1, 0 } }
    eq(d({ { 1, 2, 2, 4 }, { 3, 1, 1, 0 } }):cov():totable(), x:cov({ fweights = ids { 1, 2, 1 } }))
    eq(x:cov({ correction = 0 }):totable(), x:cov({ correction = 0, aweights = d { 2, 2, 2 } }))
  end)
end)

describe("ctc_loss", function()
  --- The CTC loss by definition: -log of the summed probability of all paths that spell the labels.
  local function all_paths(logits, labels, steps, blank)
    local classes, total = #logits[1], 0.0
    local path = {}
    local function spell()
      local out, last = {}, nil
      for k = 1, steps do
        if path[k] ~= last and path[k] ~= blank then out[#out + 1] = path[k] end
        last = path[k]
      end
      return table.concat(out, " ")
    end
    local want = table.concat(labels, " ")
    local function walk(k, p)
      if k > steps then
        if spell() == want then total = total + p end
        return
      end
      for c = 1, classes do
        path[k] = c
        walk(k + 1, p * math.exp(logits[k][c]))
      end
    end
    walk(1, 1.0)
    return -math.log(total)
  end
  local x = wave(5 * 2 * 3):reshape(5, 2, 3):log_softmax(3)
  it("sums over all paths", function()
    local rows = x:transpose(1, 2):totable()
    for _, case in ipairs { { { 2, 3 }, { 2 } }, { { 2, 2 }, { 3, 2 } }, { { 3 }, {} },
        { { 2, 3, 2 }, { 3, 3 } } } do
      local flat, lengths, want = {}, {}, {}
      for i, labels in ipairs(case) do
        for _, c in ipairs(labels) do flat[#flat + 1] = c end
        lengths[i], want[i] = #labels, all_paths(rows[i], labels, 5 - i + 1, 1)
      end
      local y = flame.ctc_loss(x, ids(flat), { 5, 4 }, lengths, { reduction = "none" })
      eq(want, y, 1e-9)
      eq(want[1] + want[2],
        flame.ctc_loss(x, ids(flat), ids { 5, 4 }, ids(lengths), 1, "sum"), 1e-9)
    end
    local y = flame.ctc_loss(x:select(2, 1), ids { 1, 2 }, { 5 }, { 2 },
      { blank = 3, reduction = "sum" })
    eq(all_paths(rows[1], { 1, 2 }, 5, 3), y, 1e-9)
  end)
  it("has a gradient, and no infinity when asked so", function()
    assert.is_true(flame.gradcheck(function(v)
      return flame.ctc_loss(v:log_softmax(3), ids { { 2, 2 }, { 3, 1 } }, { 5, 4 }, { 2, 1 })
    end,
      { wave(30):reshape(5, 2, 3) }))
    local y = wave(12):reshape(2, 2, 3):log_softmax(3):requires_grad_(true)
    assert.equal(math.huge,
      flame.ctc_loss(y, ids { { 2, 3, 2 }, { 2, 2, 2 } }, { 2, 2 }, { 3, 1 }):item())
    local l = flame.ctc_loss(y, ids { { 2, 3, 2 }, { 2, 2, 2 } }, { 2, 2 }, { 3, 1 },
      { zero_infinity = true })
    l:backward()
    assert.is_true(y.grad:isfinite():all():item())
  end)
  it("raises on lengths that do not fit", function()
    raises("ctc_loss: input_lengths[1] = 6, need 0 to 5", flame.ctc_loss, x, ids { 2, 2 },
      { 6, 5 }, { 1, 1 })
    raises("ctc_loss: target has 2 labels, target_lengths add up to 1", flame.ctc_loss, x,
      ids { 2, 2 }, { 5, 5 }, { 1, 0 })
    raises("ctc_loss: blank = 4, need 1 to 3", flame.ctc_loss, x, ids { 2, 2 }, { 5, 5 }, { 1, 1 },
      { blank = 4 })
  end)
end)

describe("losses over several labels", function()
  it("multilabel_margin_loss counts labels up to the first 0", function()
    local x, y = d { 0.1, 0.2, 0.4, 0.8 }, ids { 4, 1, 0, 2 }
    eq(0.25 * (1 - (0.1 - 0.2) + 1 - (0.1 - 0.4) + 1 - (0.8 - 0.2) + 1 - (0.8 - 0.4)),
      flame.multilabel_margin_loss(x, y))
    raises("multilabel_margin_loss: input has shape (4) and target (2)",
      flame.multilabel_margin_loss, x, ids { 1, 2 })
  end)
  it("triplet_margin_with_distance_loss takes any distance", function()
    local function far(a, b) return (a - b):abs():amax(-1) end
    local a, p, n = d { { 0, 0 } }, d { { 1, 2 } }, d { { 2, 2 } }
    eq(0.5,
      flame.triplet_margin_with_distance_loss(a, p, n, { distance_function = far, margin = 0.5 }))
    eq(1.5,
      flame.triplet_margin_with_distance_loss(a, p, n,
        { distance_function = far, margin = 0.5, swap = true }))
  end)
  it("binary_cross_entropy has PyTorch's slope where the input is 0 or 1", function()
    local x = d({ 0, 1, 0 }):requires_grad_(true)
    flame.binary_cross_entropy(x, d { 0, 1, 1 }, { reduction = "sum" }):backward()
    eq({ 0, 0, -1e12 }, x.grad)
  end)
  it("rms_norm adds the dtype's epsilon when none is given", function()
    local x = d { 1e-8, 2e-8 }
    eq((x / ((x * x):mean() + 2.0 ^ -52):sqrt()):totable(), x:rms_norm(2))
    local y = T { 1e-4, 2e-4 }
    assert.allclose((y / ((y * y):mean() + 2.0 ^ -23):sqrt()):totable(), y:rms_norm(2))
  end)
end)

describe("bilinear and bags of rows", function()
  it("bilinear is a sum over both inputs", function()
    local x, y, w = d { { 1, 2 } }, d { { 3, 4, 5 } }, wave(6):reshape(1, 2, 3)
    eq((x:t() * y * w[1]):sum():item() + 7, flame.bilinear(x, y, w, d { 7 }):item())
    raises("bilinear: x1 has shape (1, 2)", flame.bilinear, x, y, wave(8):reshape(2, 2, 2))
  end)
  it("embedding renorms, and scales gradients by frequency", function()
    local w = d { { 3, 4 }, { 0.3, 0.4 }, { 6, 8 } }
    local y = flame.embedding(ids { 1, 2 }, w, { max_norm = 1 })
    eq({ { 0.6, 0.8 }, { 0.3, 0.4 } }, y, 1e-6)
    eq({ { 0.6, 0.8 }, { 0.3, 0.4 }, { 6, 8 } }, w, 1e-6)
    local v = d({ { 1 }, { 2 } }):requires_grad_(true)
    flame.embedding(ids { 1, 1, 2, 1 }, v, { scale_grad_by_freq = true }):sum():backward()
    eq({ { 1 }, { 1 } }, v.grad)
  end)
  it("embedding_bag sums, averages and picks", function()
    local w = d { { 1, 5 }, { 2, 3 }, { 4, 0 } }
    local rows, list = ids { { 1, 2 }, { 3, 3 } }, ids { 1, 2, 3, 3 }
    eq({ { 1.5, 4 }, { 4, 0 } }, flame.embedding_bag(rows, w))
    eq({ { 3, 8 }, { 8, 0 } }, flame.embedding_bag(list, w, ids { 1, 3 }, { mode = "sum" }))
    eq({ { 2, 5 }, { 0, 0 }, { 4, 0 } },
      flame.embedding_bag(list, w, ids { 1, 3, 3 }, { mode = "max" }))
    eq({ { 2.5, 5.5 }, { 4, 0 } },
      flame.embedding_bag(rows, w,
        { mode = "sum", per_sample_weights = d { { 0.5, 1 }, { 1, 0 } } }))
    eq({ { 1, 5 }, { 4, 0 } }, flame.embedding_bag(rows, w, { padding_idx = 2 }))
    eq({ { 1, 5 }, { 2, 3 } },
      flame.embedding_bag(list, w, ids { 1, 2, 3 }, { mode = "sum", include_last_offset = true }))
    local short = flame.embedding_bag(rows, w * 1, { max_norm = 1, norm_type = 1, mode = "sum" })
    eq(short:totable(), flame.embedding_bag(rows, w * 1, nil, 1, 1, false, "sum"))
    local before = w:bytes()
    local two = { max_norm = 1, mode = "sum", per_sample_weights = d { 1, 2 } }
    raises("embedding_bag: per_sample_weights has shape (2) and ids (2, 2)",
      flame.embedding_bag, rows, w, two)
    assert.equal(before, w:bytes())
    raises("index_copy_: write to a view made by t", flame.embedding, rows, w:t(), { max_norm = 1 })
    raises("embedding_bag: offset 0 at position 1, need 1", flame.embedding_bag, list,
      w, ids { 0, 2 })
    raises("embedding_bag: offset 2 at position 3, need 3 to 5: offsets rise", flame.embedding_bag,
      list, w, ids { 1, 3, 2 })
    raises("embedding_bag: offset 6 at position 2, need 1 to 5: offsets rise", flame.embedding_bag,
      list, w, ids { 1, 6 })
    raises("embedding_bag: offsets has no elements, the first is 1", flame.embedding_bag,
      list, w, ids {})
    raises("embedding_bag: offsets has 0 axes, need 1", flame.embedding_bag, list, w, ids(1))
    raises("embedding_bag: offsets is f64, need integers", flame.embedding_bag, list, w, d { 1 })
    raises("embedding_bag: offsets are for ids of one axis", flame.embedding_bag,
      rows, w, ids { 1 })
    raises('embedding_bag: mode must be', flame.embedding_bag, rows, w, { mode = "min" })
  end)
end)

describe("LAPACK's forms", function()
  it("lu_factor packs L and U, lu_solve solves with them", function()
    local x = d { { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 10 } },
      { { 0, 1, 0 }, { 0, 0, 2 }, { 3, 0, 0 } } }
    local packed, pivots = flame.linalg.lu_factor(x)
    assert.equal("i32", pivots.dtype)
    assert.same({ { 3, 3, 3 }, { 3, 3, 3 } }, pivots:totable())
    local b = wave(12):reshape(2, 3, 2)
    eq(b:totable(), x:matmul(flame.linalg.lu_solve(packed, pivots, b)), 1e-9)
    eq(b:transpose(2, 3):totable(),
      flame.linalg.lu_solve(packed, pivots, b:transpose(2, 3), { left = false }):matmul(x), 1e-9)
    eq(flame.linalg.lu_solve(packed, pivots, b):totable(), flame.lu_solve(b, packed, pivots))
    local p2 = flame.lu(x)
    eq(packed:totable(), p2)
    assert.is_true(flame.gradcheck(function(v) return (flame.linalg.lu_factor(v)) end, { x[1] }))
  end)
  it("householder_product gives the Q of its reflections", function()
    local v, tau = d { { 1, 0 }, { 0.5, 1 }, { -2, 3 } }, d { 2 / (1 + 0.25 + 4), 2 / (1 + 9) }
    local q = flame.linalg.householder_product(v, tau)
    eq({ { 1, 0 }, { 0, 1 } }, q:t():matmul(q))
    local e = flame.eye(3, { dtype = "f64" })
    local one, two = d { { 1 }, { 0.5 }, { -2 } }, d { { 0 }, { 1 }, { 3 } }
    local h = (e - one:matmul(one:t()) * tau[1]):matmul(e - two:matmul(two:t()) * tau[2])
    eq(h:narrow(2, 1, 2):totable(), q)
    eq(q:totable(), flame.orgqr(v, tau))
    raises("householder_product: x has shape (2, 3)", flame.linalg.householder_product,
      flame.zeros(2, 3), tau)
  end)
end)

describe("convolve", function()
  it("is the sum of products by its definition, in each mode", function()
    for _ = 1, 30 do
      local n, m, rows = math.random(1, 7), math.random(1, 7), math.random(0, 3)
      local x, y = flame.randn(rows, n, { dtype = "f64" }), flame.randn(rows, m, { dtype = "f64" })
      local full, p, q = {}, x:totable(), y:totable()
      for r = 1, rows do
        full[r] = {}
        for k = 1, n + m - 1 do full[r][k] = 0.0 end
        for i = 1, n do
          for j = 1, m do full[r][i + j - 1] = full[r][i + j - 1] + p[r][i] * q[r][j] end
        end
      end
      local first = { full = 1, same = (m - 1) // 2 + 1, valid = math.min(n, m) }
      local size = { full = n + m - 1, same = n, valid = math.abs(n - m) + 1 }
      for mode, at in pairs(first) do
        local z = x:convolve(y, mode)
        assert.same({ rows, size[mode] }, z.shape)
        for r = 1, rows do
          for k = 1, size[mode] do
            assert.near(full[r][at + k - 1], z[r][k]:item(), 1e-12)
          end
        end
      end
    end
  end)

  it("needs the same leading axes, and elements", function()
    raises("convolve: x has shape (2, 3), y (3, 3)", flame.convolve, flame.ones(2, 3),
      flame.ones(3, 3))
    raises("convolve: x has shape (0), y (3)", flame.convolve, flame.ones(0), flame.ones(3))
  end)
end)
