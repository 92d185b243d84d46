--- Random calls of every public function and method. tools/meta.lua finds their names in the tables
-- of the library, so new functions need not be listed. Most arguments follow the types and option
-- names of the documentation. Tensors have all dtypes; often they are 0-d or have axes without
-- elements, are views, pending, tracked, or have failed or will fail.
--
-- A round is ROUND calls from one seed. It is a fault if an error is not a string, names no op, or
-- mentions the library's files, and if a tensor is still alive after the round. (Sanitizers find
-- crashes.)
--   fuzz_calls = require "spec.fuzz.calls"
--   fuzz_calls.round(seed) -> number of calls, list of faults
local flame = require "flame"
local nn = require "flame.nn"
local clifford, plot = require "flame.clifford", require "flame.plot"
local D, diffusion = require "flame.distributions", require "flame.diffusion"
local in_folder = require "spec.support.folder"
-- ROUND: calls per round; worked: function's name -> number of its calls that raised no error
local calls = { ROUND = 200, worked = {} }

-- Not called: they change the session, touch files, write to the terminal, or take source texts.
local SKIP = { "^load", "^save", "^cuda", "^data%.", "^optim%.", "^autograd%.", "^kernel", "^map$",
  "^debug$", "^default_", "^set_", "^deterministic$", "^budget$", "^scope$", "^no_grad$",
  "^enable_grad$", "^inference_mode$", "^timer$", "^info$", "^leakcheck$",
  "^use$", "^compare$", "^bisect$", "^backward_trace$", "^flamegraph$", "^region$",
  "^autocast$", "^profile$", "^bench$", "^sandbox$",
  "^help$", "^graph$", "^warmup$", "^best_device$", "^check_finite$",
  "^rng_state$", "^get_rng_state$", "^Module", "^nn%.utils%.", "^nn%.Module", "^nn%.Lazy",
  "^stats$", "^memory$", "^empty_cache$", "^checkpoint$", "^seed$",
  "^manual_seed$", "^register_hook$", "^item$", "^tolist$", "^totable$", "^free$", "^func$",
  "^synchronize$", "^last_error$", "^kernel", "^numpy", "^dlpack", "^from_dlpack",
  "^to_dlpack", "^internal", "^plot%.save$", "^image%.load$", "^image%.save$", "^Plot:",
  "^Progress:", "^EventWriter:", "^distributions%.set_default", "^distributions%.register_kl$" }

local function skipped(name)
  for _, pattern in ipairs(SKIP) do if name:find(pattern) then return true end end
  return false
end

