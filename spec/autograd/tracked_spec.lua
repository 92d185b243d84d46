--- No gradient is silently missing: every public function is called with f64 tensors, and its slope
-- along a direction of each tensor, by central differences, must be that of backward. A function
-- that returns floats and has no sample arguments here fails the spec, unless WITHOUT names it. A
-- function may also raise in backward. TRACKED_PART=2/8 tests every eighth function only, so that
-- eight processes can share the work.
local helper = require "spec.support.helper"
local flame = require "flame"
local D = { dtype = "f64" }
-- loads all functions of flame that are written in Lua, so that the lists below are complete
flame.internal.load()
local STEP = 1e-6

-- ---- arguments ----------------------------------------------------------------------------------
local function x(...) return flame.uniform({ ... }, 0.2, 0.9, D) end
local function ids(list) return flame.tensor(list, { dtype = "i64" }) end
local function mask(...) return flame.uniform({ ... }, 0, 1):gt(0.5) end

-- Sample arguments: most functions accept those of one of these makers.
local FORMS = {
  function() return x(3, 3) end, function() return x(3, 3), x(3, 3) end,
  function() return x(3, 3), x(3, 3), x(3, 3) end,
  function() return x(3, 3), 1 end, function() return x(3, 3), 2, 1 end,
  function() return x(3, 3), 1, 1, 1 end,
  function() return x(3, 3), 1, 2 end, function() return x(4) end, function() return x(4), x(4) end,
  function() return x(3), x(3, 3) end, function() return x(3, 3), x(3) end,
  function() return x(2, 3, 4) end,
  function() return x(2, 3, 4, 4) end, function() return x(2, 3, 4, 4), 2 end,
  function() return x(2, 3, 4, 4, 4) end,
  function() return x(2, 3, 4, 4, 4), 2 end, function() return x(2, 3, 8), 2 end,
  function() return x(2, 3, 4), x(2, 4, 3) end,
  function() return x(2, 3, 4, 4), x(2, 3, 2, 2) end, function() return x(2, 3, 4), x(2, 3, 2) end,
  function() return x(2, 3, 4, 4, 4), x(2, 3, 2, 2, 2) end,
  function() return x(3, 3), ids { 1, 2, 3 } end,
  function() return x(3, 3), 1, ids { 1, 2 } end,
  function() return x(3, 3), 1, ids { { 1, 2, 1 } }, x(1, 3) end,
  function() return x(3, 3), 1, ids { 1, 2 }, x(2, 3) end,
  function() return x(3, 3), 1, ids { 1, 2 }, 0.5 end,
  function() return x(3, 3), 1, ids { { 1, 2, 3 } } end, function() return { x(3, 3), x(3, 3) } end,
  function() return { x(3, 3), x(3, 3) }, 1 end, function() return x(3, 3), { 3, 3 } end,
  function() return x(3, 3), { 9 } end,
  function() return x(3, 3), { 2, 2 } end, function() return x(3, 3), 0.5 end,
  function() return x(3, 3), 0.1, 0.9 end,
  function() return mask(3, 3), x(3, 3), x(3, 3) end,
  function() return x(3, 3), mask(3, 3), 0.5 end,
  function() return x(3, 3), mask(3, 3) end, function() return ids { 1, 2 }, x(3, 3) end,
  function() return x(3, 3), { 1, 1, 1, 1 } end, function() return x(4, 2) end,
  function() return x(8) end,
  function() return x(3, 4), 3, 1 end, function() return x(3, 3), x() end,
}

