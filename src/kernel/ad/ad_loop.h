/* What the files on the derivative of loops share: ad_loop.c (sets of variables, values before the
** loop, choice of a strategy), ad_pass.c (one pass), ad_slots.c (counting, snapshots, the reverse
** loop), ad_rewrite.c (arrays that need no snapshot), ad_undo.c (undoing stores). */
#ifndef FL_KERNEL_AD_LOOP_H
#define FL_KERNEL_AD_LOOP_H
#include "kernel/ad/ad_state.h"

enum { FL_KLOOP_COUNTERS = 8, FL_KLOOP_SHARED = 40 << 10, FL_KLOOP_DYNAMIC = 6, FL_KLOOP_UNDO = 16,
       FL_KLOOP_SLOTS = 64 };

/* Marks (fl_kad_note.marks) of the statements in the loop, saved to be restored later ('back'). */
typedef struct fl_kmarks { uint8_t *at; int n, back; } fl_kmarks;

/* What is kept of a variable. */
typedef struct fl_kloop_var {
  int32_t pre, snap;             /* the variable that holds its value before the loop, and the array
                                 ** of its snapshots; -1: none */
  /* In dynamic shared memory: number of the region (fl_kad_state.regions) with its value before the
  ** loop, and of the first with a snapshot */
  int32_t pre_region, snap_region;
  uint8_t final;                 /* 1: an array that needs no snapshot, only its values after the
                                 ** loop; 2: one whose stores are undone; 3: one with a list; 0:
                                 ** none of these */
  fl_kad_list *list;             /* NULL: none */
} fl_kloop_var;

typedef struct fl_kloop {
  fl_kad_state *d;
  fl_kstmt *s;
  fl_kmarks outer;
  int returns_step;              /* whether a statement of the step has an adjoint */
  fl_kset before;                /* variables assigned by the loop in the forward code */
  fl_kset writes;            /* variables assigned when the loop is run again in the reverse code */
  fl_kset all;                   /* all variables assigned in the loop */
  fl_kset reads;                 /* values read before the iteration assigns them */
  fl_kset state;                 /* variables in 'reads' and 'writes', except counters */
  /* The integer var is 'start op n * by' at the start of iteration n; start: a variable */
  struct { int32_t var, start; const fl_kexpr *by; int op; } counter[FL_KLOOP_COUNTERS];
  int n_counters;
  fl_kloop_var *of;              /* by variable */
  /* The stores that are undone: var[at], where 'guard' holds (NULL: always). original: the array
  ** with the old elements (-1: zeros); region: the region of dynamic shared memory that they are in
  ** (-1: they are not there); copied: the forward code fills it. */
  struct fl_kloop_undo { int32_t var, original, region, copied; fl_kexpr *at, *guard;
                         } undo[FL_KLOOP_UNDO];
  int n_undo;
  /* Variables of the code for a loop with snapshots (ad_slots.c), a stack that the forward code
  ** begins. trips: number of iterations so far; k: the iteration that is being reversed; stride:
  ** iterations from one snapshot of the forward code to the next; sp: number of snapshots; p, m:
  ** the iteration that the state is at, and how many to run from there; taken: of the snapshots,
  ** how many are of the forward code; regular: is there room for the state of each iteration from
  ** the last of these on? If so, the later snapshots are one iteration apart, else their iterations
  ** are in the array 'pos'. on_it: the newest snapshot is that of iteration k. */
  int32_t trips, k, stride, sp, p, m, taken, regular, pos, on_it;
  int type;                      /* type of the variables that count iterations */
  int64_t slots;                 /* number of snapshots that there is room for; 0: no state */
  int64_t first;                 /* how many of the 'slots' snapshots the forward code may take */
  int whole;                     /* the number of rounds is known, and each has a snapshot */
  int grid;                      /* a barrier of the grid is in the loop, which all blocks run */
  int barrier;         /* 1 + the fl_kbarrier of a barrier in the loop that must be kept, of the
                       ** block if there is one; 0: there is none */
} fl_kloop;

/* What the statements of a loop do with one variable. sums: v = v + e, a[i] += e, atomics; sets:
** any other assignment; reads: the value is read outside of these sums; declared: by a DECL. */
typedef struct fl_kusage { int var, reads, sums, sets, declared; fl_kad_state *d; } fl_kusage;
int fl_kloop_see_usage(void *arg, fl_kstmt *s);               /* a visitor, with a fl_kusage */

