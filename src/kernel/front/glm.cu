/*
** Vectors and matrices as GLM has them: "glm::name" is fl_glm_name (library.c). A matrix of C
** columns of R numbers is m[c][r], and m * v is the sum of its columns times the numbers of v.
*/
#define D __device__
#define V2(E, P) E(x, P, 0) E(y, P, 1)
#define V3(E, P) V2(E, P) E(z, P, 2)
#define V4(E, P) V3(E, P) E(w, P, 3)
#define BOTH(m, P, K) m P o.m;
#define ONE(m, P, K) m P s;
#define EQUAL(m, P, K) && m == o.m
#define PRODUCT(m, P, K) + m * o.m
#define MINUS(m, P, K) r.m = -m;
#define ABS(m, P, K) r.m = fl_glm_abs(m);
#define LESSER(m, P, K) r.m = fl_glm_min(m, o.m);
#define LARGER(m, P, K) r.m = fl_glm_max(m, o.m);
#define CONVERT(m, P, K) m = (T)o.m;
#define COLUMN(m, P, K) r += a.v[K] * m;
#define ROW(m, P, K) r.m = a.v[K].fl_dot(o);
#define OUTER(m, P, K) r.v[K] = a * m;
#define SELF(N, P) \
  D fl_glm_vec &operator P(const fl_glm_vec &o) { N(BOTH, P) return *this; } \
  D fl_glm_vec &operator P(T s) { N(ONE, P) return *this; }
#define CHOICE(NAME, E) template <class T> D T fl_glm_##NAME(T a) { return E; }
CHOICE(abs, a < 0 ? -a : a) CHOICE(sqrt, sqrt(a)) CHOICE(inversesqrt, rsqrt(a)) CHOICE(exp, exp(a))
CHOICE(log, log(a)) CHOICE(sin, sin(a)) CHOICE(cos, cos(a)) CHOICE(tan, tan(a))
CHOICE(asin, asin(a)) CHOICE(acos, acos(a)) CHOICE(floor, floor(a)) CHOICE(ceil, ceil(a))
CHOICE(atan, atan(a)) CHOICE(radians, a * (T)0.01745329251994329577) CHOICE(fract, a - floor(a))
template <class T> D T fl_glm_atan(T y, T x) { return atan2(y, x); }
template <class T> D T fl_glm_pow(T a, T b) { return pow(a, b); }
template <class T> D T fl_glm_min(T a, T b) { return b < a ? b : a; }
template <class T> D T fl_glm_max(T a, T b) { return a < b ? b : a; }
template <class T, class S> D T fl_glm_clamp(T a, S low, S high) {
  return fl_glm_min(fl_glm_max(a, low), high);
}
template <class T, class S> D T fl_glm_mix(T a, T b, S t) { return a * (1 - t) + b * t; }

