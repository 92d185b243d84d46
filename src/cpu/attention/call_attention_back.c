/*
** Attention backward (tensor/call_attention.h). Rows come in tiles of ROWS, keys in tiles of KEYS.
** For each tile of rows and each tile of keys, weights p are computed again from the scores and
** their log-sum-exps, and with delta = sum of dout out along a row
**     dv += p' dout    ds = p (dout v' - delta)    dk += ds' q scale    dq += ds k scale
** If there are enough heads for the workers, a unit (what a worker takes at a time) is a head of k
** and v with all rows that read it. Else there are two passes, over tiles of keys (dk, dv) and over
** blocks of rows (dq), each of which computes p and ds. Both give the same bits: sums are in order
** of rows and of keys, by the same tiles.
*/
#include "cpu/attention/attention.h"
#include <string.h>

/* ROWS: rows of a tile, a multiple of mr of all instruction sets (gemm.h); KEYS: keys of a tile, a
** multiple of nr. SPLIT: rows of a unit that computes only dq. */
enum { ROWS = 96, KEYS = 256, SPLIT = 2 * ROWS };
/* Number of products when p and ds are computed in one pass, and in two. */
enum { ONE_PASS = 5, TWO_PASSES = 7 };

typedef struct job {
  fl_attention_job j;
  const char *g, *o, *lse;             /* dout, and the result of the forward call */
  char *dq, *dk, *dv, *scratch;
  int for_rows, for_keys;              /* what the pass makes */
  int64_t group, each;                 /* heads of q for one of k; scratch bytes of a worker */
  int64_t dp, d2p, wp;                 /* d and d2 in whole panels of mr, d in whole panels of nr */
} job;

/* A worker's scratch. In packed panels: k and v, by keys; kt, which is k by columns, for dq; q and
** g (dout), by rows; qt and gt, which are q and g by columns; ds, by rows. p, dp: a panel of scores
** and then weights, and one of their gradients. dk, dv: the sums of a tile's keys; dq: those of the
** unit's rows. keep (ROWS, KEYS), bytes: what a dropout keeps. */
typedef struct room {
  char *k, *v, *kt, *q, *g, *qt, *gt, *p, *dp, *ds, *dk, *dv, *lse, *delta, *one, *dq,
       *keep;
} room;

static void widths(const fl_attention *a, int mr, int nr, job *x) {
  x->dp = fl_round_up(a->d, mr);
  x->d2p = fl_round_up(a->d2, mr);
  x->wp = fl_round_up(a->d, nr);
}

/* rows: of dq. */
static int64_t room_of(const fl_attention *a, int64_t rows, int64_t wide, char *at, room *r) {
  job most;
  char *const from = at;
  char **const part[] = { &r->k, &r->v, &r->kt, &r->q, &r->g, &r->qt, &r->gt, &r->p, &r->dp, &r->ds,
                          &r->dk, &r->dv, &r->lse, &r->delta, &r->one, &r->dq, &r->keep };
  widths(a, FL_GEMM_MR, FL_GEMM_NR, &most);
  const int64_t size[] = { KEYS * a->d, KEYS * a->d2, KEYS * most.wp, ROWS * a->d, ROWS * a->d2,
                           ROWS * most.dp, ROWS * most.d2p, ROWS * FL_GEMM_NR, ROWS * FL_GEMM_NR,
                           ROWS * KEYS, KEYS * most.dp, KEYS * most.d2p, ROWS, ROWS, FL_GEMM_NR,
                           fl_round_up(rows, FL_GEMM_MR) * most.wp, ROWS * KEYS / 4 };
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    *part[i] = at;
    at += fl_round_up(size[i] * wide, 64);
  }
  return at - from;
}

/* Are there enough units for one pass? One pass is less work, but may leave workers idle that two
** passes keep busy. */
static int is_one_pass(const fl_attention *a, int64_t workers) {
  const int64_t units = a->b * a->hk;
  return units * TWO_PASSES >= fl_ceil_div(units, workers) * workers * ONE_PASS;
}

/* The number of rows whose dq a unit sums, with the rows of each head rounded up to whole tiles. */
static int64_t rows_of(const fl_attention *a, int one_pass) {
  const int64_t all = fl_round_up(a->t, ROWS);
  return one_pass ? a->h / a->hk * all : fl_min(SPLIT, all);
}

