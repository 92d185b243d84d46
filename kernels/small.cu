/*
** Small f32 products, C[b] = A[b] B[b] with any strides, C row-major: a library's kernels for large
** products take longer to start and to end than these take in all. A block of 8 warps makes a tile
** of C of 16 x 16. k goes through shared memory 64 at a time; of each 64 warp w takes 8w to 8w + 7,
** with the whole tile in its registers, and at the end the sums of the warps are added, w
** ascending. So the order of a sum follows from k alone. Bytes: A is read n / 16 times, B m / 16
** times, from the second-level cache for the most part.
*/
#define FN __device__ __forceinline__

struct small_args {                     /* as in src/cuda/library/small.c */
  long long m, n, k, rank;
  long long size[6], as[6], bs[6], cs[6];
  long long am, ak, bk, bn;
  const float *a, *b, *add;             /* add: as c, what is added to the product; or NULL */
  float *c;
};

constexpr int TILE = 16, DEPTH = 64, STAGES = 4;
constexpr int ROW = DEPTH + 4, PART = TILE * ROW;      /* rows of a tile lie in different banks */

FN void copy4(float *to, const float *from, bool real) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(real ? 4 : 0)
               : "memory");
#else
  *to = real ? *from : 0.0f;
#endif
}
FN void end_stage() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits until all but the newest STAGES - 2 stages have arrived, for all threads. */
FN void wait_stage() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
#endif
  __syncthreads();
}

/* Where a thread reads its elements of a tile of 16 rows and 64 steps of k, and where it puts them.
** Neighbouring threads read along the axis whose stride is 1. */
struct source {
  const float *base, *at;
  /* distance to the thread's next element; to the next 64 steps of k */
  long long step, stage;
  /* rows, depth: how many rows, and steps of k, are left from the thread's first one on */
  int rows, depth, to;
  bool along;
  FN source(const float *x, long long sr, long long sk, long long n, long long count)
      : base(x), along(sk == 1) {
    const int t = threadIdx.x;
    const int row = along ? t / DEPTH : t % TILE, k = along ? t % DEPTH : t / TILE;
    rows = (int)(n < TILE ? n : TILE) - row;
    depth = (int)count - k;
    at = x + row * sr + k * sk;
    step = along ? 256 / DEPTH * sr : 256 / TILE * sk;
    stage = DEPTH * sk;
    to = row * ROW + k;
  }
  /* Copies the thread's elements of the next 64 steps of k to shared memory, with zeros beyond the
  ** matrix. */
  FN void fetch(float *shared) {
#pragma unroll
    for (int i = 0; i < TILE * DEPTH / 256; i++) {
      const int r = along ? 256 / DEPTH * i : 0, d = along ? 0 : 256 / TILE * i;
      const bool real = r < rows && d < depth;
      copy4(shared + to + r * ROW + d, real ? at + i * step : base, real);
    }
    at += stage;
    depth -= DEPTH;
  }
};

FN float4 four(const float *x) { return *(const float4 *)x; }

/* Adds the eight steps of k of this warp to the tile's sums: rows lane / 4 + 8i, columns lane % 4 +
** 4j. */
FN void multiply(float (&sum)[TILE / 8][TILE / 4], const float *a, const float *b) {
  const int lane = threadIdx.x % 32, k0 = threadIdx.x / 32 * 8;
#pragma unroll
  for (int k = k0; k < k0 + 8; k += 4) {
    float4 x[TILE / 8], y[TILE / 4];
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) x[i] = four(a + (lane / 4 + 8 * i) * ROW + k);
#pragma unroll
    for (int j = 0; j < TILE / 4; j++) y[j] = four(b + (lane % 4 + 4 * j) * ROW + k);
#pragma unroll
    for (int i = 0; i < TILE / 8; i++)
#pragma unroll
      for (int j = 0; j < TILE / 4; j++) {
        float s = sum[i][j];
        s = __fmaf_rn(x[i].x, y[j].x, s);
        s = __fmaf_rn(x[i].y, y[j].y, s);
        s = __fmaf_rn(x[i].z, y[j].z, s);
        sum[i][j] = __fmaf_rn(x[i].w, y[j].w, s);
      }
  }
}

/* Adds the sums of all warps, and 'add' unless it is NULL, and stores them in c. */
FN void finish(float *shared, const float (&sum)[TILE / 8][TILE / 4], const float *add, float *c,
               long long step, long long rows, long long columns) {
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < TILE / 8; i++)
#pragma unroll
    for (int j = 0; j < TILE / 4; j++)
      shared[(warp * TILE + lane / 4 + 8 * i) * TILE + lane % 4 + 4 * j] = sum[i][j];
  __syncthreads();
  float s = shared[t];
#pragma unroll
  for (int w = 1; w < 8; w++) s = __fadd_rn(s, shared[w * TILE * TILE + t]);
  const long long at = t / TILE * step + t % TILE;
  if (t / TILE < rows && t % TILE < columns) c[at] = add ? __fadd_rn(s, add[at]) : s;
}

FN long long place(long long i, const small_args &p, const long long *stride) {
  long long at = 0;
  for (int d = (int)p.rank - 1; d >= 0; d--) {
    at += i % p.size[d] * stride[d];
    i /= p.size[d];
  }
  return at;
}

extern "C" __global__ void __launch_bounds__(256) small(const __grid_constant__ small_args p) {
  __shared__ __align__(16) float shared[STAGES * 2 * PART];
  const long long tm = (p.m + TILE - 1) / TILE, tn = (p.n + TILE - 1) / TILE;
  const long long batch = blockIdx.x / (tm * tn), tile = blockIdx.x % (tm * tn);
  const long long m0 = tile / tn * TILE, n0 = tile % tn * TILE;
  const int stages = (int)((p.k + DEPTH - 1) / DEPTH);
  source a(p.a + place(batch, p, p.as) + m0 * p.am, p.am, p.ak, p.m - m0, p.k);
  source b(p.b + place(batch, p, p.bs) + n0 * p.bn, p.bn, p.bk, p.n - n0, p.k);
  float sum[TILE / 8][TILE / 4] = {};
  auto request = [&](int s) {
    float *to = shared + s % STAGES * 2 * PART;
    if (s < stages) {
      a.fetch(to);
      b.fetch(to + PART);
    }
    end_stage();
  };
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) request(s);
#pragma unroll 1
  for (int s = 0; s < stages; s++) {
    const float *from = shared + s % STAGES * 2 * PART;
    wait_stage();
    /* requests a stage into the space of the previous one, which all warps have read by now */
    request(s + STAGES - 1);
    multiply(sum, from, from + PART);
  }
  const long long at = place(batch, p, p.cs) + m0 * p.n + n0;
  finish(shared, sum, p.add ? p.add + at : p.add, p.c + at, p.n, p.m - m0, p.n - n0);
}
