--- Modules: parameters in a tree, found by name, and the layers built from them.
-- A module is a table whose metatable is its class. What is assigned to a module is noted in
-- order of first assignment: parameters (nn.Parameter), buffers (nn.Buffer), modules, and plain
-- lists of those. Names are dotted paths with 1-based list positions: "blocks.1.norm.weight".
-- Layouts, defaults and initialisation are PyTorch's.
local flame = require "flame"

local nn = {}

--- Raises with the script's line, however deep in the library it is called.
local function fail(message, ...) flame.internal.fail("", message:format(...)) end

local order = setmetatable({}, { __mode = "k" })      -- module -> list of keys as first assigned
local kinds = setmetatable({}, { __mode = "k" })      -- tensor -> "parameter" | "buffer"

--- Marks a tensor as a parameter: it is tracked, and found by module:parameters().
---@param x flame.Tensor
---@param requires_grad boolean?  default true
function nn.Parameter(x, requires_grad)
  if x.requires_grad and not x.is_leaf then x = x:detach() end
  if requires_grad ~= false then x:requires_grad_(true) end
  kinds[x] = "parameter"
  return flame.internal.hold(x)                        -- no scope closes it
end

--- Marks a tensor as part of a module's state that is not trained.
---@param x flame.Tensor
function nn.Buffer(x)
  kinds[x] = "buffer"
  return flame.internal.hold(x)
end

-- ---- Module ------------------------------------------------------------------------------

local Module = {}
Module.__index = Module
Module.__name = "Module"
nn.Module = Module

