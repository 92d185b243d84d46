/*
** Launches of the steps in kernels/steps.cu: scatter and matrix product. The structs here have the
** same fields as the entries' by-value parameters (all 8 bytes wide).
*/
#include "cuda/text/text.h"
#include <string.h>

typedef struct scatter_params {
  int64_t ng, nk, nb, gm, bm, grank, krank;
  int64_t gsize[8], gidx[8], gsrc[8], gdst[8];
  int64_t ksize[8], ksrc[8], kdst[8];
  const void *idx, *src;
  void *dst;
  void *owner, *count, *start, *table;
  int64_t slots;
  void *slot, *list, *order, *used, *hot, *total;
} scatter_params;

typedef struct matmul_params {
  int64_t m, n, k, cm, biasm, rank;
  int64_t size[6], as[6], bs[6], cs[6];
  int64_t am, ak, bk, bn;
  const void *a, *b, *bias;
  void *c;
} matmul_params;

_Static_assert(sizeof(scatter_params) <= FL_TEXT_STEP_BYTES, "parameter of a step");
_Static_assert(sizeof(matmul_params) <= FL_TEXT_STEP_BYTES, "parameter of a step");

enum { THREADS = 256, MOST_BLOCKS = 1 << 18, LONG = 256, HOT_BLOCKS = 264 };

static void *at(void *base, int64_t element, int dtype) {
  return (void *)((intptr_t)base + (intptr_t)(element * fl_dtype_size(dtype)));
}

static void call(fl_text_step *s, const char *entry, int64_t grid, int block) {
  fl_text_call *c = &s->call[s->ncall++];
  c->entry = entry;
  c->grid = (uint32_t)grid;
  c->block = (uint32_t)block;
}

static void call_each(fl_text_step *s, const char *entry, int64_t items) {
  const int64_t grid = (items + THREADS - 1) / THREADS;
  call(s, entry, grid < 1 ? 1 : grid > MOST_BLOCKS ? MOST_BLOCKS : grid, THREADS);
}

/* Number of threads that share a key: as sharers() in kernels/steps.cu. */
static int64_t sharers(int64_t nk) {
  int64_t n = 1;
  while (n < THREADS && n < nk) n *= 2;
  return n;
}

/* The names of entries by dtype, as literal text. */
#define NAMES(stem) { stem "f64", stem "f32", stem "f16", stem "bf16", stem "i64", stem "i32", \
                      stem "i16", stem "i8", stem "u8", stem "bool" }

/* ---- scatter ------------------------------------------------------------------------------ */

/* Does the index vary along a dim along which dst's address varies too (a kept dim)? Then there is
** no split into group dims and kept dims (kernels/steps.cu): all dims are group dims. */
static int index_moves(const fl_scatter *s) {
  for (int d = 0; d < s->rank; d++)
    if (s->size[d] > 1 && s->dst.stride[d] && s->idx.stride[d]) return 1;
  return 0;
}

static void split_dims(const fl_scatter *s, scatter_params *p) {
  const int all = index_moves(s);
  p->ng = p->nk = 1;
  for (int d = 0; d < s->rank; d++) {
    if (s->size[d] == 1) continue;
    if (all || s->dst.stride[d] == 0) {
      const int64_t g = p->grank++;
      p->gsize[g] = s->size[d];
      p->gidx[g] = s->idx.stride[d];
      p->gsrc[g] = s->src.stride[d];
      p->gdst[g] = all ? s->dst.stride[d] : 0;
      p->ng *= s->size[d];
    } else {
      const int64_t k = p->krank++;
      p->ksize[k] = s->size[d];
      p->ksrc[k] = s->src.stride[d];
      p->kdst[k] = s->dst.stride[d];
      p->nk *= s->size[d];
    }
  }
  p->gm = all ? s->dst.gstride : 1;
  p->bm = all ? 1 : s->dst.gstride;
  p->nb = all ? s->dst_numel : s->extent;
}

/* Can the terms be added atomically? Integers have the same sum in any order. */
static int any_order(const fl_scatter *s) {
  const int dtype = s->dtype;
  return dtype == FLAME_I64 || dtype == FLAME_I32 ||
         (s->add == 2 && (dtype == FLAME_F32 || dtype == FLAME_F64));
}

/* Words of 8 bytes of the scratch, one part after the other; its start may be NULL. */
static void *take(char *base, int64_t words, int64_t *used) {
  char *at = base ? base + *used * 8 : NULL;
  *used += words;
  return at;
}

