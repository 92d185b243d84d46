/*
** Sorting and selecting rows by radix: positions, 1-based, of the order that a stable sort
** gives; bit for bit those of src/cpu (sort_keys.h has the same keys). Header-free; compiled
** for one kind of keys, with these lines before it:
**   BITS   of an element: 8, 16, 32 or 64
**   KIND   0 float, 1 signed, 2 unsigned, 3 bool
**   INF    the bits of a float's infinity
** Rows of at most 256 elements: sort_rows, a bitonic network in shared memory over pairs of
** key and position, no two of which are equal; several short rows share a block. Rows of at most
** 2048: sort_tile, the passes of long rows within one block.
** Longer rows: one digit of 8 bits per pass, lowest first. sort_tally counts all digits of a row in
** one reading, sort_starts makes them the places where digits begin, and each pass is one sweep
** over tiles of TILE elements: a block counts the digits of its tile, publishes the counts, adds up
** those of the tiles before (which publish their running sums as soon as they have them), and
** moves its elements, sorted by the digit within the tile so that stores are coalesced. Blocks
** take tiles in the order in which they start, so a block waits only for blocks that run. The first
** pass reads the row itself, the last writes positions (and values): with 32-bit keys 4, 12, 16, 16
** and 16 (20) bytes per element are moved.
** Selecting: the k-th key is found digit by digit from the highest (select_count,
** select_pick); then either its first place is looked up (kth_*), or what is below it and the
** first of its equals are collected in the order of positions and sorted as short rows.
** No result depends on the order in which blocks run.
*/
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define FN __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#define THREE extern "C" __global__ void __launch_bounds__(256, 3)     /* per multiprocessor */
#define WIDE extern "C" __global__ void __launch_bounds__(1024)

#if BITS == 64
typedef u64 S;
typedef u64 K;
#define ITEMS 8
#elif BITS == 32
typedef u32 S;
typedef u32 K;
#define ITEMS 16
#elif BITS == 16
typedef u16 S;
typedef u32 K;
#define ITEMS 16
#else
typedef u8 S;
typedef u32 K;
#define ITEMS 16
#endif
#define SIGN ((K)1 << (BITS - 1))
#define ALL ((K)(SIGN | (SIGN - 1)))
#define TILE (256 * ITEMS)
#define ROW 2048

FN K key_of(S bits, K flip) {
  const K b = bits;
#if KIND == 0
  const K size = b & (SIGN - 1);
  const K k = size > (K)INF ? ALL : size == 0 ? SIGN : b & SIGN ? ~b & ALL : b | SIGN;
#elif KIND == 1
  const K k = b ^ SIGN;
#elif KIND == 2
  const K k = b;
#else
  const K k = b != 0;
#endif
  return k ^ flip;
}

/* Sum of the values of the threads before this one, of 256; all: the sum of all. The shared words
** must not be changed before the next barrier. */
FN u32 before_of(u32 v, u32 *words, u32 *all) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u32 run = v;
  for (int d = 1; d < 32; d *= 2) {
    const u32 y = __shfl_up_sync(~0u, run, d);
    if (lane >= d) run += y;
  }
  if (lane == 31) words[warp] = run;
  __syncthreads();
  u32 sum = 0, whole = 0;
  for (int w = 0; w < 8; w++) {
    if (w < warp) sum += words[w];
    whole += words[w];
  }
  *all = whole;
  return sum + run - v;
}

/* ---- short rows -------------------------------------------------------------------------- */

/* Puts elements i and j of both arrays in order: rising where 'up'. */
FN void order_pair(K *key, u32 *at, int i, int j, bool up) {
  const bool above = key[i] > key[j] || (key[i] == key[j] && at[i] > at[j]);
  if (above != up) return;
  const K a = key[i];
  const u32 b = at[i];
  key[i] = key[j];
  at[i] = at[j];
  key[j] = a;
  at[j] = b;
}

/* The key that mode 1 or 2 of sort_rows looks for in a sorted row of n. */
FN K wanted_of(const K *key, int n, int k, int mode) {
  return mode == 2 && key[n - 1] == ALL ? ALL : key[k - 1];
}

