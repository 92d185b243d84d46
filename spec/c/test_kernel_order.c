/*
** The order of evaluation on both devices: each body has one meaning in C++17, or one that our CPU
** and NVRTC share where C++ leaves it open. Its values were computed by clang. The CPU runs the
** parsed tree. What NVRTC computes is read from its PTX, in which all values that a kernel stores
** are constants. 'tree' is 1 for kernels of which NVRTC gets a text printed from the tree, since
** from the text as written it would compute other values (or might: of what a function returns by
** reference it knows less than our parser). It gets the text of all other kernels as written.
*/
#include "kernel/function.h"
#include "lane_run.h"
#include "nvrtc.h"

enum { MOST = 4, MOST_REGISTERS = 4096 };

static const char before[] =
  "__device__ int next(int *s) { *s = *s * 5 + 1; return *s; }\n"
  "__device__ int step(int &s) { s = s * 3 + 2; return s; }\n"
  "__device__ int two(int a, int b) { return a * 1000 + b; }\n"
  "struct P { int x, y; __device__ int sum() const { return x + 2*y; } };\n"
  "struct A { int n; int v[2]; };\n"
  "struct O { int x, y; __device__ O(int a,int b):x(a),y(b){} __device__ O(const "
  "O&o):x(o.x),y(o.y){} __device__ O &operator=(const O &o) { x = o.x; y = o.y; return "
  "*this; } __device__ O &operator+=(const O &o) { x += o.x; y += o.y; return *this; } };\n"
  "struct V { int x, y; __device__ V &operator=(V o) { x = o.x; y = o.y; return *this; } "
  "__device__ V &operator+=(V o) { x += o.x; y += o.y; return *this; } };\n"
  "struct S { int x; __device__ S(int v):x(v){} __device__ S &operator<<(int k) { x = x * 10 "
  "+ k; return *this; } __device__ int operator[](int k) const { return x * 10 + k; } "
  "__device__ int operator()(int a, int b) const { return x*100+a*10+b; } __device__ S "
  "&up(int k) { x += k; return *this; } __device__ int get(int k) const { return x*10+k; }\n"
  "__device__ S &operator-=(const S &o) { x = x * 3 - o.x; return *this; } };\n"
  "__device__ int operator>>(const S &a, int b) { return a.x * 10 + b; }\n"
  "__device__ S operator+(const S &a, const S &b) { return S(a.x * 10 + b.x); }\n"
  "__device__ O &operator*=(O &a, const O &b) { a.x = a.x * 10 + b.x; a.y *= b.y; return a; }\n"
  "struct D { int x, y; __device__ D &operator=(const D &) = default; };\n"
  "struct B { int x; }; struct C : B { int y; };\n"
  "template <class T> struct W { T v; int z; };\n"
  "__device__ int sum(P a, P b) { return a.x * 1000 + a.y * 100 + b.x * 10 + b.y; }\n"
  "__device__ int sumr(const P &a, const P &b) { return a.x * 1000 + a.y * 100 + b.x * 10 + "
  "b.y; }\n"
  "__device__ P &bump(P &a) { a.x += 1; return a; }\n"
  "__device__ P give(P &a) { a.x += 1; return a; }\n"
  "__device__ int &ref(int &a) { a += 1; return a; }\n"
  "union U { int i; unsigned n; };\n";
static const char first[] =
  "int b[8] = {0}, i = 0, q = 5, s = 7, m[3][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};\n"
  "P u = {1, 2}, w = {3, 4}, e[3] = {{1, 10}, {2, 20}, {0, 30}};\n"
  "A g[2] = {{1, {10, 20}}, {1, {30, 40}}};\n";

