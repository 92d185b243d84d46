/*
** Sums of gradients of user kernels that do not depend on the order of the threads: each summand is
** rounded to a multiple of one unit, so integers are added. The unit follows from the *bucket* of
** the greatest summand in the array: its power of two, for f32 rounded up to a multiple of 2^8;
** 48 bits or more below the greatest summand are kept for f32, 61 for f64. Queued are, in order:
**   begin    guesses the bucket that the last launch of this call had
**   launch   adds with the unit of that bucket, and finds the greatest summand
**   judge    was the guess right, and were 64 bits enough? If not, all that the launch changed is
**            put back
**   launch   only if not: adds with the true unit, in 128 bits; else each thread ends at once
**   finish   integers to floats, and the bucket is noted for the next time
** The host knows of none of it, so a graph can hold these launches. The bits depend on the bucket
** of the summands alone, never on a guess. For arrays of few elements, or of f64, the first launch
** adds in 128 bits as well. kernels/ordered.cu has the small kernels, kernel/text/text_prelude.c
** what the launches call.
*/
#include "cuda/call/ordered.h"
#include "base/hash.h"
#include "base/num.h"
#include <string.h>

/* COPIES: most results that one launch of ordered_judge restores. STORE, WIDE: bits of sums.how.
** FEW: up to this many elements, all sums of the call have 128 bits from the start. */
enum { FIXED = 88,                    /* sizeof(fl_fixed) on the device */
       COPIES = 16, STORE = 1, WIDE = 2, FEW = 1 << 18 };
static const char file[] = "ordered.cu";

/* As in kernels/ordered.cu. */
typedef struct sums {
  int32_t n, mode;
  uint32_t hash;
  int32_t pad;
  int64_t count[FL_KP_MAX_ARGS];
  uint64_t out[FL_KP_MAX_ARGS];
  uint8_t how[FL_KP_MAX_ARGS];
} sums;
_Static_assert(FL_KP_MAX_ARGS == 128, "MOST in kernels/ordered.cu");
typedef struct copies { struct { uint64_t to, from; int64_t n; } at[COPIES]; } copies;

static int64_t aligned(int64_t n) { return (n + 255) / 256 * 256; }

static int is_wide(const fl_kfunction *k, int i) { return k->f->params[i].type == FL_KT_F64; }

/* Number of elements of the sum for parameter i. */
static int64_t elements(const fl_kfunction *k, const fl_call *c, int i) {
  int64_t a, b;
  const fl_karg_kind kind = fl_karg_of(c, i, &a, &b);
  const int64_t bytes = kind == FL_KARG_OUT ? a : kind == FL_KARG_COPY
                        ? c->in_numel[a] * fl_dtype_size(c->in_dtype[a]) : 0;
  return bytes / (is_wide(k, i) ? 8 : 4);
}

static int64_t total(const fl_kfunction *k, const fl_call *c) {
  int64_t n = 0;
  for (int i = 0; i < k->f->n_params; i++) if (k->slot[i]) n += elements(k, c, i);
  return n;
}

/* Scratch holds the table that describes the sums (fl_fixed), two words and one for each sum, then
** the low, high and special words of all sums. */
static int64_t words_at(const fl_kfunction *k) { return aligned(k->sums * (int64_t)FIXED); }
static int64_t low_at(const fl_kfunction *k) { return words_at(k) + aligned(4 * (k->sums + 2)); }

int64_t fl_ordered_scratch(const fl_kfunction *k, const fl_call *c) {
  return k->sums ? low_at(k) + aligned(20 * total(k, c) + 4) : 0;
}

int fl_ordered_want(fl_cuda *s, const fl_kfunction *k) {
  return !k->sums || fl_cuda_want_file(s, file, "", 0);
}

int fl_ordered_stores(const fl_kfunction *k, const fl_call *c, int i) {
  int64_t a, b;
  return k->slot[i] && k->sole[i] && fl_karg_of(c, i, &a, &b) == FL_KARG_OUT;
}

