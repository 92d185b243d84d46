/*
** What a kernel does with its arrays in global and shared memory, and what an index expression says
** about which other threads may have the same index. The launcher tells outputs from inouts by it;
** AD chooses what to save, and between += and atomics. All answers err on the safe side.
*/
#ifndef FL_KERNEL_ACCESS_H
#define FL_KERNEL_ACCESS_H
#include "kernel/tree/tree.h"

/* The accesses of one variable in global or shared memory. */
typedef struct fl_kaccess {
  uint8_t reads;             /* a LOAD, or an ATOMIC whose result is used */
  uint8_t writes;            /* plain STORE */
  uint8_t accumulates;       /* a STORE with accumulate, or an ATOMIC ADD or SUB without result */
  uint8_t other_atomics;     /* other atomics, as MAX or CAS; one whose result is used, or that sees
                             ** the element as another type */
  uint8_t reads_first;       /* in the order of the text, the first access reads (a LOAD or +=, no
                             ** atomic): it may find what the array held before the launch */
  uint8_t reads_unwritten;   /* a LOAD or += may read an element that its thread has not written
                             ** before by the same index expression */
  int32_t read_line, unwritten_line;     /* line of the first LOAD or +=, and of the first that sets
                                         ** reads_unwritten; 0: none */
} fl_kaccess;

/* The class as a letter: 'r' only reads, 'w' only plain stores, 'a' only accumulates, '-' unused,
** 'b' all else. */
char fl_kaccess_class(const fl_kaccess *x);
/* Fills access[f->n_vars], by variable. Returns 0 when memory is out. */
int fl_kaccess_find(fl_mem *m, const fl_kfunc *f, fl_kaccess *access);

/* Which threads may have the same index. */
typedef enum {
  FL_KI_OTHER,               /* nothing known */
  FL_KI_UNIFORM_GRID,        /* the same in all threads of the launch */
  FL_KI_UNIFORM_BLOCK,       /* the same in all threads of a block */
  FL_KI_THREAD_IN_BLOCK,     /* different in all threads of a block (in one with threads along x
                             ** only: threadIdx.x + uniform) */
  FL_KI_INJECTIVE,           /* different in all threads of the launch, and in all evaluations by
                             ** one thread (as in a grid-stride loop) */
  FL_KI_OWN                  /* different in all threads of the launch, but one thread may use one
                             ** index several times (in a loop that does not change it) */
} fl_kindex;

typedef struct fl_kindices fl_kindices;      /* facts about the indices of one function */
/* Flags of 'geometry': which sizes of the launch are certainly 1. */
enum {
  FL_KONE_BLOCK_Y = 1, FL_KONE_BLOCK_Z = 2, FL_KONE_GRID_Y = 4, FL_KONE_GRID_Z = 8,
  FL_KONE_ALL = 15                              /* a one-dimensional launch */
};
/* Borrows f. NULL: no memory. */
fl_kindices *fl_kindices_new(fl_mem *m, const fl_kfunc *f, int geometry);
/* Frees k. Returns 0 if memory ran out while k was in use (or k is NULL): then fewer facts may have
** been proven than with more memory. */
int fl_kindices_free(fl_kindices *k);
/* The class of 'index'. s: the statement that holds it. */
fl_kindex fl_kindex_class(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index);
/* Who owns the element of 'index' at statement s; 0: nothing is proven. IN_BLOCK: no two threads of
** a block have the same index there, unless a barrier of the block is between. IN_GRID: no two
** threads of the launch ever have the same one; then IN_BLOCK is set too. */
enum { FL_KI_OWNED_IN_BLOCK = 1, FL_KI_OWNED_IN_GRID = 2 };
int fl_kindex_owned(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index);
/* What a proof may use of a launch (fl_klaunched). extent: threads of a block along x, y, z (0 to
** 2), blocks of the grid along x, y, z (3 to 5), threads of the grid along x, y, z (6 to 8), number
** of blocks (9). value[i]: the value of parameter i < n_values, an integer, where known[i]. A proof
** notes what it has used as limits (fl_klimit), and holds for launches in which, for each of them,
** extent[which] (0 if 'which' is NONE) is at most 'factor' times the value of parameter 'param' (1
** if 'param' is -1). */
enum { FL_KLIMITS = 8, FL_KEXTENT_BLOCKS = 9, FL_KEXTENTS, FL_KEXTENT_NONE = FL_KEXTENTS };
typedef struct fl_klimit { int32_t which, param; int64_t factor; } fl_klimit;
typedef struct fl_klimits { int n; fl_klimit at[FL_KLIMITS]; } fl_klimits;
typedef struct fl_klaunched {
  int64_t extent[FL_KEXTENTS];
  const int64_t *value;
  const uint8_t *known;
  int32_t n_values;
} fl_klaunched;
/* FL_KI_OWNED_… for two accesses p and q, in any iterations of loops: if two threads of a block (of
** the launch) reach one element, one by p and one by q, they are the same thread. */
typedef struct fl_kaccess_at { const fl_kstmt *s; const fl_kexpr *index; } fl_kaccess_at;
int fl_kindex_owned_by_one(const fl_kindices *k, const fl_kaccess_at *p, const fl_kaccess_at *q);
/* The strips of its thread that an index stays in: the index is core + v * unit, where the core
** is a number in mixed radix (route.h: chain) whose digits determine the thread, and v is one
** digit more: it has room between two digits of the core, or is the highest. 'number' stands for
** the core and the unit (0: there are no more strips), and least <= v <= most (INT64_MIN,
** INT64_MAX: not known). So an element that two accesses with one number reach is accessed by one
** thread of the block (of the launch) only, with one v.
**   y[64 * i] = 0; for (j = 1; j < 64; j++) y[64 * i + j] = y[64 * i + j - 1] + x[i];
** are of one row, 64 * i and the unit 1: v is 0, at least 1, and at least 0.
**   if (i < n) { y[i] = x[n + i]; y[n + i] = x[i]; }
** are of one column, i and the unit n: 0 and 1. x[i / s * 3 * s + i % s + k * s] with k < 3 is of
** the strip with the unit s between the digits i % s and i / s.
** needed: which FL_KI_OWNED_… must hold of the core; out: FL_KSTRIPS strips, zeroed by the
** caller. */
enum { FL_KSTRIPS = 4 };
typedef struct fl_kstrip { int32_t number; int64_t least, most; } fl_kstrip;
void fl_kindex_strips(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index, int needed,
                      fl_kstrip *out);
