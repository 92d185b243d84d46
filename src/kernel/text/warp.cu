/*
** Sums to which the lanes of a warp add together (ad/ad_lanes.c): v[k] is added to base[to + at[k]]
** for K (1, 2, 4, 8) sums. Embedded as text.
*/

/* Returns at[k], by selects, so that 'at' can be in registers. K is a power of two. */
template <int K> FL_FN int fl_pick(const int (&at)[K], int k) {
  int a[K];
  #pragma unroll
  for (int i = 0; i < K; i++) a[i] = at[i];
  #pragma unroll
  for (int m = K / 2; m > 0; m /= 2) {
    #pragma unroll
    for (int i = 0; i < m; i++) a[i] = k & m ? a[i + m] : a[i];
  }
  return a[0];
}

/* Sums v over 32 lanes by halves: each gives its partner half of the sums it still has, and takes
** the partner's part of the others, until each has one; then those with the same sum add theirs.
** Lanes k * 32 / K to (k + 1) * 32 / K - 1 return the sum of v[k]. */
template <int K, class T> FL_FN T fl_halve(T (&v)[K]) {
  const int n = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, lane = n % 32;
  #pragma unroll
  for (int m = K / 2, d = 16; m > 0; m /= 2, d /= 2) {
    #pragma unroll
    for (int k = 0; k < m; k++) {
      const T low = v[k], high = v[k + m];
      const bool up = lane & d;
      v[k] = (up ? high : low) + __shfl_xor_sync(~0u, up ? low : high, d);
    }
  }
  #pragma unroll
  for (int d = 16 / K; d > 0; d /= 2) v[0] += __shfl_xor_sync(~0u, v[0], d);
  return v[0];
}

/* ---- lanes that may have gone different ways ---- */

/* A lane's state. to, v: what the next call of fl_warp_adds adds. The lane keeps the sum 'kept',
** which fl_warp_end adds to *p; p NULL: it keeps none. n (with HOLD): the calls so far of which
** lanes have kept the sums. */
template <class T, int K> struct fl_held { long long to; T v[K], *p, kept; unsigned n; };
template <class T, int K> FL_FN void fl_warp_begin(fl_held<T, K> &h) {
  #pragma unroll
  for (int k = 0; k < K; k++) h.v[k] = 0;
}
template <class T, int K> FL_FN void fl_warp_end(fl_held<T, K> &h) {
  if (h.p && h.kept != 0) atomicAdd(h.p, h.kept);
  h.p = 0;
}

/* Adds the values of the lanes 'some', those that do not add only 0. If they have the 'same'
** elements, the values are summed first: of pairs of neighbours in 'some', of pairs of these, and
** so on; the lowest lane adds the sums. */
template <int K, class T>
FL_FN void fl_warp_some(unsigned some, int same, T *base, const int (&at)[K], fl_held<T, K> &h) {
  const unsigned n = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned lane = n % 32;
  unsigned rest = same ? some & (~1u << lane) : 0, rank = __popc(some & ((1u << lane) - 1));
  while (__any_sync(some, rest)) {
    const int next = __ffs(rest);
    #pragma unroll
    for (int k = 0; k < K; k++) {
      const T w = __shfl_sync(some, h.v[k], next ? next - 1 : lane);
      if (next) h.v[k] += w;
    }
    rest &= __ballot_sync(some, !(rank & 1));
    rank >>= 1;
  }
  if (same && lane != __ffs(some) - 1) return;
  #pragma unroll
  for (int k = 0; k < K; k++) if (h.v[k] != 0) atomicAdd(base + h.to + at[k], h.v[k]);
}

