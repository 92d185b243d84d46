/*
** What is done before and after calls of cuSOLVER, since our matrices are row-major and its are
** column-major: transposed copies, triangles, permutations and determinants from pivots, and
** statuses. Also two factorisations of small matrices, which the library does one after another:
** here a batch of matrices that fit shared memory is one launch. Header-free; TYPE, 0 (f64) or 1
** (f32), is defined before it.
**   turn        transposes by tiles of 32 x 32
**   triangle, identities, infinite, pointers, scatter_rows   one element per thread and step, with
**               a stride of the whole grid
**   guarded, indefinite, statuses   report the lowest matrix that has no result, and why, as
**               position * 8 + reason, by an atomic minimum: the same in any order of threads
**   permutations, determinants   one block per matrix
**   qr_small    one block per matrix, one warp per column: Householder's steps, then the columns
**               of Q
**   svd_small   one block per matrix, 8 or 32 lanes per pair of columns: one-sided Jacobi rotations
** Each kernel writes its result once and reads its input at most once, apart from qr_small and
** svd_small, which read a matrix more often (from the cache).
*/
#if TYPE == 0
typedef double real;
#define EPSILON 2.220446049250313e-16
#define TINY 1e-150
#define REACH 1000
#else
typedef float real;
#define EPSILON 1.1920929e-07f
#define TINY 1e-17f
#define REACH 120
#endif
/* TINY: lengths below it (the largest element being 1) count as 0, as their
** squares are not exact. */
typedef long long i64;
typedef unsigned long long u64;
#define FN __device__ __forceinline__
#define KERNEL extern "C" __global__ void
enum { SINGULAR = 1, INDEFINITE = 2, NOT_FINITE = 3, NO_CONVERGENCE = 4 };

FN i64 first() { return blockIdx.x * (i64)blockDim.x + threadIdx.x; }
FN i64 step() { return gridDim.x * (i64)blockDim.x; }
FN void report(u64 *status, i64 at, int why) { atomicMin(status, (u64)(at * 8 + why)); }

/* y[c * ldy + r] = x[r * ldx + c] for each matrix of rows x columns; matrices begin 'across'
** elements apart in x, and 'over' in y. only 1: 0 where c > r; 2: 0 where r > c. */
KERNEL turn(real *y, const real *x, i64 rows, i64 columns, i64 ldx, i64 ldy, i64 across, i64 over,
            i64 batch, int only) {
  __shared__ real tile[32][33];
  const i64 down = (rows + 31) / 32, side = (columns + 31) / 32;
  const int a = threadIdx.x % 32, b0 = threadIdx.x / 32;
  for (i64 w = blockIdx.x; w < batch * down * side; w += gridDim.x) {
    const i64 m = w / (down * side), r0 = w / side % down * 32, c0 = w % side * 32;
    for (int b = b0; b < 32; b += 8)
      if (r0 + b < rows && c0 + a < columns) tile[b][a] = x[m * across + (r0 + b) * ldx + c0 + a];
    __syncthreads();
    for (int b = b0; b < 32; b += 8)
      if (c0 + b < columns && r0 + a < rows)
        y[m * over + (c0 + b) * ldy + r0 + a] =
          (only == 1 && c0 + b > r0 + a) || (only == 2 && c0 + b < r0 + a) ? (real)0 : tile[a][b];
    __syncthreads();
  }
}

/* Sets the elements below the diagonals to 0. */
KERNEL triangle(real *y, i64 n, i64 batch) {
  for (i64 e = first(); e < batch * n * n; e += step()) if (e % n < e / n % n) y[e] = 0;
}

/* Reports the matrices that have no Cholesky factor. */
KERNEL indefinite(const real *y, i64 n, i64 batch, const int *info, u64 *status) {
  for (i64 e = first(); e < batch * n; e += step()) {
    const i64 m = e / n, i = e % n;
    if (info[m] != 0 || isnan(y[m * n * n + i * n + i])) report(status, m, INDEFINITE);
  }
}

KERNEL identities(real *y, i64 n, i64 batch) {
  for (i64 e = first(); e < batch * n * n; e += step()) y[e] = e / n % n == e % n ? 1 : 0;
}

/* Inf where a matrix was singular. */
KERNEL infinite(real *y, i64 each, const int *info, i64 batch) {
  for (i64 e = first(); e < batch * each; e += step())
    if (info[e / each] > 0) y[e] = (real)__longlong_as_double(0x7ff0000000000000ll);
}

