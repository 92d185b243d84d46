--- Random kernels with arguments of several kinds at once: a list of 1 to 40 tensors, a texture, a
-- pointer that is nil or not, an array without elements, up to 24 numbers, a class whose function
-- is defined outside of it, headers. Values are compared with the same formula in Lua, gradients of
-- every array with its central differences, and a batch (flame.vmap) with a loop over its examples.
-- Another set of programs: KERNEL_SEED=2 KERNEL_ROUNDS=1000.
local flame = require "flame"
local f64 <const>, N <const> = { dtype = "f64" }, 5
local seed = math.tointeger(os.getenv "KERNEL_SEED" or 1)
local rounds = math.tointeger(os.getenv "KERNEL_ROUNDS" or 40)
local state = 0

local function pick(n)
  state = state * 6364136223846793005 + 1442695040888963407
  return (state >> 33) % n
end

local function chance(n) return pick(n) == 0 end

--- An index of an array of N elements: its text, and the function of thread i that gives it.
local function index()
  local by <const> = pick(5)
  return table.unpack(({
    { "i", function(i) return i end },
    { ("(i + %d) %% n"):format(by), function(i) return (i + by) % N end },
    { "n - 1 - i", function(i) return N - 1 - i end },
    { ("(i * %d) %% n"):format(by), function(i) return i * by % N end },
  })[1 + pick(4)])
end

-- What a formula of the program q reads: its text, and its value as a function of the arguments e
-- at thread e.i.
local leaves <const> = {
  function(q, at, of)
    local j <const> = pick(q.m)
    return ("xs[%d][%s]"):format(j, at), function(e) return e.xs[j][of(e.i)] end
  end,
  function(q, at, of)
    return ("xs[(%s) %% m][i]"):format(at), function(e) return e.xs[of(e.i) % q.m][e.i] end
  end,
  function(q, at, of)
    return ("chosen(xs, (%s) %% m, i)"):format(at), function(e) return e.xs[of(e.i) % q.m][e.i] end
  end,
  function(q, at, of)
    local text = chance(2) and "tex1Dfetch<float>(t, %s)" or "Table{t, n}.get(%s)"
    if q.texture then return text:format(at), function(e) return e.t[of(e.i)] end end
    return ("w[%s]"):format(at), function(e) return e.w[of(e.i)] end
  end,
  function(q, at, of)
    return ("(o ? o[%s] : 0.25)"):format(at),
      function(e) return q.given and e.o[of(e.i)] or 0.25 end
  end,
  function(q)
    local c <const> = pick(q.numbers)
    return "c" .. c, function(e) return e.c[c] end
  end,
  function(_, at, of) return ("w[%s]"):format(at), function(e) return e.w[of(e.i)] end end,
}

