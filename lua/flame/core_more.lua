--- Compositions that are seldom hot: norms with running statistics, rearrange, and the tools that
-- look at what is recorded.
local flame, methods, internal = ...
local fail, need_tensor, need_int = internal.failf, internal.need_tensor, internal.need_int
local options, def = internal.options, internal.def

-- x:zeros_like() and its kin
for _, name in ipairs { "zeros", "ones", "empty", "full", "rand", "randn" } do
  methods[name .. "_like"] = flame[name .. "_like"]
end
for _, name in ipairs { "gelu", "silu" } do
  local f = flame[name]
  methods[name .. "_"] = function(x, ...)
    return need_tensor(name .. "_", "x", x):copy_(f(x, ...))
  end
end

-- ---- norms over the batch -----------------------------------------------------------------------
--- An optional tensor: nil (or false) is left out.
local function optional(op, name, v) return v and need_tensor(op, name, v) or nil end

local half = { f16 = true, bf16 = true }
local function wide(t) return t and half[t.dtype] and t:float() or t end

--- t, (channels), along axis 2 of x.
local function by_channel(x, t)
  local channels = {}
  for d = 1, x.ndim do channels[d] = d == 2 and x.shape[2] or 1 end
  return t and t:reshape(channels)
end

--- By statistics that are given, (channels), in f32 at least; the result has x's dtype.
local function by_running(x, mean, var, w, b, eps)
  local y = (wide(x) - by_channel(x, wide(mean))) * (by_channel(x, wide(var)) + eps):rsqrt()
  if w then y = y * by_channel(x, wide(w)) end
  if b then y = y + by_channel(x, wide(b)) end
  return half[x.dtype] and y:to(x.dtype) or y
end

--- By those of x over 'axes'.
local function by_own(op, x, axes, w, b, eps)
  local y = internal.normalise(op, x, axes, eps, by_channel(x, w), by_channel(x, b))
  return half[x.dtype] and y:to(x.dtype) or y
end

--- Moves the running statistics towards those of x over 'axes'; read(m): one value a channel.
local function move_running(x, axes, mean, var, momentum, n, read)
  if not mean and not var then return end
  flame.no_grad(function()
    local v = wide(x:detach())
    local m = v:mean(axes, { keepdim = true })
    if mean then mean:copy_(mean * (1 - momentum) + read(m) * momentum) end
    if not var then return end
    local unbiased = (v - m):square():mean(axes, { keepdim = true }) * (n / (n - 1))
    var:copy_(var * (1 - momentum) + read(unbiased) * momentum)
  end)
end

--- Statistics and weights have a value for each channel.
local function need_channels(op, x, given)
  for name, v in pairs(given) do
    if v:numel() ~= x.shape[2] then
      fail(op, "%s has shape (%s), need (%d): one for each channel", name,
        table.concat(v.shape, ", "), x.shape[2])
    end
  end
end

