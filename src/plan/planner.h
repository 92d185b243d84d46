/*
** Inside the planner (plan/ only). The parts, in the order a window passes through them:
**
**   classify.c  each program node becomes a cell: view, deferred or anchored
**   place.c     each anchored cell is put into a group, in program order
**   pieces.c    what is joined along an axis: read and written piece by piece
**   emit.c      pulls the expressions of a cell into a group's instruction list
**   homes.c     writes in place and what they must wait for
**   finish.c    order, kernels (kernelize.c, split.c) -> fl_plan
**   arena.c     addresses of what no handle holds
**
** A deferred cell is elementwise work that is written into the groups that need it (recomputed
** where several do). An anchored cell is computed in exactly one group: kept values, reductions,
** inputs of library steps, sources of gathers, and expressions too long or too dear to repeat.
** It gets memory only if it is kept or another group reads it. What is made of a reduction and
** then broadcast (the inverse deviation of a row) becomes anchored when a group other than the
** reduction's reads it at each point, if it can join the reduction's.
**
** Order. A group has a stage; every value it reads from another group is of a lower stage, so
** stages are a valid order and two groups of one stage are independent. A group may be moved
** to a later stage as long as it stays below 'limit', the lowest stage that reads from it.
**
** Maps. An access is an affine map from a group's dims to the linear (row-major) element index
** of a cell, or to the memory index of an external. Equal cell and map: the same value.
*/
#ifndef FL_PLAN_PLANNER_H
#define FL_PLAN_PLANNER_H
#include "plan/plan.h"

enum {
  FL_COST_LIMIT = 160,     /* longest expression that stays deferred, in ops and scalars */
  FL_FORM_LIMIT = 600,     /* the same of a component of a form */
  FL_LEAF_LIMIT = 48,      /* most values that it reads */
  FL_JOIN_LIMIT = 800,     /* most instructions of a group that several cells join */
  FL_ROW_JOIN_LIMIT = 400, /* where rows or columns have more, a cell brings at most */
  FL_ROW_JOIN_MOST = 64,   /* so many */
  FL_REPEAT_LIMIT = 24,    /* longest expression that several consumers may each repeat */
  FL_REPEAT_READS = 3,     /* fewest arrays of its size for which one is not repeated, by bytes */
  FL_REPEAT_MANY = 8,      /* consumers that do not repeat one of two arrays and something else */
  FL_WIDE = 4,             /* a broadcast to so many times the elements is one */
  FL_FRESH_ARRAYS = 8,     /* so many a cell may always bring to a group of rows or columns */
  FL_ROW_LIMIT = 65536,    /* longest row on which a row program also stores whole rows */
  FL_PULL_DEPTH = 400,     /* bound of the recursion in emit.c, above any deferred depth */
  FL_CANDIDATES = 12       /* groups of one space tried for a cell, newest first */
};

typedef struct fl_map { int64_t offset, stride[FL_MAX_AXES]; } fl_map;

typedef int32_t fl_ref;    /* cell index >= 0, or ~ext slot */

typedef struct fl_cell {
  fl_node *node;          /* NULL: a planner's copy of 'source' */
  fl_ref source; int64_t view_offset;   /* such a copy: what it copies, seen through 'view' */
  fl_layout *view;        /* both layouts are references of a copy's own */
  uint8_t checks;         /* a scatter that checks its index itself */
  fl_layout *shape;
  uint8_t dtype, anchored, live, stored, faulty;   /* faulty: an INDEX is in its expression */
  uint8_t wide, reduced;  /* broadcast by a consumer; made of a reduction of its shape */
  uint8_t hoist;          /* FL_HOIST_*: deferred, but a group that would repeat it may anchor it */
  int32_t cost, leaves, consumers, out, home;
  const fl_node *reads[FL_REPEAT_READS];   /* arrays of its size or larger that it is made of */
  uint8_t base_home;      /* its old value was not copied: its home holds it already */
  int32_t group;          /* that completes it, -1 before it is placed */
  int32_t pieces;         /* cat, form: first of the groups that write its pieces, in P->piece */
  int32_t scalar;         /* first of a call's own scalars in the plan's (finish.c) */
  fl_place place;
  int64_t bytes;
  int32_t first, last;    /* steps that write and read it */
} fl_cell;

/* Do q's columns lie closer than its rows? Its copy then has the last two axes swapped. */
static inline int fl_plan_lies_turned(const fl_node *q) {
  const int r = q->shape->rank;
  const int64_t row = q->layout->stride[r - 2], column = q->layout->stride[r - 1];
  return row != 0 && (row < 0 ? -row : row) < (column < 0 ? -column : column);
}

/* what instr[i] stands for; ref INT32_MIN: nothing */
typedef struct fl_value { fl_ref ref; fl_map map; } fl_value;

/* A store or, for LOAD/GATHER/IOTA, an access. */
typedef struct fl_access {
  fl_ref ref; uint8_t dtype, store, iota; uint16_t value; fl_map map; int64_t gstride;
} fl_access;

