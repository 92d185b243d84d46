--- Kernels for which a wrong adjoint is likely, used by kernel_corners_spec.lua, which describes
-- their fields: arrays rewritten in place, aliases, atomics, break and continue, indices, pointers,
-- structs, launch geometry.
local flame = require "flame"

local function f64(n, shift)
  local list = {}
  for j = 1, n do list[j] = (shift or 0) + math.sin(1.7 * j + 0.3) + 0.01 * j end
  return flame.tensor(list, { dtype = "f64" })
end

local function ints(list) return flame.tensor(list, { dtype = "i32" }) end

return {
  { title = "arrays in place, aliases, atomics, ways out of loops",
    { "same tensor twice", "y[i] = x[i] * w[(i+1)%n] + sin(w[i]);",
      sig = "const double *x, const double *w, double *y, int n", inputs = { f64(12) }, rest = {  },
      call = function(k, x) return k(x, x, 12) end },
    { "same tensor in and inout", "double a = x[(i+1)%n]; y[i] = y[i] * a * a + x[i];",
      sig = "const double *x, double *y, int n", inputs = { f64(12) }, rest = {  }, inout = { "y" },
      call = function(k, x) return k(x, x, 12) end },
    { "overlapping views", "if (i < 8) y[i] = x[i] * w[i];",
      sig = "const double *x, const double *w, double *y, int n", inputs = { f64(12) }, rest = {  },
      shape = { 8 }, call = function(k, x) return k(x[{ { 1, 8 } }], x[{ { 4, 11 } }], 12) end },
    { "two outs same size one unwritten half",
      "if (i % 2) y[i] = x[i]*x[i]; else z[i] = sin(x[i]);",
      sig = "const double *x, double *y, double *z, int n" },
    { "inout read before and after", "double a = y[i] * y[i]; y[i] = a + x[i]; double b = y[i] * y[i]; y[i] = b * a;",
      inout = { "y" } },
    { "inout swap", "double a = y[i]; if (i < 6) { double b = y[11-i]; y[i] = a * b; y[11-i] = b - a * a; }", block = { 6 },
      inout = { "y" } },
    { "inout overwritten twice, only last counts", "y[i] = x[i]*x[i]; y[i] = sin(x[i]);",
      inout = { "y" } },
    { "inout partially covered", "if (i % 3 == 0) y[i] = x[i] * y[(i)]; ", inout = { "y" } },
    { "inout conditional by value",
      "if (y[i] > 0.5) y[i] = y[i] * y[i] * x[i]; else if (y[i] > 0) y[i] = x[i];",
      inout = { "y" } },
    { "output partially covered divergent",
      "if (x[i] > 0) { y[i] = x[i]*x[i]; if (x[i] > 0.5) y[i] = 3 * x[i]; }" },
    { "scratch in output", "y[i] = x[i]; y[i] *= y[i]; y[i] += y[i] * y[i]; y[i] = y[i] - x[i] * y[i];" },
    { "output as temp neighbours behind barrier", [[y[i] = x[i] * x[i]; __syncthreads(); double a = y[(i+1)%n]; __syncthreads(); y[i]
      = y[i] * a; __syncthreads(); double b = y[(i+5)%n]; __syncthreads(); y[i] = b*b*x[i];]] },
    { "inout += and store",
      "y[i] += x[i]; y[i] = y[i] * y[i]; y[i] += y[i]*x[i]; y[i] -= 2*y[i]*x[i];",
      inout = { "y" } },
    { "inout atomics then store other", "atomicAdd(&y[i/2], x[i]*x[i]); z[i] = x[i];",
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "atomic then read behind barrier",
      "atomicAdd(&y[i/2], x[i]*x[i]); __syncthreads(); z[i] = y[i/2] * y[i/2];",
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "shared atomic then read", [[__shared__ double s[3]; if (t<3) s[t] = x[t]; __syncthreads(); atomicAdd(&s[t%3], x[i]*x[i]);
      __syncthreads(); y[i] = s[t%3]*s[(t+1)%3];]] },
    { "shared atomic twice with read between", [[__shared__ double s[3]; if (t<3) s[t] = 0; __syncthreads(); atomicAdd(&s[t%3],
      x[i]*x[i]); __syncthreads(); double a = s[(t+1)%3]; __syncthreads(); atomicAdd(&s[t%3], a*x[i]); __syncthreads(); y[i] =
      s[t%3]*a;]] },
    { "shared atomicSub", [[__shared__ double s; if (t==0) s = 1; __syncthreads(); atomicAdd(&s, -x[i]*x[i]); __syncthreads(); y[i] =
      s*s*x[i];]] },
    { "atomicMax int flows to index", [[__shared__ int m; if (t==0) m = 0; __syncthreads(); if (x[i] > 0) atomicMax(&m, i);
      __syncthreads(); y[i] = x[m]*x[i];]] },
    { "atomicCAS int lock-free flag", [[__shared__ int m; if (t==0) m = 0; __syncthreads(); int old = atomicCAS(&m, 0, i+1); y[i] =
      x[i]*(old == 0 ? 2. : 2.);]] },
    { "atomicAdd used old value index", "int j = atomicAdd(c, 1); y[j] = x[i]*x[i];",
      sig = "const double *x, double *y, int *c, int n", shape = { 12 }, drawn = true },
    { "atomicAdd old in shared index", [[__shared__ int c; if (t==0) c = 0; __syncthreads(); int j = -1; if (x[i] > 0) j =
      atomicAdd(&c, 1); __syncthreads(); if (j >= 0) y[j] = x[i]*x[i]*c;]], drawn = true },
    { "atomicMax bits", [[__shared__ int m; if (t==0) m = 0; __syncthreads(); atomicMax(&m, __float_as_int((float)x[i]));
      __syncthreads(); y[i] = x[i] * (m > 5 ? x[i] : 1.);]] },
    { "atomicMin int count used as value", [[__shared__ int m; if (t==0) m = 100; __syncthreads(); atomicMin(&m,
      (int)floor(10*fabs(x[i]))); __syncthreads(); y[i] = x[i] * m;]] },
    { "atomicAdd old value of a round in an index", [[__shared__ int c[12]; c[t] = t; __syncthreads(); int j = 0;
      for (int r = 0; r < 3; r++) j = atomicAdd(&c[t], 2); y[i] = x[j]*x[i];]],
      refuses = "the result of an atomic operation on 'c'" },
    { "atomicExch old value of a round in a condition",
      "for (int r = i; r != 7; ) { c[i] = r + 1; r = atomicExch(&c[i], 2); " ..
      "if (r > 7) r = 7; } y[i] = x[c[i]]*x[i];",
      sig = "const double *x, double *y, int *c, int n", shape = { 12 },
      refuses = "the result of an atomic operation on 'c'" },
    { "an index that the store itself changes",
      "int l[4] = {1, 2, 3, 0}; double v = x[(i + l[i % 4]) % n]; " ..
      "v *= x[l[0]]*x[l[2] + 3]; l[l[l[i % 4]]] = i % 3; l[l[1] & 3] = 7; y[i] = v*x[l[i % 4]]*x[l[0]];" },
    { "an index that the store of a real changes",
      "double l[4] = {x[i], 1, 1, 3}; double s = l[0]*l[1]; int a = 1; " ..
      "l[(int)l[a]] = 2 + 0.1*sin(s); s *= l[a]*l[2]; l[(int)l[a]] *= s; y[i] = l[2]*l[0]*l[1]*s;" },
    { "an index that the store changes, in shared memory",
      "__shared__ int l[48]; int *p = l + 4*t; p[0] = 1; p[1] = 2; p[2] = 3; p[3] = 0; " ..
      "double v = x[(i + p[i % 4]) % n]; v *= x[p[1]]*x[p[p[0]]]; " ..
      "p[p[i % 4]] = 5; y[i] = v*x[p[i % 4]]*x[p[2]];" },
    { "atomicExch of the thread's number", [[__shared__ int m; if (t==0) m = 0; __syncthreads();
      if (x[i] > 0) atomicExch(&m, t); __syncthreads(); y[i] = x[m]*x[i];]],
      refuses = "what atomic operations leave in 'm' (it depends on the order of the threads)" },
    { "atomicCAS of the thread's number in a loop", [[__shared__ int m; if (t==0) m = 0; __syncthreads();
      for (int r = 0; r < 2; r++) if (x[i] > 0) atomicCAS(&m, 0, t); __syncthreads(); y[i] = x[m]*x[i];]],
      refuses = "what atomic operations leave in 'm'" },
    { "atomicAdd and atomicMax of one element", [[__shared__ int m; if (t==0) m = 0; __syncthreads();
      if (t & 1) atomicAdd(&m, 1); else atomicMax(&m, t); __syncthreads(); y[i] = x[m % n]*x[i];]],
      refuses = "what atomic operations leave in 'm'" },
    { "atomicInc of several bounds", [[__shared__ unsigned m; if (t==0) m = 0; __syncthreads();
      atomicInc(&m, 3u + t); __syncthreads(); y[i] = x[m]*x[i];]],
      refuses = "what atomic operations leave in 'm'" },
    { "atomicExch of two values", "if (x[i] > 0) atomicExch(&c[0], 1); else atomicExch(&c[0], 2); " ..
      "__syncthreads(); for (int r = 0; r < 2; r++) atomicExch(&c[0], 3 - r); __syncthreads(); " ..
      "y[i] = x[c[0]]*x[i];", sig = "const double *x, double *y, int *c, int n", shape = { 12 },
      refuses = "what atomic operations leave in 'c'" },
    { "atomicMin and atomicMax of two elements", [[__shared__ int m[2]; if (t<2) m[t] = 5; __syncthreads();
      if (x[i] > 0) { atomicMin(&m[0], t); atomicMax(&m[1], t); } __syncthreads();
      int a = m[0], b = m[1]; y[i] = x[a]*x[b]*x[i];]] },
    { "atomicExch of a flag", [[__shared__ int m; if (t==0) m = 0; __syncthreads();
      if (x[i] > 0.9) atomicExch(&m, 1); __syncthreads(); y[i] = m ? x[i]*x[i] : x[i];]] },
    { "atomicExch of a parameter", [[__shared__ int m, c; if (t==0) { m = c = 0; atomicExch(&c, n - 2); }
      __syncthreads(); if (x[i] > 0) atomicExch(&m, n / 2); atomicCAS(&c, n - 2, n - 3);
      __syncthreads(); y[i] = x[m]*x[i]*x[c];]] },
    { "atomicExch of a parameter that is assigned", [[__shared__ int m; if (t==0) m = 0; __syncthreads();
      n -= t; atomicExch(&m, n - 1); __syncthreads(); y[i] = x[m]*x[i];]],
      refuses = "what atomic operations leave in 'm'" },
    { "atomicExch by one thread, and sums after a barrier", [[__shared__ int m; if (t==0) { m = 0; atomicExch(&m, 2); }
      __syncthreads(); if (x[i] > 0) atomicAdd(&m, 1); __syncthreads(); y[i] = x[m % n]*x[i];]] },
    { "atomicExch of each thread's element", [[__shared__ int m[12]; m[t] = 0; atomicExch(&m[t], t + 1);
      __syncthreads(); y[i] = x[m[11 - t] % n]*x[i];]] },
    { "atomicAdd int histogram value", [[__shared__ int h[4]; if (t<4) h[t] = 0; __syncthreads(); int b = (int)(fabs(x[i])*3.9) & 3;
      atomicAdd(&h[b], 1); __syncthreads(); y[i] = x[i]*x[i]*h[b];]] },
    { "early return before barrier", "if (i >= 9) return; __shared__ double s[12]; s[t] = x[i]; __syncthreads(); y[i] = s[8-t]*s[t];" },
    { "early return after store", "y[i] = x[i]; if (x[i] < 0) return; y[i] = x[i]*x[i]; if (x[i] < .5) return; y[i] *= x[i];" },
    { "return in loop", [[double s = 1; for (int j = 0; j < n; ++j) { s *= x[j]; y[i] = s; if (s * x[i] < -0.1) return; } y[i] = s *
      s;]] },
    { "break leaves array half written", [[double a[12]; for (int j = 0; j < 12; ++j) a[j] = 1; for (int j = 0; j < 12; ++j) { if
      (x[j] > 0.9 && j > i) break; a[j] = x[j]*x[j]; } double s = 0; for (int j = 0; j < 12; ++j) s += a[j]*a[(j+i)%12]; y[i] = s;]] },
    { "continue leaves gaps", [[double a[6]; for (int j = 0; j < 6; ++j) a[j] = x[j]; for (int j = 0; j < 6; ++j) { if (x[(i+j)%12] <
      0) continue; a[j] = a[j]*x[i]; } double s = 1; for (int j = 0; j < 6; ++j) s *= a[j]; y[i] = s;]] },
    { "output half written with break",
      "if (i == 0) for (int j = 0; j < n; ++j) { y[j] = x[j]*x[j]; if (x[j] < -.5) break; }" },
    { "inout half rewritten with break",
      "if (i == 0) for (int j = 0; j < n; ++j) { y[j] = y[j]*x[j]; if (x[j] < -.5) break; }",
      inout = { "y" } },
    { "while true with two exits", [[double s = x[i]; int c = 0; while (true) { s = sin(s) + 0.1 * s; if (++c > 5) break; if (s > 0.8)
      { s *= s; break; } if (s < -0.8) return; } y[i] = s;]] },
    { "do while continue", [[double s = x[i]; int j = 0; do { ++j; if (j % 2) continue; s = s * s - 0.5 * j; } while (j < 5 && s < 3);
      y[i] = s;]] },
    { "nested break out by flag", [[double s = 1; bool done = false; for (int j = 0; j < 4 && !done; ++j) for (int k = 0; k < 3; ++k)
      { s = s * x[j*3+k] + 1; if (s > 1.5 && j > 0) { done = true; break; } } y[i] = s * x[i];]] },
    { "goto-less state machine", [[int st = 0; double s = x[i]; for (int j = 0; j < 8; ++j) { switch (st) { case 0: s = s*s; st = 2;
      break; case 1: s = sin(s); st = 0; break; default: s += x[j]; st = s > 0 ? 1 : 0; } } y[i] = s;]] },
    { "switch fallthrough", [[double s = x[i]; switch (i % 5) { case 0: s *= x[0]; case 1: s += s*s; break; case 2: s = sin(s); case
      3: case 4: s *= s; default: s += 1; } y[i] = s;]] },
    { "switch with return and loop", [[double s = x[i]; for (int j = 0; j < 6; ++j) switch (j % 4) { case 0: s = s * s; continue; case
      1: if (s > 2) { y[i] = s; return; } s += 1; break; case 3: s = sin(s); } y[i] = s*s;]] },
    { "for with comma and two counters", [[double s = 0; for (int a = 0, b = n - 1; a < b; ++a, b -= 2) s += x[a]*x[b]*s + x[a]; y[i]
      = s * x[i];]] },
    { "counter changed inside", [[double s = 1; for (int j = 0; j < n; ++j) { s = s * 0.9 + x[j]*s; if (x[j] > 0.5) j += 2; } y[i] =
      s*x[i];]] },
    { "loop bound changes", [[int m = n; double s = 1; for (int j = 0; j < m; ++j) { s = s*x[j] + 0.3; if (s > 0.5) m -= 1; } y[i] =
      s*x[i];]] },
    { "unsigned wrap loop down", "double s = 1; for (unsigned j = n - 1; j < (unsigned)n; --j) s = s * x[j] + 0.5; y[i] = s * x[i];" },
    { "loop carried array shifted", [[double q[4] = {0.1,0.2,0.3,0.4}; for (int j = 0; j < n; ++j) { double v = q[0]*x[j] + q[3]; for
      (int k = 0; k < 3; ++k) q[k] = q[k+1]; q[3] = sin(v); }
      y[i] = (q[0]+q[1]*q[2]+q[3]) * x[i];]] },
    { "local array indexed by data", [=[double a[4] = {0,0,0,0}; for (int j = 0; j < n; ++j) a[at[j]] += x[j]*x[i]; y[i] = a[0]*a[1] +
      a[2]*a[3]*a[at[i]];]=], sig = "const double *x, const int *at, double *y, int n",
      rest = { ints { 0, 1, 2, 3, 0, 0, 1, 3, 3, 2, 1, 0 }, 12 } },
    { "local array overwritten by data", [=[double a[4] = {1,1,1,1}; for (int j = 0; j < n; ++j) a[at[j]] = a[at[(j+1)%n]]*x[j] + 0.2;
      y[i] = a[0]*a[1] + a[2]*a[3]*x[i];]=],
      sig = "const double *x, const int *at, double *y, int n",
      rest = { ints { 0, 1, 2, 3, 0, 0, 1, 3, 3, 2, 1, 0 }, 12 } },
    { "insertion sort of locals", [[double a[5]; for (int j = 0; j < 5; ++j) a[j] = x[(i+j)%n]; for (int j = 1; j < 5; ++j) { double v
      = a[j]; int k = j - 1; while (k >= 0 && a[k] > v) { a[k+1] = a[k]; --k; } a[k+1] = v; } y[i] = a[0]*a[2] + a[4]*a[1]*a[3];]] },
    { "bubble sort with swaps", [[double a[5]; for (int j = 0; j < 5; ++j) a[j] = x[(i+j)%n]; for (int j = 0; j < 4; ++j) for (int k =
      0; k < 4 - j; ++k) if (a[k] > a[k+1]) { double v = a[k]; a[k] = a[k+1]; a[k+1] = v; } y[i] = a[0]*a[2] + a[4]*a[1]*a[3];]] },
    { "permutation by index sort", [[int p[4] = {0,1,2,3}; for (int j = 0; j < 3; ++j) for (int k = 0; k < 3 - j; ++k) if
      (x[(i+p[k])%n] > x[(i+p[k+1])%n]) { int v = p[k]; p[k] = p[k+1]; p[k+1] = v; } y[i] = x[(i+p[0])%n]*x[(i+p[3])%n];]] },
    { "a = a + a * x", "double a[2] = {x[i], 2}; a[0] = a[0] + a[0] * x[0]; a[1] = a[0] * a[1] + a[1]; y[i] = a[0] * a[1];" },
    { "a = a + f(a) in memory",
      "y[i] = y[i] + y[i] * x[i]; y[i] = y[i] - sin(y[i]); y[i] = x[i] - y[i];", inout = { "y" } },
    { "a[i] = a[k] + v with k == i by data", [=[double a[4] = {x[i], x[0], 1, 2}; for (int j = 0; j < 6; ++j) a[at[j]] = a[at[j+1]] *
      x[j] + a[at[j]]; y[i] = a[0]*a[1]+a[2]*a[3];]=],
      sig = "const double *x, const int *at, double *y, int n",
      rest = { ints { 0, 1, 2, 3, 0, 0, 1, 3, 3, 2, 1, 0 }, 12 } },
    { "shared add own then neighbour", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); s[t] += s[t] * x[0]; __syncthreads();
      double v = s[(t+1)%12]; __syncthreads(); s[t] = s[t] + v * s[t]; __syncthreads(); y[i] = s[11-t] * v;]] },
    { "long loop over checkpoints", [[double s = x[i], q = 0.1; for (int j = 0; j < 700; ++j) { s = s + 0.01 * sin(s * q); q = q *
      0.99 + 0.01 * s; } y[i] = s * q;]], order = 1 },
    { "long loop with local array state", [[double a[5] = {x[i], 0.1, 0.2, 0.3, 0.4}; for (int j = 0; j < 150; ++j) { double v =
      sin(a[0]) * 0.5 + a[4] * 0.4; for (int k = 0; k < 4; ++k) a[k] = a[k + 1]; a[4] = v; } y[i] = a[0] * a[2] + a[4];]],
      order = 1 },
    { "nested loops, inner count by data", [[double s = x[i]; for (int j = 0; j < 4; ++j) { int m = at[j]; for (int k = 0; k < m; ++k)
      { s = s * x[k] + 0.4; if (s > 1.2) break; } s = sin(s) + 0.1 * j; } y[i] = s;]],
      sig = "const double *x, const int *at, double *y, int n",
      rest = { ints { 0, 1, 2, 3, 0, 0, 1, 3, 3, 2, 1, 0 }, 12 } },
    { "nested while with both counters carried", [[double s = x[i]; int j = 0, k = 0; while (j + k < 9) { if (s > 0) { s = s * 0.7 -
      0.4; ++j; } else { s = s * s + 0.2; k += 2; } } y[i] = s * (j - k);]] },
    { "triple nest with carried matrix", [[double m[2][2] = {{1, x[i]}, {0.5, 1}}; for (int r = 0; r < 3; ++r) { double q[2][2]; for
      (int a = 0; a < 2; ++a) for (int b = 0; b < 2; ++b) { q[a][b] = 0; for (int c = 0; c < 2; ++c) q[a][b] += m[a][c] * m[c][b] *
      0.5; } for (int a = 0; a < 2; ++a) for (int b = 0; b < 2; ++b) m[a][b] = q[a][b]; } y[i] = m[0][0] * m[1][1] - m[0][1];]] },
    { "held element with conditional access", [[for (int j = 0; j < 5; ++j) { if (x[j] > 0) y[i] = y[i] * x[j]; else if (j == 3) y[i]
      += x[j] * x[i]; }]], inout = { "y" } },
    { "held element read only in condition", [[double s = 0; for (int j = 0; j < 5; ++j) { if (y[i] > 0.2) y[i] = y[i] * 0.5; else s
      += y[i] * x[j]; } z[i] = s * s;]],
      sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "held element and another place after", [[for (int j = 0; j < 3; ++j) y[i] = sin(y[i]) + x[j]; double v = y[i] * y[i]; y[i] = v
      * x[i]; for (int j = 0; j < 2; ++j) y[i] *= y[i] + v;]], inout = { "y" } },
    { "held element nested loops", "for (int j = 0; j < 3; ++j) for (int k = 0; k < 2; ++k) y[i] = y[i] * x[j + k] + 0.3; ",
      inout = { "y" } },
    { "held element with break", "for (int j = 0; j < 9; ++j) { y[i] = y[i] * y[i] + x[j] * 0.3; if (y[i] > 0.8) break; }",
      inout = { "y" } },
    { "two held elements", [[if (i < 6) for (int j = 0; j < 3; ++j) { y[i] = y[i] * x[j] + 0.1; y[i + 6] = y[i + 6] * 0.5 + x[j] *
      x[i]; }]], inout = { "y" } },
    { "two held elements, one under a condition", [[if (i < 6) for (int j = 0; j < 5; ++j) { if (y[2*i+1] < 0.9 + 0.1 * j) y[2*i+1] +=
      0.3 * y[2*i]; y[2*i] = sin(y[2*i] + x[j] * y[2*i+1]); }]], inout = { "y" } },
    { "a position and a velocity of three numbers each", [[if (i < 2) for (int s = 0; s < 40; ++s) { double r = 1 + y[6*i] * y[6*i] +
      y[6*i+1] * y[6*i+1] + y[6*i+2] * y[6*i+2]; y[6*i+3] -= 0.05 * y[6*i] / r * x[i]; y[6*i+4] -= 0.05 * y[6*i+1] / r; y[6*i+5] -= 0.05
      * y[6*i+2] / r; y[6*i] += 0.1 * y[6*i+3]; y[6*i+1] += 0.1 * y[6*i+4]; y[6*i+2] += 0.1 * y[6*i+5]; }]], inout = { "y" } },
    { "steps of numbers that an inner loop counts", [[if (i < 2) for (int s = 0; s < 4; ++s) for (int k = 0; k < 3; ++k) y[6*i+k] -= 0.1 *
      y[6*i+3+k] * y[6*i+k];]],
      inout = { "y" } },
    { "elements that may be one",
      "for (int j = 0; j < 3; ++j) { y[i] = y[i] * 0.5 + y[n - 1 - i] * x[j]; }", inout = { "y" },
      refuses = "an element of 'y' that a loop rewrites is of one thread" },
    { "halves of a row turned, by a block", [[int h = n / 2; for (int j = t; j < h; j += blockDim.x) { double a =
      y[j], b = y[j + h], s = sin(x[j]), c = cos(x[j]); y[j] = a * c - b * s; y[j + h] = a * s + b * c; }]], inout = { "y" },
      block = { 4 } },
    { "halves of rows turned, one row per thread", [[int h = n / 2; if (i < 3) for (int j = 0; j < h; ++j) { double a = y[i * n + j], b =
      y[i * n + j + h]; y[i * n + j] = a * x[j] - b * b; y[i * n + j + h] = a * b + sin(b) * x[j + h]; }]], inout = { "y" }, rest = { 4 } },
    { "halves of rows turned, unsigned counts", [[unsigned m = n, h = m / 2; if (i < 3) for (unsigned j = 0; j < h; ++j) {
      double a = y[i * m + j], b = y[i * m + j + h]; y[i * m + j] = a * x[j] - b * b; y[i * m + j + h] = a * b + sin(b) * x[j + h]; }]],
      inout = { "y" }, rest = { 4 } },
    { "pairs of rows turned, one row per thread", [[if (i < 3) for (int j = 0; j < n / 2; ++j) { double a = y[i * n + 2 * j], b =
      y[i * n + 2 * j + 1]; y[i * n + 2 * j] = a * cos(x[j]) - b * sin(x[j]); y[i * n + 2 * j + 1] = a * sin(x[j]) + b * cos(x[j]) * b; }]],
      inout = { "y" }, rest = { 4 } },
    { "halves of many rows turned", [[int h = n / 2; for (int r = blockIdx.x; r < 3; r += gridDim.x) for (int j = t; j < h; j += blockDim.x)
      { double a = y[r * n + j], b = y[r * n + j + h]; y[r * n + j] = a * x[j] - b * b; y[r * n + j + h] = a * b + sin(b) * x[j + h]; }]],
      inout = { "y" }, rest = { 4 }, block = { 2 }, grid = { 2 } },
    { "parts of a row that overlap", [[if (i == 0) for (int j = 0; j < 6; ++j) { double a = y[j], b = y[j + 3]; y[j] = a * x[j] - b * b;
      y[j + 3] = a * b + sin(b) * x[j + 3]; }]], inout = { "y" } },
    { "a row reversed", [[if (i < 3) for (int j = 0; j < n / 2; ++j) { double a = y[i * n + j]; y[i * n + j] = y[i * n + n - 1 - j] *
      x[j]; y[i * n + n - 1 - j] = a * a; }]], inout = { "y" }, rest = { 4 } },
    { "a solver downwards and upwards in place", [[if (i < 3) { double *p = y + i * n; for (int j = 1; j < n; ++j) p[j] -= x[0] * p[j-1] *
      p[j-1]; for (int j = n - 2; j >= 0; --j) p[j] = (p[j] - x[1] * p[j+1]) / (2 + p[j] * p[j]); }]], inout = { "y" }, rest = { 4 } },
    { "three sweeps of a row in place", [[if (i < 3) { double *p = y + i * n, a = 0.2; for (int j = 1; j < n; ++j) p[j] = sin(p[j] *
      p[j-1]) + x[j]; for (int j = n - 1; j > 0; --j) { a = sin(a + p[j]); p[j-1] += a * p[j]; } for (int j = 0; j + 1 < n; ++j) p[j] *=
      p[j+1] + a; }]], inout = { "y" }, rest = { 4 } },
    { "a result from before the rows are changed", [[if (i < 3) { double a = 0.3; for (int j = 0; j < 4; ++j) a = sin(a + y[i * 4 + j]);
      for (int j = 0; j < 4; j += 2) y[i * 4 + j] -= x[i * 4 + j]; z[i] = a; }]],
      sig = "const double *x, double *y, double *z, int n",
      inout = { "y" }, shape = { 3 } },
    { "a row shifted by what is counted twice", [[if (i == 0) for (int j = 0; j < 4; ++j) y[6 + 2 * j - 5 * (j / 2)] = sin(y[6 + 2 * j - 5 *
      (j / 2) - 2]) * y[6 + 2 * j - 5 * (j / 2) - 2];]],
      inout = { "y" } },
    { "two arrays in place in one loop", [[for (int j = 0; j < 3; ++j) { double a = y[i]; y[i] = z[i] * x[j]; z[i] = a + y[i] * y[i];
      }]],
      sig = "const double *x, double *y, double *z, int n",
      inputs = { f64(12), f64(12, 0.4), f64(12, -0.3) },
      inout = { "y", "z" } },
    { "rows in place, later rows read",
      "if (i < 3) for (int r = 1; r < 4; ++r) y[r*3+i] = y[r*3+i] * y[(r-1)*3+i] + x[i];",
      inout = { "y" } },
    { "prefix product in place", "if (i == 0) for (int j = 1; j < n; ++j) y[j] *= y[j-1];",
      inout = { "y" } },
    { "suffix then prefix in place", [[if (i == 0) { for (int j = n - 2; j >= 0; --j) y[j] += y[j+1] * x[j]; } __syncthreads(); z[i] =
      y[i] * y[(i+1)%n];]], sig = "const double *x, double *y, double *z, int n", inout = { "y" } },
    { "solver by substitution", [[if (i == 0) { for (int j = 1; j < n; ++j) { double m = x[j] / (3 + x[j-1]); y[j] = y[j] - m *
      y[j-1]; } for (int j = n - 2; j >= 0; --j) z[j] = (y[j] - x[j] * z[j+1]) / (3 + x[j]); }]],
      sig = "const double *x, double *y, double *z, int n",
      inputs = { f64(12), f64(12, 0.4), f64(12, 0.2) }, inout = { "y", "z" } },
    { "output accumulates in loop then scaled",
      "y[i] = 0; for (int j = 0; j < n; ++j) y[i] += x[j] * x[i]; y[i] *= y[i];" },
    { "output as accumulator with max", [[y[i] = -1e30; for (int j = 0; j < n; ++j) y[i] = fmax(y[i], x[j] * x[i]); y[i] = y[i] *
      y[i];]] },
    { "online softmax", [[double m = -1e30, d = 0; for (int j = 0; j < n; ++j) { double v = x[j] * x[i], o = m; m = fmax(m, v); d = d
      * exp(o - m) + exp(v - m); } y[i] = m + log(d);]] },
    { "online softmax with shared tile", [[__shared__ double s[4]; double m = -1e30, d = 0, a = 0; for (int b = 0; b < 3; ++b) { if (t
      < 4) s[t] = x[b*4+t]; __syncthreads(); for (int j = 0; j < 4; ++j) { double v = s[j] * x[i], o = m; m = fmax(m, v); double c =
      exp(o - m), e = exp(v - m); d = d * c + e; a = a * c + e * s[j]; } __syncthreads(); } y[i] = a / d;]] },
    { "Welford", [[double m = 0, q = 0; for (int j = 0; j < n; ++j) { double d = x[j] - m; m += d / (j + 1); q += d * (x[j] - m); }
      y[i] = q * m * x[i];]] },
    { "Kahan sum", [[double s = 0, c = 0; for (int j = 0; j < n; ++j) { double v = x[j] * x[i] - c, u = s + v; c = (u - s) - v; s = u;
      } y[i] = s * s;]] },
    { "bisection", [[double a = 0, b = 3; for (int j = 0; j < 40; ++j) { double m = 0.5 * (a + b); if (m * m * m > x[i] + 2) b = m;
      else a = m; } double m = 0.5 * (a + b); y[i] = m - (m * m * m - x[i] - 2) / (3 * m * m);]],
      order = 1, eps = 1e-05, rtol = 1,
      atol = 3 },
    { "Newton with break", [[double s = 1.5; for (int j = 0; j < 50; ++j) { double f = s * s * s - x[i] - 2; if (fabs(f) < 1e-15)
      break; s -= f / (3 * s * s); } y[i] = s;]], order = 1 },
    { "Horner by pointer from the end",
      "const double *p = x + n; double s = 0; while (p != x) s = s * x[i] + *--p; y[i] = s;" },
    { "ring buffer", [[double q[3] = {x[i], 0.2, 0.1}; int h = 0; for (int j = 0; j < 10; ++j) { double v = q[h] * q[(h + 1) % 3] +
      x[j]; q[h] = sin(v); h = (h + 1) % 3; } y[i] = q[0] + q[1] * q[2];]] },
    { "stack by hand", [[double st[6]; int sp = 0; for (int j = 0; j < n; ++j) { if (at[j] > 1 && sp >= 2) { double b = st[--sp], a =
      st[--sp]; st[sp++] = a * b + x[i]; } else if (sp < 6) st[sp++] = x[j]; } double s = 1; while (sp > 0) s = s * st[--sp] + 0.5;
      y[i] = s;]], sig = "const double *x, const int *at, double *y, int n",
      rest = { ints { 0, 1, 2, 3, 0, 0, 1, 3, 3, 2, 1, 0 }, 12 } },
    { "sort by key with payload", [[double k[4], v[4]; for (int j = 0; j < 4; ++j) { k[j] = x[(i + j) % n]; v[j] = x[(i + 2 * j) % n];
      } for (int a = 1; a < 4; ++a) for (int b = a; b > 0 && k[b] < k[b-1]; --b) { double u = k[b]; k[b] = k[b-1]; k[b-1] = u; u =
      v[b]; v[b] = v[b-1]; v[b-1] = u; } y[i] = k[0] * v[3] + k[2] * v[1];]] },
    { "bitonic in shared", [[__shared__ double s[16]; s[t] = x[i]; __syncthreads(); for (int k = 2; k <= 16; k *= 2) for (int j = k /
      2; j > 0; j /= 2) { int o = t ^ j; double a = s[t], b = s[o]; bool up = (t & k) == 0; double v = (t < o) == up ? fmin(a, b) :
      fmax(a, b); __syncthreads(); s[t] = v; __syncthreads(); } y[i] = s[t] * s[0] * x[i];]],
      n = 16, order = 1 },
    { "odd-even transposition in shared, own pairs", [[__shared__ double s[12]; s[t] = x[i]; __syncthreads(); for (int r = 0; r < 4;
      ++r) { int a = 2 * t + (r & 1); if (a + 1 < 12) { double u = s[a], v = s[a+1]; s[a] = fmin(u, v); s[a+1] = fmax(u, v) + 0.01 *
      u; } __syncthreads(); } y[i] = s[t] * s[3];]] },
    { "scan Blelloch in shared", [[__shared__ double s[8]; s[t] = x[i]; for (int d = 1; d < 8; d *= 2) { __syncthreads(); int k = (t +
      1) * 2 * d - 1; if (k < 8) s[k] = s[k] * (1 + s[k - d]); } __syncthreads(); y[i] = s[t] * s[7];]], n = 8 },
    { "game of life like double buffer in global", [[for (int r = 0; r < 3; ++r) { double v = y[(i + 1) % n] * y[(i + n - 1) % n];
      __syncthreads(); y[i] = sin(v) + x[i]; __syncthreads(); }]], inout = { "y" } },
    { "double buffer of locals", [[double a[3] = {x[i], x[(i+1)%n], 0.3}, b[3]; double *p = a, *q = b; for (int r = 0; r < 5; ++r) {
      for (int j = 0; j < 3; ++j) q[j] = p[j] * p[(j + 1) % 3] + 0.2; double *u = p; p = q; q = u; } y[i] = p[0] + p[1] * p[2];]] },
    { "matrix inverse in registers", [[double m[3][4] = {{2 + x[i], x[0], 1, x[1]}, {x[2], 3, x[i], 1}, {1, x[3], 4, x[4]}}; for (int
      c = 0; c < 3; ++c) { double p = 1 / m[c][c]; for (int k = c; k < 4; ++k) m[c][k] *= p; for (int r = 0; r < 3; ++r) if (r != c) {
      double f = m[r][c]; for (int k = c; k < 4; ++k) m[r][k] -= f * m[c][k]; } } y[i] = m[0][3] + m[1][3] * m[2][3];]] },
    { "pivoting", [[double m[2][3] = {{x[i], 1, x[0]}, {1 + x[1], x[2], 2}}; if (fabs(m[0][0]) < fabs(m[1][0])) for (int k = 0; k < 3;
      ++k) { double u = m[0][k]; m[0][k] = m[1][k]; m[1][k] = u; } double f = m[1][0] / m[0][0]; for (int k = 0; k < 3; ++k) m[1][k]
      -= f * m[0][k]; double b = m[1][2] / m[1][1];
      y[i] = (m[0][2] - m[0][1] * b) / m[0][0] + b;]] },
    { "random numbers by a hash", [[unsigned h = i * 2654435761u; double s = 1; for (int j = 0; j < 4; ++j) { h ^= h >> 13; h *=
      0x5bd1e995u; double u = (h & 0xffff) / 65536.; if (u < 0.5) s *= x[(h >> 8) % n] + u; else s += u * x[i]; } y[i] = s;]] },
    { "rejection loop", [[unsigned h = i + 1; double u; do { h = h * 1664525u + 1013904223u; u = (h >> 8) / 16777216.; } while (u >
      0.5 + 0.1 * x[i]); y[i] = u * x[i] * x[i];]], eps = 1e-07 },
    { "comma, chained assignment", "double a, b, c; a = b = c = x[i]; a *= 3; c += a, b -= c; y[i] = a * b * c;" },
    { "side effects in conditions", "int j = 0; double s = x[i]; while (j++ < 4 && (s *= x[j]) > -1) s += 0.3; y[i] = s * j;" },
    { "assignment as value", "double a, s = 0; for (int j = 0; (a = x[j % n] * x[i]) < 0.7 && j < 20; ++j) s += a * a; y[i] = s + a;" },
    { "ternary chains with calls", "double a = x[i]; y[i] = a > 0.5 ? exp(a) : a > 0 ? sqrt(a) * a : a > -0.5 ? sin(a) : a * a;" },
    { "modified parameter n", "n -= 2; double s = 0; while (n > 0) { s = s * x[n] + x[i]; n -= 3; } y[i] = s;" },
    { "scalar parameter with gradient and reuse",
      "a = a * x[i]; double b = a * a; a += b; y[i] = a * b;",
      sig = "const double *x, double a, double *y, int n", inputs = { f64(12), f64(1, 0.7) },
      rest = { 12 } },
    { "scalar parameter in a loop and a branch", [[double s = 0; for (int j = 0; j < 4; ++j) s = s * a + (j % 2 ? b : x[j]); if (s >
      b) s *= a; y[i] = s;]], sig = "const double *x, double a, double b, double *y, int n",
      inputs = { f64(12), f64(1, 0.7), f64(1, -0.4) }, rest = { 12 } },
    { "scalar parameter of threads that return early",
      "if (i > 7) return; if (x[i] < 0) { y[i] = a; return; } y[i] = a * a * x[i];",
      sig = "const double *x, double a, double *y, int n", inputs = { f64(12), f64(1, 0.7) },
      rest = { 12 } },
    { "scalar parameter with barriers and returns", [[__shared__ double s[12]; if (i >= 10) return; s[t] = a * x[i]; __syncthreads();
      y[i] = s[9 - t] * a;]],
      sig = "const double *x, double a, double *y, int n", inputs = { f64(12), f64(1, 0.7) },
      rest = { 12 } },
    { "struct by value", "double s = b.lo; for (int j = 0; j < 2; ++j) s = s * b.w[j] + x[i]; y[i] = fmin(s, b.hi);",
      sig = "const double *x, B b, double *y, int n", before = "struct B { double lo, hi, w[2]; };",
      inputs = { f64(12) }, rest = { { lo = 0.3, hi = 9, w = { 0.4, 0.7 } }, 12 } },
    { "constant tables", "y[i] = tab[i % 3] * x[i] * x[(i + off[i % 2]) % n];", before = [[__constant__ double tab[3] = {1, 2.5, -1};
      __constant__ int off[2] = {3, 5};]] },
    { "block sums to several outputs", [[atomicAdd(&y[blockIdx.x], x[i] * x[i]); atomicAdd(&y[2], sin(x[i])); if (t == 0)
      atomicAdd(&y[3], x[i]);]], shape = { 4 }, grid = { 2 }, block = { 6 } },
    { "histogram with weights", [[int b = (int)(fabs(x[i]) * 3.99); double f = fabs(x[i]) * 3.99 - b; atomicAdd(&y[b], (1 - f) *
      x[i]); atomicAdd(&y[b + 1], f * x[i]);]], shape = { 8 }, eps = 1e-06 },
    { "atomics under conditions of values, in loops", [[for (int j = 0; j < 3; ++j) if (x[(i + j) % n] > 0) atomicAdd(&y[(i * j) % 4],
      x[i] * x[(i + j) % n]);]], shape = { 4 } },
    { "atomics in shared then block sum", [[__shared__ double s[2]; if (t < 2) s[t] = 0; __syncthreads(); atomicAdd(&s[t % 2], x[i] *
      x[i]); atomicAdd(&s[0], x[i]); __syncthreads(); if (t == 0) atomicAdd(&y[0], s[0] * s[1]);]],
      shape = { 1 }, grid = { 2 },
      block = { 6 } },
    { "atomicAdd of a struct member", "atomicAdd(&s[i % 2].b, x[i] * x[i]);",
      sig = "const double *x, S *s, int n", before = "struct S { double a, b; };", shape = { 4 } },
    { "int atomics beside floats", "int k = atomicAdd(&c[0], 1); atomicAdd(&y[i % 3], x[i] * x[i] * (k >= 0));",
      sig = "const double *x, double *y, int *c, int n", shape = { 3 } },
    { "atomicMax on shared double is no function", [[__shared__ unsigned long long m; m = 0; __syncthreads(); atomicMax(&m, (unsigned
      long long)(fabs(x[i]) * 1000)); __syncthreads(); y[i] = x[i] * (double)m;]], eps = 1e-06 },
    { "atomicInc ring", [[__shared__ unsigned c; if (t == 0) c = 0; __syncthreads(); unsigned j = atomicInc(&c, 11); __syncthreads();
      y[j] = x[i] * x[i];]], drawn = true },
    { "atomicOr flags", [[__shared__ unsigned m; if (t == 0) m = 0; __syncthreads(); if (x[i] > 0) atomicOr(&m, 1u << t);
      __syncthreads(); y[i] = x[i] * x[i] * __popc(m) + ((m >> t) & 1 ? x[i] : 0);]] },
    { "atomicAdd_block", [[__shared__ double s; if (t == 0) s = 0; __syncthreads(); atomicAdd_block(&s, x[i] * x[i]); __syncthreads();
      y[i] = s * x[i];]] },
    { "atomicAdd result of floats unused variable",
      "double o = atomicAdd(&y[0], x[i] * x[i]); (void)o;", shape = { 1 } },
    { "atomicAdd result of floats in dead code",
      "double o = atomicAdd(&y[0], x[i] * x[i]); if (n < 0) y[0] = o;", shape = { 1 },
      refuses = "the result of an atomic operation on 'y'" },
    { "atomicAdd result of floats as index",
      "double o = atomicAdd(&y[0], 1.); z[(int)o] = x[i] * x[i];",
      sig = "const double *x, double *y, double *z, int n",
      refuses = "the result of an atomic operation on 'y'" },
    { "atomicAdd result of floats as condition", [[double o = atomicAdd(&y[0], x[i] * x[i]); if (o > 0.5) z[i] = x[i] * x[i]; else
      z[i] = x[i];]],
      sig = "const double *x, double *y, double *z, int n",
      refuses = "the result of an atomic operation on 'y'" },
  },
  { title = "indices, pointers, structs, geometry, carved memory",
    { "floor index", "int j = (int)floor(fabs(x[i])*7.3) % n; y[i] = x[j] * x[i];", eps = 1e-06 },
    { "floor frac interpolation", "double p = fabs(x[i])*5.1; int j = (int)p; double f = p - j; y[i] = (1-f)*x[j%n] + f*x[(j+1)%n];",
      eps = 1e-06 },
    { "int array from floats", [[__shared__ int q[12]; q[t] = (int)(x[i]*10); __syncthreads(); int j = ((q[(t+1)%12] % 12) + 12) % 12;
      y[i] = x[j]*q[t];]], eps = 1e-06 },
    { "int local array", [[int q[4]; for (int j = 0; j < 4; ++j) q[j] = (int)(fabs(x[(i+j)%n])*11); double s = 0; for (int j = 0; j <
      4; ++j) s += x[q[j]%n]*x[i]; y[i] = s;]], eps = 1e-06 },
    { "bool from float used as number",
      "bool b = x[i] > 0.1; int c = x[i] > 0; y[i] = b * x[i] * x[i] + c * x[i] - !b * 3.;" },
    { "float truncated to int and back", "y[i] = (double)(int)(x[i]*10) * x[i];", eps = 1e-06 },
    { "float cast chain", "float f = (float)x[i]; y[i] = (double)f * x[i];", order = 1, eps = 0.001,
      rtol = 0.01, atol = 0.001, tol = 1e-05 },
    { "pointer walked by ++", "const double *p = x + i; double s = 0; for (int j = i; j < n; ++j) s += *p++ * x[i]; y[i] = s;" },
    { "pointer walked by --", "const double *p = x + i; double s = 1; while (p >= x) { s = s * *p-- + 0.3; } y[i] = s;" },
    { "post and pre increments in one expression",
      "int j = i; double s = x[j++ % n]; s *= x[++j % n]; s *= x[--j % n]; y[i] = s + j;" },
    { "output pointer walked", "double *p = y + i; *p++ = x[i]*x[i]; " },
    { "output pointer strided",
      "double *o = y + 3 * i; o[0] = x[i]; o++; *o = x[i]*x[i]; *++o = sin(x[i]);", block = { 4 } },
    { "pointer chosen", "const double *p = i % 2 ? x : w; y[i] = p[i]*p[(i+1)%n];",
      sig = "const double *x, const double *w, double *y, int n",
      inputs = { f64(12), f64(12, 0.3) } },
    { "pointers swapped in loop", [[__shared__ double a[12], b[12]; double *p = a, *q = b; p[t] = x[i]; __syncthreads(); for (int r =
      0; r < 3; ++r) { q[t] = p[t]*p[(t+1)%12]; __syncthreads(); double *u = p; p = q; q = u; } y[i] = p[t];]] },
    { "pointer to chosen output", "double *p = x[i] > 0 ? y : z; p[i] = x[i]*x[i];",
      sig = "const double *x, double *y, double *z, int n" },
    { "pointer difference", "const double *p = x + i, *q = x + n; y[i] = (q - p) * x[i] * x[i];" },
    { "reference to local", "double a = x[i]; double &r = a; r *= a; a += r; y[i] = a * r;" },
    { "reference to array element", "double a[3] = {x[i], 1, 2}; double &r = a[i % 3]; r = r * x[0] + 1; y[i] = a[0]*a[1]*a[2];" },
    { "swap by reference function", "double a = x[i], b = x[(i+1)%n]; if (a > b) sw(a, b); y[i] = a * a * b;",
      before = "__device__ void sw(double &a, double &b) { double t = a; a = b; b = t; }" },
    { "out params by pointer", "double s, c; f(x[i], &s, &c); y[i] = s * c;",
      before = "__device__ void f(double v, double *a, double *b) { *a = v * v; *b = *a + v; *a = *b * v; }" },
    { "array through function", "double a[3]; fill(a, x + i % 9); y[i] = a[0]*a[1] + a[2];",
      before = "__device__ void fill(double *a, const double *p) { for (int j = 0; j < 3; ++j) a[j] = p[j]*p[(j+1)%3]; a[1] *= a[0]; }" },
    { "struct copies", "S a = {x[i], 1}, b = a; b.u *= a.u; a = b; a.v += b.u; S c = a; a.u = 0; y[i] = c.u * c.v + a.v;",
      before = "struct S { double u, v; };" },
    { "array of structs local", [[S a[3]; for (int j = 0; j < 3; ++j) { a[j].u = x[(i+j)%n]; a[j].v = j; } a[1] = a[(i%2)*2]; a[0].v =
      a[1].u * a[2].u; y[i] = a[0].v * a[1].u + a[2].v;]], before = "struct S { double u, v; };" },
    { "shared array of structs", [[__shared__ S s[12]; s[t].u = x[i]; s[t].v = x[i]*x[i]; __syncthreads(); S b = s[(t+1)%12];
      __syncthreads(); s[t].u = b.u * b.v; __syncthreads(); y[i] = s[(t+5)%12].u * s[t].v;]],
      before = "struct S { double u, v; };" },
    { "struct in struct array by index", [[struct T { double m[2][2]; }; T a; for (int r = 0; r < 2; ++r) for (int c = 0; c < 2; ++c)
      a.m[r][c] = x[(i+2*r+c)%n]; T b = a; for (int r = 0; r < 2; ++r) for (int c = 0; c < 2; ++c) { double s = 0; for (int k = 0; k <
      2; ++k) s += a.m[r][k]*a.m[k][c]; b.m[r][c] = s; } y[i] = b.m[0][0]*b.m[1][1] - b.m[0][1]*b.m[1][0];]] },
    { "operator overloads dual", "D a = {x[i], 1}; D b = a * a + a; y[i] = b.v * b.d;",
      before = [[struct D { double v, d; __device__ D operator*(D o) const { return {v*o.v, v*o.d + d*o.v}; } __device__ D operator+(D o)
      const { return {v+o.v, d+o.d}; } };]] },
    { "member function that mutates", "A a; for (int j = 0; j < 4; ++j) a.push(x[(i+j)%n]); y[i] = a.get();",
      before = [[struct A { double s = 0, q = 1; int n = 0; __device__ void push(double v) { s += v; q *= v + 2; ++n; } __device__ double
      get() const { return s * q / n; } };]] },
    { "lambda by reference", [[double s = 0; auto f = [&](double v) { s += v * v * s + v; }; for (int j = 0; j < 3; ++j)
      f(x[(i+j)%n]); y[i] = s;]] },
    { "template recursion unrolled", "y[i] = P<5>::f(x[i]);",
      before = [[template<int N> struct P { __device__ static double f(double v) { return v * P<N-1>::f(v) + N; } }; template<> struct P<0>
      { __device__ static double f(double v) { return 1; } };]] },
    { "recursion", "y[i] = f(x[i], 3);",
      before = "__device__ double f(double v, int n) { return n ? v * f(v, n - 1) : 1; }",
      refuses = "recursion" },
    { "function with early returns", "y[i] = f(x[i]) * f(-x[i]);",
      before = [[__device__ double f(double v) { if (v < -0.5) return v * v; double s = 0; for (int j = 0; j < 4; ++j) { s += v; if (s > 1)
      return s * v; } return s * s * s; }]] },
    { "functor template reduce", "y[i] = red<4>(x + i % 9, [=](double a, double b) { return a * b + x[0]; });",
      before = [[template <int N, class F> __device__ double red(const double *p, F f) { double s = p[0]; for (int j = 1; j < N; ++j) s =
      f(s, p[j]); return s; }]] },
    { "2-D blocks ragged", [[int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y; if (c < 5 && r
      < 3) y[r*5+c] = x[r*5+c] * x[(r+1)%3*5+c] * x[r*5+(c+4)%5];]],
      n = 15, grid = { 2, 2 }, block = { 4, 2 } },
    { "3-D ragged", [[int a = blockIdx.x*2+threadIdx.x, b = blockIdx.y*2+threadIdx.y, c = blockIdx.z*2+threadIdx.z; if (a < 3 && b < 3
      && c < 2) { int j = (c*3+b)*3+a; y[j] = x[j]*x[(j+7)%18]; }]],
      n = 18, grid = { 2, 2, 1 }, block = { 2, 2, 2 } },
    { "transposed block with shared tile ragged", [[__shared__ double s[4][5]; int c = blockIdx.x*4+threadIdx.x, r =
      blockIdx.y*4+threadIdx.y; if (c < 6 && r < 3) s[threadIdx.y][threadIdx.x] = x[r*6+c]; __syncthreads(); c =
      blockIdx.y*4+threadIdx.x; r = blockIdx.x*4+threadIdx.y; if (c < 3 && r < 6) y[r*3+c] = s[threadIdx.x][threadIdx.y]*x[c];]],
      n = 18, grid = { 2, 1 }, block = { 4, 4 } },
    { "grid stride ragged with shared sum", [[__shared__ double s[4]; double a = 0; for (int j = i; j < n; j += gridDim.x*blockDim.x)
      a += x[j]*x[j]; s[t] = a; __syncthreads(); if (t == 0) { double q = 0; for (int j = 0; j < 4; ++j) q += s[j]*s[j]; y[blockIdx.x]
      = q; }]], n = 13, shape = { 2 }, grid = { 2 }, block = { 4 } },
    { "blocks of different work", [[if (blockIdx.x == 0) { y[t] = x[t]*x[t+4]; } else if (blockIdx.x == 1) { for (int j = 0; j < 2;
      ++j) y[4+t] += x[t]*x[j]; } else y[8+t] = sin(x[t]);]], grid = { 3 }, block = { 4 } },
    { "unsigned 64-bit index", [[unsigned long long j = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; unsigned long long
      k = (j * 0x9E3779B97F4A7C15ull) >> 60; y[j] = x[k % 12] * x[j];]] },
    { "unsigned wrap around in index", [[unsigned j = (unsigned)i - 3u; if (j < 9u) y[j] = x[j]*x[j]; unsigned char c = (unsigned
      char)(i * 50); y[9 + c % 3] = x[c % 3];]], n = 12 },
    { "short and char arithmetic", [[short a = (short)(i * 20000); signed char b = (signed char)(i * 30); y[i] = x[i] * a + x[(b +
      128) % 12] * x[i];]] },
    { "negative modulo and shifts", "int j = (i - 6) % 5, k = (i - 6) >> 1, l = -i / 4; y[i] = x[j + 5] * x[k + 4] * x[l + 4];" },
    { "bit tricks", [[int j = __popc(i), k = __clz(i + 1) - 28, l = __ffs(i), m = __brev(i) >> 28; y[i] = x[j] * x[k] + x[l] * x[m &
      7];]] },
    { "dynamic carved in two", [[extern __shared__ double s[]; double *a = s, *b = s + blockDim.x; a[t] = x[i]; b[t] = x[i]*x[i];
      __syncthreads(); double u = a[(t+1)%12]*b[(t+2)%12]; __syncthreads(); a[t] = u; __syncthreads(); y[i] = a[11-t]*b[t];]],
      shared = 192 },
    { "dynamic carved float int", [=[extern __shared__ double s[]; int *q = (int *)(s + 12); s[t] = x[i]; q[t] = (t * 5) % 12;
      __syncthreads(); y[i] = s[q[t]] * s[t];]=],
      shared = 192 },
    { "dynamic carved by char", [=[extern __shared__ char raw[]; double *s = (double *)raw; int *q = (int *)(raw + 12 *
      sizeof(double)); s[t] = x[i]; q[t] = 11 - t; __syncthreads(); y[i] = s[q[t]] * s[t];]=],
      shared = 192 },
    { "dynamic reused as another type, neither with a gradient", [=[extern __shared__ int q[]; extern __shared__ double s[];
      q[2 * t] = (t * 5) % 12; double v = x[q[2 * t]]; s[t] = 0; y[i] = v * v * x[q[2 * t]];]=],
      shared = 96, refuses = "give all arrays but one a size" },
    { "dynamic reused as another", [[extern __shared__ double s[]; s[t] = x[i]; __syncthreads(); double a = s[(t+1)%12];
      __syncthreads(); s[11-t] = a * a; __syncthreads(); y[i] = s[t] * a;]], shared = 96 },
    { "union by overlap of parts", [[extern __shared__ double s[]; double *a = s, *b = s + 6; if (t < 12) a[t] = x[i];
      __syncthreads(); double v = t < 6 ? b[t] * a[t] : 1; __syncthreads(); if (t < 6) b[t] = v * v; __syncthreads(); y[i] = a[t] * v;]],
      shared = 96 },
    { "float2 loads", "double2 v = x2[i]; double2 w = make_double2(v.y * v.x, v.x); w.x += v.y; y[2*i] = w.x * w.y; y[2*i+1] = v.x;",
      sig = "const double2 *x2, double *y, int n", rest = { 6 }, n = 12, block = { 6 } },
    { "vector reinterpreted", [[const double2 *p = (const double2 *)x; double2 v = p[i]; ((double2 *)y)[i] = make_double2(v.x * v.y,
      sin(v.y));]], n = 12, block = { 6 } },
    { "float4 output and shared vectors", [[__shared__ double2 s[6]; s[t] = ((const double2 *)x)[i]; __syncthreads(); double2 v =
      s[(t+1)%6]; y[2*i] = v.x * s[t].y; y[2*i+1] = v.y * v.x;]], n = 12, block = { 6 } },
    { "vector member address", "double2 v = make_double2(x[i], 1); double *p = &v.x; p[1] = p[0] * x[0]; y[i] = v.x * v.y;" },
    { "local array as vector", [[double a[4] = {x[i], 1, 2, x[0]}; double2 *p = (double2 *)a; p[1].x = p[0].x * p[1].y; y[i] = a[2] *
      a[0];]] },
    { "volatile", "volatile double v = x[i]; y[i] = v * v;" },
    { "restrict and const", "const double * __restrict__ p = x; double v = __ldg(p + i); y[i] = v * v;" },
  },
}
