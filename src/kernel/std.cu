/*
** What kernels use of the headers <limits>, <type_traits>, <utility>, <algorithm> and <array>: the
** text is read by the CPU's front end (library.h) and given to NVRTC inside namespace std.
*/
template <class T, T v> struct integral_constant { static constexpr T value = v; };
template <bool b> using bool_constant = integral_constant<bool, b>;
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;

/* ---- types ---- */
template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <bool b, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool b, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T *> : true_type {};
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T *> { using type = T; };
template <class T> struct is_floating_point : bool_constant<is_same<T, float>::value || is_same<T, double>::value> {};
template <class T> struct is_unsigned
    : bool_constant<is_same<T, unsigned char>::value || is_same<T, unsigned short>::value || is_same<T, unsigned>::value ||
                    is_same<T, unsigned long>::value || is_same<T, unsigned long long>::value || is_same<T, bool>::value> {};
template <class T> struct is_integral
    : bool_constant<is_unsigned<T>::value || is_same<T, signed char>::value || is_same<T, char>::value ||
                    is_same<T, short>::value || is_same<T, int>::value || is_same<T, long>::value ||
                    is_same<T, long long>::value> {};
template <class T> struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T> struct is_signed : bool_constant<is_arithmetic<T>::value && !is_unsigned<T>::value> {};
template <class T> struct make_unsigned { using type = T; };
template <> struct make_unsigned<signed char> { using type = unsigned char; };
template <> struct make_unsigned<short> { using type = unsigned short; };
template <> struct make_unsigned<int> { using type = unsigned; };
template <> struct make_unsigned<long long> { using type = unsigned long long; };
#ifdef FL_STD_ALL
template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T &> { using type = T; };
template <class T> struct remove_reference<T &&> { using type = T; };
template <class T> struct remove_cv : remove_const<T> {};
template <class T> struct decay : remove_const<typename remove_reference<T>::type> {};
#else
template <class T> struct remove_const { using type = T; };
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_cv { using type = T; };
template <class T> struct decay { using type = T; };
#endif
template <bool b, class T, class F> using conditional_t = typename conditional<b, T, F>::type;
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using decay_t = typename decay<T>::type;
template <class T, class U> constexpr bool is_same_v = is_same<T, U>::value;
#define FL_STD_VALUE(name) template <class T> constexpr bool name##_v = name<T>::value;
FL_STD_VALUE(is_pointer) FL_STD_VALUE(is_floating_point) FL_STD_VALUE(is_unsigned) FL_STD_VALUE(is_integral)
FL_STD_VALUE(is_arithmetic) FL_STD_VALUE(is_signed)

/* ---- limits ---- */
#ifdef FL_STD_ALL
#define FL_STD_HUGE __builtin_bit_cast(float, 0x7f800000)
#define FL_STD_NAN __builtin_bit_cast(float, 0x7fc00000)
#else
#define FL_STD_HUGE __builtin_huge_valf()
#define FL_STD_NAN __builtin_nanf("")
#endif
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define FL_STD_LIMITS(T, integer, least, lowest_, most, step, figures, huge, nan) \
  template <> struct numeric_limits<T> { \
    static constexpr bool is_specialized = true, is_integer = integer, is_signed = lowest_ < 0, has_infinity = !integer; \
    static constexpr int digits = figures; \
    static __device__ constexpr T min() { return least; } \
    static __device__ constexpr T lowest() { return lowest_; } \
    static __device__ constexpr T max() { return most; } \
    static __device__ constexpr T epsilon() { return step; } \
    static __device__ constexpr T infinity() { return huge; } \
    static __device__ constexpr T quiet_NaN() { return nan; } \
  };
FL_STD_LIMITS(float, false, 1.175494351e-38f, -3.402823466e+38f, 3.402823466e+38f, 1.1920928955078125e-07f, 24,
              FL_STD_HUGE, FL_STD_NAN)
FL_STD_LIMITS(double, false, 2.2250738585072014e-308, -1.7976931348623157e+308, 1.7976931348623157e+308,
              2.2204460492503131e-16, 53, (double)FL_STD_HUGE, (double)FL_STD_NAN)
#define FL_STD_WHOLE(T, lowest_, most, figures) FL_STD_LIMITS(T, true, lowest_, lowest_, most, 0, figures, 0, 0)
FL_STD_WHOLE(bool, false, true, 1)
FL_STD_WHOLE(signed char, -128, 127, 7)
FL_STD_WHOLE(unsigned char, 0, 255, 8)
FL_STD_WHOLE(short, -32768, 32767, 15)
FL_STD_WHOLE(unsigned short, 0, 65535, 16)
FL_STD_WHOLE(int, -2147483647 - 1, 2147483647, 31)
FL_STD_WHOLE(unsigned, 0u, 4294967295u, 32)
FL_STD_WHOLE(long long, -9223372036854775807ll - 1, 9223372036854775807ll, 63)
FL_STD_WHOLE(unsigned long long, 0ull, 18446744073709551615ull, 64)
#ifdef FL_STD_ALL
FL_STD_WHOLE(long, -9223372036854775807l - 1, 9223372036854775807l, 63)
FL_STD_WHOLE(unsigned long, 0ul, 18446744073709551615ul, 64)
#endif

/* ---- functions, where they are named ---- */
#if defined(FL_STD_ALL) || defined(FL_STD_swap)
template <class T> __device__ void swap(T &a, T &b) {
  const T c = a;
  a = b;
  b = c;
}
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_exchange)
template <class T, class U> __device__ T exchange(T &a, U b) {
  const T c = a;
  a = b;
  return c;
}
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_clamp)
template <class T> __device__ constexpr T clamp(T v, T low, T high) { return v < low ? low : high < v ? high : v; }
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_max)
template <class T> __device__ constexpr T max(T a, T b) { return a < b ? b : a; }
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_min)
template <class T> __device__ constexpr T min(T a, T b) { return b < a ? b : a; }
#endif
#if defined(FL_STD_ALL) || defined(FL_STD_array)
template <class T, int N> struct array {
  T at_[N];
  __device__ T &operator[](int i) { return at_[i]; }
  __device__ const T &operator[](int i) const { return at_[i]; }
  __device__ static constexpr int size() { return N; }
  __device__ void fill(T v) { for (int i = 0; i < N; ++i) at_[i] = v; }
};
#endif
