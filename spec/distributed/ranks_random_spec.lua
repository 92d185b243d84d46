--- Random programs of collectives, ops, writes and gradients over several ranks. All ranks make the
--- same calls, but each rank reads, evaluates, frees and drops values at other moments. Each rank
--- also computes the values of all ranks alone, without a collective; both must have the same
--- bits.
require "spec.support.helper"
local ranks = require "spec.support.ranks"

local PROGRAM = [[
local first, programs, planted = %d, %d, %q
local function generator(seed)
  local state = seed * 2654435761 %% 4294967296
  return function(m)
    state = (state * 1103515245 + 12345) %% 2147483648
    return state // 65536 %% m + 1
  end
end

-- A value of shape (n, 2): real, that of this rank; all, by rank, computed on this rank.
local function value(draw)
  local v = { all = {} }
  for k = 1, n do v.all[k] = flame.full({ n, 2 }, draw(9)) + flame.arange(2 * n):reshape(n, 2) * k end
  v.real = v.all[r]:clone()
  return v
end
local function each(a, f)
  local all = {}
  for k = 1, n do all[k] = f(k) end
  return { real = a, all = all }
end
local function total(all)
  local sum = all[1]
  for k = 2, n do sum = sum + all[k] end
  return sum
end
local function extreme(all)
  local y = all[1]
  for k = 2, n do y = y:maximum(all[k]) end
  return y
end

local steps = {
  function(a, b) return each(a.real * 0.5 + b.real, function(k) return a.all[k] * 0.5 + b.all[k] end) end,
  function(a) return each(a.real:tanh() * 3, function(k) return a.all[k]:tanh() * 3 end) end,
  function(a) return each(distributed.all_reduce(a.real) * 0.25,
    function() return total(a.all) * 0.25 end) end,
  function(a) return each(distributed.all_reduce(a.real, "max"), function() return extreme(a.all) end) end,
  function(a) return each(distributed.all_gather(a.real)[{ { 1, n } }] * 1,
    function() return a.all[1] end) end,
  function(a) return each(distributed.reduce_scatter(a.real):expand(n, 2) * 0.5,
    function(k) return total(a.all)[{ { k, k } }]:expand(n, 2) * 0.5 end) end,
  function(a, _, draw)
    local from = draw(n)
    return each(distributed.broadcast(a.real, from), function() return a.all[from] end)
  end,
  function(a) return each(distributed.all_to_all(a.real), function(k)
    local parts = {}
    for j = 1, n do parts[j] = a.all[j][{ { k, k } }] end
    return flame.cat(parts, 1)
  end) end,
  function(a, _, draw)                                   -- passed round the ring by one
    local from = draw(n)
    local to = from %% n + 1
    local y = a.real * 2
    if r == from then distributed.send(a.real, to) end
    if r == to then y = distributed.receive(a.real, from) end
    return each(y, function(k) return k == to and a.all[from] or a.all[k] * 2 end)
  end,
  function(a, b)                                         -- a write of the result of a collective
    local y = a.real:clone()
    y:add_(distributed.all_reduce(b.real) * 0.125)
    return each(y, function(k) return a.all[k] + total(b.all) * 0.125 end)
  end,
  -- a gradient, which is a collective as well
  function(a)
    local x = a.real:detach():requires_grad_()
    local y = distributed.all_reduce(x * x);
    (y * (0.01 * r)):sum():backward()
    return each(x.grad, function(k)
      local g = flame.full({ n, 2 }, 0.01)
      local sum = g * 1
      for j = 2, n do sum = sum + flame.full({ n, 2 }, 0.01 * j) end
      local s = a.all[k] * sum
      return s + s
    end)
  end,
}

local function check(seed, step, v)
  if planted == "yes" and step == 20 and r == 2 then v.real = v.real + 1e-3 end
  if not flame.allclose(v.real, v.all[r], 1e-5, 1e-5) then
    error(("program %%d, step %%d: rank %%d has %%s, expected %%s"):format(seed, step, r,
      tostring(v.real), tostring(v.all[r])), 0)
  end
end

for seed = first, first + programs - 1 do
  local draw, mine = generator(seed), generator(seed * 100 + r)
  local values = { value(draw), value(draw), value(draw) }
  for step = 1, 20 do
    local f, a, b = steps[draw(#steps)], values[draw(3)], values[draw(3)]
    local v = f(a, b, draw)
    local what = mine(8)
    if what == 1 then check(seed, step, v)
    elseif what == 2 then flame.eval()
    elseif what == 3 then flame.eval(v.real)
    elseif what == 4 then collectgarbage()
    elseif what == 5 then local _ = v.real:sum():item() end
    values[draw(3)] = v
  end
  for _, v in ipairs(values) do check(seed, 20, v) end
end
print "good"]]

local PROGRAMS <const> = 10          -- per run of n processes; few, since a GPU compiles each

describe("random programs over ranks", function()
  local function run(n, first, programs, o, planted)
    return ranks.run(n, PROGRAM:format(first, programs, planted or "no"), o)
  end
  for _, case in ipairs {
    { 2, "FLAME_THREADS=1" }, { 3, "FLAME_THREADS=1" },
    { 2, "FLAME_BUDGET=$((5 * OMPI_COMM_WORLD_RANK + 1))" }, { 4, "FLAME_BUDGET=17" },
  } do
    for first = 1, 60, PROGRAMS do
      it(("agree with what each computes alone: %d ranks, %s, seed %d"):format(case[1], case[2],
        first), function()
        local out = run(case[1], first, PROGRAMS, { by = "tcp", with = case[2] })
        for k = 1, case[1] do assert.equal("good\n", out[k]) end
      end)
    end
  end
  it("see a value that is wrong on one rank", function()
    local out = run(2, 1, 3, { by = "tcp" }, "yes")
    assert.is_truthy(out[2]:find("step 20: rank 2 has", 1, true), out[2])
  end)
end)
