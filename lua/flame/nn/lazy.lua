--- Layers whose input size comes from the first input, and weights that are computed from other
-- parameters before each forward (weight and spectral norm). The file returns a function that adds
-- them to flame.nn.
local flame = require "flame"

return function(nn, shared)
  local fail, put, positive = shared.fail, shared.put, shared.positive

  -- ---- lazy layers -----------------------------------------------------------------------------
  --- Adds nn.LazyX(…), which becomes nn.X(n, …) at the first input, where n is the size of its axis
  --- 'axis'. It has no parameters before, so an optimiser must be made after the first forward.
  local function lazy(name, axis)
    local of = nn[name]
    -- without the first parameter of nn.X
    local text = of.constructor:gsub("nn%.", "nn.Lazy", 1):gsub("%([^,]+,%s*", "(", 1)
    local made = shared.class(text,
      function(self, ...) rawset(self, "arguments", table.pack(...)) end)
    shared.call(made, "(x: T, ...) -> T", function(self, x, ...)
      local d = axis < 0 and x.ndim + 1 + axis or axis
      if d < 1 or d > x.ndim then
        fail("Lazy%s: x has %d axes, need at least %d", name, x.ndim, math.abs(axis))
      end
      local given, training = self.arguments, self.training
      rawset(self, "arguments", nil)
      setmetatable(self, of)
      local ok, e = pcall(of.init, self, x:size(d), table.unpack(given, 1, given.n))
      if not ok then
        rawset(setmetatable(self, made), "arguments", given)
        error(e, 0)
      end
      if self.to then self:to(x.device) end
      rawset(self, "training", training)
      return self:forward(x, ...)
    end)
    function made:extra() return "input size not known yet" end
  end
  lazy("Linear", -1)
  for n = 1, 3 do
    lazy("Conv" .. n .. "d", -n - 1)
    lazy("ConvTranspose" .. n .. "d", -n - 1)
    lazy("BatchNorm" .. n .. "d", 2)
    lazy("InstanceNorm" .. n .. "d", -n - 1)
  end

  -- ---- weights computed from other parameters ---------------------------------------------------
  -- module -> name of a weight -> {hook =, run = sets the weight, undo = what its removal calls}
  local made = setmetatable({}, { __mode = "k" })
  shared.made = made

  -- Replaces parameter 'name' by a value that make(module) computes from others before each
  -- forward; undo(module) is for removing it. Both get the module, so its copies can share them.
  local function replace(module, name, make, undo)
    local list = made[module] or {}
    made[module] = list
    if list[name] then fail("'%s' is made of others already", name) end
    local function run(m) rawset(m, name, make(m)) end
    module[name] = nil                                    -- it is no longer a parameter
    list[name] = { hook = module:register_forward_pre_hook(run), run = run, undo = undo }
    run(module)
    return module
  end
  local function parameter_of(module, name)
    local w = module[name]
    if not flame.is_tensor(w) then fail("the module has no parameter '%s'", name) end
    return w
  end
  local utils = nn.utils
  local function restore(text)
    put(utils, text, function(module, name)
      local entry = made[module] and made[module][name]
      if not entry then fail("'%s' is not made of others", name) end
      entry.hook.remove()
      made[module][name] = nil
      rawset(module, name, nil)
      module[name] = nn.Parameter(entry.undo(module):detach():clone())
      return module
    end)
  end

  --- Salimans and Kingma 2016: the weight as weight_g times weight_v / norm(weight_v). The norm is
  --- over all axes but dim; dim = false: over all.
  put(utils, 'nn.utils.weight_norm(module: Module, name: str = "weight", dim?: axis = 1) -> Module',
    function(module, name, dim)
    local w = parameter_of(module, name)
    local rest = {}
    for d = 1, w.ndim do
      if d ~= dim and (not dim or d ~= w.ndim + 1 + dim) then rest[#rest + 1] = d end
    end
    local function norm(v) return #rest == 0 and v:abs() or v:norm(2, rest, { keepdim = true }) end
    local g, v = name .. "_g", name .. "_v"
    module[g], module[v] = nn.Parameter(norm(w:detach())), nn.Parameter(w:detach():clone())
    local function make(m) return m[v] * (m[g] / norm(m[v])) end
    return replace(module, name, make, function(m)
      local value = make(m)
      m[g], m[v] = nil, nil
      return value
    end)
  end)
  --- Undoes weight_norm: the weight is a parameter again, with its current value.
  restore 'nn.utils.remove_weight_norm(module: Module, name: str = "weight") -> Module'

  --- Miyato et al. 2018: the weight divided by its largest singular value, which n_power_iterations
  -- per forward in training approximate; the weight itself is name_orig, the vectors are name_u and
  -- name_v. dim is the axis of the rows, by default 1, and 2 for transposed convolutions.
  put(utils, [[nn.utils.spectral_norm(module: Module, name: str = "weight",
    n_power_iterations: int = 1, eps = 1e-12, dim?: axis) -> Module]],
    function(module, name, steps, eps, dim)
    positive("spectral_norm", "n_power_iterations", steps, 10000)
    local w = parameter_of(module, name)
    dim = dim or getmetatable(module).__name:find("^ConvTranspose") and 2 or 1
    local orig, left, right = name .. "_orig", name .. "_u", name .. "_v"
    local function unit(x) return x:normalize({ dim = 1, eps = eps }) end
    local function direction(n)
      return nn.Buffer(unit(flame.randn({ n }, { dtype = w.dtype, device = w.device })))
    end
    module[orig] = nn.Parameter(w:detach():clone())
    module[left] = direction(w:size(dim))
    module[right] = direction(w:numel() // math.max(w:size(dim), 1))
    local function scaled(of, search)
      local m = of[orig]:transpose(1, dim):flatten(2)
      local fixed, u, v = m:detach(), of[left], of[right]
      if search then
        for _ = 1, steps do
          v = unit(fixed:t():mv(u))
          u = unit(fixed:mv(v))
        end
        flame.no_grad(function()
          of[left]:copy_(u)
          of[right]:copy_(v)
        end)
      end
      return of[orig] / u:dot(m:mv(v))
    end
    local function make(of) return scaled(of, of.training) end
    return replace(module, name, make, function(m)
      local value = scaled(m, false)
      m[orig], m[left], m[right] = nil, nil, nil
      return value
    end)
  end)
  --- Undoes spectral_norm: the weight is a parameter again, with its current value.
  restore 'nn.utils.remove_spectral_norm(module: Module, name: str = "weight") -> Module'
end