template <int L, class T, int Q = 0> struct fl_glm_vec {};
template <int C, int R, class T, int Q = 0> struct fl_glm_mat {
  using col = fl_glm_vec<R, T, Q>;
  using value_type = T;
  col v[C];
  fl_glm_mat() = default;
  D explicit fl_glm_mat(T s) {
    for (int k = 0; k < C; ++k) v[k] = col((T)0);
    v[0].x = s;
    v[1].y = s;
    if constexpr (C > 2 && R > 2) v[2].z = s;
    if constexpr (C > 3 && R > 3) v[3].w = s;
  }
  D fl_glm_mat(const col &a, const col &b) { v[0] = a; v[1] = b; }
  D fl_glm_mat(const col &a, const col &b, const col &c) { v[0] = a; v[1] = b; v[2] = c; }
  D fl_glm_mat(const col &a, const col &b, const col &c, const col &d) {
    v[0] = a; v[1] = b; v[2] = c; v[3] = d;
  }
  D fl_glm_mat(T a, T b, T c, T d) { v[0] = col(a, b); v[1] = col(c, d); }
  D fl_glm_mat(T a, T b, T c, T d, T e, T f) {
    if constexpr (C == 2) { v[0] = col(a, b, c); v[1] = col(d, e, f); }
    else { v[0] = col(a, b); v[1] = col(c, d); v[2] = col(e, f); }
  }
  D fl_glm_mat(T a, T b, T c, T d, T e, T f, T g, T h, T i) {
    v[0] = col(a, b, c); v[1] = col(d, e, f); v[2] = col(g, h, i);
  }
  D fl_glm_mat(T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k, T l, T m, T n, T o, T p) {
    v[0] = col(a, b, c, d); v[1] = col(e, f, g, h); v[2] = col(i, j, k, l); v[3] = col(m, n, o, p);
  }
  template <class U> D fl_glm_mat(const fl_glm_mat<4, 4, U, Q> &o) {
    for (int k = 0; k < C; ++k) v[k] = col(o.v[k]);
  }
  D col &operator[](int i) { return v[i]; }
  D const col &operator[](int i) const { return v[i]; }
  D static constexpr int length() { return C; }
#define ALL(P, X) for (int k = 0; k < C; ++k) v[k] P X; return *this;
  D fl_glm_mat &operator+=(const fl_glm_mat &o) { ALL(+=, o.v[k]) }
  D fl_glm_mat &operator-=(const fl_glm_mat &o) { ALL(-=, o.v[k]) }
  D fl_glm_mat &operator*=(T s) { ALL(*=, s) }
  D fl_glm_mat &operator/=(T s) { ALL(/=, s) }
  D fl_glm_mat operator-() const {
    fl_glm_mat r;
    for (int k = 0; k < C; ++k) r.v[k] = -v[k];
    return r;
  }
};
#define VEC(L, N) \
  using value_type = T; \
  fl_glm_vec() = default; \
  D explicit fl_glm_vec(T s) { N(ONE, =) } \
  template <class U> D fl_glm_vec(const fl_glm_vec<L, U, Q> &o) { N(CONVERT, =) } \
  SELF(N, +=) SELF(N, -=) SELF(N, *=) SELF(N, /=) \
  D T &operator[](int i) { return (&x)[i]; } \
  D const T &operator[](int i) const { return (&x)[i]; } \
  D static constexpr int length() { return L; } \
  D bool operator==(const fl_glm_vec &o) const { return true N(EQUAL, 0); } \
  D bool operator!=(const fl_glm_vec &o) const { return !(true N(EQUAL, 0)); } \
  D fl_glm_vec operator-() const { fl_glm_vec r; N(MINUS, 0) return r; } \
  D fl_glm_vec fl_abs() const { fl_glm_vec r; N(ABS, 0) return r; } \
  D fl_glm_vec fl_min(const fl_glm_vec &o) const { fl_glm_vec r; N(LESSER, 0) return r; } \
  D fl_glm_vec fl_max(const fl_glm_vec &o) const { fl_glm_vec r; N(LARGER, 0) return r; } \
  D T fl_dot(const fl_glm_vec &o) const { return N(PRODUCT, 0); } \
  template <int R> D fl_glm_vec<R, T, Q> fl_of(const fl_glm_mat<L, R, T, Q> &a) const { \
    fl_glm_vec<R, T, Q> r((T)0); N(COLUMN, 0) return r; } \
  template <int R> D static fl_glm_vec fl_to(const fl_glm_mat<L, R, T, Q> &a, \
                                             const fl_glm_vec<R, T, Q> &o) { \
    fl_glm_vec r; N(ROW, 0) return r; } \
  template <int R> D fl_glm_mat<L, R, T, Q> fl_outer(const fl_glm_vec<R, T, Q> &a) const { \
    fl_glm_mat<L, R, T, Q> r; N(OUTER, 0) return r; }

