/*
** Fragments of nvcuda::wmma: "wmma::name" is fl_wmma_name (library.c). Lane l of the warp has, of
** an M x K matrix A, a part of row l % M; of a K x N matrix B, a part of row l % K; of an M x N
** sum eight columns of row l % M. In mma_sync a row of A comes from the lanes that share it, and
** rows of B from each lane l ^ d in turn, so gradients are exchanged the same way. Sums are of
** type float (int for integers), in the order of d. As on a device, fragments of halves have 16
** elements: where these are more than a lane's part, they repeat it, and products use the first.
*/
struct fl_wmma_matrix_a {};
struct fl_wmma_matrix_b {};
struct fl_wmma_accumulator {};
struct fl_wmma_row_major {};
struct fl_wmma_col_major {};
struct fl_wmma_no_layout {};
enum fl_wmma_layout_t { fl_wmma_mem_row_major, fl_wmma_mem_col_major };

template <class L> struct fl_wmma_columns { static constexpr bool known = false, is = false; };
template <> struct fl_wmma_columns<fl_wmma_row_major> {
  static constexpr bool known = true, is = false;
};
template <> struct fl_wmma_columns<fl_wmma_col_major> {
  static constexpr bool known = true, is = true;
};
struct fl_wmma_precision { struct tf32 {}; };
/* The type of a matrix's elements in memory, and the least number of elements of a fragment; 0:
** matrices have no such type. */
template <class T> struct fl_wmma_of { typedef T type; static constexpr int least = 0; };
#define OF(T, TYPE, N) \
  template <> struct fl_wmma_of<T> { typedef TYPE type; static constexpr int least = N; };
OF(__half, __half, 16)
OF(__nv_bfloat16, __nv_bfloat16, 1)
OF(signed char, signed char, 1)
OF(unsigned char, unsigned char, 1)
OF(fl_wmma_precision::tf32, float, 1)
#undef OF
/* x rounded to 11 bits, ties to even. */
__device__ float fl_wmma_bits(float x) {
  const float y = __fmul_rn(x, 8193.f);
  return __fsub_rn(y, __fsub_rn(y, x));
}
/* x rounded to 11 bits, ties away from zero: a tie is as far from the next such number as from the
   one that ties to even chose. */
__device__ float fl_wmma___float_to_tf32(float x) {
  if (!(fabsf(x) < INFINITY)) return x;
  const float large = fabsf(x) < 1e34f ? 1.f : 8192.f, v = x / large;
  const float r = fl_wmma_bits(v), d = __fsub_rn(v, r), next = __fadd_rn(v, d);
  return ((v > 0 ? d > 0 : d < 0) && fl_wmma_bits(next) == next ? next : r) * large;
}
template <class T> struct fl_wmma_sum { typedef float type; };
template <> struct fl_wmma_sum<int> { typedef int type; };

/* Element e of lane l is in row row(l, e) and column column(l, e). */
template <class U, int M, int N, int K> struct fl_wmma_place {
  static constexpr int own = M * K / 32;
  __device__ static int row(int l, int e) { return l % M; }
  __device__ static int column(int l, int e) { return l / M * own + e; }
};
template <int M, int N, int K> struct fl_wmma_place<fl_wmma_matrix_b, M, N, K> {
  static constexpr int own = K * N / 32;
  __device__ static int row(int l, int e) { return l % K; }
  __device__ static int column(int l, int e) { return l / K * own + e; }
};
template <int M, int N, int K> struct fl_wmma_place<fl_wmma_accumulator, M, N, K> {
  static constexpr int own = M * N / 32;
  __device__ static int row(int l, int e) { return l % M; }
  __device__ static int column(int l, int e) { return l / M * own + e; }
};

template <class U, int M, int N, int K, class T, class L = fl_wmma_no_layout>
struct fl_wmma_fragment {
  typedef T element_type;
  typedef typename fl_wmma_of<T>::type storage_element_type;
  static constexpr int fl_own = fl_wmma_place<U, M, N, K>::own;
  static constexpr int num_elements = fl_own > fl_wmma_of<T>::least ? fl_own
                                                                    : fl_wmma_of<T>::least;
  static constexpr int num_storage_elements = num_elements;
  typename fl_wmma_of<T>::type x[num_elements];
};
template <int M, int N, int K, class T>
struct fl_wmma_fragment<fl_wmma_accumulator, M, N, K, T, fl_wmma_no_layout> {
  typedef T element_type;
  typedef T storage_element_type;
  static constexpr int num_elements = 8;
  static constexpr int num_storage_elements = 8;
  T x[8];
};