/* Divides the scratch into parts. Keys share the slots of a hash table if there are more keys (nb)
** than slots; else each key has its own slot. */
static void share_scratch(const fl_scatter *s, scatter_params *p, char *base, fl_text_step *out) {
  int64_t used = 0, table = 64;
  if (!s->add) {
    p->owner = take(base, p->nb, &used);
  } else if (!any_order(s)) {
    while (table < 2 * p->ng) table *= 2;
    p->slots = table < p->nb ? table : 0;
    const int64_t keys = p->slots ? p->slots : p->nb;
    p->table = take(base, p->slots, &used);
    p->count = take(base, keys, &used);
    p->start = take(base, keys, &used);
    p->slot = take(base, p->ng, &used);
    p->list = take(base, p->ng, &used);
    p->order = take(base, p->ng, &used);
    p->used = take(base, p->ng < keys ? p->ng : keys, &used);
    p->hot = take(base, p->ng / LONG, &used);
    p->total = take(base, 3, &used);
  }
  out->scratch = used * 8;
}

/* LONG: keys with more terms than that have a block (kernels/steps.cu). */
static void call_add(const scatter_params *p, int dtype, fl_text_step *out) {
  static const char *const add[] = NAMES("scatter_add_"), *const hot[] = NAMES("scatter_hot_");
  const int64_t keys = p->ng < p->nb ? p->ng : p->nb, width = sharers(p->nk);
  const int64_t most = p->ng / LONG, chunks = (p->nk + 31) / 32;
  call_each(out, "scatter_no_count", p->slots > p->ng ? p->slots : p->ng);
  call_each(out, "scatter_count", p->ng);
  call_each(out, "scatter_room", p->ng);
  call_each(out, "scatter_fill", p->ng);
  call_each(out, "scatter_rank", p->ng);
  if (p->ng > LONG) {
    call(out, "scatter_rank_hot", most < HOT_BLOCKS ? most : HOT_BLOCKS, 1024);
    call(out, hot[dtype], most * chunks < 8 * HOT_BLOCKS ? most * chunks : 8 * HOT_BLOCKS, THREADS);
  }
  call_each(out, add[dtype], keys * width);      /* the last: its dtype's text is compiled */
}

void fl_text_scatter(const fl_scatter *s, void *dst, void *idx, void *src, void *scratch,
                     fl_text_step *out) {
  static const char *const any[] = NAMES("scatter_any_");
  static const char *const set[] = { "", "scatter_set_1", "scatter_set_2", "", "scatter_set_4", "",
                                     "", "", "scatter_set_8" };
  scatter_params p;
  memset(&p, 0, sizeof p);
  memset(out, 0, sizeof *out);
  split_dims(s, &p);
  if (p.ng * p.nk == 0 || p.nb == 0) return;
  p.dst = at(dst, s->dst.offset, s->dtype);
  p.src = at(src, s->src.offset, s->dtype);
  p.idx = at(idx, s->idx.offset, FLAME_I64);
  share_scratch(s, &p, scratch, out);
  if (s->add && any_order(s)) {
    call_each(out, any[s->dtype], p.ng * sharers(p.nk));
  } else if (s->add) {
    call_add(&p, s->dtype, out);
  } else {
    call_each(out, "scatter_no_owner", p.ng);
    call_each(out, "scatter_owner", p.ng);
    call_each(out, set[fl_dtype_size(s->dtype)], p.ng * sharers(p.nk));
  }
  out->bytes = sizeof p;
  memcpy(out->param, &p, sizeof p);
}

/* ---- matrix product -------------------------------------------------------------------------- */

void fl_text_matmul(const fl_matmul *m, void *a, void *b, void *c, void *bias, fl_text_step *out) {
  static const char *const name[] = NAMES("matmul_");
  matmul_params p;
  int64_t batches = 1;
  memset(&p, 0, sizeof p);
  memset(out, 0, sizeof *out);
  p.m = m->m, p.n = m->n, p.k = m->k, p.cm = m->n + m->cpad, p.rank = m->nbatch;
  for (int d = 0; d < m->nbatch; d++) {
    p.size[d] = m->batch[d];
    p.as[d] = m->abatch[d];
    p.bs[d] = m->bbatch[d];
    p.cs[d] = m->cbatch[d];
    batches *= m->batch[d];
  }
  p.am = m->as[0], p.ak = m->as[1], p.bk = m->bs[0], p.bn = m->bs[1];
  p.a = at(a, m->aoff, m->dtype);
  p.b = at(b, m->boff, m->dtype);
  p.c = at(c, m->coff, m->dtype);
  if (m->biased) p.bias = at(bias, m->bias_off, m->dtype);
  if (m->biased == FL_BIAS_ALL) p.biasm = m->n;
  const int64_t grid = batches * ((m->m + 63) / 64) * ((m->n + 63) / 64);
  if (grid == 0) return;
  call(out, name[m->dtype], grid, THREADS);
  out->bytes = sizeof p;
  memcpy(out->param, &p, sizeof p);
}
