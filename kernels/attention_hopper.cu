/*
** The gradients of attention in f16 and bf16 on Hopper (sm_90a), for a HEAD of 64 or 128 without a
** mask other than the causal one; after attention.cu and attention_back.cu, where shapes,
** definitions and attention_delta, which runs first, are described. hopper_keys and hopper_queries
** compute what attention_keys and attention_queries do, in the same order of sums, so that finite
** inputs give the same bits, by instructions of a warpgroup (wgmma.mma_async): four warps multiply
** 64 rows, which are in shared memory or registers, by a matrix in shared memory. Before it come,
** beside the other definitions,
**   #define KEYS_SHAPE, #define QUERIES_SHAPE    GROUPS, DEPTH, BUFFERS of each kernel
**
** A tile is 64 * GROUPS rows of the result. A block makes one tile after the other: each of its
** GROUPS warpgroups of workers has 64 of the rows, and four warps more, the feeders, copy to shared
** memory what workers read, ahead of them: a tile's own rows into one of BUFFERS buffers, and the
** rows of the other axis, BAND at a step, into one of DEPTH places. Buffers and places have two
** barriers each: 'full', at which feeders arrive, and 'empty', at which every warp of workers
** arrives that has read them. So warpgroups need not be in step: one computes exponentials while
** another has the tensor cores. Which block makes a tile changes no bit of it.
**
** Launch with 128 * (GROUPS + 1) threads, at least one block and at most as many as there are
** tiles, best one per multiprocessor, and space<GROUPS, DEPTH, BUFFERS>::bytes of dynamic shared
** memory. DEPTH is more than LAG.
*/
typedef unsigned long long u64;

/* BAND: rows per step; FEEDERS: threads that copy; LAG: how many later groups of copies a feeder
** has begun when it waits for one. PIECE: bytes of 64 rows of a matrix, stored as PANELS panels of
** 64 columns, one after the other; PANEL: bytes of a panel; LINE: bytes of one row of it. */
constexpr int BAND = 64, FEEDERS = 128, LAG = 2, PANELS = HEAD / 64, LINE = 128, PANEL = 64 * LINE,
              PIECE = PANELS * PANEL;

/* ---- shared memory ---- */

/* In this order: the buffers (for each warpgroup 64 rows of each of two matrices), the places
** (BAND rows of each of two matrices), lse and delta of the steps' rows and of the tiles' own,
** barriers, and for each buffer a flag. n: number of a step or a tile of this block. Results are
** addresses in shared memory, but for flag and rows_of_warp. */
template <int GROUPS, int DEPTH, int BUFFERS> struct space {
  static constexpr int groups = GROUPS, depth = DEPTH, buffers = BUFFERS, rows = 64 * GROUPS,
                       workers = 128 * GROUPS, buffer = GROUPS * 2 * PIECE,
                       steps_at = BUFFERS * buffer, sums_at = steps_at + DEPTH * 2 * PIECE,
                       own_sums_at = sums_at + DEPTH * 2 * BAND * 4,
                       bars_at = own_sums_at + BUFFERS * 2 * rows * 4,
                       bytes = 1024 + bars_at + 16 * (DEPTH + BUFFERS + 1),
                       feeder_registers = GROUPS == 2 ? 24 : 32,
                       worker_registers = GROUPS == 2 ? 240 : 160;
  static_assert(DEPTH > LAG, "feeders would wait for what they have not handed over");
  char *start;
  u32 at;
  FN space(void *shared) {
    start = (char *)(((u64)shared + 1023) & ~(u64)1023);
    at = shared_address(start);
  }
  FN u32 own(int n, int g, int second) const {
    return at + n % BUFFERS * buffer + (g * 2 + second) * PIECE;
  }
  FN u32 step(int n) const { return at + steps_at + n % DEPTH * 2 * PIECE; }
  FN u32 sums(int n) const { return at + sums_at + n % DEPTH * 2 * BAND * 4; }
  FN u32 own_sums(int n) const { return at + own_sums_at + n % BUFFERS * 2 * rows * 4; }
  FN u32 full(int n) const { return at + bars_at + n % DEPTH * 16; }
  FN u32 own_full(int n) const { return at + bars_at + (DEPTH + n % BUFFERS) * 16; }
  FN int *flag(int n) const {
    return (int *)(start + bars_at + (DEPTH + BUFFERS) * 16) + n % BUFFERS;
  }
  /* Rows of LD elements for put_rows, in the own rows of the warp's group. */
  FN element *rows_of_warp(int n, int g) const {
    return (element *)(start + (own(n, g, 0) - at) + threadIdx.x / 32 % 4 * (PIECE / 2));
  }
};

