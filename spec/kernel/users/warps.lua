--- Kernels in which lanes of a warp exchange values: shuffles by fixed and by computed distances,
--- in parts of a warp, votes.

local each = dofile("spec/kernel/users/each.lua")

local function sum_of(x, first, last)
  local s = 0
  for i = first, last do s = s + x[i] end
  return s
end

return {
  { "sums of eight lanes, and what lane 0 has", [[
__global__ void segments(const float *x, float *y) {
  float v = x[threadIdx.x];
  for (int d = 4; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d, 8);
  v = __shfl_sync(0xffffffff, v, 0, 8);
  y[threadIdx.x] = v * x[threadIdx.x];
}]], block = { 32 }, grid = { 1 }, args = function(t) return { t.f { 32 } } end,
    want = function(x)
      return each(32, function(i) return sum_of(x, i // 8 * 8, i // 8 * 8 + 7) * x[i] end)
    end },

  { "a mask by ballot", [[
__global__ void part(const float *x, float *y, int n) {
  int i = threadIdx.x;
  unsigned m = __ballot_sync(0xffffffffu, i < n);
  if (i < n) {
    float v = x[i];
    for (int d = 8; d > 0; d >>= 1) v += __shfl_xor_sync(m, v, d);
    y[i] = v * x[i];
  }
}]], block = { 32 }, grid = { 1 }, args = function(t) return { t.f { 16 }, 16 } end,
    want = function(x) return each(16, function(i) return sum_of(x, 0, 15) * x[i] end) end },

  { "a mask in a variable, and the active one", [[
#define FULL_MASK 0xffffffff
__device__ float wsum(unsigned mask, float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(mask, v, o);
  return v;
}
__global__ void sums(const float *x, float *y) {
  const unsigned m = FULL_MASK;
  unsigned active = __activemask();
  float v = x[threadIdx.x];
  y[threadIdx.x] = wsum(m, v) * v + wsum(active, v * v);
}]], block = { 32 }, grid = { 1 }, args = function(t) return { t.f { 32 } } end,
    want = function(x)
      local s, q = sum_of(x, 0, 31), 0
      for i = 0, 31 do q = q + x[i] ^ 2 end
      return each(32, function(i) return s * x[i] + q end)
    end },

  { "a lane read that the data name", [[
__global__ void named(const float *x, const int *src, float *y) {
  float v = x[threadIdx.x];
  y[threadIdx.x] = v * __shfl_sync(0xffffffff, v, src[threadIdx.x]);
}]], block = { 32 }, grid = { 1 }, args = function(t)
      local s = {}
      for i = 1, 32 do s[i] = i * 7 % 32 end
      return { t.f { 32 }, t.i(s) }
    end,
    want = function(x, s) return each(32, function(i) return x[i] * x[s[i]] end) end },

  { "lanes that shift by different distances", [[
__global__ void distances(const float *x, const int *d, float *y) {
  float v = x[threadIdx.x];
  float a = __shfl_down_sync(0xffffffff, v, threadIdx.x & 3);
  float b = __shfl_up_sync(0xffffffff, v, d[threadIdx.x]);
  float c = __shfl_xor_sync(0xffffffff, v, threadIdx.x & 5);
  y[threadIdx.x] = v * a + b * c;
}]], block = { 32 }, grid = { 1 }, args = function(t)
      local s = {}
      for i = 1, 32 do s[i] = i * 5 % 7 end
      return { t.f { 32 }, t.i(s) }
    end,
    want = function(x, d)
      return each(32, function(i)
        local a, b = i + (i & 3), i - d[i]
        return x[i] * x[a > 31 and i or a] + x[b < 0 and i or b] * x[i ~ (i & 5)]
      end)
    end },

  { "a distance that grows where the data say", [[
__global__ void grows(const float *x, float *y) {
  float v = x[threadIdx.x], s = 0.f;
  int d = 1;
  for (int k = 0; k < 3; ++k) {
    if (v > 0.f) d = k + 2;
    s += v * __shfl_down_sync(0xffffffff, v, d);
  }
  y[threadIdx.x] = s;
}]], block = { 32 }, grid = { 1 }, args = function(t) return { t.f { 32 } } end,
    want = function(x)
      return each(32, function(i)
        local s, d = 0, 1
        for k = 0, 2 do
          if x[i] > 0 then d = k + 2 end
          s = s + x[i] * x[i + d > 31 and i or i + d]
        end
        return s
      end)
    end },

  { "a scan by shuffles in a block of 20", [[
__global__ void scan20(const float *x, float *y, int n) {
  float v = threadIdx.x < n ? x[threadIdx.x] : 0.f;
  for (int d = 1; d < 32; d *= 2) {
    float u = __shfl_up_sync(0xfffffu, v, d);
    if (threadIdx.x >= d) v += u * u;
  }
  y[threadIdx.x] = v;
}]], block = { 20 }, grid = { 1 }, args = function(t) return { t.f { 20 }, 20 } end,
    want = function(x)
      local v = each(20, function(i) return x[i] end)
      for _, d in ipairs { 1, 2, 4, 8, 16 } do
        v = each(20, function(i) return i >= d and v[i] + v[i - d] ^ 2 or v[i] end)
      end
      return v
    end },

  { "lanes that have left, and a broadcast", [[
__global__ void left(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned mask = __activemask();
  float first = __shfl_sync(mask, x[i], 0);
  y[i] = x[i] * first;
}]], block = { 32 }, args = function(t) return { t.f { 45 } } end,
    want = function(x) return each(45, function(i) return x[i] * x[i // 32 * 32] end) end },

  { "sums of integers in a warp, and in a block by votes", [[
__global__ void whole(const float *x, float *y) {
  unsigned s = __reduce_add_sync(0xffffffff, threadIdx.x & 31u);
  int top = __reduce_max_sync(0xffffffff, x[threadIdx.x] > 0.5f ? (int)threadIdx.x : -1);
  int c = __syncthreads_count(x[threadIdx.x] > 0.f);
  int o = __syncthreads_or(x[threadIdx.x] > 0.95f);
  y[threadIdx.x] = (c + o) * x[threadIdx.x] * s + top;
}]], block = { 64 }, grid = { 1 }, args = function(t) return { t.f { 64 } } end,
    want = function(x)
      local c, o, top = 0, 0, { [0] = -1, -1 }
      for i = 0, 63 do
        if x[i] > 0 then c = c + 1 end
        if x[i] > 0.95 then o = 1 end
        if x[i] > 0.5 then top[i // 32] = i end
      end
      return each(64, function(i) return (c + o) * x[i] * 496 + top[i // 32] end)
    end },
}
