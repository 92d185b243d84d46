/*
** The part of CUB that the specs' kernels use, for one-dimensional blocks: threads exchange values
** through arrays in TempStorage, and values are combined in the order of threads.
*/
#pragma once
namespace cub {
struct Sum { template <class T> T operator()(T a, T b) const { return a + b; } };
struct Min { template <class T> T operator()(T a, T b) const { return b < a ? b : a; } };
struct Max { template <class T> T operator()(T a, T b) const { return a < b ? b : a; } };
enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING, BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE
};
enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE
};

/* The values of all N threads of a block (WARP: of a group of N lanes), which each thread can
** read. */
template <class T, int N, bool WARP> struct fake_gathered {
  union TempStorage { T at[N]; char bytes[sizeof(T) * N]; TempStorage() {} };
  TempStorage &s;
  unsigned me;
  fake_gathered(TempStorage &storage) : s(storage), me(fake_m->linear % N) {}
  void wait() {
    if (WARP) __syncwarp(N == 32 ? ~0u : ((1u << N) - 1) << (fake_m->linear & 31) / N * N);
    else __syncthreads();
  }
  void put(T v) { wait(); s.at[me] = v; wait(); }
  template <class F> T fold(F f, unsigned n) {
    T r = s.at[0];
    for (unsigned i = 1; i < n; i++) r = f(r, s.at[i]);
    wait();
    return r;
  }
};
template <class T, int N, bool WARP> struct fake_reduces : fake_gathered<T, N, WARP> {
  typedef fake_gathered<T, N, WARP> base;
  using typename base::TempStorage;
  fake_reduces(TempStorage &s) : base(s) {}
  template <class F> T Reduce(T v, F f, int n = N) { this->put(v); return this->fold(f, n); }
  T Sum(T v, int n = N) { return Reduce(v, cub::Sum(), n); }
  template <int I, class F> T Reduce(T (&v)[I], F f) {
    T r = v[0];
    for (int i = 1; i < I; i++) r = f(r, v[i]);
    return Reduce(r, f);
  }
  template <int I> T Sum(T (&v)[I]) { return Reduce(v, cub::Sum()); }
};
template <class T, int N, BlockReduceAlgorithm A = BLOCK_REDUCE_WARP_REDUCTIONS>
struct BlockReduce : fake_reduces<T, N, false> {
  using fake_reduces<T, N, false>::fake_reduces;
};
template <class T, int N = 32> struct WarpReduce : fake_reduces<T, N, true> {
  using fake_reduces<T, N, true>::fake_reduces;
};
template <class T, int N, bool WARP> struct fake_scans : fake_gathered<T, N, WARP> {
  typedef fake_gathered<T, N, WARP> base;
  using typename base::TempStorage;
  fake_scans(TempStorage &s) : base(s) {}
  template <class F> void InclusiveScan(T v, T &out, F f) {
    this->put(v);
    out = this->fold(f, this->me + 1);
  }
  template <class F> void InclusiveScan(T v, T &out, F f, T &all) {
    InclusiveScan(v, out, f);
    this->put(v);
    all = this->fold(f, N);
  }
  template <class F> void ExclusiveScan(T v, T &out, T first, F f) {
    this->put(v);
    const T before = this->fold(f, this->me ? this->me : 1);
    out = this->me ? f(first, before) : first;
  }
  template <class F> void ExclusiveScan(T v, T &out, T first, F f, T &all) {
    ExclusiveScan(v, out, first, f);
    this->put(v);
    all = this->fold(f, N);
  }
  void InclusiveSum(T v, T &out) { InclusiveScan(v, out, cub::Sum()); }
  void InclusiveSum(T v, T &out, T &all) { InclusiveScan(v, out, cub::Sum(), all); }
  void ExclusiveSum(T v, T &out) { ExclusiveScan(v, out, T(0), cub::Sum()); }
  void ExclusiveSum(T v, T &out, T &all) { ExclusiveScan(v, out, T(0), cub::Sum(), all); }
};
template <class T, int N, BlockScanAlgorithm A = BLOCK_SCAN_RAKING>
struct BlockScan : fake_scans<T, N, false> { using fake_scans<T, N, false>::fake_scans; };
template <class T, int N = 32> struct WarpScan : fake_scans<T, N, true> {
  using fake_scans<T, N, true>::fake_scans;
};
template <class T, int N, int I, BlockLoadAlgorithm A = BLOCK_LOAD_DIRECT> struct BlockLoad {
  struct TempStorage {};
  BlockLoad(TempStorage &) {}
  BlockLoad() {}
  static int fake_place(int i) {
    const int t = (int)fake_m->linear;
    return A == BLOCK_LOAD_STRIPED ? i * N + t : t * I + i;
  }
  template <class P> void Load(P from, T (&v)[I]) {
    for (int i = 0; i < I; i++) v[i] = from[fake_place(i)];
  }
  template <class P> void Load(P from, T (&v)[I], int n) {
    for (int i = 0; i < I; i++) if (fake_place(i) < n) v[i] = from[fake_place(i)];
  }
  template <class P, class D> void Load(P from, T (&v)[I], int n, D other) {
    for (int i = 0; i < I; i++) v[i] = fake_place(i) < n ? from[fake_place(i)] : (T)other;
  }
};
template <class T, int N, int I, BlockStoreAlgorithm A = BLOCK_STORE_DIRECT> struct BlockStore {
  struct TempStorage {};
  BlockStore(TempStorage &) {}
  BlockStore() {}
  static int fake_place(int i) {
    const int t = (int)fake_m->linear;
    return A == BLOCK_STORE_STRIPED ? i * N + t : t * I + i;
  }
  template <class P> void Store(P to, T (&v)[I]) {
    for (int i = 0; i < I; i++) to[fake_place(i)] = v[i];
  }
  template <class P> void Store(P to, T (&v)[I], int n) {
    for (int i = 0; i < I; i++) if (fake_place(i) < n) to[fake_place(i)] = v[i];
  }
};
}