/* Columns 8 c to 8 c + 7 of a row: in a line, 16-byte part c lies at c ^ row % 8 (the 128-byte
** swizzle that wgmma reads). */
FN u32 part_of(int row, int c) {
  return c / 8 * PANEL + row * LINE + (((c % 8) ^ (row & 7)) << 4);
}

/* Feeders copy ROWS rows of x from 'first' on; zeros after the last row and column. */
template <int ROWS> FN void feed_rows(u32 to, const matrix &x, int first) {
  constexpr int CHUNKS = HEAD / 8, STEP = FEEDERS / CHUNKS;
  const int c = threadIdx.x % CHUNKS, row = threadIdx.x % FEEDERS / CHUNKS,
            rows = c * 8 < x.d ? x.n - first : 0;
  const element *from = x.p + (long long)(first + row) * x.stride + c * 8;
  if (x.whole) {
#pragma unroll
    for (int r = row; r < ROWS; r += STEP, from += STEP * x.stride)
      copy16(to + part_of(r, c), r < rows ? from : x.p, r < rows);
    return;
  }
#pragma unroll 1
  for (int r = row; r < ROWS; r += STEP, from += STEP * x.stride)
#pragma unroll 1
    for (int e = 0; e < 8; e++) {
      const element one = r < rows ? from[e] : 0;
      asm volatile("st.shared.u16 [%0], %1;"
                   :: "r"(to + part_of(r, c) + 2 * e), "h"(one) : "memory");
    }
}
/* Feeders copy lse and then delta of the n rows from i on; zeros after the last. row: number of
** the head's first row among all. */
FN void feed_sums(u32 to, const attention_args &a, long long row, int i, int n) {
  const float *const lse = lse_of(a, a.packed) + row, *const delta = (const float *)a.scratch + row;
  for (int e = threadIdx.x % FEEDERS; e < n; e += FEEDERS) {
    const bool real = i + e < a.t;
    copy4(to + e * 4, real ? lse + i + e : lse, real);
    copy4(to + (n + e) * 4, real ? delta + i + e : delta, real);
  }
}

/* ---- barriers ---- */

FN void bar_open(u32 bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(arrivals) : "memory");
}
FN void bar_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}
FN void bar_wait(u32 bar, u32 parity) {
  u32 done;
  do
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  while (!done);
}
constexpr u32 EMPTY = 8;                      /* from the barrier 'full' to 'empty' */

