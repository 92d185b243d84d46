--- What the steps of random programs (programs.lua) do. The file returns a function of lib: flame,
-- or the O of oracle.lua, which has functions of the same names. It gives a table with a function
-- for each kind of step: run[s.f](s, x, vars, mode), x = vars[s.a], returns the value of s.o.
local function take(vars, k)
  local x = vars[k]
  if x == nil then error("variable " .. tostring(k) .. " is gone", 0) end
  return x
end
local ARITH = {
  add = function(a, b) return a + b end, sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end, div = function(a, b) return a / b end,
  mod = function(a, b) return a % b end, floordiv = function(a, b) return a // b end,
  bitwise_and = function(a, b) return a & b end, bitwise_or = function(a, b) return a | b end,
  bitwise_xor = function(a, b) return a ~ b end,
}

--- Ops of values alone.
local function values(run, lib)
  function run.un(s, x)
    if s.op == "neg" and s.o % 2 == 0 then return -x end
    return x[s.op](x)
  end
  function run.bin(s, x, vars)
    local y = s.b and take(vars, s.b) or s.n
    if s.rev then x, y = y, x end
    if ARITH[s.op] then return ARITH[s.op](x, y) end
    return lib[s.op](x, y)
  end
  function run.where(s, x, vars)
    return lib.where(x, take(vars, s.b), s.c and take(vars, s.c) or s.n)
  end
  function run.clamp(s, x) return x:clamp(s.lo, s.hi) end
  function run.cast(s, x) return x:to(s.dtype) end
  function run.silu(_, x) return x:silu() end
  function run.gelu(_, x) return x:gelu("tanh") end
  function run.red(s, x)
    if s.op:find "^arg" and s.axes then return x[s.op](x, s.axes[1], { keepdim = s.keep }) end
    if s.axes then return x[s.op](x, s.axes, { keepdim = s.keep }) end
    return x[s.op](x, { keepdim = s.keep })
  end
  function run.maxd(s, x, vars)
    local v, i = x[s.op](x, s.d, { keepdim = s.keep })
    vars[s.o2] = i
    return v
  end
  function run.mm(s, x, vars) return x:matmul(take(vars, s.b)) end
  function run.softmax(s, x) return s.log and x:log_softmax(s.d) or x:softmax(s.d) end
  function run.layer_norm(s, x, vars)
    return x:layer_norm({ x.shape[#x.shape] }, s.w and take(vars, s.w), s.b and take(vars, s.b))
  end
  function run.cross_entropy(s, x, vars)
    return lib.cross_entropy(x, take(vars, s.i), { reduction = s.how })
  end
  function run.branch(s, x, vars)
    if x:item() > s.thr then return take(vars, s.b) + take(vars, s.c) end
    return take(vars, s.b) - take(vars, s.c)
  end
  local function draw(s)
    if s.kind == "randint" then return lib.randint(s.shape, 1, 6) end
    return lib[s.kind](s.shape, { dtype = s.dtype })
  end
  run.rand = draw
  function run.dead(s) draw(s) end
end

--- Views, joins, positions, writes.
local function places(run, lib)
  function run.view(s, x)
    if s.op == "slice" then return x[s.arg] end
    if s.op == "select" or s.op == "narrow" then return x[s.op](x, table.unpack(s.arg)) end
    if s.arg == nil then return x[s.op](x) end
    return x[s.op](x, s.arg)
  end
  function run.join(s, _, vars)
    local list = {}
    for i, k in ipairs(s.list) do list[i] = take(vars, k) end
    return lib[s.op](list, s.d)
  end
  function run.pad(s, x)
    local ends = {}
    for d = #s.before, 1, -1 do ends[#ends + 1] = s.before[d]; ends[#ends + 1] = s.after[d] end
    return x:pad(ends, { value = s.value })
  end
  function run.gather(s, x, vars) return x:gather(s.d, take(vars, s.i)) end
  function run.index_select(s, x, vars) return x:index_select(s.d, take(vars, s.i)) end
  function run.embedding(s, x, vars) return lib.embedding(take(vars, s.i), x) end
  function run.scatter(s, x, vars)
    return x[s.add and "scatter_add" or "scatter"](x, s.d, take(vars, s.i), take(vars, s.b))
  end
  function run.index_add(s, x, vars) return x:index_add(s.d, take(vars, s.i), take(vars, s.b)) end
  function run.set(s, x, vars)
    local v = s.n
    if s.b then v = take(vars, s.b) elseif x.dtype == "bool" then v = v ~= 0 end
    x[s.key] = v
  end
  function run.inplace(s, x, vars)
    local f = x[s.op .. "_"]
    local y
    if s.b then y = f(x, take(vars, s.b)) elseif s.n then y = f(x, s.n) else y = f(x) end
    if y ~= x then error(s.op .. "_ did not return its handle", 0) end
  end
  function run.del(s, _, vars) vars[s.a] = nil end
  function run.eval(s, _, vars) for _, k in ipairs(s.drop) do vars[k] = nil end end
end

return function(lib)
  local run = {}
  values(run, lib)
  places(run, lib)
  return run
end
