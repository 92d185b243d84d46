/*
** What every generated kernel starts with, after tensor/math.h: storage conversions, packs of
** elements that travel in one load or store, division by run-time constants, reductions over
** lanes and blocks. Header-free; compiled with -default-device.
**
** A storage type S is the unsigned integer of the dtype's size; in_<dtype> gives the register
** value of it, out_<dtype> the bits of a register value that is already rounded to the dtype.
*/
#pragma nv_diag_suppress 177    /* no warning about coordinates or pointers that one path does not
                                ** use */
typedef unsigned char s1;
typedef unsigned short s2;
typedef unsigned int s4;
typedef unsigned long long s8;
#define FN __device__ __forceinline__

/* Conversions by the GPU's instructions; they give the same bits as fl_f16_bits and
** fl_f16_value. */
FN s2 out_f16(float x) { s2 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
FN float in_f16(s2 h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
FN s2 out_bf16(float x) { s2 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
FN s2 bits_bf16(float x) { return (s2)(__float_as_uint(x) >> 16); }   /* of a value that bf16 has */
FN float in_bf16(s2 h) { return __uint_as_float((unsigned)h << 16); }
FN float round_f16(float x) { return in_f16(out_f16(x)); }
/* Converts in the upper half of a packed conversion: one instruction, at twice the rate. */
FN float round_bf16(float x) {
  unsigned h;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(h) : "f"(x), "f"(0.0f));
  return __uint_as_float(h);
}
FN double in_f64(s8 b) { return __longlong_as_double((long long)b); }
FN s8 out_f64(double x) { return (s8)__double_as_longlong(x); }
FN float in_f32(s4 b) { return __uint_as_float(b); }
FN s4 out_f32(float x) { return __float_as_uint(x); }
FN int64_t in_i64(s8 b) { return (int64_t)b; }
FN s8 out_i64(int64_t x) { return (s8)x; }
FN int32_t in_i32(s4 b) { return (int32_t)b; }
FN s4 out_i32(int32_t x) { return (s4)x; }
FN int32_t in_i16(s2 b) { return (short)b; }
FN s2 out_i16(int32_t x) { return (s2)x; }
FN int32_t in_i8(s1 b) { return (signed char)b; }
FN s1 out_i8(int32_t x) { return (s1)x; }
FN int32_t in_u8(s1 b) { return b; }
FN s1 out_u8(int32_t x) { return (s1)x; }
FN int32_t in_bool(s1 b) { return b != 0; }
FN s1 out_bool(int32_t x) { return (s1)(x != 0); }

/* fl_max_f32 and fl_min_f32 in one instruction: NaN wins, +0 is above -0. */
FN float max_f32(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
FN float min_f32(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

/* The same for both halves of two words, which are pairs of half floats. */
#define FL_PAIRS(most, type) \
  FN unsigned most##s_##type(unsigned a, unsigned b) { \
    unsigned r; \
    asm(#most ".NaN." #type "x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); \
    return r; \
  }
FL_PAIRS(max, bf16) FL_PAIRS(min, bf16) FL_PAIRS(max, f16) FL_PAIRS(min, f16)

/* V elements of S in registers. It starts as zeros ({}), and each element is set once. */
template <class S, int V> struct pack {
  unsigned w[sizeof(S) * V / 4];
  FN S get(int q) const {
    if constexpr (sizeof(S) == 8) return (S)w[2 * q] | (S)w[2 * q + 1] << 32;
    else if constexpr (sizeof(S) == 4) return (S)w[q];
    else if constexpr (sizeof(S) == 2) return (S)(w[q / 2] >> 16 * (q % 2));
    else return (S)(w[q / 4] >> 8 * (q % 4));
  }
  FN void put(int q, S x) {
    if constexpr (sizeof(S) == 8) { w[2 * q] = (unsigned)x; w[2 * q + 1] = (unsigned)(x >> 32); }
    else if constexpr (sizeof(S) == 4) w[q] = (unsigned)x;
    else if constexpr (sizeof(S) == 2) w[q / 2] |= (unsigned)x << 16 * (q % 2);
    else w[q / 4] |= (unsigned)x << 8 * (q % 4);
  }
};
template <class S> struct pack<S, 1> {
  S x;
  FN S get(int) const { return x; }
  FN void put(int, S y) { x = y; }
};

/* V values rounded, two in one instruction. */
template <int V> FN pack<s2, V> outs_bf16(const float (&x)[V]) {
  pack<s2, V> r;
  for (int i = 0; i < V / 2; i++)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r.w[i]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
  return r;
}
template <int V> FN pack<s2, V> outs_f16(const float (&x)[V]) {
  pack<s2, V> r;
  for (int i = 0; i < V / 2; i++)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r.w[i]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
  return r;
}

/* Loads V elements from p, which is aligned to 16 bytes or the pack's size, whichever is less. */
template <int V, class S> FN pack<S, V> load(const S *p) {
  pack<S, V> r;
  constexpr int bytes = sizeof(S) * V;
  if constexpr (V == 1) r.x = *p;
  else if constexpr (bytes == 4) r.w[0] = *(const unsigned *)p;
  else if constexpr (bytes == 8) {
    const uint2 a = *(const uint2 *)p;
    r.w[0] = a.x; r.w[1] = a.y;
  } else {
#pragma unroll
    for (int i = 0; i < bytes / 16; i++) {
      const uint4 a = ((const uint4 *)p)[i];
      r.w[4 * i] = a.x; r.w[4 * i + 1] = a.y; r.w[4 * i + 2] = a.z; r.w[4 * i + 3] = a.w;
    }
  }
  return r;
}

template <int V, class S> FN void store(S *p, const pack<S, V> &r) {
  constexpr int bytes = sizeof(S) * V;
  if constexpr (V == 1) *p = r.x;
  else if constexpr (bytes == 4) *(unsigned *)p = r.w[0];
  else if constexpr (bytes == 8) *(uint2 *)p = make_uint2(r.w[0], r.w[1]);
  else {
#pragma unroll
    for (int i = 0; i < bytes / 16; i++)
      ((uint4 *)p)[i] = make_uint4(r.w[4 * i], r.w[4 * i + 1], r.w[4 * i + 2], r.w[4 * i + 3]);
  }
}

/* Requests a copy of 'bytes' bytes to 'to', in shared memory. end_ask ends a group of requests;
** wait_ask waits for all groups of this thread but the newest N. Before sm_80 'ask' copies at
** once. */
template <int bytes> FN void ask(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (bytes == 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(at), "l"(from), "r"(4)
                 : "memory");
  else if constexpr (bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(at), "l"(from), "r"(8)
                 : "memory");
  else
#pragma unroll
    for (int i = 0; i < bytes; i += 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :: "r"(at + i), "l"((const char *)from + i), "r"(16) : "memory");
#else
  for (int i = 0; i < bytes / 4; i++) ((unsigned *)to)[i] = ((const unsigned *)from)[i];
#endif
}
FN void end_ask() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> FN void wait_ask() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}

/* Prefetches 'bytes' bytes, a multiple of 16, from 'at', which is aligned to 16 bytes, into the L2
** cache. One thread does it for all. Before sm_90 it does nothing. */
FN void prefetch(const void *at, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(at), "r"(bytes) : "memory");
#endif
}

/* x / d for x < 2^31: m holds the multiplier and, above it, the shift. */
FN unsigned divide(unsigned x, long long m) {
  return (__umulhi(x, (unsigned)m) + x) >> (unsigned)(m >> 32);
}

/* Of all indices out of range a run reports the one with the lowest (site, position), so that the
** report does not depend on the order of threads. The record has eight words, all bits set before
** the run, each site << 48 | position << 8 | one byte of the value: the minimum of each word comes
** from the same index. (Sites have 16 bits; no tensor has 2^40 elements.) The loop keeps the
** callers' text short. */
FN void report(unsigned long long *record, long long site, int64_t where, int64_t given) {
  const unsigned long long at = (unsigned long long)site << 48 | (unsigned long long)where << 8;
#pragma unroll 1
  for (int b = 0; b < 8; b++) atomicMin(record + b, at | ((uint64_t)given >> 8 * b & 255));
}
/* Turns 'given', a 1-based position on an axis of n, into a 0-based one; 0 for one out of range.
** negative: -1 is the last position. ignore: -100 gives 0 and is no fault. fault: the record of
** reports; 0: nothing is reported. */
FN int64_t position(int64_t given, int64_t n, int negative, int ignore, long long fault,
                    long long site, int64_t where) {
  if (ignore && given == -100) return 0;
  const int64_t i = negative && given < 0 ? given + n : (int64_t)((uint64_t)given - 1);
  if (i >= 0 && i < n) return i;
  if (fault) report((unsigned long long *)fault, site, where, given);
  return 0;
}

/* A value and the place it came from; joined by the argmax and argmin structs. */
template <class T> struct placed { T v; long long at; };

template <class A> FN A from_lane(A x, int d) { return __shfl_xor_sync(~0u, x, d); }
template <class T> FN placed<T> from_lane(placed<T> x, int d) {
  placed<T> r;
  r.v = __shfl_xor_sync(~0u, x.v, d);
  r.at = __shfl_xor_sync(~0u, x.at, d);
  return r;
}

/* Joins the values of groups of T lanes (a power of two <= 32) by the reduction R, a generated
** struct: A is the type of its values, start() the neutral one, join(a, b) joins two. All lanes get
** the result; the lower lane's value is the left operand, so that all compute the same. */
template <class R, int T> FN typename R::A join_lanes(typename R::A x) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int d = 1; d < T; d *= 2) {
    const typename R::A y = from_lane(x, d);
    x = lane & d ? R::join(y, x) : R::join(x, y);
  }
  return x;
}

