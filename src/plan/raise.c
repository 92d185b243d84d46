/*
** Moves a group to a later stage together with the groups that read from it. A cell that needs a
** value that is ready at stage s may then join a group that would be at an earlier one: the
** gradient of a classifier's logits needs the number of valid labels, and joins the rows that sum
** the exponentials, so that the logits are read once.
**
** Each group has a list of its readers. Only kernels that cells may still join are moved, few at a
** time; steps and closed groups stay.
*/
#include "plan/place.h"

enum { MOST = 16, LINKS = 256 };              /* most groups moved at a time; most readers looked
                                              ** at */

void fl_raise_note(fl_planner *P, int32_t g) {
  fl_group *G = fl_plan_group(P, g);
  for (; G->noted < G->deps.n; G->noted++) {
    fl_group *H = fl_plan_group(P, G->deps.at[G->noted]);
    fl_group_link *k = FL_PUSH(P->mem, &P->reader);
    if (!k) { P->failed = 1; return; }
    *k = (fl_group_link){ g, H->reader };
    H->reader = (int32_t)P->reader.n - 1;
  }
}

typedef struct moves { fl_turn at[MOST]; int n, links; } moves;

static int depends(const fl_group *G, int32_t on) {
  for (int64_t i = 0; i < G->deps.n; i++) if (G->deps.at[i] == on) return 1;
  return 0;
}

/* Notes that group h must come after 'stage'. Returns the index in m->at of the first group to look
** at again (at most 'from'), or -1 if h must stay. */
static int move(fl_planner *P, moves *m, int32_t h, int32_t stage, int from) {
  const fl_group *H = fl_plan_group(P, h);
  int k = 0;
  if (H->stage > stage) return from;
  while (k < m->n && m->at[k].group != h) k++;
  if (k == 0 || k == MOST || H->closed || !fl_plan_is_kernel(H)) return -1;
  if (k < m->n && m->at[k].stage > stage) return from;
  if (k == m->n && depends(fl_plan_group(P, m->at[0].group), h)) return -1;
  m->n += k == m->n;
  m->at[k] = (fl_turn){ .group = h, .stage = stage + 1 };
  return k < from ? k : from;
}

/* Finds the stages of the groups that have to follow m->at[0], the group that is to be moved. 0:
** one of them must stay, or there are too many. */
static int follow(fl_planner *P, moves *m) {
  for (int i = 0; i < m->n; i++) {
    int next = i + 1;
    for (int32_t k = fl_plan_group(P, m->at[i].group)->reader; k >= 0; k = P->reader.at[k].next) {
      next = m->links++ < LINKS ? move(P, m, P->reader.at[k].group, m->at[i].stage, next) : -1;
      if (next < 0) return 0;
    }
    i = next - 1;
  }
  return 1;
}

static void set_limit(fl_planner *P, int32_t g) {
  fl_group *G = fl_plan_group(P, g);
  G->limit = INT32_MAX;
  for (int32_t k = G->reader; k >= 0; k = P->reader.at[k].next) {
    const int32_t stage = fl_plan_group(P, P->reader.at[k].group)->stage;
    if (stage < G->limit) G->limit = stage;
  }
}

int fl_raise(fl_planner *P, int32_t g, int32_t stage) {
  moves m = { .at = { { .group = g, .stage = stage } }, .n = 1 };
  if (P->collected || !follow(P, &m)) return 0;
  for (int i = 0; i < m.n; i++) fl_plan_group(P, m.at[i].group)->stage = m.at[i].stage;
  for (int i = 0; i < m.n; i++) {
    const fl_group *H = fl_plan_group(P, m.at[i].group);
    for (int64_t d = 0; d < H->deps.n; d++) set_limit(P, H->deps.at[d]);
  }
  set_limit(P, g);
  return 1;
}
