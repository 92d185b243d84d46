/* What the files of AD on loops share: ad_loop.c (sets, values before the loop, the choice),
** ad_pass.c (one pass), ad_slots.c (counting, snapshots, going back),
** ad_undo.c (stores taken back). */
#ifndef FL_KERNEL_AD_LOOP_H
#define FL_KERNEL_AD_LOOP_H
#include "kernel/ad/ad_state.h"

enum { FL_KLOOP_COUNTERS = 8, FL_KLOOP_SHARED = 40 << 10, FL_KLOOP_DYNAMIC = 6,
       FL_KLOOP_UNDO = 16 };

/* The marks in the loop, so that they can be put back. */
typedef struct fl_kmarks { uint8_t *at; int n, back; } fl_kmarks;

typedef struct fl_kloop {
  fl_kad_state *d;
  fl_kstmt *s;
  fl_kmarks outer;
  int returns_step;              /* the step has a separate adjoint */
  fl_kset before;                /* variables assigned by the loop in the forward code */
  fl_kset writes;                /* ... when it is run again in the reverse code */
  fl_kset all;                   /* all variables assigned in the loop */
  fl_kset reads;                 /* values read before the iteration assigns them */
  fl_kset state;                 /* of those: assigned in the loop, counters aside */
  struct { int32_t var, start; const fl_kexpr *by; int op; } counter[FL_KLOOP_COUNTERS];
  int n_counters;
  uint8_t *final;                /* by variable: an array that needs no snapshot, but its values
                                 ** after the loop; 2: its stores are taken back */
  /* original -1: zeros */
  struct fl_kloop_undo { int32_t var, original, region, copied; fl_kexpr *at, *guard;
                         } undo[FL_KLOOP_UNDO];
  int n_undo;
  int32_t *pre;                  /* by variable: its value before the loop, -1 */
  int32_t *snap;                 /* by variable: array of snapshots, -1 */
  int32_t *pre_region, *snap_region;   /* of dynamic shared memory: (first) region with them */
  int32_t pos, trips, k, p, m, sp;
  int64_t slots;                 /* 0: no state */
  int barrier;                   /* fl_kbarrier + 1 inside the loop that matters; 0: none */
} fl_kloop;


/* What the statements of a loop do with one variable: 'sums': v = v + e, a[i] += e; 'sets': any
** other assignment; 'reads': the value is read elsewhere. */
typedef struct fl_kusage { int var, reads, sums, sets, declared; fl_kad_state *d; } fl_kusage;
int fl_kloop_see_usage(void *arg, fl_kstmt *s);               /* a visitor */

/* Adds to 'reads' what the block reads and has not assigned; 'done': assigned so far for sure.
** 'flows': count reads of active values too (they matter for adjoints, not replays). */
void fl_kloop_exposed(fl_kad_state *d, const fl_kblock *b, fl_kset reads, fl_kset done, int flows);
void fl_kloop_move_marks(fl_kmarks *m, const fl_kloop *l, int back);
/* What the reverse code runs again: marks for that, and the sets that follow from them. */
int fl_kloop_look_back(fl_kloop *l, int condition);
/* Keep, put back the values before the loop of all in 'set' that it assigns. */
void fl_kloop_save_before(fl_kloop *l, fl_kset set, fl_kblock *b);
void fl_kloop_put_back(fl_kloop *l, fl_kset set, fl_kblock *b);
/* After the loop: 'keep' loses what was put back and gains what the reverse code reads. */
void fl_kloop_update_keep(fl_kloop *l, fl_kset keep, int replayed);
/* A copy of the loop that computes only those of its values that are needed later. */
fl_kstmt *fl_kloop_replay_loop(fl_kloop *l, fl_kblock *b);
void fl_kloop_copy_array(fl_kad_state *d, fl_kblock *b, int to, fl_kexpr *to_at, int from,
                         fl_kexpr *from_at, int64_t n);
/* Can the block keep a copy of shared array x? A barrier in the loop says that all its threads
** come by. */
int fl_kloop_can_copy_shared(const fl_kloop *l, const fl_kvar *x);
int fl_kloop_shared_array(fl_kad_state *d, int type, const char *name, int64_t count);
/* Where region k (NULL: none) of an array in shared memory begins, in elements. */
fl_kexpr *fl_kloop_region(fl_kad_state *d, int var, fl_kexpr *k);
/* ad_undo.c: can the stores to v be taken back round by round? Then they are in 'undo'. */
int fl_kloop_can_undo(fl_kloop *l, int v);
/* what the round is about to overwrite and no argument has */
void fl_kloop_keep_round(fl_kloop *l, fl_kblock *b);
void fl_kloop_undo_round(fl_kloop *l, fl_kblock *b);          /* of the counters as they are */
/* ad_pass.c */
int fl_kloop_holds(const fl_kblock *b, const fl_kstmt *goal);  /* is it somewhere in b? */
int fl_kloop_is_one_pass(fl_kloop *l);
void fl_kloop_one_pass(fl_kloop *l, fl_kset keep, fl_kblock *f, fl_kblock *r);
/* ad_slots.c */
void fl_kloop_stored_loop(fl_kloop *l, fl_kset keep, fl_kblock *f, fl_kblock *r);
#endif
