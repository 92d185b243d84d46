--- Objects that hold pointers; structs of several types, which are refused; and texts in which
--- other declarations than kernels stand, which are skipped.
local flame = require "flame"
local helper = require "spec.support.helper"

local message = helper.message

local head = [[
struct In { const float *p; };
struct Out { float *p; };
struct Mixed { float v; int n; };
__device__ void put(Mixed *q, float v) { atomicAdd(&q->v, v); }
__global__ void k(const float *x, const float *w, float *y, Mixed *q, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
]]

--- Our parser's refusal of a text, or the message that NVRTC raises, which contains it.
local function refusal(text)
  local ok, k = pcall(flame.kernel, { source = text, shape = { 2 } })
  return (ok and (k:report().refusal or "accepted") or tostring(k))
end

describe("an object that holds a pointer", function()
  it("is told where the pointer is none that is known", function()
    for _, c in ipairs {
      { "In o; y[i] = o.p[i];", "pointer 'o.p' is used before it has a value" },
      { "In o = {}; y[i] = o.p[i];", "pointer 'o.p' is used before it has a value" },
      { "In o; o.p = nullptr; o.p = x; y[i] = o.p[i];", "'o.p' would point into another array" },
      { "In o; o.p = x; if (n > 1) o.p = nullptr; y[i] = o.p[i];", "would point into" },
      { "float a = 1, b = 2; Out o = {&a}; if (n > 1) o.p = &b; y[i] = *o.p;", "would point into" },
      { "float a = 1; Out o = {&a}; o.p += 1; y[i] = *o.p;", "moved off it" },
      { "In o[2]; o[0].p = x; y[i] = o[0].p[i];", "pointers stored in memory" },
      { "__shared__ In o; o.p = x; y[i] = o.p[i];", "pointers stored in memory" },
      { "In o{x}; o.p[i] = 1.f;", "'x' is const" },
      { "Out o{(float *)x}; o.p[i] = 1.f;", "'x' is const" },
      { "put(&q[i], x[i]);", "an atomic on 'q' seen as a type of another size" },
    } do
      local why = refusal(head .. c[1] .. "\n}")
      assert(why:find(c[2], 1, true) and why:find("kernel 'k', line [48]"), c[1] .. ": " .. why)
    end
  end)
end)

describe("a struct of several types", function()
  local k = flame.kernel { source = head .. [[
  y[i] = w[i] * q[i].v;
  q[i].v = x[i] * x[i];
  q[i].n = i;
}]], inout = { "q" }, block = { 32 } }
  local x, w = flame.tensor { 1, 2 }, flame.tensor({ 3, 4 }, { requires_grad = true })

  it("is its bytes, all of them", function()
    local why = message(k, x, w, flame.zeros(4))
    assert(why:find("q points to Mixed: pass its bytes as a u8 tensor, got f32", 1, true), why)
    why = message(k, x, w, flame.zeros(12, { dtype = "u8" }))
    assert(why:find("which is not a multiple of Mixed", 1, true), why)
  end)

  it("holds what stays constant to derivatives", function()
    local y, q = k(x, w, flame.tensor({ 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 128, 64, 0, 0, 0, 0 },
      { dtype = "u8" }))                                  -- 2.0, 0, 4.0, 0
    y:sum():backward()
    assert.same({ 6, 16 }, y:totable())
    assert.same({ 2, 4 }, w.grad:totable())
    assert.same({ 0, 0, 128, 63, 0, 0, 0, 0, 0, 0, 128, 64, 1, 0, 0, 0 }, q:totable())
  end)

  it("gives no gradient that goes through it", function()
    local through = flame.kernel { source = head .. [[
  q[i].v = x[i] * x[i];
  y[i] = 2.f * q[i].v;
}]], inout = { "q" }, block = { 32 } }
    local at = flame.tensor({ 1, 2 }, { requires_grad = true })
    local y = through(at, w, flame.zeros(16, { dtype = "u8" }))
    assert.same({ 2, 8 }, y:totable())
    local why = message(function() y:sum():backward() end)
    assert(why:find("the bits of a real number", 1, true) and why:find("line 8", 1, true), why)
  end)
end)