/* Lanes that have the same elements (with HOLD: those of them that do not add 0) are summed first:
** by fl_halve if all 32 are there and more than four do not add 0, else by fl_warp_some. With HOLD
** one of the lanes to which fl_halve gives a sum keeps it, in each call another one, so that
** fl_warp_end adds 32 sums at once. Lanes that have made different numbers of calls (in different
** rounds of an outer loop) would choose different lanes, and use fl_warp_some. id: a number for the
** call; a compiler may merge calls with different 'at'. S: int if the array is in shared memory,
** which has less than 2^16 elements, else long long. */
template <class S, bool HOLD, int K, class T>
FL_FN void fl_warp_adds(unsigned id, T *base, const int (&at)[K], fl_held<T, K> &h) {
  const unsigned n = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned lane = n % 32, each = 32 / K, here = __activemask();
  const unsigned turn = HOLD ? h.n % each : 0;
  bool any = false;
  #pragma unroll
  for (int k = 0; k < K; k++) any |= h.v[k] != 0;
  const unsigned some = __ballot_sync(here, any);
  if (!some) return;
  const S what = (S)((unsigned long long)h.to << 15 | id % 1024 << 5 | turn);
  S first = what;
  int same;
  if (HOLD) {
    first = __shfl_sync(here, what, __ffs(some) - 1);
    same = __all_sync(here, any ? what == first : ((what ^ first) & 32767) == 0);
  } else __match_all_sync(here, what, &same);
  if (!same || here != ~0u || __popc(some) <= 4) {
    if (any) fl_warp_some(some, same, base, at, h);
    return;
  }
  h.v[0] = fl_halve(h.v);
  if (HOLD) h.n++;
  if (lane % each == turn) {
    h.p = base + (first >> 15) + fl_pick(at, lane / each);
    h.kept = h.v[0];
  }
  if (!HOLD || turn == each - 1) fl_warp_end(h);
}

/* The greatest k of the lanes that are there; before compute capability 8.0 the lane's own k. */
FL_FN int fl_warp_most(int k) {
#if __CUDA_ARCH__ >= 800
  k = __reduce_max_sync(__activemask(), k);
#endif
  return k;
}
FL_FN long long fl_warp_most(long long k) {
#if __CUDA_ARCH__ >= 800
  const unsigned here = __activemask();
  const int high = __reduce_max_sync(here, (int)(k >> 32));
  const unsigned low = (int)(k >> 32) == high ? (unsigned)k : 0;
  k = (long long)high << 32 | __reduce_max_sync(here, low);
#endif
  return k;
}

/* ---- all threads of a block, in step ---- */

/* What R calls (rounds) add waits in b, and is summed over the lanes at once. to: where the lane's
** sum goes; p, kept: a sum that it keeps; n: calls so far. */
template <class T, int K, int R> struct fl_steps { T b[R * K], *to, *p, kept; unsigned n; };
template <class T> FL_FN void fl_step_put(T *&p, T v) {
  if (p && v != 0) atomicAdd(p, v);
  p = 0;
}

/* Each sum is in several lanes; one of them keeps it, in each call another one. When all lanes keep
** one, they are added to memory at once. */
template <class T, int K, int R> FL_FN void fl_step_sum(fl_steps<T, K, R> &h) {
  const int each = 32 / (R * K), turn = (h.n - 1) / R % each;
  const int n = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const T sum = fl_halve(h.b);
  if (n % 32 % each == turn) { h.p = h.to; h.kept = sum; }
  if (turn == each - 1) fl_step_put(h.p, h.kept);
}

/* Has the warp 32 lanes? The last one of a block may have less. */
FL_FN bool fl_step_whole() {
  const unsigned n = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  return (n | 31) < blockDim.x * blockDim.y * blockDim.z;
}

/* All lanes of a whole warp make the call, with the same 'to': nothing is compared. */
template <class T, int K, int R>
FL_FN void fl_step_adds(T *to, const int (&at)[K], T (&v)[K], fl_steps<T, K, R> &h) {
  const int n = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int mine = n % 32 / (32 / (R * K)), turn = h.n++ % R;
  if (mine / K == turn) h.to = to + fl_pick(at, mine % K);
  #pragma unroll
  for (int w = 0; w < R * K; w++) h.b[w] = w / K == turn ? v[w % K] : h.b[w];
  if (turn == R - 1) fl_step_sum(h);
}

/* Adds what still waits or is kept. */
template <class T, int K, int R> FL_FN void fl_step_end(fl_steps<T, K, R> &h) {
  const int turn = h.n % R;
  #pragma unroll
  for (int w = K; w < R * K; w++) h.b[w] = w / K < turn ? h.b[w] : 0;
  if (turn) fl_step_sum(h);
  fl_step_put(h.p, h.kept);
}
