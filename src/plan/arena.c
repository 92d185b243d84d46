/*
** Addresses of values that no handle holds: each cell (a node as the planner sees it) that is
** stored in the arena has a place there from the stage that writes it to the last that reads it; on
** a GPU, if they are few bytes in all, until the end ('apart'). (A stage is a set of steps that do
** not depend on each other.)
**
** In place: if a kernel reads a cell for the last time, each element at the point where it stores
** an element of another cell, that other cell takes its memory (the gradient of logits takes that
** of the logits). The kernel may also gather elements of the row that it stores. Values per row
** (results of reductions) have separate memory: they are small, and lanes beyond the last row read
** the values of the last row, too. A run that is repeated begins again at its first step, so old
** values need not be kept for it.
*/
#include "base/hooks.h"
#include "base/num.h"
#include "plan/planner.h"
#include <string.h>

/* LATE_LEAST: a fill is moved to right before the scatter that adds to it, if it has at least so
** many bytes. COPY_MOST, COPY_INSTR: a copy of fewer elements, in a kernel of at most so many
** instructions, is moved to a later stage. APART_MOST: on a GPU, cells of no more bytes in all each
** have their own memory. */
enum { LATE_LEAST = 1 << 20, COPY_MOST = 1 << 18, COPY_INSTR = 4, APART_MOST = 16 << 20 };

/* ---- a stack with holes ---------------------------------------------------------------------- */

typedef struct { int64_t at, bytes; } hole;
typedef struct { struct { hole *at; int64_t n, cap; } holes; int64_t end, top; fl_mem *mem; } arena;

static int64_t arena_take(arena *a, int64_t bytes) {
  int64_t best = -1;
  bytes = (bytes + 255) / 256 * 256;
  for (int64_t i = 0; i < a->holes.n; i++)
    if (a->holes.at[i].bytes >= bytes &&
        (best < 0 || a->holes.at[i].bytes < a->holes.at[best].bytes))
      best = i;
  if (best >= 0) {
    hole *h = &a->holes.at[best];
    const int64_t at = h->at;
    h->at += bytes;
    h->bytes -= bytes;
    if (h->bytes == 0) *h = a->holes.at[--a->holes.n];
    return at;
  }
  const int64_t at = a->end;
  a->end += bytes;
  if (a->end > a->top) a->top = a->end;
  return at;
}

static int arena_give(arena *a, int64_t at, int64_t bytes) {
  bytes = (bytes + 255) / 256 * 256;
  for (int64_t i = 0; i < a->holes.n; i++) {               /* join neighbours */
    hole *h = &a->holes.at[i];
    if (h->at + h->bytes == at) {
      at = h->at;
      bytes += h->bytes;
      *h = a->holes.at[--a->holes.n];
      i = -1;
    } else if (at + bytes == h->at) {
      bytes += h->bytes;
      *h = a->holes.at[--a->holes.n];
      i = -1;
    }
  }
  if (at + bytes == a->end) { a->end = at; return 1; }
  hole *h = FL_PUSH(a->mem, &a->holes);
  if (h) *h = (hole){ at, bytes };
  return h != NULL;
}

/* ---- fills ----------------------------------------------------------------------------------- */

/* Does the group (ops that become one kernel) only give cell t its first value, which depends on
** nothing? */
static int is_fill(const fl_group *G, int32_t t) {
  return G->kind == FL_K_MAP && !G->faulty && G->deps.n == 0 && G->access.n == 1 &&
         G->access.at[0].store && G->access.at[0].ref == t;
}

void fl_plan_delay_fills(fl_planner *P) {
  for (int64_t s = 0; s < P->group.n; s++) {
    const fl_group *S = &P->group.at[s];
    if (S->kind != FL_G_SCATTER || P->cell.at[S->cell].bytes < LATE_LEAST) continue;
    for (int64_t g = 0; g < s; g++) {
      fl_group *G = &P->group.at[g];
      if (G->stage < S->stage - 1 && is_fill(G, S->cell)) G->stage = S->stage - 1;
    }
  }
}