/* Adds to 'reads' the variables that the code for b, forward and reverse, reads before b assigns
** them; 'done': those that are surely assigned so far. 'flows': the operands and assignments of
** statements that only have an adjoint count as well. */
void fl_kloop_exposed(fl_kad_state *d, const fl_kblock *b, fl_kset reads, fl_kset done, int flows);
/* Saves the marks of the statements in the loop, or restores them. */
void fl_kloop_move_marks(fl_kmarks *m, const fl_kloop *l, int back);
/* Marks what the reverse code of the loop runs again, and finds the sets 'writes', 'reads' and
** 'state' of that code. With 'condition' that code tests the loop's condition too. Returns 0 when
** memory is out. */
int fl_kloop_look_back(fl_kloop *l, int condition);
/* Saves the values that variables have before the loop, or restores them: those variables of 'set'
** that the loop assigns, but arrays whose stores are undone. An array that cannot be saved is
** refused. */
void fl_kloop_save_before(fl_kloop *l, fl_kset set, fl_kblock *b);
void fl_kloop_put_back(fl_kloop *l, fl_kset set, fl_kblock *b);
/* Turns 'keep' (ad_sweep.c) before the loop into that after it: without what the loop's reverse
** code restores; with arrays whose values after the loop that code reads (fl_kloop_var.final) and,
** if 'replayed', all else that it reads from before the loop. */
void fl_kloop_update_keep(fl_kloop *l, fl_kset keep, int replayed);
/* A loop with the condition of l->s, without body and step; NULL: no memory. */
fl_kstmt *fl_kloop_head(const fl_kloop *l, fl_kblock *b);
/* A copy of the loop that computes only those of its values that are needed later. */
void fl_kloop_replay_loop(fl_kloop *l, fl_kblock *b);
/* The forward and the reverse code of one iteration (fl_kad_sweep). carried: variables that the
** next one reads. */
void fl_kloop_sweep(fl_kloop *l, fl_kset keep, fl_kset carried, fl_kblock *f, fl_kblock *r);
/* Can the block keep a copy of shared array x? It can if the loop has a barrier of the block, so
** that all threads run the loop, and x is dynamic or not too large. */
int fl_kloop_can_copy_shared(const fl_kloop *l, const fl_kvar *x);
/* A new variable with room for n values of v, which is no pointer; -1: no memory. If v is dynamic
** shared memory: v, and *region is the first of n new regions. */
int fl_kloop_room(fl_kad_state *d, int v, const char *prefix, int64_t n, int32_t *region);
/* The first element of region k of dynamic shared memory, counted in elements of 'var'. k NULL: 0,
** for a copy of var that is an array to itself. */
fl_kexpr *fl_kloop_region(fl_kad_state *d, int var, fl_kexpr *k);
/* ad_rewrite.c: does each iteration certainly store to the same elements of shared array v before
** it reads them? An iteration then reads only what it has written itself, or what the loop never
** writes. */
int fl_kloop_rewrites(const fl_kloop *l, int v);
/* Does s, a store after the loop, write an element that each iteration certainly overwrites? */
int fl_kloop_overwrites(const fl_kloop *l, const fl_kstmt *s);
/* ad_undo.c: can the stores to v be undone iteration by iteration? If so, adds them to l->undo. */
int fl_kloop_can_undo(fl_kloop *l, int v);
/* x, which appears in statement 'use' of the body, as a function of the loop's counters at the
** start of an iteration and of values that the loop does not change; NULL: x is not such a
** function. */
fl_kexpr *fl_kloop_by_counters(const fl_kloop *l, const fl_kexpr *x, const fl_kstmt *use);
/* Adds code to b that saves the elements which an iteration is about to overwrite and whose old
** values are in no argument of the launch. */
void fl_kloop_keep_round(fl_kloop *l, fl_kblock *b);
void fl_kloop_undo_round(fl_kloop *l, fl_kblock *b);    /* adds code that undoes the stores of one
                                                        ** iteration, in which the counters have
                                                        ** their present values */
/* ad_list.c: may the loop list the elements of v that it writes? If so, it will. */
int fl_kloop_can_list(fl_kloop *l, int v);
/* How many snapshots a loop may have that lists elements; 0: it lists none. */
int64_t fl_kloop_listed_slots(const fl_kloop *l);
void fl_kloop_make_lists(fl_kloop *l);                 /* after the number of snapshots is chosen */
/* Adds code to b that begins the lists; until fl_kloop_end_lists, stores in forward code fill them
** (fl_kad_list_store). */
void fl_kloop_begin_lists(fl_kloop *l, fl_kblock *b);
void fl_kloop_end_lists(fl_kloop *l);
/* Adds a barrier if the loop has one. */
void fl_kloop_barrier(fl_kloop *l, fl_kblock *b);
/* Copies the listed elements to snapshot k, or back from it. */
void fl_kloop_move_list(const fl_kad_list *t, fl_kblock *b, fl_kexpr *k, int back);
void fl_kloop_move_listed_slot(const fl_kad_list *t, fl_kblock *b, fl_kexpr *to, fl_kexpr *from);
/* Adds code that gives the listed elements their values before the loop; that empties the lists. */
void fl_kloop_put_list_back(const fl_kad_list *t, fl_kblock *b);
void fl_kloop_close_lists(fl_kloop *l, fl_kblock *b);
/* Makes and begins the list of v alone, for its values before the loop. */
void fl_kloop_open_list(fl_kloop *l, int v, fl_kblock *b);
/* ad_pass.c */
/* Is the goal the statement s itself, or inside it? */
static inline int fl_kloop_holds(const fl_kstmt *s, const fl_kstmt *goal) {
  return s == goal || fl_kblock_holds(s->body, goal) || fl_kblock_holds(s->other, goal);
}
int fl_kloop_is_one_pass(fl_kloop *l);
void fl_kloop_one_pass(fl_kloop *l, fl_kset keep, fl_kblock *f, fl_kblock *r);
/* ad_slots.c */
void fl_kloop_stored_loop(fl_kloop *l, fl_kset keep, fl_kblock *f, fl_kblock *r);
#endif