--- (x, running_mean, running_var[, w, b, {training = false, momentum = 0.1, eps = 1e-5}]); axis 2
--- holds the channels. Training uses the batch's statistics and moves the running ones in place.
---@param w? flame.Tensor
---@param b? flame.Tensor
---@param training? boolean|table
---@param momentum? number|table  0.1
---@param eps? number|table  1e-5
def("batch_norm", 8, function(x, mean, var, w, b, ...)
  local op = "batch_norm"
  need_tensor(op, "x", x)
  local o = (...)
  if type(w) == "table" then w, o = nil, w elseif type(b) == "table" then b, o = nil, b end
  o = internal.defaults(op, { "training", "momentum", "eps" },
    { training = false, momentum = 0.1, eps = 1e-5 }, o,
    select(2, ...))
  mean, var, w, b = optional(op, "running_mean", mean), optional(op, "running_var", var),
    optional(op, "w", w), optional(op, "b", b)
  if x.ndim < 2 then fail(op, "x has %d axes, need at least 2 (channels on axis 2)", x.ndim) end
  need_channels(op, x, { running_mean = mean, running_var = var, w = w, b = b })
  local axes = {}
  for d = 1, x.ndim do if d ~= 2 then axes[#axes + 1] = d end end
  if not o.training then
    if not mean or not var then
      fail(op, "running_mean and running_var are needed when training is false")
    end
    return by_running(x, mean, var, w, b, o.eps)
  end
  local n = x:numel() // math.max(x.shape[2], 1)
  if n == 1 then
    fail(op, "one value a channel, need more when training: x has shape (%s)",
      table.concat(x.shape, ", "))
  end
  move_running(x, axes, mean, var, o.momentum, n, function(m) return m:reshape(-1) end)
  return by_own(op, x, axes, w, b, o.eps)
end)

--- (x[, running_mean, running_var, w, b, {use_input_stats = true, momentum = 0.1, eps = 1e-5}]):
--- each channel of each sample by itself.
---@param w? flame.Tensor
---@param b? flame.Tensor
---@param use_input_stats? boolean|table  true
---@param momentum? number|table  0.1
---@param eps? number|table  1e-5
def("instance_norm", 8, function(x, mean, var, w, b, ...)
  local op = "instance_norm"
  need_tensor(op, "x", x)
  local given, o = table.pack(mean, var, w, b), (...)
  for i = 1, 4 do
    if type(given[i]) == "table" then o, given[i] = given[i], nil break end
  end
  mean, var, w, b = optional(op, "running_mean", given[1]), optional(op, "running_var", given[2]),
    optional(op, "w", given[3]),
    optional(op, "b", given[4])
  o = internal.defaults(op, { "use_input_stats", "momentum", "eps" },
    { use_input_stats = true, momentum = 0.1, eps = 1e-5 }, o, select(2, ...))
  if x.ndim < 3 then fail(op, "x has %d axes, need at least 3 (batch, channels, …)", x.ndim) end
  need_channels(op, x, { running_mean = mean, running_var = var, w = w, b = b })
  local axes = {}
  for d = 3, x.ndim do axes[#axes + 1] = d end
  if not o.use_input_stats then
    if not mean or not var then
      fail(op, "running_mean and running_var are needed when use_input_stats is false")
    end
    return by_running(x, mean, var, w, b, o.eps)
  end
  local n = x:numel() // math.max(x.shape[1] * x.shape[2], 1)
  if n == 1 then
    fail(op, "one value a channel, need more: x has shape (%s)", table.concat(x.shape, ", "))
  end
  move_running(x, axes, mean, var, o.momentum, n, function(m) return m:mean(1):reshape(-1) end)
  return by_own(op, x, axes, w, b, o.eps)
end)

-- ---- rearrange ----------------------------------------------------------------------------------
--- "b (h d) t": list of groups, each a list of names; and the names in order.
local function parse_side(text, whole)
  local groups, names, seen, at, open = {}, {}, {}, 1, nil
  while at <= #text do
    local token, after = text:match("^%s*([%a_][%w_]*)()", at)
    local mark, behind = text:match("^%s*([()1])()", at)
    if token then
      if seen[token] then fail("rearrange", "'%s' names %s twice", whole, token) end
      seen[token] = true
      names[#names + 1] = token
      if open then open[#open + 1] = token else groups[#groups + 1] = { token } end
    elseif mark == "(" and not open then
      open = {}
    elseif mark == ")" and open then
      groups[#groups + 1], open = open, nil
    elseif mark == "1" and not open then
      groups[#groups + 1] = {}
    elseif text:match("^%s*$", at) then
      break
    else
      fail("rearrange", "'%s' is not like \"b (h d) t -> b h t d\"", whole)
    end
    at = after or behind
  end
  if open then fail("rearrange", "'%s': '(' without ')'", whole) end
  return groups, names, seen
end

--- Both sides with names for the axes that '...' stands for.
local function without_dots(left, right, spec, rank)
  local plain, n = left:gsub("%.%.%.", " ")
  local _, again = right:gsub("%.%.%.", " ")
  if n ~= again or n > 1 then
    fail("rearrange", "'%s': '...' stands once on both sides, or on none", spec)
  end
  if n == 0 then return left, right end
  local names = {}
  for k = 1, rank - #parse_side(plain, spec) do names[k] = "_axis" .. k end
  names = " " .. table.concat(names, " ") .. " "
  return left:gsub("%.%.%.", names), right:gsub("%.%.%.", names)
end

--- Sizes of all names, from x's shape and those given.
local function name_sizes(spec, groups, shape, given)
  local size = {}
  for k, v in pairs(given) do size[k] = need_int("rearrange", tostring(k), v) end
  for d, group in ipairs(groups) do
    local known, open = 1, nil
    for _, name in ipairs(group) do
      if size[name] then known = known * size[name]
      elseif open then fail("rearrange", "'%s'\1: give the size of %s or of %s", spec, open, name)
      else open = name end
    end
    if open then
      if known == 0 or shape[d] % known ~= 0 then
        fail("rearrange", "axis %d has %d elements, which %d does not divide", d, shape[d], known)
      end
      size[open] = shape[d] // known
    elseif known ~= shape[d] then
      fail("rearrange", "axis %d has %d elements, '%s' makes %d of it", d, shape[d], spec, known)
    end
  end
  return size
end

--- Reshape, permute, reshape by names: x:rearrange("b (h d) t -> b h t d", {h
--- = 8}); '...': axes without a name.
def("rearrange", 3, function(x, spec, sizes)
  need_tensor("rearrange", "x", x)
  if type(spec) ~= "string" then
    fail("rearrange", "spec must be a string, got %s", internal.word(spec))
  end
  if sizes ~= nil and type(sizes) ~= "table" then
    fail("rearrange", "sizes must be a table, got %s", internal.word(sizes))
  end
  local left, right = spec:match("^(.-)%->(.*)$")
  if not left then fail("rearrange", "'%s' is not like \"b (h d) t -> b h t d\"", spec) end
  left, right = without_dots(left, right, spec, x.ndim)
  local from, names, there = parse_side(left, spec)
  local to, wanted, asked = parse_side(right, spec)
  if #from ~= x.ndim then
    fail("rearrange", "'%s' has %d axes on the left, x has shape (%s)", spec, #from,
      table.concat(x.shape, ", "))
  end
  for _, name in ipairs(wanted) do
    if not there[name] then fail("rearrange", "'%s': %s stands on the right only", spec, name) end
  end
  for _, name in ipairs(names) do
    if not asked[name] then fail("rearrange", "'%s': %s stands on the left only", spec, name) end
  end
  for name in pairs(sizes or {}) do
    if not there[name] then fail("rearrange", "'%s' has no axis %s", spec, tostring(name)) end
  end
  local size = name_sizes(spec, from, x.shape, sizes or {})
  local position, apart, order, joined = {}, {}, {}, {}
  for i, name in ipairs(names) do
    position[name], apart[i] = i, size[name]
  end
  for i, name in ipairs(wanted) do order[i] = position[name] end
  for i, group in ipairs(to) do
    joined[i] = 1
    for _, name in ipairs(group) do joined[i] = joined[i] * size[name] end
  end
  local y = x:reshape(apart)
  if #order > 0 then y = y:permute(order) end
  return y:reshape(joined)
end)

-- ---- what is recorded ---------------------------------------------------------------------------
--- The recorded work behind x, one line an op, inputs first; {format = "dot"} for Graphviz.
---@param o table?  {format = "text"}
---@return string
def("graph", 2, function(x, o)
  need_tensor("graph", "x", x)
  if type(o) == "string" then o = { format = o } end
  o = options("graph", o, { format = "text" })
  if o.format ~= "text" and o.format ~= "dot" then
    fail("graph", 'format must be "text" or "dot", got "%s"', tostring(o.format))
  end
  local lines = {}
  for i, n in ipairs(internal.graph(x)) do
    local ins = {}
    for k, j in ipairs(n.inputs) do ins[k] = "%" .. j end
    local facts = ("%s (%s) %s%s"):format(n.op, table.concat(n.shape, ", "), n.dtype,
      n.site ~= "" and " " .. n.site or "")
    if o.format == "text" then
      lines[i] = ("%%%d = %s%s  (%s) %s %s%s"):format(i, n.op,
        #ins > 0 and " " .. table.concat(ins, " ") or "",
        table.concat(n.shape, ", "), n.dtype, n.state, n.site ~= "" and "  " .. n.site or "")
    else
      lines[#lines + 1] = ('  n%d [label="%s"];'):format(i, facts:gsub('["\\]', "\\%0"))
      for _, j in ipairs(n.inputs) do lines[#lines + 1] = ("  n%d -> n%d;"):format(j, i) end
    end
  end
  if o.format == "dot" then return "digraph flame {\n" .. table.concat(lines, "\n") .. "\n}\n" end
  return table.concat(lines, "\n")
end, "module")