/* Joins the values of a block of T threads; 'shared' holds T / 32 values and is used by one join at
** a time (the caller puts a barrier between two uses of the same memory). All threads get it. */
template <class R, int T> FN typename R::A join_block(typename R::A x, typename R::A *shared) {
  x = join_lanes<R, 32>(x);
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = shared[threadIdx.x % (T / 32)];
  return join_lanes<R, T / 32>(x);
}

/* Joins the accumulators of a thread, one for each element of a vector. */
template <class R> FN typename R::A join_vector(const typename R::A (&a)[2]) {
  return R::join(a[0], a[1]);
}
template <class R> FN typename R::A join_vector(const typename R::A (&a)[4]) {
  return R::join(R::join(a[0], a[1]), R::join(a[2], a[3]));
}

/* Partial results are kept in scratch, 16 bytes each. */
template <class A> FN A *slot(long long scratch, long long i) { return (A *)(scratch + i * 16); }

/* A block of T threads joins the m partial results from 'first' on, in the order of a row of m
** elements. */
template <class R, int T>
FN typename R::A join_slots(const typename R::A *first, long long m, typename R::A *shared) {
  typename R::A a[4];
#pragma unroll
  for (int q = 0; q < 4; q++) a[q] = R::start();
  for (long long e = threadIdx.x * 4; e < m; e += T * 4) {
#pragma unroll
    for (int q = 0; q < 4; q++)
      if (e + q < m) a[q] = R::join(a[q], *slot<const typename R::A>((long long)first, e + q));
  }
  return join_block<R, T>(join_vector<R>(a), shared);
}

