/*
** Writes in place: for a cell that has a home (the buffer that a handle owns), which groups write
** the cell and which read the home's old value, and therefore whether the cell may be stored
** directly into its home (planner.h).
*/
#include "base/hooks.h"
#include "plan/planner.h"
#include <string.h>

static int writes_cell(const fl_group *G, int32_t t) {
  if (!fl_plan_is_kernel(G)) return G->cell == t;
  for (int64_t i = 0; i < G->access.n; i++)
    if (G->access.at[i].store && G->access.at[i].ref == t) return 1;
  return 0;
}

static int in_home(const fl_planner *P, fl_ref ref, int32_t home) {
  return ref < 0 && ref != INT32_MIN && P->p->ext.at[~ref]->buffer == P->p->homes.at[home];
}

/* Does group H read the old value of a home (the buffer of a handle)? The base of a scatter does
** not count. *same: H is a kernel and, if it stores t, reads each element only at the point at
** which it stores that element of t. */
static int reads_home(const fl_planner *P, const fl_group *H, int32_t home, int32_t t, int *same) {
  int reads = 0;
  *same = 1;
  if (!fl_plan_is_kernel(H)) {
    const fl_node *n = P->cell.at[H->cell].node;
    for (int i = 0; i < n->nin; i++) {
      int64_t off;
      const fl_ref r = fl_plan_target(P->p, fl_plan_read(P, H->cell, i), &off);
      if (r < 0 && in_home(P, r, home) && !(i == 0 && H->kind == FL_G_SCATTER)) reads = 1;
    }
    *same = 0;
    return reads;
  }
  for (int64_t i = 0; i < H->access.n; i++) {
    const fl_access *a = &H->access.at[i];
    if (a->store || a->iota || !in_home(P, a->ref, home)) continue;
    reads = 1;
    for (int64_t j = 0; j < H->access.n; j++) {
      const fl_access *w = &H->access.at[j];
      if (!w->store || w->ref != t) continue;
      const int64_t off = P->p->ext.at[~a->ref]->offset;
      if (a->gstride || w->dtype != a->dtype || w->map.offset != a->map.offset + off ||
          memcmp(w->map.stride, a->map.stride, sizeof(int64_t) * H->nd)) *same = 0;
    }
  }
  return reads;
}

/* Is the group a product, or a call, that may take longer than an interrupt may wait? Steps that
** write a home (a handle's buffer) are not interrupted. */
static int is_long(const fl_planner *P, const fl_group *G) {
  if (G->kind == FL_G_CALL) return 1;              /* not known */
  if (G->kind != FL_G_MATMUL) return 0;
  const fl_node *n = P->cell.at[G->cell].node, *a = n->nin ? n->in[0] : NULL;
  if (!a || a->shape->rank == 0) return 0;
  return (double)n->shape->numel * (double)a->shape->size[a->shape->rank - 1] > 0x1p30;
}

static int add_link(fl_planner *P, fl_homes *h, int32_t *first, int64_t group) {
  if (*first >= 0 && h->entry.at[*first].group == group) return 1;
  fl_group_link *l = FL_PUSH(P->mem, &h->entry);
  if (!l) return 0;
  *l = (fl_group_link){ (int32_t)group, *first };
  *first = (int32_t)(h->entry.n - 1);
  return 1;
}

static int add_reader(fl_planner *P, fl_homes *h, fl_ref ref, int64_t group) {
  if (ref >= 0 || ref == INT32_MIN) return 1;
  const int32_t home = fl_program_home(P->p, P->p->ext.at[~ref]->buffer);
  return home < 0 || add_link(P, h, &h->reader[home], group);
}

static int add_writer(fl_planner *P, fl_homes *h, fl_ref t, int64_t group) {
  return P->cell.at[t].home < 0 || add_link(P, h, &h->writer[t], group);
}

static int link_group(fl_planner *P, fl_homes *h, int64_t g) {
  const fl_group *G = &P->group.at[g];
  int ok = 1;
  if (G->faulty && G->stage > h->last_check) h->last_check = G->stage;
  for (int64_t i = 0; ok && fl_plan_is_kernel(G) && i < G->access.n; i++) {
    const fl_access *a = &G->access.at[i];
    if (a->iota) continue;
    ok = a->store ? add_writer(P, h, a->ref, g) : add_reader(P, h, a->ref, g);
  }
  if (fl_plan_is_kernel(G)) return ok;
  const fl_node *n = P->cell.at[G->cell].node;
  for (int i = 0; ok && i < n->nin; i++) {
    int64_t off;
    ok = add_reader(P, h, fl_plan_target(P->p, fl_plan_read(P, G->cell, i), &off), g);
  }
  return ok && add_writer(P, h, G->cell, g);
}