KERNEL pointers(char **p, char *base, i64 bytes, i64 batch) {
  for (i64 m = first(); m < batch; m += step()) p[m] = base + m * bytes;
}

/* Copies matrices with 0 for NaN and Inf, because an iteration would not end with them. A matrix
** that holds one is reported; 'at' is the number of the first matrix. part: where NaN and Inf
** count, 0 everywhere, 1 in the lower triangle, 2 in the upper one. */
KERNEL guarded(real *y, const real *x, i64 rows, i64 columns, i64 batch, int part, i64 at,
               u64 *status) {
  for (i64 e = first(); e < batch * rows * columns; e += step()) {
    const i64 i = e / columns % rows, j = e % columns;
    const int bad = !isfinite(x[e]);
    y[e] = bad ? (real)0 : x[e];
    if (bad && (part == 0 || (part == 1 ? j <= i : j >= i)))
      report(status, at + e / (rows * columns), NOT_FINITE);
  }
}

KERNEL statuses(const int *info, i64 batch, int why, u64 *status) {
  for (i64 m = first(); m < batch; m += step())
    if (info[m] != 0) report(status, m, why);
}

FN i64 pivot_at(const void *pivot, int wide, i64 k) {
  return wide ? ((const i64 *)pivot)[k] : ((const int *)pivot)[k];
}

/* For each row of P A its row in A: counted from 0 in room, m numbers per matrix; from 1 in y,
** unless that is NULL. One thread makes the exchanges, in shared memory if there is room. */
KERNEL permutations(real *y, int *room, const void *pivot, int wide, i64 m, i64 k) {
  enum { HERE = 4096 };
  __shared__ int rows[HERE], others[HERE];
  const i64 at = blockIdx.x;
  const int here = m <= HERE;
  int *p = here ? rows : room + at * m;
  for (i64 i = threadIdx.x; i < m; i += blockDim.x) p[i] = (int)i;
  for (i64 i = threadIdx.x; here && i < k; i += blockDim.x)
    others[i] = (int)pivot_at(pivot, wide, at * k + i) - 1;
  __syncthreads();
  for (i64 i = 0; threadIdx.x == 0 && i < k; i++) {
    const i64 o = here ? others[i] : pivot_at(pivot, wide, at * k + i) - 1;
    const int t = p[i];
    p[i] = p[o];
    p[o] = t;
  }
  __syncthreads();
  for (i64 i = threadIdx.x; i < m; i += blockDim.x) {
    if (here) room[at * m + i] = p[i];
    if (y) y[at * m + i] = (real)(p[i] + 1);
  }
}

/* Copies row i of x (n rows of k elements) to row p[i] of y. */
KERNEL scatter_rows(real *y, const real *x, const int *p, i64 n, i64 k) {
  for (i64 e = first(); e < n * k; e += step()) y[p[e / k] * k + e % k] = x[e];
}

/* One warp per matrix: from its LU the determinant, its sign and the log of its absolute value. */
KERNEL determinants(const real *lu, i64 n, const void *pivot, int wide, real *det, real *sign,
                    real *log_abs) {
  const i64 at = blockIdx.x;
  double product = 1, side = 1, sum = 0;
  for (i64 i = threadIdx.x; i < n; i += 32) {
    const double u = lu[(at * n + i) * n + i];
    if (pivot_at(pivot, wide, at * n + i) != i + 1) side = -side;
    product *= u;
    side *= u > 0 ? 1 : u < 0 ? -1 : u;
    sum += log(fabs(u));
  }
  for (int d = 16; d > 0; d /= 2) {
    product *= __shfl_xor_sync(~0u, product, d);
    side *= __shfl_xor_sync(~0u, side, d);
    sum += __shfl_xor_sync(~0u, sum, d);
  }
  if (threadIdx.x) return;
  sign[at] = (real)side;
  det[at] = (real)((side < 0) == (product < 0) ? product : -product);
  log_abs[at] = (real)sum;
}

/* ---- in shared memory ---- */

