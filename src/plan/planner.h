/*
** Inside the planner (plan/ only). The parts, in the order a window passes through them:
**
**   classify.c  each program node becomes a cell: view, deferred or anchored
**   place.c     each anchored cell is put into a group, in program order
**   across.c    sums over the rows of a group of rows, which reads what they need
**   raise.c     moves a group to a later stage, with its readers
**   pieces.c    arrays joined along an axis, read and written piece by piece
**   emit.c      appends the expression of a cell to a group's instructions (form.c, joint.c)
**   homes.c     writes in place, and what they wait for
**   finish.c    order, kernels (kernelize.c, split.c) -> fl_plan
**   pitch.c     matrices whose rows are padded
**   arena.c     addresses of values that no handle holds
**   lanes.c     collectives beside other steps; scan.c: steps that look for NaN
**
** A deferred cell is elementwise work that is written into the groups that need it (recomputed
** where several do). An anchored cell is computed in exactly one group: kept values, reductions,
** inputs of library steps, sources of gathers, and expressions that are too long or too expensive
** to recompute. The result of a separate step always gets memory; another anchored cell does if it
** is kept, if another group reads it, or if it is a check of indices that no reader needs whole
** (classify.c). A cell computed from a reduction and then broadcast (the inverse deviation of a
** row) becomes anchored when a group other than the reduction's reads it at each point, if it can
** join the reduction's group.
**
** Order. A group has a stage; every value it reads from another group is of a lower stage, so
** stages are a valid order and two groups of one stage are independent. A group may be moved to a
** later stage as long as it stays below 'limit', the lowest stage that reads from it.
**
** Maps. An access is an affine map from a group's dims to the linear (row-major) element index of a
** cell, or to the memory index of an external. Equal cell and map: the same value.
*/
#ifndef FL_PLAN_PLANNER_H
#define FL_PLAN_PLANNER_H
#include "plan/plan.h"

enum {
  FL_COST_LIMIT = 160,     /* longest expression that readers recompute: scalars and simple ops
                           ** count as 1, others as classify.c says */
  FL_FORM_LIMIT = 600,     /* longest expression of a component of a form (form.c) */
  FL_LEAF_LIMIT = 48,      /* most values that an expression which readers recompute reads */
  FL_JOIN_LIMIT = 800,     /* most instructions of a group that several cells join */
  /* a cell adds at most FL_ROW_JOIN_MOST instructions to a group of rows or columns that then has
  ** more than this many */
  FL_ROW_JOIN_LIMIT = 400,
  FL_ROW_JOIN_MOST = 64, /* see FL_ROW_JOIN_LIMIT */
  FL_REPEAT_LIMIT = 24,    /* longest expression that several consumers may each repeat */
  FL_REPEAT_READS = 3,     /* an expression with several consumers is stored if it reads at least
                           ** this many arrays that have as many elements as it or more, and the
                           ** bytes of one element, summed over this many of them, are at least
                           ** twice those of one element of the expression */
  FL_REPEAT_MANY = 8,      /* an expression with this many consumers is stored if it reads two such
                           ** arrays and a third value */
  FL_WIDE = 4,             /* a broadcast by a smaller factor does not count as a broadcast */
  FL_FRESH_ARRAYS = 8,     /* number of new arrays that a cell may always add to a group of rows or
                           ** columns */
  /* limits of a group that sums columns beside the values of each point that it stores: */
  FL_COLUMNS_LEAST = 64,   /* it has at least this many columns */
  FL_COLUMN_LEAST = 64,    /* the columns that such a group sums have at least this many elements */
  FL_COLUMN_READS = 4,     /* it reads at most this many arrays that differ from column to column */
  FL_COLUMN_JOIN = 32,     /* it has at most this many instructions */
  /* limits of a group of rows that also sums over its rows (across.c): */
  FL_ACROSS_LEAST = 64, FL_ACROSS_MOST = 8192,  /* its rows have more than LEAST elements, and at
                                                ** most MOST */
  FL_ACROSS_BLOCKS = 128,  /* least number of blocks, each of which has one partial result */
  FL_ACROSS_WORDS = 160,   /* most registers of a thread for its elements and their sums, and in
                           ** blocks of more than 256 threads: */
  FL_ACROSS_WORDS_LONG = 80,
  FL_ROW_LIMIT = 65536,    /* longest row that a group which reduces rows may store whole as well */
  FL_AWAIT_LIMIT = 65536,  /* a reduction of at most this many elements, whose result others wait
                           ** for, is not delayed to join another */
  FL_PULL_DEPTH = 400,     /* bound of the recursion in emit.c: what is deeper is anchored */
  FL_CANDIDATES = 12       /* how many groups (kernels) over the same sizes are tried for a cell,
                           ** newest first */
};