int64_t fl_cpu_scratch_attention_back(const fl_call *call, int workers) {
  fl_attention a;
  room r;
  static char none[1];
  int mask;
  fl_attention_read(call, &a, &mask);
  return workers * room_of(&a, rows_of(&a, is_one_pass(&a, workers)),
                           call->dtype == FLAME_F64 ? 8 : 4, none, &r);
}

/* ---- a tile of rows and a tile of keys ---- */

typedef struct meeting { int64_t b, h, row, rows, key, keys; char *dq; } meeting;

/* Packs the tile's rows of q and dout, by rows and by columns, and reads their log-sum-exps and
** deltas. */
static void take_rows(const job *x, const room *r, const meeting *t) {
  const fl_attention_job *j = &x->j;
  const fl_attention *a = &j->a;
  const int64_t at = (t->b * a->h + t->h) * a->t + t->row;
  const char *q = j->q + fl_row_at(a->qs, t->b, t->h, t->row) * j->size,
             *g = x->g + fl_row_at(a->gs, t->b, t->h, t->row) * j->size;
  fl_gemm_pack(j->dtype, r->q, q, t->rows, a->d, a->qs[2], 1, j->mr);
  fl_gemm_pack(j->dtype, r->g, g, t->rows, a->d2, a->gs[2], 1, j->mr);
  if (x->for_keys) {
    fl_gemm_pack(j->dtype, r->qt, q, a->d, t->rows, 1, a->qs[2], j->mr);
    fl_gemm_pack(j->dtype, r->gt, g, a->d2, t->rows, 1, a->gs[2], j->mr);
  }
  memcpy(r->lse, x->lse + at * j->wide, (size_t)(t->rows * j->wide));
  j->f->dot(g, a->gs[2], x->o + fl_row_at(j->to.out, t->b, t->h, t->row) * j->size, j->to.out[2],
            t->rows, a->d2, r->delta);
}

static void take_keys(const job *x, const room *r, int64_t b, int64_t hk, int64_t key,
                      int64_t keys) {
  const fl_attention_job *j = &x->j;
  const fl_attention *a = &j->a;
  const char *k = j->k + fl_row_at(a->ks, b, hk, key) * j->size,
             *v = j->v + fl_row_at(a->vs, b, hk, key) * j->size;
  fl_gemm_pack(j->dtype, r->k, k, keys, a->d, a->ks[2], 1, j->nr);
  fl_gemm_pack(j->dtype, r->v, v, keys, a->d2, a->vs[2], 1, j->nr);
  if (x->for_rows) fl_gemm_pack(j->dtype, r->kt, k, a->d, keys, 1, a->ks[2], j->nr);
  memset(r->dk, 0, (size_t)(KEYS * x->dp * j->wide));
  memset(r->dv, 0, (size_t)(KEYS * x->d2p * j->wide));
}

/* c (n rows in whole panels of mr, nr columns) = or += panels a times panel b, over k terms. */
static void product(const fl_attention_job *j, int64_t n, int64_t k, const char *a, const char *b,
                    char *c, int add) {
  for (int64_t i = 0; i < n; i += j->mr)
    fl_attention_tile(j, k, a + i * k * j->wide, b, c + i * j->nr * j->wide, j->nr, add);
}

/* Computes p and ds of a panel of keys, from 'first' in the tile on, and adds to dk and dv. keys:
** the number of keys of the tile that any row sees; weights of later keys are 0. */
static void meet_panel(const job *x, const room *r, const meeting *t, int64_t first, int64_t keys) {
  const fl_attention_job *j = &x->j;
  const fl_attention *a = &j->a;
  fl_scores s = { .c = r->p, .n = t->rows, .lanes = fl_min(j->nr, t->keys - first) };
  const int hides = j->mask == FL_MASK_BOOL || (j->mask == FL_MASK_NONE && a->causal);
  product(j, t->rows, a->d, r->q, r->k + first * a->d * j->wide, r->p, 0);
  product(j, t->rows, a->d2, r->g, r->v + first * a->d2 * j->wide, r->dp, 0);
  fl_attention_scores(j, &s, t->b, t->h, t->row, t->key + first, 0);
  j->f->score(&s);
  if (a->drops) j->f->drop(r->dp, t->rows, r->keep + first, KEYS, j->kept);
  j->f->slope(r->p, r->dp, t->rows, r->lse, r->delta, hides);
  if (a->drops) j->f->drop(r->p, t->rows, r->keep + first, KEYS, 1);
  if (x->for_rows)
    j->f->turn(r->dp, t->rows, fl_min(j->nr, keys - first), j->mr, keys, first, r->ds);
  if (!x->for_keys) return;
  product(j, x->d2p, t->rows, r->gt, r->p, r->dv + first * x->d2p * j->wide, 1);
  product(j, x->dp, t->rows, r->qt, r->dp, r->dk + first * x->dp * j->wide, 1);
}

