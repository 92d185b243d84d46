/*
** Sums, scans, loads and stores of a block or a warp as CUB has them: "cub::Name" is fl_cub_Name
** (library.c). Values are combined in the order of the threads, so an operator need not commute.
*/
enum fl_cub_BlockReduceAlgorithm {
  fl_cub_BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, fl_cub_BLOCK_REDUCE_RAKING,
  fl_cub_BLOCK_REDUCE_WARP_REDUCTIONS
};
enum fl_cub_BlockScanAlgorithm {
  fl_cub_BLOCK_SCAN_RAKING, fl_cub_BLOCK_SCAN_RAKING_MEMOIZE, fl_cub_BLOCK_SCAN_WARP_SCANS
};
enum fl_cub_BlockLoadAlgorithm {
  fl_cub_BLOCK_LOAD_DIRECT, fl_cub_BLOCK_LOAD_STRIPED, fl_cub_BLOCK_LOAD_VECTORIZE,
  fl_cub_BLOCK_LOAD_TRANSPOSE, fl_cub_BLOCK_LOAD_WARP_TRANSPOSE
};
enum fl_cub_BlockStoreAlgorithm {
  fl_cub_BLOCK_STORE_DIRECT, fl_cub_BLOCK_STORE_STRIPED, fl_cub_BLOCK_STORE_VECTORIZE,
  fl_cub_BLOCK_STORE_TRANSPOSE, fl_cub_BLOCK_STORE_WARP_TRANSPOSE
};
#define CHOICE(NAME, E) \
  struct fl_cub_##NAME { template <class T> __device__ T operator()(T a, T b) const { return E; } };
CHOICE(Sum, a + b)
CHOICE(Max, a < b ? b : a)
CHOICE(Min, b < a ? b : a)
CHOICE(ArgMax, a.value < b.value || (a.value == b.value && b.key < a.key) ? b : a)
CHOICE(ArgMin, b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a)
template <class K, class V> struct fl_cub_KeyValuePair {
  K key;
  V value;
  fl_cub_KeyValuePair() = default;
  __device__ fl_cub_KeyValuePair(const K &k, const V &v) : key(k), value(v) {}
};
struct fl_cub_NullStorage { int none; };

/* Shared memory of BlockReduce and BlockScan: one value of each thread, then one of each of threads
** 0 to 31, each of which combines the values of SHARE threads. */
template <class T, int N> struct fl_cub_Parts {
  T at[N + 32];
  static constexpr int SHARE = (N + 31) / 32;
};

template <class T, int X, int A = 0, int Y = 1, int Z = 1, int P = 0> struct fl_cub_BlockReduce {
  using TempStorage = fl_cub_Parts<T, X * Y * Z>;
  T *fl_at;
  __device__ fl_cub_BlockReduce(TempStorage &temp) : fl_at(temp.at) {}
  template <class F> __device__ T Reduce(T v, F f, int n) {
    const int t = fl_thread(), low = t * TempStorage::SHARE;
    fl_at[t] = v;
    __syncthreads();
    T r = v;
    if (t < 32 && low < n) {
      for (int k = low; k < low + TempStorage::SHARE && k < n; ++k)
        r = k == low ? fl_at[k] : f(r, fl_at[k]);
      fl_at[X * Y * Z + t] = r;
    }
    __syncthreads();
    if (t == 0)
      for (int k = 1; k < 32 && k * TempStorage::SHARE < n; ++k) r = f(r, fl_at[X * Y * Z + k]);
    return r;
  }
  template <class F> __device__ T Reduce(T v, F f) { return Reduce(v, f, X * Y * Z); }
  __device__ T Sum(T v) { return Reduce(v, fl_cub_Sum(), X * Y * Z); }
  __device__ T Sum(T v, int n) { return Reduce(v, fl_cub_Sum(), n); }
  template <int I, class F> __device__ T Reduce(T (&v)[I], F f) {
    T r = v[0];
    for (int k = 1; k < I; ++k) r = f(r, v[k]);
    return Reduce(r, f, X * Y * Z);
  }
  template <int I> __device__ T Sum(T (&v)[I]) { return Reduce(v, fl_cub_Sum()); }
};

