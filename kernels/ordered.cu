/*
** What comes before, between and after the launches of a kernel whose sums do not depend on the
** order of its threads (src/cuda/call/ordered.c says how they work together; the kernel's own part
** is in src/kernel/text/text_prelude.c). Summands are scaled by the *bucket* of the greatest one:
** 8 powers of two for f32, 1 for f64. All integers of a sum are multiples of one unit, which the
** bucket determines, so the sum depends on the summands alone.
**   ordered_begin   clears the accumulators, describes the sums; writes 8 or 20 bytes per element
**   ordered_judge   if a bucket was not the one that the launch before took, or the launch notes
**                   that 64 bits were too few: clears all again, and what the launch changed
**   ordered_finish  the sums as floats; reads 8 or 20 bytes per element, writes 4 or 8
** Loops have the grid's stride.
*/
typedef unsigned long long u64;
struct fl_fixed {
  u64 *low, *high;
  unsigned *special, *top, *again;
  void *out;
  long long n;
  unsigned limit;
  int shift, mode, guess, wide, add, slot;
};
enum { MOST = 128, GUESSES = 4096, COPIES = 16, STORE = 1, WIDE = 2 };
struct fl_sums { int n, mode; unsigned hash; int pad; long long count[MOST]; void *out[MOST];
                 unsigned char how[MOST]; };
static_assert(sizeof(fl_fixed) == 88 && sizeof(fl_sums) == 16 + 17 * MOST, "as in ordered.c");
struct fl_copy { char *to; const char *from; long long n; };
struct fl_copies { fl_copy at[COPIES]; };

/* 1 + the bucket of the last launch of a call, by the call's hash; 0: none yet. Calls may share an
** entry: a wrong guess costs time, no more. */
static __device__ unsigned fl_guess[GUESSES];

static __device__ int bucket_of(const fl_fixed *x, unsigned top) {
  return (int)(top >> 20) / (x->wide ? 1 : 8);
}

/* Sets the unit of a sum to that of bucket b: summands below 2^(end - 1023) become integers below
** 2^56; f64: 2^62. In a repeated launch (mode 2) summands may be larger, as long as the integers
** are below 2^63. */
static __device__ void set_bucket(fl_fixed *x, int b) {
  const int end = (b + 1) * (x->wide ? 1 : 8), bits = x->wide ? 62 : 56;
  const int limit = x->mode == 2 ? end + 63 - bits : end;
  x->limit = (unsigned)(limit < 2047 ? limit : 2047) << 20;
  x->shift = bits + 1023 - end;
}

static __device__ long long thread() {
  return blockIdx.x * (long long)blockDim.x + threadIdx.x;
}
static __device__ long long threads() { return gridDim.x * (long long)blockDim.x; }

/* x: the table; words: two words 'again' and a word 'top' for each sum; low: n numbers for all sums
** together, after them 'high' and 'special' if s.mode is not 0. */
extern "C" __global__ void ordered_begin(fl_fixed *x, unsigned *words, u64 *low, long long n,
                                         const fl_sums s) {
  const long long all = s.mode ? 2 * n + (n + 1) / 2 : n;
  for (long long i = thread(); i < all; i += threads()) low[i] = 0;
  if (thread()) return;
  long long from = 0;
  words[0] = words[1] = 0;
  for (int k = 0; k < s.n; k++, x++) {
    *x = fl_fixed();
    x->low = low + from;
    x->high = low + n + from;
    x->special = (unsigned *)(low + 2 * n) + from;
    x->again = words;
    x->top = words + 2 + k;
    *x->top = 0;
    x->out = s.out[k];
    x->n = s.count[k];
    x->add = !(s.how[k] & STORE);
    x->wide = (s.how[k] & WIDE) != 0;
    x->mode = s.mode;
    x->slot = (int)((s.hash + k) % GUESSES);
    x->guess = (int)fl_guess[x->slot] - 1;
    if (x->guess >= (x->wide ? 2048 : 256)) x->guess = -1;        /* that was another call's */
    if (x->guess >= 0) set_bucket(x, x->guess);
    from += x->n;
  }
}

static __device__ bool is_again(const fl_fixed *x, int sums) {
  bool again = x->again[0];
  for (int k = 0; k < sums; k++)
    again |= *x[k].top && bucket_of(&x[k], *x[k].top) != x[k].guess;
  return again;
}

/* Copies n bytes, or clears them if 'from' is null; word by word where addresses and n are
** multiples of 4. */
static __device__ void put_back(const fl_copy &c) {
  const bool words = !(((u64)c.to | (u64)c.from | (u64)c.n) & 3);
  const long long n = words ? c.n / 4 : c.n;
  for (long long i = thread(); i < n; i += threads())
    if (words) ((unsigned *)c.to)[i] = c.from ? ((const unsigned *)c.from)[i] : 0;
    else c.to[i] = c.from ? c.from[i] : 0;
}

/* n: elements of all sums, 0 if another launch of ordered_judge clears them. */
extern "C" __global__ void ordered_judge(fl_fixed *x, int sums, long long n, const fl_copies c) {
  if (!is_again(x, sums)) return;
  for (int k = 0; k < COPIES && c.at[k].n; k++) put_back(c.at[k]);
  for (long long i = thread(); i < 2 * n + (n + 1) / 2; i += threads()) x->low[i] = 0;
  if (thread()) return;
  x->again[1] = 1;
  for (int k = 0; k < sums; k++) {
    x[k].mode = 2;
    x[k].limit = 0;
    if (*x[k].top) set_bucket(&x[k], bucket_of(&x[k], *x[k].top));
  }
}

static __device__ double sum_of(const fl_fixed *x, long long i) {
  const unsigned flags = x->mode ? x->special[i] : 0;
  u64 low = x->low[i], high = (x->mode ? x->high[i] : 0) - ((long long)low < 0);
  const bool negative = (long long)high < 0;
  if (negative) {
    low = ~low + 1;
    high = ~high + (low == 0);
  }
  const double v = (double)high * 18446744073709551616.0 + (double)low;
  if ((flags & 1) || (flags & 6) == 6) return __longlong_as_double(0x7ff8000000000000ll);
  if (flags) return __longlong_as_double((long long)((flags & 2 ? 0x7ff0ull : 0xfff0ull) << 48));
  return v == 0 ? 0.0 : scalbn(negative ? -v : v, -x->shift);
}

template <class T> static __device__ void finish(const fl_fixed *x) {
  T *out = (T *)x->out;
  for (long long i = thread(); i < x->n; i += threads())
    out[i] = (x->add ? out[i] : (T)0) + (T)sum_of(x, i);
}

/* The grid has a row for each sum. */
extern "C" __global__ void ordered_finish(const fl_fixed *x) {
  x += blockIdx.y;
  if (x->wide) finish<double>(x);
  else finish<float>(x);
  if (!thread() && *x->top) fl_guess[x->slot] = 1 + (unsigned)bucket_of(x, *x->top);
}