/* ---- copies into a whole --------------------------------------------------------------------- */

/* Does the group (ops that become one kernel) do little more than copy into one piece of a cell
** that is written piece by piece (a cat) and read by other groups? */
static int is_copy(const fl_planner *P, const fl_group *G) {
  int stores = 0;
  if (G->kind != FL_K_MAP || G->faulty || G->closed || G->limit == INT32_MAX ||
      G->instr.n > COPY_INSTR) return 0;
  for (int64_t i = 0; i < G->access.n; i++) {
    const fl_access *a = &G->access.at[i];
    if (a->store && (a->ref < 0 || P->cell.at[a->ref].pieces < 0)) return 0;
    stores += a->store;
  }
  int64_t bytes = 1;
  for (int d = 0; d < G->nd; d++) bytes = fl_min(bytes * G->size[d], COPY_MOST);
  return stores == 1 && bytes < COPY_MOST;
}

void fl_plan_delay_copies(fl_planner *P) {
  for (int64_t g = 0; g < P->group.n && !P->collected; g++) {
    fl_group *G = &P->group.at[g];
    if (G->stage < G->limit - 1 && is_copy(P, G)) G->stage = G->limit - 1;
  }
}

/* ---- in place -------------------------------------------------------------------------------- */

static int touches_ref(const fl_access *a, fl_ref ref) { return !a->iota && a->ref == ref; }

static int touches(const fl_planner *P, const fl_turn *t, fl_ref ref) {
  if (t->cell >= 0) return t->cell == ref;
  const fl_group *G = &P->group.at[t->group];
  for (int64_t i = 0; i < G->access.n; i++)
    if (touches_ref(&G->access.at[i], ref)) return 1;
  if (fl_plan_is_kernel(G)) return 0;
  if (G->cell == ref) return 1;
  const fl_node *n = P->cell.at[G->cell].node;
  for (int i = 0; i < n->nin; i++) {
    int64_t off;
    if (fl_plan_target(P->p, fl_plan_read(P, G->cell, i), &off) == ref) return 1;
  }
  return 0;
}

/* Is turns[i], a step in the order of the plan, the only one of its stage that accesses 'ref' (a
** cell, which is a node as the planner sees it)? */
static int is_alone(const fl_planner *P, const fl_turn *turns, int64_t n, int64_t i, fl_ref ref) {
  int64_t j = i;
  while (j > 0 && turns[j - 1].stage == turns[i].stage) j--;
  for (; j < n && turns[j].stage == turns[i].stage; j++)
    if (j != i && touches(P, &turns[j], ref)) return 0;
  return 1;
}

static int in_arena(const fl_cell *c) {
  return c->place.where == FL_AT_ARENA && c->stored && c->last >= 0;
}

/* May the cell that access w of group G (one kernel) stores take the memory of the cell that access
** r of G reads? i: the number of G's turn (step). */
static int takes(const fl_planner *P, const fl_group *G, const fl_access *w, const fl_access *r,
                 int64_t i) {
  if (r->store || r->iota || r->gstride || r->ref < 0 || r->ref == w->ref) return 0;
  const fl_cell *a = &P->cell.at[r->ref], *b = &P->cell.at[w->ref];
  return in_arena(a) && a->last == i && a->first < i && a->bytes == b->bytes &&
         a->dtype == r->dtype && fl_dtype_size(a->dtype) == fl_dtype_size(b->dtype) &&
         w->map.offset == r->map.offset &&
         memcmp(w->map.stride, r->map.stride, sizeof(int64_t) * G->nd) == 0;
}

static int accesses_of(const fl_group *G, fl_ref ref) {
  int n = 0;
  for (int64_t i = 0; i < G->access.n; i++) n += touches_ref(&G->access.at[i], ref);
  return n;
}