typedef struct fl_map { int64_t offset, stride[FL_MAX_AXES]; } fl_map;

typedef int32_t fl_ref;    /* cell index >= 0, or ~ext slot */

typedef struct fl_cell {
  fl_node *node;          /* NULL: the planner has added the cell: a copy of 'source' or, if that is
                          ** INT32_MIN, partial results (across.c) */
  /* for a copy: its source, read through 'view' */
  fl_ref source; int64_t view_offset;
  fl_layout *view;        /* of a cell that the planner has added, which owns a reference to 'view'
                          ** and to 'shape' */
  uint8_t checks;         /* the cell is a scatter that checks its index itself */
  fl_layout *shape;
  uint8_t dtype, anchored, live, stored, faulty;   /* faulty: its expression contains an INDEX */
  /* wide: a consumer broadcasts the cell; reduced: the number of its inputs that are reductions
  ** with results of its size, or are made from such reductions */
  uint8_t wide, reduced;
  uint16_t whole;      /* axes along which one of its readers reads each position (classify.c) */
  /* set on a GPU only (check_early): */
  uint8_t waits;       /* its expression reads a value that the run computes */
  int32_t index;       /* an INDEX in its expression; -1: none, or the expression waits */
  uint8_t awaited;     /* it, or a cell of its size that readers recompute from it, is broadcast */
  uint8_t hoist;       /* FL_HOIST_*: may or shall it be anchored (computed in one group), so as not
                       ** to be recomputed? */
  int32_t cost, leaves, consumers, out, home;
  const fl_node *reads[FL_REPEAT_READS];   /* arrays of its size or larger that it is computed
                                           ** from */
  uint8_t base_home;      /* the old value was not copied: the home (a handle's buffer) holds it */
  int32_t group;          /* the group that completes it; -1 before it is placed */
  int32_t pieces;       /* cat, form: index in P->piece of the first group that writes its pieces */
  int32_t scalar;         /* index of a call's own first scalar in the plan (finish.c) */
  fl_place place;
  int64_t bytes;
  int64_t pitch;          /* elements from one row (of the last axis) to the next, if rows are
                          ** padded (pitch.c); 0: they are not */
  int32_t first, last;    /* the first and the last step that access it */
} fl_cell;

/* Is q column-major? If so, its copy has the last two axes swapped. */
static inline int fl_plan_lies_turned(const fl_node *q) {
  const int r = q->shape->rank;
  const int64_t row = q->layout->stride[r - 2], column = q->layout->stride[r - 1];
  return row != 0 && (row < 0 ? -row : row) < (column < 0 ? -column : column);
}

/* what instr[i] computes: ref (a cell or an external) read through 'map'; ref INT32_MIN: no cell */
typedef struct fl_value { fl_ref ref; fl_map map; } fl_value;

/* How a store, or an instruction (LOAD, GATHER or IOTA), addresses the elements of ref. */
enum { FL_STORE_POINT = 1, FL_STORE_ACROSS };     /* ACROSS: sums over rows (across.c) */
typedef struct fl_access {
  fl_ref ref; uint8_t dtype, store, iota; uint16_t value; fl_map map;
  int64_t gstride, extent;               /* GATHER: stride and size of the axis that is indexed */
} fl_access;