FN real warp_sum(real v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

/* The power of two, at most 2^REACH and at least 2^-REACH, that brings the largest absolute value
** of n elements between 1/2 and 1, or nearest to it; 1 if that is 0 or not finite. All threads get
** it. room: shared memory for a number per warp. */
FN real factor_of(const real *x, i64 n, real *room) {
  real top = 0;
  for (i64 e = threadIdx.x; e < n; e += blockDim.x) {
    const real v = fabs(x[e]);
    if (!(v <= top)) top = v;
  }
  for (int d = 16; d > 0; d /= 2) {
    const real v = __shfl_xor_sync(~0u, top, d);
    if (!(v <= top)) top = v;
  }
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = top;
  __syncthreads();
  for (int i = 0; i < (int)blockDim.x / 32; i++)
    if (!(room[i] <= top)) top = room[i];
  __syncthreads();
  int exponent = 0;
  if (top > 0 && isfinite(top)) frexp(top, &exponent);
  return ldexp((real)1, exponent > REACH ? -REACH : exponent < -REACH ? REACH : -exponent);
}

/* The Euclidean norm of f times the vector of n elements, but at least TINY; not finite if one of
** them is not. All threads get it. */
FN real length_of(const real *x, i64 n, real f, real *room) {
  real sum = 0;
  for (i64 e = threadIdx.x; e < n; e += blockDim.x) sum += x[e] * f * (x[e] * f);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < (int)blockDim.x / 32; i++) sum += room[i];
  __syncthreads();
  return sum <= TINY * TINY ? (real)TINY : sqrt(sum);      /* NaN and Inf are kept */
}

/* What a block of qr_small has in shared memory: w, n columns of m elements, 'ld' apart; for each
** of the k steps the new diagonal element (beta) and tau. */
struct qr_room { real *w, *beta, *tau; int m, n, k, ld; };

/* Step j: makes column j's reflection and applies it to the columns after it. */
FN void qr_step(const qr_room &o, int j) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, m = o.m;
  const real *v = o.w + j * o.ld, x = v[j];
  real tail = 0;
  for (int i = j + 1 + lane; i < m; i += 32) tail += v[i] * v[i];
  tail = warp_sum(tail);
  const int flat = tail <= TINY * TINY;         /* only zeros below the diagonal; false for NaN */
  const real b = flat ? x : -copysign(sqrt(x * x + tail), x), head = x - b,
             t = flat ? (real)0 : 1 / (-b * head);
  for (int c = j + 1 + warp; c < o.n && t != 0; c += warps) {
    real *y = o.w + c * o.ld, s = lane == 0 ? head * y[j] : (real)0;
    for (int i = j + 1 + lane; i < m; i += 32) s += v[i] * y[i];
    s = warp_sum(s) * t;
    if (lane == 0) y[j] -= head * s;
    for (int i = j + 1 + lane; i < m; i += 32) y[i] -= v[i] * s;
  }
  __syncthreads();
  if (threadIdx.x == 0) {                              /* read again only after the last step */
    o.w[j * o.ld + j] = head;
    o.beta[j] = b;
    o.tau[j] = t;
  }
}

/* One warp computes column c of q in 'own'. */
FN void qr_column(const qr_room &o, real *own, int c) {
  const int lane = threadIdx.x % 32, m = o.m;
  for (int i = lane; i < m; i += 32) own[i] = i == c ? 1 : 0;
  __syncwarp();
  for (int j = o.k - 1; j >= 0; j--) {
    const real *v = o.w + j * o.ld;
    real s = 0;
    for (int i = j + lane; i < m; i += 32) s += v[i] * own[i];
    s = warp_sum(s) * o.tau[j];
    for (int i = j + lane; i < m; i += 32) own[i] -= v[i] * s;
    __syncwarp();
  }
}

