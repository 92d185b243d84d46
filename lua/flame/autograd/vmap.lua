--- flame.vmap: applies a function of one example to all examples of a batch. Each example runs as a
-- coroutine, which waits at a call of a kernel until the others have come to theirs; equal calls
-- are then one launch (internal.kernel_each).
local flame = require "flame"
local internal = flame.internal
local arguments = require "flame.base.arguments"
local method = require "flame.kernel.method"
local fail, def, is_tensor = arguments.fail, arguments.def, flame.is_tensor

-- x, one example of a batch (x = whole[i]) -> { whole =, at = i }; weak, so x can be collected.
local whole_of = setmetatable({}, { __mode = "k" })
local examples = setmetatable({}, { __mode = "k" })        -- coroutines that run one
local CALL <const> = {}                                    -- what they yield first
local FAILED <const> = {}                         -- a failed call's results: FAILED, the error

-- ---- batches of values --------------------------------------------------------------------------

local function part(whole, i)
  local x = whole[i]
  whole_of[x] = { whole = whole, at = i }
  return x
end

--- Stacks tensors along a new first axis; if they are all parts of one tensor, in order, gives that
--- tensor.
local function joined(list)
  local first = whole_of[list[1]]
  local whole = first and first.whole
  local same = whole and whole.shape[1] == #list
  for i, x in ipairs(list) do
    local of = whole_of[x]
    same = same and of and of.whole == whole and of.at == i
  end
  return same and whole or flame.stack(list)
end

local function is_plain(x) return type(x) == "table" and getmetatable(x) == nil end

--- Example j of what 'batched' returned.
local function example(whole, j)
  if is_tensor(whole) then return part(whole, j) end
  if not is_plain(whole) then return whole end
  local out = {}
  for key, x in pairs(whole) do out[key] = example(x, j) end
  return out
end

--- The number of examples in what 'batched' returned; nil: it holds no tensor.
local function count_in(whole, i, n)
  if is_tensor(whole) then
    if n and n ~= whole.shape[1] then
      fail("vmap", "argument %d has %d examples, those before it %d", i, whole.shape[1], n)
    end
    return whole.shape[1]
  end
  for _, x in pairs(is_plain(whole) and whole or {}) do n = count_in(x, i, n) end
  return n
end

--- Result r of all n examples as one value: tensors are stacked, tables by their keys.
local function gathered(values, n, r)
  for j = 1, n do
    local x = values[j]
    if not (is_tensor(x) and is_tensor(values[1]) or is_plain(x) and is_plain(values[1])) then
      fail("vmap", "result %s of example %d is a %s, need a tensor or a table of them in each", r, j,
        is_tensor(x) and "tensor" or type(x))
    end
  end
  if is_tensor(values[1]) then return joined(values) end
  local out = {}
  for key in pairs(values[1]) do
    local list = {}
    for j = 1, n do list[j] = values[j][key] end
    out[key] = gathered(list, n, r .. "." .. tostring(key))
  end
  return out
end

--- Argument i with its batch axis moved to the front; of a plain table with an axis, that of each
--- tensor in it; nil if it has none (all examples share x).
local function batched(x, axis, i)
  if axis and is_plain(x) then
    local out = {}
    for key, v in pairs(x) do
      local one = batched(v, axis, i)
      if one == nil then one = v end
      out[key] = one
    end
    return out
  end
  if not is_tensor(x) or axis == false then return nil end
  axis = axis or 1
  if axis < 0 then axis = x.ndim + 1 + axis end
  if axis < 1 or axis > x.ndim then
    fail("vmap", "argument %d has %d axes, its batch can not be along axis %s\1: false where all "
      .. "examples have the same", i, x.ndim, tostring(axis))
  end
  return (axis == 1 and x or x:movedim(axis, 1)):contiguous()
end

-- ---- calls of kernels ---------------------------------------------------------------------------