template <class SPACE> FN void open_barriers(const SPACE &x) {
  if (threadIdx.x == 0) {
    for (int n = 0; n < SPACE::depth + SPACE::buffers; n++) {
      bar_open(x.full(0) + n * 16, FEEDERS);
      bar_open(x.full(0) + n * 16 + EMPTY, 4 * SPACE::groups);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
}

/* Feeders: the barriers of what is on its way, the oldest last. */
struct deliveries {
  u32 bar[LAG];
  int n;
  FN void arrive(u32 at) const {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  /* so that wgmma sees it */
    bar_arrive(at);
  }
  /* What was copied since the last call is for this barrier. */
  FN void send(u32 at) {
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (n == LAG) {
      asm volatile("cp.async.wait_group %0;" :: "n"(LAG) : "memory");
      arrive(bar[LAG - 1]);
    } else n++;
#pragma unroll
    for (int i = LAG - 1; i > 0; i--) bar[i] = bar[i - 1];
    bar[0] = at;
  }
  FN void finish() {
    asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
    for (int i = LAG - 1; i >= 0; i--) if (i < n) arrive(bar[i]);
    n = 0;
  }
};
/* Feeders wait until the buffer or place of number n (a tile or a step of the block) is empty. of:
** how many buffers or places are used in turn. */
FN void await_empty(u32 bar, int n, int of) {
  if (n >= of) bar_wait(bar + EMPTY, (n / of - 1) & 1);
}
/* Workers wait until it is full; 'leave': this warp has read it. */
FN void await_full(u32 bar, int n, int of) { bar_wait(bar, (n / of) & 1); }
FN void leave(u32 bar) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) bar_arrive(bar + EMPTY);
}
/* A barrier of the four warps of warpgroup g. */
FN void meet_group(int g) { asm volatile("bar.sync %0, 128;" :: "r"(1 + g) : "memory"); }
/* As any_nan of attention.cu, with the feeders' threads alone. */
FN bool any_nan_of(const float *lse, int n) {
  u32 found = 0;
  for (int i = threadIdx.x % FEEDERS; i < n; i += FEEDERS) found |= lse[i] != lse[i];
  asm volatile("{\n.reg .pred mine, all;\nsetp.ne.u32 mine, %0, 0;\n"
               "barrier.cta.red.or.pred all, 15, %1, mine;\nselp.u32 %0, 1, 0, all;\n}"
               : "+r"(found) : "n"(FEEDERS) : "memory");
  return found;
}

/* Registers of a thread: the launch gives every thread the same number (168 with three warpgroups,
** 128 with four); feeders give back those that they do not need, and workers take them. */
template <int N> FN void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N));
}
template <int N> FN void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N));
}

/* ---- products of a warpgroup ---- */

