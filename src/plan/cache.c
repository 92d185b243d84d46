/*
** The plan cache: plans are found by the hash of the key, and keys compared bytewise; it is bounded
** by bytes, and least recently used plans are dropped first.
*/
#include "plan/plan.h"
#include <string.h>

enum { BINS = 1024, VARIANTS = 4, MOST_CALLS = 32, LATEST = 16 };

int fl_plans_init(fl_plans *t, fl_mem *m) {
  memset(t, 0, sizeof *t);
  t->mem = m;
  t->limit = 256LL << 20;
  t->nbin = BINS;
  t->sweep_at = MOST_CALLS;
  t->bin = fl_zalloc(m, sizeof *t->bin * BINS);
  return t->bin != NULL;
}

void fl_plans_close(fl_plans *t) {
  for (int64_t i = 0; t->bin && i < t->nbin; i++)
    while (t->bin[i]) {
      fl_plan *p = t->bin[i];
      t->bin[i] = p->chain;
      fl_plan_free(p);
    }
  if (t->bin) fl_free(t->mem, t->bin, sizeof *t->bin * BINS);
  memset(t, 0, sizeof *t);
}

static void unlink_plan(fl_plans *t, fl_plan *p) {
  if (p->newer) p->newer->older = p->older; else t->newest = p->older;
  if (p->older) p->older->newer = p->newer; else t->oldest = p->newer;
}

static void link_newest(fl_plans *t, fl_plan *p) {
  p->newer = NULL;
  p->older = t->newest;
  if (p->older) p->older->newer = p; else t->oldest = p;
  t->newest = p;
}

static int same_key(const fl_plan *q, const fl_program *p) {
  return q->hash == p->hash && q->device == p->device && q->key_bytes == (size_t)p->key.n &&
         !memcmp(q->key, p->key.at, q->key_bytes);
}

/* How many values plan q keeps that program p does not need; -1: q lacks one that p needs. */
static int64_t surplus(const fl_plan *q, const fl_program *p) {
  int64_t extra = 0;
  if (p->live.n == 0 || !memcmp(p->live.at, q->live, (size_t)p->live.n)) return 0;
  for (int64_t i = 0; i < p->live.n; i++) {
    if (p->live.at[i] && !q->live[i]) return -1;
    extra += q->live[i] && !p->live.at[i];
  }
  return extra;
}

fl_plan *fl_plans_find(fl_plans *t, fl_program *p) {
  fl_plan *best = NULL;
  int64_t least = INT64_MAX;
  int variants = 0;
  for (fl_plan *q = t->bin[p->hash % BINS]; q; q = q->chain) {
    if (!same_key(q, p)) continue;
    variants++;
    const int64_t extra = surplus(q, p);
    if (extra >= 0 && extra < least) { least = extra; best = q; }
  }
  if (best) {
    unlink_plan(t, best);
    link_newest(t, best);
  } else if (variants >= VARIANTS)
    for (const fl_plan *q = t->bin[p->hash % BINS]; q; q = q->chain) {
      if (!same_key(q, p)) continue;
      for (int64_t i = 0; i < p->live.n; i++) p->live.at[i] |= q->live[i];
    }
  return best;
}

const fl_plan *fl_plans_like(const fl_plans *t, const fl_program *p) {
  const fl_plan *q = t->bin[p->hash % BINS];
  while (q && !same_key(q, p)) q = q->chain;
  return q;
}

/* How many bytes the two keys have in common from their beginning. */
static int64_t in_common(const fl_plan *q, const fl_program *p) {
  const int64_t most = (int64_t)q->key_bytes < p->key.n ? (int64_t)q->key_bytes : p->key.n;
  int64_t i = 0;
  while (i < most && q->key[i] == p->key.at[i]) i++;
  return i;
}

fl_unreplayed fl_plans_differ(const fl_plans *t, const fl_program *p) {
  fl_unreplayed y = { .op = -1, .was = -1, .step = -1 };
  const fl_plan *best = NULL;
  int64_t same = -1, from = 0;
  int32_t i = 0;
  const fl_plan *q = t->newest;
  for (int k = 0; q && k < LATEST; q = q->older, k++) {
    const int64_t n = q->device == p->device ? in_common(q, p) : -1;
    if (n > same) best = q, same = n;
  }
  if (!best) return y;
  y.reason = FL_WHY_other_program;
  for (; i < p->ends.n && p->ends.at[i] <= same; i++) from = p->ends.at[i];
  if (i == p->ends.n) return y;
  y.op = (int16_t)p->nodes.at[i]->op;
  y.site = p->nodes.at[i]->site;
  uint16_t op;
  if (i < best->nnode) {
    memcpy(&op, best->key + from, sizeof op);
    y.was = (int16_t)op;
  }
  return y;
}

/* Adds 'by' (1 or -1) to the counts of cached plans of the callees (user kernels) that plan p
** calls. 1: it has callees. */
static int count_callees(const fl_plan *p, int32_t by) {
  int any = 0;
  for (int32_t i = 0; i < p->nstep; i++) {
    fl_callee *k = p->step[i].call ? p->step[i].call->call.callee : NULL;
    if (k) k->cached += by, any = 1;
  }
  return any;
}

static int is_unreachable(const fl_plan *p) {
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_callee *k = p->step[i].call ? p->step[i].call->call.callee : NULL;
    if (k && k->refs == k->cached) return 1;
  }
  return 0;
}

/* Drops the plan at *q from its chain. */
static void drop(fl_plans *t, fl_plan **q) {
  fl_plan *p = *q;
  *q = p->chain;
  unlink_plan(t, p);
  t->bytes -= p->total_bytes;
  t->n--;
  count_callees(p, -1);
  fl_plan_free(p);
}

void fl_plans_sweep(fl_plans *t) {
  int64_t left = 0;
  for (int64_t i = 0; i < t->nbin; i++)
    for (fl_plan **q = &t->bin[i]; *q;) {
      if (is_unreachable(*q)) { drop(t, q); continue; }
      left++;
      q = &(*q)->chain;
    }
  t->calls = 0;
  t->sweep_at = left > MOST_CALLS ? left : MOST_CALLS;
}

static void drop_oldest(fl_plans *t, const fl_plan *but) {
  fl_plan *p = t->oldest != but ? t->oldest : t->oldest->newer;
  fl_plan **q = &t->bin[p->hash % BINS];
  while (*q != p) q = &(*q)->chain;
  drop(t, q);
}

void fl_plans_put(fl_plans *t, fl_plan *p) {
  fl_plan **bin = &t->bin[p->hash % BINS];
  p->chain = *bin;
  *bin = p;
  link_newest(t, p);
  t->bytes += p->total_bytes;
  t->n++;
  /* the sweep does not drop p itself: the recorded ops that it computes still hold its callees */
  if (count_callees(p, 1) && ++t->calls >= t->sweep_at) fl_plans_sweep(t);
  while (t->bytes > t->limit && t->n > 1) drop_oldest(t, p);
}

int fl_plans_has(const fl_plans *t, const fl_plan *p, int64_t serial) {
  for (int64_t i = 0; i < t->nbin; i++)
    for (const fl_plan *q = t->bin[i]; q; q = q->chain)
      if (q == p) return q->serial == serial;
  return 0;
}

void fl_plans_resized(fl_plans *t, const fl_plan *p, int64_t before) {
  t->bytes += p->total_bytes - before;
  while (t->bytes > t->limit && t->n > 1) drop_oldest(t, p);
}