--- Calls with equal keys (kernel, dtypes, devices, shapes, numbers) may become one launch.
local function kind_of(call)
  local key = { tostring(call.k), tostring(call.n) }
  for i = 1, call.n do
    local x = call[i]
    key[#key + 1] = is_tensor(x) and x.dtype .. x.device .. "(" .. table.concat(x.shape, " ") .. ")"
      or math.type(x) and ("%s%q"):format(math.type(x), x) or tostring(x)
  end
  return table.concat(key, "\0")
end

--- nil if one launch can not make all of these calls. Else a mask, with bit i - 1 set if argument i
--- differs between the calls, and the arguments of the launch, those that differ stacked.
local function one_launch(calls, info)
  local args, bits, i = { n = calls[1].n }, 0, 0
  if info.config.vjp then return nil end                  -- the vjp is for a single call
  for _, q in ipairs(info.params) do
    if q.part then return nil end                         -- of a struct: several are one argument
    if q.role ~= "out" and not q.hidden then
      i = i + 1
      local list, same = {}, true
      for j, call in ipairs(calls) do
        list[j] = call[i]
        same = same and rawequal(call[i], calls[1][i])
      end
      if not is_tensor(list[1]) or same and q.role ~= "inout" then args[i] = list[1]
      elseif not q.pointer or i > 64 then return nil        -- a launch has one value per number
      else args[i], bits = joined(list):contiguous(), bits | 1 << i - 1 end
    end
  end
  return bits ~= 0 and bits or nil, args
end

--- The kernel with its shape, grid and threads as numbers, where they are functions of the call's
--- arguments.
local function sized(k, config, call)
  local geometry
  for _, name in ipairs { "shape", "grid", "threads" } do
    if type(config[name]) == "function" then
      geometry = geometry or {}
      geometry[name] = config[name](table.unpack(call, 1, call.n))
    end
  end
  return geometry and k:with(geometry) or k
end

--- Runs f(calls, …), which sets .results of each call, or sets them to FAILED and f's error.
local function attempt(calls, f, ...)
  local ok, why = pcall(f, calls, ...)
  for _, call in ipairs(ok and {} or calls) do call.results = { n = 2, FAILED, why } end
end

local function make_one(calls, launch)
  local call = calls[1]
  call.results = table.pack(launch(call.k, table.unpack(call, 1, call.n)))
end

local function make(calls, launch)
  local k = calls[1].k
  local info = internal.kernel_info(k)
  local bits, args
  if #calls > 1 then bits, args = one_launch(calls, info) end
  if not bits then
    for _, call in ipairs(calls) do attempt({ call }, make_one, launch) end
    return
  end
  local all = table.pack(internal.kernel_each(sized(k, info.config, calls[1]), #calls, bits,
    table.unpack(args, 1, args.n)))
  for j, call in ipairs(calls) do
    call.results = { n = all.n }
    for r = 1, all.n do call.results[r] = part(all[r], j) end
  end
end

-- ---- examples in turns --------------------------------------------------------------------------

local function modes() return flame.is_grad_enabled(), flame.autocast(), internal.scopes() end

--- Closes the coroutines of examples that an error in another example has left suspended.
local function close(list)
  for _, x in ipairs(list) do coroutine.close(x.thread) end
end

--- Runs all examples up to their ends; each is {thread, args}, and gets .results.
local function run(list, launch)
  local open = table.move(list, 1, #list, 1, {})
  while #open > 0 do
    local waiting, groups, order = {}, {}, {}
    for _, x in ipairs(open) do
      local got = table.pack(coroutine.resume(x.thread, table.unpack(x.args, 1, x.args.n)))
      if not got[1] then error(got[2], 0) end
      if coroutine.status(x.thread) == "dead" then
        x.results = { n = got.n - 1, table.unpack(got, 2, got.n) }
      elseif got[2] ~= CALL then
        fail("vmap", "the function yields, which only its caller could answer")
      else
        local call = { k = got[3], n = got.n - 3, table.unpack(got, 4, got.n) }
        local key = kind_of(call)
        if not groups[key] then
          groups[key] = {}
          order[#order + 1] = groups[key]
        end
        table.insert(groups[key], call)
        x.call, waiting[#waiting + 1] = call, x
      end
    end
    for _, calls in ipairs(order) do attempt(calls, make, launch) end
    for _, x in ipairs(waiting) do x.args = x.call.results end
    open = waiting
  end
end

local function answer(...)
  if ... == FAILED then error(select(2, ...), 0) end
  return ...
end

--- What vmap puts in place of a kernel's launch: it yields, so that the examples' calls are made
--- together; it launches at once if f changed grad mode, autocast or scopes, or C called f.
local function waits(launch, grad, cast, scopes)
  return function(...)
    local g, c, s = modes()
    if examples[coroutine.running()] == launch and coroutine.isyieldable() and g == grad
        and c == cast and s == scopes then
      return answer(coroutine.yield(CALL, (...), method.plain(...)))
    end
    return launch(...)
  end
end

--- The number of examples, and the list of arguments as 'batched' returns them.
local function examples_of(axes, given)
  local whole, n = {}, nil
  for i = 1, given.n do
    local axis = axes
    if type(axes) == "table" then axis = axes[i] end
    whole[i] = batched(given[i], axis, i)
    n = count_in(whole[i], i, n)
  end
  if not n or n == 0 then
    fail("vmap", n and "the batch is empty" or "no argument is a tensor with a batch, "
      .. "nor a table with an axis\1: give axes")
  end
  return n, whole
end

--- A function that applies f to each example of a batch; its arguments have one axis more than f's.
--- axes: that axis (default: 1), or a list, one per argument; false: all examples share it, as they
--- do a table without an axis. Results have the axis first, in tables as well. f runs once per
--- example; calls of a kernel become one launch.
def(".vmap(f: fn, axes?: any) -> fn", function(f, axes)
  return function(...)
    local given, list = table.pack(...), {}
    local n, whole = examples_of(axes, given)
    local launch = internal.kernel_call()
    local before = table.pack(modes())
    for j = 1, n do
      local args = { n = given.n }
      for i = 1, given.n do args[i] = whole[i] and example(whole[i], j) or given[i] end
      local thread = coroutine.create(function(...) return f(...) end)
      examples[thread] = launch
      list[j] = { thread = thread, args = args }
    end
    local _ <close> = setmetatable({}, { __close = function()
      internal.kernel_call(launch)
      close(list)
    end })
    internal.kernel_call(waits(launch, table.unpack(before, 1, before.n)))
    run(list, launch)
    local out = { n = list[1].results.n }
    for r = 1, out.n do
      local values = {}
      for j = 1, n do values[j] = list[j].results[r] end
      out[r] = gathered(values, n, tostring(r))
    end
    return table.unpack(out, 1, out.n)
  end
end)