/* An index written as core + rest, where core is a multiple of mod (mod 0: the core is 0; mod 1 and
** number 'core' 0: nothing is known). Indices with the same number 'core' (not 0) have equal cores
** while no variable changes; with the same number 'alike' (not 0) their cores are one function of
** the thread and of the loops' counters:
**   for (j = 0; j < 4; j++) y[8 * i + 2 * j + 1]     mod 2, rest 1; core: of 8 * i + 2 * j
**   for (k = 0; k < 4; k++) y[8 * i + 2 * k]         mod 2, rest 0; another core, same alike
** A part that is not a polynomial counts as an unknown factor or summand of the core: 4 * idx[i] +
** 1 has mod 4 and rest 1. Such a core has no 'alike'. */
typedef struct fl_kshape { int64_t mod, rest; int32_t core, alike; } fl_kshape;
fl_kshape fl_kindex_shape(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index);
/* The loops around s (a bit for each label below 64) such that a thread never has the same index in
** two iterations of one run of the loop. */
uint64_t fl_kindex_rounds(const fl_kindices *k, const fl_kstmt *s, const fl_kexpr *index);
/* In the loop with label 'loop', the innermost around both accesses: does a thread never read with
** 'read' an element that it writes with 'write' later in the same iteration or in a later one? */
int fl_kindex_is_behind(const fl_kindices *k, const fl_kaccess_at *read, const fl_kaccess_at *write,
                        int32_t loop);
/* In the loop with label 'loop': does 'read' reach in each iteration the element that 'write'
** reached in the iteration before? */
int fl_kindex_is_next(const fl_kindices *k, const fl_kaccess_at *read, const fl_kaccess_at *write,
                      int32_t loop);
/* In that loop, if no other is around it: does 'read' reach in the first iteration the element of
** 'write', a store before the loop? */
int fl_kindex_is_first(const fl_kindices *k, const fl_kaccess_at *read, const fl_kaccess_at *write,
                       int32_t loop);
/* In the loop with label 'loop', the innermost around both accesses: does no iteration access with
** p an element that the same thread accesses in another iteration with q? This takes for granted
** that by p alone no two iterations reach one element (fl_kindex_rounds). */
int fl_kindex_in_one_round(const fl_kindices *k, const fl_kaccess_at *p, const fl_kaccess_at *q,
                           int32_t loop);
/* Sets which facts about the launch all answers of k may use from now on (NULL: none), and where
** their use is noted. Without this call the answers hold for any launch of the 'geometry'. */
void fl_kindices_launch(fl_kindices *k, const fl_klaunched *l, fl_klimits *used);
/* Is the expression the same in all threads of the launch? Of a block? */
int fl_kuniform_in_grid(const fl_kindices *k, const fl_kexpr *x);
int fl_kuniform_in_block(const fl_kindices *k, const fl_kexpr *x);
#endif