template <class T, int Q> struct fl_glm_vec<2, T, Q> {
  T x, y;
  VEC(2, V2)
  template <class A, class B> D fl_glm_vec(A a, B b) : x((T)a), y((T)b) {}
  template <class U> D explicit fl_glm_vec(const fl_glm_vec<3, U, Q> &o) { V2(CONVERT, =) }
  template <class U> D explicit fl_glm_vec(const fl_glm_vec<4, U, Q> &o) { V2(CONVERT, =) }
};
template <class T, int Q> struct fl_glm_vec<3, T, Q> {
  T x, y, z;
  VEC(3, V3)
  template <class A, class B, class C> D fl_glm_vec(A a, B b, C c)
      : x((T)a), y((T)b), z((T)c) {}
  template <class U, class C> D fl_glm_vec(const fl_glm_vec<2, U, Q> &o, C c)
      : x((T)o.x), y((T)o.y), z((T)c) {}
  template <class U> D explicit fl_glm_vec(const fl_glm_vec<4, U, Q> &o) { V3(CONVERT, =) }
};
template <class T, int Q> struct fl_glm_vec<4, T, Q> {
  T x, y, z, w;
  VEC(4, V4)
  template <class A, class B, class C, class E> D fl_glm_vec(A a, B b, C c, E d)
      : x((T)a), y((T)b), z((T)c), w((T)d) {}
  template <class U, class C> D fl_glm_vec(const fl_glm_vec<3, U, Q> &o, C c)
      : x((T)o.x), y((T)o.y), z((T)o.z), w((T)c) {}
};

