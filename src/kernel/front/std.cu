/*
** What kernels use of the headers <limits>, <type_traits>, <utility>, <algorithm>, <array>,
** <tuple>, <functional> and <complex>: the text is read by the CPU's front end (library.h) and
** given to NVRTC inside namespace std, with FL_STD_ALL.
*/
#define FL_T1 template <class T>
template <class T, T v> struct integral_constant { static constexpr T value = v; };
template <bool b> using bool_constant = integral_constant<bool, b>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

/* ---- types ---- */
template <class T, class U> struct is_same : false_type {};
FL_T1 struct is_same<T, T> : true_type {};
template <class T, class U> constexpr bool is_same_v = is_same<T, U>::value;
template <bool b, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool b, class T, class F> using conditional_t = typename conditional<b, T, F>::type;
template <bool b, class T = void> struct enable_if {};
FL_T1 struct enable_if<true, T> { using type = T; };
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <class...> using void_t = void;
template <class T, class U> struct common_type { using type = decltype(true ? T(0) : U(0)); };
template <class T, class U> using common_type_t = typename common_type<T, U>::type;
#define FL_TO(name) \
  FL_T1 struct name { using type = T; }; FL_T1 using name##_t = typename name<T>::type;
#define FL_FROM(name, from, to) FL_T1 struct name<from> { using type = to; };
FL_TO(remove_pointer) FL_FROM(remove_pointer, T *, T)
FL_TO(remove_const) FL_FROM(remove_const, const T, T)
FL_TO(remove_volatile) FL_FROM(remove_volatile, volatile T, T)
FL_TO(remove_cv) FL_FROM(remove_cv, const T, T) FL_FROM(remove_cv, volatile T, T)
FL_FROM(remove_cv, const volatile T, T)
FL_TO(remove_reference) FL_FROM(remove_reference, T &, T) FL_FROM(remove_reference, T &&, T)
FL_TO(decay) FL_FROM(decay, const T, T) FL_FROM(decay, T &, T) FL_FROM(decay, const T &, T)
FL_FROM(decay, T &&, T) FL_FROM(decay, volatile T, T) FL_FROM(decay, volatile T &, T)
#define FL_IS(name, is) \
  FL_T1 struct name : bool_constant<is> {}; FL_T1 constexpr bool name##_v = name<T>::value;
#define FL_S(U) is_same<typename remove_cv<T>::type, U>::value
#define FL_U(I) (FL_S(I) || FL_S(unsigned I))
FL_T1 struct is_pointer : false_type {};
FL_T1 struct is_pointer<T *> : true_type {};
FL_T1 struct is_pointer<T *const> : true_type {};
FL_T1 constexpr bool is_pointer_v = is_pointer<T>::value;
FL_T1 struct is_const : false_type {};
FL_T1 struct is_const<const T> : true_type {};
FL_T1 constexpr bool is_const_v = is_const<T>::value;
FL_T1 struct is_reference : false_type {};
FL_T1 struct is_reference<T &> : true_type {};
FL_T1 struct is_reference<T &&> : true_type {};
FL_T1 constexpr bool is_reference_v = is_reference<T>::value;
FL_IS(is_floating_point, (FL_S(float) || FL_S(double)))
FL_IS(is_unsigned,
      (FL_S(bool) || FL_S(unsigned char) || FL_S(unsigned short) || FL_S(unsigned) ||
       FL_S(unsigned long) || FL_S(unsigned long long)))
FL_IS(is_integral,
      (FL_S(bool) || FL_U(char) || FL_S(signed char) || FL_U(short) || FL_U(int) || FL_U(long) ||
       FL_U(long long)))
FL_IS(is_arithmetic, (is_integral<T>::value || is_floating_point<T>::value))
FL_IS(is_signed, (is_arithmetic<T>::value && !is_unsigned<T>::value))
#undef FL_FROM
#define FL_FROM(U) template <> struct make_unsigned<U> { using type = unsigned U; };
FL_TO(make_unsigned) FL_FROM(char) FL_FROM(short) FL_FROM(int) FL_FROM(long) FL_FROM(long long)
template <> struct make_unsigned<signed char> { using type = unsigned char; };

#if defined(FL_STD_ALL) || defined(FL_STD_aligned_storage)
template <unsigned long n, unsigned long a = 8> struct aligned_storage {};
#define FL_ROOM(n, T) template <unsigned long a> struct aligned_storage<n, a> { using type = T; };
FL_ROOM(1, unsigned char) FL_ROOM(2, unsigned short) FL_ROOM(4, unsigned) FL_ROOM(8, uint2)
FL_ROOM(16, uint4)
template <unsigned long n, unsigned long a = 8> using aligned_storage_t =
  typename aligned_storage<n, a>::type;
#endif