/* What wgmma calls a descriptor: a matrix of 64 columns, whose rows are swizzled, 1,024 bytes from
** eight rows to the next. Its 16 columns or rows k are at k * COLUMNS16 or k * ROWS16 from it, the
** next panel at PANEL / 16. */
constexpr int COLUMNS16 = 32 / 16, ROWS16 = 16 * LINE / 16;
FN u64 matrix_at(u32 address) {
  return (u64)((address & 0x3FFFF) >> 4) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
/* Columns 8 o to 8 o + 63 of accumulators. */
#define ACCUMULATORS(X, c, o) \
  X(c[o + 0][0]), X(c[o + 0][1]), X(c[o + 0][2]), X(c[o + 0][3]), X(c[o + 1][0]), \
  X(c[o + 1][1]), X(c[o + 1][2]), X(c[o + 1][3]), X(c[o + 2][0]), X(c[o + 2][1]), \
  X(c[o + 2][2]), X(c[o + 2][3]), X(c[o + 3][0]), X(c[o + 3][1]), X(c[o + 3][2]), \
  X(c[o + 3][3]), X(c[o + 4][0]), X(c[o + 4][1]), X(c[o + 4][2]), X(c[o + 4][3]), \
  X(c[o + 5][0]), X(c[o + 5][1]), X(c[o + 5][2]), X(c[o + 5][3]), X(c[o + 6][0]), \
  X(c[o + 6][1]), X(c[o + 6][2]), X(c[o + 6][3]), X(c[o + 7][0]), X(c[o + 7][1]), \
  X(c[o + 7][2]), X(c[o + 7][3])
#define CHANGED(x) "+f"(x)
#define WRITTEN(x) "=f"(x)
#define WGMMA \
  "wgmma.mma_async.sync.aligned.m64n64k16.f32." FORMAT "." FORMAT " {%0, %1, %2, %3, %4, %5, %6, " \
  "%7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
  "%26, %27, %28, %29, %30, %31}, "

FN void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
template <int N> FN void written(float (&x)[1][N][4]) {
#pragma unroll
  for (int o = 0; o < N; o += 8) asm volatile("" : ACCUMULATORS(CHANGED, x[0], o) :: "memory");
}
/* Waits until all products are done: x and y, which they write, may be read after it. */
template <int N> FN void products_end(float (&x)[1][N][4], float (&y)[1][N][4]) {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  written(x);
  written(y);
}
/* c = a b', 64 rows each. (Rows of a that a loop keeps in registers were no faster for queries; for
** keys ptxas 13.0 gave their registers to other values.) */
FN void scores(float (&c)[1][8][4], u64 a, u32 b) {
  const u64 y = matrix_at(b);
  asm volatile("{\n.reg .pred no;\nsetp.ne.b32 no, 0, 0;\n" WGMMA "%32, %33, no, 1, 1, 0, 0;\n}"
               : ACCUMULATORS(WRITTEN, c[0], 0) : "l"(a), "l"(y));
#pragma unroll
  for (int k = 1; k < HEAD / 16; k++) {
    const int at = k / 4 * (PANEL / 16) + k % 4 * COLUMNS16;
    asm volatile(WGMMA "%32, %33, 1, 1, 1, 0, 0;\n"
                 : ACCUMULATORS(CHANGED, c[0], 0) : "l"(a + at), "l"(y + at));
  }
}
/* c += a b; b has 64 rows. */
FN void add_product(float (&c)[1][HEAD / 8][4], const u32 (&a)[1][4][4], u32 b) {
  const u64 y = matrix_at(b);
#pragma unroll
  for (int o = 0; o < PANELS; o++)
#pragma unroll
    for (int k = 0; k < 4; k++)
      asm volatile(WGMMA "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
                   : ACCUMULATORS(CHANGED, c[0], 8 * o)
                   : "r"(a[0][k][0]), "r"(a[0][k][1]), "r"(a[0][k][2]), "r"(a[0][k][3]),
                     "l"(y + o * (PANEL / 16) + k * ROWS16));
}

/* ---- tiles ---- */

struct tile { int first, h, b; };
/* CACHED: how many rows of queries and keys the heads have that are worked on at a time; with
** values and gradients these take 12 MB. FEW: if a head has fewer tiles than this, all heads are
** worked on at a time. */
constexpr int CACHED = (12 << 20) / (4 * HEAD), FEW = 12;
/* The number of a block's n-th tile: forwards and backwards in turn, so that blocks have equal work
** where tiles get smaller. */
FN int number_of(int n) {
  return n * gridDim.x + (n % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}
/* Tile n of all: as many heads at a time as the second-level cache holds, or all, and of these the
** tiles with the most steps first (LAST: of a head's tiles the last has the most). */
template <int ROWS, bool LAST>
FN tile tile_of(const attention_args &a, int n, int rows, int heads) {
  const int blocks = (rows + ROWS - 1) / ROWS, all = heads * a.b,
            some = blocks < FEW ? all : max(1, CACHED / (a.t + a.s)),
            first = n / (blocks * some) * some, left = n - first * blocks,
            now = min(some, all - first), block = left / now, head = first + left % now;
  return { (LAST ? blocks - 1 - block : block) * ROWS, head % heads, head / heads };
}
template <int ROWS> FN int tiles_of(int rows, int heads, int batches) {
  return (rows + ROWS - 1) / ROWS * heads * batches;
}
FN matrix rows_of(const attention_args &a, const void *x, const long long *stride, int b, int h,
                  int n) {
  return matrix(from_head(x, stride, b, h), stride[2], n, a.d);
}
template <class SPACE>
FN void feed_own(const SPACE &x, int n, const matrix &p, const matrix &q, int first) {
#pragma unroll 1
  for (int g = 0; g < SPACE::groups; g++) {
    feed_rows<64>(x.own(n, g, 0), p, first + 64 * g);
    feed_rows<64>(x.own(n, g, 1), q, first + 64 * g);
  }
}
/* (i, j): query and key of the lane's first pair of 64 x 64; edge: some pair is not seen. */
template <bool TRANSPOSED, class STATE>
FN void weigh_tile(float (&s)[1][8][4], float (&dp)[1][8][4], const STATE &x, const sight &see,
                   int i, int j, float c, bool edge) {
  if (edge) weigh_both<true, TRANSPOSED>(s, dp, x, see, i, j, c);
  else weigh_both<false, TRANSPOSED>(s, dp, x, see, i, j, c);
}

/* ---- keys ---- */

typedef space<KEYS_SHAPE> keys_space;

FN query_stream<BAND> queries_of(const attention_args &a, const tile &x) {
  return { a, 0, x.b, CAUSAL ? x.first / BAND : 0, (a.t + BAND - 1) / BAND };
}
FN query_step first_step(const attention_args &a, const tile &x, const query_stream<BAND> &q) {
  return { 0, x.h * (a.h / a.hk), q.first };
}
FN int steps_of(const attention_args &a, const query_stream<BAND> &q) {
  return max(0, q.blocks - q.first) * (a.h / a.hk);
}
FN tile keys_tile(const attention_args &a, int n) {
  return tile_of<keys_space::rows, false>(a, n, a.s, a.hk);
}

FN void feed_keys(const attention_args &a, const keys_space &space, int tiles) {
  deliveries sent = { {}, 0 };
  int step = 0;
#pragma unroll 1
  for (int n = 0, at = number_of(0); at < tiles; at = number_of(++n)) {
    const tile x = keys_tile(a, at);
    const query_stream<BAND> queries = queries_of(a, x);
    const int count = steps_of(a, queries), group = a.h / a.hk;
    if (n >= keys_space::buffers) sent.finish();     /* what the buffer waits for may be among it */
    await_empty(space.own_full(n), n, keys_space::buffers);
    feed_own(space, n, rows_of(a, a.k, a.ks, x.b, x.h, a.s), rows_of(a, a.v, a.vs, x.b, x.h, a.s),
             x.first);
    bool bad = false;
    for (int h = 0; CAUSAL && h < group; h++)
      bad |= any_nan_of(lse_of(a, a.packed) + row_of(a, x.b, x.h * group + h),
                        min(a.t, x.first + keys_space::rows));
    if (threadIdx.x % FEEDERS == 0) *space.flag(n) = bad;
    sent.send(space.own_full(n));
#pragma unroll 1
    for (query_step now = first_step(a, x, queries); now.n < count;
         now = queries.after(now), step++) {
      const int i = now.block * BAND;
      await_empty(space.full(step), step, keys_space::depth);
      feed_rows<BAND>(space.step(step), rows_of(a, a.q, a.qs, x.b, now.h, a.t), i);
      feed_rows<BAND>(space.step(step) + PIECE, rows_of(a, a.dout, a.gs, x.b, now.h, a.t), i);
      feed_sums(space.sums(step), a, row_of(a, x.b, now.h), i, BAND);
      sent.send(space.full(step));
    }
  }
  sent.finish();
}

FN float2 shared_pair(u32 at) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at) : "memory");
  return x;
}
FN void open_columns(by_column<8> &x, u32 sums) {
  const u32 at = sums + lane_column() * 4;
#pragma unroll
  for (int n = 0; n < 8; n++) {
    x.shift[n] = shared_pair(at + n * 32);
    x.shift[n].x *= -LOG2E;
    x.shift[n].y *= -LOG2E;
    x.delta[n] = shared_pair(at + BAND * 4 + n * 32);
  }
}