describe("a text with more than its kernel", function()
  it("is read around what is not understood", function()
    for _, more in ipairs {
      "void Layer::forward(std::string name) { run(name); }\nint count(foo x) { return 0; }",
      "Layer::Layer(int n) { }\nLayer::~Layer() { }",
      "template <typename T> struct Box { T v; };\ntemplate struct Box<float>;",
      "template <typename T> void host(T v) { }\ntemplate void host<float>(float);",
      "// ${name} in a comment\n/* and ${another} */",
    } do
      local k = flame.kernel(more .. "\n__global__ void k(float *y, int n) {\n" ..
        "  if (threadIdx.x < n) y[threadIdx.x] = 2.f;\n}\n" .. more:gsub("struct Box { T v; };", "")
        :gsub("Box<", "Box <"))
      assert.equal(nil, k:report().refusal)
    end
    local why = message(flame.kernel, "__global__ void k(float *y) { y[${at}] = 1.f; } // ${no}")
    assert(why:find("the source wants ${at}", 1, true), why)
  end)

  it("says of a specialisation of nothing what it lacks", function()
    local why = refusal [[
template <typename T> __device__ T one(T a) { return a; }
template <> __device__ float one(float a, float b) { return a + b; }
__global__ void k(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = one(1.f, 2.f); }]]
    assert(why:find("a specialisation of no template", 1, true), why)
  end)
end)

describe("what stands in a list", function()
  local judged = dofile("spec/kernel/kernel_judged.lua")
  local HEAD <const> = [[
struct C { double a; __device__ C() : a(5) {} __device__ C(double x) : a(x * 2) {} };
struct D { double a, b, c;
           __device__ D(double x, double y = 7, double z = 9) : a(x), b(y), c(z) {} };
struct P { double x, y; };
struct H { C c; double d; };
struct L { D q; P p; };
template <class... T> __device__ int one_more(T... v) { double w[] = {v..., 1.}; return sizeof w / 8; }
template <class... T> __device__ int two_more(T... v) { double w[] = {(v + 1) ..., 3., 4.}; return sizeof w / 8; }
template <class... T> __device__ double in_turn(T... v) { double s = 0; ((s = s * 2 + v), ...); return s; }
__global__ void k(const double *x, double *y, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  double a = x[i], b = x[0] + 1;
]]
  for _, body in ipairs {
    "C q[2] = {a, 3.}; y[i] = q[0].a + 10 * q[1].a;", "C q[3] = {a}; y[i] = q[0].a + q[2].a;",
    "H h = {a, b}; y[i] = h.c.a + 10 * h.d;", "D q[2] = {a, b}; y[i] = q[0].a + q[0].b * q[1].a;",
    "D q[2] = {a, {b, 1}}; y[i] = q[0].a + q[1].b * q[1].a + q[1].c;",
    "L q = {a, b, 1}; y[i] = q.q.a + q.q.b + q.p.x * q.p.y;",
    "y[i] = one_more() + 10 * one_more(a, b) + 100 * two_more() + 1000 * two_more(a);",
    "y[i] = in_turn(a, b, 3., a * b);",
  } do
    it("makes objects by their constructors, and counts packs: " .. body, function()
      local source = HEAD .. body .. "\n}\n"
      local right = judged.values(source, { "x" }, judged.array("x", judged.numbers(judged.N, 1)))
      local k, x = flame.kernel(source), judged.row(judged.N, 1)
      if right then judged.near(k(x, judged.N):totable(), right[1], body) end
      judged.compiles(k)
    end)
  end
  it("is refused as a fold over an assignment, and as an object in a table", function()
    for op, text in pairs { ["v += ..."] = "fold over", ["v ? ..."] = "fold over",
      ["a += ... += v"] = "fold over" } do
      local why = refusal("template <class... T> __device__ float f(float a, T... v) { return (" .. op
        .. "); }\n__global__ void k(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = f(1.f, 2.f, 3.f); }")
      assert(why:find(text, 1, true), op .. ": " .. why)
    end
    local why = refusal("struct C { float a; __device__ constexpr C(float x) : a(x) {} };\n"
      .. "__constant__ C t[1] = {1.f};\n"
      .. "__global__ void k(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = t[0].a; }")
    assert(why:find("constructors", 1, true), why)
  end)
end)
