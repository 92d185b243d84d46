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

  { "tiles of halves that are copied, loaded as matrices and multiplied", [=[
#include <cuda_fp16.h>
typedef unsigned int uint32_t;
__device__ __forceinline__ uint32_t cast_smem_ptr_to_uint(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__global__ void gemm(const half *a, const half *b, float *d, int rows) {
  __shared__ __align__(16) half sa[2][16][24];
  __shared__ __align__(16) half sb[2][16 * 8];
  const int l = threadIdx.x, g = l / 4, t = l % 4;
  float s[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k = -1; k < 2; ++k) {
    if (k < 1) {
      const int next = (k + 1) % 2, row = l / 2;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::
                   "r"(cast_smem_ptr_to_uint(&sa[next][row][l % 2 * 8])),
                   "l"(a + (row < rows ? row : 0) * 32 + (k + 1) * 16 + l % 2 * 8), "r"(row < rows ? 16 : 0));
      if (l < 16) {
        const uint32_t to = cast_smem_ptr_to_uint(sb[next]) + l * 16;
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16;\n" :: "r"(to), "l"(&b[((k + 1) * 16 + l) * 8]));
      }
    }
    asm volatile("cp.async.commit_group;\n" ::);
    if (k < 0) continue;
    asm volatile("cp.async.wait_group %0;\n" :: "n"(1));
    __syncthreads();
    uint32_t ra[4], rb[2];
    ldsm_x4(ra, cast_smem_ptr_to_uint(&sa[k][l % 16][l / 16 * 8]));
    uint32_t from = cast_smem_ptr_to_uint(sb[k]);
    from += l % 16 * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n" : "=r"(rb[0]), "=r"(rb[1]) : "r"(from));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    __syncthreads();
  }
  for (int k = 0; k < 4; ++k) d[(g + k / 2 * 8) * 8 + 2 * t + k % 2] = s[k];
}]=], block = { 32 }, grid = { 1 }, shape = { 16, 8 }, single = true, order = 1,
    args = function(t)
      local function halves(n, m)
        local list = {}
        for i = 1, n do list[i] = (i * m % 17 - 8) / 8 end
        return t.tensor(list, "f16")
      end
      return { halves(16 * 32, 5), halves(32 * 8, 7), 15 }
    end,
    want = function(a, b)
      return each(128, function(e)
        local s = 0
        for k = 0, e < 120 and 31 or -1 do s = s + a[e // 8 * 32 + k] * b[k * 8 + e % 8] end
        return s
      end)
    end },

  { "matrices of words, all forms of ldmatrix", [=[
__global__ void forms(const unsigned short *x, unsigned *y) {
  __shared__ __align__(16) unsigned short s[32 * 16];
  const int l = threadIdx.x;
  for (int k = l; k < 512; k += 32) s[k] = x[k];
  __syncthreads();
  const unsigned at = __cvta_generic_to_shared(s + l * 16), low = at - l / 8 * 256;
  unsigned r[14];
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(l < 8 ? at : low + 1));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2+16];" : "=r"(r[1]), "=r"(r[2]) : "r"(low));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]) : "r"(at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[7]) : "r"(at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[8]), "=r"(r[9]) : "r"(at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[10]), "=r"(r[11]), "=r"(r[12]), "=r"(r[13]) : "r"(at));
  for (int k = 0; k < 14; ++k) y[l * 14 + k] = r[k];
}]=], block = { 32 }, grid = { 1 }, shape = { 32 * 14 }, single = true, same = true,
    args = function(t)
      local list = {}
      for i = 1, 512 do list[i] = i * 40503 % 65536 - 32768 end
      return { t.tensor(list, "i16") }
    end,
    want = function(x)
      local function row(m, at, l) return (m * 8 + l // 4) * 16 + at + l % 4 * 2, 1 end
      local function column(m, at, l) return (m * 8 + l % 4 * 2) * 16 + at + l // 4, 16 end
      local function word(from, step)
        local v = x[from] & 0xffff | (x[from + step] & 0xffff) << 16
        return v < 2 ^ 31 and v or v - (1 << 32)
      end
      -- ldmatrix .x1, .x2 (its second matrix has the first one's addresses), .x4; then with .trans
      local forms = { { row, 0, 0 }, { row, 0, 8 }, { row, 0, 8 }, { row, 0, 0 }, { row, 1, 0 },
        { row, 2, 0 }, { row, 3, 0 }, { column, 0, 0 }, { column, 0, 0 }, { column, 1, 0 },
        { column, 0, 0 }, { column, 1, 0 }, { column, 2, 0 }, { column, 3, 0 } }
      return each(32 * 14, function(e)
        local f = forms[e % 14 + 1]
        return word(f[1](f[2], f[3], e // 14))
      end)
    end },

  { "copies of 4, 8 and 16 bytes, of parts, through the functions of <cuda_pipeline.h>", [=[
#include <cuda_pipeline.h>
__global__ void stages(const float4 *x, const float *w, float *y, int n) {
  __shared__ float4 s[2][32];
  __shared__ __align__(8) float u[64];
  extern __shared__ float z[];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&s[0][t], x + t, sizeof(float4));
  __pipeline_memcpy_async(u + 2 * t, w + 2 * t, 8);
  __pipeline_memcpy_async(&z[t], t < n ? &w[t] : w, 4, t < n ? 0 : 4);
  __pipeline_commit();
  for (int k = 0; k < 2; ++k) {
    if (k == 0) __pipeline_memcpy_async(&s[1][t], &x[32 + t], 16, 8);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const float4 v = s[k][31 - t];
    y[k * 32 + t] = v.x * v.y + v.z * v.w * u[63 - t] + z[31 - t];
  }
}]=], block = { 32 }, grid = { 1 }, shape = { 64 }, shared = 128, single = true,
    args = function(t) return { t.f { 256 }, t.f { 64 }, 20 } end,
    want = function(x, w, n)
      return each(64, function(e)
        local k, t = e // 32, e % 32
        local at = (k * 32 + 31 - t) * 4
        local last = k == 0 and x[at + 2] * x[at + 3] * w[63 - t] or 0
        return x[at] * x[at + 1] + last + (31 - t < n and w[31 - t] or 0)
      end)
    end },

  { "words that go through shared memory by its addresses", [=[
__device__ void put(unsigned at, float v) { asm volatile("st.shared.f32 [%0], %1;" :: "r"(at), "f"(v) : "memory"); }
__global__ void words(const float *x, float *y, int n) {
  __shared__ float s[2][32];
  const int t = threadIdx.x;
  const unsigned long long base = __cvta_generic_to_shared(&s[0][0]);
  unsigned at = (unsigned)base + 4 * t;
  put(at, x[t]);
  for (int k = 0; k < 1; ++k, at += 128) put(at + 128, x[t] * x[t]);
  __syncthreads();
  float v, w;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at - 128 + (31 - 2 * t) * 4));
  asm volatile("ld.shared.f32 %0, [%1+128];" : "=f"(w) : "r"((unsigned)base));
  y[t] = v * w;
}]=], block = { 32 }, grid = { 1 }, single = true, args = function(t) return { t.f { 32 }, 32 } end,
    want = function(x) return each(32, function(t) return x[31 - t] * x[0] * x[0] end) end },
}