/* a (m, n) = q (m, kq) r (kq, n); kq: m or min(m, n); q NULL: it is not wanted. In shared memory: n
** columns w, a separate column for each warp, beta, tau, and room for factor_of. A step's
** reflection is I - tau v v' with v the column from its diagonal on. The columns of w are an odd
** number of elements apart, so that the elements of a row are in different banks. */
KERNEL __launch_bounds__(1024) qr_small(const real *a, real *q, real *r, int m, int n, int kq) {
  extern __shared__ double memory[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32,
            k = m < n ? m : n, ld = m | 1;
  real *w = (real *)memory, *own = w + ld * n + warp * m, *beta = w + ld * n + warps * m,
       *tau = beta + k;
  real *room = tau + k;
  const i64 at = blockIdx.x;
  a += at * m * n;
  r += at * kq * n;
  const real f = factor_of(a, (i64)m * n, room);
  for (int e = threadIdx.x; e < m * n; e += blockDim.x) w[e % n * ld + e / n] = a[e] * f;
  __syncthreads();
  const qr_room o = { w, beta, tau, m, n, k, ld };
  for (int j = 0; j < k; j++) qr_step(o, j);
  __syncthreads();
  for (int e = threadIdx.x; e < kq * n; e += blockDim.x) {
    const int i = e / n, j = e % n;
    r[e] = (j > i ? w[j * ld + i] : j == i ? beta[j] : (real)0) / f;
  }
  for (int c = warp; q && c < kq; c += warps) {
    qr_column(o, own, c);
    for (int i = lane; i < m; i += 32) q[at * m * kq + (i64)i * kq + c] = own[i];
    __syncwarp();
  }
}

/* 16 bytes of a column. */
enum { PACK = 16 / sizeof(real) };
struct __align__(16) pack { real e[PACK]; };

/* Replaces x and y, of 'length' elements (a multiple of PACK), by c x - s y and s x + c y, or by
** the two exchanged. */
FN void combine(real *x, real *y, int length, int lane, int lanes, real c, real s, int swap) {
  for (int i = lane * PACK; i < length; i += lanes * PACK) {
    const pack u = *(const pack *)(x + i), v = *(const pack *)(y + i);
    pack l, r;
    for (int e = 0; e < PACK; e++) {
      l.e[e] = fma(c, u.e[e], -(s * v.e[e]));
      r.e[e] = fma(s, u.e[e], c * v.e[e]);
    }
    *(pack *)(x + i) = swap ? r : l;
    *(pack *)(y + i) = swap ? l : r;
  }
}

/* Sum of v over groups of LANES neighbouring lanes. */
template <int LANES> FN real sum_of(real v) {
  for (int d = LANES / 2; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}
template <int LANES> FN real product(const real *x, const real *y, int length) {
  real g = 0;
  for (int i = threadIdx.x % LANES * PACK; i < length; i += LANES * PACK) {
    const pack u = *(const pack *)(x + i), v = *(const pack *)(y + i);
    for (int e = 0; e < PACK; e++) g = fma(u.e[e], v.e[e], g);
  }
  return g;
}

/* Rotates columns x and y of w, and of z if any, so that those of w are orthogonal and the longer
** one is first; LANES neighbouring lanes work on a pair. Returns 1 if they were not orthogonal.
** squares: the squared lengths of the columns, updated here; a column whose square is at most
** 'noise' is rounding error and is not rotated. on: 0 for lanes that have no pair. */
template <int LANES>
FN int rotate(real *w, int ld, real *z, int lz, real *squares, int x, int y, int on, real limit,
              real noise) {
  const int lane = threadIdx.x % LANES;
  const real a = on ? squares[x] : (real)0, b = on ? squares[y] : (real)0;
  const real g = sum_of<LANES>(on ? product<LANES>(w + x * ld, w + y * ld, ld) : (real)0);
  const int swap = a < b, apart = a > noise && b > noise && g * g > limit * a * b;
  if (!apart && !swap) return 0;
  real c = 1, s = 0, more = 0;
  if (apart) {
    const real zeta = (b - a) / (2 * g);
    const real t = fabs(zeta) > (real)1e9 ? (real)0.5 / zeta          /* its square may overflow */
                   : copysign((real)1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    c = 1 / sqrt(1 + t * t);
    s = c * t;
    more = t * g;
  }
  combine(w + x * ld, w + y * ld, ld, lane, LANES, c, s, swap);
  if (z) combine(z + x * lz, z + y * lz, lz, lane, LANES, c, s, swap);
  if (lane == 0) {
    const real l = a > more ? a - more : (real)0, r = b + more;
    squares[x] = swap ? r : l;
    squares[y] = swap ? l : r;
  }
  return apart;
}

/* Makes column 'have' of w a unit vector orthogonal to those before it: the axis' unit vector that
** is farthest from their span, less its projection, which is subtracted twice for accuracy. */
FN void complete(real *w, int ld, int p, int have, real *room) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  real *y = w + have * ld;
  for (int i = threadIdx.x; i < p; i += blockDim.x) {
    real s = 0;
    for (int c = 0; c < have; c++) s += w[c * ld + i] * w[c * ld + i];
    room[i] = s;
  }
  __syncthreads();
  int best = 0;
  for (int i = 1; i < p; i++) if (room[i] < room[best]) best = i;
  for (int i = threadIdx.x; i < p; i += blockDim.x) y[i] = i == best ? 1 : 0;
  __syncthreads();
  for (int turn = 0; turn < 2; turn++) {
    for (int c = warp; c < have; c += warps) {
      real s = 0;
      for (int i = lane; i < p; i += 32) s += w[c * ld + i] * y[i];
      s = warp_sum(s);
      if (lane == 0) room[c] = s;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p; i += blockDim.x) {
      real v = y[i];
      for (int c = 0; c < have; c++) v -= w[c * ld + i] * room[c];
      y[i] = v;
    }
    __syncthreads();
  }
  real s = 0;
  for (int i = lane; i < p; i += 32) s += y[i] * y[i];
  s = sqrt(warp_sum(s));
  __syncthreads();
  for (int i = threadIdx.x; i < p; i += blockDim.x) y[i] /= s;
  __syncthreads();
}

/* The two partners of pair k in a round of a tournament of n (even) players: player 0 stays, the
** others move in a circle. */
FN void partners(int n, int round, int k, int *x, int *y) {
  const int i = k - 1 + round, j = n - 2 - k + round;
  const int a = k == 0 ? 0 : 1 + (i < n - 1 ? i : i - (n - 1)),
            b = 1 + (j < n - 1 ? j : j - (n - 1));
  *x = a < b ? a : b;
  *y = a < b ? b : a;
}

/* Rotates each pair of the q columns once, with LANES threads per pair. Returns 1 if a pair of this
** thread was not orthogonal. */
template <int LANES> FN int sweep_pairs(real *w, int ld, real *z, int lz, real *squares, int q,
                                        real limit, real noise) {
  const int group = threadIdx.x / LANES, groups = blockDim.x / LANES, even = q + q % 2;
  int turned = 0;
  for (int j0 = 0; j0 < q; j0 += groups) {               /* whole warps: all of one add up */
    const int j = j0 + group;
    const real v = sum_of<LANES>(j < q ? product<LANES>(w + j * ld, w + j * ld, ld) : (real)0);
    if (j < q && threadIdx.x % LANES == 0) squares[j] = v;
  }
  __syncthreads();
  for (int round = 0; round < even - 1; round++) {
    for (int k0 = 0; k0 < even / 2; k0 += groups) {
      int x = 0, y = q;
      if (k0 + group < even / 2) partners(even, round, k0 + group, &x, &y);
      turned |= rotate<LANES>(w, ld, z, lz, squares, x, y, y < q, limit, noise);
    }
    __syncthreads();
  }
  return turned;
}

/* What a block of svd_small has in shared memory: w, columns of length p, and z of length q, 'ld'
** and 'lz' apart; the singular values, and order[i]: the column of the i-th largest. */
struct svd_room { real *w, *z, *value; int *order, p, q, ld, lz; };

/* Loads the columns of a, or the rows of a wide one, times f into w; makes z the identity where
** vectors are wanted. */
FN void svd_load(const svd_room &o, const real *a, real f, int n, int tall, int vectors) {
  const int p = o.p, q = o.q, ld = o.ld, lz = o.lz;
  for (int e = threadIdx.x; e < q * ld; e += blockDim.x) {
    const int j = tall ? e % q : e / ld, i = tall ? e / q : e % ld;
    o.w[j * ld + i] = i < p ? a[tall ? i * n + j : j * n + i] * f : (real)0;
  }
  for (int e = threadIdx.x; vectors && e < q * lz; e += blockDim.x)
    o.z[e] = e / lz == e % lz ? 1 : 0;
  __syncthreads();
}

/* The lengths of the columns and their order, longest first; of equal ones the lower index is
** first. */
FN void svd_order(const svd_room &o) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, q = o.q;
  for (int j = warp; j < q; j += warps) {
    real v = 0;
    for (int i = lane; i < o.p; i += 32) v += o.w[j * o.ld + i] * o.w[j * o.ld + i];
    v = sqrt(warp_sum(v));
    if (lane == 0) o.value[j] = v;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < q; j += blockDim.x) {
    const real mine = o.value[j];
    int rank = 0;
    for (int k = 0; k < q; k++) rank += o.value[k] > mine || (o.value[k] == mine && k < j);
    o.order[rank] = j;
  }
  __syncthreads();
}

/* Writes the columns of w, in order and scaled to length 1, to 'others'. 'rank' of them are above
** noise; if that is less than 'wide', they are put in order in w through global memory, and
** orthogonal columns are added. */
FN void svd_others(const svd_room &o, real *others, int tall, int wide, int rank, real *room) {
  const int p = o.p, q = o.q, ld = o.ld;
  if (rank == q && wide == q) {
    for (int e = threadIdx.x; e < p * q; e += blockDim.x) {
      const int j = tall ? e % q : e / p, i = tall ? e / q : e % p;
      others[e] = o.w[o.order[j] * ld + i] / o.value[o.order[j]];
    }
    return;
  }
  for (int e = threadIdx.x; e < p * rank; e += blockDim.x) {
    const int j = e / p, i = e % p;
    others[e] = o.w[o.order[j] * ld + i] / o.value[o.order[j]];
  }
  __syncthreads();
  for (int e = threadIdx.x; e < p * rank; e += blockDim.x) o.w[e / p * ld + e % p] = others[e];
  __syncthreads();
  for (int j = rank; j < wide; j++) complete(o.w, ld, p, j, room);
  for (int e = threadIdx.x; e < p * wide; e += blockDim.x) {
    const int j = tall ? e % wide : e / p, i = tall ? e / wide : e % p;
    others[e] = o.w[j * ld + i];
  }
}

/* a (m, n) = u s vh. Shared memory: w, the columns of a or, if it is wide, its rows (q of length p;
** room for 'wide' of them, which is p for full matrices); z (q, q), the product of the rotations;
** both with columns that begin at multiples of a pack; the values, scratch of p elements, and the
** order of the values. vectors: 0 if u and vh are not wanted and not written. lanes: 8 or 32 per
** pair. */
KERNEL __launch_bounds__(1024) svd_small(const real *a, real *u, real *s, real *vh, int m, int n,
                                         int full, int vectors, int lanes, u64 *status) {
  extern __shared__ __align__(16) double memory[];
  const int tall = m >= n, p = tall ? m : n, q = tall ? n : m, wide = vectors ? (full ? p : q) : q;
  const int ld = (p + PACK - 1) / PACK * PACK, lz = (q + PACK - 1) / PACK * PACK;
  real *w = (real *)memory, *z = w + wide * ld, *value = z + (vectors ? q * lz : 0),
       *room = value + q;
  int *order = (int *)(room + (p > 32 ? p : 32)), sweep, r;
  const i64 at = blockIdx.x;
  a += at * m * n;
  const real f = factor_of(a, (i64)m * n, room), limit = EPSILON * EPSILON * p,
             noise = EPSILON * length_of(a, (i64)m * n, f, room);
  if (!isfinite(noise)) {
    if (threadIdx.x == 0) report(status, at, NOT_FINITE);
    return;
  }
  const svd_room o = { w, z, value, order, p, q, ld, lz };
  svd_load(o, a, f, n, tall, vectors);
  for (sweep = 0, r = q > 1; r && sweep < 60; sweep++) {
    real *const zs = vectors ? z : (real *)0;
    r = __syncthreads_or(lanes == 8 ? sweep_pairs<8>(w, ld, zs, lz, value, q, limit, noise * noise)
                          : sweep_pairs<32>(w, ld, zs, lz, value, q, limit, noise * noise));
  }
  if (r && threadIdx.x == 0) report(status, at, NO_CONVERGENCE);
  svd_order(o);
  for (int j = threadIdx.x; j < q; j += blockDim.x) s[at * q + j] = value[order[j]] / f;
  if (!vectors) return;
  /* The columns of z give vh (tall) or u (wide); the ordered columns of w give the other. */
  real *turns = tall ? vh + at * (i64)(full ? n : q) * n : u + at * (i64)m * (full ? m : q);
  for (int e = threadIdx.x; e < q * q; e += blockDim.x) {
    const int j = e / q, i = e % q;                       /* column j in order, element i */
    turns[tall ? e : i * q + j] = z[order[j] * lz + i];
  }
  int rank = 0;
  while (rank < q && value[order[rank]] > noise) rank++;
  __syncthreads();
  svd_others(o, tall ? u + at * (i64)m * wide : vh + at * (i64)wide * n, tall, wide, rank, room);
}
