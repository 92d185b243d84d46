--- For specs of several processes: run, agree and fails run a script in n processes
-- (spec/support/ranks.lua), connected by MPI under mpirun, or by TCP as torchrun starts them.
-- cases() makes a case of busted for each of the two transports.
local luassert = require "luassert"
local ranks = require "spec.support.ranks"

local group = {}

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