/* ---- limits ---- */
#ifdef FL_STD_ALL
#define FL_HUGE __builtin_bit_cast(float, 0x7f800000)
#define FL_NAN __builtin_bit_cast(float, 0x7fc00000)
#else
#define FL_HUGE __builtin_huge_valf()
#define FL_NAN __builtin_nanf("")
#endif
FL_T1 struct numeric_limits { static constexpr bool is_specialized = false; };
FL_T1 struct numeric_limits<const T> : numeric_limits<T> {};
#define FL_GIVES(name, value) static __device__ constexpr FL_N name() { return value; }
#define FL_LIMITS(T, least, low, most, step, figures, huge, nan) \
  template <> struct numeric_limits<T> { \
    using FL_N = T; \
    static constexpr bool is_specialized = true, is_integer = is_integral<T>::value, \
                          is_signed = low < 0; \
    static constexpr int digits = figures; \
    FL_GIVES(min, least) FL_GIVES(lowest, low) FL_GIVES(max, most) FL_GIVES(epsilon, step) \
    FL_GIVES(infinity, huge) FL_GIVES(quiet_NaN, nan) \
  };
#define FL_WHOLE(T, low, most, figures) FL_LIMITS(T, low, low, most, 0, figures, 0, 0)
#define FL_BOTH(T, U, most, figures) \
  FL_WHOLE(T, -most - 1, most, figures) \
  FL_WHOLE(unsigned U, 0, 2 * (unsigned U)most + 1, figures + 1)
FL_LIMITS(float, 1.175494351e-38f, -3.402823466e+38f, 3.402823466e+38f, 1.1920928955078125e-07f, 24,
          FL_HUGE, FL_NAN)
FL_LIMITS(double, 2.2250738585072014e-308, -1.7976931348623157e+308, 1.7976931348623157e+308,
          2.2204460492503131e-16, 53, (double)FL_HUGE, (double)FL_NAN)
FL_WHOLE(bool, false, true, 1)
FL_WHOLE(char, (char(-1) < 0 ? -128 : 0), (char(-1) < 0 ? 127 : 255), (char(-1) < 0 ? 7 : 8))
FL_BOTH(signed char, char, 127, 7) FL_BOTH(short, short, 32767, 15)
FL_BOTH(int, int, 2147483647, 31)
FL_BOTH(long, long, 9223372036854775807l, 63)
FL_BOTH(long long, long long, 9223372036854775807ll, 63)

/* ---- functions, where they are named ---- */
#if defined(FL_STD_ALL) || defined(FL_STD_swap)
FL_T1 __device__ void swap(T &a, T &b) { const T c = a; a = b; b = c; }
#endif
#ifdef FL_STD_move                    /* (NVRTC has these two) */
FL_T1 __device__ constexpr typename remove_reference<T>::type &&move(T &&a) {
  return static_cast<typename remove_reference<T>::type &&>(a);
}
#endif
#ifdef FL_STD_forward
FL_T1 __device__ constexpr T &&forward(typename remove_reference<T>::type &a) {
  return static_cast<T &&>(a);
}
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_clamp)
FL_T1 __device__ constexpr T clamp(T v, T low, T high) {
  return v < low ? low : high < v ? high : v;
}
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_max)
FL_T1 __device__ constexpr T max(T a, T b) { return a < b ? b : a; }
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_min)
FL_T1 __device__ constexpr T min(T a, T b) { return b < a ? b : a; }
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_array)
template <class T, int N> struct array {
  T at_[N];
  __device__ T &operator[](int i) { return at_[i]; }
  __device__ const T &operator[](int i) const { return at_[i]; }
  __device__ static constexpr int size() { return N; }
  __device__ T *data() { return at_; }
  __device__ const T *data() const { return at_; }
  __device__ void fill(T v) { for (int i = 0; i < N; ++i) at_[i] = v; }
};
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_pair) || defined(FL_STD_make_pair)
template <class T, class U> struct pair { T first; U second; };
template <class T, class U> __device__ pair<T, U> make_pair(T a, U b) { return pair<T, U>{a, b}; }
#endif
#define FL_ACTS(name, e) \
  template <class T = void> struct name { \
    __device__ constexpr T operator()(const T &a, const T &b) const { return e; } \
  }; \
  template <> struct name<void> { \
    template <class A, class B> __device__ constexpr auto operator()(A a, B b) const { return e; } \
  };