#define V fl_glm_vec<L, T, Q>
#define OF_V template <int L, class T, int Q> D
#define M fl_glm_mat<C, R, T, Q>
#define OF_M template <int C, int R, class T, int Q> D
#define BINARY(OP) \
  OF_V V operator OP(V a, const V &b) { return a OP##= b; } \
  OF_V V operator OP(V a, T b) { return a OP##= b; } \
  OF_V V operator OP(T a, const V &b) { V r(a); r OP##= b; return r; }
BINARY(+) BINARY(-) BINARY(*) BINARY(/)
OF_V T fl_glm_dot(const V &a, const V &b) { return a.fl_dot(b); }
OF_V T fl_glm_length(const V &a) { return sqrt(a.fl_dot(a)); }
OF_V T fl_glm_length2(const V &a) { return a.fl_dot(a); }
OF_V T fl_glm_distance(const V &a, const V &b) { return fl_glm_length(b - a); }
OF_V V fl_glm_normalize(const V &a) { return a * ((T)1 / sqrt(a.fl_dot(a))); }
OF_V V fl_glm_reflect(const V &a, const V &n) { return a - n * (n.fl_dot(a) * (T)2); }
OF_V V fl_glm_abs(const V &a) { return a.fl_abs(); }
OF_V V fl_glm_min(const V &a, const V &b) { return a.fl_min(b); }
OF_V V fl_glm_max(const V &a, const V &b) { return a.fl_max(b); }
OF_V V fl_glm_min(const V &a, T b) { return a.fl_min(V(b)); }
OF_V V fl_glm_max(const V &a, T b) { return a.fl_max(V(b)); }
template <class T, int Q> D fl_glm_vec<3, T, Q> fl_glm_cross(const fl_glm_vec<3, T, Q> &a,
                                                             const fl_glm_vec<3, T, Q> &b) {
  return fl_glm_vec<3, T, Q>(a.y * b.z - b.y * a.z, a.z * b.x - b.z * a.x, a.x * b.y - b.x * a.y);
}

OF_M M operator+(M a, const M &b) { return a += b; }
OF_M M operator-(M a, const M &b) { return a -= b; }
OF_M M operator*(M a, T s) { return a *= s; }
OF_M M operator*(T s, M a) { return a *= s; }
OF_M M operator/(M a, T s) { return a /= s; }
OF_M fl_glm_vec<R, T, Q> operator*(const M &a, const fl_glm_vec<C, T, Q> &v) { return v.fl_of(a); }
OF_M fl_glm_vec<C, T, Q> operator*(const fl_glm_vec<R, T, Q> &v, const M &a) {
  return fl_glm_vec<C, T, Q>::fl_to(a, v);
}
template <int C, int R, int N, class T, int Q> D fl_glm_mat<N, R, T, Q> operator*(
    const M &a, const fl_glm_mat<N, C, T, Q> &b) {
  fl_glm_mat<N, R, T, Q> r;
  for (int k = 0; k < N; ++k) r.v[k] = b.v[k].fl_of(a);
  return r;
}
#define TURN(m, K) \
  if constexpr (R > K) { \
    if constexpr (C == 2) r.v[K] = fl_glm_vec<2, T, Q>(a.v[0].m, a.v[1].m); \
    else if constexpr (C == 3) r.v[K] = fl_glm_vec<3, T, Q>(a.v[0].m, a.v[1].m, a.v[2].m); \
    else r.v[K] = fl_glm_vec<4, T, Q>(a.v[0].m, a.v[1].m, a.v[2].m, a.v[3].m); \
  }
OF_M fl_glm_mat<R, C, T, Q> fl_glm_transpose(const M &a) {
  fl_glm_mat<R, C, T, Q> r;
  TURN(x, 0) TURN(y, 1) TURN(z, 2) TURN(w, 3)
  return r;
}
OF_M fl_glm_mat<C, R, T, Q> fl_glm_outerProduct(const fl_glm_vec<R, T, Q> &a,
                                               const fl_glm_vec<C, T, Q> &b) {
  return b.fl_outer(a);
}
#undef M
#define M(N) fl_glm_mat<N, N, T, Q>
#define OF_Q template <class T, int Q> D
OF_Q T fl_glm_determinant(const M(2) &a) { return a.v[0].x * a.v[1].y - a.v[1].x * a.v[0].y; }
OF_Q T fl_glm_determinant(const M(3) &a) { return a.v[0].fl_dot(fl_glm_cross(a.v[1], a.v[2])); }
OF_Q M(2) fl_glm_inverse(const M(2) &a) {
  return M(2)(a.v[1].y, -a.v[0].y, -a.v[1].x, a.v[0].x) * ((T)1 / fl_glm_determinant(a));
}
OF_Q M(3) fl_glm_inverse(const M(3) &a) {
  return fl_glm_transpose(M(3)(fl_glm_cross(a.v[1], a.v[2]), fl_glm_cross(a.v[2], a.v[0]),
                               fl_glm_cross(a.v[0], a.v[1]))) * ((T)1 / fl_glm_determinant(a));
}
template <class T> D fl_glm_vec<2, T> fl_glm_make_vec2(const T *p) {
  return fl_glm_vec<2, T>(p[0], p[1]);
}
template <class T> D fl_glm_vec<3, T> fl_glm_make_vec3(const T *p) {
  return fl_glm_vec<3, T>(p[0], p[1], p[2]);
}
template <class T> D fl_glm_vec<4, T> fl_glm_make_vec4(const T *p) {
  return fl_glm_vec<4, T>(p[0], p[1], p[2], p[3]);
}
using fl_glm_vec2 = fl_glm_vec<2, float>;
using fl_glm_vec3 = fl_glm_vec<3, float>;
using fl_glm_vec4 = fl_glm_vec<4, float>;
using fl_glm_dvec2 = fl_glm_vec<2, double>;
using fl_glm_dvec3 = fl_glm_vec<3, double>;
using fl_glm_dvec4 = fl_glm_vec<4, double>;
using fl_glm_ivec2 = fl_glm_vec<2, int>;
using fl_glm_ivec3 = fl_glm_vec<3, int>;
using fl_glm_ivec4 = fl_glm_vec<4, int>;
using fl_glm_uvec2 = fl_glm_vec<2, unsigned>;
using fl_glm_uvec3 = fl_glm_vec<3, unsigned>;
using fl_glm_mat2 = fl_glm_mat<2, 2, float>;
using fl_glm_mat3 = fl_glm_mat<3, 3, float>;
using fl_glm_mat4 = fl_glm_mat<4, 4, float>;
using fl_glm_dmat2 = fl_glm_mat<2, 2, double>;
using fl_glm_dmat3 = fl_glm_mat<3, 3, double>;
using fl_glm_dmat4 = fl_glm_mat<4, 4, double>;