/* Is the log-sum-exp of a row of the tile NaN? Then its weights are NaN for every key, also for
** hidden ones. */
static int is_blind(const job *x, const meeting *t) {
  const fl_attention *a = &x->j.a;
  const char *at = x->lse + ((t->b * a->h + t->h) * a->t + t->row) * x->j.wide;
  int blind = 0;
  for (int64_t i = 0; i < t->rows; i++) {
    double v;
    float f;
    if (x->j.wide == 8) memcpy(&v, at + 8 * i, 8);
    else memcpy(&f, at + 4 * i, 4), v = (double)f;
    blind |= v != v;
  }
  return blind;
}

static void meet(const job *x, const room *r, const meeting *t) {
  const fl_attention_job *j = &x->j;
  const int64_t seen = t->row + t->rows - t->key, nr = j->nr;
  const int64_t keys = j->a.causal && seen < t->keys && !is_blind(x, t) ? seen : t->keys;
  if (keys <= 0) return;                              /* no row sees any */
  take_rows(x, r, t);
  if (j->a.drops) {
    if (keys < KEYS) memset(r->keep, 0, ROWS * KEYS);
    fl_attention_keep(j, t->b, t->h, t->row, t->rows, t->key, keys, KEYS, 1, r->keep);
  }
  for (int64_t first = 0; first < keys; first += nr) meet_panel(x, r, t, first, keys);
  if (!x->for_rows) return;
  for (int64_t i = 0; i < t->rows; i += j->mr)
    for (int64_t c = 0; c < x->wp; c += nr)
      fl_attention_tile(j, keys, r->ds + i * keys * j->wide, r->kt + c * t->keys * j->wide,
                        t->dq + (i * x->wp + c) * j->wide, x->wp, 1);
}

/* ---- units ---- */

/* Stores dk and dv of the tile's keys; a panel of dk has the form (d, nr), one of dv (d2, nr). */
static void store_keys(const job *x, const room *r, int64_t b, int64_t hk, int64_t key,
                       int64_t keys) {
  const fl_attention_job *j = &x->j;
  const fl_attention *a = &j->a;
  for (int64_t first = 0; first < keys; first += j->nr) {
    const int64_t lanes = fl_min(j->nr, keys - first), at = key + first;
    for (int value = 0; value < 2; value++) {
      for (int i = 0; i < j->nr; i++)
        if (j->wide == 8) ((double *)(void *)r->one)[i] = value ? j->kept : j->scale;
        else ((float *)(void *)r->one)[i] = value ? (float)j->kept : (float)j->scale;
      if (value)
        j->f->put(r->dv + first * x->d2p * j->wide, a->d2, lanes, r->one, j->to.dv[2],
                  x->dv + fl_row_at(j->to.dv, b, hk, at) * j->size);
      else
        j->f->put(r->dk + first * x->dp * j->wide, a->d, lanes, r->one, j->to.dk[2],
                  x->dk + fl_row_at(j->to.dk, b, hk, at) * j->size);
    }
  }
}

/* Processes rows row … end - 1 of the heads h … h_end - 1 of q, which read head hk of k and v, with
** the keys key … key_end - 1 of that head. */
static void range(const job *x, const room *r, int64_t b, int64_t hk, int64_t h, int64_t h_end,
                  int64_t row, int64_t end, int64_t key, int64_t key_end) {
  const fl_attention_job *j = &x->j;
  const int64_t stretch = fl_round_up(end - row, ROWS);
  for (; key < key_end; key += KEYS) {
    const int64_t keys = fl_min(KEYS, key_end - key);
    take_keys(x, r, b, hk, key, keys);
    for (int64_t i = h; i < h_end; i++)
      for (int64_t first = row; first < end; first += ROWS) {
        const meeting t = { .b = b, .h = i, .row = first, .rows = fl_min(ROWS, end - first),
                            .key = key, .keys = keys,
                            .dq = r->dq + ((i - h) * stretch + first - row) * x->wp * j->wide };
        if (atomic_load_explicit(j->stop, memory_order_relaxed)) return;
        meet(x, r, &t);
      }
    if (x->for_keys) store_keys(x, r, b, hk, key, keys);
  }
}