typedef struct fl_group {
  uint8_t kind;            /* fl_kernel_kind, or FL_G_* */
  uint8_t nd, full;   /* number of dims; full: the group stores values at each point of the space */
  /* faulty: it may report a fault; closed: no cell joins it, and its stage stays once it is placed,
  ** except that of a fill (fl_plan_delay_fills) */
  uint8_t faulty, closed;
  uint32_t red;            /* bit d: dim d is reduced */
  int32_t fault;           /* CALL, SCATTER: index of its report in the plan; -1: none */
  int32_t stage, limit;    /* limit: the lowest stage of a group that reads from this one */
  int32_t cell;            /* of a step: the cell that it computes; -1: a kernel */
  int32_t sibling;         /* next older group whose space (sizes of dims) has the same hash */
  int64_t size[FL_MAX_AXES];
  struct { fl_instr *at; int64_t n, cap; } instr;
  struct { fl_value *at; int64_t n, cap; } value;         /* parallel to instr */
  struct { fl_access *at; int64_t n, cap; } access;
  struct { uint32_t *at; int64_t n, cap; } scalar;        /* program scalar indices */
  struct { int32_t *at; int64_t n, cap; } deps;           /* groups read from */
  int64_t noted;           /* number of deps that have this group in their lists of readers */
  int32_t reader;         /* first link of the groups that read from this one (raise.c); -1: none */
  /* ROW: the group that joins its sums over rows (across.c), -1: none; COL: it is such a group, of
  ** so many partial results per chunk */
  int32_t partial;
  int32_t need, shared;    /* for the current emission: highest stage read, values found again */
} fl_group;
typedef struct fl_group_link { int32_t group, next; } fl_group_link;
enum { FL_HOIST_NOT, FL_HOIST_MAY, FL_HOIST_ASKED };
enum { FL_G_MATMUL = 16, FL_G_SCATTER, FL_G_COPY, FL_G_CALL };

typedef struct fl_planner {
  flame_context *c;
  fl_mem *mem;
  const fl_program *p;
  struct { fl_cell *at; int64_t n, cap; } cell;
  struct { fl_group *at; int64_t n, cap; } group;
  struct { int32_t *at; int64_t n, cap; } todo;
  struct { int32_t *at; int64_t n, cap; } piece;       /* groups; -1: not placed yet */
  struct { int32_t *at; int64_t n, cap; } fault;       /* program nodes that may report a fault */
  struct { fl_group_link *at; int64_t n, cap; } reader;
  /* the plan, once finish.c has described its results */
  const fl_plan *plan;
  int32_t bin[256];                                    /* newest group, by space hash */
  int32_t collected;                                   /* stage of the newest collective; 0: none */
  /* place.c: the cell that must be placed first */
  int32_t asked;
  int failed;                                          /* out of memory */
} fl_planner;

/* A step that will be made: a group, or (cell >= 0) a copy of the cell's home (a handle's
** buffer) into the cell's memory (stage 0) or back (the last stage). */
typedef struct fl_turn {
  int32_t group, cell, stage;
  uint8_t checks;             /* a kernel that checks goes, on a GPU, before others of its stage */
} fl_turn;

/* arena.c. Moves a fill that a large scatter writes into, if it depends on nothing, to the place
** right before the scatter. */
void fl_plan_delay_fills(fl_planner *P);
/* Delays small copies into pieces of a whole as far as possible, so that they are together in one
** launch. */
void fl_plan_delay_copies(fl_planner *P);
/* pitch.c. On a GPU: pads rows of matrices in the arena that products read or write. Called when
** all else is decided but addresses. fl_plan_pad_matmul: sets in *m, the step of group G, what
** follows from the padding of its matrices. */
void fl_plan_pad_rows(fl_planner *P);
void fl_plan_pad_matmul(const fl_planner *P, const fl_group *G, fl_matmul *m);
/* Gives all cells in the arena their places, for n turns (steps) in order. 0: no memory. */
int fl_plan_place_memory(fl_planner *P, const fl_turn *turns, int64_t n, fl_plan *plan);

static inline int fl_plan_is_kernel(const fl_group *G) { return G->kind <= FL_K_COL; }

/* homes.c. Which groups write a cell that has a home (a handle's buffer that is written), and which
** read a home's old value: lists through 'entry', so that each home looks only at its own
** groups. */
typedef struct fl_homes {
  int32_t *writer, *reader;                    /* first link by cell, by home; -1: none */
  struct { fl_group_link *at; int64_t n, cap; } entry;
  int32_t last_check;                          /* stage of the last group that may report a fault */
} fl_homes;
int fl_homes_open(fl_planner *P, fl_homes *h);     /* 0: no memory; h must be closed in any case */
void fl_homes_close(fl_planner *P, fl_homes *h);
/* May cell t be stored directly into its home (a handle's buffer)? Otherwise it goes through the
** arena with a copy at the end. Moves the writer to a later stage if that suffices. */
int fl_homes_in_place(fl_planner *P, const fl_homes *h, int32_t t);