-- Arguments of other functions.
local function affine() return x(2, 2, 3), { 2, 3, 4, 5 } end
local OWN = {
  ["linalg.svd"] = function() return x(3, 4), { full_matrices = false } end,
  ["linalg.pinv"] = function() return x(3, 4) end, pinverse = function() return x(3, 4) end,
  pca_lowrank = function() return x(6, 3), 2 end,
  addbmm = function() return x(3, 3), x(2, 3, 4), x(2, 4, 3) end,
  addmv = function() return x(3), x(3, 4), x(4) end,
  addr = function() return x(3, 4), x(3), x(4) end, affine_grid = affine,
  as_strided = function() return x(3, 3), { 2, 2 }, { 1, 2 } end,
  as_strided_scatter = function() return x(3, 3), x(2, 2), { 2, 2 }, { 1, 2 } end,
  batch_norm = function() return x(4, 3), nil, nil, x(3), x(3), { training = true } end,
  bilinear = function() return x(2, 3), x(2, 4), x(5, 3, 4), x(5) end,
  channel_shuffle = function() return x(2, 4, 3), 2 end,
  col2im = function() return x(1, 4, 9), { 4, 4 }, 2 end,
  fold = function() return x(1, 4, 9), { 4, 4 }, 2 end,
  conv_transpose1d = function() return x(2, 3, 4), x(3, 2, 2), x(2) end,
  conv_transpose2d = function() return x(2, 3, 4, 4), x(3, 2, 2, 2), x(2) end,
  conv_transpose3d = function() return x(2, 3, 2, 2, 2), x(3, 2, 2, 2, 2), x(2) end,
  convolve = function() return x(2, 5), x(2, 3) end,
  cosine_embedding_loss = function() return x(2, 3), x(2, 3), flame.tensor { 1, -1 } end,
  ctc_loss = function()
    return x(5, 2, 4):log_softmax(3), ids { { 2, 3 }, { 2, 2 } }, ids { 5, 5 }, ids { 2, 2 }
  end,
  einsum = function() return "ij,jk->ik", x(2, 3), x(3, 4) end,
  ["linalg.einsum"] = function() return "ij,jk->ik", x(2, 3), x(3, 4) end,
  embedding_bag = function() return ids { { 1, 2 }, { 3, 1 } }, x(3, 4) end,
  fft2 = function() return x(3, 4, 2) end, ifft2 = function() return x(3, 4, 2) end,
  irfft2 = function() return x(3, 4, 2) end, hfft2 = function() return x(3, 4, 2) end,
  fractional_max_pool2d = function() return x(1, 2, 6, 6), 2, { output_size = 3 } end,
  fractional_max_pool3d = function() return x(1, 2, 6, 6, 6), 2, { output_size = 3 } end,
  index_put = function() return x(3, 3), { ids { 1, 2 } }, x(2, 3) end,
  index_reduce = function() return x(3, 3), 1, ids { 1, 2 }, x(2, 3), "mean" end,
  istft = function() return x(5, 4, 2), 8, { hop_length = 2 } end,
  lp_pool2d = function() return x(1, 2, 4, 4), 2, 2 end,
  lp_pool3d = function() return x(1, 2, 4, 4, 4), 2, 2 end, lu_solve = function()
    local lu, pivots = flame.linalg.lu_factor(x(3, 3))
    return x(3, 2), lu, pivots
  end,
  ["linalg.lu_solve"] = function()
    local lu, pivots = flame.linalg.lu_factor(x(3, 3))
    return lu, pivots, x(3, 2)
  end,
  ["linalg.ldl_solve"] = function()
    local a = x(3, 3)
    local ld, pivots = flame.linalg.ldl_factor(a + a.T)
    return ld, pivots, x(3, 2)
  end,
  masked_scatter = function() return x(3, 3), mask(3, 3), x(9) end,
  max_unpool1d = function() return x(1, 1, 2), ids { { { 1, 4 } } }, 2 end,
  max_unpool2d = function() return x(1, 1, 1, 2), ids { { { { 1, 4 } } } }, 2 end,
  max_unpool3d = function() return x(1, 1, 1, 1, 2), ids { { { { { 1, 4 } } } } }, 2 end,
  ormqr = function()
    local a, tau = flame.geqrf(x(3, 3))
    return a, tau, x(3, 3)
  end, polygamma = function() return 1, x(3) end,
  ["special.polygamma"] = function() return 1, x(3) end,
  put = function() return x(3, 3), ids { 1, 2 }, x(2) end,
  rearrange = function() return x(2, 3), "a b -> b a" end,
  scatter_reduce = function() return x(3, 3), 1, ids { { 1, 2, 1 } }, x(1, 3), "sum" end,
  segment_reduce = function() return x(4), "mean", { lengths = ids { 1, 3 } } end,
  select_scatter = function() return x(3, 3), x(3), 1, 2 end,
  unflatten = function() return x(6), 1, { 2, 3 } end,
  vmap = function() return x(3, 2) end,
  checkpoint = function() return function(v) return v * v end, x(3) end,
  functional_call = function()
    local net = flame.nn.Linear(3, 2)
    return net, { weight = x(2, 3), bias = x(2) }, x(1, 3)
  end,
  scaled_dot_product_attention = function()
    return x(1, 2, 3, 4), x(1, 2, 5, 4), x(1, 2, 5, 4), { attn_mask = x(3, 5) }
  end,
  lstsq = function() return x(4, 2), x(4, 2), { driver = "gelsd" } end,
  ["linalg.lstsq"] = function() return x(4, 2), x(4), { driver = "gelss" } end,
}