template <class U, int M, int N, int K, class T, class L, class V>
__device__ void fl_wmma_fill_fragment(fl_wmma_fragment<U, M, N, K, T, L> &f, const V &v) {
  static_assert(M * N == 256 && (K == 16 || (K == 8 && M == 16)),
                "fragments are of 16x16x16, 32x8x16, 8x32x16 or 16x16x8 (TF32)");
  for (int e = 0; e < f.num_elements; ++e) f.x[e] = v;
}

template <class U, int M, int N, int K, class T, class L, class V>
__device__ void fl_wmma_load_matrix_sync(fl_wmma_fragment<U, M, N, K, T, L> &f, const V *p,
                                         unsigned ldm) {
  typedef fl_wmma_place<U, M, N, K> P;
  static_assert(M * N == 256 && (K == 16 || (K == 8 && M == 16)),
                "fragments are of 16x16x16, 32x8x16, 8x32x16 or 16x16x8 (TF32)");
  static_assert(fl_wmma_of<T>::least > 0, "matrices are of halves, bfloat16, TF32 or bytes");
  static_assert(fl_wmma_columns<L>::known, "row_major or col_major is missing");
  const int l = (int)(fl_thread() & 31u);
  __syncwarp();
  for (int e = 0; e < f.num_elements; ++e) {
    const int r = P::row(l, e % P::own), c = P::column(l, e % P::own);
    f.x[e] = p[fl_wmma_columns<L>::is ? c * (int)ldm + r : r * (int)ldm + c];
  }
}
template <int M, int N, int K, class T>
__device__ void fl_wmma_load_matrix_sync(
    fl_wmma_fragment<fl_wmma_accumulator, M, N, K, T, fl_wmma_no_layout> &f, const T *p,
    unsigned ldm, fl_wmma_layout_t layout) {
  const int l = (int)(fl_thread() & 31u);
  __syncwarp();
  for (int e = 0; e < 8; ++e) {
    const int r = l % M, c = l / M * 8 + e;
    f.x[e] = p[layout == fl_wmma_mem_col_major ? c * (int)ldm + r : r * (int)ldm + c];
  }
}
template <int M, int N, int K, class T>
__device__ void fl_wmma_store_matrix_sync(
    T *p, const fl_wmma_fragment<fl_wmma_accumulator, M, N, K, T, fl_wmma_no_layout> &f,
    unsigned ldm, fl_wmma_layout_t layout) {
  const int l = (int)(fl_thread() & 31u);
  __syncwarp();
  for (int e = 0; e < 8; ++e) {
    const int r = l % M, c = l / M * 8 + e;
    p[layout == fl_wmma_mem_col_major ? c * (int)ldm + r : r * (int)ldm + c] = f.x[e];
  }
}

template <int M, int N, int K, class A, class LA, class LB, class C, class D>
__device__ void fl_wmma_mma_sync(
    fl_wmma_fragment<fl_wmma_accumulator, M, N, K, D, fl_wmma_no_layout> &d,
    const fl_wmma_fragment<fl_wmma_matrix_a, M, N, K, A, LA> &a,
    const fl_wmma_fragment<fl_wmma_matrix_b, M, N, K, A, LB> &b,
    const fl_wmma_fragment<fl_wmma_accumulator, M, N, K, C, fl_wmma_no_layout> &c) {
  typedef typename fl_wmma_sum<C>::type S;
  const int l = (int)(fl_thread() & 31u);
  S row[K], s[8];
  for (int e = 0; e < 8; ++e) s[e] = (S)c.x[e];
  for (int o = 0; o < 32; o += M)
    for (int e = 0; e < M * K / 32; ++e)
      row[(l ^ o) / M * (M * K / 32) + e] = __shfl_xor_sync(0xffffffffu, (S)a.x[e], o);
  for (int o = 0; o < (N == 8 ? 32 : 16); ++o) {
    const int from = l ^ o;
    const S k = row[from & (K - 1)];
    for (int j = 0; j < (N == 8 || K == 8 ? 4 : 8); ++j)
      s[(N == 8 ? from / 16 * 4 : K == 8 ? (from & 8) / 2 : 0) + j] +=
          k * __shfl_xor_sync(0xffffffffu, (S)b.x[(N == 32 ? from & 8 : 0) + j], o);
  }
  for (int e = 0; e < 8; ++e) d.x[e] = (D)s[e];
}
