--- Compositions that are seldom hot: running extremes, sets and counts, norms with running
-- statistics, rearrange, and the tools that look at what is recorded.
-- Sets and counts look at values, so they evaluate; positions are 1-based.
local flame, methods, internal = ...
local fail, need_tensor, need_int = internal.failf, internal.need_tensor, internal.need_int
local options, def, axis_of = internal.options, internal.def, internal.axis_of

-- x:zeros_like() and its kin
for _, name in ipairs { "zeros", "ones", "empty", "full", "rand", "randn" } do
  methods[name .. "_like"] = flame[name .. "_like"]
end
for _, name in ipairs { "gelu", "silu" } do
  local f = flame[name]
  methods[name .. "_"] = function(x, ...) return x:copy_(f(need_tensor(name .. "_", "x", x), ...)) end
end

-- ---- running extremes --------------------------------------------------------------------------
--- Values and positions of the running extreme along d by doubling; NaN stays, the first position wins.
local function running(name, beats)
  def(name, 2, function(x, d)
    need_tensor(name, "x", x)
    d = axis_of(name, x, d)
    if x.ndim == 0 then return x:clone(), flame.ones({}, { dtype = "i64", device = x.device }) end
    local n, step = x.shape[d], 1
    local along = {}
    for k = 1, x.ndim do along[k] = k == d and n or 1 end
    local v = x:detach()
    local at = flame.arange(1, n, { dtype = "i64", device = x.device }):reshape(along):expand(x.shape)
    while step < n do
      local early_v, early_at = v:narrow(d, 1, n - step), at:narrow(d, 1, n - step)
      local late_v, late_at = v:narrow(d, step + 1, n - step), at:narrow(d, step + 1, n - step)
      local better = beats(late_v, early_v)
      if x:is_floating_point() then
        better = better:logical_or(late_v:isnan()):logical_and(early_v:isnan():logical_not())
      end
      v = flame.cat({ v:narrow(d, 1, step), flame.where(better, late_v, early_v) }, d)
      at = flame.cat({ at:narrow(d, 1, step), flame.where(better, late_at, early_at) }, d)
      step = step * 2
    end
    at = at:contiguous()
    return x:gather(d, at), at
  end)
end
running("cummax", function(late, early) return late:gt(early) end)
running("cummin", function(late, early) return late:lt(early) end)

