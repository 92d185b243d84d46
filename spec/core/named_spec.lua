--- Scripts in the style of PyTorch: arguments by name, PyTorch's names of dtypes and constants,
--- states of recurrent layers passed from call to call.
local raises = require("spec.support.helper").raises
local flame, nn = require "flame", require "flame.nn"

local x = flame.arange(24.0):reshape(2, 3, 4)
local function same(a, b) return assert.same(b:totable(), a:totable()) end

describe("arguments by name", function()
  it("reach norm behind the order", function()
    same(x:norm(2, { dim = 2 }), x:norm(2, 2))
    same(x:norm(1, { dim = { 1, 3 }, keepdim = true }), x:norm(1, { 1, 3 }, true))
    same(x:norm { p = "fro", dim = 3 }, x:norm(2, 3))
    assert.equal("f64", x:norm(2, 1, { dtype = "f64" }).dtype)
    raises("norm: no option 'axis'", flame.norm, x, 2, { axis = 1 })
  end)
  it("reach functions of shapes, which take nothing else by name", function()
    assert.same({ 2, 3 }, flame.ones(2, 1, 3):squeeze({ dim = 2 }).shape)
    assert.same({ 4, 3, 2 }, x:transpose({ dim0 = 1, dim1 = 3 }).shape)
    same(x:narrow(2, { start = 2, length = 2 }), x:narrow(2, 2, 2))
    same(x:select { dim = -1, index = 2 }, x:select(3, 2))
    same(x:unfold(3, { size = 2, step = 1 }), x:unfold(3, 2, 1))
    assert.same({ 2, 3, 2, 2 }, x:unflatten({ dim = 3, sizes = { 2, 2 } }).shape)
    assert.same({ 3, 4, 2 }, x:movedim({ source = 1, destination = -1 }).shape)
    assert.same({ 2, 3, 8 }, x:tile({ dims = { 2 } }).shape)
    same(x:rot90(1, { dims = { 2, 3 } }), x:rot90(1, { 2, 3 }))
    raises("movedim: no option 'to', there is: source destination", flame.movedim, x, 1, { to = 2 })
    raises("squeeze: no option 'axis', there is: dim", flame.squeeze, x, { axis = 1 })
  end)
  it("reach what PyTorch has no default for", function()
    same(x:topk { k = 2, dim = 1, largest = false }, x:topk(2, 1, false))
    same(x:kthvalue { k = 2 }, x:kthvalue(2))
    same(x:quantile { q = 0.5, dim = 1 }, x:quantile(0.5, 1))
    same(x:roll { shifts = 1, dims = 2 }, x:roll(1, 2))
    same(x:repeat_interleave { repeats = 2, dim = 1 }, x:repeat_interleave(2, 1))
    same(x:repeat_interleave { repeats = 2, dim = 1, output_size = 2 * #x },
      x:repeat_interleave(2, 1))
    same(x:repeat_interleave(2, { dim = 1 }), x:repeat_interleave(2, 1))
    same(x:cumsum { dim = 1, dtype = "f64" }, x:cumsum(1, { dtype = "f64" }))
    same(flame.constant_pad_nd(x, { 1, 1 }, { value = 2 }), flame.constant_pad_nd(x, { 1, 1 }, 2))
    same(x:renorm(2, { dim = 1, maxnorm = 5 }), x:renorm(2, 1, 5))
    same(x:threshold(3, { value = 0 }), x:threshold(3, 0))
    same(x:clamp(3, { max = 9 }), x:clamp(3, 9))
    local at = flame.tensor({ 2, 1, 2 }, { dtype = "i64" })
    same(x:index_select(2, { index = at }), x:index_select(2, at))
    local v, y = flame.tensor({ 1, 2, 4 }), flame.zeros(2)
    same(y:scatter_reduce(1, at, v, { reduce = "amax", include_self = false }),
      y:scatter_reduce(1, at, v, "amax"))
    y:index_reduce_(1, at, v, { reduce = "mean", include_self = false })
    assert.same({ 2, 2.5 }, y:totable())
  end)
  it("reach constructors of modules", function()
    assert.same({ 3, 2 },
      nn.Linear({ in_features = 2, out_features = 3, bias = false }).weight.shape)
    assert.same({ 2, 1, 3, 3 }, nn.Conv2d(1, 2, { kernel_size = 3, padding = 1 }).weight.shape)
    for name, o in pairs { LSTM = { input_size = 2, hidden_size = 3 },
      GRUCell = { input_size = 2, hidden_size = 3 }, BatchNorm2d = { num_features = 3, eps = 1e-3 },
      LayerNorm = { normalized_shape = { 4 } },
      MultiheadAttention = { embed_dim = 4, num_heads = 2 },
      TransformerEncoderLayer = { d_model = 4, nhead = 2 },
      Embedding = { num_embeddings = 3, embedding_dim = 2 },
      GroupNorm = { num_groups = 2, num_channels = 4 }, AvgPool2d = { kernel_size = 2 },
      AdaptiveAvgPool2d = { output_size = 1 } } do
      assert.is_true(nn[name](o).training, name)
    end
    raises("Linear: no option 'in_feature', there is: in_features out_features bias device dtype",
      nn.Linear, { in_feature = 2, out_features = 3 })
    raises("Linear: out_features must be an integer, got nothing", nn.Linear, { in_features = 2 })
    local Own = nn.Module.extend("Linear")
    function Own:init(o) self.given = o end
    local own = Own { in_features = 2 }
    assert.same({ in_features = 2 }, own.given)
  end)
  it("are given once, and are what they should be", function()
    raises("norm: p is given by position and by name", flame.norm, x, 2, { p = 3 })
    raises("sort: descending must be true or false, got number", flame.sort, x, 1,
      { descending = 0 })
    raises("vector_norm: keepdim must be true or false, got string", flame.linalg.vector_norm, x,
      { keepdim = "yes" })
    raises("cholesky: upper must be true or false, got number", flame.cholesky, flame.eye(2),
      { upper = 1 })
    raises("nan_to_num: no option 'zero'", flame.nan_to_num,
      flame.tensor({ 1 }, { dtype = "i64" }), { zero = 1 })
    raises("as_tensor: no option 'type'", flame.as_tensor, x, { type = "f64" })
    assert.equal("f64", flame.as_tensor(x, { dtype = "f64", device = "cpu" }).dtype)
  end)
  it("are no part of a list of tensors", function()
    raises("cat: tensors must be a list of tensors, got table with names", flame.cat,
      { x, x, dim = 2 })
    raises("stack: tensors must be a list of tensors, got table with names", flame.stack,
      { x, x, dim = 2 })
  end)
end)

describe("words of PyTorch", function()
  it("name the dtypes and the constants", function()
    assert.equal("f64", flame.zeros(1, { dtype = flame.float64 }).dtype)
    assert.equal("i64", x:to(flame.long).dtype)
    for name, dtype in pairs { double = "f64", float32 = "f32", float = "f32", half = "f16",
      float16 = "f16", bfloat16 = "bf16", int64 = "i64", int32 = "i32", int = "i32", int16 = "i16",
      short = "i16", int8 = "i8", uint8 = "u8", bool = "bool" } do
      assert.equal(dtype, flame[name])
    end
    assert.equal(math.pi, flame.pi)
    assert.equal(1, math.log(flame.e))
    assert.equal(math.huge, flame.inf)
    assert.is_true(flame.nan ~= flame.nan)
  end)
  it("set the dtype of what names none", function()
    local before = flame.get_default_dtype()
    assert.equal("f32", before)
    assert.has_error(function() flame.get_default_dtype("bf16") end)
    assert.has_error(function() flame.get_default_device("cpu") end)
    flame.set_default_dtype("f64")
    local made = { flame.zeros(2), flame.tensor({ 1 }), flame.full({ 1 }, 2), flame.eye(2),
      flame.arange(3.0), flame.linspace(0, 1, 3), flame.randn(2), nn.Linear(2, 2).weight,
      nn.BatchNorm1d(2).running_mean, flame.hann_window(4), flame.rand(1) }
    local kept = { flame.tensor({ true }), flame.zeros_like(x), flame.randperm(3),
      nn.Linear(2, 2, { dtype = "f32" }).weight }
    flame.set_default_dtype("f32")
    for i, t in ipairs(made) do assert.equal("f64", t.dtype, i) end
    for i, dtype in ipairs { "bool", "f32", "i64", "f32" } do assert.equal(dtype, kept[i].dtype) end
    assert.equal("f32", flame.default_dtype())
    raises("default_dtype: dtype must be a float, got i64", flame.default_dtype, "i64")
  end)
  it("switch gradients off and on", function()
    flame.inference_mode(function() assert.is_false(flame.is_grad_enabled()) end)
    flame.set_grad_enabled(false, function()
      assert.is_false(flame.is_grad_enabled())
      flame.set_grad_enabled(true, function() assert.is_true(flame.is_grad_enabled()) end)
    end)
    local state = flame.get_rng_state()
    local a = flame.randn(2)
    flame.set_rng_state(state)
    same(flame.randn(2), a)
    assert.equal(flame.cuda.available(), (flame.cuda.is_available()))
    assert.equal(flame.cuda.count(), (flame.cuda.device_count()))
  end)
  it("give gradients as a list", function()
    local tracked = { requires_grad = true }
    local a, b, c = flame.tensor({ 1, 2 }, tracked), flame.tensor({ 3, 4 }, tracked),
      flame.ones(1, tracked)
    local g = flame.autograd.grad(a * b, { a, b }, { grad_outputs = flame.tensor { 1, 10 } })
    assert.same({ { 3, 40 }, { 1, 20 } }, { g[1]:totable(), g[2]:totable() })
    local twice = flame.autograd.grad((a ^ 3):sum(), a, { create_graph = true })[1]
    assert.same({ 6, 12 }, flame.autograd.grad(twice:sum(), a)[1]:totable())
    g = flame.autograd.grad({ a * 2, b }, { a, b, c }, { flame.ones(2), flame.full({ 2 }, 5) },
      { allow_unused = true })
    assert.same({ { 2, 2 }, { 5, 5 } }, { g[1]:totable(), g[2]:totable() })
    assert.is_nil(g[3])
    raises("input 1 is not on a path", flame.autograd.grad, (a * 2):sum(), c)
    local grad = flame.autograd.grad
    raises("autograd.grad: inputs must be a tensor or a list of tensors, got number", grad,
      (a * 2):sum(), 1)
    raises("autograd.grad: outputs must be a tensor or a list of tensors, got nothing", grad)
    raises("autograd.grad: outputs[2] must be a tensor, got number", grad, { a, 1 }, a)
    raises("autograd.grad: the tensor has shape (2), not one element: reduce it", grad,
      { a * 2, b * 2 }, a)
    raises("autograd.grad: the seed has shape (1) and the tensor (2)", grad, { a * 2, b }, a,
      { flame.ones(2), flame.ones(1) })
    raises("autograd.grad: 1 grad_outputs for 2 outputs", grad, { a * 2, b }, a,
      { grad_outputs = flame.ones(2) })
  end)
  it("that mean something else here are told what to write", function()
    local function read(name) return function() return x[name] end end
    raises("a tensor has no field 'data': x:detach() is its value", read "data")
    raises("a tensor has no field 'numpy': x:totable() is a table", read "numpy")
    raises("a tensor has no field 'repeat': a word of Lua: x:tile(…)", read "repeat")
    raises("a tensor has no field 'grad_fn': flame.graph(x)", read "grad_fn")
  end)
  it("find functions where PyTorch has them", function()
    assert.equal(nn, flame.nn)
    assert.equal(require "flame.optim", flame.optim)
    assert.equal(require "flame.data", flame.data)
    assert.same({ "cuda:1", "cpu" }, { flame.device("cuda", 1), flame.device("cpu") })
    raises('device: "cuda:-1" is no device; there are "cpu", "cuda" and "cuda:0" to',
      flame.device, "cuda", -1)
    assert.equal(flame.default_device(), flame.get_default_device())
    raises('default_device: device must be a device ("cpu", "cuda", "cuda:1"), got string \'gpu\'',
      flame.set_default_device, "gpu")
    raises("randint: the shape comes first: randint(shape, low, high)", flame.randint, 0, 10, { 2 })
    raises("rrelu: lower = 0.3 is above upper = 0.1", flame.rrelu, x, { lower = 0.3, upper = 0.1 })
    assert.equal(flame.relu, nn.functional.relu)
    assert.equal(nn.utils.pad_sequence, nn.utils.rnn.pad_sequence)
    same(nn.ReLU(true)(flame.tensor { -1, 2 }), flame.tensor { 0, 2 })
    same(nn.LeakyReLU(0.5, true)(flame.tensor { -1, 2 }), flame.tensor { -0.5, 2 })
  end)
end)

describe("a module's state", function()
  it("leaves out a buffer that is not persistent", function()
    local m = nn.Identity()
    m:register_buffer("mask", flame.ones(2), { persistent = false })
    m:register_buffer("mean", flame.ones(2), { persistent = true })
    assert.is_nil(m:state_dict().mask)
    assert.is_truthy(m:state_dict().mean)
    assert.is_false(nn.Parameter(flame.ones(2), { requires_grad = false }).requires_grad)
    raises("Buffer: no option 'saved'", nn.Buffer, flame.ones(2), { saved = true })
    raises("Buffer: persistent must be true or false, got string", nn.Buffer, flame.ones(2), "no")
    raises("Parameter: requires_grad must be true or false, got number", nn.Parameter,
      flame.ones(2), { requires_grad = 0 })
  end)
  it("takes tensors as parameters by name", function()
    assert.is_true(nn.ParameterDict({ a = flame.ones(2) }).a.requires_grad)
    raises("ParameterDict: a is a number, need a Parameter", nn.ParameterDict, { a = 1 })
  end)
  it("shows its gradients to a backward hook, which may replace those of the arguments", function()
    local layer, seen = nn.Linear(2, 3), {}
    local hook = layer:register_full_backward_hook(function(module, gi, go)
      seen[#seen + 1] = { module == layer, gi[1] and gi[1]:totable(), go[1]:totable() }
      return gi[1] and { gi[1] * 10 }
    end)
    local v = flame.ones(1, 2, { requires_grad = true })
    local plain = flame.ones(1, 3):matmul(layer.weight:detach())
    layer(v):sum():backward()
    same(v.grad, plain * 10)
    layer(flame.ones(1, 2)):sum():backward()
    assert.same({ { true, plain:totable(), { { 1, 1, 1 } } }, { true, false, { { 1, 1, 1 } } } },
      seen)
    hook:remove()
    v.grad = nil
    layer(v):sum():backward()
    same(v.grad, plain)
    assert.equal(2, #seen)
  end)
  it("hands a backward hook the gradients of all arguments at once, and takes each back", function()
    local layer, seen, give = nn.Bilinear(2, 3, 1), {}, nil
    layer:register_full_backward_hook(function(_, gi)
      seen[#seen + 1] = { gi[1]:totable(), gi[2]:totable() }
      return give and give(gi)
    end)
    local function gradients()
      local a, b = flame.tensor({ { 1, 2 } }, { requires_grad = true }),
        flame.tensor({ { 3, 4, 5 } }, { requires_grad = true })
      layer(a, b):sum():backward()
      return a.grad, b.grad
    end
    local a, b = gradients()
    assert.same({ { a:totable(), b:totable() } }, seen)
    give = function(gi) return { gi[1] * 10, gi[2] * 100 } end
    local a10, b100 = gradients()
    same(a * 10, a10)
    same(b * 100, b100)
    give = function(gi) return { nil, gi[2] * 0 } end
    local a1, b0 = gradients()
    same(a, a1)
    same(b * 0, b0)
    assert.equal(3, #seen)
    give = function() return { flame.ones(2) } end
    raises("Bilinear: gradient 1 of a backward hook has shape (2), its argument (1, 2)", gradients)
    give = function() return { 1 } end
    raises("Bilinear: gradient 1 of a backward hook must be a tensor, got number", gradients)
    give = function(gi) return gi[1] end
    raises("Bilinear: a backward hook returns a list with a gradient for each argument, or nothing; got a tensor", gradients)
    raises("register_full_backward_hook: f must be a function, got nothing",
      layer.register_full_backward_hook, layer)
  end)
  it("calls a backward hook once where an argument has no part in the result", function()
    local First, calls = nn.Module.extend("First"), 0
    function First:forward(a, b, word) return word == "both" and a * b or a * 2 end
    local m = First()
    m:register_full_backward_hook(function(_, gi, go)
      calls = calls + 1
      assert.same({ 3, { 2, 2 }, { 0, 0 }, false },
        { #gi, gi[1]:totable(), gi[2]:totable(), gi[3] })
      assert.same({ 1, 1 }, go[1]:totable())
      assert.equal("f64", gi[2].dtype)
    end)
    local a, b = flame.ones(2, { requires_grad = true }),
      flame.ones(2, { dtype = "f64", requires_grad = true })
    m(a, b, "one"):sum():backward()
    assert.equal(1, calls)
    assert.same({ 2, 2 }, a.grad:totable())
    assert.equal("f64", m(a, b, "both").dtype)
  end)
  it("of an LSTM is two tensors", function()
    local lstm, cell, v = nn.LSTM(2, 3), nn.LSTMCell(2, 3), flame.ones(4, 1, 2)
    local y, h, c = lstm(v)
    raises("LSTM: h0 without c0", lstm, v, h)
    same((lstm(v, h, c)), (lstm(v, { h, c })))
    assert.same({ 4, 1, 3 }, y.shape)
    local hx, cx = cell(v[1])
    raises("LSTMCell: h without c", cell, v[1], hx)
    same((cell(v[1], hx, cx)), (cell(v[1], { hx, cx })))
  end)
end)