/* A block of elements / 2 threads; pad: a power of two >= n, <= elements <= ROW; elements is a
** multiple of pad. Keys and positions come from kin and pin (rows of n), or from x if kin is NULL.
** mode 0: the positions of the k smallest keys of each row, and their elements of x in values
** unless it is NULL; 1: the first position of the k-th key; 2: like 1, but of a NaN if the row has
** one. */
WIDE sort_rows(const S *x, const K *kin, const u32 *pin, long long *out, S *values, long long rows,
               int n, int pad, int elements, int k, u64 flip, int mode) {
  __shared__ K key[ROW];
  __shared__ u32 at[ROW];
  const int t = threadIdx.x;
  const long long first = blockIdx.x * (long long)(elements / pad);
  for (int e = t; e < elements; e += blockDim.x) {
    const long long r = first + e / pad;
    const int c = e & (pad - 1);
    key[e] = ALL;
    at[e] = ~0u - (u32)(pad - c);                  /* after all elements, no two equal */
    if (r < rows && c < n) {
      key[e] = kin ? kin[r * n + c] : key_of(x[r * n + c], (K)flip);
      at[e] = kin ? pin[r * n + c] : (u32)c;
    }
  }
  for (int size = 2; size <= pad; size *= 2)
    for (int d = size / 2; d > 0; d /= 2) {
      __syncthreads();
      const int i = 2 * t - (t & (d - 1));
      order_pair(key, at, i, i + d, (i & (pad - 1) & size) == 0);
    }
  __syncthreads();
  for (int e = t; e < elements; e += blockDim.x) {
    const long long r = first + e / pad;
    const int c = e & (pad - 1);
    if (r >= rows) continue;
    if (mode == 0) {
      if (c < k) out[r * k + c] = (long long)at[e] + 1;
      if (c < k && values) values[r * k + c] = x[r * n + at[e]];
      continue;
    }
    const K wanted = wanted_of(key + e - c, n, k, mode);
    if (c < n && key[e] == wanted && (c == 0 || key[e - 1] != wanted))
      out[r] = (long long)at[e] + 1;
  }
}

/* The lanes that have the same digit as this one. By votes, since match.any takes time for each
** different value. */
FN u32 same_digit(u32 d) {
  u32 peers = ~0u;
#pragma unroll
  for (int b = 0; b < 8; b++) {
    const bool set = d >> b & 1;
    const u32 vote = __ballot_sync(~0u, set);
    peers &= set ? vote : ~vote;
  }
  return peers;
}

/* Finds the places of a tile's 8 * 32 * n elements in the order of one digit; digit[i] and place[i]
** are those of element warp * 32 n + 32 i + lane. Warps rank their own elements, 32 at a time, so
** that ranks follow positions; then counts are summed over warps and digits. *sum: the number of
** elements whose digit is threadIdx.x; start: of those with a lower one. */
template <int MOST> FN void place_of(const u32 *digit, u32 *place, int n, u32 (*ranks)[256],
                                     u32 *start, u32 *words, u32 *sum) {
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  for (int w = 0; w < 8; w++) ranks[w][t] = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < MOST; i++) {
    if (i >= n) break;                               /* the same for all */
    const u32 d = digit[i], peers = same_digit(d), low = peers & ((1u << lane) - 1),
              seen = ranks[warp][d];
    __syncwarp();
    if (low == 0) ranks[warp][d] = seen + __popc(peers);
    __syncwarp();
    place[i] = seen + __popc(low);
  }
  __syncthreads();
  u32 run = 0, all;
  for (int w = 0; w < 8; w++) {
    const u32 v = ranks[w][t];
    ranks[w][t] = run;
    run += v;
  }
  *sum = run;
  start[t] = before_of(run, words, &all);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < MOST; i++)
    if (i < n) place[i] += start[digit[i]] + ranks[warp][digit[i]];
}

/* Sorts the keys of a block of 256 threads, 'items' of each thread: mine[i] is element
** first + 32 i of the block, from[i] its position. In the end key and at hold them in order. */
FN void sort_keys(K *mine, u32 *from, int first, int items, K *key, u32 *at) {
  __shared__ u32 ranks[8][256], start[256], words[8];
  u32 digit[8], place[8], sum;
  for (int shift = 0; shift < BITS; shift += 8) {
#pragma unroll
    for (int i = 0; i < 8; i++) digit[i] = (u32)(mine[i] >> shift) & 255;
    place_of<8>(digit, place, items, ranks, start, words, &sum);
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < items) {
        key[place[i]] = mine[i];
        at[place[i]] = from[i];
      }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < items) {
        mine[i] = key[first + 32 * i];
        from[i] = at[first + 32 * i];
      }
  }
}

