/*
** Attention forward (tensor/call_attention.h). A unit (what a worker takes at a time) is a block of
** rows of one head. Keys come in tiles of TILE. For each tile and each panel of rows it computes
** the scores, their weights relative to the largest score so far, and the products of these weights
** with v, which are added to those of the tiles before. The order of all sums depends only on the
** sizes, not on the rows of a block or the lanes of a panel.
*/
#include "cpu/attention/attention.h"
#include <math.h>
#include <string.h>

/* TILE: the keys of a tile, a multiple of mr of all instruction sets (gemm.h). A block has a
** multiple of ALIGN rows, from LEAST_ROWS (each block packs all keys again) to ROWS: as many as
** have at most ROOM elements of q and of the result together. */
enum { TILE = 240, ROWS = 256, LEAST_ROWS = 64, ROOM = ROWS * 256, ALIGN = FL_GEMM_NR };

/* ---- shared with the backward ---- */

fl_attention_job fl_attention_job_of(const fl_device *d, const fl_call_run *r, int first) {
  const fl_cpu *cpu = d->state;
  const fl_call *c = r->call;
  fl_attention_job j = { .dtype = c->dtype, .size = fl_dtype_size(c->dtype),
                         .scale = r->scalar[0].d, .q = r->in[first],
                         .k = r->in[first + 1], .v = r->in[first + 2], .g = fl_gemm_of(cpu->vm),
                         .f = &cpu->attention->of[c->dtype], .stop = cpu->stop };
  fl_attention_read(c, &j.a, &j.mask);
  j.to = fl_attention_results_of(&j.a);
  const int is_f64 = c->dtype == FLAME_F64;
  j.wide = is_f64 ? 8 : 4;
  j.mr = is_f64 ? j.g->mr64 : j.g->mr;
  j.nr = is_f64 ? j.g->nr64 : j.g->nr;
  if (j.mask != FL_MASK_NONE) j.at_mask = r->in[first + 3];
  j.kept = 1;
  if (!j.a.drops) return j;
  const int64_t *key = r->in[c->nin - 1];
  j.drop = (float)r->scalar[1].d;
  j.kept = fl_attention_kept(r->scalar[1].d);
  j.draw = cpu->vm->draw[0][FLAME_F32];
  j.key = (fl_vm_random){ .base = key[0], .seed = key[1], .a = { .d = 0 }, .b = { .d = 1 } };
  return j;
}

void fl_attention_keep(const fl_attention_job *j, int64_t b, int64_t h, int64_t row, int64_t rows,
                       int64_t key, int64_t keys, int64_t over_row, int64_t over_key, char *keep) {
  enum { RUN = 256 };
  const fl_attention *a = &j->a;
  int64_t first = ((b * a->h + h) * a->t + row) * a->s + key, at[RUN];
  float u[RUN];
  for (int64_t r = 0; r < rows; r++, first += a->s, keep += over_row)
    for (int64_t c = 0; c < keys; c += RUN) {
      const int64_t n = fl_min(RUN, keys - c);
      for (int64_t i = 0; i < n; i++) at[i] = first + c + i;
      j->draw(u, at, &j->key, n);
      for (int64_t i = 0; i < n; i++) keep[(c + i) * over_key] = u[i] >= j->drop;
    }
}

void fl_attention_tile(const fl_attention_job *j, int64_t k, const char *a, const char *b, char *c,
                       int64_t ldc, int add) {
  const void *x = a, *y = b;
  void *z = c;
  if (j->dtype == FLAME_F64) j->g->tile64(k, x, y, z, ldc, add);
  else j->g->tile(k, x, y, z, ldc, add);
}