/* Launches 'entry' for so many items, with the grid's stride. rows: of the grid. */
static flame_status start(fl_cuda *s, const char *entry, int64_t items, int rows, void **param) {
  enum { THREADS = 256, BLOCKS = 16 };                     /* per multiprocessor */
  const int64_t blocks = fl_ceil_div(items, THREADS), most = BLOCKS * (int64_t)s->multiprocessors;
  const unsigned grid[3] = { (unsigned)(blocks > most ? most : blocks ? blocks : 1), (unsigned)rows,
                             1 };
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, file, "", 0, entry, &f);
  return e != FLAME_OK ? e : fl_cuda_launch(s, f, grid, (unsigned[3]){ THREADS, 1, 1 }, 0, param);
}

flame_status fl_ordered_begin(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r) {
  int64_t n = total(k, r->call);
  sums t = { .n = k->sums, .mode = n <= FEW,
             .hash = (uint32_t)fl_hash64(k->digest, sizeof k->digest, (uintptr_t)r->out) };
  for (int i = 0; i < k->f->n_params; i++) {
    int64_t a, b;
    if (!k->slot[i]) continue;
    const int at = k->slot[i] - 1, wide = is_wide(k, i);
    fl_karg_of(r->call, i, &a, &b);
    t.count[at] = elements(k, r->call, i);
    t.out[at] = (uint64_t)((uintptr_t)r->out + (uintptr_t)b);
    t.how[at] = (uint8_t)((fl_ordered_stores(k, r->call, i) ? STORE : 0) | (wide ? WIDE : 0));
    t.mode |= wide;
  }
  const fl_cu_ptr table = (fl_cu_ptr)(uintptr_t)r->scratch;
  fl_cu_ptr x = table, words = table + (fl_cu_ptr)words_at(k), low = table + (fl_cu_ptr)low_at(k);
  void *param[] = { &x, &words, &low, &n, &t };
  return start(s, "ordered_begin", t.mode ? 2 * n + (n + 1) / 2 : n, 1, param);
}

/* Adds to c what argument i pointed to before the launch, if the launch may have changed it and it
** was not a result that is written whole. */
static int add_copy(const fl_kfunction *k, const fl_call_run *r, int i, copies *c, int n) {
  int64_t a, b;
  const fl_karg_kind kind = fl_karg_of(r->call, i, &a, &b);
  if ((kind != FL_KARG_OUT && kind != FL_KARG_COPY) || fl_ordered_stores(k, r->call, i)) return n;
  c->at[n].to = (uint64_t)((uintptr_t)r->out + (uintptr_t)b);
  c->at[n].from = kind == FL_KARG_COPY ? (uint64_t)(uintptr_t)r->in[a] : 0;
  c->at[n].n = kind == FL_KARG_OUT ? a : r->call->in_numel[a] *
                                         fl_dtype_size(r->call->in_dtype[a]);
  return n + (c->at[n].n > 0);
}

flame_status fl_ordered_judge(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r) {
  copies c = { 0 };
  flame_status e = FLAME_OK;
  fl_cu_ptr x = (fl_cu_ptr)(uintptr_t)r->scratch;
  int n = 0, n_sums = k->sums;
  int64_t all = total(k, r->call);
  void *param[] = { &x, &n_sums, &all, &c };
  for (int i = 0; i < k->f->n_params && e == FLAME_OK; i++) {
    n = add_copy(k, r, i, &c, n);
    if (n < COPIES && i < k->f->n_params - 1) continue;
    int64_t items = all;
    for (int j = 0; j < n; j++) items = c.at[j].n > items ? c.at[j].n : items;
    e = start(s, "ordered_judge", items, 1, param);
    all = n = 0;
    c = (copies){ 0 };
  }
  return e;
}

flame_status fl_ordered_end(fl_cuda *s, const fl_kfunction *k, const fl_call_run *r) {
  fl_cu_ptr x = (fl_cu_ptr)(uintptr_t)r->scratch;
  int64_t most = 0;
  for (int i = 0; i < k->f->n_params; i++) {
    const int64_t n = k->slot[i] ? elements(k, r->call, i) : 0;
    if (n > most) most = n;
  }
  return start(s, "ordered_finish", most, k->sums, (void *[]){ &x });
}