/* A block of 256 per row; 'items' elements per thread, at most 8. The modes are those of
** sort_rows. */
THREE sort_tile(const S *x, const K *kin, const u32 *pin, long long *out, S *values, int n,
                int items, int k, u64 flip, int mode) {
  __shared__ K key[ROW];
  __shared__ u32 at[ROW];
  const int t = threadIdx.x, first = (t >> 5) * 32 * items + (t & 31);
  const long long row = (long long)blockIdx.x * n;
  K mine[8];
  u32 from[8];
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int e = first + 32 * i;
    /* elements after the end have the highest digits, and stay last */
    const bool in = i < items && e < n;
    mine[i] = !in ? ALL : kin ? kin[row + e] : key_of(x[row + e], (K)flip);
    from[i] = in && kin ? pin[row + e] : (u32)e;
  }
  sort_keys(mine, from, first, items, key, at);
  if (mode == 0) {
    for (int e = t; e < k; e += 256) {
      out[(long long)blockIdx.x * k + e] = (long long)at[e] + 1;
      if (values) values[(long long)blockIdx.x * k + e] = x[row + at[e]];
    }
    return;
  }
  const K wanted = wanted_of(key, n, k, mode);
  for (int e = t; e < n; e += 256)
    if (key[e] == wanted && (e == 0 || key[e - 1] != wanted))
      out[blockIdx.x] = (long long)at[e] + 1;
}

/* ---- long rows ---------------------------------------------------------------------------- */

#define PASSES (BITS / 8)

/* Blocks: rows * chunks of 256. total: [row][pass][digit], zero before the launch. keys: if not
** NULL, they are counted instead of x. */
KERNEL sort_tally(const S *x, const K *keys, u32 *total, long long n, long long chunk,
                  long long chunks, u64 flip) {
  __shared__ u32 h[PASSES][256];
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  for (int p = 0; p < PASSES; p++) h[p][threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 4
  for (long long i = c * chunk + threadIdx.x; i < end; i += 256) {
    const K k = keys ? keys[row * n + i] : key_of(x[row * n + i], (K)flip);
#pragma unroll
    for (int p = 0; p < PASSES; p++) atomicAdd(&h[p][(u32)(k >> (8 * p)) & 255], 1u);
  }
  __syncthreads();
  for (int p = 0; p < PASSES; p++) {
    const u32 v = h[p][threadIdx.x];
    if (v) atomicAdd(&total[(row * PASSES + p) * 256 + threadIdx.x], v);
  }
}

/* One block of 256 per row and pass: replaces counts by the places where digits begin. */
KERNEL sort_starts(u32 *total) {
  __shared__ u32 words[8];
  u32 all, *mine = total + blockIdx.x * 256ll + threadIdx.x;
  *mine = before_of(*mine, words, &all);
}

/* Sum of v over the lanes before this one; *all: sum over the warp. */
FN u32 before_lane(u32 v, u32 *all) {
  const int lane = threadIdx.x & 31;
  u32 run = v;
  for (int d = 1; d < 32; d *= 2) {
    const u32 y = __shfl_up_sync(~0u, run, d);
    if (lane >= d) run += y;
  }
  *all = __shfl_sync(~0u, run, 31);
  return run - v;
}

/* The element of a key. It is read at 'place' in the row where the key does not tell it: +0 and -0
** share a key, all NaN do, and all bytes of a bool that are not 0. */
FN S value_of(K key, const S *row, u32 place, K flip) {
#if KIND == 0
  const K k = key ^ flip;
  return k == ALL || k == SIGN ? row[place] : (S)(k & SIGN ? k ^ SIGN : ~k & ALL);
#elif KIND == 1
  return (S)(key ^ flip ^ SIGN);
#elif KIND == 2
  return (S)(key ^ flip);
#else
  return row[place];
#endif
}

/* What a tile publishes about a digit: nothing yet (0), its own count (OWN), or the count of all
** tiles so far (SO_FAR); counts have 30 bits. It is one word, so a reader sees all of it or
** none. */
#define OWN (1u << 30)
#define SO_FAR (2u << 30)
#define COUNT (OWN - 1)

/* How often the digit threadIdx.x occurs in the tiles before 'tile' of a row. state: what the row's
** tiles have published. */
FN u32 tiles_before(volatile u32 *state, long long tile) {
  u32 sum = 0;
  for (long long i = tile - 1; i >= 0; i--) {
    u32 v;
    do v = state[i * 256 + threadIdx.x];
    while (v == 0);
    sum += v & COUNT;
    if (v & SO_FAR) break;
  }
  return sum;
}

/* What a pass writes: the last one positions and values, the others keys and positions. */
typedef struct sorted { K *keys; u32 *at; long long *out; S *values; } sorted;

/* Writes the element at 'place' of row x, which has this key, to index 'to' of the sorted row. */
FN void put_sorted(sorted w, const S *x, K key, u32 place, long long to, K flip) {
  if (!w.out) {
    w.keys[to] = key;
    w.at[to] = place;
    return;
  }
  w.out[to] = (long long)place + 1;
  if (w.values) w.values[to] = value_of(key, x, place, flip);
}

/* One pass: sorts by one digit. Elements after the end count as the highest digit, and come last.
** One tile per block, rows * tiles blocks. ticket, state: zero before the launch. The last pass has
** out (values: may be NULL), the others keys_out and at_out. */
THREE sort_sweep(const S *x, const K *keys, const u32 *at, K *keys_out, u32 *at_out, long long *out,
                 S *values, u32 *ticket, u32 *state, const u32 *starts, long long n,
                 long long tiles, int pass, u64 flip) {
  __shared__ K tile_key[TILE];
  __shared__ u32 tile_at[TILE];
  __shared__ u32 ranks[8][256], start[256], moved[256], words[8];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5, shift = 8 * pass;
  if (t == 0) words[0] = atomicAdd(ticket, 1u);
  __syncthreads();
  const long long block = words[0], row = block / tiles, tile = block % tiles, from = row * n,
                  first = tile * TILE;
  volatile u32 *said = state + row * tiles * 256;
  K k[ITEMS];
  u32 digit[ITEMS], place[ITEMS], sum;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const long long e = first + warp * (32 * ITEMS) + i * 32 + lane;
    k[i] = e >= n ? ALL : keys ? keys[from + e] : key_of(x[from + e], (K)flip);
    digit[i] = e >= n ? 255 : (u32)(k[i] >> shift) & 255;
  }
  place_of<ITEMS>(digit, place, ITEMS, ranks, start, words, &sum);
  /* elements after the end make the last tile's sum too large, but it is not used */
  said[tile * 256 + t] = (tile ? OWN : SO_FAR) | sum;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const long long e = first + warp * (32 * ITEMS) + i * 32 + lane;
    tile_key[place[i]] = k[i];
    tile_at[place[i]] = at && e < n ? at[from + e] : (u32)e;
  }
  const u32 before = tiles_before(said, tile);
  if (tile) said[tile * 256 + t] = SO_FAR | (before + sum);
  moved[t] = starts[(row * PASSES + pass) * 256 + t] + before - start[t];
  __syncthreads();
  const int m = n - first < TILE ? (int)(n - first) : TILE;
  for (int j = t; j < m; j += 256) {
    const K key = tile_key[j];
    put_sorted({ keys_out, at_out, out, values }, x + from, key, tile_at[j],
               from + (u32)(moved[(u32)(key >> shift) & 255] + (u32)j), (K)flip);
  }
}