local theme           -- { shape, dtype } that most operands of the current call follow
local random = math.random
local function one_in(n) return random(n) == 1 end
local function pick(list) return list[random(#list)] end

-- ---- what can be called -------------------------------------------------------------------------
--- The options in the documentation of a function, such as "{keepdim = false}": {name, default} …
local function options_of(entry)
  local text, list, seen = table.concat(entry.doc, " "), {}, {}
  for _, p in ipairs(entry.params) do text = text .. " " .. p[2] end
  for braces in text:gmatch("%b{}") do
    for name, default in braces:gmatch("([%a_][%w_]*) =%s*([^,}]*)") do
      if not seen[name] then list[#list + 1] = { name, default } end
      seen[name] = true
    end
  end
  return list
end

local algebras = { clifford.algebra(2), clifford.algebra(3), clifford.algebra { 0, 1, -1 } }
--- A method of Clifford algebras as a function, which chooses an algebra that fits theme.shape.
local function of_algebra(f)
  return function(...)
    local a = algebras[1]
    for _, b in ipairs(algebras) do if b.size == theme.shape[1] then a = b end end
    return f(a, ...)
  end
end

--- A random distribution, over the last axis of theme.shape or over single numbers.
local function a_distribution()
  local n = theme.shape[#theme.shape] or 1
  local one = flame.ones(n)
  local normal = D.Normal(one, 0.5)
  return pick {
    function() return normal end, function() return D.Gamma(one * 0.5, 2) end,
    function() return D.Beta(one, 2) end, function() return D.StudentT(3) end,
    function() return D.Uniform(0, one) end, function() return D.Bernoulli(one * 0.25) end,
    function() return D.Poisson(one) end, function() return D.Categorical(flame.ones(n + 1)) end,
    function() return D.Dirichlet(flame.ones(n + 1)) end, function() return D.LogNormal(0, 1) end,
    function() return D.Independent(normal, 1) end, function() return D.Binomial(3, one * 0.5) end,
    function() return D.TransformedDistribution(normal, { D.TanhTransform() }) end,
    function() return D.MultivariateNormal(flame.zeros(n), flame.eye(n)) end,
    function() return D.MixtureSameFamily(D.Categorical(flame.ones(n + 1)),
      D.Normal(flame.zeros(n + 1), 1)) end }()
end
local function a_transform()
  return pick { D.ExpTransform(), D.TanhTransform(), D.AffineTransform(1, -2),
    D.ComposeTransform { D.SigmoidTransform(), D.ExpTransform() } }
end
local function a_schedule()
  return pick { diffusion.schedule(2), diffusion.schedule(4, "cosine"),
    diffusion.schedule(3, { beta_end = 0.5 }) }
end
--- A method as a function without the object: each call is on a new object from make().
local function of_object(make, name)
  return function(...)
    local object = make()
    return object[name](object, ...)
  end
end

--- All that can be called: a list of { name, call, params, options, class = is it a class }.
local function collect()
  local list = {}
  for _, e in ipairs(dofile("tools/meta.lua").collect()) do
    local of, own = e.name:match "^(%a+)%.(.*)$", e.name:match "%.(.*)$"
    local call = e.kind == "class"
      and (of == "nn" and nn or of == "clifford" and clifford or {})[own]
      or type(e.value) == "function" and e.value
    local method = call and e.name:find "^Algebra:" ~= nil
    if method then call = of_algebra(call)
    elseif e.name:find "^Distribution:" then call = of_object(a_distribution, e.name:match ":(.*)")
    elseif e.name:find "^Schedule:" then call = of_object(a_schedule, e.name:match ":(.*)")
    elseif e.name:find "^Transform:" then call = of_object(a_transform, e.name:match ":(.*)") end
    if call and not skipped(e.name) then
      list[#list + 1] = { name = e.name, call = call, params = e.params, options = options_of(e),
        class = e.kind == "class", sized = method or of == "clifford" }
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end
local list

-- ---- tensors ------------------------------------------------------------------------------------
local FLOATS, INTS = { "f32", "f32", "f64", "f16", "bf16" }, { "i64", "i32", "i16", "i8", "u8" }
local SIZES = { 0, 0, 1, 1, 2, 3, 3, 4, 5 }

local function a_shape()
  local shape = {}
  for d = 1, pick { 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5 } do shape[d] = pick(SIZES) end
  if #shape > 1 and one_in(4) then shape[#shape] = shape[#shape - 1] end         -- square matrices
  return shape
end
local function a_dtype()
  local n = random(20)
  return n <= 12 and pick(FLOATS) or n <= 18 and pick(INTS) or "bool"
end
--- Mostly a shape that broadcasts with theme.shape: equal, an axis of 1, fewer axes; else any.
local function near_shape()
  local shape = table.move(theme.shape, 1, #theme.shape, 1, {})
  local n = random(10)
  -- theme.listed: any number of tensors, always of theme.shape, as meshgrid multiplies their sizes
  if n <= 6 or theme.listed then return shape end
  if n == 7 and #shape > 0 then shape[random(#shape)] = 1 return shape end
  if n == 8 and #shape > 0 then return table.move(shape, 2, #shape, 1, {}) end
  if n == 9 and #shape > 0 then return { pick(shape) } end
  return a_shape()
end

local function values(shape, dtype, low, high)
  local o = { dtype = dtype }
  if dtype == "bool" then return flame.rand(shape):gt(0.5) end
  if dtype:find "^[iu]" then
    if dtype == "u8" then low = math.max(low, 0) end
    return flame.randint(shape, low, math.max(low, high), o)
  end
  if one_in(3) then return flame.zeros(shape, o) end
  return flame.randn(shape):to(dtype)
end

--- Functions that return x's values as a view of a larger tensor, or with other strides.
local VIEWS = {
  function(x)
    return x.ndim > 0 and x:unsqueeze(1):expand(2, table.unpack(x.shape)):select(1, 2) or x
  end,
  function(x) return x.ndim > 1 and x:transpose(1, 2):contiguous():transpose(1, 2) or x end,
  function(x)
    return x.ndim > 0 and flame.cat({ x, x }, 1):narrow(1, x.shape[1] + 1, x.shape[1]) or x
  end,
  function(x) return x.ndim > 0 and x[{ { -1, 1, -1 } }] or x end,
  function(x) return x:reshape(-1):reshape(x.shape) end,
}
--- A tensor like x that has failed or will fail when evaluated: by an index out of range, or by the
--- inverse of a singular matrix.
local function failing(x)
  if x.ndim == 0 then x = x:reshape(1) end
  local y
  if x.dtype:find "^f[36]" and one_in(3) then
    y = x + flame.zeros({ 2, 2 }, { dtype = x.dtype }):inverse():sum()
  else y = x:index_select(1, flame.full({ x.shape[1] }, 99, { dtype = "i64" })) end
  if x.shape[1] == 0 then
    y = x + flame.ones(1, { dtype = x.dtype }):index_select(1,
      flame.tensor({ 7 }, { dtype = "i64" }))
  end
  if one_in(2) then pcall(flame.eval, y) end
  return y
end

local function finish(x)
  if one_in(3) then
    local ok, y = pcall(pick(VIEWS), x)
    if ok then x = y end
  end
  if one_in(12) then x = failing(x) end
  if not one_in(3) then pcall(flame.eval, x) end
  if x.dtype:find "f" and one_in(4) then pcall(x.requires_grad_, x) end
  return x
end
local function a_tensor(dtype)
  return finish(values(near_shape(), dtype or (one_in(4) and a_dtype() or theme.dtype), -3, 4))
end
local function positions()
  local shape = one_in(2) and near_shape() or { pick(SIZES) }
  return finish(values(shape, one_in(8) and a_dtype() or "i64",
    one_in(6) and -100 or one_in(3) and 0 or 1, one_in(6) and 9 or 2))
end

-- ---- other arguments ----------------------------------------------------------------------------
local ODD = { 0 / 0, math.huge, -1, 0, "text", true, math.mininteger, 1.5, print }
local function an_integer(name)
  if name:find "^d[im]*%d?$" or name:find "axis" or name == "start" then
    return pick { 1, 1, 2, 2, 3, -1, -1, -2, 4, 0 }
  end
  return pick { 0, 1, 1, 1, 2, 2, 3, -1 }
end
local function a_number() return pick { 0, 1, 2, 0.5, -1, 1e-5, 0.1, 3, 1 / 0, 0 / 0 } end
local function integers()
  local out = {}
  if one_in(6) then return flame.empty(near_shape()).shape end
  if one_in(4) then
    for k, n in ipairs(near_shape()) do out[k] = n end
    return out
  end
  for k = 1, random(0, 3) do out[k] = an_integer(one_in(2) and "d" or "size") end
  return out
end
local function tensor_of(x)
  return flame.is_tensor(x) and x or error("callback: got no tensor", 0)
end
local FUNCTIONS = { function(x) return x end, function(x) return tensor_of(x):sum() end,
  function(x) return tensor_of(x) * 2 end,
  function(x, y) return (tensor_of(x) * tensor_of(y or x)):sum() end }
local WORDS = { "mean", "sum", "none", "prod", "amax", "amin", "max", "min", "constant", "reflect",
  "replicate", "circular", "nearest", "linear", "bilinear", "trilinear", "area", "same", "valid",
  "fro", "nuc", "full", "reduced", "complete", "r", "forward", "ortho",
  "backward", "f32", "i64", "bf16", "floor", "trunc", "ij", "xy", "ij,jk->ik", "i,i->", "tanh",
  "zeros", "border", "lower", "upper" }

local any_value
--- A random value of a type as it is documented, such as "integer|integer[]?", for a parameter.
local function of_type(name, kind, options)
  kind = kind:gsub("%s%s.*$", "")
  local types = {}
  for word in kind:gmatch "[^|]+" do types[#types + 1] = word end
  local word = pick(types):gsub("[%s?]", "")
  if name == "idx" or name:find "^ind" or name == "ids" or name == "index" or name == "pivots"
      or name == "at" or name == "labels"
    or name == "target" and one_in(2) then return positions() end
  if name:find "mask" or name == "cond" then return a_tensor "bool" end
  if word == "flame.Tensor" or word == "flame.tensor" then return a_tensor() end
  if word == "flame.Tensor[]" then
    local out = {}
    for k = 1, random(0, 3) do out[k] = a_tensor() end
    return out
  end
  if word == "integer" then return an_integer(name) end
  if word == "integer[]" then return integers() end
  if word == "number" then return a_number() end
  if word == "boolean" then return one_in(2) end
  if word == "string" then return pick(WORDS) end
  if word:find '^"' then return word:sub(2, -2) end
  if word == "function" then return pick(FUNCTIONS) end
  if word == "flame.Distribution" then return a_distribution() end
  if word == "flame.Transform" then return a_transform() end
  if word == "flame.Schedule" then return a_schedule() end
  if word == "flame.Algebra" then return pick(algebras) end
  if word == "table" then
    if #options == 0 then return integers() end
    local out = {}
    for _ = 1, random(0, 2) do
      local o = pick(options)
      if o[2]:find "true" or o[2]:find "false" then out[o[1]] = one_in(2)
      elseif o[2]:find "%d" then out[o[1]] = one_in(2) and an_integer(o[1]) or a_number()
      else out[o[1]] = any_value(o[1], options) end
    end
    return out
  end
  return any_value(name, options)
end
function any_value(name, options)
  return of_type(name,
    pick { "flame.Tensor", "flame.Tensor", "integer", "integer[]", "number", "string", "boolean",
      "table" }, options)
end

--- Random arguments for a call of c, and how many.
local function arguments(c)
  local out, n = {}, 0
  for _, p in ipairs(c.params) do
    if p[1] == "self" then goto next end
    if p[1] == "..." then
      for _ = 1, random(0, 4) do n = n + 1 out[n] = of_type("size", p[2], c.options) end
      break
    end
    if p[3] and one_in(2) then break end
    n = n + 1
    if one_in(40) then out[n] = pick(ODD) else out[n] = of_type(p[1], p[2] or "any", c.options) end
    ::next::
  end
  if one_in(50) then n = n + 1 out[n] = any_value("x", c.options) end
  return out, n
end

-- ---- one call -----------------------------------------------------------------------------------
local function show(v, depth)
  if flame.is_tensor(v) then
    return ("%s(%s)%s"):format(v.dtype, table.concat(v.shape, ","), v.requires_grad and "'" or "")
  end
  if type(v) ~= "table" then return type(v) == "string" and ("%q"):format(v) or tostring(v) end
  if (depth or 0) > 2 then return "{…}" end
  local out = {}
  for k, x in pairs(v) do
    out[#out + 1] = (type(k) == "number" and "" or tostring(k) .. " = ")
      .. show(x, (depth or 0) + 1)
  end
  return "{" .. table.concat(out, ", ") .. "}"
end
--- "name(arguments)", for reports.
local function described(c, args, n)
  local out = {}
  for k = 1, n do out[k] = show(args[k]) end
  return c.name .. "(" .. table.concat(out, ", ") .. ")"
end

--- Adds to 'out' the tensors in v: v itself, or those in a table and in tables in it ('depth').
local function tensors_in(v, out, depth)
  if flame.is_tensor(v) then out[#out + 1] = v
  elseif type(v) == "table" and depth > 0 and not getmetatable(v) then
    for _, x in pairs(v) do tensors_in(x, out, depth - 1) end
  end
  return out
end
local function use(results)
  for _, v in pairs(results) do
    if type(v) == "table" and getmetatable(v) == plot.Plot and one_in(8) then
      assert(v:svg() and v:pixels(0.5) and tostring(v))
    end
  end
  for _, y in ipairs(tensors_in(results, {}, 3)) do
    flame.eval(y)
    y:totable()
    if y.requires_grad and one_in(2) then
      y:sum():backward()
    elseif one_in(3) and y.dtype ~= "bool" then
      ((y + y):sum() * 2):totable()
    end
  end
end

local FOREIGN = { "attempt to ", "/flame/", "src/", "%.c:", "internal", "table expected",
  -- "positions begin at 1": raised if the library itself reads x.shape[0]
  "bad argument", "positions begin at 1" }
--- What is wrong with the message of an error, or nil.
local function complaint(e)
  if type(e) ~= "string" then return "the error is a " .. type(e) end
  local last = flame.last_error()
  if e:find("\1", 1, true) then return "the mark before its remedy is left" end
  if last and not last.message:find(last.hint, 1, true) then return "its hint is no part of it" end
  local first = e:match "^[^\n]*"
  -- this message, for arguments that fit no declared signature, does not begin with an op's name
  if first:find(": can not take (", 1, true) then return nil end
  for _, pattern in ipairs(FOREIGN) do
    if first:find(pattern) then return "its text speaks of " .. pattern end
  end
  if not first:find "[%w_%.…%[%]=:/ ]+: [^:]" then return "its text names no op" end
  return nil
end

--- One random call; a fault or nil.
local function call_once(c, trace)
  local listed = c.params[1] and c.params[1][1] == "..."
  theme = { shape = listed and { pick(SIZES) } or a_shape(), dtype = a_dtype(), listed = listed }
  -- components of an algebra
  if c.sized and not one_in(8) then table.insert(theme.shape, 1, pick { 4, 8 }) end
  local args, n = arguments(c)
  local text = trace and described(c, args, n)
  if trace then io.stderr:write("  ", text, "\n") end
  local ok, e = pcall(function()
    local results = table.pack(pcall(c.call, table.unpack(args, 1, n)))
    if not results[1] then error(results[2], 0) end
    local module = c.class and results[2]
    if module then
      results = table.pack(true, module(a_tensor(), one_in(3) and a_tensor() or nil))
    end
    results.n = nil
    use(results)
    for k = 1, n do
      local g = flame.is_tensor(args[k]) and args[k].grad
      if g then flame.eval(g) end
    end
  end)
  if ok then calls.worked[c.name] = (calls.worked[c.name] or 0) + 1 end
  local wrong = not ok and complaint(e)
  if wrong then return ("%s: %s: %s"):format(text or described(c, args, n), wrong, tostring(e)) end
  return nil
end

--- Calls f once with random tensors for the parameters 'names'; returns a fault or nil. For tests.
function calls.once(name, f, names)
  local params = {}
  for k, p in ipairs(names) do params[k] = { p, "flame.Tensor" } end
  return call_once { name = name, call = f, params = params, options = {} }
end

local function live()
  collectgarbage() collectgarbage()
  return flame.stats().live_tensors
end
--- Makes ROUND calls from this seed and adds faults to the list; trace: prints each call before it
--- is made. Returns how many more tensors are alive afterwards.
local function round_of(seed, trace, faults, before_each)
  math.randomseed(seed)
  flame.seed(seed)
  local before, left = live(), 0
  for _ = 1, calls.ROUND do
    if before_each then before_each() end
    faults[#faults + 1] = call_once(pick(list), trace)
    if trace and live() - before ~= left then
      left = live() - before
      io.stderr:write(("    %d tensors are left\n"):format(left))
    end
  end
  return live() - before
end
--- Runs a round: returns how many calls were made, and the faults as texts. before_each() is called
--- before each call; a test plants a fault by it.
function calls.round(seed, trace, before_each)
  list = list or collect()
  local faults = {}
  local left, n = in_folder(round_of, seed, trace, faults, before_each), calls.ROUND
  -- if tensors are left, the round is repeated up to twice: the first may have filled caches
  if left ~= 0 then
    left = in_folder(round_of, seed, false, {}, before_each) > 0
      and in_folder(round_of, seed, false, {}, before_each) or 0
    n = 3 * n
  end
  if left > 0 then faults[#faults + 1] = ("%d tensors are left each time"):format(left) end
  return n, faults
end
--- How many functions take part.
function calls.count()
  list = list or collect()
  return #list
end
calls.complaint, calls.tensors_in = complaint, tensors_in
calls.distribution, calls.transform, calls.schedule = a_distribution, a_transform, a_schedule
function calls.algebra() return algebras[1] end
--- Sets the theme, { shape, dtype }, that operands of later calls follow.
function calls.follow(new) theme = new end

-- ---- as a program: flame-lua spec/fuzz/calls.lua SECONDS [SEED]; 0 SEED is one round, traced ----
if arg and arg[0] and arg[0]:find "calls%.lua$" then
  local seconds, seed = tonumber(arg[1] or 10), math.tointeger(tonumber(arg[2] or 1))
  local single = seconds == 0
  local till, rounds, count, bad = os.time() + seconds, 0, 0, 0
  repeat
    io.write(("fuzz_calls: seed %d\n"):format(seed)) io.flush()
    local n, faults = calls.round(seed, single)
    for _, f in ipairs(faults) do print(("fuzz_calls: round of seed %d: %s"):format(seed, f)) end
    rounds, count, bad, seed = rounds + 1, count + n, bad + #faults, seed + 1
  until os.time() >= till
  local worked, names = 0, 0
  for _, n in pairs(calls.worked) do worked, names = worked + n, names + 1 end
  print(("fuzz_calls: %d rounds, %d calls of %d functions, %d with a value of %d, %d faults"):format(
    rounds, count, calls.count(), worked, names, bad))
  os.exit(bad == 0, true)
end
return calls