static void whole(void *arg, int64_t unit, int worker) {
  const job *x = arg;
  const fl_attention_job *j = &x->j;
  const fl_attention *a = &j->a;
  const int64_t b = unit / a->hk, hk = unit % a->hk, h = hk * x->group,
                stretch = fl_round_up(a->t, ROWS);
  room r;
  room_of(a, rows_of(a, 1), j->wide, x->scratch + worker * x->each, &r);
  memset(r.dq, 0, (size_t)(x->group * stretch * x->wp * j->wide));
  range(x, &r, b, hk, h, h + x->group, 0, a->t, 0, a->s);
  for (int64_t i = 0; i < x->group; i++)
    j->f->rows(r.dq + i * stretch * x->wp * j->wide, x->wp, a->t, a->d, j->scale, j->to.dq[2],
               x->dq + fl_row_at(j->to.dq, b, h + i, 0) * j->size);
}

static void keys_alone(void *arg, int64_t unit, int worker) {
  const job *x = arg;
  const fl_attention *a = &x->j.a;
  const int64_t tiles = fl_ceil_div(a->s, KEYS), head = unit / tiles, key = unit % tiles * KEYS,
                hk = head % a->hk;
  room r;
  room_of(a, rows_of(a, 0), x->j.wide, x->scratch + worker * x->each, &r);
  range(x, &r, head / a->hk, hk, hk * x->group, (hk + 1) * x->group, 0, a->t, key,
        fl_min(key + KEYS, a->s));
}

static void rows_alone(void *arg, int64_t unit, int worker) {
  const job *x = arg;
  const fl_attention_job *j = &x->j;
  const fl_attention *a = &j->a;
  const int64_t blocks = fl_ceil_div(a->t, SPLIT), head = unit / blocks,
                row = unit % blocks * SPLIT;
  const int64_t end = fl_min(row + SPLIT, a->t), h = head % a->h;
  room r;
  room_of(a, rows_of(a, 0), j->wide, x->scratch + worker * x->each, &r);
  memset(r.dq, 0, (size_t)(fl_round_up(end - row, ROWS) * x->wp * j->wide));
  range(x, &r, head / a->h, h / x->group, h, h + 1, row, end, 0,
        a->causal ? fl_min(end, a->s) : a->s);
  j->f->rows(r.dq, x->wp, end - row, a->d, j->scale, j->to.dq[2],
             x->dq + fl_row_at(j->to.dq, head / a->h, h, row) * j->size);
}

flame_status fl_cpu_call_attention_back(fl_device *d, const fl_call_run *r) {
  const fl_cpu *cpu = d->state;
  room ignored;
  job x = { .j = fl_attention_job_of(d, r, 2), .g = r->in[0], .o = r->in[1], .dq = r->out,
            .scratch = r->scratch };
  const fl_attention *a = &x.j.a;
  const int64_t heads = a->b * a->h, key_heads = a->b * a->hk;
  const int one = is_one_pass(a, cpu->width);
  x.lse = x.o + heads * a->t * a->d2 * x.j.size;
  x.dk = x.dq + x.j.to.dk_at * x.j.size;
  x.dv = x.dq + x.j.to.dv_at * x.j.size;
  x.group = a->h / a->hk;
  x.each = room_of(a, rows_of(a, one), x.j.wide, x.scratch, &ignored);
  widths(a, x.j.mr, x.j.nr, &x);
  x.for_keys = 1;
  x.for_rows = one;
  if (one) fl_threads_run(cpu->pool, key_heads, whole, &x, cpu->stop);
  else fl_threads_run(cpu->pool, key_heads * fl_ceil_div(a->s, KEYS), keys_alone, &x, cpu->stop);
  if (one || fl_stopped(d)) return FLAME_OK;
  x.for_keys = 0;
  x.for_rows = 1;
  fl_threads_run(cpu->pool, heads * fl_ceil_div(a->t, SPLIT), rows_alone, &x, cpu->stop);
  return FLAME_OK;
}