-- ---- sets and counts -----------------------------------------------------------------------------
--- Sorted distinct values; with return_inverse their positions (1-based) for each element, with
--- return_counts how often each stands. Results come as values in this order.
---@param o table?  {return_inverse = false, return_counts = false}
def("unique", 2, function(x, o)
  need_tensor("unique", "x", x)
  o = options("unique", o, { return_inverse = false, return_counts = false })
  local flat = x:detach():reshape(-1)
  local device, n = x.device, flat:numel()
  if n == 0 then
    local out = { flat:clone() }
    if o.return_inverse then out[2] = flame.zeros(x.shape, { dtype = "i64", device = device }) end
    if o.return_counts then out[#out + 1] = flame.zeros(0, { dtype = "i64", device = device }) end
    return table.unpack(out)
  end
  local sorted, at = flat:sort(1)
  local first = flame.ones({ n }, { dtype = "bool", device = device })
  if n > 1 then first[{ { 2, n } }] = sorted:narrow(1, 2, n - 1):ne(sorted:narrow(1, 1, n - 1)) end
  local starts = first:nonzero():reshape(-1)
  local out = { sorted:index_select(1, starts) }
  if o.return_inverse then
    out[2] = flame.zeros({ n }, { dtype = "i64", device = device }):scatter(1, at, first:cumsum(1)):reshape(x.shape):clone()
  end
  if o.return_counts then
    local ends = flame.cat({ starts:narrow(1, 2, #starts - 1), flame.full({ 1 }, n + 1, { dtype = "i64", device = device }) }, 1)
    out[#out + 1] = ends - starts
  end
  return table.unpack(out)
end)

--- How often each of the ids 1, 2, … stands in x; with weights their sums.
---@param o table?  {minlength = 0}
def("bincount", 3, function(x, weights, o)
  need_tensor("bincount", "x", x)
  if type(weights) == "table" then weights, o = nil, weights end
  o = options("bincount", o, { minlength = 0 })
  if x:is_floating_point() or x.dtype == "bool" then fail("bincount", "x is %s, need an integer dtype", x.dtype) end
  if x.ndim ~= 1 then fail("bincount", "x has %d axes, need 1", x.ndim) end
  x = x:detach():long()
  local n = o.minlength
  if x:numel() > 0 then
    local least = x:amin():item()
    if least < 1 then fail("bincount", "id %d at position %d, ids count from 1", least, x:argmin():item()) end
    n = math.max(n, x:amax():item())
  end
  if weights then need_tensor("bincount", "weights", weights) end
  local ones = weights or flame.ones_like(x)
  return flame.zeros({ n }, { dtype = ones.dtype, device = x.device }):index_add(1, x, ones)
end)

--- Counts of the elements in equal bins between min and max (both 0: the extremes of x).
---@param o table?  {bins = 100, min = 0, max = 0}
def("histc", 4, function(x, bins, low, high)
  need_tensor("histc", "x", x)
  local o = type(bins) == "table" and bins or type(low) == "table" and low or type(high) == "table" and high or nil
  local function number(v, other) if type(v) == "number" then return v end return other end
  o = options("histc", o, { bins = number(bins, 100), min = number(low, 0), max = number(high, 0) })
  if not x:is_floating_point() then fail("histc", "x is %s, need a float", x.dtype) end
  need_int("histc", "bins", o.bins)
  if o.bins < 1 then fail("histc", "bins = %d, need at least 1", o.bins) end
  x = x:detach():reshape(-1)
  low, high = o.min, o.max
  if low == high and x:numel() > 0 then low, high = x:amin():item(), x:amax():item() end
  if low == high then low, high = low - 1, high + 1 end
  if not (low < high) then fail("histc", "min = %g, max = %g: need finite bounds, min below max", low, high) end
  local inside = x:ge(low):logical_and(x:le(high))
  local at = ((x - low) / (high - low) * o.bins):floor():clamp(0, o.bins - 1)
  at = flame.where(inside, at, 0):long() + 1
  return flame.zeros({ o.bins }, { dtype = x.dtype, device = x.device }):index_add(1, at, inside:to(x.dtype))
end)

--- Positions (1 to n + 1) at which v would be put into the ascending rows of 'sorted'.
---@param o table?  {right = false}
def("searchsorted", 3, function(sorted, v, o)
  need_tensor("searchsorted", "sorted", sorted)
  o = options("searchsorted", o, { right = false })
  local number = type(v) == "number"
  if number then v = flame.tensor(v, { dtype = sorted:is_floating_point() and sorted.dtype or "f64", device = sorted.device }) end
  need_tensor("searchsorted", "v", v)
  if sorted.ndim == 0 then fail("searchsorted", "sorted is 0-d, need at least one axis") end
  local n = sorted.shape[sorted.ndim]
  if sorted.ndim > 1 then
    local a, b = sorted.shape, v.shape
    if #a ~= #b or table.concat(a, ",", 1, #a - 1) ~= table.concat(b, ",", 1, #b - 1) then
      fail("searchsorted", "sorted is (%s), v is (%s): all but the last axis must agree",
        table.concat(a, ", "), table.concat(b, ", "))
    end
    sorted = sorted:unsqueeze(-2)
  end
  if n == 0 then return flame.ones(v.shape, { dtype = "i64", device = v.device }) end
  local w = v:detach():unsqueeze(-1)
  sorted = sorted:detach()
  return (o.right and sorted:le(w) or sorted:lt(w)):sum(-1) + 1
end)

--- Vector product along axis d of size 3 (default: the last).
def("cross", 3, function(x, y, d)
  need_tensor("cross", "x", x)
  need_tensor("cross", "y", y)
  d = axis_of("cross", x, d or -1)
  if x.shape[d] ~= 3 or y.shape[d] ~= 3 then fail("cross", "axis %d has %d and %d elements, need 3", d, x.shape[d],
    y.shape[d] or 0) end
  local function at(v, i) return v:narrow(d, i, 1) end
  return flame.cat({ at(x, 2) * at(y, 3) - at(x, 3) * at(y, 2), at(x, 3) * at(y, 1) - at(x, 1) * at(y, 3),
    at(x, 1) * at(y, 2) - at(x, 2) * at(y, 1) }, d)
end)

-- ---- norms over the batch ------------------------------------------------------------------------
--- An optional tensor: nil (or false) is left out.
local function optional(op, name, v) return v and need_tensor(op, name, v) or nil end

local function normalise(x, mean, var, w, b, eps)
  local channels = {}
  for d = 1, x.ndim do channels[d] = d == 2 and x.shape[2] or 1 end
  local y = (x - mean) * (var + eps):rsqrt()
  if w then y = y * w:reshape(channels) end
  return b and y + b:reshape(channels) or y
end

--- (x, running_mean, running_var[, w, b, {training = false, momentum = 0.1, eps = 1e-5}]); axis 2 holds
--- the channels. Training uses the batch's statistics and moves the running ones in place.
def("batch_norm", 6, function(x, mean, var, w, b, o)
  local op = "batch_norm"
  need_tensor(op, "x", x)
  if type(w) == "table" then w, o = nil, w elseif type(b) == "table" then b, o = nil, b end
  o = options(op, o, { training = false, momentum = 0.1, eps = 1e-5 })
  mean, var, w, b = optional(op, "running_mean", mean), optional(op, "running_var", var), optional(op, "w", w), optional(op, "b", b)
  if x.ndim < 2 then fail(op, "x has %d axes, need at least 2 (channels on axis 2)", x.ndim) end
  local channels, axes = {}, {}
  for d = 1, x.ndim do
    channels[d] = d == 2 and x.shape[2] or 1
    if d ~= 2 then axes[#axes + 1] = d end
  end
  if not o.training then
    if not mean or not var then fail(op, "running_mean and running_var are needed when training is false") end
    return normalise(x, mean:reshape(channels), var:reshape(channels), w, b, o.eps)
  end
  local n = x:numel() // math.max(x.shape[2], 1)
  if n == 1 then fail(op, "one value a channel, need more when training: x has shape (%s)", table.concat(x.shape, ", ")) end
  local m = x:mean(axes, { keepdim = true })
  local v = x:var(axes, { correction = 0, keepdim = true })
  local function move(kept, now)
    if not kept then return end
    flame.no_grad(function()
      kept:copy_(kept * (1 - o.momentum) + now:detach():reshape(-1) * o.momentum)
    end)
  end
  move(mean, m)
  move(var, v * (n / (n - 1)))
  return normalise(x, m, v, w, b, o.eps)
end)

--- (x[, running_mean, running_var, w, b, {use_input_stats = true, momentum = 0.1, eps = 1e-5}]): each
--- channel of each sample by itself.
def("instance_norm", 6, function(x, mean, var, w, b, o)
  local op = "instance_norm"
  need_tensor(op, "x", x)
  local given = table.pack(mean, var, w, b, o)
  for i = 1, 5 do
    if type(given[i]) == "table" then o, given[i] = given[i], nil break end
  end
  mean, var, w, b = optional(op, "running_mean", given[1]), optional(op, "running_var", given[2]), optional(op, "w", given[3]),
    optional(op, "b", given[4])
  o = options(op, o, { use_input_stats = true, momentum = 0.1, eps = 1e-5 })
  if x.ndim < 3 then fail(op, "x has %d axes, need at least 3 (batch, channels, …)", x.ndim) end
  local channels, axes = {}, {}
  for d = 1, x.ndim do
    channels[d] = d == 2 and x.shape[2] or 1
    if d > 2 then axes[#axes + 1] = d end
  end
  if not o.use_input_stats then
    if not mean or not var then fail(op, "running_mean and running_var are needed when use_input_stats is false") end
    return normalise(x, mean:reshape(channels), var:reshape(channels), w, b, o.eps)
  end
  local n = x:numel() // math.max(x.shape[1] * x.shape[2], 1)
  if n == 1 then fail(op, "one value a channel, need more: x has shape (%s)", table.concat(x.shape, ", ")) end
  local m, v = x:mean(axes, { keepdim = true }), x:var(axes, { correction = 0, keepdim = true })
  local function move(kept, now)
    if not kept then return end
    flame.no_grad(function()
      kept:copy_(kept * (1 - o.momentum) + now:detach():mean(1):reshape(-1) * o.momentum)
    end)
  end
  move(mean, m)
  move(var, v * (n / (n - 1)))
  return normalise(x, m, v, w, b, o.eps)
end)

-- ---- rearrange -------------------------------------------------------------------------------------
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

--- Sizes of all names, from x's shape and those given.
local function name_sizes(spec, groups, shape, given)
  local size = {}
  for k, v in pairs(given) do size[k] = need_int("rearrange", tostring(k), v) end
  for d, group in ipairs(groups) do
    local known, open = 1, nil
    for _, name in ipairs(group) do
      if size[name] then known = known * size[name]
      elseif open then fail("rearrange", "'%s': give the size of %s or of %s", spec, open, name)
      else open = name end
    end
    if open then
      if known == 0 or shape[d] % known ~= 0 then fail("rearrange", "axis %d has %d elements, which %d does not divide", d,
        shape[d], known) end
      size[open] = shape[d] // known
    elseif known ~= shape[d] then
      fail("rearrange", "axis %d has %d elements, '%s' makes %d of it", d, shape[d], spec, known)
    end
  end
  return size
end

--- Reshape, permute, reshape by names: x:rearrange("b (h d) t -> b h t d", {h = 8}).
def("rearrange", 3, function(x, spec, sizes)
  need_tensor("rearrange", "x", x)
  if type(spec) ~= "string" then fail("rearrange", "spec must be a string, got %s", type(spec)) end
  if sizes ~= nil and type(sizes) ~= "table" then fail("rearrange", "sizes must be a table, got %s", type(sizes)) end
  local left, right = spec:match("^(.-)%->(.*)$")
  if not left then fail("rearrange", "'%s' is not like \"b (h d) t -> b h t d\"", spec) end
  local from, names, there = parse_side(left, spec)
  local to, wanted, asked = parse_side(right, spec)
  if #from ~= x.ndim then fail("rearrange", "'%s' has %d axes on the left, x has shape (%s)", spec, #from,
    table.concat(x.shape, ", ")) end
  for _, name in ipairs(wanted) do if not there[name] then fail("rearrange", "'%s': %s stands on the right only", spec, name) end end
  for _, name in ipairs(names) do if not asked[name] then fail("rearrange", "'%s': %s stands on the left only", spec, name) end end
  for name in pairs(sizes or {}) do if not there[name] then fail("rearrange", "'%s' has no axis %s", spec, tostring(name)) end end
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

-- ---- what is recorded ------------------------------------------------------------------------------
--- The recorded work behind x, one line an op, inputs first; {format = "dot"} for Graphviz.
---@param o table?  {format = "text"}
def("graph", 2, function(x, o)
  need_tensor("graph", "x", x)
  if type(o) == "string" then o = { format = o } end
  o = options("graph", o, { format = "text" })
  if o.format ~= "text" and o.format ~= "dot" then fail("graph", 'format must be "text" or "dot", got "%s"', tostring(o.format)) end
  local lines = {}
  for i, n in ipairs(internal.graph(x)) do
    local ins = {}
    for k, j in ipairs(n.inputs) do ins[k] = "%" .. j end
    local facts = ("%s (%s) %s%s"):format(n.op, table.concat(n.shape, ", "), n.dtype, n.site ~= "" and " " .. n.site or "")
    if o.format == "text" then
      lines[i] = ("%%%d = %s%s  (%s) %s %s%s"):format(i, n.op, #ins > 0 and " " .. table.concat(ins, " ") or "",
        table.concat(n.shape, ", "), n.dtype, n.state, n.site ~= "" and "  " .. n.site or "")
    else
      lines[#lines + 1] = ('  n%d [label="%s"];'):format(i, facts:gsub('["\\]', "\\%0"))
      for _, j in ipairs(n.inputs) do lines[#lines + 1] = ("  n%d -> n%d;"):format(j, i) end
    end
  end
  if o.format == "dot" then return "digraph flame {\n" .. table.concat(lines, "\n") .. "\n}\n" end
  return table.concat(lines, "\n")
end, "module")

-- ---- where the time goes ---------------------------------------------------------------------------
local counted = { "recorded", "plans", "compiles", "launches", "bytes_moved", "copies", "syncs" }
local Profile = { __name = "flame.profile" }
Profile.__index = Profile
function Profile:__tostring()
  local lines = { ("%-12s %14.3f"):format("ms", self.ms) }
  for i, name in ipairs(counted) do lines[i + 1] = ("%-12s %14d"):format(name, self[name]) end
  return table.concat(lines, "\n")
end

--- Run f and count: a table with ms (wall clock, all work done), recorded, plans, compiles, launches,
--- bytes_moved, copies and syncs, which prints as rows; then f's results.
def("profile", 64, function(f, ...)
  if type(f) == "string" then fail("profile", "traces are not written yet: profile(f) gives totals") end
  if type(f) ~= "function" then fail("profile", "need a function, got %s", type(f)) end
  flame.synchronize()
  local before, clock = flame.stats(), flame.timer()
  local results = table.pack(f(...))
  flame.synchronize()
  local profile, after = setmetatable({ ms = clock() * 1000 }, Profile), flame.stats()
  for _, name in ipairs(counted) do profile[name] = after[name] - before[name] end
  return profile, table.unpack(results, 1, results.n)
end, "module")
