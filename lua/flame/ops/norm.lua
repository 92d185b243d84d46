--- Compositions that are rarely hot: norms with running statistics, rearrange, and the tools that
-- look at what is recorded.
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local dtypes = require "flame.base.dtypes"
local fail, need_int, def = arguments.fail, arguments.need_int, arguments.def

--- x becomes x:gelu(…).
def(':gelu_(x: T, approximate: "none"|"tanh" = "none") -> T',
  function(x, approximate) return x:copy_(flame.gelu(x, approximate)) end)
--- x becomes x:silu().
def(":silu_(x: T) -> T", function(x) return x:copy_(flame.silu(x)) end)

-- ---- norms over the batch -----------------------------------------------------------------------

local half = dtypes.half
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

--- x less its mean over its deviation, times weight, plus bias; axis 2 holds the channels.
--- Training uses the batch's statistics and moves the running ones in place.
def([[batch_norm(x: T, running_mean?: T, running_var?: T, weight?: T, bias?: T, training = false,
    momentum = 0.1, eps = 1e-5) -> T]], function(x, mean, var, w, b, training, momentum, eps)
  local op = "batch_norm"
  if x.ndim < 2 then fail(op, "x has %d axes, need at least 2 (channels on axis 2)", x.ndim) end
  need_channels(op, x, { running_mean = mean, running_var = var, weight = w, bias = b })
  local axes = {}
  for d = 1, x.ndim do if d ~= 2 then axes[#axes + 1] = d end end
  if not training then
    if not mean or not var then
      fail(op, "running_mean and running_var are needed when training is false")
    end
    return by_running(x, mean, var, w, b, eps)
  end
  local n = x:numel() // math.max(x.shape[2], 1)
  if n == 1 then
    fail(op, "one value a channel, need more when training: x has shape (%s)",
      table.concat(x.shape, ", "))
  end
  move_running(x, axes, mean, var, momentum, n, function(m) return m:reshape(-1) end)
  return by_own(op, x, axes, w, b, eps)
end)

--- As batch_norm, each channel of each sample by itself.
def([[instance_norm(x: T, running_mean?: T, running_var?: T, weight?: T, bias?: T,
    use_input_stats = true, momentum = 0.1, eps = 1e-5) -> T @single]],
function(x, mean, var, w, b, use_input_stats, momentum, eps)
  local op = "instance_norm"
  if x.ndim < 3 then fail(op, "x has %d axes, need at least 3 (batch, channels, …)", x.ndim) end
  need_channels(op, x, { running_mean = mean, running_var = var, weight = w, bias = b })
  local axes = {}
  for d = 3, x.ndim do axes[#axes + 1] = d end
  if not use_input_stats then
    if not mean or not var then
      fail(op, "running_mean and running_var are needed when use_input_stats is false")
    end
    return by_running(x, mean, var, w, b, eps)
  end
  local n = x:numel() // math.max(x.shape[1] * x.shape[2], 1)
  if n == 1 then
    fail(op, "one value a channel, need more: x has shape (%s)", table.concat(x.shape, ", "))
  end
  move_running(x, axes, mean, var, momentum, n, function(m) return m:mean(1):reshape(-1) end)
  return by_own(op, x, axes, w, b, eps)
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
def("rearrange(x: T, spec: str, sizes?: table) -> T", function(x, spec, sizes)
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
def('.graph(x: T, format: "text"|"dot" = "text") -> str', function(x, format)
  local lines = {}
  for i, n in ipairs(internal.graph(x)) do
    local ins = {}
    for k, j in ipairs(n.inputs) do ins[k] = "%" .. j end
    local facts = ("%s (%s) %s%s"):format(n.op, table.concat(n.shape, ", "), n.dtype,
      n.site ~= "" and " " .. n.site or "")
    if format == "text" then
      lines[i] = ("%%%d = %s%s  (%s) %s %s%s"):format(i, n.op,
        #ins > 0 and " " .. table.concat(ins, " ") or "",
        table.concat(n.shape, ", "), n.dtype, n.state, n.site ~= "" and "  " .. n.site or "")
    else
      lines[#lines + 1] = ('  n%d [label="%s"];'):format(i, facts:gsub('["\\]', "\\%0"))
      for _, j in ipairs(n.inputs) do lines[#lines + 1] = ("  n%d -> n%d;"):format(j, i) end
    end
  end
  if format == "dot" then return "digraph flame {\n" .. table.concat(lines, "\n") .. "\n}\n" end
  return table.concat(lines, "\n")
end)

-- ---- text ---------------------------------------------------------------------------------------

--- Tokens after ids by a model of flame.models, up to a stop or max_new_tokens of them. ids: a text
--- (with a tokenizer), a list or tensor of ids from 0, or several of these, of different lengths;
--- or (batch, time) with its attention_mask. Gives for each the new text, or the new ids without
--- the stop. temperature 0 takes the likeliest token, others draw, from the top_k likeliest, the
--- likeliest that have top_p together, those with min_p of the likeliest's share.
--- repetition_penalty divides the scores of tokens that came before. stop: ids and words, by
--- default the configuration's eos_token_id. stream(piece, i) gets each piece of text, or id, of
--- sequence i, and ends all with false. seed: draws of the call's own. cache = false computes
--- everything again for each token.
def([[.generate(model: any, ids: any, max_new_tokens: int = 64, *, temperature = 0, top_k?: int,
  top_p?: num, min_p?: num, repetition_penalty = 1, stop?: any, tokenizer?: any, stream?: fn,
  seed?: int, attention_mask?: T, cache = true) -> any]],
  function(model, ids, most, temperature, top_k, top_p, min_p, penalty, stop, tokenizer, stream,
    seed, mask, cache)
    require "flame.models"
    return internal.generate(model, ids, { max_new_tokens = most, temperature = temperature,
      top_k = top_k, top_p = top_p, min_p = min_p, repetition_penalty = penalty, stop = stop,
      tokenizer = tokenizer, stream = stream, seed = seed, attention_mask = mask, cache = cache })
  end)
