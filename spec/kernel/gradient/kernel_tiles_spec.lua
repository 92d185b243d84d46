--- Algorithms whose arrays in shared memory are read and rewritten in loops: factorisations,
--- solvers, sweeps, two buffers that change places, sorts, scans, transforms. Gradients agree with
--- central differences, to second order too, and on a GPU with little shared memory with those of
--- the CPU.
local flame = require "flame"
local machine = dofile("spec/support/machine.lua")
local tiles = dofile("spec/kernel/kernel_tiles.lua")

local BLOCKS <const> = 2

--- A kernel as kernel_tiles.lua has it: a function of x and the number n.
local function made(o)
  local source = ([[%s
    __global__ void %s(const double *xx, double *yy, int n) {
      const double *x = xx + blockIdx.x * %d; double *y = yy + blockIdx.x * %d;
      %s
    }]]):format(o.before, o.name, o.n, o.out, o.source)
  local k = flame.kernel { source = source, block = { o.threads }, grid = { BLOCKS },
    shape = { BLOCKS * o.out }, shared = o.shared }
  return function(x) return k(x, o.steps) end
end

local function row(n, phase, device)
  local l = {}
  for i = 1, BLOCKS * n do l[i] = 0.6 * math.sin(1.7 * i * i + phase) end
  return flame.tensor(l, { dtype = "f64" }):to(device or "cpu")
end

--- Compares g with central differences of f at every 'stride'-th element.
local function differs(f, x, g, o, stride, step, tolerance)
  if o.coarse then step, tolerance = 1e-2, 1e-2 end
  for at = 1, BLOCKS * o.n, stride do
    local function moved(by)
      local v = x:clone()
      v[at] = x[at]:item() + by
      return f(v):item()
    end
    local d = (moved(step) - moved(-step)) / (2 * step)
    assert(math.abs(g[at]:item() - d) <= tolerance * (1 + math.abs(d)),
      ("%s, element %d: %.12g, central difference %.12g"):format(o.name, at, g[at]:item(), d))
  end
end

for _, o in ipairs(tiles) do
  it(o.name .. " has right derivatives", function()
    local k = made(o)
    local x, w, u = row(o.n, 0), row(o.out, 1), row(o.n, 2)
    local function f(v) return (k(v) * w):sum() end
    local first = flame.grad(f)
    local function along(v) return (first(v) * u):sum() end
    local g = first(x)
    assert(g:abs():max():item() > 1e-3)
    differs(f, x, g, o, 1, 1e-6, 1e-6)
    if not o.coarse then differs(along, x, flame.grad(along)(x), o, 7, 1e-5, 1e-5) end
  end)
end

--- A script that compares the gradients of all these kernels on a GPU with the CPU's.
local compare <const> = [=[
  local BLOCKS = 2
  for _, o in ipairs(dofile "spec/kernel/kernel_tiles.lua") do
    local k = flame.kernel { source = ([[%s
      __global__ void %s(const double *xx, double *yy, int n) {
        const double *x = xx + blockIdx.x * %d; double *y = yy + blockIdx.x * %d;
        %s
      }]]):format(o.before, o.name, o.n, o.out, o.source), block = { o.threads },
      grid = { BLOCKS }, shape = { BLOCKS * o.out }, shared = o.shared }
    local function row(n, phase, device)
      local l = {}
      for i = 1, BLOCKS * n do l[i] = 0.6 * math.sin(1.7 * i * i + phase) end
      return flame.tensor(l, { dtype = "f64" }):to(device)
    end
    local function gradient(device)
      local x = row(o.n, 0, device):requires_grad_()
      ;(k(x, o.steps) * row(o.out, 1, device)):sum():backward()
      return x.grad:to("cpu")
    end
    local cpu = gradient("cpu")
    local far = ((gradient("cuda") - cpu):abs():max() / cpu:abs():max()):item()
    if not (far < (o.coarse and 1e-5 or 1e-11)) then print(o.name, far) end
  end
  print "compared"]=]

it("their gradients are the same on a GPU with little shared memory, in another order", function()
  local folder = machine.new()
  local ok, text = pcall(machine.run, folder, compare,
    "FAKE_CUDA=\"computes=1 shared=1024 seed=3\"")
  machine.remove(folder)
  assert(ok, text)
  assert.equal("compared\n", text)
end)