/* ---- selecting ------------------------------------------------------------------------------ */

/* One block of 256 per row: sets the state in which nothing is known of the k-th key. */
KERNEL select_start(u32 *hist, u64 *prefix, u64 *need, u64 k) {
  hist[blockIdx.x * 256ll + threadIdx.x] = 0;
  if (threadIdx.x > 0) return;
  prefix[blockIdx.x] = 0;
  need[blockIdx.x] = k;
}

/* Blocks: rows * chunks of 256. Counts of the digit at 'shift' of the keys that agree with the
** prefix above it. */
KERNEL select_count(const S *x, u32 *hist, const u64 *prefix, long long n, long long chunk,
                    long long chunks, int shift, u64 flip) {
  __shared__ u32 h[256];
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  const bool top = shift + 8 >= BITS;
  const K high = top ? 0 : (K)prefix[row] >> shift >> 8;
  h[threadIdx.x] = 0;
  __syncthreads();
  for (long long i = c * chunk + threadIdx.x; i < end; i += 256) {
    const K k = key_of(x[row * n + i], (K)flip) >> shift;
    if (top || k >> 8 == high) atomicAdd(&h[(u32)k & 255], 1u);
  }
  __syncthreads();
  if (h[threadIdx.x]) atomicAdd(&hist[row * 256 + threadIdx.x], h[threadIdx.x]);
}

/* One block of 256 per row: finds the digit of the k-th key, and clears the counts. */
KERNEL select_pick(u32 *hist, u64 *prefix, u64 *need, int shift) {
  __shared__ u32 words[8];
  const long long at = blockIdx.x * 256ll + threadIdx.x;
  const u64 wanted = need[blockIdx.x];
  u32 all;
  const u32 v = hist[at], below = before_of(v, words, &all);
  hist[at] = 0;
  if (below < wanted && wanted <= (u64)below + v) {
    prefix[blockIdx.x] |= (u64)threadIdx.x << shift;
    need[blockIdx.x] = wanted - below;
  }
}