-- Functions that take no tensor of floats, or whose results are not computed from its values.
local WITHOUT = {}
for name in ([[allclose arange autocast backward bartlett_window bench backward_trace best_device bincount bitwise_and
  bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window
  bisect broadcast_shapes bytes can_cast compare cosine_window cuda debug default_device default_dtype
  tf32 deterministic device dim edit_distance element_size empty empty_cache enable_grad equal exponential_window export eye
  flamegraph region
  fftfreq from_bytes full func gaussian_window gcd general_cosine_window general_hamming_window generate
  get_default_device get_default_dtype get_rng_state grad gradcheck gradients gradients_table graph hamming_window
  hann_window has help hessian hvp inference_mode info is_complex is_contiguous is_floating_point
  is_grad_enabled is_nonzero is_same_size is_signed is_tensor item jacobian jvp kaiser_window kernel kernel_file
  kernel_cache last_error lcm leakcheck linspace load logspace manual_seed map memory nbytes
  ndimension nelement no_grad numel nuttall_window one_hot ones profile program promote_types rand randint
  randn randperm register_hook result_type rfftfreq rng_state sandbox save scalar_tensor scope seed
  set_default_device set_default_dtype set_grad_enabled set_rng_state size stats stride summary why
  synchronize tensor timer tolist totable tril_indices triu_indices uniform unravel_index use
  from_dlpack to_dlpack keep reload value_and_grad vhp vjp warmup zeros free]]):gmatch "%S+" do
  WITHOUT[name] = "no float in" end
for name in ([[all any argmax argmin argsort argwhere bool bucketize byte char count_nonzero eq ge
  greater greater_equal gt int isclose isfinite isin isinf isnan isneginf isposinf isreal le less
  less_equal linalg.matrix_rank logical_and logical_not logical_or logical_xor long lt multinomial
  ne nonzero not_equal retain_grad searchsorted short signbit]]):gmatch "%S+" do
  WITHOUT[name] = "no float out"
end

-- Functions that have no gradient although their results depend on their arguments, and why.
local DETACHED = { detach = "what it is for", normal = "a draw",
  new_tensor = "a copy that no tape sees" }
-- Functions that round to a narrower dtype: a difference over a small step is only rounding error.
local ROUNDED = { bfloat16 = true, float = true, half = true }

-- eigh and cholesky read one triangle, as of a symmetric matrix: tested as functions of a + a'.
local function of_symmetric(f) return function(a, ...) return f(a + a.mT, ...) end end
local function of_positive(f)
  return function(a, ...) return f(a:matmul(a.mT) + flame.eye(a.shape[a.ndim], D), ...) end
end
local THROUGH = { eigh = of_symmetric, ["linalg.eigh"] = of_symmetric,
  ["linalg.eigvalsh"] = of_symmetric, cholesky = of_positive,
  ["linalg.cholesky"] = of_positive, ["linalg.cholesky_ex"] = of_positive,
  vmap = function(vmap) return vmap(function(v) return v * v end) end }

