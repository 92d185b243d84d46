/*
** What a kernel does with its pointers, and what an index expression says about which other threads
** may have the same index. Used by the launcher (output or inout), and by AD (save nothing, pass
** through, plain += or atomic). All answers err on the safe side.
*/
#ifndef FL_KERNEL_ACCESS_H
#define FL_KERNEL_ACCESS_H
#include "kernel/tree/tree.h"

/* The accesses of one variable in global or shared memory. */
typedef struct fl_kaccess {
  uint8_t reads;             /* a LOAD, or an ATOMIC whose result is used */
  uint8_t writes;            /* plain STORE */
  uint8_t accumulates;       /* a STORE with accumulate, or an ATOMIC ADD or SUB without result */
  uint8_t other_atomics;     /* MAX, MIN, EXCH, CAS, … or a used result */
  uint8_t reads_first;       /* in the order of the text, the first access reads (+= does, atomics
                             ** do not count): the kernel reads the contents before the launch */
  uint8_t reads_unwritten;   /* it may read an element that the same thread may not have written
                             ** before with the same index expression */
  int32_t read_line, write_line, unwritten_line;   /* first such line, 0: none */
} fl_kaccess;

/* A letter for the class: R 'r' (only read), W 'w' (only plain stores), A 'a' (only accumulation),
** RW 'b' (anything else), '-' (unused). */
char fl_kaccess_class(const fl_kaccess *x);
/* access[f->n_vars] is filled. Returns 0 when memory is out. */
int fl_kaccess_find(fl_mem *m, const fl_kfunc *f, fl_kaccess *access);

/* Which threads may have the same index. */
typedef enum {
  FL_KI_OTHER,               /* nothing known */
  FL_KI_UNIFORM_GRID,        /* the same in all threads of the launch */
  FL_KI_UNIFORM_BLOCK,       /* the same in all threads of a block */
  FL_KI_THREAD_IN_BLOCK,     /* different in all threads of a 1-D block (threadIdx.x + uniform) */
  FL_KI_INJECTIVE,           /* different in all threads of the launch, and in all evaluations of
                             ** one thread (a grid-stride loop is one) */
  FL_KI_OWN                  /* different in all threads of the launch, but one thread may have it
                             ** several times (in a loop that does not change it) */
} fl_kindex;

typedef struct fl_kindices fl_kindices;      /* facts about the variables of one function */
/* geometry: which extents of the launch are certainly 1. */
enum {
  FL_KONE_BLOCK_Y = 1, FL_KONE_BLOCK_Z = 2, FL_KONE_GRID_Y = 4, FL_KONE_GRID_Z = 8,
  FL_KONE_ALL = 15                              /* a one-dimensional launch */
};
fl_kindices *fl_kindices_new(fl_mem *m, const fl_kfunc *f, int geometry);
/* Returns 0 if memory ran out at some time (or k is NULL): then fewer facts may have been proven
** than with more memory. */
int fl_kindices_free(fl_kindices *k);
/* 's': the statement that holds the expression (its place decides which loops are around it). */
fl_kindex fl_kindex_class(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index);
/* Which thread owns an element. IN_BLOCK: no two threads of one block have the index at s; IN_GRID:
** no two threads of the launch. s: a statement. */
enum { FL_KI_OWNED_IN_BLOCK = 1, FL_KI_OWNED_IN_GRID = 2 };
/* What a proof may use of a launch. extent: threads of a block along x, y, z, blocks, their
** products, and blocks in all; value: of the first n_values parameters, scalar integers, where
** 'known'. What a proof used is noted as limits: the answer holds where extent[which] (NONE: 0) is
** at most 'factor' times the value of 'param' (-1: 1). */
enum { FL_KLIMITS = 8, FL_KEXTENT_BLOCKS = 9, FL_KEXTENTS, FL_KEXTENT_NONE = FL_KEXTENTS };
typedef struct fl_klimit { int32_t which, param; int64_t factor; } fl_klimit;
typedef struct fl_klimits { int n; fl_klimit at[FL_KLIMITS]; } fl_klimits;
typedef struct fl_klaunched {
  int64_t extent[FL_KEXTENTS];
  const int64_t *value;
  const uint8_t *known;
  int32_t n_values;
} fl_klaunched;
int fl_kindex_owned(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index);
/* As fl_kindex_owner, for an element that one thread accesses at p and one at q, in any rounds of
** loops: are they the same thread? */
typedef struct fl_kaccess_at { const fl_kstmt *s; const fl_kexpr *index; } fl_kaccess_at;
int fl_kindex_owned_by_one(const fl_kindices *k, const fl_kaccess_at *p, const fl_kaccess_at *q);
/* An index as core + rest, core a multiple of mod (0: there is none; 1, 0: nothing known). Indices
** with the same number 'core' (not 0) have equal cores while no variable changes; with the same
** number 'alike' (not 0) their cores are one function of the thread and of the loops' counters:
**   for (j = 0; j < 4; j++) y[8 * i + 2 * j + 1]     mod 2, rest 1; core: of 8 * i + 2 * j
**   for (k = 0; k < 4; k++) y[8 * i + 2 * k]         mod 2, rest 0; another core, same alike
** The core of an index that is not a form is its unknown part (idx[i] of 4 * idx[i] + 1). */
typedef struct fl_kshape { int64_t mod, rest; int32_t core, alike; } fl_kshape;
fl_kshape fl_kindex_shape(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index);
/* The loops around s (a bit for each label below 64) in which each round of a thread has different
** indices. */
uint64_t fl_kindex_rounds(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index);
/* In the loop with label 'loop', directly around both accesses: does a thread never read with
** 'read' an element that it writes with 'write' later in the same round (unless 'before') or in a
** later round? */
int fl_kindex_is_behind(const fl_kindices *k, const fl_kaccess_at *read, const fl_kaccess_at *write,
                        int32_t loop);
/* In the loop with label 'loop', directly around both: does no round access with p an element that
** another round accesses with q? Where p and q are one access, or always have equal indices,
** fl_kindex_rounds must have said that the rounds differ. */
int fl_kindex_in_one_round(const fl_kindices *k, const fl_kaccess_at *p, const fl_kaccess_at *q,
                           int32_t loop);
/* Sets what all answers of k may use of the launch from now on, and where its use is noted. Without
** this they hold for any launch. */
void fl_kindices_launch(fl_kindices *k, const fl_klaunched *l, fl_klimits *used);
/* Is the expression the same in all threads of the launch? Of a block? */
int fl_kuniform_in_grid(const fl_kindices *k, const fl_kexpr *x);
int fl_kuniform_in_block(const fl_kindices *k, const fl_kexpr *x);
#endif