/* kth_clear sets first and nan of each row to ~0; then kth_find, rows * chunks blocks of 256, makes
** them the least position of the k-th key, and that of a NaN. */
KERNEL kth_clear(u64 *first, u64 *nan, long long rows) {
  const long long r = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (r >= rows) return;
  first[r] = ~0ull;
  nan[r] = ~0ull;
}

KERNEL kth_find(const S *x, const u64 *prefix, u64 *first, u64 *nan, long long n, long long chunk,
                long long chunks) {
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  const K wanted = (K)prefix[row];
  u64 a = ~0ull, b = ~0ull;
  for (long long i = c * chunk + threadIdx.x; i < end; i += 256) {
    const K k = key_of(x[row * n + i], 0);
    if (k == wanted && a == ~0ull) a = (u64)i;
    if (k == ALL && b == ~0ull) b = (u64)i;
  }
  for (int d = 16; d > 0; d /= 2) {
    const u64 p = __shfl_xor_sync(~0u, a, d), q = __shfl_xor_sync(~0u, b, d);
    a = p < a ? p : a;
    b = q < b ? q : b;
  }
  if ((threadIdx.x & 31) != 0) return;
  if (a != ~0ull) atomicMin(&first[row], a);
  if (b != ~0ull) atomicMin(&nan[row], b);
}

/* Writes the 1-based positions. with_nan: elements are floats and a NaN wins. */
KERNEL kth_write(const u64 *first, const u64 *nan, long long *out, long long rows, int with_nan) {
  const long long r = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (r < rows) out[r] = (long long)(with_nan && nan[r] != ~0ull ? nan[r] : first[r]) + 1;
}

/* Blocks: rows * chunks of 256. Counts the keys below the k-th and those equal to it, in each
** chunk. */
KERNEL select_tally(const S *x, const u64 *prefix, u32 *less, u32 *equal, long long n,
                    long long chunk, long long chunks, u64 flip) {
  __shared__ u32 words[8];
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  const K wanted = (K)prefix[row];
  u32 a = 0, b = 0, all_a, all_b;
  for (long long i = c * chunk + threadIdx.x; i < end; i += 256) {
    const K k = key_of(x[row * n + i], (K)flip);
    a += k < wanted;
    b += k == wanted;
  }
  before_of(a, words, &all_a);
  __syncthreads();
  before_of(b, words, &all_b);
  if (threadIdx.x > 0) return;
  less[blockIdx.x] = all_a;
  equal[blockIdx.x] = all_b;
}

/* One warp per row, 8 per block: replaces the counts of each chunk by the sums over the chunks
** before it. */
KERNEL select_before(u32 *less, u32 *equal, long long rows, long long chunks) {
  const long long r = blockIdx.x * 8ll + threadIdx.x / 32;
  u32 a = 0, b = 0, all_a, all_b;
  if (r >= rows) return;                           /* uniform in the warp */
  for (long long c0 = 0; c0 < chunks; c0 += 32) {
    const long long c = c0 + (threadIdx.x & 31), at = r * chunks + c;
    const u32 p = before_lane(c < chunks ? less[at] : 0, &all_a);
    const u32 q = before_lane(c < chunks ? equal[at] : 0, &all_b);
    if (c < chunks) {
      less[at] = a + p;
      equal[at] = b + q;
    }
    a += all_a;
    b += all_b;
  }
}

/* Blocks: rows * chunks of 256. Writes the keys below the k-th and the first 'need' equal to it, in
** the order of their places, to rows of k. */
KERNEL select_collect(const S *x, const u64 *prefix, const u64 *need, const u32 *less,
                      const u32 *equal, K *keys, u32 *at, long long n, long long chunk,
                      long long chunks, long long k, u64 flip) {
  __shared__ u32 words[8];
  const long long row = blockIdx.x / chunks, c = blockIdx.x % chunks;
  const long long end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
  const K wanted = (K)prefix[row];
  const u32 most = (u32)need[row];
  u32 a = less[blockIdx.x], b = equal[blockIdx.x];
  for (long long i0 = c * chunk; i0 < end; i0 += 256) {
    const long long i = i0 + threadIdx.x;
    const K key = i < end ? key_of(x[row * n + i], (K)flip) : ALL;
    const u32 below = i < end && key < wanted, same = i < end && key == wanted;
    u32 all;
    const u32 mine = before_of(below | same << 16, words, &all);
    const u32 p = a + (mine & 0xFFFF), q = b + (mine >> 16);
    if (below || (same && q < most)) {
      const long long to = row * k + p + (q < most ? q : most);
      keys[to] = key;
      at[to] = (u32)i;
    }
    a += all & 0xFFFF;
    b += all >> 16;
    __syncthreads();
  }
}
