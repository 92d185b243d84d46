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

describe("numbers in the parts of a word", function()
  local function signed(v, bits) return v >= 1 << (bits - 1) and v - (1 << bits) or v end
  local function cut(low, high) return function(v) return math.max(low, math.min(high, v)) end end
  local s8, u8, s16, u16 = cut(-128, 127), cut(0, 255), cut(-32768, 32767), cut(0, 65535)
  local function is(f) return function(a, b) return f(a, b) and 65535 or 0 end end
  local function add(a, b) return a + b end
  local function sub(a, b) return a - b end
  -- name: bits of a part, is it signed, its value
  local functions = {
    __vadd4 = { 8, false, add }, __vsub4 = { 8, false, sub }, __vadd2 = { 16, false, add },
    __vsub2 = { 16, false, sub }, __vaddss4 = { 8, true, function(a, b) return s8(a + b) end },
    __vsubss4 = { 8, true, function(a, b) return s8(a - b) end },
    __vaddus4 = { 8, false, function(a, b) return u8(a + b) end },
    __vsubus4 = { 8, false, function(a, b) return u8(a - b) end },
    __vavgu4 = { 8, false, function(a, b) return (a + b + 1) // 2 end },
    __vabsdiffu4 = { 8, false, function(a, b) return math.abs(a - b) end },
    __vabsdiffs4 = { 8, true, function(a, b) return math.abs(a - b) end },
    __vmaxs4 = { 8, true, math.max }, __vmaxu4 = { 8, false, math.max },
    __vmins4 = { 8, true, math.min }, __vminu4 = { 8, false, math.min },
    __vmaxs2 = { 16, true, math.max }, __vmins2 = { 16, true, math.min },
    __vcmpeq4 = { 8, false, is(function(a, b) return a == b end) },
    __vcmpne4 = { 8, false, is(function(a, b) return a ~= b end) },
    __vcmpgts4 = { 8, true, is(function(a, b) return a > b end) },
    __vcmpgtu4 = { 8, false, is(function(a, b) return a > b end) },
    __vcmpges4 = { 8, true, is(function(a, b) return a >= b end) },
    __vcmpgeu4 = { 8, false, is(function(a, b) return a >= b end) },
    __vcmplts4 = { 8, true, is(function(a, b) return a < b end) },
    __vcmpltu4 = { 8, false, is(function(a, b) return a < b end) },
    __vmaxu2 = { 16, false, math.max }, __vminu2 = { 16, false, math.min },
    __vaddss2 = { 16, true, function(a, b) return s16(a + b) end },
    __vsubss2 = { 16, true, function(a, b) return s16(a - b) end },
    __vaddus2 = { 16, false, function(a, b) return u16(a + b) end },
    __vsubus2 = { 16, false, function(a, b) return u16(a - b) end },
    __vavgu2 = { 16, false, function(a, b) return (a + b + 1) // 2 end },
    __vabsdiffu2 = { 16, false, function(a, b) return math.abs(a - b) end },
    __vcmpeq2 = { 16, false, is(function(a, b) return a == b end) },
    __vcmpne2 = { 16, false, is(function(a, b) return a ~= b end) },
    __vcmpgts2 = { 16, true, is(function(a, b) return a > b end) },
    __vcmpgtu2 = { 16, false, is(function(a, b) return a > b end) },
    __vcmpges2 = { 16, true, is(function(a, b) return a >= b end) },
    __vcmpgeu2 = { 16, false, is(function(a, b) return a >= b end) },
    __vcmplts2 = { 16, true, is(function(a, b) return a < b end) },
    __vcmpltu2 = { 16, false, is(function(a, b) return a < b end) },
    __vneg2 = { 16, true, function(a) return -a end }, __vabs2 = { 16, true, math.abs },
    __vneg4 = { 8, true, function(a) return -a end }, __vabs4 = { 8, true, math.abs },
  }
  local words = { 0, 0xffffffff, 0x80808080, 0x7f7f7f7f, 0x807f01ff, 0x12345678, 0xfedcba98,
    0x00ff00ff, 0x80017fff }
  it("are computed apart", function()
    local a, b = {}, {}
    for _, x in ipairs(words) do
      for _, y in ipairs(words) do a[#a + 1], b[#b + 1] = signed(x, 32), signed(y, 32) end
    end
    local ta, tb = flame.tensor(a, { dtype = "i32" }), flame.tensor(b, { dtype = "i32" })
    for name, of in pairs(functions) do
      local one = name:find "^__vneg" or name:find "^__vabs[24]"
      local k = flame.kernel("__global__ void k(const int *a, const int *b, int *y, int n) {\n"
        .. "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) y[i] = " .. name
        .. (one and "(a[i]) + 0 * b[i]; }" or "(a[i], b[i]); }"))
      local got, bits, most = k(ta, tb):totable(), of[1], (1 << of[1]) - 1
      for i = 1, #a do
        local want = 0
        for at = 0, 31, bits do
          local p, q = a[i] >> at & most, b[i] >> at & most
          if of[2] then p, q = signed(p, bits), signed(q, bits) end
          want = want | (of[3](p, q) & most) << at
        end
        assert.equal(signed(want, 32), got[i], ("%s(%x, %x)"):format(name, a[i], b[i]))
      end
    end
  end)
  it("are summed, shifted and compared", function()
    local function value(text)
      return flame.kernel { source = "#include <cuda_fp16.h>\n__global__ void k(float *y) {\n"
        .. "const __half2 a = __floats2half2_rn(1.f, 3.f), "
        .. "b = __floats2half2_rn(2.f, 3.f);\ny[0] = (float)(" .. text .. ");\n}",
        shape = { 1 }, block = { 1 }, grid = { 1 } }():item()
    end
    for text, want in pairs {
      ["__vsadu4(0x01020304u, 0x04030201u)"] = 8, ["__dp2a_lo(0x0002ffff, 0x04ff0503, 10)"] = 17,
      ["__dp2a_hi(0x0002ffff, 0x04ff0503, 10)"] = 19,
      ["__funnelshift_lc(0x80000000u, 1u, 1u)"] = 3, ["__funnelshift_lc(3u, 1u, 40u)"] = 3,
      ["__funnelshift_rc(6u, 0u, 1u)"] = 3, ["__funnelshift_rc(3u, 1u, 32u)"] = 1,
      ["__low2float(__hlt2(a, b)) + 2 * __high2float(__hlt2(a, b))"] = 1,
      ["__low2float(__heq2(a, b)) + 2 * __high2float(__heq2(a, b))"] = 2,
      ["__low2float(__hge2(a, b)) + 2 * __high2float(__hge2(a, b))"] = 2,
      ["__low2float(__hne2(a, b)) + 2 * __high2float(__hne2(a, b))"] = 1,
      ["__hble2(a, b) + 2 * __hblt2(a, b) + 4 * __hbeq2(a, b)"] = 1,
      ["__half2uint_rz(__uint2half_rn(7u)) + __half2ushort_rz(__short2half_rn(-2) + __half(3.f))"] = 8,
      ["__hisnan(__float2half(3.f)) + 2 * __hisnan(__float2half(0.f) / __float2half(0.f))"] = 2,
    } do
      assert.equal(want, value(text), text)
    end
  end)
end)

