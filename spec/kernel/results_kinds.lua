--- Kernels that store the greatest position of each row in a result, and read there: with each kind
-- of real number, with more results than 16, in a saved program, with no rows, and with the results
-- kept, evaluated, dropped, or made of a view. run(flame) compares gradients with scatter's, and
-- returns how many it has compared. For kernel_results_spec.lua, and there on the fake GPU.
local TEXT <const> = [[
__global__ void k(const %s *x, %s *y, %s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const %s *row = x + i * 5;
  float best = -1e30f;
  int p = 0;
  for (int c = 0; c < 5; c++) if ((float)row[c]%s > best) { best = (float)row[c]%s; p = c; }
  y[i] = %s;
  %s
}]]
local rows <const> = 6

local function kernel(flame, real, o)
  o = o or {}
  local names, stores, shapes = {}, {}, { { rows } }
  for i = 1, o.results or 1 do
    names[i], stores[i], shapes[i + 1] = "int *at" .. i, ("at%d[i] = p;"):format(i), { rows }
  end
  local member = o.member or ""
  return flame.kernel { block = { 4 }, grid = { 2 }, shape = o.shape or shapes,
    source = TEXT:format(real, o.value or real, table.concat(names, ", "), real, member, member,
      o.square or "row[p] * row[p]", table.concat(stores, " ")) }
end

local function run(flame)
  local compared = 0
  --- The gradient of the sum of the squares of the greatest elements of x.
  local function expected(x)
    local most, at = x:float():max(2, { keepdim = true })
    return flame.zeros(x.shape):scatter(2, at, 2 * most)
  end
  local function same(want, got, what)
    assert(flame.allclose(want, got:float(), 1e-2, 1e-2), what)
    compared = compared + 1
  end
  local function reads(k) assert(k:source("adjoint"):find("= [^\n]*at1%[")) end
  local function numbers()
    return (flame.randperm(5 * rows, { dtype = "f32" }) * 0.25 - 3):view(rows, 5)
  end

  local ways = {
    kept = function(k, x) return k(x, rows) end,
    evaluated = function(k, x)
      local y, at = k(x, rows)
      flame.eval(y)
      return y, at
    end,
    dropped = function(k, x)
      local y = k(x, rows)
      flame.eval(y)
      collectgarbage() collectgarbage()
      flame.empty_cache()
      flame.eval(flame.ones({ rows }, { dtype = "i32" }) * 4)    -- where freed positions were
      return y
    end,
    checkpointed = function(k, x)
      return flame.checkpoint(function(a) return (k(a, rows)) end, x)
    end,
  }
  local reals <const> = { float = "f32", double = "f64", __half = "f16", __nv_bfloat16 = "bf16" }
  for real, dtype in pairs(reals) do
    local k = kernel(flame, real)
    for name, way in pairs(ways) do
      local x = numbers():to(dtype)
      local v = flame.cat({ x:narrow(1, 1, 1), x }, 1):requires_grad_(true)
      way(k, v:narrow(1, 2, rows)):float():sum():backward()
      same(expected(x), v.grad:narrow(1, 2, rows), dtype .. ", " .. name)
    end
    reads(k)
  end

  local many = kernel(flame, "float", { results = 18 })
  local x = numbers():requires_grad_(true)
  many(x, rows):sum():backward()
  same(expected(x:detach()), x.grad, "18 positions")
  reads(many)

  --- The gradient of a.x * a.y where a.x is greatest.
  local couples = kernel(flame, "float2",
    { value = "float", member = ".x", square = "row[p].x * row[p].y" })
  local two = flame.stack({ numbers(), numbers() }, 3):requires_grad_(true)
  couples(two, rows):sum():backward()
  local a, b = two:detach():select(3, 1), two:detach():select(3, 2)
  local most, at = a:max(2, { keepdim = true })
  local none = flame.zeros(rows, 5)
  local parts = { none:scatter(2, at, b:gather(2, at)), none:scatter(2, at, most) }
  same(flame.stack(parts, 3), two.grad, "float2")
  reads(couples)

  local empty = kernel(flame, "float", { shape = { { 0 }, { 0 } } })
  local nothing = flame.zeros(0, 5):requires_grad_(true)
  empty(nothing, 0):sum():backward()
  assert(nothing.grad.shape[1] == 0)

  local path, k = os.tmpname(), kernel(flame, "float")
  flame.export(path, function(v)
    local leaf = v:detach():requires_grad_(true)
    return k(leaf, rows):sum():gradients({ leaf })[leaf]
  end, { numbers() })
  local program <close> = flame.program(path)
  local input = numbers()
  same(expected(input), program(input), "a saved program")
  os.remove(path)
  return compared
end

return run
