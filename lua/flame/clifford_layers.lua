--- Modules of a Clifford algebra. Given the table of flame.clifford, adds to it. All take and give
-- (size, …, features), and all commute with the algebra's versors (algebra:sandwich): rotations,
-- reflections and, in G(3,0,1), motions; those with bias = "all" do not. Weights start normal,
-- scaled so that the sums of a step have the variance of their inputs (Ruhe, Brandstetter, Forré,
-- "Clifford group equivariant neural networks", 2023); biases start at 0.
local flame = require "flame"
local nn = require "flame.nn"
local internal = flame.internal

return function(clifford, shared)
  local fail, Module = shared.fail, nn.Module

  local function need_algebra(what, a)
    if getmetatable(a) ~= clifford.Algebra then
      fail(what, "need an algebra, as clifford.algebra(3), got %s", internal.word(a))
    end
    return a
  end
  local function positive(what, name, n)
    if math.type(n) ~= "integer" or n < 1 then
      fail(what, "%s is %s, need a positive integer", name, tostring(n))
    end
    return n
  end
  local function options(what, o, known)
    if o ~= nil and type(o) ~= "table" then
      fail(what, "options are a table, got %s", internal.word(o))
    end
    known.device, known.dtype = "", ""
    o = internal.options(what, o, known)
    if o.device == "" then o.device = nil end
    if o.dtype == "" then o.dtype = nil end
    return o
  end
  local function normal(shape, std, o)
    return nn.Parameter(flame.normal(shape, 0, std, { dtype = o.dtype, device = o.device }))
  end
  local function flag(what, name, v)
    if v ~= nil and type(v) ~= "boolean" then
      fail(what, "%s must be true or false, got %s", name, internal.word(v))
    end
  end

  --- Mixes features, with a matrix for each grade. weight (dims + 1, inputs, outputs), normal with
  --- deviation 1 / sqrt(inputs). bias (outputs) is added to the scalar part; bias = "all" adds it
  --- to every component, as flash-clifford's layer does, and the result is not equivariant any
  --- more; bias = false: none. o: {bias = true, device =, dtype =}
  clifford.Linear = Module.extend("Linear")
  function clifford.Linear:init(algebra, inputs, outputs, o)
    o = options("Linear", o, { bias = "scalar" })          -- as true
    if type(o.bias) ~= "boolean" and o.bias ~= "all" and o.bias ~= "scalar" then
      fail("Linear", 'bias must be true, false or "all", got %s', tostring(o.bias))
    end
    rawset(self, "algebra", need_algebra("Linear", algebra))
    self.in_features, self.out_features = positive("Linear", "inputs", inputs),
      positive("Linear", "outputs", outputs)
    self.bias_all = o.bias == "all"
    self.weight = normal({ algebra.dims + 1, inputs, outputs }, 1 / math.sqrt(inputs), o)
    if o.bias then
      self.bias = nn.Parameter(flame.zeros({ outputs }, { dtype = o.dtype, device = o.device }))
    end
  end
  function clifford.Linear:forward(x)
    return self.algebra:linear(x, self.weight, self.bias, self.bias_all)
  end
  function clifford.Linear:extra()
    return ("%s, in_features=%d, out_features=%d, bias=%s"):format(tostring(self.algebra),
      self.in_features, self.out_features,
      self.bias_all and '"all"' or tostring(self.bias ~= nil))
  end

  --- The weighted geometric product of two inputs, layer(x, y), feature by feature. weight (#paths,
  --- features), normal with deviation 1 / sqrt(dims + 1). o: {device =, dtype =}
  clifford.GeometricProduct = Module.extend("GeometricProduct")
  function clifford.GeometricProduct:init(algebra, features, o)
    o = options("GeometricProduct", o, {})
    rawset(self, "algebra", need_algebra("GeometricProduct", algebra))
    self.features = positive("GeometricProduct", "features", features)
    self.weight = normal({ #algebra.paths, features }, 1 / math.sqrt(algebra.dims + 1), o)
  end
  function clifford.GeometricProduct:forward(x, y)
    return self.algebra:product(x, y, self.weight)
  end
  function clifford.GeometricProduct:extra()
    return ("%s, features=%d"):format(tostring(self.algebra), self.features)
  end

  --- The fully connected geometric product of two inputs, layer(x, y). weight (#paths, inputs,
  --- outputs), normal with deviation 1 / sqrt(inputs (dims + 1)). o: {device =, dtype =}
  clifford.FullyConnectedProduct = Module.extend("FullyConnectedProduct")
  function clifford.FullyConnectedProduct:init(algebra, inputs, outputs, o)
    local name = "FullyConnectedProduct"
    o = options(name, o, {})
    rawset(self, "algebra", need_algebra(name, algebra))
    self.in_features, self.out_features = positive(name, "inputs", inputs),
      positive(name, "outputs", outputs)
    self.weight = normal({ #algebra.paths, inputs, outputs },
      1 / math.sqrt(inputs * (algebra.dims + 1)), o)
  end
  function clifford.FullyConnectedProduct:forward(x, y)
    return self.algebra:fully_connected(x, y, self.weight)
  end
  function clifford.FullyConnectedProduct:extra()
    return ("%s, in_features=%d, out_features=%d"):format(tostring(self.algebra), self.in_features,
      self.out_features)
  end

  --- The module of algebra:gelu.
  clifford.GELU = Module.extend("GELU")
  function clifford.GELU:init(algebra) rawset(self, "algebra", need_algebra("GELU", algebra)) end
  function clifford.GELU:forward(x) return self.algebra:gelu(x) end
  function clifford.GELU:extra() return tostring(self.algebra) end

  --- The module of algebra:grade_norm. o: {eps = 1e-6}
  clifford.GradeNorm = Module.extend("GradeNorm")
  function clifford.GradeNorm:init(algebra, o)
    rawset(self, "algebra", need_algebra("GradeNorm", algebra))
    self.eps = internal.need_number("GradeNorm", "eps", options("GradeNorm", o, { eps = 1e-6 }).eps)
  end
  function clifford.GradeNorm:forward(x) return self.algebra:grade_norm(x, self.eps) end
  function clifford.GradeNorm:extra()
    return ("%s, eps=%g"):format(tostring(self.algebra), self.eps)
  end

  --- flash-clifford's layer, the product of gelu(x) and gelu(linear(x)), weighted or fully
  --- connected, and grade_norm. Features stay as many. o: {normalize = true, fully_connected =
  --- false, bias = true ("all": of every component, as there), eps = 1e-6, device =, dtype =}.
  --- Parameters: linear.weight (dims + 1, n, n), linear.bias (n), product.weight (#paths, n) or
  --- (#paths, n, n); in flash-clifford the weight of the product is (n, #paths).
  clifford.Layer = Module.extend("Layer")
  function clifford.Layer:init(algebra, features, o)
    o = options("Layer", o,
      { normalize = true, fully_connected = false, bias = "scalar", eps = 1e-6 })
    need_algebra("Layer", algebra)
    positive("Layer", "features", features)
    flag("Layer", "normalize", o.normalize)
    flag("Layer", "fully_connected", o.fully_connected)
    rawset(self, "algebra", algebra)
    self.features, self.normalize, self.eps = features, o.normalize,
      internal.need_number("Layer", "eps", o.eps)
    local as = { device = o.device, dtype = o.dtype }
    self.linear = clifford.Linear(algebra, features, features,
      { bias = o.bias, device = o.device, dtype = o.dtype })
    if o.fully_connected then
      self.product = clifford.FullyConnectedProduct(algebra, features, features, as)
    else self.product = clifford.GeometricProduct(algebra, features, as) end
  end
  function clifford.Layer:forward(x)
    local y = shared.gated_product(self.algebra, x, self.linear(x), self.product.weight)
    return self.normalize and self.algebra:grade_norm(y, self.eps) or y
  end
  function clifford.Layer:extra()
    return ("%s, features=%d, normalize=%s"):format(tostring(self.algebra), self.features,
      self.normalize)
  end
end