/* Is the position of the gather the same along the row, and known before the first reduction of the
** row? */
static int is_per_row(const fl_group *G, int64_t access) {
  uint8_t level[FL_MAX_INSTR];
  fl_plan_levels(G, level);
  for (int64_t i = 0; i < G->instr.n; i++) {
    const fl_instr *x = &G->instr.at[i];
    if (x->code == FL_I_GATHER && x->arg == access && (level[x->a] || x->pass)) return 0;
  }
  return 1;
}

/* Does the access gather one element of the row that w stores, before any of it is stored? A device
** reads it before the row's first reduction, and w's value depends on a reduction, which the
** threads of a block end together. Nothing orders the lanes of a warp, so rows that a warp computes
** are excluded. */
static int is_in_row(const fl_group *G, const fl_access *w, int64_t access) {
  const fl_access *a = &G->access.at[access];
  int64_t n = 1, stride = 0;
  if (G->kind != FL_K_ROW || a->store || !a->gstride || a->map.offset != w->map.offset ||
      G->instr.at[w->value].pass == 0) return 0;
  for (int d = 0; d < G->nd; d++) {
    const int reduced = G->red >> d & 1;
    if (a->map.stride[d] != (reduced ? 0 : w->map.stride[d]) || (reduced && n > 1)) return 0;
    if (reduced) { n = G->size[d]; stride = w->map.stride[d]; }
  }
  return n > FL_WARP_ROW && a->gstride == stride && a->extent <= n && is_per_row(G, access);
}

/* Does the group read the cell of access r only where w stores: at the same point (access r
** itself), or gathered from the same row (all its other accesses)? */
static int reads_in_place(const fl_group *G, const fl_access *w, int64_t r) {
  for (int64_t i = 0; i < G->access.n; i++)
    if (i != r && touches_ref(&G->access.at[i], G->access.at[r].ref) && !is_in_row(G, w, i))
      return 0;
  return 1;
}

/* Fills heir and from. heir[a] = b: b takes over a's memory, and from[b] = a; -1: none. Partial
** results (ACROSS) do not lie at the points whose values they sum, so they take over none. */
static void share(const fl_planner *P, const fl_turn *turns, int64_t n, int32_t *heir,
                  int32_t *from) {
  for (int64_t i = 0; i < n; i++) {
    const fl_group *G = turns[i].group >= 0 ? &P->group.at[turns[i].group] : NULL;
    if (!G || !fl_plan_is_kernel(G)) continue;
    for (int64_t s = 0; s < G->access.n; s++) {
      const fl_access *w = &G->access.at[s];
      if (!w->store || w->store == FL_STORE_ACROSS || w->ref < 0 ||
          accesses_of(G, w->ref) != 1 || from[w->ref] >= 0 ||
          (G->kind != FL_K_MAP && !fl_plan_moves_in_row(G, &w->map))) continue;
      const fl_cell *b = &P->cell.at[w->ref];
      if (!in_arena(b) || b->first != i || b->pieces >= 0 ||
          !is_alone(P, turns, n, i, w->ref)) continue;
      for (int64_t k = 0; k < G->access.n && from[w->ref] < 0; k++) {
        const fl_access *r = &G->access.at[k];
        if (!takes(P, G, w, r, i) || heir[r->ref] >= 0 || !reads_in_place(G, w, k) ||
            !is_alone(P, turns, n, i, r->ref)) continue;
        heir[r->ref] = w->ref;
        from[w->ref] = r->ref;
      }
    }
  }
}

/* ---- places ---------------------------------------------------------------------------------- */

/* A bug that tests plant: arrays of floats whose lives begin in step s are put at the address of
** the first of them if they are not larger. Integers, which may be positions, are excluded, so that
** the run is wrong but in bounds; nothing is freed. */
static void overlay(fl_planner *P, const int32_t *head, const int32_t *next, int64_t s) {
  int32_t first = -1;
  for (int32_t t = head[2 * s]; t >= 0; t = next[2 * t]) {
    fl_cell *c = &P->cell.at[t];
    if (!fl_is_float(c->dtype)) continue;
    if (first < 0) first = t;
    else if (c->bytes <= P->cell.at[first].bytes) c->place.byte = P->cell.at[first].place.byte;
  }
}