local function note(self, key, value)
  local keys = order[self]
  if not keys then
    keys = {}
    order[self] = keys
  end
  keys[#keys + 1] = key
  rawset(self, key, value)
end

local function is_module(x)
  return type(x) == "table" and order[x] ~= nil
end

local function construct(class, ...)
  local self = setmetatable({}, class)
  order[self] = {}
  rawset(self, "training", true)
  local init = class.init
  if init then init(self, ...) end
  return self
end

--- A new class of modules: class(…) makes one and runs class.init; module(…) runs class.forward.
---@param name string
function Module.extend(name, parent)
  parent = parent or Module
  local class = setmetatable({}, { __index = parent, __call = construct })
  class.__index = class
  class.__name = name
  class.__newindex = note
  class.__call = function(self, ...) return self:forward(...) end
  class.__tostring = Module.describe
  return class
end

function Module:forward()
  fail("%s has no forward: define function %s:forward(…)", getmetatable(self).__name,
        getmetatable(self).__name)
end

-- Visits every (path, key, owner, value) below a module in order; shared things once.
local function walk(self, visit, prefix, seen)
  for _, key in ipairs(order[self] or {}) do
    local value = rawget(self, key)
    local path = prefix .. tostring(key)
    if type(value) == "userdata" then
      if not seen[value] then
        seen[value] = true
        visit(path, value)
      end
    elseif type(value) == "table" and not seen[value] then
      seen[value] = true
      if order[value] then
        visit(path, value)
        walk(value, visit, path .. ".", seen)
      elseif getmetatable(value) == nil then
        for i, item in ipairs(value) do
          if type(item) == "userdata" and kinds[item] and not seen[item] then
            seen[item] = true
            visit(path .. "." .. i, item)
          elseif is_module(item) and not seen[item] then
            seen[item] = true
            visit(path .. "." .. i, item)
            walk(item, visit, path .. "." .. i .. ".", seen)
          end
        end
      end
    end
  end
end

local function collect(self, kind)
  local list = {}
  walk(self, function(path, value)
    if type(value) == "userdata" and kinds[value] and (kind == nil or kinds[value] == kind) then
      list[#list + 1] = { path, value }
    end
  end, "", { [self] = true })
  return list
end

--- Parameters in order of first assignment, shared ones once.
---@return flame.Tensor[]
function Module:parameters()
  local out = {}
  for i, entry in ipairs(collect(self, "parameter")) do out[i] = entry[2] end
  return out
end

local function pairs_of(list)
  local i = 0
  return function()
    i = i + 1
    if list[i] then return list[i][1], list[i][2] end
  end
end

--- for name, parameter in net:named_parameters() do … end
function Module:named_parameters() return pairs_of(collect(self, "parameter")) end

--- for name, buffer in net:named_buffers() do … end
function Module:named_buffers() return pairs_of(collect(self, "buffer")) end

--- for name, module in net:named_modules() do … end; the module itself comes first, as "".
function Module:named_modules()
  local list = { { "", self } }
  walk(self, function(path, value)
    if type(value) == "table" then list[#list + 1] = { path, value } end
  end, "", { [self] = true })
  return pairs_of(list)
end

--- A snapshot of all parameters and buffers by name; training on does not change it.
function Module:state_dict()
  local out = {}
  for _, entry in ipairs(collect(self)) do out[entry[1]] = entry[2]:detach() end
  return out
end

local function nearest_names(missing, surplus)
  local text = {}
  if #missing > 0 then text[#text + 1] = "missing " .. table.concat(missing, ", ", 1, math.min(#missing, 5)) end
  if #surplus > 0 then text[#text + 1] = "not in the module " .. table.concat(surplus, ", ", 1, math.min(#surplus, 5)) end
  return table.concat(text, "; ")
end

-- "blocks.0.weight" -> "blocks.1.weight"
local function one_based(name)
  return (("." .. name .. "."):gsub("%.(%d+)%f[.]", function(i) return "." .. math.tointeger(i) + 1 end):sub(2, -2))
end

--- Takes values into the same handles; every name must be there, unless strict = false.
---@param state table<string, flame.Tensor>
---@param options table?  {strict = true, zero_based = false: names count lists from 0, as PyTorch's}
function Module:load_state_dict(state, options)
  options = options or {}
  local given = {}
  for name, value in pairs(state) do given[options.zero_based and one_based(name) or name] = value end
  local entries, missing = collect(self), {}
  for _, entry in ipairs(entries) do
    local value = given[entry[1]]
    if value == nil then
      missing[#missing + 1] = entry[1]
    else
      local want, have = table.concat(entry[2].shape, ", "), table.concat(value.shape, ", ")
      if want ~= have then
        fail("load_state_dict: %s is (%s) in the file and (%s) in the module", entry[1], have, want)
      end
    end
  end
  local known, surplus = {}, {}
  for _, entry in ipairs(entries) do known[entry[1]] = true end
  for name in pairs(given) do if not known[name] then surplus[#surplus + 1] = name end end
  table.sort(surplus)
  if options.strict ~= false and (#missing > 0 or #surplus > 0) then
    fail("load_state_dict: %s", nearest_names(missing, surplus))
  end
  flame.no_grad(function()
    for _, entry in ipairs(entries) do
      local value = given[entry[1]]
      if value ~= nil then entry[2]:copy_(value:to(entry[2].device)) end
    end
  end)
  return self
end

--- Training mode for the module and all below it.
function Module:train(on)
  if on == nil then on = true end
  for _, module in self:named_modules() do rawset(module, "training", on) end
  return self
end

function Module:eval() return self:train(false) end

--- Calls f on every module below and on the module itself.
function Module:apply(f)
  for _, module in self:named_modules() do f(module) end
  return self
end

--- Sets .grad of every parameter to nil.
function Module:zero_grad()
  for _, p in ipairs(self:parameters()) do p.grad = nil end
end

local float_names = { f64 = true, f32 = true, f16 = true, bf16 = true }

--- Moves every parameter and buffer, or converts the floating ones, inside the same handles.
---@param where string  device or floating dtype
function Module:to(where)
  for _, entry in ipairs(collect(self)) do
    local x = entry[2]
    if not float_names[where] or float_names[x.dtype] then x:to_(where) end
  end
  return self
end

function Module:cuda() return self:to("cuda") end
function Module:cpu() return self:to("cpu") end

--- Number of elements of all parameters.
function Module:count()
  local n = 0
  for _, p in ipairs(self:parameters()) do n = n + p:numel() end
  return n
end

function Module:describe()
  local lines = { getmetatable(self).__name .. (self.extra and " (" .. self:extra() .. ")" or "") }
  for name, module in self:named_modules() do
    if name ~= "" then
      local depth = select(2, name:gsub("%.", "."))
      lines[#lines + 1] = ("  "):rep(depth + 1) .. name:match("[^.]*$") .. ": " .. getmetatable(module).__name
        .. (module.extra and " (" .. module:extra() .. ")" or "")
    end
  end
  return table.concat(lines, "\n")
end

-- ---- containers ------------------------------------------------------------------------------

local function positive(what, name, value)
  if math.type(value) ~= "integer" or value < 1 then
    fail("%s: %s is %s, need a positive integer", what, name, tostring(value))
  end
end

local function options_of(what, t, known)
  if t == nil then return {} end
  if type(t) ~= "table" then fail("%s: options are a table, got %s", what, type(t)) end
  for key in pairs(t) do
    if not known[key] then fail("%s: no option %s", what, tostring(key)) end
  end
  return t
end

--- Runs its modules in order: nn.Sequential{ a, b, c }. Functions may stand among them.
nn.Sequential = Module.extend("Sequential")
function nn.Sequential:init(list)
  if type(list) ~= "table" then fail("Sequential: need a list of modules") end
  for i, module in ipairs(list) do
    if not is_module(module) and type(module) ~= "function" then
      fail("Sequential: item %d is a %s, need a module or a function", i, type(module))
    end
    self[i] = module
  end
end
function nn.Sequential:forward(x)
  for i = 1, #self do x = self[i](x) end
  return x
end

--- A list of modules: nn.ModuleList{ a, b }; append with list:append(m); # and [] as usual.
nn.ModuleList = Module.extend("ModuleList")
function nn.ModuleList:init(list)
  for i, module in ipairs(list or {}) do self[i] = module end
end
function nn.ModuleList:append(module)
  self[#self + 1] = module
  return self
end

-- ---- layers --------------------------------------------------------------------------------------

--- y = x W^T + b; weight (out, in), bias (out). Both start uniform in +-1/sqrt(in).
nn.Linear = Module.extend("Linear")
function nn.Linear:init(inputs, outputs, options)
  options = options_of("Linear", options, { bias = true, dtype = true, device = true })
  positive("Linear", "inputs", inputs)
  positive("Linear", "outputs", outputs)
  local bound = 1 / math.sqrt(inputs)
  self.inputs, self.outputs = inputs, outputs
  local kind = { dtype = options.dtype, device = options.device }
  self.weight = nn.Parameter(flame.uniform({ outputs, inputs }, -bound, bound, kind))
  if options.bias ~= false then self.bias = nn.Parameter(flame.uniform({ outputs }, -bound, bound, kind)) end
end
function nn.Linear:forward(x) return flame.linear(x, self.weight, self.bias) end
function nn.Linear:extra() return self.inputs .. " to " .. self.outputs .. (self.bias and "" or ", no bias") end

--- Rows of a table by ids from 1 to n; weight (n, d), standard normal.
nn.Embedding = Module.extend("Embedding")
function nn.Embedding:init(n, d, options)
  options = options_of("Embedding", options, { dtype = true, device = true })
  positive("Embedding", "n", n)
  positive("Embedding", "d", d)
  self.n, self.d = n, d
  self.weight = nn.Parameter(flame.normal({ n, d }, 0, 1, { dtype = options.dtype, device = options.device }))
end
function nn.Embedding:forward(ids) return flame.embedding(ids, self.weight) end
function nn.Embedding:extra() return self.n .. " by " .. self.d end

--- Normalises over the last axes of the given shape; weight and bias of that shape.
nn.LayerNorm = Module.extend("LayerNorm")
function nn.LayerNorm:init(shape, options)
  options = options_of("LayerNorm", options, { eps = true, affine = true, bias = true, dtype = true, device = true })
  if type(shape) == "number" then shape = { shape } end
  local kind = { dtype = options.dtype, device = options.device }
  rawset(self, "shape", shape)
  self.eps = options.eps or 1e-5
  if options.affine ~= false then
    self.weight = nn.Parameter(flame.ones(shape, kind))
    if options.bias ~= false then self.bias = nn.Parameter(flame.zeros(shape, kind)) end
  end
end
function nn.LayerNorm:forward(x) return x:layer_norm(self.shape, self.weight, self.bias, { eps = self.eps }) end
function nn.LayerNorm:extra() return table.concat(self.shape, ", ") end

--- Zeroes each value with probability p while training, and scales the others by 1 / (1 - p).
nn.Dropout = Module.extend("Dropout")
function nn.Dropout:init(p)
  p = p or 0.5
  if type(p) ~= "number" or not (p >= 0 and p <= 1) then
    fail("Dropout: p = %s, need 0 <= p <= 1", tostring(p))
  end
  self.p = p
end
function nn.Dropout:forward(x)
  if not self.training or self.p == 0 then return x end
  return x:dropout(self.p)
end
function nn.Dropout:extra() return ("%g"):format(self.p) end

local function activation(name, f)
  local class = Module.extend(name)
  class.forward = f
  nn[name] = class
end
activation("ReLU", function(_, x) return x:relu() end)
activation("GELU", function(_, x) return x:gelu() end)
activation("SiLU", function(_, x) return x:silu() end)
activation("Tanh", function(_, x) return x:tanh() end)
activation("Sigmoid", function(_, x) return x:sigmoid() end)
activation("Softplus", function(_, x) return x:softplus() end)
activation("Identity", function(_, x) return x end)
activation("Flatten", function(_, x) return x:flatten(2) end)

nn.Softmax = Module.extend("Softmax")
function nn.Softmax:init(axis) self.axis = axis or -1 end
function nn.Softmax:forward(x) return x:softmax(self.axis) end

--- Causal self-attention over (batch, time, d) with 'heads' heads, as a composition:
--- softmax(Q K^T / sqrt(d / heads) with the future at -inf) V, then a projection.
nn.CausalSelfAttention = Module.extend("CausalSelfAttention")
function nn.CausalSelfAttention:init(d, heads, options)
  options = options_of("CausalSelfAttention", options, { dropout = true, bias = true })
  positive("CausalSelfAttention", "d", d)
  positive("CausalSelfAttention", "heads", heads)
  if d % heads ~= 0 then
    fail("CausalSelfAttention: %d features do not split into %d heads", d, heads)
  end
  self.d, self.heads = d, heads
  self.qkv = nn.Linear(d, 3 * d, { bias = options.bias })
  self.proj = nn.Linear(d, d, { bias = options.bias })
  self.drop = nn.Dropout(options.dropout or 0)
end
function nn.CausalSelfAttention:forward(x)
  local b, t, d = x:size(1), x:size(2), self.d
  local h, size = self.heads, self.d // self.heads
  local qkv = self.qkv(x):reshape(b, t, 3, h, size):permute(3, 1, 4, 2, 5)   -- (3, b, h, t, size)
  local q, k, v = qkv[1], qkv[2], qkv[3]
  local scores = q:matmul(k:transpose(-2, -1)) * (1 / math.sqrt(size))
  local position = flame.arange(t, { device = x.device })
  local future = position:reshape(1, t):gt(position:reshape(t, 1))
  local weights = self.drop(scores:masked_fill(future, -math.huge):softmax(-1))
  return self.proj(weights:matmul(v):transpose(2, 3):reshape(b, t, d))
end
function nn.CausalSelfAttention:extra() return self.d .. " features, " .. self.heads .. " heads" end

-- ---- losses as modules ------------------------------------------------------------------------------

local function loss(name, f)
  local class = Module.extend(name)
  function class:init(options) rawset(self, "options", options or {}) end
  function class:forward(input, target) return flame[f](input, target, self.options) end
  nn[name] = class
end
loss("CrossEntropyLoss", "cross_entropy")
loss("MSELoss", "mse_loss")
loss("L1Loss", "l1_loss")

-- ---- initialisation -----------------------------------------------------------------------------------

local init = {}
nn.init = init

local function rewrite(x, make)
  flame.no_grad(function() x:copy_(make()) end)
  return x
end
--- In place: each fills x and returns it.
function init.uniform(x, a, b)
  return rewrite(x, function() return flame.uniform(x.shape, a or 0, b or 1, { dtype = x.dtype, device = x.device }) end)
end
function init.normal(x, mean, std)
  return rewrite(x, function() return flame.normal(x.shape, mean or 0, std or 1, { dtype = x.dtype, device = x.device }) end)
end
function init.constant(x, value)
  return rewrite(x, function() return flame.full(x.shape, value, { dtype = x.dtype, device = x.device }) end)
end
function init.zeros(x) return init.constant(x, 0) end
function init.ones(x) return init.constant(x, 1) end
local function fans(x)
  local s, field = x.shape, 1
  if #s < 2 then fail("init: fan in and fan out need at least two axes") end
  for i = 3, #s do field = field * s[i] end
  return s[2] * field, s[1] * field
end
--- Glorot and Bengio 2010: uniform with variance 2 / (fan in + fan out).
function init.xavier_uniform(x, gain)
  local fan_in, fan_out = fans(x)
  local bound = (gain or 1) * math.sqrt(6 / (fan_in + fan_out))
  return init.uniform(x, -bound, bound)
end
--- He et al. 2015: normal with variance 2 / fan in.
function init.kaiming_normal(x)
  return init.normal(x, 0, math.sqrt(2 / (fans(x))))
end

require "flame.nn_more"(nn, positive, options_of)

return nn