/* What a warpgroup has of a tile. */
struct keys_work {
  u64 k, v;
  float dk[1][HEAD / 8][4], dv[1][HEAD / 8][4];
};
/* Adds what a step's queries contribute to the keys from 'row' on, this warp's first; i: the first
** query. q, sums: the step's rows, lse and delta. */
FN void add_queries(keys_work &w, u32 q, u32 sums, const sight &see, int i, int row, float c,
                    bool edge) {
  float s[1][8][4], dp[1][8][4];
  u32 p[1][4][4], ds[1][4][4];
  by_column<8> x;
  products_begin();
  scores(s, w.k, q);
  scores(dp, w.v, q + PIECE);
  open_columns(x, sums);
  products_end(s, dp);
  weigh_tile<true>(s, dp, x, see, i + lane_column(), row + lane_row(), c, edge);
  round_to(p, s);
  round_to(ds, dp);
  products_begin();
  add_product(w.dv, p, q + PIECE);
  add_product(w.dk, ds, q);
  products_end(w.dv, w.dk);
}

FN void make_keys(const attention_args &a, const keys_space &space, int tiles) {
  const int warp = threadIdx.x / 32, g = __shfl_sync(~0u, warp / 4, 0);
  const float c = a.scale * LOG2E;
  int step = 0;
#pragma unroll 1
  for (int n = 0, at = number_of(0); at < tiles; at = number_of(++n)) {
    const tile x = keys_tile(a, at);
    const query_stream<BAND> queries = queries_of(a, x);
    const int count = steps_of(a, queries), own = x.first + 64 * g, row = own + warp % 4 * 16;
    const sight see(a, x.b, 0);
    keys_work w;
    clear(w.dk);
    clear(w.dv);
    await_full(space.own_full(n), n, keys_space::buffers);
    w.k = matrix_at(space.own(n, g, 0));
    w.v = matrix_at(space.own(n, g, 1));
    const float bad = *space.flag(n) ? quiet_nan() : 1.0f;
#pragma unroll 1
    for (query_step now = first_step(a, x, queries); now.n < count;
         now = queries.after(now), step++) {
      const int i = now.block * BAND;
      await_full(space.full(step), step, keys_space::depth);
      if (own < a.s && (!CAUSAL || own < i + BAND))
        add_queries(w, space.step(step), space.sums(step), see, i, row, c, CAUSAL && own + 63 > i);
      leave(space.full(step));
    }
    meet_group(g);
    element *const rows = space.rows_of_warp(n, g);
    put_keys<1>(a, x.b, x.h, row, 0, rows, rows, w.dk, w.dv, bad);
    leave(space.own_full(n));
  }
}

