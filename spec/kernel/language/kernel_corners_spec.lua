--- Kernels for which a wrong adjoint is likely (spec/kernel/language/corners/): gradients to second
-- order against central differences, forward against reverse mode, sums in order and by atomics.
-- The derived kernels also run under the race check (in a child process), since threads run in
-- lockstep on the CPU and do not show races. A refused gradient must be refused with the line.
--
--   { "name", "body", sig = signature, before = text in front of the kernel, n =, grid =, block =,
--     shape =, shared =, inout =, inputs = tensors to differentiate by, rest = arguments after
--     them, call = f(kernel, inputs), order =, eps =, rtol =, atol =, tol =, refuses = "text",
--     drawn = values depend on the order of atomics, so not on a GPU }
--
-- A body computes double y[n] from x[n], n = 12; i is the thread in the grid, t in the block.
-- CORNERS_PART=2/8 tests every eighth kernel only, so that eight processes can share the work.
local flame = require "flame"
local helper = require "spec.support.helper"
local proof = dofile("spec/kernel/kernel_proof.lua")

local function f64(n, shift)
  local list = {}
  for j = 1, n do list[j] = (shift or 0) + math.sin(1.7 * j + 0.3) + 0.01 * j end
  return flame.tensor(list, { dtype = "f64" })
end

local function kernel(c)
  local n = c.n or 12
  return flame.kernel {
    source = (c.before or "") .. "\n__global__ void k("
    .. (c.sig or "const double *x, double *y, int n") ..
    ") {\n  int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;\n" .. c[2] .. "\n}",
    grid = c.grid or { 1 }, block = c.block or { n }, shape = c.shape or { n }, shared = c.shared,
    inout = c.inout }
end

local function check(c, order)
  local n, k = c.n or 12, kernel(c)
  local inputs, rest = c.inputs or (c.inout and { f64(n), f64(n, 0.4) } or { f64(n) }),
    c.rest or { n }
  local function f(...)
    if c.call then return c.call(k, ...) end
    local all = table.pack(...)
    for j, v in ipairs(rest) do all[#inputs + j] = v end
    return k(table.unpack(all))
  end
  proof.check(f, inputs,
    { order = order or c.order, eps = c.eps, rtol = c.rtol, atol = c.atol, tol = c.tol })
end

local function refuses(c, text)
  local why = helper.message(check, c)
  assert(tostring(why):find(text, 1, true) and tostring(why):find("line %d+"), tostring(why))
end

local part, parts = (os.getenv("CORNERS_PART") or "1/1"):match("(%d+)/(%d+)")
local number = 0

--- 'it', for kernels of this part.
local function mine(test)
  number = number + 1
  return number % tonumber(parts) == tonumber(part) % tonumber(parts) and test or function() end
end

local on_gpu = flame.default_device():sub(1, 4) == "cuda"

for _, file in ipairs { "threads", "memory" } do
  for _, group in ipairs(dofile("spec/kernel/language/corners/" .. file .. ".lua")) do
    describe("the gradient of a kernel with " .. group.title .. ":", function()
      after_each(function() flame.deterministic(true) end)
      for _, c in ipairs(group) do
        local test = c.drawn and on_gpu and pending or it         -- pending: the name alone counts
        mine(test)(c[1], function()
          if c.refuses then return refuses(c, c.refuses) end
          check(c)
          flame.deterministic(false)
          check(c, 1)
        end)
      end
    end)
  end
end

describe("the derived kernels", function()
  mine(it)("have no races", function()
    if flame.default_device() ~= "cpu" then return end
    proof.checked("spec/kernel/language/kernel_corners_spec.lua", "race,uninit")
  end)
end)

describe("a slope where a value has a kink or is not chosen:", function()
  local function same(want, got)
    for j, v in ipairs(want) do
      local g = got[j]
      assert(g == v or math.abs(g - v) < 1e-9, ("element %d: %s, expected %s"):format(j, g, v))
    end
  end

  for _, c in ipairs(dofile("spec/kernel/language/corners/kinks.lua")) do
    local name, body, at, slopes, second, before = table.unpack(c, 1, 6)
    mine(it)(name, function()
      local k = flame.kernel {
        source = (before or "") .. "\n__global__ void k(const double *x, double *y, int n) {\n" ..
        "  int i = threadIdx.x;\n  if (i >= n) return;\n" .. body .. "\n}", grid = { 1 },
        block = { 32 }, shape = { #at } }
      local x = flame.tensor(at, { dtype = "f64" })
      local function f(v) return k(v, #at) end
      local v = x:detach():requires_grad_()
      same(slopes, f(v):sum():gradients({ v })[v]:totable())
      same(slopes, (select(2, flame.jvp(f, x, flame.ones(#at, { dtype = "f64" })))):totable())
      if not second then return end
      local g = f(v):sum():gradients({ v }, { create_graph = true })[v]
      same(second, g:sum():gradients({ v })[v]:totable())
    end)
  end
end)