template <class T, int X, int A = 0, int Y = 1, int Z = 1, int P = 0> struct fl_cub_BlockScan {
  using TempStorage = fl_cub_Parts<T, X * Y * Z>;
  T *fl_at;
  __device__ fl_cub_BlockScan(TempStorage &temp) : fl_at(temp.at) {}
  /* The values of all threads before this one, combined; in thread 0 v itself, which callers do not
  ** use. total: the values of all threads, combined. */
  template <class F> __device__ T fl_before(T v, F f, T &total) {
    constexpr int N = X * Y * Z, SHARE = TempStorage::SHARE;
    const int t = fl_thread(), low = t * SHARE, own = t / SHARE;
    fl_at[t] = v;
    __syncthreads();
    if (t < 32 && low < N) {
      T r = fl_at[low];
      for (int k = low + 1; k < low + SHARE && k < N; ++k) r = f(r, fl_at[k]);
      fl_at[N + t] = r;
    }
    __syncthreads();
    T before = v, all = fl_at[N];
    for (int k = 0; k < own; ++k) before = k == 0 ? fl_at[N] : f(before, fl_at[N + k]);
    for (int k = own * SHARE; k < t; ++k) before = k == 0 ? fl_at[0] : f(before, fl_at[k]);
    for (int k = 1; k * SHARE < N; ++k) all = f(all, fl_at[N + k]);
    total = all;
    return before;
  }
  template <class F> __device__ void InclusiveScan(T v, T &out, F f, T &total) {
    const T before = fl_before(v, f, total);
    out = fl_thread() == 0u ? v : f(before, v);
  }
  template <class F> __device__ void ExclusiveScan(T v, T &out, T first, F f, T &total) {
    const T before = fl_before(v, f, total);
    out = fl_thread() == 0u ? first : f(first, before);
  }
  template <class F> __device__ void InclusiveScan(T v, T &out, F f) {
    T total;
    InclusiveScan(v, out, f, total);
  }
  template <class F> __device__ void ExclusiveScan(T v, T &out, T first, F f) {
    T total;
    ExclusiveScan(v, out, first, f, total);
  }
  __device__ void InclusiveSum(T v, T &out) { InclusiveScan(v, out, fl_cub_Sum()); }
  __device__ void InclusiveSum(T v, T &out, T &all) { InclusiveScan(v, out, fl_cub_Sum(), all); }
  __device__ void ExclusiveSum(T v, T &out) { ExclusiveScan(v, out, T(0), fl_cub_Sum()); }
  __device__ void ExclusiveSum(T v, T &out, T &all) {
    ExclusiveScan(v, out, T(0), fl_cub_Sum(), all);
  }
  /* What 'seed', which the first warp calls with the block's sum, gives thread 0. */
  template <class F> __device__ T fl_seed(T all, F &seed) {
    __shared__ T fl_first;
    if (fl_thread() < 32u) {
      const T own = seed(all);
      if (fl_thread() == 0u) fl_first = own;
    }
    __syncthreads();
    const T first = fl_first;
    __syncthreads();
    return first;
  }
  template <class F> __device__ void InclusiveSum(T v, T &out, F &seed) {
    T own, all;
    InclusiveScan(v, own, fl_cub_Sum(), all);
    out = fl_seed(all, seed) + own;
  }
  template <class F> __device__ void ExclusiveSum(T v, T &out, F &seed) {
    T own, all;
    ExclusiveScan(v, own, T(0), fl_cub_Sum(), all);
    out = fl_seed(all, seed) + own;
  }
  template <int I> __device__ void fl_sums(T (&v)[I], T (&out)[I], bool own, T &total) {
    T all = v[0], before;
    for (int k = 1; k < I; ++k) all += v[k];
    ExclusiveSum(all, before, total);
    for (int k = 0; k < I; ++k) {
      const T x = v[k];
      out[k] = own ? before + x : before;
      before += x;
    }
  }
  template <int I> __device__ void InclusiveSum(T (&v)[I], T (&out)[I]) {
    T total;
    fl_sums(v, out, true, total);
  }
  template <int I> __device__ void InclusiveSum(T (&v)[I], T (&out)[I], T &total) {
    fl_sums(v, out, true, total);
  }
  template <int I> __device__ void ExclusiveSum(T (&v)[I], T (&out)[I]) {
    T total;
    fl_sums(v, out, false, total);
  }
  template <int I> __device__ void ExclusiveSum(T (&v)[I], T (&out)[I], T &total) {
    fl_sums(v, out, false, total);
  }
};

/* Groups of W lanes. */
#define POWER_OF_TWO \
  static_assert((W & (W - 1)) == 0, "CUB has groups of 1, 2, 4, 8, 16 or 32 lanes here");
