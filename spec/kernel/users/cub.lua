--- Kernels with the sums, scans, loads and stores of CUB.
local each = dofile("spec/kernel/users/each.lua")

return {
  { "sums and maxima of a block", [=[
#include <cub/cub.cuh>
struct Affine { float a, b; };
struct Then { __device__ Affine operator()(Affine p, Affine q) const { return Affine{p.a * q.a, q.a * p.b + q.b}; } };
__global__ void sums(const float *x, float *y, float *most, float *chain, int n) {
  using Sum = cub::BlockReduce<float, 48>;
  typedef cub::BlockReduce<Affine, 48, cub::BLOCK_REDUCE_RAKING> Chain;
  __shared__ typename Sum::TempStorage temp;
  __shared__ typename Chain::TempStorage other;
  const int t = threadIdx.x;
  float v[2] = { x[t], x[t] * x[(t + 1) % 48] };
  const float s = Sum(temp).Sum(v);
  __syncthreads();
  const float m = Sum(temp).Reduce(x[t], cub::Max(), n);
  __syncthreads();
  const float f = Sum(temp).Sum(v[0], 40);
  const Affine c = Chain(other).Reduce(Affine{0.9f + 0.1f * x[t], x[t]}, Then());
  if (t == 0) {
    y[0] = s + f;
    most[0] = m;
    chain[0] = c.b + c.a;
  }
}]=], block = { 48 }, grid = { 1 }, shape = { 1 }, tol = 1e-4,
    args = function(t) return { t.f { 48, low = -0.5, high = 0.5 }, 37 } end,
    want = function(x)
      local s, m, a, b = 0, -math.huge, 1, 0
      for t = 0, 47 do
        s = s + x[t] + x[t] * x[(t + 1) % 48] + (t < 40 and x[t] or 0)
        if t < 37 then m = math.max(m, x[t]) end
        local k = 0.9 + 0.1 * x[t]
        a, b = a * k, k * b + x[t]
      end
      return { [0] = s }, { [0] = m }, { [0] = a + b }
    end },

  { "a scan in chunks, each seeded with the sum of those before", [=[
#include <cub/cub.cuh>
struct Running {
  float total;
  __device__ Running(float v) : total(v) {}
  __device__ float operator()(float all) { const float old = total; total += all; return old; }
};
__global__ void running(const float *x, float *upto, float *before, int n) {
  typedef cub::BlockScan<float, 40> Scan;
  __shared__ typename Scan::TempStorage temp;
  Running seed(0.5f), other(1);
  for (int at = 0; at < n; at += 40) {
    const int i = at + threadIdx.x;
    float v = i < n ? x[i] : 0, own = v;
    Scan(temp).InclusiveSum(v, v, seed);
    __syncthreads();
    Scan(temp).ExclusiveSum(own, own, other);
    if (i < n) upto[i] = v, before[i] = own;
    __syncthreads();
  }
}]=], block = { 40 }, grid = { 1 }, shape = { 90 }, tol = 1e-4,
    args = function(t) return { t.f { 90 }, 90 } end,
    want = function(x, n)
      local upto, before, s = {}, {}, 0
      for i = 0, n - 1 do
        before[i] = 1 + s
        s = s + x[i]
        upto[i] = 0.5 + s
      end
      return upto, before
    end },

  { "scans of a block", [=[
#include <cub/block/block_scan.cuh>
namespace prefix = cub;
__global__ void scans(const float *x, float *y, float *z, int *c, int n) {
  typedef prefix::BlockScan<float, 40> Scan;
  typedef prefix::BlockScan<int, 40> Count;
  __shared__ typename Scan::TempStorage temp;
  __shared__ typename Count::TempStorage counts;
  const int t = threadIdx.x;
  float in, ex, all;
  Scan(temp).InclusiveSum(x[t], in);
  __syncthreads();
  Scan(temp).ExclusiveSum(x[t] * x[t], ex, all);
  __syncthreads();
  float v[2] = { x[t], 2 * x[t] };
  Scan(temp).ExclusiveSum(v, v);
  __syncthreads();
  float low;
  Scan(temp).InclusiveScan(x[t], low, cub::Min());
  int item[2] = { t & 1, 1 }, total;
  Count(counts).InclusiveSum(item, item, total);
  y[t] = in * all + v[0] + v[1];
  z[t] = ex + low;
  c[t] = item[0] + 100 * item[1] + 10000 * total;
}]=], block = { 40 }, grid = { 1 }, shape = { 40 }, tol = 1e-4,
    args = function(t) return { t.f { 40 }, 40 } end,
    want = function(x)
      local y, z, c, all, s, q, low, n = {}, {}, {}, 0, 0, 0, math.huge, 0
      for t = 0, 39 do all = all + x[t] * x[t] end
      for t = 0, 39 do
        local before = 3 * s
        s, low = s + x[t], math.min(low, x[t])
        y[t] = s * all + before + before + x[t]
        z[t] = q + low
        q = q + x[t] * x[t]
        c[t] = n + t % 2 + 100 * (n + t % 2 + 1) + 10000 * 60
        n = n + t % 2 + 1
      end
      return y, z, c
    end },

  { "sums and scans of a warp", [=[
#include <cub/warp/warp_reduce.cuh>
__global__ void warps(const float *x, float *y, float *z, int n) {
  typedef cub::WarpReduce<float, 16> Sum;
  typedef cub::WarpScan<float> Scan;
  __shared__ typename Sum::TempStorage sums[4];
  __shared__ typename Scan::TempStorage scans[2];
  const int t = threadIdx.x;
  const float s = Sum(sums[t / 16]).Sum(x[t] * x[t]);
  float in, ex;
  Scan(scans[t / 32]).InclusiveSum(x[t], in);
  Scan(scans[t / 32]).ExclusiveSum(x[t], ex);
  const float part = Sum(sums[t / 16]).Reduce(x[t], cub::Sum(), 11);
  y[t] = t % 16 == 0 ? s + part : 0;
  z[t] = in * ex;
}]=], block = { 64 }, grid = { 1 }, shape = { 64 },
    args = function(t) return { t.f { 64 }, 64 } end,
    want = function(x)
      local z, s = {}, 0
      for t = 0, 63 do
        if t % 32 == 0 then s = 0 end
        z[t], s = (s + x[t]) * s, s + x[t]
      end
      return each(64, function(t)
        local r = 0
        for k = t, t + 15 do
          if t % 16 == 0 then r = r + x[k] * x[k] + (k - t < 11 and x[k] or 0) end
        end
        return r
      end), z
    end },

  { "sums and maxima of segments of a warp", [=[
#include <cub/warp/warp_reduce.cuh>
__global__ void segments(const float *x, const int *flag, float *y, float *z, int n) {
  typedef cub::WarpReduce<float> Sum;
  typedef cub::WarpReduce<float, 8> Group;
  __shared__ typename Sum::TempStorage temp[2];
  __shared__ typename Group::TempStorage group[8];
  const int t = threadIdx.x;
  const float v = x[t] * x[t];
  y[t] = Sum(temp[t / 32]).HeadSegmentedSum(v, flag[t] > 1)
    + 2 * Group(group[t / 8]).TailSegmentedSum(v, flag[t]);
  z[t] = Sum(temp[t / 32]).TailSegmentedReduce(x[t], flag[t] == 3, cub::Max())
    - Group(group[t / 8]).HeadSegmentedReduce(x[t], flag[t], cub::Min());
}]=], block = { 64 }, grid = { 1 }, shape = { 64 },
    args = function(t)
      local flags = {}
      for i = 1, 64 do flags[i] = (i * i * 7 // 11 + i // 40) % 5 % 4 end
      return { t.f { 64 }, t.i(flags), 64 }
    end,
    want = function(x, flag)
      local function over(t, width, head, is, value, f)
        local r = value(t)
        while (t + 1) % width ~= 0 and not (head and is(flag[t + 1]) or not head and is(flag[t])) do
          t = t + 1
          r = f(r, value(t))
        end
        return r
      end
      local function square(t) return x[t] * x[t] end
      local function plain(t) return x[t] end
      local function add(a, b) return a + b end
      return each(64, function(t)
        return over(t, 32, true, function(v) return v > 1 end, square, add)
          + 2 * over(t, 8, false, function(v) return v ~= 0 end, square, add)
      end), each(64, function(t)
        return over(t, 32, false, function(v) return v == 3 end, plain, math.max)
          - over(t, 8, true, function(v) return v ~= 0 end, plain, math.min)
      end)
    end },

  { "loads and stores of a block, in memory that they share", [=[
#include <cub/cub.cuh>
template <typename T, int THREADS, int ITEMS> __global__ void moves(const T *x, T *y, int n) {
  typedef cub::BlockLoad<T, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE> Load;
  typedef cub::BlockStore<T, THREADS, ITEMS, cub::BLOCK_STORE_STRIPED> Store;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
  } temp;
  const int base = blockIdx.x * THREADS * ITEMS;
  T v[ITEMS];
  Load(temp.load).Load(x + base, v, n - base, (T)2);
  __syncthreads();
  for (int k = 0; k < ITEMS; ++k) v[k] *= v[(k + 1) % ITEMS];
  Store(temp.store).Store(y + base, v, n - base);
}]=], block = { 8 }, grid = { 2 }, shape = { 40 }, entry = "moves<float, 8, 3>", single = true,
    args = function(t) return { t.f { 40 }, 40 } end,
    want = function(x)
      local y = {}
      for b = 0, 1 do
        for t = 0, 7 do
          local v = {}
          for k = 0, 2 do v[k] = x[24 * b + 3 * t + k] or 2 end
          for k = 0, 2 do v[k] = v[k] * v[(k + 1) % 3] end
          for k = 0, 2 do
            if 24 * b + t + 8 * k < 40 then y[24 * b + t + 8 * k] = v[k] end
          end
        end
      end
      return y
    end },
}