local function functions()
  local all, names = {}, {}
  for name, f in pairs(flame.internal.methods) do
    if type(f) == "function" then all[name] = f end
  end
  for name, f in pairs(flame) do if type(f) == "function" then all[name] = f end end
  for _, group in ipairs { "linalg", "special" } do
    for name, f in pairs(flame[group]) do
      if type(f) == "function" then all[group .. "." .. name] = f end
    end
  end
  for name in pairs(all) do
    if not name:find "_$" and not name:find "^_" then names[#names + 1] = name end
  end
  table.sort(names)
  return all, names
end

-- ---- slopes -------------------------------------------------------------------------------------
local function each_float(v, f)
  if flame.is_tensor(v) then
    if v:is_floating_point() and v:numel() > 0 then f(v) end
  elseif type(v) == "table" and getmetatable(v) == nil then
    local keys = {}
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, k in ipairs(keys) do each_float(v[k], f) end
  end
end
local function wave(n, phase) return (flame.arange(1.0, n, D) * 0.7 + phase):cos() end

--- A weighted sum (a scalar tensor) of all float tensors that f(args) returns; nil without any.
local function total(f, args)
  flame.seed(7)
  local results, sum, k = table.pack(f(table.unpack(args, 1, args.n))), nil, 0
  for i = 1, results.n do
    each_float(results[i], function(y)
      k = k + 1
      local part = (y:reshape(-1):double() * wave(y:numel(), k):to(y.device)):sum()
        :to(flame.default_device())
      sum = sum and sum + part or part
    end)
  end
  return sum
end

-- A function f for each f64 tensor in args or in a table in args: f() is the tensor, f(v) sets it.
local function places(args)
  local list = {}
  for i = 1, args.n do
    if flame.is_tensor(args[i]) then
      if args[i].dtype == "f64" then
        list[#list + 1] = function(v) local old = args[i] args[i] = v or old return old end
      end
    elseif type(args[i]) == "table" then
      for k, v in pairs(args[i]) do
        if flame.is_tensor(v) and v.dtype == "f64" then
          list[#list + 1] = function(new)
            local old = args[i][k]
            args[i][k] = new or old
            return old
          end
        end
      end
    end
  end
  return list
end

--- The slope of total(f, args) along a fixed direction of the tensor at 'place' (a function of
--- 'places'): by central differences, and by backward, or "refused" if backward raises.
local function slopes(f, args, place)
  local at = place()
  local along = wave(at:numel(), 0.3):reshape(at.shape)
  local function value(step)
    place(at + along * step)
    return total(f, args):item()
  end
  local numeric = (value(STEP) - value(-STEP)) / (2 * STEP)
  local leaf = at:detach():requires_grad_()
  place(leaf)
  local y = total(f, args)
  place(at)
  if not y.requires_grad then return numeric, 0 end
  local ok, g = pcall(function() return y:gradients({ leaf }, { allow_unused = true })[leaf] end)
  if not ok then return numeric, "refused" end
  return numeric, g and (g * along):sum():item() or 0
end

local function missing(name, f, make)
  local args = table.pack(make())
  flame.seed(7)
  local ok, y = pcall(total, f, args)
  if not ok or y == nil or not pcall(y.item, y) then return nil end
  local wrong = {}
  for k, place in ipairs(places(args)) do
    local numeric, analytic = slopes(f, args, place)
    if analytic ~= "refused" and numeric == numeric
        and math.abs(numeric - analytic) > 1e-4 * (1 + math.abs(numeric)) then
      wrong[#wrong + 1] = ("%s, tensor %d: the slope is %.6g, by the tape %.6g"):format(name, k,
        numeric, analytic)
    end
  end
  return wrong
end

local part, parts = (os.getenv("TRACKED_PART") or "1/1"):match("(%d+)/(%d+)")

describe("every public function", function()
  local all, names = functions()
  local checked = 0
  it("has the gradient that its values have", function()
    local wrong, unknown = {}, {}
    for k, name in ipairs(names) do
      if k % parts == part % parts and not WITHOUT[name] and not DETACHED[name]
          and not ROUNDED[name] then
        local f = THROUGH[name] and THROUGH[name](all[name]) or all[name]
        flame.seed(3)
        local met = false
        for _, make in ipairs(OWN[name] and { OWN[name] } or FORMS) do
          local found = missing(name, f, make)
          met = met or found ~= nil
          wrong[#wrong + 1] = found and found[1]
        end
        checked = checked + (met and 1 or 0)
        if not met then unknown[#unknown + 1] = name end
      end
    end
    assert.same({}, wrong)
    assert.same({}, unknown)
    assert.is_true(checked > 350 // parts - 10, checked)
  end)
  it("that follows its arguments without a gradient refuses to go backward", function()
    local a = x(3, 3)
    local s = a + a.T
    local ld, pivots = flame.linalg.ldl_factor(s)
    local refusing = { { "unique", a }, { "unique_consecutive", a }, { "unique", a, { dim = 1 } },
      { "nextafter", a, x(3, 3) },
      { "igamma", a, 1 }, { "igammac", a, 0.5 }, { "histogram", a, 3 }, { "histogramdd", a, 2 },
      { "linalg.ldl_factor", s },
      { "linalg.ldl_factor_ex", s }, { "linalg.ldl_solve", ld, pivots, a } }
    for _, c in ipairs(refusing) do
      local f, args = all[c[1]], { table.unpack(c, 2) }
      for i, v in ipairs(args) do
        if flame.is_tensor(v) and v:is_floating_point() then
          args[i] = v:detach():requires_grad_()
        end
      end
      local y = f(table.unpack(args))
      local plain = flame.no_grad(f, table.unpack(args))
      assert.is_true(flame.equal(plain, y:detach()), c[1])
      assert.is_false(plain.requires_grad)
      helper.raises(c[1]:match "[%w_]+$" .. ": it has no gradient here",
        function() y:sum():backward() end)
    end
    local v = x(3):requires_grad_()
    flame.igamma(2, v):sum():backward()
    assert.equal(3, #v.grad)
  end)
  it("that has none in silence is known", function()
    for name in pairs(DETACHED) do assert.is_function(all[name], name) end
    for name in pairs(OWN) do assert.is_function(all[name], name) end
    for name, why in pairs(WITHOUT) do
      local f, out = assert(all[name], name .. " is no function"), nil
      if why == "no float out" then
        for _, make in ipairs(FORMS) do
          local got = table.pack(pcall(f, make()))
          if got[1] then
            for k = 2, got.n do each_float(got[k], function() out = name .. " gives floats" end) end
          end
        end
      end
      assert.is_nil(out)
    end
    assert.is_false(flame.normal(x(3):requires_grad_(), 1).requires_grad)
    for name in pairs(ROUNDED) do
      assert.is_true(all[name](x(3):requires_grad_()).requires_grad, name)
    end
  end)
end)