static int32_t widest(const fl_planner *P) {
  int32_t most = -1;
  for (int32_t t = 0; t < P->p->nodes.n; t++) {
    const fl_cell *c = &P->cell.at[t];
    if (c->place.where != FL_AT_ARENA || !c->stored || c->last < 0) continue;
    if (most < 0 || c->bytes > P->cell.at[most].bytes) most = t;
  }
  return most;
}

/* Lists of the cells whose lives begin (2s) and end (2s + 1) with turn s (a step). A cell is freed
** only after the last step of its last stage, so two steps of one stage never reuse each other's
** memory, and merged launches stay independent. */
static void list_cells(const fl_planner *P, const fl_turn *turns, int64_t n, int32_t *head,
                       int32_t *next) {
  for (int64_t s = 0; s < 2 * n + 2; s++) head[s] = -1;
  for (int64_t t = 0; t < P->cell.n; t++) {
    const fl_cell *c = &P->cell.at[t];
    if (!in_arena(c)) continue;
    int32_t last = c->last, first = c->first;
    while (last + 1 < n && turns[last + 1].stage == turns[last].stage) last++;
    while (first > 0 && turns[first - 1].stage == turns[first].stage) first--;
    next[2 * t] = head[2 * first];
    head[2 * first] = (int32_t)t;
    next[2 * t + 1] = head[2 * last + 1];
    head[2 * last + 1] = (int32_t)t;
  }
}

typedef struct places { int32_t *head, *next, *heir, *from; } places;

/* Does each cell of the run get memory that no other cell has? Yes on a GPU, if that is little
** memory: steps of a graph that share no memory need not wait for each other (cuda/waits.h). */
static int apart(const fl_planner *P) {
  int64_t bytes = 0;
  for (int64_t t = 0; t < P->cell.n; t++)
    if (in_arena(&P->cell.at[t])) bytes += P->cell.at[t].bytes;
  return P->p->device && bytes <= APART_MOST;
}

static int walk(fl_planner *P, int64_t n, const places *q, int keep, arena *a) {
  const int planted = FL_PLANTED(P->c, FL_PLANT_ADDRESS);
  int ok = 1;
  for (int64_t s = 0; ok && s < n; s++) {
    for (int32_t t = q->head[2 * s]; t >= 0; t = q->next[2 * t]) {
      fl_cell *c = &P->cell.at[t];
      c->place.byte = q->from[t] >= 0 ? P->cell.at[q->from[t]].place.byte : arena_take(a, c->bytes);
      c->place.index = (int32_t)((c->bytes + 255) / 256);
    }
    if (planted) overlay(P, q->head, q->next, s);
    if (planted || keep) continue;
    for (int32_t t = q->head[2 * s + 1]; ok && t >= 0; t = q->next[2 * t + 1])
      ok = q->heir[t] >= 0 || arena_give(a, P->cell.at[t].place.byte, P->cell.at[t].bytes);
  }
  return ok;
}

int fl_plan_place_memory(fl_planner *P, const fl_turn *turns, int64_t n, fl_plan *plan) {
  arena a = { .mem = P->mem };
  const size_t lists = (size_t)(2 * n + 2), cells = (size_t)(2 * P->cell.n + 2);
  const size_t bytes = sizeof(int32_t) * (lists + 2 * cells);
  int32_t *at = fl_alloc(P->mem, bytes);
  if (!at) return 0;
  const places q = { at, at + lists, at + lists + cells, at + lists + cells + cells / 2 };
  memset(q.heir, 0xFF, sizeof(int32_t) * cells);
  list_cells(P, turns, n, q.head, q.next);
  const int keep = apart(P);
  if (!P->collected && !P->c->scan && !keep) share(P, turns, n, q.heir, q.from);
  const int ok = walk(P, n, &q, keep, &a);
  fl_free(P->mem, at, bytes);
  FL_DROP(P->mem, &a.holes);
  plan->arena_bytes = a.top;
  plan->widest = widest(P);
  return ok;
}