template <class T, int W = 32, int P = 0> struct fl_cub_WarpReduce {
  using TempStorage = fl_cub_NullStorage;
  __device__ fl_cub_WarpReduce(TempStorage &temp) {}
  template <class F> __device__ T Reduce(T v, F f, int n) {
    POWER_OF_TWO
    const unsigned t = fl_thread() & 31u, mask = 0xffffffffu >> (32 - W) << (t & (32 - W));
    for (int o = 1; o < W; o <<= 1) {
      const T u = __shfl_down_sync(mask, v, o, W);
      if ((int)(t & (W - 1)) + o < n) v = f(v, u);
    }
    return v;
  }
  template <class F> __device__ T Reduce(T v, F f) { return Reduce(v, f, W); }
  __device__ T Sum(T v) { return Reduce(v, fl_cub_Sum(), W); }
  __device__ T Sum(T v, int n) { return Reduce(v, fl_cub_Sum(), n); }
  /* The values from this lane to the last one of its segment. flag: a segment begins (head 1), or
  ** ends (0), at this lane. */
  template <class F> __device__ T fl_segment(T v, bool flag, F f, int head) {
    POWER_OF_TWO
    const unsigned t = fl_thread() & 31u, mask = 0xffffffffu >> (32 - W) << (t & (32 - W)),
                   ends = __ballot_sync(mask, flag) >> head >> t;
    const unsigned last = ends ? t + __ffs(ends) - 1 : t | (W - 1);
    for (int o = 1; o < W; o <<= 1) {
      const T u = __shfl_down_sync(mask, v, o, W);
      if (t + o <= last) v = f(v, u);
    }
    return v;
  }
#define SEGMENTED(NAME, HEAD) \
  template <class B> __device__ T NAME##SegmentedSum(T v, B flag) { \
    return fl_segment(v, (bool)flag, fl_cub_Sum(), HEAD); \
  } \
  template <class F, class B> __device__ T NAME##SegmentedReduce(T v, B flag, F f) { \
    return fl_segment(v, (bool)flag, f, HEAD); \
  }
  SEGMENTED(Head, 1) SEGMENTED(Tail, 0)
};
template <class T, int W = 32, int P = 0> struct fl_cub_WarpScan {
  using TempStorage = fl_cub_NullStorage;
  __device__ fl_cub_WarpScan(TempStorage &temp) {}
  template <class F> __device__ void InclusiveScan(T v, T &out, F f) {
    POWER_OF_TWO
    const unsigned t = fl_thread() & 31u, mask = 0xffffffffu >> (32 - W) << (t & (32 - W));
    for (int o = 1; o < W; o <<= 1) {
      const T u = __shfl_up_sync(mask, v, o, W);
      if ((int)(t & (W - 1)) >= o) v = f(u, v);
    }
    out = v;
  }
  __device__ void InclusiveSum(T v, T &out) { InclusiveScan(v, out, fl_cub_Sum()); }
  __device__ void ExclusiveSum(T v, T &out) {
    T all;
    InclusiveScan(v, all, fl_cub_Sum());
    const unsigned t = fl_thread() & 31u, mask = 0xffffffffu >> (32 - W) << (t & (32 - W));
    const T before = __shfl_up_sync(mask, all, 1, W);
    out = (t & (W - 1)) == 0u ? T(0) : before;
  }
};

template <class T, int X, int I, int A = 0, int Y = 1, int Z = 1, int P = 0>
struct fl_cub_BlockLoad {
  using TempStorage = fl_cub_NullStorage;
  __device__ fl_cub_BlockLoad(TempStorage &temp) {}
  __device__ static int fl_place(int k) {
    return A == fl_cub_BLOCK_LOAD_STRIPED ? (int)fl_thread() + k * X * Y * Z
                                          : (int)fl_thread() * I + k;
  }
  template <class U> __device__ void Load(U *from, T (&v)[I]) {
    for (int k = 0; k < I; ++k) v[k] = from[fl_place(k)];
  }
  template <class U> __device__ void Load(U *from, T (&v)[I], int n) {
    for (int k = 0; k < I; ++k)
      if (fl_place(k) < n) v[k] = from[fl_place(k)];
  }
  template <class U, class D> __device__ void Load(U *from, T (&v)[I], int n, D other) {
    for (int k = 0; k < I; ++k) {
      T one = (T)other;
      if (fl_place(k) < n) one = from[fl_place(k)];
      v[k] = one;
    }
  }
};
template <class T, int X, int I, int A = 0, int Y = 1, int Z = 1, int P = 0>
struct fl_cub_BlockStore {
  using TempStorage = fl_cub_NullStorage;
  __device__ fl_cub_BlockStore(TempStorage &temp) {}
  __device__ static int fl_place(int k) {
    return A == fl_cub_BLOCK_STORE_STRIPED ? (int)fl_thread() + k * X * Y * Z
                                           : (int)fl_thread() * I + k;
  }
  template <class U> __device__ void Store(U *to, T (&v)[I]) {
    for (int k = 0; k < I; ++k) to[fl_place(k)] = v[k];
  }
  template <class U> __device__ void Store(U *to, T (&v)[I], int n) {
    for (int k = 0; k < I; ++k)
      if (fl_place(k) < n) to[fl_place(k)] = v[k];
  }
};