/* kernelize.c: makes the kernel of a group. It reads and stores where the values (P->cell) that it
** reads and makes are placed. Returns 0 when memory is out. *empty: there is nothing to run. */
int fl_plan_kernelize(fl_planner *P, int32_t g, fl_kernel *k, int *empty);
/* Sets a kernel's numbers of points, bytes and rounds, and the alignment of its operands, after all
** else is set. */
void fl_kernel_measure(const fl_planner *P, fl_kernel *k);
/* fl_instr_inputs gives the values that an instruction reads, and returns their number;
** fl_instr_accesses tells whether its 'arg' names an operand. */
int fl_instr_inputs(const fl_instr *x, uint16_t v[3]);
int fl_instr_accesses(const fl_instr *x);
/* Does the map change along the reduced dims? */
int fl_plan_moves_in_row(const fl_group *G, const fl_map *m);
/* level[i]: the level of instruction i of a group (plan/kernel.h). */
void fl_plan_levels(const fl_group *G, uint8_t *level);
/* split.c: splits a kernel whose stored values have nothing in common into several, at most one per
** store. Returns how many; 0: it stays as it is; -1: no memory. */
int fl_plan_split(fl_planner *P, const fl_kernel *k, fl_kernel *out);
/* May a kernel be split? whole: it reduces everything; n: its operands. */
int fl_plan_may_split(const fl_planner *P, int kind, int whole, int64_t n);
void fl_plan_matmul_step(fl_planner *P, int32_t g, fl_matmul *m);
int fl_plan_scatter_step(fl_planner *P, int32_t g, fl_scatter *s);
/* Describes the call of group g in *s. Returns the bytes that the call reads and writes. */
int64_t fl_plan_call_step(fl_planner *P, int32_t g, fl_call_step *s);
fl_place fl_plan_place_of(const fl_planner *P, fl_ref ref);
void fl_kernel_free(fl_mem *m, fl_kernel *k);

/* What functions that emit return in place of an instruction's number. */
enum { FL_EMIT_MEMORY = -1, FL_EMIT_REJECT = -2,
       FL_EMIT_ANCHOR = -1000 };    /* minus the number of the cell that must be placed first */

int fl_plan_classify(fl_planner *P);
int fl_plan_place(fl_planner *P);
fl_plan *fl_plan_finish(fl_planner *P);

fl_group *fl_plan_group(fl_planner *P, int32_t g);
/* The instruction of the group that computes ref (a cell or an external) read through the map; -1:
** none. */
int fl_plan_find(const fl_group *G, fl_ref ref, const fl_map *m);
/* Gives the instruction of group g whose value is ref read through the map: one that is there, a
** load, or, for a deferred cell, its expression (fl_plan_emit_cell), which is appended. */
int fl_plan_pull(fl_planner *P, int32_t g, fl_ref ref, const fl_map *m, int depth);
int fl_plan_emit_cell(fl_planner *P, int32_t g, int32_t cell, const fl_map *m, int depth);
/* Input i of cell t: *ref is the cell or external (stored input of the plan) that it lies in, with
** its strides over t's own axes. 0: it is a scalar. */
int fl_plan_input(fl_planner *P, int32_t t, int i, fl_ref *ref, int64_t stride[FL_MAX_AXES],
                  int64_t *offset);
/* The linear map of a row-major array of 'shape' over a group's dims: over all of them, or over the
** kept dims alone if 'shape' has only their sizes. 0: neither fits. *level 1: all dims. */
int fl_plan_natural(const fl_group *G, const fl_layout *shape, fl_map *m, int *level);
/* emit.c: emits input i of cell t, a tensor, for t read through m; emits scalar i of t. */
int fl_plan_read_input(fl_planner *P, int32_t g, int32_t t, int i, const fl_map *m, int depth);
int fl_plan_scalar(fl_planner *P, int32_t g, int32_t t, int i, int dtype);
/* joint.c: emits a node that is several operations at each point. fl_plan_joint_cost: how many
** operations and scalars such an op takes; 0: 'op' is not such an op. */
int fl_plan_emit_joint(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth);
int fl_plan_joint_cost(int op);
/* form.c: emits a component of form t, read through m. */
int fl_plan_emit_form(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth);
/* Emits scalar 0 of t as the value of t: for a fill, all elements of which are that number, and for
** a component of a form that has no terms, which is 0. */
int fl_plan_fill(fl_planner *P, int32_t g, int32_t t, int dtype, const fl_map *m);
/* pieces.c. The component of form t (form.c) in which all elements lie that map m reads over group
** g's dims; -1: it reads several, or not always the same one. */
int fl_plan_component(const fl_planner *P, int32_t t, int32_t g, const fl_map *m);
/* Does map m over dims of 'size' stay within one piece of cat 'ref'? Then *to is that piece and the
** map into it. 0: no, or 'ref' is not a cat. */
int fl_plan_piece(const fl_planner *P, fl_ref ref, int nd, const int64_t *size, const fl_map *m,
                  fl_ref *to, fl_map *out);