typedef struct fl_group {
  uint8_t kind;            /* fl_kernel_kind, or FL_G_* */
  uint8_t nd, full;        /* dims; full: stores values at each point of the space */
  uint8_t faulty, closed;  /* closed: nothing joins it and its stage stands */
  uint32_t red;            /* bit d: dim d is reduced */
  int32_t fault;           /* CALL, SCATTER: index of its report in the plan, -1: none */
  int32_t stage, limit, cell, sibling;   /* sibling: next older group of the same space hash */
  int64_t size[FL_MAX_AXES];
  struct { fl_instr *at; int64_t n, cap; } instr;
  struct { fl_value *at; int64_t n, cap; } value;         /* parallel to instr */
  struct { fl_access *at; int64_t n, cap; } access;
  struct { uint32_t *at; int64_t n, cap; } scalar;        /* program scalar indices */
  struct { int32_t *at; int64_t n, cap; } deps;           /* groups read from */
  int32_t need, shared;    /* of the emission under way: highest stage read, values met again */
} fl_group;
enum { FL_HOIST_NOT, FL_HOIST_MAY, FL_HOIST_ASKED };
enum { FL_G_MATMUL = 16, FL_G_SCATTER, FL_G_COPY, FL_G_CALL };

typedef struct fl_planner {
  flame_context *c;
  fl_mem *mem;
  const fl_program *p;
  struct { fl_cell *at; int64_t n, cap; } cell;
  struct { fl_group *at; int64_t n, cap; } group;
  struct { int32_t *at; int64_t n, cap; } todo;
  struct { int32_t *at; int64_t n, cap; } piece;       /* groups, -1: not placed yet */
  struct { int32_t *at; int64_t n, cap; } fault;       /* program nodes of INDEX reports */
  const fl_plan *plan;                                 /* once finish.c has described its results */
  int32_t bin[256];                                    /* newest group by space hash */
  int32_t collected;                                   /* stage of the newest collective; 0: none */
  int failed;                                          /* out of memory */
} fl_planner;

/* A step to be: a group, or (cell >= 0) a copy of the cell's home into its memory (stage 0) or the
** other way (the last). */
typedef struct fl_turn { int32_t group, cell; int32_t stage; } fl_turn;

/* arena.c. What large scatters add to is made just before them, if it is made of nothing. */
void fl_plan_delay_fills(fl_planner *P);
/* Small copies into pieces of a whole come as late as they may: together, in one launch. */
void fl_plan_delay_copies(fl_planner *P);
/* The places of all cells in the arena, for n turns in order. 0: no memory. */
int fl_plan_place_memory(fl_planner *P, const fl_turn *turns, int64_t n, fl_plan *plan);

static inline int fl_plan_is_kernel(const fl_group *G) { return G->kind <= FL_K_COL; }

/* homes.c. Which groups write a cell that has a home, and which read a home's old value: lists
** through 'entry', so that each home looks at its own groups only. */
typedef struct fl_home_link { int32_t group, next; } fl_home_link;
typedef struct fl_homes {
  int32_t *writer, *reader;                    /* first link of each cell, of each home; -1: none */
  struct { fl_home_link *at; int64_t n, cap; } entry;
  int32_t last_check;                          /* stage of the last group that may report */
} fl_homes;
int fl_homes_open(fl_planner *P, fl_homes *h);      /* 0: no memory; to be closed all the same */
void fl_homes_close(fl_planner *P, fl_homes *h);
/* May cell t be stored straight into its home? Else it goes through the arena and a copy at the
** end. Moves the writer to a later stage where that is all it takes. */
int fl_homes_in_place(fl_planner *P, const fl_homes *h, int32_t t);

/* kernelize.c: the group as a kernel; operand places and store targets resolved from cells.
** Returns 0 when memory is out. *empty: there is nothing to run. */
int fl_plan_kernelize(fl_planner *P, int32_t g, fl_kernel *k, int *empty);
/* Its sizes, bytes and rounds, once all else is there. */
void fl_kernel_measure(const fl_planner *P, fl_kernel *k);
/* The values that an instruction reads: how many; does its 'arg' name an operand? */
int fl_instr_inputs(const fl_instr *x, uint16_t v[3]);
int fl_instr_accesses(const fl_instr *x);
/* split.c: a kernel whose reductions have nothing in common as several, at most as many as it
** has stores: how many; 0: it stays as it is; -1: no memory. */
int fl_plan_split(fl_planner *P, const fl_kernel *k, fl_kernel *out);
int fl_plan_matmul_step(fl_planner *P, int32_t g, fl_matmul *m);
int fl_plan_scatter_step(fl_planner *P, int32_t g, fl_scatter *s);
/* The bytes it moves. */
int64_t fl_plan_call_step(fl_planner *P, int32_t g, fl_call_step *s);
fl_place fl_plan_place_of(const fl_planner *P, fl_ref ref);
void fl_kernel_free(fl_mem *m, fl_kernel *k);

/* Results of emission besides an instruction id. */
enum { FL_EMIT_MEMORY = -1, FL_EMIT_REJECT = -2,
       FL_EMIT_ANCHOR = -1000 };    /* - cell: anchor it first */