typedef struct row { const char *body; int tree, want[MOST]; } row;
static const row rows[] = {
  { "e[(e[1].x -= 1)] = e[1]; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x; b[3]=e[1].y;",
    1, { 1, 10, 1, 20 } },
  { "(((u.x += 1) > 1) ? u : w) = u; b[0]=u.x; b[1]=u.y; b[2]=w.x; b[3]=w.y;", 1, { 2, 2, 3, 4 } },
  { "g[--g[1].n] = g[1]; b[0]=g[0].n; b[1]=g[0].v[0]; b[2]=g[1].n;", 1, { 0, 30 } },
  { "e[i++] = e[i]; b[0]=e[0].x; b[1]=i; b[2]=e[1].x;", 0, { 1, 1, 2 } },
  { "b[i++] = i;", 0, { 0 } },
  { "b[i++] = b[i]; b[3]=i;", 0, { 0, 0, 0, 1 } },
  { "b[q = 2] = q;", 0, { 0, 0, 5 } },
  { "q = 2; b[q] = q++;", 0, { 0, 0, 0, 2 } },
  { "b[step(s) & 3] = step(s);", 0, { 0, 0, 0, 23 } },
  { "b[step(s) & 3] = s;", 0, { 0, 0, 0, 7 } },
  { "b[i++] += i; b[3]=i;", 0, { 0, 0, 0, 1 } },
  { "b[1]=4;b[i++] += b[i]; b[3]=i;", 0, { 0, 4, 0, 1 } },
  { "O o[3]={{1,10},{2,20},{0,30}}; o[--o[1].x] = o[1]; b[0]=o[1].x; b[1]=o[1].y; "
    "b[2]=o[0].x;b[3]=o[0].y;", 0, { 1, 20, 1, 10 } },
  { "V o[3]={{1,10},{2,20},{0,30}}; o[--o[1].x] = o[1]; b[0]=o[1].x; b[1]=o[1].y; "
    "b[2]=o[0].x;b[3]=o[0].y;", 0, { 2, 20, 1, 10 } },
  { "O o[3]={{1,10},{2,20},{0,30}}; o[--o[1].x] += o[1]; b[0]=o[1].x; b[1]=o[1].y; "
    "b[2]=o[0].x;b[3]=o[0].y;", 0, { 2, 40, 1, 10 } },
  { "V o[3]={{1,10},{2,20},{0,30}}; o[--o[1].x] += o[1]; b[0]=o[1].x; b[1]=o[1].y; "
    "b[2]=o[0].x;b[3]=o[0].y;", 0, { 3, 40, 1, 10 } },
  { "O o[3]={{1,10},{2,20},{0,30}}; o[i++] = o[i]; b[0]=o[0].x; b[1]=o[0].y; "
    "b[2]=o[1].x;b[3]=i;", 0, { 1, 10, 2, 1 } },
  { "V o[3]={{1,10},{2,20},{0,30}}; o[i++] = o[i]; b[0]=o[0].x; b[1]=o[0].y; "
    "b[2]=o[1].x;b[3]=i;", 0, { 1, 10, 2, 1 } },
  { "e[i++] = {i, 7}; b[0]=e[0].x; b[1]=i;", 0, { 0, 1 } },
  { "e[i++] = P{i, 7}; b[0]=e[0].x; b[1]=i;", 0, { 0, 1 } },
  { "u = {q++, q}; b[0]=u.x; b[1]=u.y;", 0, { 5, 6 } },
  { "u = P{q++, q}; b[0]=u.x; b[1]=u.y;", 0, { 5, 6 } },
  { "b[0] = q << q++; b[1]=q;", 0, { 160, 6 } },
  { "b[0] = q++ << q; b[1]=q;", 0, { 320, 6 } },
  { "b[0] = m[(i=1)][i++]; b[1]=i;", 0, { 5, 2 } },
  { "q=1; b[0] = m[q++][q]; b[1] = q;", 0, { 6, 2 } },
  { "q=1; b[0] = m[q][q++]; b[1] = q;", 0, { 5, 2 } },
  { "q=1; b[0] = (m[q])[q = 2];", 0, { 6 } },
  { "b[0] = (q++, q);", 0, { 6 } },
  { "int *p = b; *p++ = *p + 1; *p = (int)(p - b);", 0, { 1, 1 } },
  { "b[0] = two(q++, s++);", 0, { 5007 } },
  { "b[0] = two(step(s), s);", 0, { 23023 } },
  { "b[0] = two(s, step(s));", 0, { 7023 } },
  { "b[0] = two(next(&s), step(s));", 0, { 36110 } },
  { "b[0] = s - step(s);", 0, { -16 } },
  { "b[0] = step(s) - s;", 0, { 0 } },
  { "b[0] = step(s) - 3*step(s);", 0, { -190 } },
  { "P t{q++, q}; b[0]=t.x; b[1]=t.y;", 0, { 5, 6 } },
  { "P t{q, q++}; b[0]=t.x; b[1]=t.y;", 0, { 5, 5 } },
  { "P t={q++, q++}; b[0]=t.x; b[1]=t.y;", 0, { 5, 6 } },
  { "O t{q++, q}; b[0]=t.x; b[1]=t.y;", 0, { 5, 6 } },
  { "O t{q, q++}; b[0]=t.x; b[1]=t.y;", 0, { 5, 5 } },
  { "q = q++ + 1; b[0]=q;", 0, { 6 } },
  { "q += q++; b[0]=q;", 0, { 11 } },
  { "q -= 2*q++; b[0]=q;", 0, { -4 } },
  { "i = i++ + 1; b[0]=i;", 0, { 1 } },
  { "(q > 3 ? b[i] : b[2]) = i = 2;", 0, { 0, 0, 2 } },
  { "(q++ > 5 ? i : s) = q; b[0]=i; b[1]=s;", 0, { 0, 5 } },
  { "b[i] = i++ ? 2 : 3; b[3]=i;", 0, { 0, 3, 0, 1 } },
  { "b[0] = q; q = b[(q=0)] = q + 2; b[1] = q;", 0, { 7, 7 } },
  { "D d[2]={{0,5},{1,7}}; d[--d[1].x] = d[1]; b[0]=d[0].x; b[1]=d[0].y; b[2]=d[1].x;",
    1, { 0, 7 } },
  { "C d[2]={{{0},5},{{1},7}}; d[--d[1].x] = d[1]; b[0]=d[0].x; b[1]=d[0].y; b[2]=d[1].x;",
    1, { 0, 7 } },
  { "W<P> d[2]={{{0,5},1},{{1,7},1}}; d[--d[1].z] = d[1]; b[0]=d[0].v.x; b[1]=d[0].z; "
    "b[2]=d[1].v.x; b[3]=d[0].v.y;", 1, { 1, 0, 1, 7 } },
  { "W<int> d[2]={{0,1},{1,1}}; d[--d[1].z] = d[1]; b[0]=d[0].v; b[1]=d[0].z; b[2]=d[1].v;",
    1, { 1, 0, 1 } },
  { "U d[2]={{0},{1}}; d[--d[1].i] = d[1]; b[0]=d[0].i; b[1]=d[1].i;", 1, { 0 } },
  { "e[--e[1].x] = e[2] = e[1]; b[0]=e[0].x; b[1]=e[2].x; b[2]=e[1].x;", 1, { 1, 2, 2 } },
  { "e[2] = e[--e[1].x] = e[1]; b[0]=e[0].x; b[1]=e[2].x; b[2]=e[1].x;", 1, { 1, 1, 1 } },
  { "e[--e[1].x] = (q ? e[1] : e[2]); b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 1, { 1, 10, 1 } },
  { "e[--e[1].x] = (q++, e[1]); b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x; b[3]=q;",
    1, { 1, 10, 1, 6 } },
  { "P *p = e + 1; e[--e[1].x] = *p; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 1, { 1, 10, 1 } },
  { "P *p = e + 1; *p-- = *p; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 0, { 1, 10, 2 } },
  { "P *p = e; *++p = *p; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 0, { 1, 10, 1 } },
  { "P &r = e[1]; e[--r.x] = r; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 1, { 1, 10, 1 } },
  { "e[--e[1].x] = bump(e[1]); b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 1, { 1, 10, 2 } },
  { "e[--e[1].x] = give(e[1]); b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 0, { 1, 10, 2 } },
  { "bump(e[1]) = e[1]; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 1, { 1, 10, 3 } },
  { "bump(u) = w; b[0]=u.x; b[1]=u.y;", 0, { 3, 4 } },
  { "(bump(u).x > 1 ? w : u) = u; b[0]=w.x; b[1]=w.y; b[2] = u.x;", 1, { 2, 2, 2 } },
  { "e[ref(e[1].x) - 2] = e[1]; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 1, { 1, 10, 3 } },
  { "e[ref(e[1].x) - 2] = P(e[1]); b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 0, { 1, 10, 2 } },
  { "e[ref(e[1].x) - 2] = static_cast<P &>(e[1]); b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;",
    1, { 1, 10, 3 } },
  { "e[ref(e[1].x) - 2] = static_cast<P>(e[1]); b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;",
    0, { 1, 10, 2 } },
  { "e[ref(e[1].x) - 2] = (P)(e[1]); b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 0, { 1, 10, 2 } },
  { "e[ref(e[1].x) - 2] = {e[1].x, e[1].y}; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;",
    0, { 1, 10, 2 } },
  { "P t = e[--e[1].x]; b[0]=t.x; b[1]=t.y;", 0, { 1, 20 } },
  { "P t = e[(e[1].x = 2) - 1]; b[0]=t.x; b[1]=t.y;", 0, { 2, 20 } },
  { "int t = e[--e[1].x + 1].x; b[0]=t;", 0, { 0 } },
  { "e[0].x = ref(e[0].x); b[0]=e[0].x;", 0, { 2 } },
  { "ref(q) = q; b[0] = q;", 0, { 5 } },
  { "ref(q) += q; b[0] = q;", 0, { 11 } },
  { "(q += 2) = q + 1; b[0] = q;", 0, { 6 } },
  { "(q = 3) += q; b[0] = q;", 0, { 8 } },
  { "(q = 3) += q++; b[0] = q;", 0, { 8 } },
  { "(i ? q : s) += q = 3; b[0]=q; b[1]=s;", 0, { 3, 10 } },
  { "S z(1); z << z.x << z.x; b[0] = z.x;", 0, { 121 } },
  { "S z(1); z << (z.x = 5); b[0]=z.x;", 0, { 55 } },
  { "S z(1); b[0] = z >> (z.x = 5);", 0, { 55 } },
  { "S z(1); b[0] = z.up(3) >> z.x;", 0, { 44 } },
  { "S z(1); b[0] = z.up(3)[z.x];", 0, { 44 } },
  { "S z(1); b[0] = z[z.x = 4];", 0, { 44 } },
  { "S z(1); b[0] = z.up(3)(z.x, 1);", 0, { 441 } },
  { "S z(1); b[0] = z.up(3).up(z.x).get(z.x);", 0, { 88 } },
  { "S z(1); b[0] = z.get(z.x = 4);", 0, { 44 } },
  { "S z(1); z.up(z.x = 4); b[0]=z.x;", 0, { 8 } },
  { "S z[2]={1,2}; z[i].up(i = 1); b[0]=z[0].x; b[1]=z[1].x;", 0, { 2, 2 } },
  { "S z[2]={1,2}; z[i++].up(i); b[0]=z[0].x; b[1]=z[1].x;", 0, { 2, 2 } },
  { "S z(1); z.up(1) -= z; b[0]=z.x;", 0, { 4 } },
  { "S z(1), o(2); z.up(1) -= S(z.x); b[0]=z.x;", 0, { 5 } },
  { "S z(1), o(2); z.up(1) -= o.up(z.x); b[0]=z.x; b[1]=o.x;", 0, { 3, 3 } },
  { "S z(1), o(2); z.up(1) = o.up(z.x); b[0]=z.x; b[1]=o.x;", 0, { 3, 3 } },
  { "S z(1); z.up(1) = z.x; b[0]=z.x;", 0, { 1 } },
  { "S z(1); b[0] = (z.up(1) + z.up(3)).x;", 0, { 55 } },
  { "S z(1); b[0] = (z + z.up(3)).x;", 0, { 44 } },
  { "O o[3]={{1,10},{2,20},{3,30}}; o[i++] *= o[i]; b[0]=o[0].x; b[1]=o[0].y; "
    "b[2]=o[1].x;b[3]=i;", 0, { 11, 100, 2, 1 } },
  { "O o[3]={{1,10},{2,20},{0,30}}; o[--o[1].x] *= o[1]; b[0]=o[1].x; b[1]=o[1].y; "
    "b[2]=o[0].x;b[3]=o[0].y;", 0, { 11, 400, 1, 10 } },
  { "b[0] = sum(u, bump(u));", 0, { 1222 } },
  { "b[0] = sumr(u, bump(u));", 0, { 2222 } },
  { "b[0] = sum(bump(u), u);", 0, { 2222 } },
  { "b[0] = sum(u, give(u));", 0, { 1222 } },
  { "b[0] = sumr(give(u), u);", 0, { 2222 } },
  { "auto f = [&](int a) { q = q * 2 + a; return q; }; b[0] = f(1) * 100 + f(q);", 0, { 1133 } },
  { "auto f = [&](int a) { q = q * 2 + a; return q; }; b[f(1) & 3] = f(q); b[3] += q;",
    0, { 0, 0, 0, 46 } },
  { "auto f = [=](int a) { return q + a; }; b[0] = f(q++); b[1]=q;", 0, { 10, 6 } },
  { "b[q++ & 3] -= q++; b[0] += q;", 0, { 7, 0, -5 } },
  { "b[--q & 3] ^= q; b[3] += q;", 0, { 5, 0, 0, 4 } },
  { "int *p = b; *p++ += *p + 1; b[3] = p - b;", 0, { 1, 0, 0, 1 } },
  { "b[i] += i++ + 1; b[3]=i;", 0, { 0, 1, 0, 1 } },
  { "b[i = 2] += i + 3;", 0, { 0, 0, 3 } },
  { "b[i++] = b[i++] = i; b[3] = i;", 0, { 0, 0, 0, 2 } },
  { "m[i++][i++] += i; b[0]=m[0][1]; b[1]=i; b[2]=m[0][0];", 0, { 2, 2, 1 } },
  { "m[i][i++] = 50; b[0]=m[0][0]; b[1]=m[1][0]; b[2]=m[0][1];", 0, { 50, 4, 2 } },
  { "m[i++][i] = 50; b[0]=m[0][0]; b[1]=m[1][0]; b[2]=m[0][1];", 0, { 1, 4, 50 } },
  { "int *p = m[1]; b[0] = p[(p = m[2], 1)];", 0, { 5 } },
  { "int *p = m[1]; p[(p = m[2], 1)] = 60; b[0]=m[1][1]; b[1]=m[2][1];", 0, { 60, 8 } },
  { "b[0] = (q, q++, q) + s;", 0, { 13 } },
  { "b[0] = (q = 2) ? q : -q;", 0, { 2 } },
  { "b[0] = q++ < 6 && q == 6; b[1]=q;", 0, { 1, 6 } },
  { "b[q > s ? q++ : s++ & 1] = q * 10 + s; b[3]=q; b[2]=s;", 0, { 0, 57, 8, 5 } },
  { "P t = {q++, q}, t2 = {t.x++, t.x}; b[0]=t.x; b[1]=t.y; b[2]=t2.x; b[3]=t2.y;",
    0, { 6, 6, 5, 6 } },
  { "int a[4] = {q++, q++, q}; b[0]=a[0];b[1]=a[1];b[2]=a[2];", 0, { 5, 6, 7 } },
  { "P t[2] = {{q++, q}, {q++, q}}; b[0]=t[0].x; b[1]=t[0].y; b[2]=t[1].x;b[3]=t[1].y;",
    0, { 5, 6, 6, 7 } },
  { "e[0] = e[1], e[1] = e[0]; b[0]=e[1].x;", 0, { 2 } },
  { "const P &r = P(u); u.x = 9; b[0] = r.x;", 0, { 1 } },
  { "const P &r = static_cast<P>(u); u.x = 9; b[0] = r.x;", 0, { 1 } },
  { "const P &r = (P)u; u.x = 9; b[0] = r.x;", 0, { 1 } },
  { "P &&r = P(u); u.x = 9; b[0] = r.x; r.x = 5; b[1] = u.x;", 0, { 1, 9 } },
  { "const int &r = (int)q; q = 9; b[0] = r;", 0, { 5 } },
  { "const int &r = int(q); q = 9; b[0] = r;", 0, { 5 } },
  { "int &&r = static_cast<int>(q); q = 9; b[0] = r; r = 4; b[1] = q;", 0, { 5, 9 } },
  { "const P &r = give(u); u.x = 9; b[0] = r.x;", 0, { 2 } },
  { "const P &r = (q, u); u.x = 9; b[0] = r.x;", 0, { 9 } },
  { "const P &r = (q ? u : w); u.x = 9; b[0] = r.x;", 0, { 9 } },
  { "const P &r = P{u}; u.x = 9; b[0] = r.x;", 0, { 1 } },
  { "b[0] = sumr(P(u), bump(u));", 0, { 1222 } },
  { "b[0] = sumr(P{u}, bump(u));", 0, { 1222 } },
  { "b[0] = sumr((P)u, w);", 0, { 1234 } },
  { "auto &&r = P(u); u.x = 9; b[0] = r.x;", 0, { 1 } },
  { "bump((P &)u); b[0] = u.x;", 0, { 2 } },
  { "P(u).x + 1; b[0] = give(static_cast<P &>(u)).x + P(u).x; b[1]=u.x;", 0, { 4, 2 } },
  { "O o(1,2); const O &r = O(o); o.x = 8; b[0] = r.x;", 0, { 1 } },
  { "O o(1,2); O &&r = static_cast<O>(o); r.x = 8; b[0] = o.x;", 0, { 1 } },
  { "auto r = (u.x = 7, u); u.x = 3; b[0] = r.x;", 0, { 7 } },
  { "C c; c.x = 3; c.y = 4; B d; d = c; const B &r = c; c.x = 5; b[0] = d.x; b[1] = r.x;",
    0, { 3, 5 } },
  { "C c; c.x = 3; const B &r = B(c); c.x = 5; b[0] = r.x;", 0, { 3 } },
  { "C c; c.x = 3; const B &r = static_cast<const B &>(c); c.x = 5; b[0] = r.x;", 0, { 5 } },
  { "C c; c.x = 3; c.y=1; C d[2]={{{0},5},{{1},7}}; B k; k = d[0]; d[--d[1].x] = (c.y = 4, "
    "c); b[0]=d[0].y;", 0, { 4 } },
  { "B k[2]; k[0].x=4; k[1].x=1; C d[2]={{{0},5},{{1},7}}; k[--d[1].x] = d[1]; b[0] = "
    "k[0].x;", 1, { 0 } },
  { "P t[2] = {{1, 2}, {3, 4}}; t[0] = P{t[1].x, t[0].x}; b[0] = t[0].x; b[1] = t[0].y;",
    0, { 3, 1 } },
  { "P t = {1, 2}; t = {t.y, t.x}; b[0] = t.x; b[1] = t.y;", 0, { 2, 1 } },
  { "P t = {1, 2}; t = P{t.y, t.x}; b[0] = t.x; b[1] = t.y;", 0, { 2, 1 } },
  { "A t = {1, {2, 3}}; t = {t.v[0], {t.n, t.v[0]}}; b[0] = t.n; b[1] = t.v[0]; b[2] = "
    "t.v[1];", 0, { 2, 1, 2 } },
  { "u = (q++, u.x = 9, w); b[0] = u.x; b[1] = q;", 0, { 3, 6 } },
  { "P t = (u.x = 9, u); b[0] = t.x;", 0, { 9 } },
  { "(q ? u : w) = (q = 0, P{7, 8}); b[0] = u.x; b[1] = w.x;", 0, { 1, 7 } },
  { "(u = w).x = 9; b[0] = u.x; b[1] = u.y;", 0, { 9, 4 } },
  { "(u = w) = {5, 6}; b[0] = u.x; b[1]=w.x;", 0, { 5, 3 } },
  { "(q = 3) = 4; b[0] = q;", 0, { 4 } },
  { "int x = (u = w).y; b[0] = x;", 0, { 4 } },
  { "u = w = {q++, q++}; b[0] = u.x; b[1] = w.y;", 0, { 5, 6 } },
  { "bump(u = w).y = 3; b[0]=u.x; b[1]=u.y; b[2]=w.x;", 0, { 4, 3, 3 } },
  { "O o(1,2), t(3,4); (o = t).x = 9; b[0]=o.x; b[1]=t.x;", 0, { 9, 3 } },
  { "O o(1,2), t(3,4), z(5,6); o = t = z; b[0]=o.x; b[1]=t.x;", 0, { 5, 5 } },
  { "V v{1,2}, t{3,4}; v = {q++, q}; b[0]=v.x; b[1]=v.y;", 0, { 5, 6 } },
  { "V v{1,2}, t{3,4}; v += (t.x = 8, t); b[0]=v.x;", 0, { 9 } },
  { "P t[2]={{1,2},{3,4}}; t[t[0].x] = t[t[1].x = 0]; b[0]=t[1].x; b[1]=t[0].x;", 0, { 1, 1 } },
  { "P *p = q ? &u : &w, *z = q ? &w : &u; (p->x += 3, *z) = *p; b[0]=w.x; b[1]=u.x;",
    1, { 4, 4 } },
  { "e[i++] = e[i + 1]; b[0]=e[0].x; b[1]=i;", 0, { 2, 1 } },
  { "e[e[1].x - 1] = e[1]; b[0]=e[0].x; b[1]=e[0].y;", 0, { 1, 10 } },
  { "e[--q - 4] = e[q - 4]; b[0]=e[0].x; b[1]=q;", 0, { 2, 4 } },
  { "S z(1); b[0] = (z.up(1) + z).x;", 0, { 22 } },
  { "S z(1); b[0] = (S(z) + z.up(3)).x;", 0, { 14 } },
  { "S z(1); b[0] = z.up(1) >> z.up(3).x;", 0, { 55 } },
  { "S z(1); b[0] = (z << 2 << z.x).x; b[1] = z.x;", 0, { 132, 132 } },
  { "S z(1), o(2); b[0] = (z.up(1) + (q ? o : z)).x;", 0, { 22 } },
  { "S z(1), o(2); b[0] = ((q ? z : o) + z.up(1)).x;", 0, { 22 } },
  { "b[0] = sumr(q ? u : w, bump(u));", 0, { 2222 } },
  { "b[0] = sumr((q ? u : w), bump(w));", 0, { 1244 } },
  { "b[0] = sumr((i ? u : w), bump(w));", 0, { 4444 } },
  { "S z[2]={1,2}; z[i++] -= z[i]; b[0]=z[0].x; b[1]=z[1].x;", 0, { 2, 2 } },
  { "S z[2]={1,2}; z[(z[1].x = 5) - 5] -= z[1]; b[0]=z[0].x; b[1]=z[1].x;", 0, { -2, 5 } },
  { "V o[3]={{1,10},{2,20},{0,30}}; o[--o[1].x] = (q ? o[1] : o[2]); b[0]=o[1].x; "
    "b[1]=o[1].y; b[2]=o[0].x;b[3]=o[0].y;", 0, { 2, 20, 1, 10 } },
  { "O o[3]={{1,10},{2,20},{0,30}}; o[--o[1].x] = (q ? o[1] : o[2]); b[0]=o[1].x; "
    "b[1]=o[1].y; b[2]=o[0].x;b[3]=o[0].y;", 0, { 1, 20, 1, 10 } },
  { "P t[1] = {1, 2}; t[t[0].x - 1 + (t[0].y = 0)] = P{t[0]}; b[0]=t[0].x; b[1]=t[0].y;",
    0, { 1, 2 } },
  { "e[--e[1].x] = P{e[1]}; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 0, { 1, 10, 2 } },
  { "const P &r = P{u}; u.x = 9; b[0] = r.x; b[1] = r.y;", 0, { 1, 2 } },
  { "C c; c.x=3; c.y=4; B k{c}; c.x = 7; b[0]=k.x;", 0, { 3 } },
  { "C c; c.x=3; c.y=4; B k = B(c); c.x = 7; b[0]=k.x; b[1]=static_cast<B>(c).x;", 0, { 3, 7 } },
  { "C c; c.x=3; c.y=4; const B &k = c; c.x = 7; b[0]=k.x;", 0, { 7 } },
  { "C c; c.x=3; c.y=4; B &k = c; k.x = 7; b[0]=c.x; b[1]=c.y;", 0, { 7, 4 } },
  { "P(u).x + 0; give((P &)u); b[0] = P(u).sum() + u.sum(); b[1] = P(bump(u)).x; b[2] = "
    "u.x;", 0, { 12, 3, 3 } },
  { "S z(1); S(z).up(3); b[0] = z.x; b[1] = S(z).up(3).x; b[2] = z.x;", 0, { 1, 4, 1 } },
  { "S z(1); static_cast<S>(z).x; b[0] = ((S)z).up(4).get(1); b[1]=z.x;", 0, { 51, 1 } },
  { "g[1].v[0] = 9; g[0] = A{g[1]}; b[0] = g[0].v[0]; b[1]=g[0].n;", 0, { 9, 1 } },
  { "A t{g[1]}; g[1].v[1] = 0; b[0]=t.v[1]; b[1]=t.n;", 0, { 40, 1 } },
  { "const A &t = A(g[1]); g[1].v[1] = 0; b[0]=t.v[1]; b[1]=t.n;", 0, { 40, 1 } },
  { "g[--g[1].n] = A(g[1]); b[0]=g[0].n; b[1]=g[0].v[0]; b[2]=g[1].n;", 0, { 1, 30 } },
  { "P *p = q ? e : e + 1; int k = 1; (*(p + k--)) = *(p + k); b[0]=e[1].x; b[1]=e[0].x; "
    "b[2]=k;", 0, { 2, 1 } },
  { "P t = u; (t.x = 5, u.x = 6, w) = u; b[0]=w.x; b[1]=t.x;", 1, { 6, 5 } },
  { "int2 v = {1, 2}, t = {3, 4}; (v.x = 7, t) = v; b[0]=t.x; b[1]=t.y;", 1, { 7, 2 } },
  { "int2 v[2] = {{0, 2}, {1, 4}}; v[--v[1].x] = v[1]; b[0]=v[0].x; b[1]=v[0].y;", 1, { 0, 4 } },
  { "int2 v[2] = {{0, 2}, {1, 4}}; v[--v[1].x] = make_int2(v[1].x, 5); b[0]=v[0].x; "
    "b[1]=v[0].y;", 0, { 1, 5 } },
  { "b[0] = q++ * 2 + s++; b[1] = q + s;", 0, { 17, 14 } },
  { "b[0] = (q = 2) * (s = 3) + i++; b[1] = q + s + i;", 0, { 6, 6 } },
  { "(next(&q) ? bump(u) : e[1]) = ((b[1] = --q) ? (u = P(e[1])) : e[2]); "
    "b[0]=u.x; b[1]=u.y; b[2]=q;", 1, { 3, 20, 21 } },
  { "b[0] = sumr((i++ ? u : bump(w)), bump(w)); b[1] = i;", 0, { 5454, 1 } },
  { "b[0] = sum((i++ ? u : bump(w)), bump(w)); b[1] = i;", 0, { 4454, 1 } },
  { "int &r = i++ ? q : ref(s); r += 100; b[0]=q; b[1]=s;", 0, { 5, 108 } },
  { "(q++ ? b[i++] : s) += i; b[0] += 10; b[1] = i; b[2] = s;", 0, { 10, 1, 7 } },
  { "(s++ ? m[i++][q - 4] : q) = i + 50; b[0] = m[0][1]; b[1] = m[0][2]; b[2] = i;", 0,
    { 50, 3, 1 } },
  { "(--q ? e[--e[1].x] : e[2]) = e[1]; b[0]=e[0].x; b[1]=e[0].y; b[2]=e[1].x;", 1,
    { 1, 10, 1 } },
};
enum { ROWS = sizeof rows / sizeof *rows };

static void fault(const row *r, const char *where, const int *got) {
  failed++;
  fprintf(stderr, "FAILED: %s: %d %d %d %d, not %d %d %d %d: %s\n", where, got[0], got[1],
          got[2], got[3], r->want[0], r->want[1], r->want[2], r->want[3], r->body);
}

static void compare(const row *r, const char *where, const int *got) {
  if (memcmp(got, r->want, sizeof r->want)) fault(r, where, got);
  else passed++;
}

/* ---- the CPU --------------------------------------------------------------------------------- */

static void run(const row *r, const fl_kfunc *f) {
  fl_error e = { 0 };
  int y[MOST] = { 0 };
  const fl_lane_memory at = MEM(y);
  const fl_lane_arg arg = { NULL, &at };
  const fl_lane_launch l = { .args = &arg, .n_args = 1, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
  fl_lane_code *code = f->has_body ? fl_lane_compile(&memory, f, &e) : NULL;
  if (!f->has_body) fprintf(stderr, "line %d: %s\n", f->refusal_line, f->refusal);
  check(code && fl_lane_run(&memory, code, &l, &report, &e), r->body, __LINE__);
  compare(r, "the CPU", y);
  fl_lane_free(code);
}

/* ---- NVRTC ----------------------------------------------------------------------------------- */

static nvrtc compiler;

static char *ptx_of(const char *text) {
  static const char *const options[] = { "--gpu-architecture=compute_90", "-fmad=false",
                                         "-default-device", "-w" };
  void *program = NULL;
  size_t n = 0;
  char *ptx = NULL;
  if (compiler.create(&program, text, "kernel.cu", 0, NULL, NULL)) return NULL;
  const int wrong = compiler.compile(program, 4, options);
  int (*const size)(void *, size_t *) = wrong ? compiler.log_size : compiler.ptx_size;
  if (!size(program, &n)) ptx = malloc(n + 1);
  if (ptx) (wrong ? compiler.log : compiler.ptx)(program, ptx);
  if (wrong && ptx) fprintf(stderr, "%s\n", ptx);
  check(!wrong, "NVRTC compiles the text", __LINE__);
  compiler.destroy(&program);
  return ptx;
}

/* Reads "17" or "%r3", whose value was noted. */
static int operand(const char *s, const int *value) {
  int k = 0;
  if (sscanf(s, " %%r%d", &k) == 1) return k < MOST_REGISTERS ? value[k] : -1;
  return sscanf(s, " %d", &k) == 1 ? k : -1;
}

/* Notes what a line of PTX moves to a register or stores to y. Returns the number of stores. */
static int follow(const char *text, int *value, int *y) {
  char line[200];
  snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
  int k = 0, v = 0, wide = 1, at = 0, n = 0;
  if (sscanf(line, " mov.%*[bsu]32 %%r%d, %d", &k, &v) == 2 && k < MOST_REGISTERS) value[k] = v;
  if (!strstr(line, "st.global")) return 0;
  sscanf(line, " st.global.v%d", &wide);
  const char *const plus = strchr(line, '+'), *s = strchr(line, ']');
  if (plus && plus < s) at = atoi(plus + 1) / 4;
  for (s = strchr(s, ' '); s && n < wide && at + n < MOST; n++) {
    while (*s == ' ' || *s == '{' || *s == ',') s++;
    y[at + n] = operand(s, value);
    s = strchr(s, ',');
  }
  return n;
}

/* Compares the values that kernel 'name' in the PTX stores with those of the row r. */
static void look(const row *r, const char *ptx, const char *name) {
  static int value[MOST_REGISTERS];
  char entry[40];
  int y[MOST] = { -1, -1, -1, -1 }, n = 0;
  memset(value, 0, sizeof value);
  snprintf(entry, sizeof entry, ".entry %s(", name);
  const char *line = ptx ? strstr(ptx, entry) : NULL;
  for (; line && *line != '}'; line = strchr(line, '\n'), line += line != NULL)
    n += follow(line, value, y);
  check(n == MOST, "all values of a kernel are known when it is compiled", __LINE__);
  compare(r, r->tree ? "NVRTC, of the tree" : "NVRTC, of the text", y);
}

/* ---- all kernels ----------------------------------------------------------------------------- */

static void put_kernels(fl_text *t) {
  fl_text_puts(t, before);
  for (int k = 0; k < ROWS; k++)
    fl_text_printf(t, "__global__ void k%d(int *y) {\n%s%s\n"
                      "for (int j = 0; j < %d; ++j) y[j] = b[j];\n}\n",
                   k, first, rows[k].body, MOST);
}

static void judge(fl_kunit *u, int has_compiler) {
  char *all = NULL;
  for (int k = 0; k < ROWS; k++) {
    fl_kfunc *f = u->source->kernels[k];
    fl_kfunction *given = fl_kfunction_given(u, f);
    check(given != NULL, "the kernel is made", __LINE__);
    if (!given) continue;
    run(&rows[k], f);
    check(f->reordered == rows[k].tree, rows[k].body, __LINE__);
    check(f->reordered == !strstr(given->text, rows[k].body), rows[k].body, __LINE__);
    if (has_compiler && f->reordered) {
      char *own = ptx_of(given->text);
      look(&rows[k], own, f->name);
      free(own);
    } else if (has_compiler) {
      if (!all) all = ptx_of(given->text);
      look(&rows[k], all, f->name);
    }
    fl_kfunction_release(given);
  }
  free(all);
}

/* A kernel printed from its tree with many costly functions calls them, since NVRTC takes long for
** each that it writes out. */
static void costly_functions_are_called(void) {
  fl_error e = { 0 };
  fl_text t;
  fl_text_init(&t, &memory);
  fl_text_puts(&t, "__global__ void k(const float *x, float *y) {\nfloat s = 0;\n");
  for (int i = 0; i < 30; i++) fl_text_printf(&t, "s += sinf(x[%d]);\n", i);
  fl_text_puts(&t, "y[0] = s;\n}");
  fl_ksource *s = fl_text_str(&t) ? fl_ksource_parse(&memory, &e, t.at, t.n) : NULL;
  fl_kunit *u = s ? fl_kunit_new(&memory, s, "costly.cu", 0, NULL, 0) : NULL;
  fl_kfunction *k = u ? fl_kfunction_given(u, u->source->kernels[0]) : NULL;
  check(k && fl_kfunction_reprint(k), "the kernel is printed", __LINE__);
  char *ptx = k ? ptx_of(k->text) : NULL;
  check(ptx && strstr(ptx, "fl_apart_sinf"), "sinf is a separate function in PTX", __LINE__);
  free(ptx);
  fl_kfunction_release(k);
  fl_kunit_release(u);
  fl_text_free(&t);
}

int main(void) {
  fl_error e = { 0 };
  fl_text t;
  fl_text_init(&t, &memory);
  put_kernels(&t);
  const char *text = fl_text_str(&t);
  fl_ksource *s = text ? fl_ksource_parse(&memory, &e, text, t.n) : NULL;
  fl_kunit *u = s ? fl_kunit_new(&memory, s, "order.cu", 0, NULL, 0) : NULL;
  const int has_compiler = nvrtc_open(&compiler);
  if (!has_compiler) printf("no NVRTC here: its order is not read from its PTX\n");
  check(u && u->source->n_kernels == ROWS, "all kernels are found", __LINE__);
  if (u && u->source->n_kernels == ROWS) judge(u, has_compiler);
  if (has_compiler) costly_functions_are_called();
  fl_kunit_release(u);
  fl_text_free(&t);
  check(memory.live_blocks == 0, "no memory is left", __LINE__);
  printf("kernel_order: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
