--- Kernels whose threads work in groups: cooperative groups, votes and matches, double-buffered
--- tiles, sorts.
-- luacheck: no max line length

local lists = dofile("spec/kernel/users/lists.lua")
local each, sum = lists.each, lists.sum

local cg = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n#include <cooperative_groups/scan.h>\nnamespace cg = cooperative_groups;\n"

return {
  { "softmax, one row per tile, by groups", cg .. [=[
template <unsigned N> __global__ void softmax(const float *x, float *y, int w, int rows) {
  const cg::thread_block block = cg::this_thread_block();
  const cg::thread_block_tile<N> tile = cg::tiled_partition<N>(block);
  const int row = block.group_index().x * tile.meta_group_size() + tile.meta_group_rank();
  if (row >= rows) return;
  float m = -INFINITY, s = 0.f;
  for (int c = tile.thread_rank(); c < w; c += tile.size()) m = fmaxf(m, x[row * w + c]);
  m = cg::reduce(tile, m, cg::greater<float>());
  for (int c = tile.thread_rank(); c < w; c += tile.num_threads()) s += expf(x[row * w + c] - m);
  s = cg::reduce(tile, s, cg::plus<float>{});
  tile.sync();
  for (int c = tile.thread_rank(); c < w; c += tile.size()) y[row * w + c] = expf(x[row * w + c] - m) / s;
}]=],
    entry = "softmax<4>", block = { 8 }, grid = { 2 }, args = function(t)
      return { t.f { 3, 7 }, 7, 3 }
    end,
    want = function(x, w, rows)
      return each(w * rows, function(e)
        return math.exp(x[e]) / sum(w, function(c) return math.exp(x[e - e % w + c]) end)
      end)
    end },

  { "a sum of a block by any group, two levels", cg .. [=[
using namespace cooperative_groups;
template <typename Group, typename T> __device__ T reduce_with(Group g, T *temp, T val) {
  const int lane = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    temp[lane] = val;
    g.sync();
    if (lane < i) val += temp[lane + i];
    g.sync();
  }
  return val;
}
__global__ void energy(const float *x, float *total, int n) {
  __shared__ float temp[8];
  const thread_block g = this_thread_block();
  const grid_group all = this_grid();
  float mine = 0.f;
  for (unsigned long long i = all.thread_rank(); i < n; i += all.size()) mine += x[i] * x[i];
  const float s = reduce_with(g, temp, mine);
  if (g.thread_rank() == 0) atomicAdd(total, s);
}]=], block = { 8 }, grid = { 2 }, shape = { 1 }, args = function(t) return { t.f { 21 }, 21 } end,
    want = function(x, n) return { [0] = sum(n, function(i) return x[i] ^ 2 end) } end },

  { "a group of any kind, by value and by reference", cg .. [=[
__device__ float total(cg::thread_group g, float *temp, float v) {
  const int lane = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    temp[lane] = v;
    g.sync();
    if (lane < i) v += temp[lane + i];
    g.sync();
  }
  return v;
}
__device__ unsigned place(const cg::thread_group &g) { return g.thread_rank() * 100u + g.size(); }
__global__ void groups(const float *x, float *y, int *at, int n) {
  __shared__ float temp[64];
  const cg::thread_block block = cg::this_thread_block();
  const int t = threadIdx.x;
  const float all = total(block, temp, x[t] * x[t]);
  if (t == 0) y[0] = all;
  const cg::thread_group four = cg::tiled_partition(block, 4);
  const float part = total(four, temp + t / 4 * 4, x[t] * x[t]);
  if (four.thread_rank() == 0) y[1 + t / 4] = part;
  cg::thread_block_tile<8> eight = cg::tiled_partition<8>(block);
  at[t] = (int)(place(eight) * 10000u + place(four));
}]=], block = { 64 }, grid = { 1 }, shape = { 64 },
    args = function(t) return { t.f { 64 }, 64 } end,
    want = function(x)
      local function squares(from, n) return sum(n, function(k) return x[from + k] ^ 2 end) end
      local y = each(64, function(i)
        return i > 16 and 0 or squares(4 * i - 4, i > 0 and 4 or 0)
      end)
      y[0] = squares(0, 64)
      return y, each(64, function(i) return (i % 8 * 100 + 8) * 10000 + i % 4 * 100 + 4 end)
    end },

  { "tiles of which the last has fewer threads, and of some lanes alone", cg .. [=[
__global__ void rest(const float *x, float *y, int *at) {
  __shared__ float temp[40];
  const int t = threadIdx.x;
  const cg::thread_group tile = cg::tiled_partition(cg::this_thread_block(), 16);
  temp[t] = x[t] * x[t];
  tile.sync();
  float s = 0.f;
  for (unsigned k = 0; k < tile.size(); ++k) s += temp[t - tile.thread_rank() + k];
  y[t] = s;
  at[t] = (int)(tile.thread_rank() * 100u + tile.size());
  if (t % 3 == 0) {
    const cg::thread_group four = cg::tiled_partition(cg::coalesced_threads(), 4);
    const cg::thread_group two = cg::tiled_partition(four, 2);
    at[t] += (int)((two.thread_rank() * 10u + two.size()) * 1000000u
                   + (four.thread_rank() * 10u + four.size()) * 10000u);
  }
}]=], block = { 40 }, grid = { 1 }, shape = { 40 }, single = true,
    args = function(t) return { t.f { 40 } } end,
    want = function(x)
      -- of every third thread of 40, 11 (0, 3 … 30) are in the first warp and 3 in the second
      return each(40, function(t)
        return sum(t < 32 and 16 or 8, function(k) return x[t // 16 * 16 + k] ^ 2 end)
      end), each(40, function(t)
        local own = t % 16 * 100 + (t < 32 and 16 or 8)
        if t % 3 > 0 then return own end
        local rank, all = t < 32 and t // 3 or t // 3 - 11, t < 32 and 11 or 3
        local four = math.min(4, all - rank // 4 * 4)
        local two = math.min(2, four - rank % 4 // 2 * 2)
        return own + (rank % 2 * 10 + two) * 1000000 + (rank % 4 * 10 + four) * 10000
      end)
    end },

  { "blocks that meet: a mean of all, then a step towards the neighbours", cg .. [=[
__global__ void settle(const float *x, float *part, float *y, float *z, int n) {
  __shared__ float s[4];
  const cg::grid_group grid = cg::this_grid();
  const int i = (int)grid.thread_rank();
  s[threadIdx.x] = i < n ? x[i] * x[i] : 0.f;
  __syncthreads();
  if (threadIdx.x == 0) part[blockIdx.x] = s[0] + s[1] + s[2] + s[3];
  cg::sync(grid);
  float all = 0.f;
  for (unsigned b = 0; b < grid.dim_blocks().x; ++b) all += part[b];
  if (i < n) y[i] = x[i] * all;
  grid.sync();
  const float t = i < n ? y[n - 1 - i] * y[(i + 3) % n] : 0.f;
  grid.sync();
  if (i < n) y[i] = t + x[i];
  if (n > 3) grid.sync();
  if (i < n) z[i] = y[(i + 5) % n] * y[i];
}]=], block = { 4 }, grid = { 3 }, shape = { 11 }, args = function(t)
      return { t.f { 11, low = 0.2 }, 11 }
    end,
    want = function(x, n)
      local part, all = each(11, function() return 0 end), 0
      for b = 0, 2 do
        part[b] = sum(math.min(4, n - 4 * b), function(k) return x[4 * b + k] ^ 2 end)
        all = all + part[b]
      end
      local y = each(n, function(i)
        return x[n - 1 - i] * all * x[(i + 3) % n] * all + x[i]
      end)
      return part, y, each(n, function(i) return y[(i + 5) % n] * y[i] end)
    end },

  { "blocks that meet in each round of a loop", cg .. [=[
__global__ void spread(const float *x, float *y, float *z, int n, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
  for (int k = 0; k < rounds; ++k) {
    cg::this_grid().sync();
    z[i] = 0.5f * y[i] + 0.25f * (y[(i + 1) % n] + y[(i + n - 1) % n]);
    cg::this_grid().sync();
    y[i] = z[i];
  }
}]=], block = { 2 }, grid = { 5 }, args = function(t) return { t.f { 10 }, 10, 3 } end,
    want = function(x, n, rounds)
      local y, z = x, x
      for _ = 1, rounds do
        local old = y
        z = each(n, function(i)
          return 0.5 * old[i] + 0.25 * (old[(i + 1) % n] + old[(i - 1) % n])
        end)
        y = z
      end
      return y, z
    end },

  { "blocks that meet in each round, and read what they rewrite", cg .. [=[
__global__ void spread(const float *x, float *y, float *z, int n, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
  for (int k = 0; k < rounds; ++k) {
    cg::this_grid().sync();
    z[i] = y[i] * y[i] + 0.25f * (y[(i + 1) % n] + y[(i + n - 1) % n]);
    cg::this_grid().sync();
    y[i] = z[i];
  }
}]=], block = { 2 }, grid = { 5 },
    args = function(t) return { t.f { 10 }, 10, 3 } end,
    want = function(x, n, rounds)
      local y, z = x, x
      for _ = 1, rounds do
        local old = y
        z = each(n, function(i)
          return old[i] * old[i] + 0.25 * (old[(i + 1) % n] + old[(i - 1) % n])
        end)
        y = z
      end
      return y, z
    end },

  { "what a group keeps, one atomic for all its threads", cg .. [=[
__device__ int claim(int *count) {
  const cg::coalesced_group active = cg::coalesced_threads();
  int base = 0;
  if (active.thread_rank() == 0) base = atomicAdd(count, static_cast<int>(active.num_threads()));
  return active.shfl(base, 0) + active.thread_rank();
}
__global__ void keep(const float *x, float *y, int *count, float above, int n) {
  const int i = threadIdx.x;
  if (i < n && x[i] > above) y[claim(count)] = x[i] * x[i];
}]=],
    block = { 32 }, grid = { 1 }, shape = { 20 },
    args = function(t) return { t.f { 20 }, 0.125, 20 } end, nodiff = { "above" },
    want = function(x, above, n)
      local y, k = each(n, function() return 0 end), 0
      for i = 0, n - 1 do if x[i] > above then y[k], k = x[i] ^ 2, k + 1 end end
      local count = each(n, function() return 0 end)
      count[0] = k
      return y, count
    end },

  { "a running mean by scans of a tile", cg .. [=[
__global__ void running(const float *x, float *mean, float *before, int w) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  const int i = blockIdx.x * w + tile.thread_rank();
  const float v = tile.thread_rank() < w ? x[i] : 0.f;
  const float up_to = cg::inclusive_scan(tile, v), top = cg::inclusive_scan(tile, v * v, cg::plus<float>());
  const float ahead = cg::exclusive_scan(tile, v, [](float a, float b) { return a + b; });
  const int third = tile.any(tile.thread_rank() == 3), bit = tile.ballot(tile.thread_rank() == 2);
  if (tile.thread_rank() < w) {
    mean[i] = up_to / (tile.thread_rank() + 1) + sqrtf(top + 0.5f);
    before[i] = ahead * third + bit;
  }
}]=],
    block = { 16 }, grid = { 2 }, shape = { 2, 11 }, args = function(t)
      return { t.f { 2, 11 }, 11 }
    end,
    want = function(x, w)
      local function up_to(i, f) return sum(i % w + 1, function(k) return f(x[i - k]) end) end
      local function one(v) return v end
      return each(2 * w, function(i)
        return up_to(i, one) / (i % w + 1) + math.sqrt(up_to(i, function(v) return v * v end) + 0.5)
      end),
        each(2 * w, function(i) return up_to(i, one) - x[i] + 4 end)
    end },

  { "sums of equal keys by a match", [=[
__global__ void by_key(const int *key, const float *x, float *out, int n) {
  const int i = threadIdx.x, k = i < n ? key[i] : -1;
  const unsigned peers = __match_any_sync(0xffffffffu, k);
  float s = 0.f;
  for (int j = 0; j < 32; ++j) {
    const float v = __shfl_sync(0xffffffffu, i < n ? x[i] : 0.f, j);
    if (peers >> j & 1u) s += v;
  }
  if (i < n && __ffs(peers) - 1 == i) out[k] = s;
}]=],
    block = { 32 }, grid = { 1 }, shape = { 4 }, args = function(t)
      return { t.i { 2, 0, 3, 2, 2, 0, 3, 0, 0 }, t.f { 9 }, 9 }
    end,
    want = function(key, x, n)
      return each(4, function(k)
        return sum(n, function(i) return key[i] == k and x[i] or 0 end)
      end)
    end },

  { "a product of tiles in two buffers, four results per thread", [=[
#define BM 4
#define BK 2
template <int TM, int TN> __global__ void __launch_bounds__(4, 2)
gemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, const int M, const int N, const int K, const float alpha) {
  __shared__ __align__(16) float As[2][BK][BM], Bs[2][BK][BM];
  const int tx = threadIdx.x % (BM / TN), ty = threadIdx.x / (BM / TN), row = blockIdx.y * BM, col = blockIdx.x * BM;
  float acc[TM][TN] = {{0.f}};
  auto load = [&](int buf, int k0) {
    for (int e = threadIdx.x; e < BM * BK; e += blockDim.x) {
      const int r = e / BK, k = e % BK;
      As[buf][k][r] = row + r < M && k0 + k < K ? A[(row + r) * K + k0 + k] : 0.f;
      Bs[buf][e / BM][e % BM] = k0 + e / BM < K && col + e % BM < N ? B[(k0 + e / BM) * N + col + e % BM] : 0.f;
    }
  };
  int buf = 0;
  load(buf, 0);
  __syncthreads();
  for (int k0 = 0; k0 < K; k0 += BK) {
    if (k0 + BK < K) load(buf ^ 1, k0 + BK);
    #pragma unroll
    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      #pragma unroll
      for (int i = 0; i < TM; ++i) a[i] = As[buf][k][ty * TM + i];
      #pragma unroll
      for (int j = 0; j < TN; ++j) b[j] = Bs[buf][k][tx * TN + j];
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
    }
    __syncthreads();
    buf ^= 1;
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      const int r = row + ty * TM + i, c = col + tx * TN + j;
      if (r < M && c < N) C[r * N + c] = alpha * acc[i][j];
    }
}]=], entry = "gemm<2, 2>", block = { 4 }, grid = { 2, 2 }, shape = { 5, 6 }, order = 1,
    args = function(t) return { t.f { 5, 5 }, t.f { 5, 6 }, 5, 6, 5, t.f { 1 } } end,
    want = function(A, B, M, N, K, alpha)
      return each(M * N, function(e)
        return alpha[0] * sum(K, function(k) return A[e // N * K + k] * B[k * N + e % N] end)
      end)
    end },

  { "points smoothed between two arrays whose pointers swap", [=[
struct Point { float x, y, z; };
__global__ void smooth(const Point *in, Point *out, float k, int rounds, int n) {
  __shared__ Point first[8], second[8];
  Point *from = first, *to = second;
  const int t = threadIdx.x;
  if (t < n) from[t] = in[t];
  __syncthreads();
  for (int r = 0; r < rounds; ++r) {
    if (t < n) {
      const Point &l = from[(t + n - 1) % n], &c = from[t], &e = from[(t + 1) % n];
      to[t] = {c.x + k * (l.x - 2.f * c.x + e.x), c.y + k * (l.y - 2.f * c.y + e.y) * c.x, c.z * (1.f - k)};
    }
    __syncthreads();
    Point *const other = from;
    from = to;
    to = other;
  }
  if (t < n) out[t] = from[t];
}]=],
    block = { 8 }, grid = { 1 }, args = function(t)
      return { t.f { 5, 3 }, t.f { 1, low = 0.1, high = 0.3 }, 3, 5 }
    end,
    want = function(p, k, rounds, n)
      k = k[0]
      for _ = 1, rounds do
        local q, old = {}, p
        for i = 0, n - 1 do
          local function bend(d)
            return old[(i + n - 1) % n * 3 + d] - 2 * old[3 * i + d] + old[(i + 1) % n * 3 + d]
          end
          q[3 * i], q[3 * i + 1], q[3 * i + 2] = old[3 * i] + k * bend(0),
            old[3 * i + 1] + k * bend(1) * old[3 * i], old[3 * i + 2] * (1 - k)
        end
        p = q
      end
      return p
    end },

  { "a sort by bits in a block: counts before, then places", [=[
__device__ int before(int *s, int mine, int &total) {
  const int t = threadIdx.x;
  s[t] = mine;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d <<= 1) {
    const int add = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += add;
    __syncthreads();
  }
  total = s[blockDim.x - 1];
  return s[t] - mine;
}
__global__ void radix(const unsigned *keys, const float *x, float *y, unsigned *sorted, int bits) {
  __shared__ int s[16];
  __shared__ unsigned k[16];
  __shared__ int from[16];
  const int t = threadIdx.x;
  k[t] = keys[t];
  from[t] = t;
  __syncthreads();
  for (int b = 0; b < bits; ++b) {
    const unsigned mine = k[t];
    const int at = from[t], one = mine >> b & 1u;
    int zeros;
    const int low = before(s, 1 - one, zeros);
    const int to = one ? zeros + t - low : low;
    k[to] = mine;
    from[to] = at;
    __syncthreads();
  }
  sorted[t] = k[t];
  y[t] = x[from[t]] * x[from[t]];
}]=], block = { 16 }, grid = { 1 }, args = function(t)
      return { t.i { 9, 3, 14, 7, 0, 15, 2, 8, 1, 12, 5, 11, 4, 13, 6, 10 }, t.f { 16 }, 4 }
    end, shape = { 16 },
    want = function(keys, x)
      local y = {}
      for i = 0, 15 do y[keys[i]] = x[i] ^ 2 end
      return y, each(16, function(i) return i end)
    end },

  { "two sorted lists merged, a diagonal a thread", [=[
__device__ int merge_path(const float *a, int na, const float *b, int nb, int diag) {
  int begin = max(0, diag - nb), end = min(diag, na);
  while (begin < end) {
    const int mid = (begin + end) / 2;
    if (a[mid] <= b[diag - 1 - mid]) begin = mid + 1;
    else end = mid;
  }
  return begin;
}
__global__ void merge(const float *a, const float *b, float *out, int na, int nb, int per) {
  const int diag = min((blockIdx.x * blockDim.x + threadIdx.x) * per, na + nb);
  int i = merge_path(a, na, b, nb, diag), j = diag - i;
  #pragma unroll 2
  for (int k = diag; k < min(diag + per, na + nb); ++k) {
    const bool left = j >= nb || (i < na && a[i] <= b[j]);
    out[k] = left ? a[i++] : b[j++];
  }
}]=], block = { 4 }, grid = { 1 }, shape = { 9 }, args = function(t)
      return { t.tensor { -1, 0.25, 0.5, 2, 5 }, t.tensor { -2, 0.3, 1, 7 }, 5, 4, 3 }
    end,
    want = function(a, b)
      local l = {}
      for i = 0, 4 do l[i + 1] = a[i] end
      for i = 0, 3 do l[i + 6] = b[i] end
      table.sort(l)
      return each(9, function(i) return l[i + 1] end)
    end },

  { "squares turned in a warp by three exchanges", [=[
template <int STEP> __device__ __forceinline__ void swap_halves(float (&v)[8], int lane) {
  #pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (k & STEP) continue;
    const bool upper = lane & STEP;
    const float send = upper ? v[k] : v[k + STEP], got = __shfl_xor_sync(0xffffffffu, send, STEP, 8);
    if (upper) v[k] = got;
    else v[k + STEP] = got;
  }
}
__global__ void transpose8(const float4 *__restrict__ x, float4 *__restrict__ y) {
  const int lane = threadIdx.x % 8, at = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
  const float4 lo = x[at], hi = x[at + 1];
  float v[8] = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
  swap_halves<4>(v, lane);
  swap_halves<2>(v, lane);
  swap_halves<1>(v, lane);
  y[at] = make_float4(v[0], v[1], v[2], v[3]);
  y[at + 1] = make_float4(v[4], v[5], v[6], v[7]);
}]=], block = { 16 }, grid = { 1 }, args = function(t) return { t.f { 2, 8, 8 } } end, order = 1,
    want = function(x)
      return each(128, function(e) return x[e - e % 64 + e % 8 * 8 + e % 64 // 8] end)
    end },

  { "the greatest real by compare and swap of its bits", [=[
__device__ float atomic_max(float *address, float value) {
  int *const bits = (int *)address;
  int old = *bits, assumed;
  do {
    assumed = old;
    if (__int_as_float(assumed) >= value) break;
    old = atomicCAS(bits, assumed, __float_as_int(value));
  } while (assumed != old);
  return __int_as_float(old);
}
__global__ void top(const float *x, float *m, int n) {
  const int i = threadIdx.x;
  if (i < n) atomic_max(m, x[i]);
}]=],
    block = { 16 }, grid = { 1 }, inout = { "m" }, single = true,
    refuses = "a loop around atomicCAS",
    args = function(t) return { t.f { 9 }, t.tensor { 0.25 }, 9 } end,
    want = function(x, m, n)
      for i = 0, n - 1 do m[0] = math.max(m[0], x[i]) end
      return m
    end },

  { "keys entered into a table by compare and swap", [=[
constexpr unsigned EMPTY = 0xffffffffu;
__device__ __forceinline__ unsigned mix(unsigned k) { k ^= k >> 16; k *= 0x85ebca6bu; k ^= k >> 13; k *= 0xc2b2ae35u; return k ^ (k >> 16); }
__global__ void insert(const unsigned *keys, const unsigned *empty, unsigned *table, int *count, int cap, int n) {
  __shared__ unsigned s[32];
  for (int j = threadIdx.x; j < cap; j += blockDim.x) s[j] = empty[j];
  __syncthreads();
  if (threadIdx.x < n) {
    unsigned slot = mix(keys[threadIdx.x]) % cap;
    while (true) {
      const unsigned prev = atomicCAS(&s[slot], EMPTY, keys[threadIdx.x]);
      if (prev == EMPTY) { atomicAdd(count, 1); break; }
      if (prev == keys[threadIdx.x]) break;
      slot = (slot + 1) % cap;
    }
  }
  __syncthreads();
  const int used = __syncthreads_count(threadIdx.x < cap && s[threadIdx.x % cap] != EMPTY);
  if (threadIdx.x == 0) {
    unsigned all = 0u;
    for (int j = 0; j < cap; ++j) if (s[j] != EMPTY) all += s[j];
    table[0] = all;
    table[1] = used;
  }
}]=], block = { 32 }, grid = { 1 }, shape = { 2 }, same = true, args = function(t)
      local empty = {}
      for i = 1, 17 do empty[i] = -1 end
      return { t.i { 5, 9, 5, 1000, 77, 9, 123456, 4, 1000, 8, 5, 31 }, t.i(empty), 17, 12 }
    end,
    want = function()
      return { [0] = 5 + 9 + 1000 + 77 + 123456 + 4 + 8 + 31, 8 }, { [0] = 8, 0 }
    end },
}
