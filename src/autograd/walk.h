/* The state of a backward walk, which the files that do it share (backward.c, late.c, tiles.c). */
#ifndef FL_AUTOGRAD_WALK_H
#define FL_AUTOGRAD_WALK_H
#include "autograd/rules.h"

typedef struct item {
  int64_t sequence;
  fl_node *node;                         /* the walk holds one gref of it */
  uint32_t wanted; /* bits of the inputs that need a cotangent, as in entry->tracked */
  int32_t late;                         /* index in 'lates' of a waiting cotangent; -1: none */
  int64_t copied;           /* elements to copy to make one product of the waiting cotangents */
  uint8_t needed, done;     /* it is on a path to a target; its rule was run */
} item;

typedef struct target {
  int64_t sequence;
  int i, reached;
} target; /* wrt[i], by the sequence number of its entry; reached: the roots' graph contains it */
typedef struct arrival {
  fl_node *node, *g;
} arrival; /* a cotangent g that has arrived at a leaf; g is held */

typedef struct walk {
  flame_context *c;
  const char *op;                        /* public name in messages */
  struct { item *at; int64_t n, cap; } order;       /* once collected: descending sequence */
  struct { fl_node **at; int64_t n, cap; } todo;
  struct { target *at; int64_t n, cap; } targets;   /* ascending sequence */
  struct { arrival *at; int64_t n, cap; } leaves;
  struct { fl_late *at; int64_t n, cap; } lates;
  uint32_t number;                       /* among all of the context */
  int ncuts;              /* number of reasons why values that the graph reads are not tracked */
  uint32_t cuts[FL_WALK_CUTS];
  int into_leaves;
  fl_node **out;                         /* results for wrt; held during the walk */
  fl_backward how;
} walk;

static inline int tracked_input(const fl_node *n, int i) {
  return n->in[i] && n->in[i]->entry && n->entry->tracked >> (i < 31 ? i : 31) & 1;
}

/* Was the entry recorded before the part that is walked? Then 'grad' and the hooks may belong to an
** outer walk that is under way. */
static inline int outside(const walk *w, const fl_entry *e) {
  return e->sequence < w->how.since;
}

/* Does the walk end at e, because none of its inputs is walked? */
static inline int ends(const walk *w, const fl_entry *e) {
  return e->leaf || outside(w, e);
}

static inline int wants_grad(const fl_entry *e) {
  return e->leaf || (e->handle && e->handle->retain);
}

/* The first target with a sequence number, or targets.n. */
static inline int64_t find_target(const walk *w, int64_t sequence) {
  int64_t lo = 0, hi = w->targets.n;
  while (lo < hi) {
    const int64_t mid = (lo + hi) / 2;
    if (w->targets.at[mid].sequence < sequence) lo = mid + 1; else hi = mid;
  }
  return lo < w->targets.n && w->targets.at[lo].sequence == sequence ? lo : w->targets.n;
}

/* Adds g to *sum, to which the walk holds a reference. 0: no memory, also if g is NULL. */
static inline int add_into(fl_node **sum, fl_node *g) {
  if (*sum) g = fl_add_cotangents(*sum, g);
  if (!g) return 0;
  fl_node_hold(g);
  if (*sum) fl_node_drop(*sum);
  *sum = g;
  return 1;
}

/* ---- late.c, tiles.c: cotangents that wait for others ---- */

/* If 'it' is a product, and g its cotangent, lets the cotangent of its second factor wait for
** others (late.c). 1: it waits; 0: it can not, or it is no product; -1: an error. */
int fl_late_factor(walk *w, const item *it, fl_node *g);
/* Like fl_late_factor, for the sum of g's rows, which is a cotangent of 'in'. */
int fl_late_rows(walk *w, fl_node *in, fl_node *g);
/* Like fl_late_factor, for the cotangent of a slice (tiles.c). */
int fl_late_slice(walk *w, const item *it, fl_node *g);
/* The cotangent of x from the cotangents g of n slices of it, the latest first; both lists may be
** reordered. NULL: an error. */
fl_node *fl_slices_join(walk *w, const fl_node *x, int n, fl_node **slice, fl_node **g);
/* Adds x to the cotangents that wait for the item. Returns 1, or -1 with an error. */
int fl_late_wait(walk *w, item *it, fl_late x, int64_t copied);
/* The item of node n, if n is still to be walked; else NULL. */
item *fl_walk_item(walk *w, const fl_node *n);
/* Adds the cotangents that wait for the item to its sum. 0: an error. */
int fl_late_join(walk *w, item *it);
void fl_late_close(walk *w);
#endif
