/*
** Accessors of tensors as PyTorch's extensions have them: "torch::name", "at::name", "c10::name"
** and "at::cuda::detail::name" are fl_torch_name (library.c). A view is of contiguous memory: it
** holds the lengths s, t, u, v, w, x of its axes and computes the strides. As a parameter of a
** kernel it is a tensor (spread.c).
*/
#define D __device__
#define F1 s
#define F2 F1, t
#define F3 F2, u
#define F4 F3, v
#define F5 F4, w
#define F6 F5, x
#define S1 s
#define S2 d ? t : s
#define S3 d > 1 ? u : S2
#define S4 d > 2 ? v : S3
#define S5 d > 3 ? w : S4
#define S6 d > 4 ? x : S5
#define P1 1
#define P2 (d < 1 ? t : 1)
#define P3 P2 * (d < 2 ? u : 1)
#define P4 P3 * (d < 3 ? v : 1)
#define P5 P4 * (d < 4 ? w : 1)
#define P6 P5 * (d < 5 ? x : 1)
#define VIEW(N, FIELDS, SIZE, STRIDE, ...) \
  template <class T, class I> struct fl_torch_view<T, N, I> { \
    T *p; \
    I FIELDS; \
    D T *data() const { return p; } \
    D I size(const int d) const { return SIZE; } \
    D I stride(const int d) const { return STRIDE; } \
    D __VA_ARGS__ \
  };
#define INNER(N, STEP, ...) \
  fl_torch_view<T, N, I> operator[](I i) const { return { p + i * (STEP), __VA_ARGS__ }; }
template <class T, int N, class I> struct fl_torch_view {};
VIEW(1, F1, S1, P1, T &operator[](I i) const { return p[i]; })
VIEW(2, F2, S2, P2, INNER(1, t, t))
VIEW(3, F3, S3, P3, INNER(2, t * u, t, u))
VIEW(4, F4, S4, P4, INNER(3, t * u * v, t, u, v))
VIEW(5, F5, S5, P5, INNER(4, t * u * v * w, t, u, v, w))
VIEW(6, F6, S6, P6, INNER(5, t * u * v * w * x, t, u, v, w, x))
template <class T> struct fl_torch_DefaultPtrTraits {};
template <class T> struct fl_torch_RestrictPtrTraits {};
#define CHOICE(X, J) \
  template <class T, int N, template <class> class P = fl_torch_DefaultPtrTraits, class I = J> \
  using fl_torch_##X = fl_torch_view<T, N, I>;
CHOICE(TensorAccessor, long) CHOICE(GenericPackedTensorAccessor, long)
CHOICE(PackedTensorAccessor, long) CHOICE(PackedTensorAccessor64, long)
CHOICE(PackedTensorAccessor32, int)
using fl_torch_Half = __half;
using fl_torch_BFloat16 = __nv_bfloat16;
template <class T, bool B> struct fl_torch_acc { using type = T; };
template <bool B> struct fl_torch_acc<__half, B> { using type = float; };
template <bool B> struct fl_torch_acc<__nv_bfloat16, B> { using type = float; };
template <class T, bool B> using fl_torch_acc_type = typename fl_torch_acc<T, B>::type;
template <class T> using fl_torch_opmath_type = typename fl_torch_acc<T, true>::type;
template <class T, class I> struct fl_torch_TensorInfo {
  T *data;
  I sizes[25], strides[25];
  int dims;
  D bool isContiguous() const { return dims == 1 && strides[0] == 1; }
};
template <class T, class I, int N> struct fl_torch_IndexToOffset {
  static D I get(I i, const fl_torch_TensorInfo<T, I> &a) {
    I at = 0;
    for (int d = (N < 0 ? a.dims : N) - 1; d > 0; d--) {
      at += i % a.sizes[d] * a.strides[d];
      i /= a.sizes[d];
    }
    return at + i * a.strides[0];
  }
};
template <class T, class I> D void fl_torch_fastAtomicAdd(T *p, I i, const I n, T v, bool fast) {
  atomicAdd(p + i, v);
}
template <class T> D T fl_torch_ATenCeilDiv(T a, T b) { return (a + b - 1) / b; }