KERNEL __launch_bounds__(keys_space::workers + FEEDERS, 1)
  hopper_keys(const __grid_constant__ attention_args a) {
  extern __shared__ __align__(16) element shared[];
  const keys_space space(shared);
  const int tiles = tiles_of<keys_space::rows>(a.s, a.hk, a.b);
  open_barriers(space);
  if (threadIdx.x >= keys_space::workers) {
    fewer_registers<keys_space::feeder_registers>();
    feed_keys(a, space, tiles);
  } else {
    more_registers<keys_space::worker_registers>();
    make_keys(a, space, tiles);
  }
}

/* ---- queries ---- */

typedef space<QUERIES_SHAPE> queries_space;

FN tile queries_tile(const attention_args &a, int n) {
  return tile_of<queries_space::rows, true>(a, n, a.t, a.h);
}
FN int steps_of(const attention_args &a, const tile &x) {
  return ((CAUSAL ? min(a.s, x.first + queries_space::rows) : a.s) + BAND - 1) / BAND;
}

FN void feed_queries(const attention_args &a, const queries_space &space, int tiles) {
  deliveries sent = { {}, 0 };
  int step = 0;
#pragma unroll 1
  for (int n = 0, at = number_of(0); at < tiles; at = number_of(++n)) {
    const tile x = queries_tile(a, at);
    const int count = steps_of(a, x), kh = x.h / (a.h / a.hk);
    if (n >= queries_space::buffers) sent.finish();
    await_empty(space.own_full(n), n, queries_space::buffers);
    feed_own(space, n, rows_of(a, a.q, a.qs, x.b, x.h, a.t),
             rows_of(a, a.dout, a.gs, x.b, x.h, a.t), x.first);
    feed_sums(space.own_sums(n), a, row_of(a, x.b, x.h), x.first, queries_space::rows);
    sent.send(space.own_full(n));
#pragma unroll 1
    for (int i = 0; i < count; i++, step++) {
      await_empty(space.full(step), step, queries_space::depth);
      feed_rows<BAND>(space.step(step), rows_of(a, a.k, a.ks, x.b, kh, a.s), i * BAND);
      feed_rows<BAND>(space.step(step) + PIECE, rows_of(a, a.v, a.vs, x.b, kh, a.s), i * BAND);
      sent.send(space.full(step));
    }
  }
  sent.finish();
}

