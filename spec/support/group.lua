--- For specs of several processes: run, agree and fails run a script in n processes
-- (spec/support/ranks.lua), connected by MPI under mpirun, or by TCP as torchrun starts them.
-- cases() makes a case of busted for each of the two transports.
local luassert = require "luassert"
local ranks = require "spec.support.ranks"

local group = {}

--- A script for two ranks: it compares gradients of collectives with differences of the sum of both
--- ranks' losses.
group.GRADIENTS = [[
local functions = {
  function(x) return distributed.all_reduce(x) end,
  function(x) return distributed.all_reduce(x, "mean") end,
  function(x) return distributed.all_reduce(x, "max") end,
  function(x) return distributed.all_reduce(x, "min") end,
  function(x) return distributed.all_gather(x) end,
  function(x) return distributed.reduce_scatter(x) end,
  function(x) return distributed.reduce_scatter(x, "mean") end,
  function(x) return distributed.reduce_scatter(x, "max") end,
  function(x) return distributed.broadcast(x, 2) end,
  function(x) return distributed.all_to_all(x) end,
  function(x) return distributed.all_gather(x[{ { 1, 4 - r } }], { 3, 2 }) end,
  function(x) return distributed.reduce_scatter(x, "min", { 3, 1 }) end,
  function(x) return distributed.reduce_scatter(x, "mean", { 0, 4 }) end,
  function(x) return distributed.all_reduce(x:square():sum()) end,
  function(x)                                         -- sent on, and returned
    if r == 1 then
      local zero = distributed.send(x, 2)
      return distributed.receive(x, 2) + zero
    end
    local y = distributed.receive(x, 1)
    return y + distributed.send(x * 3, 1)
  end }
local values = { { 0.3, -0.2, 0.8, 0.1 }, { 0.5, 0.4, -0.6, 0.2 } }
for k, f in ipairs(functions) do
  local function loss(x) return (f(x):sin() * r):sum() end
  local x = flame.tensor(values[r], { dtype = "f64", requires_grad = true })
  loss(x):backward()
  for owner = 1, n do
    for i = 1, 4 do
      local at = {}
      for side = 1, 2 do
        local v = { table.unpack(values[r]) }
        if r == owner then v[i] = v[i] + (side == 1 and 1e-6 or -1e-6) end
        at[side] = distributed.all_reduce(loss(flame.tensor(v, { dtype = "f64" }))):item()
      end
      local d = (at[1] - at[2]) / 2e-6
      if r == owner then assert(math.abs(d - x.grad[i]:item()) < 1e-6, k) end
    end
  end
end
print "good"]]

--- The transport of the case that is running: "mpi" or "tcp".
local by

function group.by() return by end

function group.run(n, text, o)
  local how = { by = by }
  for key, v in pairs(o or {}) do how[key] = v end
  local out = ranks.run(n, text, how)
  for k = 1, n do out[k] = out[k]:gsub(" on a GPU", "") end         -- with FLAME_DEVICE=cuda
  return out
end

--- Runs the script 'text' in n processes. All must succeed and print 'expected': one text for all
--- ranks, or a list with one for each. o: as for run in ranks.lua.
function group.agree(n, expected, text, o)
  local out = group.run(n, text, o)
  for k = 1, n do
    luassert.equal(type(expected) == "table" and expected[k] or expected, out[k])
  end
  luassert.equal(0, out.status, out.mpirun)
  return out
end

--- Runs the script 'text' in n processes; it must fail. expected[rank]: a text, or a list of texts,
--- that the output of this rank must contain.
function group.fails(n, expected, text, o)
  local out = group.run(n, text, o)
  luassert.are_not.equal(0, out.status)
  for k, pieces in pairs(expected) do
    for _, piece in ipairs(type(pieces) == "table" and pieces or { pieces }) do
      luassert.is_truthy(out[k]:find(piece, 1, true), ("rank %d: %s"):format(k, out[k]))
    end
  end
  return out
end

--- Functions over_mpi, over_tcp, over_both(name, f) that make cases, by busted's it and pending.
function group.cases(it, pending)
  local function over_mpi(name, f)
    it(name .. " (MPI)", function()
      if not ranks.there then return pending("no mpirun (apt-get install openmpi-bin)") end
      by = "mpi"
      f()
    end)
  end
  local function over_tcp(name, f)
    it(name .. " (TCP)", function()
      by = "tcp"
      f()
    end)
  end
  local function over_both(name, f)
    over_mpi(name, f)
    over_tcp(name, f)
  end
  return over_mpi, over_tcp, over_both
end

return group
