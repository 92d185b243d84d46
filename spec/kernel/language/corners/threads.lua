--- Kernels for which a wrong adjoint is likely, used by kernel_corners_spec.lua, which describes
-- their fields: elements that several threads write, threads that have ended, operations of a warp.
local flame = require "flame"

local function f64(n, shift)
  local list = {}
  for j = 1, n do list[j] = (shift or 0) + math.sin(1.7 * j + 0.3) + 0.01 * j end
  return flame.tensor(list, { dtype = "f64" })
end

local function ints(list) return flame.tensor(list, { dtype = "i32" }) end

return {
  { title = "elements that several threads write",
    { "two stmts, same value, shared", [[__shared__ double s[2]; s[0] = 1; s[1]=2; __syncthreads(); double a = s[0]*s[0]*x[i];
      __syncthreads(); if (t==0) s[0] = x[0]; if (t==1) s[0] = x[0]; __syncthreads(); y[i] = a * s[0] * s[0];]] },
    { "one stmt, all threads", [[__shared__ double s; if (t==0) s = x[1]; __syncthreads(); double a = s*s*x[i]; __syncthreads(); s =
      x[0]; __syncthreads(); y[i] = a * s * s;]] },
    { "one stmt, all threads, read without barrier", [[__shared__ double s; if (t==0) s = x[1]; __syncthreads(); double a = s*s*x[i];
      __syncthreads(); s = x[0]; y[i] = a * s * s;]] },
    { "one stmt, pairs of threads, read under a condition on it", [[__shared__ double s[6]; s[t/2] = x[t/2]; __syncwarp();
      double a = s[t/2] > 0.1 || s[t/2] < -0.6 ? s[t/2]*s[t/2] : x[i]; __syncwarp(); s[t/2] = x[t/2 + 6]; __syncwarp();
      y[i] = a * s[t/2] * s[t/2];]] },
    { "a loop whose condition has a barrier", [[int j = 0; double a = x[i]; do { a = a * x[(i + j) % n] + 0.1; j++; }
      while (__syncthreads_and(j < 3)); y[i] = a;]] },
    { "inactive shared, all write constant", [[__shared__ double s; if (t==0) s = 1; __syncthreads(); double a = s*x[i]*x[i];
      __syncthreads(); s = 2; __syncthreads(); y[i] = a * s * x[i];]] },
    { "int flag set by several", [[__shared__ int f; if (t==0) f = 0; __syncthreads(); if (x[i] > 0) f = 1; __syncthreads(); double a
      = f ? x[i]*x[i] : x[i]; __syncthreads(); if (t==0) f = 0; __syncthreads(); if (x[i] < -0.5) f = 1; __syncthreads(); if (f) a *=
      x[i]; y[i] = a;]] },
    { "int table rewritten by several", [=[__shared__ int f[3]; if (t<3) f[t] = t; __syncthreads(); double a = x[f[t%3]]*x[i];
      __syncthreads(); f[t%3] = 5 - t%3; __syncthreads(); y[i] = a*x[f[t%3]];]=] },
    { "global, all threads same value, no barrier",
      "double a = y[i] * y[i]; y[0] = x[0]; z[i] = a * y[0] * y[0];",
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "global, other element then same value",
      "double a = i ? y[i] * y[i] : 1.; y[0] = x[0]; z[i] = a * y[0] * y[0];",
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "global, other element then same value, blocks",
      "double a = i ? y[i] * y[i] : 1.; y[0] = x[0]; z[i] = a * y[0] * y[0];",
      sig = "const double *x, double *y, double *z, int n", grid = { 3 }, block = { 4 },
      inout = { "y" } },
    { "global, other element then same value with if", [[double a = i ? y[i] * y[i] : 1.; if (x[i] > -5) y[0] = x[0]; z[i] = a * y[0]
      * y[0];]],
      sig = "const double *x, double *y, double *z, int n", grid = { 3 }, block = { 4 },
      inout = { "y" } },
    { "global, two stmts", "double a = i ? y[i] * y[i] : 1.; if (i % 2 == 0) y[0] = x[0]; else y[0] = x[0]; z[i] = a * y[0] * y[0];",
      sig = "const double *x, double *y, double *z, int n", grid = { 3 }, block = { 4 },
      inout = { "y" } },
    { "permutation in shared", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); int j = at[t]; s[j] = s[j] * s[j];
      __syncthreads(); y[i] = s[t] * s[(t+1)%12];]],
      sig = "const double *x, const int *at, double *y, int n",
      rest = { ints { 5, 4, 3, 2, 1, 0, 6, 7, 8, 9, 10, 11 }, 12 } },
    { "sweep: last writer known", [[__shared__ double s[4]; if (t < 4) s[t] = x[t]; __syncthreads(); double a = s[t/3] * s[(t/3+1)%4];
      __syncthreads(); s[t / 3] = x[t/3 + 4]; __syncthreads(); y[i] = a * s[t/3] * s[3-t/3];]] },
    { "loop flag until", [[__shared__ int go; double v = x[i]; for (int r = 0; r < 20; ++r) { if (t == 0) go = 0; __syncthreads(); if
      (fabs(v) > 0.2) go = 1; __syncthreads(); int g = go; __syncthreads(); if (!g) break; v = 0.7 * sin(v) ; } y[i] = v * v;]] },
    { "loop broadcast", [[__shared__ double m; double v = x[i]; for (int r = 0; r < 5; ++r) { if (t == r) m = v * v; __syncthreads();
      v = v * m + 0.1; __syncthreads(); } y[i] = v;]] },
    { "loop broadcast by all", [[__shared__ double m; double v = x[i]; for (int r = 0; r < 5; ++r) { m = x[r]; __syncthreads(); v = v
      * m * m + 0.1; __syncthreads(); } y[i] = v;]] },
    { "loop broadcast by all, no barrier before use", [[__shared__ double m; double v = x[i]; for (int r = 0; r < 5; ++r) {
      __syncthreads(); m = x[r]; v = v * m * m + 0.1; } y[i] = v;]] },
    { "loop table by several", [=[__shared__ int q[4]; double v = x[i]; for (int r = 0; r < 5; ++r) { q[t & 3] = (t + r) & 3;
      __syncthreads(); v = v * x[q[(t+1)&3]] + 0.1; __syncthreads(); } y[i] = v;]=], n = 12 },
    { "two stores of two threads, different elements by data", [=[__shared__ double s[12]; s[t]=1; __syncthreads(); double a =
      s[t]*s[t]*x[i]; __syncthreads(); s[at[t]] = x[i]; __syncthreads(); y[i] = a*s[t]*s[t];]=],
      sig = "const double *x, const int *at, double *y, int n",
      rest = { ints { 5, 4, 3, 2, 1, 0, 6, 7, 8, 9, 10, 11 }, 12 } },
    { "min found, index flag", [[__shared__ int w; __shared__ double b; if (t==0) { b = x[0]; for (int j = 1; j < n; ++j) b = fmin(b,
      x[j]); } __syncthreads(); if (x[i] == b) w = t; __syncthreads(); double v = x[w]*x[i]; __syncthreads(); if (x[i] > b) w = 0;
      __syncthreads(); y[i] = v * x[w];]] },
    { "scalar broadcast twice", [[__shared__ double m; if (t==0) m = x[0]*x[1]; __syncthreads(); double a = x[i]*m*m; __syncthreads();
      if (t==3) m = a*x[2]; __syncthreads(); y[i]=a*m*m;]] },
    { "scalar broadcast by data", [[__shared__ double m; if (t==0) m = x[0]*x[1]; __syncthreads(); double a = x[i]*m*m;
      __syncthreads(); if (x[i] < x[(i+1)%12] && t < 2) m = x[2]; __syncthreads(); y[i]=a*m*m;]] },
    { "held element race-free, all threads", [[double a = 0; for (int j = 0; j < 3; ++j) { y[0] = x[1]*x[1]; a += y[0] * y[0]; } z[i]
      = a;]], sig = "const double *x, double *y, double *z, int n", inout = { "y" },
      refuses = "several threads may write and whose old value is needed" },
    { "held element race-free linear use", [[double a = 0; for (int j = 0; j < 3; ++j) { y[0] = x[1]*x[1]; a += y[0] * x[j]; } z[i] =
      a;]], sig = "const double *x, double *y, double *z, int n", inout = { "y" },
      refuses = "several threads may write and whose old value is needed" },
    { "held element, never read back", "double a = x[i]; for (int j = 0; j < 3; ++j) { y[0] = x[1]*x[1]; a *= x[j]; } z[i] = a;",
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "held element by pairs of threads", [[double a = 1; for (int j = 0; j < 3; ++j) { y[i/2] = x[i/2]; a = a * y[i/2] + 1; } z[i] =
      a;]], sig = "const double *x, double *y, double *z, int n", inout = { "y" },
      refuses = "several threads may write and whose old value is needed" },
    { "all write shared scalar in loop w/o barrier", [[__shared__ double m; double a = x[i]; for (int j = 0; j < 3; ++j) { m =
      x[1]*x[2]; a = a * m + m; } y[i] = a;]] },
    { "all write shared scalar, loop carried through it", [[__shared__ double m; m = x[0]; __syncthreads(); double a = x[i]; for (int
      j = 0; j < 3; ++j) { double v = m; __syncthreads(); m = v * 0.5 + x[j]; __syncthreads(); a = a * m + m * m; } y[i] = a;]] },
    { "zero fill by all then accumulate", [[__shared__ double s[4]; for (int j = 0; j < 4; ++j) s[j] = 0; __syncthreads(); if (t < 4)
      s[t] = x[t]*x[t]; __syncthreads(); double a = s[i%4]; __syncthreads(); for (int j = 0; j < 4; ++j) s[j] = 1; __syncthreads(); if
      (t < 4) s[t] = a * x[t]; __syncthreads(); y[i] = a * s[(i+1)%4] * s[i%4];]] },
    { "zero fill by strided loop, halo by several", [[__shared__ double s[16]; for (int j = t; j < 16; j += 12) s[j] = 0;
      __syncthreads(); s[t+2] = x[i]; __syncthreads(); double a = s[t]*s[t+2]*s[t+4]; __syncthreads(); if (t < 4) s[t*4] = 0;
      __syncthreads(); y[i] = a + s[t+1]*s[t+3];]] },
    { "padding by every thread", [[__shared__ double s[14]; s[t+1] = x[i]; s[0] = 0; s[13] = 0; __syncthreads(); double a =
      s[t]*s[t+2]; __syncthreads(); s[t+1] = a; s[0] = 1; s[13] = 2; __syncthreads(); y[i] = s[t]*s[t+1]*s[t+2];]] },
    { "padding in rounds", [[__shared__ double s[14]; double v = x[i]; for (int r = 0; r < 3; ++r) { s[t+1] = v; s[0] = 0.5; s[13] =
      r; __syncthreads(); v = v + 0.3 * s[t]*s[t+2]; __syncthreads(); } y[i] = v;]] },
    { "uniform flag in shared, while loop", [[__shared__ int go; double v = x[i]; do { __syncthreads(); go = 0; __syncthreads(); v =
      0.6 * v * v + 0.1; if (v > 0.3) go = 1; __syncthreads(); } while (go); y[i] = v;]] },
    { "bool array votes by hand", [[__shared__ bool b[4]; if (t < 4) b[t] = false; __syncthreads(); if (x[i] > 0) b[t % 4] = true;
      __syncthreads(); double v = b[0] && b[2] ? x[i]*x[i] : x[i]; __syncthreads(); b[t % 4] = x[t % 4] > 0; __syncthreads(); if
      (b[(t+1)%4]) v *= x[i]; y[i] = v;]] },
    { "argmax index in shared by equal compare", [[__shared__ double s[12]; __shared__ int w; s[t] = x[i]; __syncthreads(); for (int d
      = 8; d; d /= 2) { if (t < d && t + d < 12) s[t] = fmax(s[t], s[t+d]); __syncthreads(); } if (x[i] == s[0]) w = t;
      __syncthreads(); y[i] = x[w] * x[i] * s[0];]] },
    { "two threads, one element, two statements in one phase, later overwritten", [[__shared__ double s[2]; if (t == 0) s[0] = x[1];
      if (t == 5) s[0] = x[1]; __syncthreads(); double a = s[0]*s[0]; __syncthreads(); if (t == 3) s[0] = a*x[i]; __syncthreads();
      double b = s[0]*s[0]; __syncthreads(); if (t == 2) s[0] = b; else if (t == 7) s[0] = b; __syncthreads(); y[i] = a*b*s[0];]] },
    { "select stores the same", [[__shared__ double s[3]; s[t % 3] = t > 5 ? x[t % 3] : x[t % 3]; __syncthreads(); double a =
      s[(t+1)%3]*s[t%3]; __syncthreads(); s[t % 3] = a * 0 + x[t%3 + 3]; __syncthreads(); y[i] = a * s[(t+2)%3];]] },
    { "all threads of all blocks write one out", "y[0] = x[1]*x[2]; if (i) y[i] = x[i];",
      grid = { 3 }, block = { 4 } },
    { "all write whole output", "for (int j = 0; j < n; ++j) y[j] = x[j]*x[j];" },
    { "all write whole output twice", [[for (int j = 0; j < n; ++j) y[j] = x[j]*x[j]; __syncthreads(); for (int j = 0; j < n; ++j)
      y[j] = sin(x[j]);]] },
    { "same value via two ways", "if (i % 2) y[i/2] = x[i/2]*x[i/2]; else y[i/2] = x[i/2]*x[i/2]; if (i > 5) y[i] = 0;" },
    { "index table then all read", [=[__shared__ int p[12]; p[t] = (t*5)%12; __syncthreads(); double v = x[p[t]]; __syncthreads();
      p[p[t]] = t; __syncthreads(); v *= x[p[t]]; __syncthreads(); p[t % 6] = t % 6; __syncthreads(); y[i] = v * x[p[t]];]=] },
    { "int table in loop rewritten by several", [=[__shared__ int p[4]; double v = x[i]; for (int r = 0; r < 4; ++r) { p[t % 4] = (t +
      r) % 4; __syncthreads(); v = v * x[p[r]] + x[p[(t+1)%4]]; __syncthreads(); } y[i] = v;]=] },
    { "nested arrays s[p[t]] with several writers", [=[__shared__ int p[4]; __shared__ double s[4]; p[t%4] = t%4; s[t%4] = x[t%4];
      __syncthreads(); double a = s[p[t%4]] * s[p[(t+1)%4]]; __syncthreads(); p[t%4] = 3 - t%4; s[t%4] = x[t%4 + 4]; __syncthreads();
      y[i] = a*s[p[t%4]]*x[p[t%4]];]=] },
    { "guarded load of meeting array in ?:", [[__shared__ double s[4]; s[t%4] = x[t%4]; __syncthreads(); double a = t < 8 ?
      s[t/2]*s[t/2] : 1; __syncthreads(); s[t%4] = x[t%4 + 4]; __syncthreads(); y[i] = a * (t > 3 ? s[t/4 + 1] * s[0] : s[3]);]] },
    { "guarded load of meeting array in &&", [[__shared__ double s[4]; s[t%4] = x[t%4]; __syncthreads(); double a = (t < 4 && s[t] >
      0) ? s[t]*s[t] : x[i]; __syncthreads(); s[t%4] = x[t%4 + 4]; __syncthreads(); y[i] = a * (t >= 4 || s[t] < 0.5 ? s[1] :
      s[t]*s[t]);]] },
    { "struct shared by all", [[__shared__ S s; if (t == 0) { s.a = x[0]; s.b = x[1]; } __syncthreads(); double v = s.a*s.b*x[i];
      __syncthreads(); s.a = x[2]; s.b = x[3]; __syncthreads(); y[i] = v*s.a*s.b;]],
      before = "struct S { double a, b; };" },
    { "2-D shared rows by several", [[__shared__ double s[3][4]; s[t%3][t%4] = x[(t%3)*4 + t%4]; __syncthreads(); double a =
      s[t/4][t%4]*s[2][3]; __syncthreads(); s[t%3][0] = x[t%3]; __syncthreads(); y[i] = a*s[t%3][t/3]*s[1][0];]] },
    { "global read own, barrier, all store scalar", [[double a = y[i]*y[i]; __syncthreads(); y[3] = x[0]; __syncthreads(); double b =
      y[3]*y[3]; __syncthreads(); y[3] = x[1]; __syncthreads(); z[i] = a*b*y[3]*y[3];]],
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "two blocks write one border", "int j = blockIdx.x * 3 + t; y[j] = x[j]*x[j]; ", n = 12,
      shape = { 10 }, grid = { 3 }, block = { 4 } },
    { "two blocks write one border, inout read own before", [[int j = blockIdx.x * 3 + t; double a = t > 0 && t < 3 ? y[j] : 1; if (t
      == 0 || t == 3) y[j] = x[j]; else y[j] = a*a; if (j < 10) z[j] = y[j]*y[j];]],
      sig = "const double *x, double *y, double *z, int n", grid = { 3 }, block = { 4 },
      inout = { "y" } },
    { "inout cleared by all after use", [[double a = y[i] * x[i]; __syncthreads(); for (int j = 0; j < n; ++j) y[j] = 0;
      __syncthreads(); z[i] = a * a + y[i];]],
      sig = "const double *x, double *y, double *z, int n", inout = { "y" },
      refuses = "an element of 'y' that a loop rewrites is of one thread" },
    { "early return and shared flag", [[__shared__ int f; f = 0; __syncthreads(); if (x[i] > 0.95) f = 1; __syncthreads(); if (f) {
      y[i] = x[i]; return; } y[i] = x[i]*x[i];]] },
    { "max in shared by atomicMax of int bits then value", [[__shared__ int m; m = 0; __syncthreads(); atomicMax(&m,
      (int)(x[i]*1000)); __syncthreads(); if ((int)(x[i]*1000) == m) y[0] = x[i]*x[i]; z[i] = x[i];]],
      sig = "const double *x, double *y, double *z, int n", eps = 1e-06 },
    { "last thread computed by atomicAdd", [[__shared__ int c; __shared__ double s[12]; c = 0; __syncthreads(); s[t] = x[i]*x[i];
      __syncthreads(); int k = atomicAdd(&c, 1); __syncthreads(); if (k == 11) { double q = 0; for (int j = 0; j < 12; ++j) q +=
      s[j]*s[j]; y[0] = q; }]] },
    { "loads in two arms", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a; if (t < 6) a = s[t]; else a = s[t - 6];
      y[i] = a*a*x[i];]] },
    { "loads in two arms of ?:", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a = t < 6 ? s[t] : s[t - 6]; y[i] =
      a*a*x[i];]] },
    { "stores in two arms", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a = s[t]*s[11-t]; __syncthreads(); if (t <
      6) s[t] = a; else s[t] = -a; __syncthreads(); y[i] = a*a*s[11-t];]] },
    { "stores in two arms, halves", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a = s[t]*s[11-t]; __syncthreads();
      if (t < 6) s[t+6] = a; else s[t-6] = -a; __syncthreads(); y[i] = a*a*s[11-t];]] },
    { "loads in arms with barrier", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a; if (n > 3) { a = s[t];
      __syncthreads(); } else { a = s[11-t]; __syncthreads(); } y[i] = a*a*x[i];]] },
    { "loads in loop with early continue", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a = 0; for (int j = 0; j <
      3; ++j) { if (t == j) continue; a += s[t] * s[(t+j)%12]; } y[i] = a*a*x[i];]] },
    { "loads s[t] and s[t+1] behind guards", [[__shared__ double s[13]; s[t] = x[i]; s[12]=1; __syncthreads(); double a = 0; if (t %
      2) a = s[t]; if (!(t % 2)) a = s[t+1]; y[i] = a*a*x[i];]] },
    { "held element own", "double a = 0; for (int j = 0; j < 3; ++j) { y[i] = y[i]*x[j]; a += y[i] * y[i]; } z[i] = a;",
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "held element, if", "if (i == 3) for (int j = 0; j < 3; ++j) { y[0] = y[0]*x[j]; } else if (i != 0) y[i] = x[i]; z[i] = x[i];",
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
  },
  { title = "warps",
    { "shuffle under divergence", [[double v = x[i]; if (t < 16) v += __shfl_xor_sync(0xffffu, v * v, 1); else v = v * v; y[i] = v *
      v;]], n = 32, order = 1 },
    { "shuffle in both branches", [[double v = x[i]; if (t % 2) v *= __shfl_xor_sync(0xaaaaaaaau, v, 2); else v +=
      __shfl_xor_sync(0x55555555u, v * v, 4); y[i] = v;]], n = 32, order = 1 },
    { "shuffle index by data", "double v = __shfl_sync(~0u, x[i], at[i]); y[i] = v * x[i];",
      sig = "const double *x, const int *at, double *y, int n",
      rest = {
        ints { 1, 1, 1, 3, 4, 5, 6, 7, 8, 9, 31, 31, 0, 0, 2, 2, 16, 17, 18, 19, 20, 21, 5, 5, 5, 5,
          26, 27, 28, 29, 30, 31 }, 32 },
      n = 32, order = 1 },
    { "shuffle whose width is a function's parameter", [[double v = x[i]; auto sum = [](double u, int width, int step) { return u +
      __shfl_down_sync(~0u, u * u, step, width); }; v = sum(v, 8, 2); v = sum(v, warpSize, 4); y[i] = v * x[i];]], n = 32 },
    { "shuffle index above 31", "double v = __shfl_sync(~0u, x[i], t + 40); y[i] = v * x[i];",
      n = 32, order = 1 },
    { "shuffle up with large delta",
      "double v = __shfl_up_sync(~0u, x[i] * x[i], 33); y[i] = v * x[i];", n = 32, order = 1 },
    { "shuffle down with distances above 31, equal and not",
      "double v = __shfl_down_sync(~0u, x[i] * x[i], n + 2) + __shfl_up_sync(~0u, x[i], 31 + t % 3); y[i] = v * x[i];",
      n = 32, order = 1 },
    { "shuffle down delta 0 and per lane",
      "double v = __shfl_down_sync(~0u, x[i] * x[i], t % 3); y[i] = v * x[i];", n = 32,
      order = 1 },
    { "shuffle up per lane by groups",
      "double v = __shfl_up_sync(~0u, x[i] * x[i], t % 5, 8); y[i] = v * x[i];",
      n = 32, order = 1 },
    { "shuffle xor per lane",
      "double v = __shfl_xor_sync(~0u, x[i] * x[i], t & 3); y[i] = v * x[i];", n = 32, order = 1 },
    { "shuffle xor width 4 by 5",
      "double v = __shfl_xor_sync(~0u, x[i] * x[i], 5, 4); y[i] = v * x[i];", n = 32, order = 1 },
    { "shuffle group leader width 8",
      "double v = __shfl_sync(~0u, x[i] * x[i], 3, 8); y[i] = v * x[i] * v;", n = 32, order = 1 },
    { "scan by shuffles", [[double v = x[i]; for (int d = 1; d < 32; d *= 2) { double u = __shfl_up_sync(~0u, v, d); if (t >= d) v = v
      * 0.9 + u; } y[i] = v * x[i];]], n = 32, order = 1 },
    { "max scan by shuffles", [[double v = x[i]; for (int d = 1; d < 32; d *= 2) { double u = __shfl_up_sync(~0u, v, d); if (t >= d) v
      = fmax(v, u); } y[i] = v * x[i];]], n = 32, order = 1 },
    { "product reduce by shuffles two warps", [[__shared__ double s[2]; double v = 1 + 0.1*x[i]; for (int d = 16; d; d /= 2) v *=
      __shfl_xor_sync(~0u, v, d); if (t % 32 == 0) s[t/32] = v; __syncthreads(); y[i] = s[0]*s[1]*x[i];]], n = 64, order = 1 },
    { "partial last warp", [[double v = 1 + 0.1*x[i]; for (int d = 16; d; d /= 2) { double u = __shfl_down_sync(~0u, v, d); if (t + d
      < n) v *= u; } if (t == 0) y[0] = v * v;]],
      sig = "const double *x, double *y, int n", before = "", inputs = { f64(32) },
      rest = { 20 }, n = 20, block = { 32 }, order = 1 },
    { "activemask in loop with exits", [[double v = x[i]; for (int r = 0; r < 3; ++r) { unsigned m = __ballot_sync(~0u, v > 0); v = v
      * (1 + 0.1 * __popc(m)); } y[i] = v;]], n = 32, order = 1 },
    { "ballot leader", [[unsigned m = __ballot_sync(~0u, x[i] > 0.2); int l = __ffs(m) - 1; double v = __shfl_sync(~0u, x[i]*x[i], l);
      y[i] = v * x[i];]], n = 32, order = 1 },
    { "rank by ballot", [[bool p = x[i] > 0; unsigned m = __ballot_sync(~0u, p); int r = __popc(m & ((1u << t) - 1)); if (p) y[r] =
      x[i] * x[i]; else y[31 - (t - r)] = sin(x[i]);]], n = 32, order = 1 },
    { "any/all as factor", "int a = __any_sync(~0u, x[i] > 0.9), b = __all_sync(~0u, x[i] > -5); y[i] = x[i] * x[i] * (a + 2 * b);",
      n = 32, order = 1 },
    { "match any groups", [[unsigned m = __match_any_sync(~0u, t % 4); double s = 0; for (int j = 0; j < 32; ++j) { double u =
      __shfl_sync(~0u, x[i]*x[i], j); if (m >> j & 1) s += u; } y[i] = s * x[i];]],
      n = 32, order = 1 },
    { "syncwarp shared", [[__shared__ double s[32]; s[t] = x[i]; __syncwarp(); double a = s[t ^ 1]; __syncwarp(); s[t] = a * a;
      __syncwarp(); y[i] = s[31 - t] * a;]], n = 32, order = 1 },
    { "warp-wide broadcast in loop with break by vote", [[double v = x[i]; for (int r = 0; r < 10; ++r) { v = 0.8 * sin(v) + 0.1 *
      __shfl_sync(~0u, v, r); if (__all_sync(~0u, fabs(v) < 0.5)) break; } y[i] = v * v;]],
      n = 32, order = 1 },
    { "shuffle of int then index", "int j = __shfl_xor_sync(~0u, t, 5); y[i] = x[j] * x[i];",
      n = 32, order = 1 },
    { "shuffle float32 value in f64",
      "float f = (float)x[i]; f = __shfl_xor_sync(~0u, f, 1); y[i] = f * x[i];", n = 32, order = 1,
      eps = 0.001, rtol = 0.01, atol = 0.001, tol = 1e-05 },
    { "conditional shuffle value", "double v = __shfl_xor_sync(~0u, t % 2 ? x[i] * x[i] : 3., 1); y[i] = v * x[i];", n = 32,
      order = 1 },
    { "shuffled twice same var", [[double v = x[i]; v = __shfl_xor_sync(~0u, v, 1) * v; v = __shfl_down_sync(~0u, v, 2) * v; v =
      __shfl_up_sync(~0u, v, 3) + v * v; y[i] = v;]], n = 32, order = 1 },
    { "cg reduce", [[auto tile = cg::tiled_partition<8>(cg::this_thread_block()); double v = cg::reduce(tile, x[i]*x[i],
      cg::plus<double>()); y[i] = v * x[i];]], before = [[#include <cooperative_groups.h>
      #include <cooperative_groups/reduce.h>
      namespace cg = cooperative_groups;]], n = 32, order = 1 },
    { "cg max reduce", [[auto tile = cg::tiled_partition<8>(cg::this_thread_block()); double v = cg::reduce(tile, x[i],
      cg::greater<double>()); y[i] = v * v * x[i];]], before = [[#include <cooperative_groups.h>
      #include <cooperative_groups/reduce.h>
      namespace cg = cooperative_groups;]], n = 32, order = 1 },
  },
  { title = "threads of a block",
    { "gone threads and a loop over shared memory", [[if (t >= 9) return; __shared__ double s[12]; s[t] = x[i]; for (int r = 0; r < 3;
      ++r) { __syncthreads(); double v = s[(t + 1) % 9]; __syncthreads(); s[t] = sin(v * s[t]) + 0.1; } y[i] = s[t];]] },
    { "gone threads and a shared table bigger than the rest", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); if (t >= 5)
      return; double v = 1; for (int r = 0; r < 3; ++r) { __syncthreads(); v = v * s[(t + r) % 12] + s[11 - t]; __syncthreads(); s[11
      - t] = v * 0.5; } y[i] = v;]],
      refuses = "a return of some threads that have stored something" },
    { "gone threads of a ragged block, dynamic", [[extern __shared__ double s[]; if (i >= 9) return; s[t] = x[i]; for (int r = 0; r <
      3; ++r) { __syncthreads(); double v = s[t] * s[t ^ (t < 8 && blockIdx.x < 2 ? 1 : 0)]; __syncthreads(); s[t] = sin(v) + 0.1; }
      y[i] = s[t];]], grid = { 3 }, block = { 4 }, shared = 32 },
    { "gone warps and shuffles", [[if (t >= 32) return; double v = x[i]; for (int r = 0; r < 3; ++r) v = v * 0.5 +
      __shfl_xor_sync(~0u, v * v, 1 << r); y[i] = v;]],
      inputs = { f64(64) }, n = 32, block = { 64 }, order = 1 },
    { "gone lanes and shuffles", [[if (t >= 20) return; double v = x[i]; for (int r = 0; r < 3; ++r) v = v * 0.5 +
      __shfl_xor_sync(0xfffffu, v * v, 1 << (r % 2)); y[i] = v;]], n = 32, order = 1 },
    { "gone threads and a sum of uniform arguments", [[if (i >= n) return; __shared__ double s[4]; s[t] = x[i] * w[0];
      __syncthreads(); y[i] = s[t] * s[0] * w[1];]],
      sig = "const double *x, const double *w, double *y, int n",
      inputs = { f64(12), f64(2, 0.7) }, rest = { 10 }, grid = { 3 }, block = { 4 } },
    { "return in the middle of a loop with shared memory", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double v = 1; for
      (int r = 0; r < 12; ++r) { v = v * s[r] + 0.2; if (v < 0 && r > 3) { y[i] = v; return; } } y[i] = v * v;]] },
    { "threads that wait in different loops", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double v = s[t]; for (int r =
      0; r < (t < 6 ? 2 : 4); ++r) v = v * s[(t + r) % 12] + 0.1; __syncthreads(); s[t] = v; __syncthreads(); y[i] = s[t] * s[11 - t];]] },
    { "barrier in a uniform branch", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double v = s[t]; if (n > 4) { v = s[(t +
      1) % 12]; __syncthreads(); s[t] = v * v; __syncthreads(); v *= s[11 - t]; }
      y[i] = v * s[t];]] },
    { "barrier in a uniform branch of shared data", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double v = s[t]; bool up
      = s[0] > s[1]; __syncthreads(); if (up) { s[t] = v * v; __syncthreads(); v *= s[11 - t]; } else { s[11 - t] = v;
      __syncthreads(); v *= s[t]; } y[i] = v;]] },
    { "barrier in a function", "__shared__ double s[12]; double a = ex(s, x[i]); double b = ex(s, a * a); y[i] = ex(s, a * b) * a;",
      before = [[__device__ double ex(double *s, double v) { __syncthreads(); s[threadIdx.x] = v; __syncthreads(); return s[(threadIdx.x +
      5) % 12]; }]] },
    { "barrier in nested uniform loops", [[__shared__ double s[12]; double v = x[i]; for (int a = 0; a < 2; ++a) for (int b = 0; b <=
      a; ++b) { s[t] = v; __syncthreads(); v = v * s[(t + a + b + 1) % 12] + 0.2; __syncthreads(); } y[i] = v;]] },
    { "uniform loop by a count in shared memory", [[__shared__ int c; __shared__ double s[12]; if (t == 0) c = 2 + (x[0] > 0); double
      v = x[i]; __syncthreads(); for (int r = 0; r < c; ++r) { s[t] = v; __syncthreads(); v = v * s[11 - t] + 0.2; __syncthreads(); }
      y[i] = v;]] },
    { "reduction with warp tail", [[__shared__ double s[64]; s[t] = x[i] * x[i]; __syncthreads(); if (t < 32) { s[t] += s[t + 32];
      __syncwarp(); for (int d = 16; d; d /= 2) { double v = t < d ? s[t + d] : 0; __syncwarp(); s[t] += v; __syncwarp(); } }
      __syncthreads(); y[i] = s[0] * x[i];]], n = 64, order = 1 },
    { "reduction max with index", [=[__shared__ double s[12]; __shared__ int k[12]; s[t] = x[i]; k[t] = t; __syncthreads(); for (int d
      = 8; d; d /= 2) { if (t < d && t + d < 12 && s[t + d] > s[t]) { s[t] = s[t + d]; k[t] = k[t + d]; } __syncthreads(); } y[i] =
      s[0] * x[k[0]] * x[i];]=] },
    { "transposed tiles in a loop", [[__shared__ double s[4][5]; int c = threadIdx.x, r = threadIdx.y; double a = 0; for (int b = 0; b
      < 3; ++b) { s[r][c] = x[(r * 4 + c + b) % 16]; __syncthreads(); a = a * 0.5 + s[c][r] * s[r][(c + b) % 4]; __syncthreads(); }
      y[r * 4 + c] = a;]], n = 16, block = { 4, 4 } },
    { "matmul tiles ragged with a running maximum", [[__shared__ double p[4][4], q[4][4]; int r = threadIdx.y, c = threadIdx.x; double
      a = 0, m = -9; for (int b = 0; b < 2; ++b) { int k = b * 4; p[r][c] = k + c < 6 && r < 3 ? x[r * 6 + k + c] : 0; q[r][c] = k + r
      < 6 && c < 3 ? x[(k + r) * 3 + c] : 0; __syncthreads(); for (int j = 0; j < 4; ++j) { a += p[r][j] * q[j][c]; m = fmax(m,
      p[r][j] * q[j][c]); } __syncthreads(); } if (r < 3 && c < 3) y[r * 3 + c] = a * m;]],
      n = 18, shape = { 9 }, block = { 4, 4 } },
    { "stencil steps in shared memory with halo", [[__shared__ double s[2][14]; s[0][t + 1] = x[i]; if (t == 0) s[0][0] = s[1][0] =
      0.5; if (t == 11) s[0][13] = s[1][13] = -0.5; __syncthreads(); for (int r = 0; r < 4; ++r) { s[1 - r % 2][t + 1] = s[r % 2][t +
      1] * 0.5 + s[r % 2][t] * s[r % 2][t + 2]; __syncthreads(); } y[i] = s[0][t + 1];]] },
    { "wavefront in shared memory", [[__shared__ double s[4][4]; int r = threadIdx.y, c = threadIdx.x; s[r][c] = x[r * 4 + c]; for
      (int d = 1; d < 7; ++d) { __syncthreads(); if (r + c == d && r && c) s[r][c] = s[r][c] * s[r-1][c] + s[r][c-1] * s[r-1][c-1]; }
      __syncthreads(); y[r * 4 + c] = s[r][c] * s[3][3];]], n = 16, block = { 4, 4 }, order = 1 },
    { "gauss elimination in shared memory", [[__shared__ double m[3][4]; int r = threadIdx.y, c = threadIdx.x; m[r][c] = x[r * 4 + c]
      + (r == c ? 4 : 0); for (int k = 0; k < 3; ++k) { __syncthreads(); double f = m[r][k] / m[k][k], v = m[k][c]; __syncthreads();
      if (r != k) m[r][c] -= f * v; } __syncthreads(); y[r * 4 + c] = m[r][c] * m[r][3];]],
      n = 12, block = { 4, 3 }, order = 1 },
    { "cyclic reduction sweeps", [[__shared__ double a[8], b[8]; a[t] = 3 + x[i]; b[t] = x[i + 8]; for (int d = 1; d < 8; d *= 2) {
      __syncthreads(); double p = a[t], q = b[t]; if (t >= d) { double f = 0.4 / a[t - d]; p -= f * 0.3; q -= f * b[t - d]; }
      __syncthreads(); a[t] = p; b[t] = q; } __syncthreads(); y[i] = b[t] / a[t];]],
      inputs = { f64(16) }, n = 8, order = 1 },
    { "producer and consumer warps", [[__shared__ double s[2][32]; double a = 0; int w = t / 32, l = t % 32; for (int b = 0; b < 3;
      ++b) { if (w == 0) s[b & 1][l] = x[(l + b) % 64] * x[l]; __syncthreads(); if (w == 1) a = a * 0.5 + s[b & 1][31 - l] * x[i];
      __syncthreads(); } y[i] = a;]], n = 64, order = 1 },
    { "shared struct of arrays with flags", [[__shared__ struct { double v[12]; int ok[12]; } s; s.v[t] = x[i]; s.ok[t] = x[i] > 0;
      __syncthreads(); double a = 0; for (int j = 0; j < 12; ++j) if (s.ok[j]) a += s.v[j] * x[i]; __syncthreads(); s.v[t] = a * a;
      s.ok[t] = !s.ok[t]; __syncthreads(); y[i] = s.ok[(t + 1) % 12] ? s.v[(t + 1) % 12] : a;]] },
    { "compaction by ballot into shared memory", [[__shared__ double s[32]; bool p = x[i] > 0; unsigned m = __ballot_sync(~0u, p); int
      c = __popc(m), k = __popc(m & ((1u << t) - 1)); if (p) s[k] = x[i] * x[i]; __syncwarp(); y[i] = t < c ? s[t] * s[0] : 0;]],
      n = 32, order = 1 },
    { "matrix transpose through shuffles", [[double v = x[i]; for (int k = 1; k < 4; k *= 2) { double o = __shfl_xor_sync(~0u, v, k *
      4); v = (t & k) ? v * o : v + o; } y[i] = v;]], n = 32, order = 1 },
    { "votes choose a loop's end in a divergent branch", [[double v = x[i]; if (t < 16) for (int r = 0; r < 5; ++r) { v = v * 0.6 +
      0.1 * x[r]; if (__any_sync(0xffffu, v > 0.8)) break; } y[i] = v * v;]], n = 32, order = 1 },
    { "shared array read by data dependent index by several threads", [=[__shared__ double s[4]; if (t < 4) s[t] = x[t];
      __syncthreads(); double a = 1; for (int j = 0; j < 3; ++j) a *= s[at[(i + j) % 12]]; y[i] = a * s[at[i]];]=],
      sig = "const double *x, const int *at, double *y, int n",
      rest = { ints { 0, 1, 2, 3, 0, 0, 1, 3, 3, 2, 1, 0 }, 12 } },
    { "reads of one shared element in both arms", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a; if (x[i] > 0) a =
      s[t] * s[0]; else a = s[(t + 6) % 12] + s[0] * s[0]; y[i] = a * a;]] },
    { "reads in a switch", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a = 0; switch (t % 3) { case 0: a = s[t];
      break; case 1: a = s[t - 1] * s[t]; break; default: a = s[t - 2] + s[t] * s[t - 1]; } y[i] = a * a;]] },
    { "reads in two loops of other threads", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a = 0; if (t < 6) for
      (int j = 0; j < 2; ++j) a += s[2 * t + j] * x[j]; else for (int j = 0; j < 2; ++j) a += s[2 * (t - 6) + j] * x[i]; y[i] = a * a;]] },
    { "reads by ?: of two places", [[__shared__ double s[24]; s[t] = x[i]; s[t + 12] = x[i] * x[i]; __syncthreads(); y[i] = (t % 2 ?
      s[t] : s[t + 1]) * (x[i] > 0 ? s[t + 12] : s[23 - t]);]] },
    { "global reads in two arms", "double a; if (i < 6) a = x[i]; else a = x[i - 6]; y[i] = a * a * x[i];" },
    { "global reads in two arms of uneven places",
      "double a; if (i % 2) a = x[i]; else a = x[i + 1]; y[i] = a * a;" },
    { "inout read and written in two arms", [[double a = y[i]; __syncthreads(); if (i < 6) y[i] = a * x[i]; else y[i - 6 + 6] = a * a;
      __syncthreads(); z[i] = y[11 - i] * y[i];]],
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "inout written in two arms at crossed places", [[double a = y[i]; __syncthreads(); if (i < 6) y[i + 6] = a * x[i]; else y[i - 6]
      = a * a; __syncthreads(); z[i] = y[11 - i] * y[i] * a;]],
      sig = "const double *x, double *y, double *z, int n",
      inout = { "y" } },
    { "gone threads whose share of a table is copied by others", [[if (t >= 9) return; __shared__ double s[12]; s[t] = x[i]; if (t <
      3) s[t + 9] = x[i] * x[0]; double v = 1; for (int r = 0; r < 3; ++r) { __syncthreads(); double a = s[(t + 3) % 12], b = s[(t + 4
      + r) % 12]; __syncthreads(); if (t < 6) { s[2 * t] = sin(a * b) + 0.1 * v; s[2 * t + 1] = a * a; } v = v * a + b; }
      __syncthreads(); y[i] = v * s[11 - t];]] },
    { "gone threads, table kept before a loop", [[if (t >= 7) return; __shared__ double s[12]; s[t] = x[i]; if (t < 5) s[t + 7] = x[i
      + 7]; __syncthreads(); double v = s[11 - t] * s[11 - t]; for (int r = 0; r < 2; ++r) { __syncthreads(); if (t < 6) s[11 - t] = v
      * x[t]; else s[r] = x[r]; __syncthreads(); v = v * s[11 - t] + 0.3; } y[i] = v;]] },
    { "gone threads, shadow cleared", [[if (t >= 5) return; __shared__ double s[12]; for (int j = t; j < 12; j += 5) s[j] = x[j];
      __syncthreads(); double v = 1; for (int j = 0; j < 12; ++j) v *= s[j] + x[i]; y[i] = v;]] },
    { "index set in a loop", [[__shared__ double s[24]; s[t] = x[i]; s[t + 12] = x[i] * x[0]; __syncthreads(); double a = 0; for (int
      r = 0; r < 4; ++r) { int j = t + r; a += s[j] * x[r]; } y[i] = a * a;]] },
    { "index set in a loop, times two", [[__shared__ double s[36]; for (int j = t; j < 36; j += 12) s[j] = x[j % 12]; __syncthreads();
      double a = 0; for (int r = 0; r < 4; ++r) { int j = 2 * t + r; a += s[j] * s[j + 1]; } y[i] = a * a;]] },
    { "index set in a loop, global", [[double a = 0; for (int r = 0; r < 4; ++r) { int j = i + r; if (j < n) a += x[j] * x[r]; } y[i]
      = a * a;]] },
    { "index set in a loop, global strided", [[double a = 0; for (int r = 0; r < 3; ++r) { int j = i + r * 4; a += x[j] * x[j]; } y[i]
      = a * a;]], shape = { 4 }, block = { 4 } },
    { "index set in a loop, global overlapping", [[double a = 0; for (int r = 0; r < 3; ++r) { int j = i + r * 3; a += x[j] * x[j]; }
      y[i] = a * a;]], shape = { 4 }, block = { 4 } },
    { "index set in a loop, inout", "for (int r = 0; r < 3; ++r) { int j = i + r * 4; y[j] = y[j] * x[j]; }", block = { 4 },
      inout = { "y" } },
    { "index set in a loop, stores overlapping the same",
      "for (int r = 0; r < 3; ++r) { int j = i + r * 3; y[j] = x[j] * x[j]; }",
      block = { 4 } },
    { "index set in a loop, shared stores overlapping", [[__shared__ double s[12]; for (int r = 0; r < 3; ++r) { int j = t + r * 3;
      s[j] = x[j] * x[j]; } __syncthreads(); double a = s[t] * s[t + 1]; __syncthreads(); for (int r = 0; r < 3; ++r) { int j = t + r
      * 3; s[j] = x[j]; } __syncthreads(); y[i] = a * s[t + 5];]], shape = { 4 }, block = { 4 },
      refuses = "an element of 's' that a loop rewrites is of one thread" },
    { "index kept from the round before", [[__shared__ double s[24]; s[t] = x[i]; s[t + 12] = x[i] * x[0]; __syncthreads(); double a =
      0; int j = t; for (int r = 0; r < 4; ++r) { a += s[j] * x[r]; j = t + r; } y[i] = a * a;]] },
    { "index by an inner loop", [[__shared__ double s[24]; s[t] = x[i]; s[t + 12] = x[i] * x[0]; __syncthreads(); double a = 0; for
      (int r = 0; r < 2; ++r) for (int q = 0; q < 2; ++q) { int j = t + 2 * r; int k = j + q; a += s[k] * s[j]; } y[i] = a * a;]] },
    { "rows read by columns", [[__shared__ double s[4][4]; int r = threadIdx.y, c = threadIdx.x; s[r][c] = x[r * 4 + c];
      __syncthreads(); double a = 0; for (int k = 0; k < 4; ++k) { int p = (c + k) & 3; a += s[r][p] * s[p][c]; } y[r * 4 + c] = a *
      a;]], n = 16, block = { 4, 4 } },
    { "2-D block, 1-D index of x alone", [[__shared__ double s[4]; int r = threadIdx.y, c = threadIdx.x; if (r == 0) s[c] = x[c];
      __syncthreads(); double a = s[c] * x[r * 4 + c]; y[r * 4 + c] = a * a;]],
      n = 16, block = { 4, 4 } },
    { "2-D block, index of both axes by one stride", [[__shared__ double s[8]; int r = threadIdx.y, c = threadIdx.x; if (r < 2) s[r *
      4 + c] = x[r * 4 + c]; __syncthreads(); double a = s[r + c] * x[r * 4 + c]; y[r * 4 + c] = a * a;]], n = 16, block = { 4, 4 } },
    { "shared read at t under two guards", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a = 0; if (x[i] > 0) a +=
      s[t]; if (x[(i + 1) % n] > 0) a += s[(t + 1) % 12] * s[t]; y[i] = a * a;]] },
    { "shared read in while with data exit", [[__shared__ double s[24]; s[t] = x[i]; s[t + 12] = x[i]; __syncthreads(); double a =
      x[i]; int j = t; while (a < 2 && j < 24) { a += s[j] * s[j]; ++j; } y[i] = a * a;]] },
    { "shared adds into own element then others read", [[__shared__ double s[12]; s[t] = 0; __syncthreads(); for (int r = 0; r < 3;
      ++r) { int j = (t + r) % 12; s[j] += x[r] * x[i] ; __syncthreads(); } y[i] = s[t] * s[(t + 1) % 12];]] },
    { "shared adds with moved index and loads", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); for (int r = 1; r < 4; ++r) {
      int j = (t + r) % 12; double v = s[t]; __syncthreads(); s[j] = s[j] + v * x[r]; __syncthreads(); } y[i] = s[t] * s[(t + 1) %
      12];]] },
    { "lane loop over shared, two warps", [[__shared__ double s[64]; s[t] = x[i]; __syncthreads(); double a = 0; int w = t / 32, l = t
      % 32; for (int k = 0; k < 3; ++k) { int j = w * 32 + (l + k) % 32; a += s[j] * s[l]; } y[i] = a * a;]], n = 64, order = 1 },
    { "quotient reads", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); int q = t / 2; double a = s[q] * s[q + 6]; y[i] = a *
      a;]] },
    { "reads at m - t and t", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); double a = s[t] + s[11 - t] * s[t]; y[i] = a *
      a;]] },
    { "syncwarp instead of barriers, 64 threads", [[__shared__ double s[64]; int w = t / 32 * 32, l = t % 32; s[t] = x[i];
      __syncwarp(); double a = s[w + (l + 1) % 32]; __syncwarp(); s[t] = a * a; __syncwarp(); y[i] = s[w + (l + 5) % 32] * a;]],
      n = 64, order = 1 },
    { "barrier in one loop, reads in another after", [[__shared__ double s[12]; double v = x[i]; for (int r = 0; r < 3; ++r) { s[t] =
      v; __syncthreads(); v = v * s[11 - t]; __syncthreads(); } double a = 0; for (int r = 0; r < 3; ++r) { int j = (t + r) % 12; a +=
      s[j] * v; } y[i] = a;]] },
    { "uniform element in a loop", [[__shared__ double s[4]; if (t < 4) s[t] = x[t]; __syncthreads(); double a = x[i]; for (int r = 0;
      r < 4; ++r) a = a * s[r] + s[0]; y[i] = a;]] },
    { "uniform element, one assigned index", [[__shared__ double s[4]; if (t < 4) s[t] = x[t]; __syncthreads(); double a = x[i]; for
      (int r = 0; r < 4; ++r) { int j = 3 - r; a = a * s[j]; } y[i] = a;]] },
    { "global uniform reads inside uniform loop with barrier", [[__shared__ double s[12]; double a = x[i]; for (int r = 0; r < 3; ++r)
      { s[t] = a * x[r]; __syncthreads(); a = s[11 - t] + x[r]; __syncthreads(); } y[i] = a;]] },
    { "two loops of one stride", [[__shared__ double s[12]; for (int j = t; j < 12; j += 4) s[j] = x[j]; for (int j = t; j < 12; j +=
      4) s[j] = s[j] * s[j]; __syncthreads(); double a = s[t] * s[11 - t]; __syncthreads(); for (int k = t; k < 12; k += 4) s[k] =
      sin(s[k]) * a; __syncthreads(); y[i] = s[t] * s[5];]], shape = { 4 }, block = { 4 } },
    { "two loops of one stride, the second shifted by a thread", [[__shared__ double s[13]; for (int j = t; j < 12; j += 4) s[j] =
      x[j]; __syncthreads(); for (int j = t; j < 12; j += 4) s[j + 1] = x[j] * x[j]; __syncthreads(); double a = s[t] * s[t + 1];
      __syncthreads(); for (int j = t; j < 12; j += 4) s[j] = a; __syncthreads(); y[i] = s[t] * s[5];]], shape = { 4 },
      block = { 4 } },
    { "stores under complementary guards at one index", [[__shared__ double s[6]; if (t % 2 == 0) s[t / 2] = x[t / 2]; if (t % 2 == 1)
      s[t / 2] = x[t / 2]; __syncthreads(); double a = s[t / 2] * s[5 - t / 2]; __syncthreads(); if (t % 2 == 0) s[t / 2] = a * 0 +
      x[t / 2 + 6]; else s[t / 2] = x[t / 2 + 6]; __syncthreads(); y[i] = a * s[(t + 1) % 6];]] },
    { "stores under complementary guards, loops between", [[__shared__ double s[6]; if (t % 2 == 0) s[t / 2] = x[t / 2];
      __syncthreads(); double a = x[i]; for (int r = 0; r < 3; ++r) a = a * s[(t + r) % 6] + s[r]; __syncthreads(); if (t % 2 == 1)
      s[t / 2] = a * x[i]; __syncthreads(); y[i] = a * s[(t + 1) % 6];]] },
    { "stores under complementary guards at once, loops between", [[__shared__ double s[6]; if (t % 2 == 0) s[t / 2] = x[t / 2];
      __syncthreads(); double a = x[i]; for (int r = 0; r < 3; ++r) a = a * s[(t + r) % 6] + s[r]; __syncthreads(); if (t % 2 == 1)
      s[t / 2] = x[t / 2]; if (t % 2 == 0) s[t / 2] = x[t / 2]; __syncthreads(); y[i] = a * s[(t + 1) % 6];]] },
    { "rows by two loops of other bounds", [[if (i < 3) { for (int j = 0; j < 4; ++j) y[i * 4 + j] = y[i * 4 + j] * x[j]; for (int k =
      0; k < 4; ++k) y[i * 4 + k] = y[i * 4 + k] * y[i * 4 + k]; }]],
      sig = "const double *x, double *y, double *z, int n",
      inout = { "y" } },
    { "rows that overlap in the second loop", [[if (i < 3) { for (int j = 0; j < 4; ++j) y[i * 4 + j] = x[i * 4 + j] * x[j]; }
      __syncthreads(); if (i < 2) { for (int k = 0; k < 8; ++k) y[i * 4 + k] = x[k + 4 * i] * 2; } __syncthreads(); z[i] = y[i] * y[11
      - i];]], sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "counters of one start and other bounds", [[__shared__ double s[16]; for (int j = t; j < 8; j += 4) s[j] = x[j]; for (int j = t;
      j < 16; j += 4) if (j >= 8) s[j] = x[j - 8]; __syncthreads(); double a = s[t] * s[15 - t]; __syncthreads(); for (int j = t; j <
      16; j += 4) s[j] = a * x[j % 12]; __syncthreads(); y[i] = s[t] * s[9];]],
      shape = { 4 }, block = { 4 } },
    { "counter changed in one of two loops", [[__shared__ double s[16]; for (int j = t; j < 12; j += 4) s[j] = x[j]; __syncthreads();
      double a = s[t] * s[t + 4]; __syncthreads(); for (int j = t; j < 12; j += 4) { s[j] = x[j % 4]; if (x[0] > 5) j += 1; }
      __syncthreads(); y[i] = a * s[t + 1];]],
      shape = { 4 }, block = { 4 } },
    { "parameter as pitch, changed in between", [[int m = 4; if (i < 3) for (int j = 0; j < 4; ++j) y[i * m + j] = x[j] * x[i];
      __syncthreads(); m = 2; double a = y[i] * y[11 - i]; __syncthreads(); if (i < 3) for (int j = 0; j < 4; ++j) y[i * m + j] = x[i
      * m + j]; __syncthreads(); z[i] = a * y[i];]],
      sig = "const double *x, double *y, double *z, int n", inout = { "y" },
      refuses = "an element of 'y' that a loop rewrites is of one thread" },
    { "equality by two threads of each block", [[if (t == 0) y[blockIdx.x] = x[blockIdx.x] * x[0]; if (t == 1) y[blockIdx.x] = x[0] *
      x[blockIdx.x]; if (blockIdx.x == 0 && t > 1) y[t] = x[t];]], grid = { 2 }, block = { 6 } },
    { "grid index and block index", "int g = i; y[g] = x[g]; __syncthreads(); if (blockIdx.x == 0) y[t] = x[t] * x[t];", grid = { 2 },
      block = { 6 } },
  },
}
