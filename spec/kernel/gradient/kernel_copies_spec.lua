-- Variables that only copy another one are gone from what is derived, and stay where the other one
-- has another value or is out of scope.
local flame = require "flame"

--- The kernel of a body that computes r, a double, from x[i] and w[i].
local function kernel(body)
  return flame.kernel { source = [[
struct V {
  double x, y;
  __device__ V(double a, double b) : x(a), y(b) {}
  __device__ V operator*(double s) const { return V(x * s, y * s); }
  __device__ double sum() const { double made = x + y; return made; }
};
__device__ double same(double v) { double u = v; return u; }
__device__ void parts(double v, double w, double &a, double &b) {
  double m = v * w;
  b = m;
  if (v > 0.9) { a = v; return; }
  a = w;
}
__global__ void k(const double *x, const double *w, double *y, int n) {
  int i = threadIdx.x;
  double r = 0;
]] .. body .. "\ny[i] = r;\n}", block = 8, grid = 1 }
end

local bodies = {
  ["copies of a struct"] = { "V v(x[i], w[i]); V u = v * 3; r = (u * x[i]).sum();",
    function(x, w) return 3 * x * (x + w) end },
  ["a value that changes after it is copied"] = {
    "double a = x[i], b = a; a = a * w[i]; r = b * a + same(b);",
    function(x, w) return x * x * w + x end },
  ["a copy that is read before it is made again"] = {
    "double b = 0; for (int j = 0; j < 3; j++) { double a = x[i] * (j + 1); r += b * w[i]; b = a; }",
    function(x, w) return 3 * x * w end },
  ["a copy that has no value at first"] = {
    "double b; for (int j = 0; j < 3; j++) { if (j) r += b * w[i]; double a = x[i] * (j + 1); b = a; }",
    function(x, w) return 3 * x * w end },
  ["a copy out of the scope of its value"] = {
    "double a, b; parts(x[i], w[i], a, b); r = a + b * b;",
    function(x, w) return (x > 0.9 and x or w) + x * x * w * w end },
  ["a copy in a branch"] = {
    "double a = x[i] * w[i], b = 1; if (w[i] > 1) { double c = a; b = c; } r = a * b;",
    function(x, w) return w > 1 and x * x * w * w or x * w end },
  ["a copy of a parameter that is assigned"] = {
    "int m = n; n = n + 1; r = x[i] * m * n;", function(x) return x * 8 * 9 end },
}

describe("a derived kernel", function()
  for name, case in pairs(bodies) do
    it("is right with " .. name, function()
      local k, f = kernel(case[1]), case[2]
      local x = (flame.rand(8, { dtype = "f64" }) + 0.5):requires_grad_(true)
      local w = (flame.rand(8, { dtype = "f64" }) + 0.5):requires_grad_(true)
      local y = k(x, w, 8)
      y:sum():backward()
      local h = 1e-6
      for i = 1, 8 do
        local a, b = x[i]:item(), w[i]:item()
        assert.near(f(a, b), y[i]:item(), 1e-12)
        assert.near((f(a + h, b) - f(a - h, b)) / (2 * h), x.grad[i]:item(), 1e-6)
        assert.near((f(a, b + h) - f(a, b - h)) / (2 * h), w.grad[i]:item(), 1e-6)
      end
      local _, t = flame.jvp(function(v) return k(v, w:detach(), 8) end, { x:detach() },
        { flame.ones(8, { dtype = "f64" }) })
      assert.near(x.grad[3]:item(), t[3]:item(), 1e-6)
    end)
  end

  it("has no copies of what inlined functions return", function()
    local k = kernel(bodies["copies of a struct"][1])
    for _, what in ipairs { "adjoint", "tangent" } do
      assert.is_nil(k:source(what):find "made_x")
    end
  end)
end)
