--- Kernels that share memory: counters by which threads take positions, sums by atomics, float4,
--- swapped pointers, halves; and kernels for which a gradient is refused.

local each = dofile("spec/kernel/users/each.lua")

local function zeros(n) return each(n, function() return 0 end) end

return {
  { "compaction by a counter", [[
__global__ void compact(const float *x, float *out, int *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0.f) {
    int slot = atomicAdd(count, 1);
    out[slot] = x[i] * x[i];
  }
}]], drawn = true, block = { 8 }, args = function(t) return { t.f { 20 } } end,
    want = function(x)
      local out, count, n = zeros(20), zeros(20), 0
      for i = 0, 19 do
        if x[i] > 0 then out[n] = x[i] ^ 2 n = n + 1 end
      end
      count[0] = n
      return out, count
    end },

  { "compaction by blocks, then one counter", [[
__device__ bool keep(float v) { return v > -0.25f; }
__global__ void compact_block(const float *x, float *out, unsigned int *total, float scale, int n) {
  __shared__ unsigned int count, base;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  unsigned int place = 0;
  const bool mine = i < n && keep(x[i]);
  if (mine) place = atomicAdd(&count, 1u);
  __syncthreads();
  if (threadIdx.x == 0) base = atomicAdd(total, count);
  __syncthreads();
  if (mine) out[base + place] = scale * x[i] + x[i] * x[i];
}]], drawn = true, block = { 8 }, args = function(t) return { t.f { 20 }, t.f { 1 }, 20 } end,
    want = function(x, scale)
      local out, total, n = zeros(20), zeros(20), 0
      for i = 0, 19 do
        if x[i] > -0.25 then out[n] = scale[0] * x[i] + x[i] ^ 2 n = n + 1 end
      end
      total[0] = n
      return out, total
    end },

  { "the last block adds up what others wrote", [[
__global__ void total(const float *x, float *partial, float *out, unsigned int *counter, int n) {
  __shared__ bool last;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&partial[blockIdx.x], x[i] * x[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float t = 0;
    for (int b = 0; b < gridDim.x; ++b) t += partial[b];
    *out = t;
  }
}]], block = { 8 }, grid = { 3 }, shape = { 3 },
    inout = { "partial", "counter" },
    args = function(t) return { t.f { 20 }, t.tensor { 0, 0, 0 }, t.i { 0, 0, 0 }, 20 } end,
    want = function(x)
      local p, s = zeros(3), 0
      for i = 0, 19 do p[i // 8] = p[i // 8] + x[i] ^ 2 s = s + x[i] ^ 2 end
      return p, { [0] = s, 0, 0 }, { [0] = 3, 0, 0 }
    end },

  { "the old value of a sum", [[
__global__ void old_value(const float *x, float *s, float *y, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = atomicAdd(s, x[i]);
}]],
    args = function(t) return { t.f { 4 } } end,
    refuses = "the result of an atomic operation on 's'",
    want = function(x)
      local y, s = {}, 0
      for i = 0, 3 do y[i] = s s = s + x[i] end
      return { [0] = s, 0, 0, 0 }, y
    end },

  { "discs drawn by atomics", [[
__global__ void splat(const float *cx, const float *cy, const float *r, const float3 *col, float *img,
                      int w, int h, int n) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= n) return;
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      float dx = x - cx[p], dy = y - cy[p];
      float a = expf(-(dx * dx + dy * dy) / (2.f * r[p] * r[p]));
      if (a < 1e-3f) continue;
      float *px = &img[(y * w + x) * 3];
      atomicAdd(px + 0, a * col[p].x);
      atomicAdd(px + 1, a * col[p].y);
      atomicAdd(px + 2, a * col[p].z);
    }
}]], shape = { 3, 4, 3 }, args = function(t)
      return { t.f { 2, low = 0, high = 4 }, t.f { 2, low = 0, high = 3 },
        t.f { 2, low = 1, high = 2 }, t.f { 2, 3 }, 4, 3, 2 }
    end,
    want = function(cx, cy, r, col, w, h, n)
      local img = zeros(w * h * 3)
      for p = 0, n - 1 do
        for e = 0, w * h - 1 do
          local a = math.exp(-((e % w - cx[p]) ^ 2 + (e // w - cy[p]) ^ 2) / (2 * r[p] ^ 2))
          for c = 0, 2 do
            if a >= 1e-3 then img[3 * e + c] = img[3 * e + c] + a * col[3 * p + c] end
          end
        end
      end
      return img
    end },

  { "four at a time, grid-stride", [[
__global__ void four(const float4 *x, float4 *y, int n4) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += blockDim.x * gridDim.x) {
    float4 v = x[i];
    v.x *= v.x;
    v.y = sinf(v.y);
    v.z += v.w;
    v.w = v.x * v.y;
    y[i] = v;
  }
}]], block = { 4 }, grid = { 2 }, args = function(t) return { t.f { 44 }, 11 } end,
    want = function(x)
      local y = {}
      for i = 0, 40, 4 do
        y[i], y[i + 1], y[i + 2] = x[i] ^ 2, math.sin(x[i + 1]), x[i + 2] + x[i + 3]
        y[i + 3] = x[i] ^ 2 * math.sin(x[i + 1])
      end
      return y
    end },

  { "floats read and written as float4", [[
__global__ void as_four(const float *x, float *y, int n) {
  int i = threadIdx.x;
  if (i >= n / 4) return;
  float4 v = reinterpret_cast<const float4 *>(x)[i];
  v.x *= v.w;
  ((float4 *)y)[i] = v;
}]], args = function(t) return { t.f { 8 } } end,
    want = function(x)
      return each(8, function(i) return i % 4 == 0 and x[i] * x[i + 3] or x[i] end)
    end },

  { "buffers that swap in dynamic shared memory", [[
__global__ void swap(const float *x, float *y, int n, int steps) {
  extern __shared__ float mem[];
  float *cur = mem, *next = mem + n;
  int t = threadIdx.x;
  cur[t] = x[t];
  __syncthreads();
  for (int k = 0; k < steps; ++k) {
    next[t] = 0.5f * cur[t] * cur[t] + 0.25f * (cur[(t + 1) % n] + cur[(t + n - 1) % n]);
    __syncthreads();
    float *tmp = cur;
    cur = next;
    next = tmp;
  }
  y[t] = cur[t];
}]], block = { 8 }, grid = { 1 }, shared = 64, args = function(t) return { t.f { 8 }, 8, 11 } end,
    want = function(x, n, steps)
      for _ = 1, steps do
        local o = each(n, function(i)
          return 0.5 * x[i] ^ 2 + 0.25 * (x[(i + 1) % n] + x[(i + n - 1) % n])
        end)
        x = o
      end
      return x
    end },

  { "sums along a row, in place in the output", [[
__global__ void along(const float *x, float *y, int w, int rows) {
  int r = threadIdx.x;
  if (r >= rows) return;
  y[r * w] = x[r * w];
  for (int c = 1; c < w; ++c) y[r * w + c] = y[r * w + c - 1] + x[r * w + c];
}]], args = function(t) return { t.f { 3, 5 }, 5, 3 } end,
    want = function(x, w, rows)
      local y = {}
      for r = 0, rows - 1 do
        local s = 0
        for c = 0, w - 1 do s = s + x[r * w + c] y[r * w + c] = s end
      end
      return y
    end },

  { "an array of structs", [[
struct Particle { float x, y, z, m; };
__global__ void energy(const Particle *p, float *e, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  Particle a = p[i];
  float s = 0.f;
  for (int j = 0; j < n; ++j) {
    if (j == i) continue;
    float dx = p[j].x - a.x, dy = p[j].y - a.y, dz = p[j].z - a.z;
    s += a.m * p[j].m * rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
  }
  e[i] = s;
}]], shape = { 4 }, args = function(t) return { t.f { 4, 4 }, 4 } end,
    want = function(p, n)
      return each(n, function(i)
        local s = 0
        for j = 0, n - 1 do
          local d = 0.01
          for c = 0, 2 do d = d + (p[4 * j + c] - p[4 * i + c]) ^ 2 end
          if j ~= i then s = s + p[4 * i + 3] * p[4 * j + 3] / math.sqrt(d) end
        end
        return s
      end)
    end },

  { "structs of vectors, read and written", [[
struct Body { float3 pos, vel; };
__global__ void step(const Body *in, Body *out, float dt, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  Body b = in[i];
  b.vel.x -= dt * b.pos.x;
  b.vel.y -= dt * b.pos.y;
  b.vel.z -= dt * b.pos.z * b.pos.z;
  b.pos.x += dt * b.vel.x;
  b.pos.y += dt * b.vel.y;
  b.pos.z += dt * b.vel.z;
  out[i] = b;
}]], shape = { 3, 6 }, args = function(t) return { t.f { 3, 6 }, 0.1, 3 } end,
    want = function(p)
      local y = {}
      for o = 0, 12, 6 do
        for c = 0, 2 do
          local v = p[o + 3 + c] - 0.1 * p[o + c] ^ (c == 2 and 2 or 1)
          y[o + c], y[o + 3 + c] = p[o + c] + 0.1 * v, v
        end
      end
      return y
    end },

  { "device functions with one dynamic array each", [[
__device__ float block_max(float v) {
  extern __shared__ float tops[];
  tops[threadIdx.x] = v;
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d >>= 1) {
    if (threadIdx.x < d) tops[threadIdx.x] = fmaxf(tops[threadIdx.x], tops[threadIdx.x + d]);
    __syncthreads();
  }
  float m = tops[0];
  __syncthreads();
  return m;
}
__device__ float block_sum(float v) {
  extern __shared__ float parts[];
  parts[threadIdx.x] = v;
  __syncthreads();
  float s = 0;
  for (int k = 0; k < blockDim.x; ++k) s += parts[k];
  __syncthreads();
  return s;
}
__global__ void softmax(const float *x, float *y, int n) {
  float v = x[threadIdx.x];
  float e = expf(v - block_max(v));
  y[threadIdx.x] = e / block_sum(e);
}]], block = { 8 }, grid = { 1 }, shared = 32, args = function(t) return { t.f { 8 }, 8 } end,
    want = function(x)
      local s = 0
      for i = 0, 7 do s = s + math.exp(x[i]) end
      return each(8, function(i) return math.exp(x[i]) / s end)
    end },

  { "the nearest by atomicMin of integers", [[
__global__ void depth(const float *z, int *zbuf, int n) {
  int i = threadIdx.x;
  if (i < n) atomicMin(&zbuf[i % 2], (int)(z[i] * 1000.f));
}]],
    inout = { "zbuf" }, same = true, args = function(t)
      return { t.f { 6 }, t.i { 9999, 9999 }, 6 }
    end,
    want = function(z)
      local b = { [0] = 9999, 9999 }
      for i = 0, 5 do
        local v = z[i] * 1000
        b[i % 2] = math.min(b[i % 2], v < 0 and math.ceil(v) or math.floor(v))
      end
      return b
    end },
}
