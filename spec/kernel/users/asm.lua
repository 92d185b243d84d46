--- Kernels with common uses of inline assembler, and what each must compute, in plain Lua.
local each = dofile("spec/kernel/users/each.lua")

local function even(v)
  local r = math.floor(v + 0.5)
  return v + 0.5 == r and r % 2 == 1 and r - 1 or r
end

return {
  { "loads that say how they are cached, guarded ones, stores", [=[
__device__ void load(void *to, const void *from, bool really) {
  int2 *data = reinterpret_cast<int2 *>(to);
  asm volatile("{\n"
               "\t.reg .pred p;\n"
               "\tsetp.ne.b32 p, %3, 0;\n"
               "\tmov.b32 %0, 0;\n"
               "\tmov.b32 %1, 0;\n"
               "\t@p ld.global.cg.v2.u32 {%0, %1}, [%2];\n"
               "}\n"
               : "=r"(data[0].x), "=r"(data[0].y)
               : "l"(from), "r"((int)really));
}
__device__ float streamed(const float *p) {
  float v;
  asm volatile("ld.global.cs.f32 %0, [%1+4];" : "=f"(v) : "l"(p) : "memory");
  return v;
}
__global__ void cached(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  float a[2];
  load(a, x + 2 * i, i != 2);
  const float v = a[0] * a[1] + streamed(x + 2 * i);
  asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(y + i), "f"(v));
}]=], block = { 8 }, shape = { 4 }, single = true, args = function(t) return { t.f { 8 }, 4 } end,
    want = function(x)
      return each(4, function(i)
        return (i == 2 and 0 or x[2 * i] * x[2 * i + 1]) + x[2 * i + 1]
      end)
    end },

  { "words of reals through registers", [=[
__device__ __forceinline__ void store_global(void *dst, const void *src) {
  const uint2 *data = reinterpret_cast<const uint2 *>(src);
  asm volatile("st.global.wb.v2.u32 [%0], {%1, %2};\n" ::"l"(dst), "r"(data[0].x), "r"(data[0].y));
}
__device__ __forceinline__ void load_global(void *dst, const void *src) {
  uint2 *data = reinterpret_cast<uint2 *>(dst);
  asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];\n" : "=r"(data->x), "=r"(data->y) : "l"(src));
}
__global__ void pairs(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  float v[4];
  load_global(v, x + 4 * i);
  load_global(v + 2, x + 4 * i + 2);
  for (int k = 0; k < 4; ++k) v[k] *= v[(k + 1) % 4];
  store_global(y + 4 * i, v);
  store_global(y + 4 * i + 2, v + 2);
}]=], block = { 2 }, grid = { 1 }, shape = { 8 }, single = true,
    args = function(t) return { t.f { 8 }, 2 } end,
    want = function(x)
      return each(8, function(e)
        local i, k = e // 4 * 4, e % 4
        local first = x[i] * x[i + 1]
        return k < 3 and x[e] * x[e + 1] or x[e] * first
      end)
    end },

  { "conversions that saturate, words of bytes", [=[
static inline __device__ signed char to_byte(float x) {
  unsigned dst;
  asm volatile("cvt.rni.sat.s8.f32 %0, %1;\n" : "=r"(dst) : "f"(x));
  return reinterpret_cast<const signed char &>(dst);
}
__global__ void bytes(const float *x, signed char *b, int *w, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  b[i] = to_byte(x[i]);
  unsigned packed, low = 7u, top;
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(packed) : "r"(300 * i), "r"(-i), "r"(low));
  asm("{ .reg .u32 t; bfind.u32 t, %1; add.u32 %0, t, 1; }" : "=r"(top) : "r"(i));
  int bits;
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(bits) : "r"(i), "r"(12), "r"(3));
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  w[i] = (int)(packed ^ top << 24) + bits * 0 + (int)lane * 0 + bits + (int)lane;
}]=], block = { 8 }, grid = { 1 }, shape = { 6 }, single = true, same = true,
    args = function(t) return { t.tensor { -1000, -0.5, 0.5, 1.5, 99.4, 500 }, 6 } end,
    want = function(x)
      return each(6, function(i) return math.max(-128, math.min(127, even(x[i]))) end),
        each(6, function(i)
          local packed = 7 << 16 | math.min(300 * i, 127) << 8 | (-i & 255)
          local top = i == 0 and 0 or math.floor(math.log(i, 2)) + 1
          return (packed ~ top << 24) + ((i & 12) | (~i & 3)) + i
        end)
    end },

  { "functions that the hardware has, with their gradients", [=[
__global__ void hardware(const float *x, float *y, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  float e, r, t, f;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x[i]));
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(e));
  asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(r));
  asm("fma.rn.f32 %0, %1, %2, 0f3F000000;" : "=f"(f) : "f"(t), "f"(x[i]));
  y[i] = f;
}]=], block = { 8 }, single = true, tol = 2e-3, args = function(t) return { t.f { 6 }, 6 } end,
    want = function(x)
      return each(6, function(i)
        local r = (2 ^ x[i]) ^ -0.5
        return x[i] * (math.exp(r) - math.exp(-r)) / (math.exp(r) + math.exp(-r)) + 0.5
      end)
    end },

  { "a product of a warp", [=[
__global__ void tile(const unsigned *a, const unsigned *b, const float *c, float *d) {
  const int l = threadIdx.x, g = l / 4, t = l % 4;
  float s[4] = { c[g * 8 + 2 * t], c[g * 8 + 2 * t + 1], c[(g + 8) * 8 + 2 * t], c[(g + 8) * 8 + 2 * t + 1] };
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};\n"
               : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
               : "r"(a[g * 8 + t]), "r"(a[g * 8 + 64 + t]), "r"(a[g * 8 + t + 4]), "r"(a[g * 8 + 68 + t]),
                 "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]));
  for (int k = 0; k < 4; ++k) d[(g + k / 2 * 8) * 8 + 2 * t + k % 2] = s[k];
}]=], block = { 32 }, grid = { 1 }, shape = { 16, 8 }, single = true,
    args = function(t)
      -- halves from 1 to 1.75 in a and from 2 to 3.5 in b, two in each word
      local a, b = {}, {}
      for i = 0, 127 do a[i + 1] = 0x3c00 + (i * 7 % 4 << 8) | 0x3c00 + (i * 5 % 4 << 8) << 16 end
      for i = 0, 63 do b[i + 1] = 0x4000 + (i * 3 % 4 << 8) | 0x4000 + (i // 3 % 4 << 8) << 16 end
      return { t.i(a), t.i(b), t.f { 16, 8 } }
    end,
    want = function(a, b, c)
      local function half(words, i)
        local h = words[i // 2] >> (16 * (i % 2)) & 0xffff
        return 2.0 ^ ((h >> 10) - 15) * (1 + (h & 1023) / 1024)
      end
      return each(128, function(e)
        local s = c[e]
        for k = 0, 15 do s = s + half(a, e // 8 * 16 + k) * half(b, e % 8 * 16 + k) end
        return s
      end)
    end },
}
