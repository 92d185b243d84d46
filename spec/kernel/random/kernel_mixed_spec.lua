--- Random kernels with arguments of several kinds at once: a list of 1 to 40 tensors, a texture, a
-- pointer that is nil or not, an array without elements, up to 24 numbers, a class whose function
-- is defined outside of it, headers. Values are compared with the same formula in Lua, gradients of
-- every array with its central differences, and a batch (flame.vmap) with a loop over its examples.
-- Random choices of lvalues as well: references, pointers, objects, arguments, targets.
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

-- ---- choices ------------------------------------------------------------------------------------
-- A variable is a cell {value}, an array a list of cells from 0 on, a struct {x = cell, y = cell}.
-- A reference is the cell or the struct that it names; e.at maps names to them. Each piece of a
-- program is its text with a function of e.

local PARTS <const> = [[
struct P { double x, y; __device__ void add(double d) { x += d; y *= d; }
           __device__ double sum() const { return x + 2 * y; } };
__device__ double &one_of(bool c, double &a, double &b) { return c ? a : b; }
__device__ void scale(double &r, double d) { r = r * d + 0.5; }
__device__ double after(const double &a, double &b) { b += 0.7; return a * b; }
__device__ double swap(P &p, const P &o) { double h = p.x; p.x = o.y; return h * o.x; }
__global__ void k(const double *x, const double *z, double *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const double f = 0.75;
  const P g = { 0.5, -1.25 };
  double a = x[i], b = z[i] * x[0], s[3] = { x[i], 0.4, z[i] }, t[3] = { z[i], x[0], x[i] };
  P u = { x[i], 0.9 }, w = { z[i], x[i] };
]]
local KINDS <const> = { a = 1, b = 1, s = 2, t = 2, u = 3, w = 3 }
local value, place

local function variables(e)
  local x, z = e.x[e.i], e.z[e.i]
  local function list(p, q, r) return { [0] = { p }, { q }, { r } } end
  e.at = { a = { x }, b = { z * e.x[0] }, s = list(x, 0.4, z), t = list(z, e.x[0], x),
    u = { x = { x }, y = { 0.9 } }, w = { x = { z }, y = { x } },
    g = { x = { 0.5 }, y = { -1.25 } }, f = { 0.75 }, ["x[i]"] = { x } }
end

local function counter(q)
  local by <const> = pick(3)
  if #q.loops > 0 and chance(2) then
    local k <const> = q.loops[#q.loops]
    return ("(%s + %d) %% 3"):format(k, by), function(e) return (e.at[k] + by) % 3 end
  end
  return ("(i + %d) %% 3"):format(by), function(e) return (e.i + by) % 3 end
end

local function condition(q, depth)
  local kind = pick(5)
  if kind == 0 then return "x[i] > 0.1", function(e)
    e.margin = math.min(e.margin, math.abs(e.x[e.i] - 0.1))
    return e.x[e.i] > 0.1
  end end
  if kind == 1 then
    local v, of = place(q, 0, true)
    return v .. " > 0.2", function(e)
      local p = of(e)[1]
      e.margin = math.min(e.margin, math.abs(p - 0.2))
      return p > 0.2
    end
  end
  if kind == 2 and depth > 0 then
    local c, of = condition(q, 0)
    return ("!(%s)"):format(c), function(e) return not of(e) end
  end
  local by, of = counter(q)
  return by .. " == 1", function(e) return of(e) == 1 end
end

--- The names of a kind that are in scope: 1: numbers, 2: arrays, 3: structs, 4: pointers to them;
--- those that are const only if 'fixed'.
local function named(q, kind, fixed)
  local list = {}
  for _, v in ipairs(q.names) do
    if v.kind == kind and (fixed or not v.const) then list[#list + 1] = v.name end
  end
  return #list > 0 and list[1 + pick(#list)] or nil
end

--- c ? a : b. An arm has no effects, and so calls nothing.
local function chosen(q, depth, fixed, of_kind)
  local c, of_c = condition(q, depth)
  local a, of_a = of_kind(q, depth - 1, fixed, true)
  local b, of_b = of_kind(q, depth - 1, fixed, true)
  return ("(%s ? %s : %s)"):format(c, a, b), function(e)
    if of_c(e) then return of_a(e) end
    return of_b(e)
  end
end

local function object(q, depth, fixed)
  if depth > 0 and chance(2) then return chosen(q, depth, fixed, object) end
  local name = named(q, 3, fixed)
  return name, function(e) return e.at[name] end
end

--- An lvalue of a number; fixed: it may be const.
function place(q, depth, fixed, arm)
  local kind = pick(8)
  if depth > 0 and kind < 4 then
    if kind > 0 or arm then return chosen(q, depth, fixed, place) end
    local c, of_c = condition(q, 0)
    local a, of_a = place(q, depth - 1)
    local b, of_b = place(q, depth - 1)
    return ("one_of(%s, %s, %s)"):format(c, a, b), function(e)
      if of_c(e) then return of_a(e) end
      return of_b(e)
    end
  end
  if kind == 4 then
    local o, of = object(q, depth, fixed)
    local part <const> = chance(2) and "x" or "y"
    return ("%s.%s"):format(o, part), function(e) return of(e)[part] end
  end
  if kind == 5 then
    local name <const>, by, of = named(q, 2, fixed), counter(q)
    return ("%s[%s]"):format(name, by), function(e) return e.at[name][of(e)] end
  end
  local pointer <const> = kind == 6 and named(q, 4, fixed)
  if pointer then return "*" .. pointer, function(e) return e.at[pointer] end end
  local name <const> = named(q, 1, fixed)
  return name, function(e) return e.at[name] end
end

function value(q, depth)
  local kind = depth > 0 and pick(4) or 4
  if kind == 0 then
    local a, of = value(q, depth - 1)
    return ("sin(%s)"):format(a), function(e) return math.sin(of(e)) end
  end
  if kind < 3 then
    local a, of_a = value(q, depth - 1)
    local b, of_b = value(q, depth - 1)
    local plus <const> = kind == 1
    return ("(%s %s %s)"):format(a, plus and "+" or "*", b), function(e)
      local p, r = of_a(e), of_b(e)
      return plus and p + r or p * r
    end
  end
  if chance(4) then
    local o, of = object(q, 1, true)
    return ("%s.sum()"):format(o), function(e)
      local p = of(e)
      return p.x[1] + 2 * p.y[1]
    end
  end
  local p, of = place(q, 1, true)
  return p, function(e) return of(e)[1] end
end

local statement

local function block(q, n)
  local mark <const>, text, acts = #q.names, {}, {}
  for at = 1, n do text[at], acts[at] = statement(q) end
  for at = #q.names, mark + 1, -1 do q.names[at] = nil end
  return table.concat(text, " "), function(e)
    for _, act in ipairs(acts) do act(e) end
  end
end

local function new_name(q, letter, kind, const)
  q.count = q.count + 1
  local name <const> = letter .. q.count
  return name, function() q.names[#q.names + 1] = { name = name, kind = kind, const = const } end
end

local statements <const> = {
  function(q)                                                                -- a reference
    local const <const> = chance(2)
    local p, of = place(q, 2, const)
    local name, add = new_name(q, "r", 1, const)
    add()
    return ("%sdouble &%s = %s;"):format(const and "const " or "", name, p),
      function(e) e.at[name] = of(e) end
  end,
  function(q)
    local const <const> = chance(2)
    local p, of = object(q, 2, const)
    local name, add = new_name(q, "o", 3, const)
    add()
    return ("%sP &%s = %s;"):format(const and "const " or "", name, p),
      function(e) e.at[name] = of(e) end
  end,
  function(q)                                                                -- a pointer
    local const <const> = chance(2)
    local p, of = place(q, 1, const)
    local c, of_c = condition(q, 1)
    local r, of_r = place(q, 1, const)
    local name, add = new_name(q, "p", 4, const)
    add()
    return ("%sdouble *%s = %s ? &%s : &%s;"):format(const and "const " or "", name, c, p, r),
      function(e) e.at[name] = of_c(e) and of(e) or of_r(e) end
  end,
  function(q)
    local p, of = place(q, 2)
    local v, of_v = value(q, 2)
    local op <const> = ({ "=", "+=", "*=" })[1 + pick(3)]
    return ("%s %s sin(%s);"):format(p, op, v), function(e)
      local s = math.sin(of_v(e))
      local to = of(e)
      to[1] = op == "=" and s or op == "+=" and to[1] + s or to[1] * s
    end
  end,
  function(q)
    local p, of = place(q, 2)
    local v, of_v = value(q, 1)
    return ("scale(%s, sin(%s));"):format(p, v), function(e)
      local s = math.sin(of_v(e))
      local to = of(e)
      to[1] = to[1] * s + 0.5
    end
  end,
  function(q)
    local to, of_to = place(q, 1)
    local p, of_p = place(q, 2, true)
    local r, of_r = place(q, 1)
    return ("%s = sin(after(%s, %s));"):format(to, p, r), function(e)
      local a, b = of_p(e), of_r(e)
      b[1] = b[1] + 0.7
      local s = math.sin(a[1] * b[1])
      of_to(e)[1] = s
    end
  end,
  function(q)
    local o, of = object(q, 2)
    local v, of_v = value(q, 1)
    return ("%s.add(sin(%s));"):format(o, v), function(e)
      local d, p = math.sin(of_v(e)), of(e)
      p.x[1], p.y[1] = p.x[1] + d, p.y[1] * d
    end
  end,
  function(q)
    local p, of_p = object(q, 1)
    local o, of_o = object(q, 2, true)
    local to, of_to = place(q, 1)
    return ("%s += swap(%s, %s);"):format(to, p, o), function(e)
      local a, b = of_p(e), of_o(e)
      local h = a.x[1]
      a.x[1] = b.y[1]
      local s = h * b.x[1]
      local c = of_to(e)
      c[1] = c[1] + s
    end
  end,
  function(q)
    local p, of_p = object(q, 1)
    local o, of_o = object(q, 2, true)
    return ("%s = %s;"):format(p, o), function(e)
      local b = of_o(e)
      local x, y, a = b.x[1], b.y[1], of_p(e)
      a.x[1], a.y[1] = x, y
    end
  end,
  function(q)
    local c, of_c = condition(q, 1)
    local a, of_a = block(q, 1)
    local b, of_b = block(q, 1)
    return ("if (%s) { %s } else { %s }"):format(c, a, b), function(e)
      if of_c(e) then of_a(e) else of_b(e) end
    end
  end,
  function(q)
    if #q.loops > 1 then return ";", function() end end
    local k <const>, n <const> = "k" .. #q.loops, 1 + pick(3)
    q.loops[#q.loops + 1] = k
    local body, of = block(q, 2)
    q.loops[#q.loops] = nil
    return ("for (int %s = 0; %s < %d; ++%s) { %s }"):format(k, k, n, k, body), function(e)
      for at = 0, n - 1 do
        e.at[k] = at
        of(e)
      end
    end
  end,
}

function statement(q) return statements[1 + pick(#statements)](q) end

local function choices()
  local q = { names = {}, loops = {}, count = 0 }
  for name, kind in pairs { f = 1, g = 3, ["x[i]"] = 1 } do
    q.names[#q.names + 1] = { name = name, kind = kind, const = true }
  end
  for name, kind in pairs(KINDS) do q.names[#q.names + 1] = { name = name, kind = kind } end
  table.sort(q.names, function(a, b) return a.name < b.name end)
  local text, acts = {}, {}
  for at = 1, 2 + pick(6) do text[at], acts[at] = statement(q) end
  local v, of = value(q, 3)
  q.text = ("%s  %s\n  y[i] = %s + a * b + s[0] * s[1] - s[2] + t[0] * t[1] * t[2] "
    .. "+ u.sum() * w.sum();\n}"):format(PARTS, table.concat(text, "\n  "), v)
  function q.element(e)
    variables(e)
    for _, act in ipairs(acts) do act(e) end
    local r, m = of(e), e.at
    return r + m.a[1] * m.b[1] + m.s[0][1] * m.s[1][1] - m.s[2][1]
      + m.t[0][1] * m.t[1][1] * m.t[2][1] + (m.u.x[1] + 2 * m.u.y[1]) * (m.w.x[1] + 2 * m.w.y[1])
  end
  return q
end

--- <y, direction> of the formula at x + h v, where 'by' is added to element 'at' of array 'of'.
local function moved(q, e, directions, h, of, at, by)
  local there = { x = {}, z = {}, margin = 1 }
  for _, name in ipairs { "x", "z" } do
    for i = 0, N - 1 do there[name][i] = e[name][i] + h * directions[name][i] end
  end
  if of then there[of][at] = there[of][at] + by end
  local sum = 0
  for i, v in pairs(results(q, there)) do sum = sum + v * directions.y[i] end
  return sum
end

--- Compares a derivative with central differences D(h) and D(2 h) of the formula, extrapolated to
--- h = 0; what the two differ by is allowed, since steep formulas have large third derivatives.
local function check_slope(D, h, got, tolerance, what, q)
  local one, two <const> = D(h), D(2 * h)
  near((4 * one - two) / 3, got, tolerance + math.abs(one - two) / (1 + math.abs(one)), what, q)
end

local function check_choices(q, k, e, directions)
  local x, z = tensor(e.x), tensor(e.z)
  x.requires_grad, z.requires_grad = true, true
  local g = (k(x, z, N) * tensor(directions.y)):sum():gradients({ x, z }, { create_graph = true })
  local second = ((g[x] * tensor(directions.x)):sum() + (g[z] * tensor(directions.z)):sum())
    :gradients({ x, z })
  for name, of in pairs { x = x, z = z } do
    local first, twice = g[of]:totable(), second[of] and second[of]:totable() or {}
    for i = 0, N - 1 do
      local function f(u, by) return moved(q, e, directions, u, name, i, by) end
      check_slope(function(h) return (f(0, h) - f(0, -h)) / (2 * h) end, 1e-5, first[i + 1], 1e-6,
        ("gradient of %s[%d]"):format(name, i), q)
      check_slope(function(h) return (f(h, h) - f(h, -h) - f(-h, h) + f(-h, -h)) / (4 * h * h) end,
        5e-4, twice[i + 1] or 0, 1e-4, ("second derivative of %s[%d]"):format(name, i), q)
    end
  end
end

local function choice_round(number)
  state = seed * 2000003 + number
  for _ = 1, 4 do pick(2) end
  local q, e, y = choices(), { margin = 0 }, nil
  for _ = 1, 50 do
    if e.margin > 0.01 then break end
    e = { x = row(), z = row(), margin = 1 }
    y = results(q, e)
    for _, v in pairs(y) do if math.abs(v) > 1e3 then e.margin = 0 end end
  end
  if e.margin <= 0.01 then return end
  local k <const> = flame.kernel { source = q.text, shape = { N } }
  local got = k(tensor(e.x), tensor(e.z), N):totable()
  for i, v in pairs(y) do near(v, got[i + 1], 1e-9, ("value %d"):format(i), q) end
  check_choices(q, k, e, { x = row(), z = row(), y = row() })
  if number % 3 > 0 then return end
  local a, b = flame.randn(3, N, f64), flame.randn(3, N, f64)
  local all = flame.vmap(function(x, z) return k(x, z, N) end)(a, b)
  for i = 1, 3 do
    local want, batch = k(a[i], b[i], N):totable(), all[i]:totable()
    for at, v in ipairs(want) do near(v, batch[at], 1e-12, "element of a batch", q) end
  end
end

describe("a random kernel", function()
  it("has values, gradients and batches with lists, textures, nil and many numbers", function()
    for number = 1, rounds do round(number) end
  end)

  it("has values, derivatives of two orders and batches where lvalues are chosen", function()
    for number = 1, rounds do choice_round(number) end
  end)
end)