/* Joins the results of two chunks, of which each of the T threads of a block holds a part, b[0] and
** b[1], in the order of join_slots; 'shared' holds T / 16 values. */
template <class R, int T>
FN typename R::A join_two(const typename R::A (&b)[2], typename R::A *shared) {
  typename R::A a[4];
  for (int i = 0; i < 2; i++) a[i] = join_lanes<R, 32>(b[i]);
  if ((threadIdx.x & 31) == 0)
    for (int i = 0; i < 2; i++) shared[i * (T / 32) + threadIdx.x / 32] = a[i];
  __syncthreads();
  for (int i = 0; i < 4; i++) {
    if (i < 2) a[i] = join_lanes<R, T / 32>(shared[i * (T / 32) + threadIdx.x % (T / 32)]);
    a[i] = i < 2 ? R::join(R::start(), a[i]) : R::start();
  }
  return R::join(join_vector<R>(a), R::start());
}

/* The same of the threads' accumulators: a[0] and a[1] of the first chunk, a[2] and a[3] of the
** other. */
template <class R, int T>
FN typename R::A join_parts(const typename R::A (&a)[4], typename R::A *shared) {
  const typename R::A b[2] = { R::join(a[0], a[1]), R::join(a[2], a[3]) };
  return join_two<R, T>(b, shared);
}

/* Each thread holds V of the 64 columns of one of 16 partial results; thread c < 64 gets column c:
** partial results 8 apart are joined first, then 4, 2 and 1 apart. 'space' is free again on
** return. */
template <class R, int V>
FN typename R::A join_columns(const typename R::A (&a)[V], s8 *space) {
  typename R::A (*const shared)[64] = (typename R::A (*)[64])space;
  const int x = threadIdx.x % (64 / V) * V, y = threadIdx.x / (64 / V), c = threadIdx.x;
#pragma unroll
  for (int q = 0; q < V; q++) shared[y][x + q] = a[q];
  __syncthreads();
  typename R::A l[8] = {};
  if (c < 64) {
#pragma unroll
    for (int i = 0; i < 8; i++) l[i] = R::join(shared[i][c], shared[i + 8][c]);
#pragma unroll
    for (int s = 4; s > 0; s /= 2) {
#pragma unroll
      for (int i = 0; i < s; i++) l[i] = R::join(l[i], l[i + s]);
    }
  }
  __syncthreads();
  return l[0];
}

FN float in_part(s4 x) { return in_f32(x); }
FN double in_part(s8 x) { return in_f64(x); }
/* Joins P partial results of a chunk, of V neighbouring columns each, first those P / 2 apart, then
** P / 4 and so on; and joins a[], of earlier chunks, with the result. step: elements from one
** partial result to the next. */
template <class R, int P, int V, class S>
FN void join_parts_of(typename R::A *a, const S *from, long long step) {
  typename R::A l[P][V];
#pragma unroll
  for (int i = 0; i < P; i++) {
    const pack<S, V> x = load<V>(from + i * step);
#pragma unroll
    for (int q = 0; q < V; q++) l[i][q] = in_part(x.get(q));
  }
#pragma unroll
  for (int q = 0; q < V; q++) {
#pragma unroll
    for (int s = P / 2; s > 0; s /= 2) {
#pragma unroll
      for (int i = 0; i < s; i++) l[i][q] = R::join(l[i][q], l[i + s][q]);
    }
    a[q] = R::join(a[q], l[0][q]);
  }
}

/* The parameter of a launch over many instances of one kernel; see fl_text_multi. */
struct batch { const long long *table; const int2 *chunk; const long long *scalars; };

/* True in the block that is the last of 'n' to arrive; the counter is 0 again after it. What the
** other blocks wrote before is then visible. */
FN bool arrive_last(unsigned *counter, unsigned n) {
  __shared__ unsigned last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) == n - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}