local function formula(q, depth)
  if depth == 0 or chance(5) then return leaves[1 + pick(#leaves)](q, index()) end
  local a, of_a = formula(q, depth - 1)
  local kind = pick(7)
  if kind == 0 then return "sin(" .. a .. ")", function(e) return math.sin(of_a(e)) end end
  if kind == 1 then
    return "exp(0.3 * " .. a .. ")", function(e) return math.exp(0.3 * of_a(e)) end
  end
  local b, of_b = formula(q, depth - 1)
  if kind <= 3 then return ("(%s + %s)"):format(a, b), function(e) return of_a(e) + of_b(e) end end
  if kind <= 5 then return ("(%s * %s)"):format(a, b), function(e) return of_a(e) * of_b(e) end end
  return ("(%s / (2.5 + std::cos(%s)))"):format(a, b), function(e)
    return of_a(e) / (2.5 + math.cos(of_b(e)))
  end
end

local HEAD <const> = [[
%sstruct Table { cudaTextureObject_t t; int n; __device__ float get(int i) const; };
inline __device__ float Table::get(int i) const { return tex1Dfetch<float>(t, i); }
static __device__ double chosen(const double *const *p, int j, int i) { return p[j][i]; }
__global__ void k(const double *const *xs, %sconst double *w, const double *o, %s%s, double *y,
                  int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double s = %s + 0 * (o ? 1 : 0);
]]

--- A program: its text, what it has, and its value in Lua.
local function program()
  local q = { m = ({ 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 40 })[1 + pick(11)], texture = chance(2),
    given = chance(2), empty = chance(5), numbers = 1 + pick(24), loop = chance(2),
    atomic = chance(4) }
  local numbers = {}
  for c = 0, q.numbers - 1 do numbers[#numbers + 1] = "double c" .. c end
  local a, of_a = formula(q, 3)
  local b, of_b = formula(q, 2)
  local head = HEAD:format(chance(2) and "#include <cmath>\n#include <cuda_runtime.h>\n" or "",
    q.texture and "cudaTextureObject_t t, " or "", q.empty and "const double *z, " or "",
    table.concat(numbers, ", "), a)
  if not q.texture then head = head:gsub("struct Table.-\n.-\n", "") end
  local middle = q.loop and ("for (int j = 0; j < m; ++j) s += xs[j][i] * %s;"):format(b)
    or ("if (w[i] > 0.1) s *= %s; else s -= 0.5 * w[i];"):format(b)
  q.text = ("%s  %s\n  %s\n}"):format(head, middle,
    q.atomic and "atomicAdd(&y[(i * 2) % n], s); atomicAdd(y + i, 2 * s);" or "y[i] = s;")
  function q.element(e)
    local s = of_a(e)
    if not q.loop then return e.w[e.i] > 0.1 and s * of_b(e) or s - 0.5 * e.w[e.i] end
    for j = 0, q.m - 1 do s = s + e.xs[j][e.i] * of_b(e) end
    return s
  end
  return q
end

--- The program's results for the arguments e, from element 0 on.
local function results(q, e)
  local y = {}
  for i = 0, N - 1 do y[i] = 0 end
  for i = 0, N - 1 do
    e.i = i
    local s = q.element(e)
    if q.atomic then y[i * 2 % N] = y[i * 2 % N] + s end
    y[i] = q.atomic and y[i] + 2 * s or s
  end
  return y
end

local function row()
  local list = {}
  for i = 0, N - 1 do
    list[i] = (pick(1025) - 512) / 512
    if math.abs(list[i] - 0.1) < 0.01 then list[i] = 0.5 end        -- the branch has no slope there
  end
  return list
end

local function tensor(list, dtype)
  local values = {}
  for i = 0, N - 1 do values[i + 1] = list[i] end
  return flame.tensor(values, { dtype = dtype or "f64" })
end

local function call(q, k, e, xs, t, w, o)
  local list = { xs }
  if q.texture then list[2] = t end
  list[#list + 1] = w
  local n = #list + 1
  list[n] = q.given and o or nil
  if q.empty then n = n + 1; list[n] = flame.zeros(0, f64) end
  for c = 0, q.numbers - 1 do list[n + 1 + c] = e.c[c] end
  n = n + q.numbers
  list[n + 1], list[n + 2] = q.m, N
  return k(table.unpack(list, 1, n + 2))
end

local function near(want, got, tolerance, what, q)
  assert(math.abs(want - got) <= tolerance * (1 + math.abs(want)),
    ("%s: %.15g, need %.15g\n%s"):format(what, got, want, q.text))
end

--- Compares the gradients of <y, direction> with differences of the formula. arrays: {tensor, list,
--- name}.
local function check_gradients(q, e, y, arrays)
  local direction = row()
  local function loss()
    local sum = 0
    for i, v in pairs(results(q, e)) do sum = sum + v * direction[i] end
    return sum
  end
  (y * tensor(direction)):sum():backward()
  for _, a in ipairs(arrays) do
    local x, list, name = table.unpack(a)
    local grad = x.grad and x.grad:totable() or {}
    for i = 0, N - 1 do
      local was = list[i]
      list[i] = was + 1e-5
      local above = loss()
      list[i] = was - 1e-5
      near((above - loss()) / 2e-5, grad[i + 1] or 0, 1e-5,
        ("gradient of %s[%d]"):format(name, i), q)
      list[i] = was
    end
  end
end

local function check_batch(q, k, e, xs, o)
  local w, t, x = flame.randn(3, N, f64), flame.randn(3, N), flame.randn(3, N, f64)
  local function one(of_w, of_t, of_x)
    local list = table.move(xs, 1, #xs, 1, {})
    list[1] = of_x
    return call(q, k, e, list, of_t, of_w, o)
  end
  local all = flame.vmap(one)(w, t, x)
  for i = 1, 3 do
    local want, got = one(w[i], t[i], x[i]):totable(), all[i]:totable()
    for at, v in ipairs(want) do near(v, got[at], 1e-12, "element of a batch", q) end
  end
end

local function round(number)
  state = seed * 1000003 + number
  for _ = 1, 4 do pick(2) end
  local q = program()
  local e = { xs = {}, t = row(), w = row(), o = row(), c = {} }
  local k, xs, arrays = flame.kernel { source = q.text, shape = { N } }, {}, {}
  for c = 0, q.numbers - 1 do e.c[c] = (pick(1025) - 512) / 512 end
  for j = 0, q.m - 1 do
    e.xs[j] = row()
    xs[j + 1] = tensor(e.xs[j])
    arrays[j + 1] = { xs[j + 1], e.xs[j], ("xs[%d]"):format(j) }
  end
  local t, w, o = tensor(e.t, "f32"), tensor(e.w), tensor(e.o)
  arrays[#arrays + 1] = { w, e.w, "w" }
  if q.texture then arrays[#arrays + 1] = { t, e.t, "t" } end
  if q.given then arrays[#arrays + 1] = { o, e.o, "o" } end
  for _, a in ipairs(arrays) do a[1].requires_grad = true end
  local y = call(q, k, e, xs, t, w, o)
  local got = y:totable()
  for i, v in pairs(results(q, e)) do near(v, got[i + 1], 1e-6, ("value %d"):format(i), q) end
  check_gradients(q, e, y, arrays)
  if number % 3 == 0 then check_batch(q, k, e, xs, o) end
end

describe("a random kernel", function()
  it("has values, gradients and batches with lists, textures, nil and many numbers", function()
    for number = 1, rounds do round(number) end
  end)
end)
