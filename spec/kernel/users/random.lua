--- Random programs of the kernel language, each from a seed: nested loops with bounds from data,
-- break and continue; local arrays, structs, references; arrays read and written; atomics; shared
-- memory and shuffles. random.run runs one; random.compare compares its results on two devices, and
-- random.agree those of forward and reverse mode.
--
-- Half of the programs are 'exact': they use only + - * / sqrt and other operations with the same
-- bits on all devices, so values and tangents must be equal. Sums by atomics, and therefore
-- adjoints, depend on the order.
local flame = require "flame"

local random = {}

local Gen = {}
Gen.__index = Gen

--- A number in 0 .. n - 1.
function Gen:pick(n)
  self.state = self.state * 6364136223846793005 + 1442695040888963407
  return (self.state >> 33) % n
end

function Gen:one_of(list) return list[1 + self:pick(#list)] end

function Gen:line(text) self.lines[#self.lines + 1] = ("  "):rep(self.depth) .. text end

-- ---- expressions --------------------------------------------------------------------------------
function Gen:integer()
  local c = "c" .. self:pick(3)
  return self:one_of {
    c, "(" .. c .. " + " .. self:pick(4) .. ")", "b[" .. c .. " & 7]", "(" .. c .. " * 3 + i)",
    tostring(self:pick(5)), "i", "(" .. c .. " ^ (i >> 1))", "(" .. c .. " < 2 ? i : " .. c .. ")",
    "(int)fabs(3 * v" .. self:pick(4) .. ")",
  }
end

function Gen:leaf()
  local k = self:pick(13)
  if k == 0 then return "x[i]" end
  if k == 1 then return ("x[%s & 7]"):format(self:integer()) end
  if k == 2 then return ("row[%s & 3]"):format(self:integer()) end
  if k == 3 then return "a" end
  if k == 4 then return ("l[%s & 3]"):format(self:integer()) end
  if k == 5 then return ("(T)%.2f"):format(self:pick(200) / 100 - 1) end
  if k == 6 and self.loops == 0 then return "z[i]" end
  if k == 7 then return self:one_of { "p.u", "p.v" } end
  if k == 8 then return ("m[%s & 1][%d]"):format(self:integer(), self:pick(2)) end
  if k == 9 then return ("table_[%s & 3]"):format(self:integer()) end
  return "v" .. self:pick(4)
end

function Gen:condition(depth)
  local k = self:pick(6)
  if k == 0 then
    return ("%s %% 3 %s %d"):format(self:integer(), self:one_of { "==", "<" }, self:pick(3))
  end
  if k == 1 and depth > 0 then
    return ("(%s %s %s)"):format(self:condition(depth - 1), self:one_of { "&&", "||" },
      self:condition(depth - 1))
  end
  if k == 2 and depth > 0 then return ("!(%s)"):format(self:condition(depth - 1)) end
  return ("%s %s %s"):format(self:expression(depth > 0 and 1 or 0),
    self:one_of { "<", "<=", ">", ">=" }, self:expression(0))
end

--- Features of C++: templates, overloads, objects, lambdas.
function Gen:modern()
  local a, b, c = self:leaf(), self:leaf(), self:integer()
  return self:one_of {
    ("mix(%s, %s)"):format(a, b), ("power_<%d>(%s)"):format(1 + self:pick(3), a),
    ("kind_((int)(%s))"):format(c), ("kind_((short)(%s)) * kind_((T)%s)"):format(c, a),
    ("kind_((%s) * 2ll)"):format(c), ("Cx(%s, %s).norm()"):format(a, b),
    ("(Cx(%s) * cx).re"):format(a), ("fx[%s]"):format(c), "fx.sum()", ("lam(%s)"):format(a),
    ("lamc(%s)"):format(a), ("apply(%s, lamc)"):format(a),
    ("apply(%s, [&](auto p) { return p * v1 + l[%s & 3]; })"):format(a, c),
    ("apply(%s, Twice{%s})"):format(a, b), ("GLUE(v, %d)"):format(self:pick(4)),
    ("total(l) * %s"):format(a), ("(Cx{%s, %s} - cx).im"):format(a, b),
    ("FOLD(%s, %s)"):format(a, b),
  }
end

function Gen:expression(depth)
  if depth <= 0 then return self:leaf() end
  local k = self:pick(16)
  if k > 11 then return self:modern() end
  if k < 3 then
    return ("(%s %s %s)"):format(self:expression(depth - 1), self:one_of { "+", "-" },
      self:expression(depth - 1))
  elseif k < 6 then return ("%s * %s"):format(self:expression(depth - 1), self:leaf())
  elseif k == 6 then
    return ("%s(%s)"):format(self:one_of(self.exact and { "fabs", "floor", "-", "rint" }
      or { "sin", "cos", "tanh", "atan", "fabs", "-" }), self:leaf())
  elseif k == 7 then return ("(%s / ((T)1.5 + %s * %s))"):format(self:leaf(), "v2", "v2")
  elseif k == 8 then
    return ("(%s ? %s : %s)"):format(self:condition(1), self:expression(depth - 1),
      self:expression(depth - 1))
  elseif k == 9 then
    return ("%s(%s, %s)"):format(self:one_of { "fmax", "fmin" }, self:leaf(), self:leaf())
  elseif k == 10 then return ("sqrt((T)1.01 + %s * v1)"):format("v1")
  elseif self.functions > 0 then
    return ("f%d(%s, %s)"):format(self:pick(self.functions), self:leaf(), self:leaf())
  end
  return ("fma(%s, %s, %s)"):format(self:leaf(), self:leaf(), self:leaf())
end

--- An expression whose value does not grow without bound in loops.
function Gen:bounded()
  local e = self:expression(2)
  if self.exact then return self:one_of { "clip(%s)", "half_of(%s)" }:format(e) end
  return self:one_of { "sin(%s)", "tanh(%s)", "(T)0.5 * cos(%s)", "clip(%s)" }:format(e)
end

-- ---- statements ---------------------------------------------------------------------------------
function Gen:block(depth, breaks)
  self.depth = self.depth + 1
  for _ = 0, self:pick(3) do
    if self.budget > 0 then self:statement(depth, breaks) end
  end
  self.depth = self.depth - 1
end

function Gen:loop(depth)
  local j = "j" .. self.next_loop
  self.next_loop, self.loops = self.next_loop + 1, self.loops + 1
  local k = self:pick(5)
  -- sometimes the loop's counter hides the variable c1
  local hidden = k < 3 and not self.hidden and self:pick(3) == 0
  if k < 3 then j = hidden and "c1" or self:one_of { j, "j" } end
  self.hidden = self.hidden or hidden
  if k == 0 then
    local bound = self:one_of { tostring(1 + self:pick(7)), "b[i & 7] + " .. self:pick(4), "n" }
    self:line(("for (int %s = 0; %s < %s; ++%s) {"):format(j, j, bound, j))
    self:line(("  c%d = %s;"):format(2 * self:pick(2), j))
  elseif k == 1 then
    self:line(("for (int %s = %d; %s > 0; %s %s) {"):format(j, 2 + self:pick(8), j, j,
      self:one_of { "-= 2", ">>= 1", "-= 1" }))
  elseif k == 2 then
    self:line(("for (unsigned %s = 0; %s < 9u && %s; %s++) {"):format(j, j, self:condition(1), j))
  elseif k == 3 then
    self:line(("int %s = 0;"):format(j))
    self:line("do {")
  else
    self:line(("int %s = 0;"):format(j))
    self:line("while (true) {")
    self:line(("  if (++%s > %d) break;"):format(j, 1 + self:pick(12)))
  end
  self:block(depth, true)
  self:line(k == 3 and ("} while (++%s < 6 && %s);"):format(j, self:condition(1)) or "}")
  self.loops = self.loops - 1
  if hidden then self.hidden = false end
end

function Gen:switch(depth)
  self:line(("switch (%s & 3) {"):format(self:integer()))
  for k = 0, 2 do
    self:line(k == 2 and self:pick(2) == 0 and "default: {" or ("case %d: {"):format(k))
    self:block(depth, false)
    self:line(self:pick(3) > 0 and "} break;" or "}")
  end
  self:line("}")
end

function Gen:statement(depth, breaks)
  self.budget = self.budget - 1
  local k, v = self:pick(26), self:pick(4)
  if k == 22 then
    return self:line(("cx = Cx((T)0.5) * cx; cx += Cx{%s, %s};"):format(self:bounded(),
      self:leaf()))
  end
  if k == 23 then return self:line(("acc(%s);"):format(self:expression(1))) end
  if k == 24 then
    return self:line(("fx[%s] %s= %s;"):format(self:integer(), self:one_of { "", "+" },
      self:bounded()))
  end
  if k == 25 then
    return self:line(("for (T &e : l) e = clip((T)0.75 * e + %s);"):format(self:bounded()))
  end
  if k < 4 then return self:line(("v%d = %s;"):format(v, self:bounded())) end
  if k < 6 then return self:line(("v%d += (T)0.5 * %s;"):format(v, self:bounded())) end
  if k == 6 then return self:line(("v%d = (T)0.9 * v%d * %s;"):format(v, v, self:bounded())) end
  if k == 7 then
    return self:line(("l[%s & 3] %s %s;"):format(self:integer(), self:one_of { "=", "+=" },
      self:bounded()))
  end
  if k == 8 then
    return self:line(("m[%s & 1][%d] = %s;"):format(self:integer(), self:pick(2), self:bounded()))
  end
  if k == 9 then
    return self:line(("c%d = %s & 7;"):format(self.hidden and 2 * self:pick(2) or self:pick(3),
      self:integer()))
  end
  if k == 10 then return self:line(("turn(p, v%d, &v%d);"):format(v, (v + 1) % 4)) end
  if k == 11 then
    return self:line(("p.%s = %s;"):format(self:one_of { "u", "v" }, self:bounded()))
  end
  if depth > 0 then
    if k < 14 then
      self:line(("if (%s) {"):format(self:condition(2)))
      self:block(depth - 1, breaks)
      if self:pick(2) == 0 then
        self:line("} else {")
        self:block(depth - 1, breaks)
      end
      return self:line("}")
    end
    if k < 16 then return self:loop(depth - 1) end
    if k == 16 then return self:switch(depth - 1) end
  end
  if k == 17 and breaks then
    return self:line(("if (%s) %s;"):format(self:condition(1), self:one_of { "break", "continue" }))
  end
  if k == 18 and self.returns then
    return self:line(("if (%s) { y[i] = v%d; return; }"):format(self:condition(1), v))
  end
  if k == 19 and self.atomics then
    return self:line(("atomicAdd(&q[%s & 3], %s);"):format(self:integer(), self:bounded()))
  end
  if k == 20 and self.loops == 0 then
    return self:line(("z[i] %s= %s;"):format(self:one_of { "", "+", "*" }, self:bounded()))
  end
  self:line(("y[i] %s= %s;"):format(self:one_of { "", "+" }, self:bounded()))
end

-- ---- threads together ---------------------------------------------------------------------------
local exchanges = {
  "V = (T)0.7 * __shfl_down_sync(~0u, V, D) + w[1] * U;",
  "V = (T)0.7 * __shfl_up_sync(~0u, U, D) + w[1] * V;",
  "V = __shfl_xor_sync(~0u, U, D) * V;",
  "V = __shfl_sync(~0u, U, i / D);",
  "V = __shfl_sync(~0u, U, D) * U;",
  "V = U + __shfl_down_sync(~0u, V, threadIdx.x % D);",
  "for (int e = 16; e > 0; e /= 2) V += __shfl_xor_sync(~0u, V, e);\n  V = V * (T)0.03125;",
  "unsigned GO = __ballot_sync(~0u, V > U);\n  V = V * (T)(__popc(GO) & 3) + (T)0.1 * U;",
  "s[threadIdx.x] = V;\n  __syncthreads();\n  V = s[threadIdx.x ^ 1] * s[(threadIdx.x + D) & 31];\n  __syncthreads();",
  "s[threadIdx.x] = V;\n  for (int e = 16; e > 0; e >>= 1) {\n    __syncthreads();\n" ..
    "    if (threadIdx.x < e) s[threadIdx.x] += s[threadIdx.x + e];\n  }\n  __syncthreads();\n" ..
    "  V = clip(s[0]) * U;\n  __syncthreads();",
  "s[threadIdx.x] = V;\n  for (int e = 16; e > 0; e >>= 1) {\n    __syncthreads();\n" ..
    "    if (threadIdx.x < e) s[threadIdx.x] = fmax(s[threadIdx.x], s[threadIdx.x + e]);\n  }\n  __syncthreads();\n" ..
    "  V = V - s[0] * U;\n  __syncthreads();",
  "s[threadIdx.x] = V;\n  __syncthreads();\n  for (int e = 0; e < D; ++e) {\n    T o = s[(threadIdx.x + e) & 31];\n" ..
    "    __syncthreads();\n    s[threadIdx.x] = clip(o * U + w[e & 7]);\n    __syncthreads();\n    U += (T)0.2 * o;\n  }\n" ..
    "  V = s[threadIdx.x];\n  __syncthreads();",
}

function Gen:exchange()
  local v, names = self:pick(4), {}
  names.V, names.U = "v" .. v, "v" .. (v + 1 + self:pick(3)) % 4
  names.D, names.GO = tostring(1 + self:pick(9)), "go" .. self.next_loop
  self.next_loop = self.next_loop + 1
  self:line((self:one_of(exchanges):gsub("%f[%w](%u+)%f[%W]", names)))
end

local before = [[
struct Pair { T u, v; };
__constant__ T table_[4] = {(T)0.5, (T)-0.25, (T)1.5, (T)0.75};
__device__ T clip(T v) { return fmin(fmax(v, (T)-1.25), (T)1.25); }
__device__ T half_of(T v) { return v / ((T)1 + fabs(v)); }
__device__ void turn(Pair &p, T by, T *out) { T t = p.u; p.u = clip(p.u - by * p.v); p.v = clip(p.v + by * t); *out = t; }
]]
local modern = [[
#define GLUE(p, q) p##q
#define FOLD(p, ...) mix(p, __VA_ARGS__)
template <typename U> __device__ U mix(U p, U q) { return (U)0.5 * (p + q); }
template <int N> __device__ T power_(T p) { if constexpr (N == 0) return (T)1; else return clip(p * power_<N - 1>(p)); }
template <typename U, int N> __device__ U total(const U (&d)[N], U from = 0) { for (U e : d) from += e; return from; }
template <typename F> __device__ auto apply(T p, F f) { return clip(f(p)); }
__device__ T kind_(int p) { return (T)0.125 * p; }
__device__ T kind_(long long p) { return (T)0.0625 * p; }
__device__ T kind_(T p) { return p * (T)0.75; }
struct Twice { T by; __device__ T operator()(T p) const { return by * p + p; } };
template <typename U, int N> struct Fixed {
  U d[N];
  static constexpr int mask = N - 1;
  __device__ U &operator[](int k) { return d[k & mask]; }
  __device__ U sum() const { return total(d); }
};
struct Cx {
  T re, im = (T)0.125;
  __device__ Cx(T r) : re(r) {}
  __device__ Cx(T r, T i) : re(r), im(i) {}
  __device__ Cx operator*(const Cx &o) const { return Cx(re * o.re - im * o.im, re * o.im + im * o.re); }
  __device__ Cx &operator+=(const Cx &o) { re += o.re; im += o.im; return *this; }
  __device__ T norm() const { return re * re + im * im; }
  friend __device__ Cx operator-(Cx p, const Cx &q) { p.re -= q.re; p.im -= q.im; return p; }
};
]]
local functions = {
  "__device__ T f0(T p, T q) { if (p > q) return p * q; return half_of(p) + (T)0.5 * q; }\n",
  "__device__ T f1(T p, T q) { T r = 0; for (int e = 0; e < 3; ++e) { r += p * q; if (r > 1) return r * p;" ..
    " p = r * (T)0.5; } return r; }\n",
}

--- The program of a seed: {source, dtype, exact, atomics, block, grid, n, shared}.
function random.program(seed)
  local g =
    setmetatable({ state = seed * 0x9e3779b97f4a7c15 + 1234567, lines = {}, depth = 1, loops = 0,
      next_loop = 0 }, Gen)
  for _ = 1, 5 do g:pick(2) end
  g.exact, g.functions, g.returns, g.atomics = seed % 2 == 0, g:pick(3), g:pick(3) == 0,
    g:pick(3) == 0
  local together, single = g:pick(3) == 0, g:pick(3) == 0
  if together then g.returns = false end
  g:line("int i = blockIdx.x * blockDim.x + threadIdx.x;")
  if together then g:line("extern __shared__ T s[];") else g:line("if (i >= n) return;") end
  g:line("y[i] = 0;")
  g:line("const T *row = w + (i & 4);")
  g:line("T v0 = x[i], v1 = (T)0.3, v2 = a, v3 = w[i & 7], l[4] = {x[i], (T)0.5, v3, 0}, m[2][2] = {{1, a}, {v3, x[0]}};")
  g:line("Pair p = {v0, v3};")
  g:line("int c0 = i, c1 = 1, c2 = b[i & 7];")
  g:line("Cx cx(v0, v1);")
  g:line("Fixed<T, 4> fx = {{v0, v1, v2, v3}};")
  g:line("auto lam = [&](T p) { return clip(p * v1 + l[c1 & 3]); };")
  g:line("auto lamc = [=](T p) -> T { if (p > v0) return p * v0; return half_of(p + v2 * l[1]); };")
  g:line("auto acc = [&](T p) { v2 += (T)0.25 * clip(p); l[0] = v2; };")
  g.budget = 6 + g:pick(24)
  for phase = together and 3 or 1, 1, -1 do
    for _ = 0, 1 + g:pick(5) do
      if g.budget > 0 then g:statement(3, false) end
    end
    if phase > 1 then g:exchange() end
  end
  g:line("y[i] = v0 + v1 * v2 - v3 + l[1] * l[2] + p.u * m[i & 1][0] + cx.norm() - fx.sum();")
  local source = { "typedef ", single and "float" or "double", " T;\n", before, modern,
    table.concat(functions, "", 1, g.functions),
    "__global__ void k(const T *x, const T *w, T *y, T *z, T *q, const int *b, T a, int n) {\n",
    table.concat(g.lines, "\n"), "\n}\n" }
  return { source = table.concat(source), dtype = single and "f32" or "f64", exact = g.exact,
    atomics = g.atomics, block = together and 32 or 4, grid = 2, n = together and 64 or 7,
    shared = together and 32 * (single and 4 or 8) or 0, seed = seed }
end

-- ---- running ------------------------------------------------------------------------------------
local function numbers(g, n, dtype, device)
  local list = {}
  for i = 1, n do list[i] = dtype == "i32" and g:pick(4) or (g:pick(2000) - 1000) / 1024 end
  return flame.tensor(list, { dtype = dtype, device = device })
end

--- The program p as a function of its floating arguments on a device, these arguments, and
--- directions for forward and for reverse mode.
local function on(p, device)
  local g = setmetatable({ state = p.seed * 77 + 5 }, Gen)
  -- by default NVRTC contracts a user's kernel (fma), as nvcc does;
  -- the CPU never contracts, so this option makes them equal
  local k = flame.kernel { options = { "-fmad=false" },
    source = p.source, block = { p.block }, grid = { p.grid }, shape = { p.n }, shared = p.shared,
    inout = { "z", "q" } }
  local sizes, inputs, along, seeds = { math.max(p.n, 8), 8, p.n, 4, 1 }, {}, {}, {}
  local b = numbers(g, math.max(p.n, 8), "i32", device)
  for i, n in ipairs(sizes) do
    inputs[i], along[i] = numbers(g, n, p.dtype, device), numbers(g, n, p.dtype, device)
  end
  for i, n in ipairs { p.n, p.n, 4 } do seeds[i] = numbers(g, n, p.dtype, device) end
  return function(x, w, z, q, a) return k(x, w, z, q, b, a, p.n) end, inputs, along, seeds
end

local function lists(tensors)
  local out = {}
  for i, t in ipairs(tensors) do out[i] = t:totable() end
  return out
end

--- Runs p on a device: {value, tangent, adjoint}, lists of lists; nil if refused (r.refused: why).
function random.run(p, device)
  local f, inputs, along, seeds = on(p, device)
  local r = { value = lists { f(table.unpack(inputs)) } }
  local ok, t = pcall(function() return select(2, flame.jvp(f, inputs, along)) end)
  if ok then r.tangent = lists(t) else r.refused = tostring(t) end
  ok, t = pcall(function() return select(2, flame.vjp(f, inputs, seeds)) end)
  if ok then r.adjoint = lists(t) else r.refused = tostring(t) end
  r.along, r.seeds = lists(along), lists(seeds)
  return r
end

local function dot(a, b)
  local s = 0
  for i = 1, #a do
    for j = 1, #a[i] do s = s + a[i][j] * b[i][j] end
  end
  return s
end

--- Checks that forward and reverse mode agree in the results r; returns nil, or what is wrong.
function random.agree(p, r)
  if not r.tangent or not r.adjoint then
    return not r.refused:find("cannot be differentiated", 1, true) and r.refused or nil
  end
  local forward, reverse = dot(r.tangent, r.seeds), dot(r.along, r.adjoint)
  local tol = p.dtype == "f32" and 2e-3 or 1e-8
  if not (math.abs(forward - reverse) <= tol * (1 + math.abs(forward))) then
    return ("<J v, u> = %.17g, <v, J' u> = %.17g"):format(forward, reverse)
  end
end

local function differs(name, a, b, tol)
  if (a == nil) ~= (b == nil) then return name .. " on one device only" end
  if not a then return end
  local scale = 1
  for i = 1, #a do
    for j = 1, #a[i] do scale = math.max(scale, math.abs(a[i][j])) end
  end
  for i = 1, #a do
    for j = 1, #a[i] do
      local x, y = a[i][j], b[i][j]
      local same = x == y or (x ~= x and y ~= y)
      if not same and not (math.abs(x - y) <= tol * scale) then
        return ("%s %d, element %d: %.17g and %.17g (allowed: %g of %g)"):format(name, i, j, x,
          y, tol, scale)
      end
    end
  end
end

--- Returns nil, or how the results a and b of the program p differ.
function random.compare(p, a, b)
  local loose = p.dtype == "f32" and 1e-3 or 1e-9
  local exact = p.exact and not p.atomics and 0 or loose
  return differs("value", a.value, b.value, exact)
    or differs("tangent", a.tangent, b.tangent, exact)
    or differs("adjoint", a.adjoint, b.adjoint, loose)
end

return random
