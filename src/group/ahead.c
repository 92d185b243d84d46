/*
** Entering a collective: what this rank calls now and later in the same plan, so that ranks whose
** plans contain the same collectives agree once per plan (group.h, "agrees"). Only collectives of
** all ranks are counted; send and receive are agreed on by two.
*/
#include "base/hash.h"
#include "group/wait.h"
#include <stdio.h>
#include <string.h>

int64_t fl_group_form(void) {
  const uint64_t parts = sizeof(fl_header) << 32 | FLAME_DTYPE_COUNT << 16 | FL_COLLECT_COUNT;
  return (int64_t)fl_hash64(FLAME_VERSION, strlen(FLAME_VERSION), parts);
}

fl_header *fl_group_head(fl_group *g, const char *what, int64_t kind) {
  fl_header *h = &g->header[g->launch.rank];
  memset(h, 0, sizeof *h);
  h->form = fl_group_form();
  h->number = g->number;
  h->count = 1;
  h->p[FL_COLLECT_WHAT] = kind;
  snprintf(h->what, sizeof h->what, "%s", what);
  return h;
}

static size_t words_of(const fl_call *k) {
  return (size_t)(FL_COLLECT_SIZES + k->p[FL_COLLECT_NDIM]);
}

void fl_group_describe(fl_turn *t, const fl_call *k, const fl_scalar *scalar, fl_lane lane) {
  fl_group *g = t->g;
  fl_header *h = fl_group_head(g, k->what, k->p[FL_COLLECT_WHAT]);
  h->dtype = k->dtype;
  h->lane = lane;
  memcpy(h->p, k->p, sizeof *k->p * words_of(k));
  if (g->c->up->place) g->c->up->place(g->c, (uint32_t)scalar[0].i, h->place);
}

static int is_pair(const fl_call *k) {
  const int64_t what = k->p[FL_COLLECT_WHAT];
  return what == FL_COLLECT_SEND || what == FL_COLLECT_RECEIVE;
}

/* The step's call if it is a collective of all ranks, or NULL. */
static const fl_call *later(const fl_step *s) {
  const fl_call *k = s->kind == FL_S_CALL ? &s->call->call : NULL;
  return k && k->kind == FL_CALL_collective && !is_pair(k) ? k : NULL;
}

static int64_t digest_of(const fl_group *g, const fl_call *k, int64_t before) {
  const int lane = g->gpu.lane ? (int)g->gpu.lane(g->gpu.state, k) : FL_LANE_HOST;
  const uint64_t h = fl_mix64((uint64_t)before, (uint64_t)(lane << 8 | k->dtype));
  return (int64_t)fl_hash64(k->p, sizeof *k->p * words_of(k), h);
}

/* Writes into the header how many collectives the plan has from k on, a digest of those after k,
** and whether the plan checks indices. */
static void look_ahead(fl_turn *t, const fl_call *k) {
  const fl_plan *p = t->g->plan;
  fl_header *h = t->mine;
  int32_t i = 0;
  if (!p || h->lane == FL_LANE_ASKS) return;
  while (i < p->nstep && (p->step[i].kind != FL_S_CALL || &p->step[i].call->call != k)) i++;
  for (i++; i < p->nstep; i++) {
    const fl_call *x = later(&p->step[i]);
    if (!x) continue;
    h->count++;
    h->digest = digest_of(t->g, x, h->digest);
  }
  h->checks = p->checks;
}

int fl_group_come(fl_turn *t, const fl_call *k) {
  fl_group *g = t->g;
  const fl_header *h = g->header;
  int alike = 1;
  if (!g->wire) return 1;
  if (is_pair(k)) return fl_group_agree_pair(t, (int)k->p[FL_COLLECT_PEER]);
  g->number++;
  if (g->agreed > 0) {
    g->agreed--;
    return 1;
  }
  t->mine->number = g->number;
  look_ahead(t, k);
  if (!fl_group_agree(t)) return 0;
  g->checked = 0;
  for (int r = 0; r < g->launch.size; r++) {
    alike &= h[r].count == h[0].count && h[r].digest == h[0].digest;
    g->checked |= h[r].checks != 0;
  }
  g->agreed = alike ? h[0].count - 1 : 0;
  return 1;
}

int fl_group_fine(fl_turn *t) {
  fl_group *g = t->g;
  if (!g->wire || !g->checked) return 1;
  t->mine = fl_group_head(g, "the end of the checks", FL_COLLECT_FINE);
  return fl_group_agree(t);
}
