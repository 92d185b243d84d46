--- Operations that the CPU fuses into one pass give the same values as one after the other.
-- luacheck: no max line length
local flame = require "flame"

describe("a product and the sum after it", function()
  -- Bodies with MA(c, a, b) = c + a b and MS(c, a, b) = c - a b, written as operators, which the
  -- CPU does in one pass, or as functions that round each. t: thread in a block of W x 8.
  local bodies = {
    "y[t] = MA(x[t], x[n + t], 3.1f);",
    "y[t] = MS(x[t], 1.7f, x[n + t]); y[n - 1 - t] = MA(2.f, x[t], x[t]);",
    "float s = 0.1f; for (int k = 0; k < W; ++k) s = MA(s, x[ty * W + k], x[k * 8 + tx % 8]); "
      .. "y[t] = s;",
    "float s = x[t]; for (int k = 0; k < 8; ++k) s = MA(s, x[ty * 8 + k], x[k * W + tx]); "
      .. "y[t] = s;",
    "float s = x[t]; for (int k = 0; k < 8; ++k) s = MS(s, x[k * W + tx], x[ty * 8 + k]); "
      .. "y[t] = s;",
    "float s = x[t]; for (int k = 0; k < 8; "
      .. "++k) s = MA(s, x[ty * 2 * W + tx], x[(ty + 1) * W + tx]); y[t] = s;",
    "float s = x[t]; for (int k = 0; k < 8; ++k) s = MA(s, x[ty], x[ty * 3 + k]); y[t] = s;",
    "float s = x[t]; for (int k = 0; k < 8; "
      .. "++k) if ((t + k) % 3) s = MA(s, x[ty * 8 + k], x[k * W + tx]); y[t] = s;",
    "float s = x[t]; for (int k = 0; k < 8; ++k) s = MA(s, x[ty * 8 + k], 0.3f * k); y[t] = s;",
    "if (t % 5) y[t] = MA(x[t], x[n + t], x[t + 1]);",
    "if (t < 37) y[t] = MS(x[t], x[n + t], x[t + 1]);",
    "y[t] = x[t]; __syncthreads(); if (t + 1 < n) z[t] = MA(y[t], y[t + 1], 0.5f); "
      .. "z[t] = MA(z[t], z[t], 2.f);",
    "z[t] = x[t]; __syncthreads(); float v = MA(z[(t + 1) % n], z[t], 0.5f); __syncthreads(); "
      .. "z[t] = v; y[t] = MA(z[t], v, v);",
    "__shared__ float s[8 * W], r[8 * W]; s[t] = x[t]; r[t] = x[n + t]; __syncthreads(); "
      .. "float v = 0.f; " ..
      "for (int k = 0; k < 8; ++k) v = MA(v, s[ty * W + k % W], r[k * W + tx]); "
      .. "s[t] = MA(v, v, v); y[t] = s[t];",
    "if (ty == 3) return; float s = x[t]; for (int k = 0; k < 8; "
      .. "++k) s = MA(s, x[ty * 8 + k], x[k * W + tx]); y[t] = s;",
  }
  local head = {
    "#define MA(c, a, b) ((c) + (a) * (b))\n#define MS(c, a, b) ((c) - (a) * (b))\n",
    "#define MA(c, a, b) __fadd_rn(c, __fmul_rn(a, b))\n" ..
      "#define MS(c, a, b) __fsub_rn(c, __fmul_rn(a, b))\n" }

  it("has two roundings, in one pass or in two, wherever its operands lie", function()
    if flame.default_device() ~= "cpu" then return end
    for _, width in ipairs { 4, 8, 12, 16, 32 } do
      local n = 8 * width
      flame.seed(width)
      local x = flame.randn(4 * n + 64)
      for _, body in ipairs(bodies) do
        local got = {}
        for i = 1, 2 do
          local k = flame.kernel { source = head[i] .. "#define W " .. width .. [[

__global__ void k(const float *x, float *y, float *z, int n) {
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * W + tx;
]] .. body .. "\n}", block = { width, 8 }, grid = { 1 }, shape = { n } }
          local y, z = k(x, n)
          got[i] = flame.cat({ y, z }):view("i32"):totable()
        end
        assert.same(got[2], got[1], width .. ": " .. body)
      end
    end
  end)

  it("reads what it is to overwrite first, in place", function()
    local k = flame.kernel { source = [[
__global__ void k(float *y, int n) {
  const int i = threadIdx.x;
  y[i] = y[i + 1] * 2.f + y[i];
  y[i + 1] = y[i] * 3.f;
}]], block = { 32 }, grid = { 1 }, inout = { "y" } }
    local y = flame.arange(33.0)
    local want = {}
    for i = 0, 31 do want[i] = 2 * (i + 2) + i + 1 end
    local new = { [0] = want[0] }
    for i = 0, 31 do new[i + 1] = 3 * want[i] end
    local got = k(y, 33):totable()
    if flame.default_device() ~= "cpu" then return end                 -- there it is a race
    for i = 0, 32 do assert.equal(new[i], got[i + 1]) end
  end)
end)