void fl_attention_scores(const fl_attention_job *j, fl_scores *s, int64_t b, int64_t h, int64_t row,
                         int64_t key, int lanes_are_rows) {
  const int64_t *m = j->a.ms, size = j->mask == FL_MASK_BOOL ? 1 : j->size, gap = row - key;
  s->scale = j->scale;
  s->mask = j->mask;
  s->sign = lanes_are_rows ? 1 : -1;
  s->gap = gap;
  /* does the panel hold scores with key > row, which must be hidden? */
  s->causal = j->a.causal && (lanes_are_rows ? s->n - 1 : s->lanes - 1) > gap;
  if (gap < -2 * TILE) s->gap = -2 * TILE;     /* all scores are hidden then; this value fits the
                                               ** integers of the loops */
  if (j->mask == FL_MASK_NONE) return;
  s->at = j->at_mask + (fl_row_at(m, b, h, row) + key * m[3]) * size;
  s->step_u = (lanes_are_rows ? m[3] : m[2]) * size;
  s->step_lane = (lanes_are_rows ? m[2] : m[3]) * size;
}

/* ---- forward ---- */

typedef struct job {
  fl_attention_job j;
  char *out, *lse, *scratch;
  int64_t rows, blocks, each;     /* rows of a block; blocks of a head; scratch bytes of a worker */
} job;

/* A worker's scratch. q: packed panels of the block's rows; k, v: packed panels of the tile's keys,
** and of v's columns; c: scores; acc: sums of weights times v, (d2, nr) for each panel of rows. */
typedef struct room { char *q, *k, *v, *c, *acc, *top, *sum, *fade; } room;

static int64_t most_rows(const fl_attention *a) {
  const int64_t n = ROOM / (a->d + a->d2) / ALIGN * ALIGN;
  return n > ROWS ? ROWS : n < LEAST_ROWS ? LEAST_ROWS : n;
}

static int64_t room_of(const fl_attention *a, int64_t rows, int64_t wide, char *at, room *r) {
  const int64_t d2 = fl_round_up(a->d2, FL_GEMM_MR), tile = TILE + FL_GEMM_MR;
  char *const from = at;
  char **const part[] = { &r->q, &r->k, &r->v, &r->c, &r->acc, &r->top, &r->sum, &r->fade };
  const int64_t size[] = { rows * a->d, tile * a->d, tile * d2, tile * FL_GEMM_NR, rows * d2, rows,
                           rows, FL_GEMM_NR };
  for (int i = 0; i < 8; i++) {
    *part[i] = at;
    at += fl_round_up(size[i] * wide, 64);
  }
  return at - from;
}

int64_t fl_cpu_scratch_attention(const fl_call *call, int workers) {
  fl_attention a;
  room r;
  static char none[1];
  int mask;
  fl_attention_read(call, &a, &mask);
  return workers * room_of(&a, most_rows(&a), call->dtype == FLAME_F64 ? 8 : 4, none, &r);
}

/* Packs the block's rows from 'row' on, sets the sums to 0 and the maxima to -inf. */
static void begin(const job *x, const room *r, int64_t b, int64_t h, int64_t row, int64_t rows) {
  const fl_attention_job *j = &x->j;
  const fl_attention *a = &j->a;
  const int64_t panels = fl_ceil_div(rows, j->nr), d2 = fl_round_up(a->d2, j->mr);
  fl_gemm_pack(j->dtype, r->q, j->q + fl_row_at(a->qs, b, h, row) * j->size, rows, a->d, a->qs[2],
               1, j->nr);
  memset(r->acc, 0, (size_t)(panels * j->nr * d2 * j->wide));
  memset(r->sum, 0, (size_t)(panels * j->nr * j->wide));
  for (int64_t i = 0; i < panels * j->nr; i++)
    if (j->wide == 8) ((double *)(void *)r->top)[i] = -INFINITY;
    else ((float *)(void *)r->top)[i] = -INFINITY;
}