int fl_plan_classify(fl_planner *P);
int fl_plan_place(fl_planner *P);
fl_plan *fl_plan_finish(fl_planner *P);

fl_group *fl_plan_group(fl_planner *P, int32_t g);
/* The instruction that stands for (ref, map) in the group, -1: none. */
int fl_plan_find(const fl_group *G, fl_ref ref, const fl_map *m);
int fl_plan_pull(fl_planner *P, int32_t g, fl_ref ref, const fl_map *m, int depth);
int fl_plan_emit_cell(fl_planner *P, int32_t g, int32_t cell, const fl_map *m, int depth);
/* Input i of cell t: what it refers to and its strides over t's own axes. 0: a scalar. */
int fl_plan_input(fl_planner *P, int32_t t, int i, fl_ref *ref, int64_t stride[FL_MAX_AXES],
                  int64_t *offset);
/* The linear map of a row-major array of 'shape' over a group's dims: full, or kept when its
** sizes are those of the kept dims only. 0: neither. *level 1: full. */
int fl_plan_natural(const fl_group *G, const fl_layout *shape, fl_map *m, int *level);
/* form.c: a component of form t, seen through m. */
int fl_plan_emit_form(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth);
/* Scalar 0 of t, as its value through m. */
int fl_plan_fill(fl_planner *P, int32_t g, int32_t t, int dtype, const fl_map *m);
/* pieces.c. The component of form t that m stays in, over group g's dims; -1: none. */
int fl_plan_component(const fl_planner *P, int32_t t, int32_t g, const fl_map *m);
/* Does map m over dims of 'size' stay within one piece of cat 'ref'? Then that piece
** (*to) and the map onto it. 0: no, or 'ref' is no cat. */
int fl_plan_piece(const fl_planner *P, fl_ref ref, int nd, const int64_t *size, const fl_map *m,
                  fl_ref *to, fl_map *out);
/* Does node q lie in one piece of a cat, or in what is none? */
int fl_plan_in_piece(const fl_planner *P, const fl_node *q);
/* The cell that q is read from, through cats that need no memory; -1: none. */
int32_t fl_plan_source(const fl_planner *P, const fl_node *q);
/* The groups that complete a placed cell. */
int fl_plan_writers(const fl_planner *P, fl_ref t);
int32_t fl_plan_writer(const fl_planner *P, fl_ref t, int i);
/* Group g reads cell t, which is placed: its stage counts, and its groups are deps. */
int fl_plan_depend(fl_planner *P, int32_t g, fl_ref t);
/* lanes.c. Is the group of a collective? */
int fl_plan_is_collective(const fl_planner *P, int32_t g);
/* The stage after which what group 'on' computes is there. */
int32_t fl_plan_ready(const fl_planner *P, int32_t on);
/* Collectives wait for attention, and what reads the last ones comes last of its stage; commits are
** known. 0: no memory. */
int fl_plan_order_lanes(fl_plan *plan);
/* Steps get their joins, and the plan whether it checks. */
void fl_plan_note_lanes(fl_plan *plan);
/* Steps that look for NaN, behind those that make floats; before the two above. (scan.c) */
int fl_plan_scan(fl_plan *plan);
/* Take back the newest cell, a copy. */
void fl_plan_drop_copy(fl_planner *P);
/* May matmul n read its input i where it lies? Else the planner makes a row-major copy. */
int fl_plan_reads_as_is(const fl_program *p, const fl_node *n, int i);
/* What step t reads as its input i: a scatter that checks its index, what that was made from. */
const fl_node *fl_plan_read(const fl_planner *P, int32_t t, int i);
/* Strides over the input's own axes of a reduction's or step's input i, and its target. */
fl_ref fl_plan_target(const fl_program *p, const fl_node *q, int64_t *offset);
/* Groups that compute what t's expression reads, newest few; for values of another level. */
int fl_plan_dep_groups(fl_planner *P, int32_t t, int32_t *out, int most);
/* Load of (ref, map) that may be refused when an in-group value is meant (see emit.c). */
int fl_plan_access(fl_planner *P, int32_t g, fl_access a);
/* A value that reads no memory: what a reduction over no elements is written over. */
int fl_plan_absent(fl_planner *P, int32_t g, int dtype);
int fl_plan_add(fl_planner *P, int32_t g, fl_instr x, fl_ref ref, const fl_map *m);
fl_ref fl_plan_ref(const fl_program *p, const fl_node *n);
/* Looked at for each of many: has an interrupt come? Then planning ends, and
** fl_plan_make says why. */
static inline int fl_plan_stops(const fl_planner *P, int64_t i) {
  return (i & 255) == 255 && fl_must_end(P->c);
}
/* Is it written by pieces? */
static inline int fl_is_pieced(const fl_cell *t) {
  return t->node && (t->node->op == FL_OP_cat || t->node->op == FL_OP_form);
}
static inline int fl_is_view(const fl_cell *t) { return t->node && t->node->base; }
#endif