FN float shared_float(u32 at) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
  return x;
}
/* row: the warp's first among the tile's. */
FN void open_rows(by_row<1> &x, u32 sums, int row) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const u32 at = sums + (row + r * 8 + lane_row()) * 4;
    x.shift[0][r] = -LOG2E * shared_float(at);
    x.delta[0][r] = shared_float(at + queries_space::rows * 4);
  }
}

/* Adds what a step's keys contribute to dq of the queries from 'row' on; j: the first key. */
FN void add_keys(float (&dq)[1][HEAD / 8][4], u64 q, u64 dout,
                 const by_row<1> &x, u32 k, const sight &see, int row, int j, float c) {
  float s[1][8][4], dp[1][8][4];
  u32 ds[1][4][4];
  products_begin();
  scores(s, q, k);
  scores(dp, dout, k + PIECE);
  products_end(s, dp);
  weigh_tile<false>(s, dp, x, see, row + lane_row(), j + lane_column(), c,
                    see.edge(row, j + BAND - 1));
  round_to(ds, dp);
  products_begin();
  add_product(dq, ds, k);
  products_end(dq, dq);
}

FN void make_queries(const attention_args &a, const queries_space &space, int tiles) {
  const int warp = threadIdx.x / 32, g = __shfl_sync(~0u, warp / 4, 0);
  const float c = a.scale * LOG2E, by[1][2] = { { a.scale, a.scale } };
  int step = 0;
#pragma unroll 1
  for (int n = 0, at = number_of(0); at < tiles; at = number_of(++n)) {
    const tile x = queries_tile(a, at);
    const int count = steps_of(a, x), own = x.first + 64 * g, row = own + warp % 4 * 16;
    const sight see(a, x.b, x.h);
    float dq[1][HEAD / 8][4];
    by_row<1> sums;
    clear(dq);
    await_full(space.own_full(n), n, queries_space::buffers);
    const u64 q = matrix_at(space.own(n, g, 0)), dout = matrix_at(space.own(n, g, 1));
    open_rows(sums, space.own_sums(n), row - x.first);
#pragma unroll 1
    for (int i = 0; i < count; i++, step++) {
      await_full(space.full(step), step, queries_space::depth);
      if (own < a.t && (!CAUSAL || i * BAND < own + 64))
        add_keys(dq, q, dout, sums, space.step(step), see, row, i * BAND, c);
      leave(space.full(step));
    }
    meet_group(g);
    put_rows(row_in(a.result, a.dqs, x.b, x.h, row), a.dqs[2], a.t - row, a.d, 0,
             space.rows_of_warp(n, g), dq, by);
    leave(space.own_full(n));
  }
}

KERNEL __launch_bounds__(queries_space::workers + FEEDERS, 1)
  hopper_queries(const __grid_constant__ attention_args a) {
  extern __shared__ __align__(16) element shared[];
  const queries_space space(shared);
  const int tiles = tiles_of<queries_space::rows>(a.t, a.h, a.b);
  open_barriers(space);
  if (threadIdx.x >= queries_space::workers) {
    fewer_registers<queries_space::feeder_registers>();
    feed_queries(a, space, tiles);
  } else {
    more_registers<queries_space::worker_registers>();
    make_queries(a, space, tiles);
  }
}
