--- Modules of a Clifford algebra; the file returns a function that adds them to flame.clifford. All
-- take and give (size, …, features), and commute with the algebra's versors (algebra:sandwich):
-- rotations, reflections and, in G(3,0,1), motions; with bias = "all" they do not. Weights are
-- normal, scaled so that the sums of a step have the variance of their inputs (Ruhe, Brandstetter,
-- Forré, "Clifford group equivariant neural networks", 2023); biases start at 0.
local flame = require "flame"
local nn = require "flame.nn"
local internal = flame.internal

return function(clifford, shared)
  local fail = shared.fail

  local function class(text, init) return internal.module_class(text, init, nil, clifford) end
  local call = internal.module_call
  local function positive(what, name, n)
    if n < 1 then fail(what, "%s is %d, need a positive integer", name, n) end
    return n
  end
  local function normal(shape, std, as) return nn.Parameter(flame.normal(shape, 0, std, as)) end

  --- Mixes features, with a matrix for each grade. weight (dims + 1, inputs, outputs), normal with
  --- deviation 1 / sqrt(inputs). bias (outputs) is added to the scalar part; bias = "all" adds it
  --- to every component, as flash-clifford's layer does, and the result is no longer equivariant;
  --- bias = false: none. "scalar" means true.
  class([[clifford.Linear(algebra: Algebra, inputs: int, outputs: int, *,
    bias: bool|"all"|"scalar" = true, device?: device, dtype?: dtype)]],
    function(self, algebra, inputs, outputs, bias, device, dtype)
    local as = { device = device, dtype = dtype }
    rawset(self, "algebra", algebra)
    self.in_features, self.out_features = positive("Linear", "inputs", inputs),
      positive("Linear", "outputs", outputs)
    self.bias_all = bias == "all"
    self.weight = normal({ algebra.dims + 1, inputs, outputs }, 1 / math.sqrt(inputs), as)
    if bias then self.bias = nn.Parameter(flame.zeros({ outputs }, as)) end
  end)
  call(clifford.Linear, "(x: T) -> T", function(self, x)
    return self.algebra:linear(x, self.weight, self.bias, self.bias_all)
  end)
  function clifford.Linear:extra()
    return ("%s, in_features=%d, out_features=%d, bias=%s"):format(tostring(self.algebra),
      self.in_features, self.out_features,
      self.bias_all and '"all"' or tostring(self.bias ~= nil))
  end

  --- The weighted geometric product of two inputs, layer(x, y), feature by feature. weight (#paths,
  --- features), normal with deviation 1 / sqrt(dims + 1).
  class([[clifford.GeometricProduct(algebra: Algebra, features: int, *, device?: device,
    dtype?: dtype)]], function(self, algebra, features, device, dtype)
    rawset(self, "algebra", algebra)
    self.features = positive("GeometricProduct", "features", features)
    self.weight = normal({ #algebra.paths, features }, 1 / math.sqrt(algebra.dims + 1),
      { device = device, dtype = dtype })
  end)
  call(clifford.GeometricProduct, "(x: T, y: T) -> T",
    function(self, x, y) return self.algebra:product(x, y, self.weight) end)
  function clifford.GeometricProduct:extra()
    return ("%s, features=%d"):format(tostring(self.algebra), self.features)
  end

  --- The fully connected geometric product of two inputs, layer(x, y). weight (#paths, inputs,
  --- outputs), normal with deviation 1 / sqrt(inputs (dims + 1)).
  class([[clifford.FullyConnectedProduct(algebra: Algebra, inputs: int, outputs: int, *,
    device?: device, dtype?: dtype)]], function(self, algebra, inputs, outputs, device, dtype)
    local name = "FullyConnectedProduct"
    rawset(self, "algebra", algebra)
    self.in_features, self.out_features = positive(name, "inputs", inputs),
      positive(name, "outputs", outputs)
    self.weight = normal({ #algebra.paths, inputs, outputs },
      1 / math.sqrt(inputs * (algebra.dims + 1)), { device = device, dtype = dtype })
  end)
  call(clifford.FullyConnectedProduct, "(x: T, y: T) -> T",
    function(self, x, y) return self.algebra:fully_connected(x, y, self.weight) end)
  function clifford.FullyConnectedProduct:extra()
    return ("%s, in_features=%d, out_features=%d"):format(tostring(self.algebra), self.in_features,
      self.out_features)
  end

  --- The module of algebra:gelu.
  class("clifford.GELU(algebra: Algebra)",
    function(self, algebra) rawset(self, "algebra", algebra) end)
  call(clifford.GELU, "(x: T) -> T", function(self, x) return self.algebra:gelu(x) end)
  function clifford.GELU:extra() return tostring(self.algebra) end

  --- The module of algebra:grade_norm.
  class("clifford.GradeNorm(algebra: Algebra, *, eps = 1e-6, device?: device, dtype?: dtype)",
    function(self, algebra, eps)
      rawset(self, "algebra", algebra)
      self.eps = eps
    end)
  call(clifford.GradeNorm, "(x: T) -> T",
    function(self, x) return self.algebra:grade_norm(x, self.eps) end)
  function clifford.GradeNorm:extra()
    return ("%s, eps=%g"):format(tostring(self.algebra), self.eps)
  end

  --- flash-clifford's layer, the product of gelu(x) and gelu(linear(x)), weighted or fully
  --- connected, and grade_norm. The number of features does not change. bias = "all" adds to every
  --- component, as in flash-clifford. Parameters: linear.weight (dims + 1, n, n), linear.bias (n),
  --- product.weight (#paths, n) or (#paths, n, n); in flash-clifford the weight of the product is
  --- (n, #paths).
  class([[clifford.Layer(algebra: Algebra, features: int, *, normalize = true,
    fully_connected = false, bias: bool|"all"|"scalar" = true, eps = 1e-6, device?: device,
    dtype?: dtype)]],
    function(self, algebra, features, normalize, fully_connected, bias, eps, device, dtype)
    positive("Layer", "features", features)
    rawset(self, "algebra", algebra)
    self.features, self.normalize, self.eps = features, normalize, eps
    local as = { device = device, dtype = dtype }
    self.linear = clifford.Linear(algebra, features, features,
      { bias = bias, device = device, dtype = dtype })
    if fully_connected then
      self.product = clifford.FullyConnectedProduct(algebra, features, features, as)
    else self.product = clifford.GeometricProduct(algebra, features, as) end
  end)
  call(clifford.Layer, "(x: T) -> T", function(self, x)
    local y = shared.gated_product(self.algebra, x, self.linear(x), self.product.weight)
    return self.normalize and self.algebra:grade_norm(y, self.eps) or y
  end)
  function clifford.Layer:extra()
    return ("%s, features=%d, normalize=%s"):format(tostring(self.algebra), self.features,
      self.normalize)
  end
end