void fl_homes_close(fl_planner *P, fl_homes *h) {
  fl_free(P->mem, h->writer, sizeof *h->writer * (size_t)P->cell.n);
  fl_free(P->mem, h->reader, sizeof *h->reader * (size_t)P->p->homes.n);
  FL_DROP(P->mem, &h->entry);
}

int fl_homes_open(fl_planner *P, fl_homes *h) {
  memset(h, 0, sizeof *h);
  if (P->p->homes.n == 0) return 1;
  h->writer = fl_alloc(P->mem, sizeof *h->writer * (size_t)P->cell.n);
  h->reader = fl_alloc(P->mem, sizeof *h->reader * (size_t)P->p->homes.n);
  int ok = h->writer && h->reader;
  for (int64_t t = 0; ok && t < P->cell.n; t++) h->writer[t] = -1;
  for (int64_t i = 0; ok && i < P->p->homes.n; i++) h->reader[i] = -1;
  for (int64_t g = 0; ok && g < P->group.n; g++) ok = link_group(P, h, g);
  return ok;
}

/* The stage of the last of the groups (kernels) that must run before cell t is written to its home:
** groups with checks, and readers of the home's old value; -1: a group that writes t reads the old
** value at other points than it writes, or is one of several that write t. */
static int32_t last_reader(const fl_planner *P, const fl_homes *h, int32_t t, int32_t writers) {
  const int32_t home = P->cell.at[t].home;
  int32_t last = h->last_check;
  for (int32_t i = h->reader[home]; i >= 0; i = h->entry.at[i].next) {
    const fl_group *H = &P->group.at[h->entry.at[i].group];
    int same;
    if (!reads_home(P, H, home, t, &same)) continue;
    if (!writes_cell(H, t)) { if (H->stage > last) last = H->stage; }
    else if (!same || writers > 1) return -1;
  }
  return last;
}

/* Keeps the groups that read the old value of t's home (the buffer that t is written to) before
** those that write it, also when the readers are moved because they write another home. */
static void hold_readers(fl_planner *P, const fl_homes *h, int32_t t) {
  const int32_t home = P->cell.at[t].home;
  int32_t first = INT32_MAX;
  for (int32_t i = h->writer[t]; i >= 0; i = h->entry.at[i].next) {
    const int32_t stage = P->group.at[h->entry.at[i].group].stage;
    if (stage < first) first = stage;
  }
  for (int32_t i = h->reader[home]; i >= 0; i = h->entry.at[i].next) {
    fl_group *H = &P->group.at[h->entry.at[i].group];
    int same;
    if (H->limit > first && reads_home(P, H, home, t, &same) && !writes_cell(H, t))
      H->limit = first;
  }
}

int fl_homes_in_place(fl_planner *P, const fl_homes *h, int32_t t) {
  int32_t writers = 0;
  for (int32_t i = h->writer[t]; i >= 0; i = h->entry.at[i].next) {
    const fl_group *G = &P->group.at[h->entry.at[i].group];
    writers++;
    if (G->faulty || is_long(P, G)) return 0;        /* an error must leave the target unchanged */
  }
  if (FL_PLANTED(P->c, FL_PLANT_ORDER)) return writers > 0;
  const int32_t last = last_reader(P, h, t, writers);
  if (last < 0) return 0;
  for (int32_t i = h->writer[t]; i >= 0; i = h->entry.at[i].next) {
    fl_group *W = &P->group.at[h->entry.at[i].group];
    if (W->stage > last) continue;
    if (writers > 1 || last + 1 >= W->limit || W->closed) return 0;
    W->stage = last + 1;
    for (int64_t k = 0; k < W->deps.n; k++)
      if (W->stage < P->group.at[W->deps.at[k]].limit) P->group.at[W->deps.at[k]].limit = W->stage;
  }
  hold_readers(P, h, t);
  return writers > 0;
}