/* Does all that node q reads lie in one piece of a cat, or in one component of a form? 1 also if q
** reads neither a cat nor a form. 0: it reads several of them, or that is not known. */
int fl_plan_in_piece(const fl_planner *P, const fl_node *q);
/* The cell that q is read from, through cats that need no memory; -1: none. */
int32_t fl_plan_source(const fl_planner *P, const fl_node *q);
/* The groups that complete a placed cell, one for each of its pieces: their number, and number i;
** -1: that piece is not placed yet. */
int fl_plan_writers(const fl_planner *P, fl_ref t);
int32_t fl_plan_writer(const fl_planner *P, fl_ref t, int i);
/* Group g reads cell t, which is placed: raises the stage that g needs (need), and adds t's groups
** to its dependences. 0, or FL_EMIT_MEMORY. */
int fl_plan_depend(fl_planner *P, int32_t g, fl_ref t);
/* lanes.c: is g the group of a collective? */
int fl_plan_is_collective(const fl_planner *P, int32_t g);
/* The stage after which the result of group 'on' is available. */
int32_t fl_plan_ready(const fl_planner *P, int32_t on);
/* Delays collectives until a call of attention that comes soon, and orders the steps of a stage by
** the collectives that they wait for. 0: no memory. */
int fl_plan_order_lanes(fl_plan *plan);
/* Sets which collectives each step waits for (joins), and whether the plan checks indices. */
void fl_plan_note_lanes(fl_plan *plan);
/* scan.c. Adds steps that look for NaN after those that write floats; called between
** fl_plan_order_lanes and fl_plan_note_lanes. 0: no memory. */
int fl_plan_scan(fl_plan *plan);
/* Removes the newest cell, which the planner has added. */
void fl_plan_drop_copy(fl_planner *P);
/* May matmul n read its input i where it is? Otherwise the planner makes a copy of it. */
int fl_plan_reads_as_is(const fl_program *p, const fl_node *n, int i);
/* The node that step t reads as its input i: for a scatter that checks its index, the node from
** which the index was made. */
const fl_node *fl_plan_read(const fl_planner *P, int32_t t, int i);
/* The cell or external in which the elements of node q lie: for a view that of its base, from
** 'offset' on. */
fl_ref fl_plan_target(const fl_program *p, const fl_node *q, int64_t *offset);
/* The groups that compute the values which t's expression reads: at most 'most', in 'out'; returns
** how many. */
int fl_plan_dep_groups(fl_planner *P, int32_t t, int32_t *out, int most);
/* The access of group g that loads what a loads, which is added if there is none. Returns its index
** in the access list; FL_EMIT_REJECT: the group has no room for another one, or FL_EMIT_MEMORY. */
int fl_plan_access(fl_planner *P, int32_t g, fl_access a);
/* A value that reads no memory, as the operand of a reduction over no elements. */
int fl_plan_absent(fl_planner *P, int32_t g, int dtype);
int fl_plan_add(fl_planner *P, int32_t g, fl_instr x, fl_ref ref, const fl_map *m);
fl_ref fl_plan_ref(const fl_program *p, const fl_node *n);
/* Called in long loops, with the number of the iteration: has an interrupt come? Then planning
** ends, and fl_plan_make reports the reason. */
static inline int fl_plan_stops(const fl_planner *P, int64_t i) {
  return (i & 255) == 255 && fl_must_end(P->c);
}
/* Is the cell a cat or a form, whose memory is written piece by piece? */
static inline int fl_is_pieced(const fl_cell *t) {
  return t->node && (t->node->op == FL_OP_cat || t->node->op == FL_OP_form);
}
static inline int fl_is_view(const fl_cell *t) { return t->node && t->node->base; }
#endif