#if defined(FL_STD_ALL) || defined(FL_STD_plus)
FL_ACTS(plus, a + b)
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_multiplies)
FL_ACTS(multiplies, a * b)
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_tuple) || defined(FL_STD_make_tuple)
struct fl_none {};
template <class A, class B, class C = fl_none, class D = fl_none> struct tuple {
  A a_;
  B b_;
  C c_;
  D d_;
  tuple() = default;
  __device__ tuple(A a, B b) : a_(a), b_(b) {}
  __device__ tuple(A a, B b, C c) : a_(a), b_(b), c_(c) {}
  __device__ tuple(A a, B b, C c, D d) : a_(a), b_(b), c_(c), d_(d) {}
};
template <class A, class B> __device__ tuple<A, B> make_tuple(A a, B b) {
  return tuple<A, B>(a, b);
}
template <class A, class B, class C> __device__ tuple<A, B, C> make_tuple(A a, B b, C c) {
  return tuple<A, B, C>(a, b, c);
}
template <class A, class B, class C, class D> __device__ tuple<A, B, C, D> make_tuple(
    A a, B b, C c, D d) {
  return tuple<A, B, C, D>(a, b, c, d);
}
template <int K, class A, class B, class C, class D> __device__ auto get(
    const tuple<A, B, C, D> &t) {
  if constexpr (K == 0) return t.a_;
  else if constexpr (K == 1) return t.b_;
  else if constexpr (K == 2) return t.c_;
  else return t.d_;
}
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_complex)
FL_T1 struct complex {
  typedef T value_type;
  T x, y;
  __device__ complex(T re = T(), T im = T()) : x(re), y(im) {}
  template <class U> __device__ complex(const complex<U> &z) : x(z.x), y(z.y) {}
  __device__ T real() const { return x; }
  __device__ T imag() const { return y; }
  __device__ void real(T v) { x = v; }
  __device__ void imag(T v) { y = v; }
  __device__ complex &operator+=(const complex &z) { x += z.x; y += z.y; return *this; }
  __device__ complex &operator-=(const complex &z) { x -= z.x; y -= z.y; return *this; }
  __device__ complex &operator*=(const complex &z) { return *this = *this * z; }
  __device__ complex &operator/=(const complex &z) { return *this = *this / z; }
};
#define FL_CX FL_T1 __device__ complex<T>
#define FL_Z const complex<T> &
FL_CX operator+(FL_Z a, FL_Z b) { return complex<T>(a.x + b.x, a.y + b.y); }
FL_CX operator-(FL_Z a, FL_Z b) { return complex<T>(a.x - b.x, a.y - b.y); }
FL_CX operator*(FL_Z a, FL_Z b) { return complex<T>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
FL_CX operator/(FL_Z u, FL_Z v) {
  const T k = T(1) / (fabs(v.x) + fabs(v.y));
  const T a = u.x * k, b = u.y * k, c = v.x * k, d = v.y * k, s = T(1) / (c * c + d * d);
  return complex<T>((a * c + b * d) * s, (b * c - a * d) * s);
}
FL_CX operator-(FL_Z z) { return complex<T>(-z.x, -z.y); }
FL_CX operator+(FL_Z z) { return z; }
FL_T1 __device__ bool operator==(FL_Z a, FL_Z b) { return a.x == b.x && a.y == b.y; }
FL_T1 __device__ bool operator!=(FL_Z a, FL_Z b) { return !(a == b); }
#define FL_MIXED(op, left, right) \
  template <class T, class U, class = enable_if_t<is_arithmetic<U>::value>> \
  __device__ complex<common_type_t<T, U>> operator op(FL_Z a, U b) { \
    typedef common_type_t<T, U> C; \
    return complex<C> right; \
  } \
  template <class T, class U, class = enable_if_t<is_arithmetic<U>::value>> \
  __device__ complex<common_type_t<T, U>> operator op(U b, FL_Z a) { \
    typedef common_type_t<T, U> C; \
    return complex<C> left; \
  }
FL_MIXED(+, (C(b) + a.x, C(a.y)), (a.x + C(b), C(a.y)))
FL_MIXED(-, (C(b) - a.x, C(-a.y)), (a.x - C(b), C(a.y)))
FL_MIXED(*, (C(b) * a.x, C(b) * a.y), (a.x * C(b), a.y * C(b)))
FL_MIXED(/, (complex<C>(C(b)) / complex<C>(a)), (a.x / C(b), a.y / C(b)))
FL_T1 __device__ T real(FL_Z z) { return z.x; }
FL_T1 __device__ T imag(FL_Z z) { return z.y; }
FL_T1 __device__ T norm(FL_Z z) { return z.x * z.x + z.y * z.y; }
FL_T1 __device__ T abs(FL_Z z) { return hypot(z.x, z.y); }
FL_T1 __device__ T arg(FL_Z z) { return atan2(z.y, z.x); }
FL_CX conj(FL_Z z) { return complex<T>(z.x, -z.y); }
FL_CX polar(T r, T a = T()) { return complex<T>(r * cos(a), r * sin(a)); }
FL_CX exp(FL_Z z) { return polar(T(exp(z.x)), z.y); }
#endif