/* Processes a panel of rows with n keys from 'key' on, which are packed. */
static void meet(const job *x, const room *r, int64_t b, int64_t h, int64_t row, int64_t rows,
                 int64_t panel, int64_t key, int64_t n) {
  const fl_attention_job *j = &x->j;
  const int64_t d = j->a.d, d2 = fl_round_up(j->a.d2, j->mr), nr = j->nr, mr = j->mr,
                lanes = rows - panel * nr;
  char *const acc = r->acc + panel * nr * d2 * j->wide, *const q = r->q + panel * nr * d * j->wide;
  fl_scores s = { .c = r->c, .n = n, .lanes = fl_min(lanes, nr) };
  for (int64_t i = 0; i < n; i += mr)
    fl_attention_tile(j, d, r->k + i * d * j->wide, q, r->c + i * nr * j->wide, nr, 0);
  fl_attention_scores(j, &s, b, h, row + panel * nr, key, 1);
  j->f->score(&s);
  j->f->weigh(r->c, n, r->top + panel * nr * j->wide, r->sum + panel * nr * j->wide, r->fade);
  if (j->a.drops) {
    char keep[TILE * FL_GEMM_NR];
    if (s.lanes < nr) memset(keep, 0, (size_t)(n * nr));
    fl_attention_keep(j, b, h, row + panel * nr, s.lanes, key, n, 1, nr, keep);
    j->f->drop(r->c, n, keep, nr, 1);
  }
  j->f->fade(acc, d2, r->fade);
  for (int64_t i = 0; i < d2; i += mr)
    fl_attention_tile(j, n, r->v + i * n * j->wide, r->c, acc + i * nr * j->wide, nr, 1);
}

static void end(const job *x, const room *r, int64_t b, int64_t h, int64_t row, int64_t rows) {
  const fl_attention_job *j = &x->j;
  const int64_t d2 = fl_round_up(j->a.d2, j->mr), nr = j->nr;
  for (int64_t p = 0; p * nr < rows; p++) {
    const int64_t lanes = fl_min(nr, rows - p * nr), first = row + p * nr,
                  at = (b * j->a.h + h) * j->a.t + first;
    j->f->finish(r->top + p * nr * j->wide, r->sum + p * nr * j->wide, lanes, j->kept, r->fade,
                 x->lse + at * j->wide);
    j->f->put(r->acc + p * nr * d2 * j->wide, j->a.d2, lanes, r->fade, j->to.out[2],
              x->out + fl_row_at(j->to.out, b, h, first) * j->size);
  }
}

static void block(void *arg, int64_t unit, int worker) {
  const job *x = arg;
  const fl_attention_job *j = &x->j;
  const fl_attention *a = &j->a;
  const int64_t head = unit / x->blocks, row = unit % x->blocks * x->rows,
                rows = fl_min(x->rows, a->t - row);
  const int64_t b = head / a->h, h = head % a->h, hk = h / (a->h / a->hk),
                last = a->causal ? fl_min(a->s, row + rows) : a->s;
  room r;
  room_of(a, x->rows, j->wide, x->scratch + worker * x->each, &r);
  begin(x, &r, b, h, row, rows);
  for (int64_t key = 0; key < last; key += TILE) {
    const int64_t n = fl_min(TILE, last - key);
    if (atomic_load_explicit(j->stop, memory_order_relaxed)) return;
    fl_gemm_pack(j->dtype, r.k, j->k + fl_row_at(a->ks, b, hk, key) * j->size, n, a->d, a->ks[2],
                 1, j->mr);
    fl_gemm_pack(j->dtype, r.v, j->v + fl_row_at(a->vs, b, hk, key) * j->size, a->d2, n, 1,
                 a->vs[2], j->mr);
    for (int64_t p = 0; p * j->nr < rows; p++)
      if (!a->causal || key < row + (p + 1) * j->nr) meet(x, &r, b, h, row, rows, p, key, n);
  }
  end(x, &r, b, h, row, rows);
}

flame_status fl_cpu_call_attention(fl_device *d, const fl_call_run *r) {
  const fl_cpu *cpu = d->state;
  room ignored;
  job x = { .j = fl_attention_job_of(d, r, 0), .out = r->out, .scratch = r->scratch };
  const fl_attention *a = &x.j.a;
  x.rows = most_rows(a);
  while (x.rows > LEAST_ROWS && a->b * a->h * fl_ceil_div(a->t, x.rows) < 2 * cpu->width)
    x.rows = fl_round_up(x.rows / 2, ALIGN);
  x.blocks = fl_ceil_div(a->t, x.rows);
  x.each = room_of(a, x.rows, x.j.wide, x.scratch, &ignored);
  x.lse = x.out + a->b * a->h * a->t * a->d2 * x.j.size;
  fl_threads_run(cpu->pool, a->b * a->h * x.blocks, block, &x, cpu->stop);
  return FLAME_OK;
}
