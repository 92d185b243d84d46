/*
** What the files of AD share while one function is derived. 'f' is at once source and result: a
** clone of the kernel, for an adjoint normalised (norm.c), whose body is removed, read, and
** replaced. Its first n0 variables are those of this source, later ones are made here. Expressions
** of the source are shared freely by what is built; fl_kad_tidy copies everything once at the end.
*/
#ifndef FL_KERNEL_AD_STATE_H
#define FL_KERNEL_AD_STATE_H
#include "kernel/facts/defs.h"
#include "kernel/facts/facts.h"
#include "kernel/ad/ad.h"
#include "kernel/tree/builtins.h"
#include "kernel/tree/verify.h"
#include <string.h>

typedef uint64_t *fl_kset;       /* a set of variables of the source: a bit for each */

enum { FL_KAD_SUM_SHARED = 512 };    /* bytes of shared memory that a sum over a block needs in the
                                     ** CUDA text */
enum { FL_KAD_KEPT_MOST = 16 };      /* there is room for so many parameters of role KEPT */

/* Marks on a statement of the source: FORWARD: the replay of the forward code runs it; REVERSE: it
** has an adjoint. */
enum { FL_KN_FORWARD = 1, FL_KN_REVERSE = 2 };
typedef struct fl_kad_note {
  uint8_t marks;
  uint8_t step;                  /* it is the IF that norm.c puts around the step of a loop that
                                 ** jumps leave */
} fl_kad_note;

/* How the adjoint of a load adds to the shadow of the array. PLAIN: with +=; BLOCK: one sum over
** the threads of a block; ATOMIC; STORE: a store, since nothing else adds to the element. */
enum { FL_KAD_ADD_PLAIN, FL_KAD_ADD_BLOCK, FL_KAD_ADD_ATOMIC, FL_KAD_ADD_STORE };

/* A store to an element that other threads may write as well, by this statement or another.
** AT_ONCE: with no barrier in between; ALIKE: AT_ONCE, and by this statement or one with the same
** index. JOINED: the flags are those of several stores. */
enum { FL_KAD_MEETS = 1, FL_KAD_MEETS_AT_ONCE = 2, FL_KAD_MEETS_ALIKE = 4,
       FL_KAD_MEETS_JOINED = 8 };

/* A return before a barrier: 'when', evaluated at s, decides which threads have returned. A kernel
** with more than FL_KAD_GONE of them is refused. */
enum { FL_KAD_GONE = 32 };
typedef struct fl_kad_gone { const fl_kstmt *s; const fl_kexpr *when; int32_t line; } fl_kad_gone;

/* A cotangent that one round of the reverse code hands to the next one in the variable 'reg'
** (ad_last.c). The adjoints of the loads with these sites add to reg; the adjoint of 'store' takes
** it, and after the loop that of 'before' (NULL: none) takes the rest. now: the loop's reverse code
** is being made, and uses the carry. */
enum { FL_KAD_CARRIED = 8 };            /* at most so many loads add to one carry */
typedef struct fl_kad_carry {
  const fl_kstmt *loop, *store, *before;
  const fl_kexpr *load;          /* one of the loads, … */
  const fl_kstmt *use;           /* … and the statement of the loop's body that it is in */
  int32_t reg, site[FL_KAD_CARRIED];
  int n, now;                    /* n: number of sites */
  struct fl_kad_carry *next;
} fl_kad_carry;

/* The elements of array 'var' that a loop writes (ad_list.c). head: the variable with the first
** link of the chain; next, kept: parameters; up: another list that the forward code being made
** fills as well. */
typedef struct fl_kad_list {
  struct fl_kad_state *d;
  int32_t var, head, next, kept;
  int64_t slots;
  uint8_t in_state;              /* snapshots have it; 0: only its values before it are kept */
  uint8_t claimed;               /* it is not proven that one thread writes an element */
  uint8_t watched;               /* nor that no other thread reads it */
  struct fl_kad_list *up;
} fl_kad_list;

typedef struct fl_kad_state {
  fl_karena *a;
  fl_kfunc *f;
  const fl_kad_request *r;
  fl_kad *res;
  const fl_kfunc *source;    /* as given */
  fl_kblock body;            /* of the source, rewritten by each pass in turn; then of the result */
  int32_t n0, words;         /* words: length of a fl_kset */
  uint8_t *varied, *useful, *active;   /* by variable of the source: see activity.c */
  fl_kdefs *defs;            /* of the source, after the passes that rewrite it */
  int32_t *shadow;           /* by variable of the source: the variable that holds its derivative,
                             ** or -1 */
  uint8_t *zeroes;      /* n0 entries: 1: the adjoint of a STORE clears the element of the shadow */
  uint8_t *adds;        /* n0 entries: 1: the adjoint of a load adds to an element of the shadow */
  uint8_t *lasting;     /* n0 entries: 1: an array that is read as the launch leaves it; NULL:
                        ** tangent mode */
  uint8_t *strong_var;       /* n0 entries: 1: the variable's cotangent may be 0 where the slopes of
                             ** its value are not finite */
  /* 1 while the value of a strong_var, or an operand of min or max, is differentiated: in its
  ** adjoint 0 * Inf, 0 * NaN are 0 */
  uint8_t strong;
  int32_t n_sites0;          /* accesses in the source as given */
  fl_kfacts *facts;          /* facts about the source's accesses as written; NULL: tangent mode */
  uint8_t *site_meets;       /* by number of the access (n_sites0): FL_KAD_MEETS… of a store */
  uint8_t *site_add;         /* by number of the access (n_sites0): FL_KAD_ADD_… of an active
                             ** load */
  const uint8_t *in_thread;  /* by variable of the source: 1: an array of which each thread keeps in
                             ** registers what it has read, for its reverse code; 0: any other
                             ** variable. NULL: 0 for all */
  int32_t again;             /* 1 + a variable: derive again, with it in in_thread; 0: no need */
  int32_t n_cap;             /* capacity of res->params */
  int32_t shared_offset;     /* variable of the FL_KAD_SHARED parameter, or -1 */
  int32_t regions;           /* number of regions of dynamic shared memory, each as large as that of
                             ** the original launch. Region 0: the source's data; 1 and 2: the f32
                             ** shadows of halves; 3 (without such: 1): the other shadows, each at
                             ** the bytes of its data; then copies */
  int32_t words_view;        /* the variable by which dynamic shared memory with views of several
                             ** types is copied, or -1 */
  uint8_t halves;            /* halves in dynamic shared memory have a shadow */
  fl_kad_gone gone[FL_KAD_GONE];
  int32_t n_gone;
  uint8_t leave;             /* some threads may have returned: shared work is done by the others */
  uint8_t returns;      /* the source has barriers or warp operations, and a return: the derivative
                        ** makes no sums over the block */
  uint8_t top;               /* all threads reach the statement that is being derived */
  uint8_t keep_forward, keep_reverse;   /* the replay (the reverse code) needs barriers */
  fl_kset taken_back;        /* arrays that the enclosing loop restores iteration by iteration
                             ** (ad_undo.c); NULL: none */
  uint8_t *won;              /* by variable of the source: 1: an array that only atomicMax (or only
                             ** atomicMin) accesses; more: see ad_winner.c; NULL: tangent mode */
  int32_t n_won;             /* its entries; variables made later have none: fl_kad_won */
  uint8_t lists;             /* 1: loops may list the elements that they write (ad_list.c), and hold
                             ** elements of shared memory */
  fl_kad_list *listing;      /* NULL: none */
  int32_t *claims, *readers; /* n0 entries: 1 + the parameter that says which thread writes an
                             ** element of the array (which one reads it); 0: none */
  int32_t *blocks;           /* n0 entries: arrays of which each element must be of one block: 1 +
                             ** the parameter that says which one; -1: not made yet; 0: other
                             ** arrays. NULL: no array is so */
  int32_t self, block;       /* variables with the thread's note and the block's number
                             ** (ad_list.c) */
  fl_kset listed;            /* arrays that an enclosing loop lists; NULL: none */
  fl_kset wished;            /* arrays of which an element is restored only where no other thread
                             ** may write it at the same time: the reverse code only multiplies the
                             ** old value by cotangents that are 0; NULL: none */
  fl_kad_carry *carries;     /* a list */
  fl_kset carried;      /* variables that the next iteration of the enclosing loop reads; NULL:
                        ** none */
  struct fl_kad_seen *seen;  /* values of the current statement that are already in a variable */
  struct fl_kad_choice *first_choice, *last_choice;       /* ad_tell.c */
} fl_kad_state;

static inline int fl_kset_has(fl_kset s, int v) { return (int)(s[v >> 6] >> (v & 63) & 1); }
static inline void fl_kset_add(fl_kset s, int v) { s[v >> 6] |= (uint64_t)1 << (v & 63); }
static inline void fl_kset_del(fl_kset s, int v) { s[v >> 6] &= ~((uint64_t)1 << (v & 63)); }
/* The FL_KAD_MEETS… flags of the store 'site'; all of them if the source as given has no such
** site. */
static inline int fl_kad_meets_of(const fl_kad_state *d, int32_t site) {
  return site >= 0 && site < d->n_sites0 ? d->site_meets[site] : ~0;
}
/* Is the variable assigned or stored to anywhere? */
static inline int fl_kad_written(const fl_kad_state *d, int v) { return d->defs->var[v].count > 0; }
fl_kset fl_kset_new(fl_kad_state *d);
fl_kset fl_kset_copy(fl_kad_state *d, fl_kset s);
static inline void fl_kset_join(const fl_kad_state *d, fl_kset s, fl_kset more) {
  for (int i = 0; i < d->words; i++) s[i] |= more[i];
}

/* Refuses the kernel: "kernel 'k', line 12: WHAT cannot be differentiated …", with WHAT from fmt.
** The first refusal stays. line: 0: that of the kernel. */
void fl_kad_refuse(fl_kad_state *d, int line, const char *fmt, ...)
  __attribute__((format(printf, 3, 4)));
/* Is this derivation over: out of memory, refused, or to be done again ('again')? */
static inline int fl_kad_dead(const fl_kad_state *d) {
  return d->a->failed || d->res->refusal != NULL || d->again;
}
/* Says where the function's static shared arrays are, now that their sizes are known. */
static inline void fl_kad_place_shared(fl_kfunc *f) {
  f->moves_shared = f->shared_bytes > FL_K_MAX_SHARED - FL_KAD_SUM_SHARED;
}
/* The type in which derivatives of values of a type are computed. */
static inline int fl_kad_type(int type) { return type == FL_KT_F64 ? FL_KT_F64 : FL_KT_F32; }
fl_kad_note *fl_kad_note_of(fl_kad_state *d, fl_kstmt *s);
static inline int fl_kad_marks(const fl_kstmt *s) {
  return s->note ? ((const fl_kad_note *)s->note)->marks : 0;
}
/* A new variable; -1: no memory. */
int fl_kad_var(fl_kad_state *d, int kind, int type, const char *name, int64_t count);
static inline int fl_kad_local(fl_kad_state *d, int type, const char *name) {
  return fl_kad_var(d, FL_KV_LOCAL, type, name, 1);
}
/* Adds the loop for (v = first; v < count; v += by) and returns its body; NULL: no memory. */
fl_kblock *fl_kad_for(fl_kad_state *d, fl_kblock *b, int v, fl_kexpr *first, fl_kexpr *count,
                      fl_kexpr *by);
/* Adds a parameter for variable 'source', named prefix + its name; -1: for none, named 'prefix'.
** Returns its variable; -1: no memory, or n_cap parameters. */
int fl_kad_param_new(fl_kad_state *d, int role, int source, const char *prefix, int type,
                     int is_pointer, int is_const);
/* A parameter of role KEPT with n elements of the type for each of array v (of each block, if v is
** shared); -1: no memory, or n_cap parameters. */
static inline int fl_kad_kept(fl_kad_state *d, int v, const char *prefix, int type, int64_t n) {
  const fl_kvar of = d->f->vars[v];
  const int x = fl_kad_param_new(d, FL_KAD_KEPT, v, prefix, type, 1, 0);
  if (x < 0) return x;
  fl_kad_param *p = &d->res->params[d->f->n_params - 1];
  p->count = of.kind == FL_KV_SHARED && !of.dynamic ? n * of.count : n;
  p->part = (uint8_t)(of.dynamic ? fl_kt_size(of.type) : 0);
  return x;
}
const char *fl_kad_name(fl_kad_state *d, const char *prefix, int var);

/* ad.c: the passes that tangent mode and adjoint mode share, and how passes are run */
typedef struct fl_kad_pass {
  const char *name;
  void (*run)(fl_kad_state *d);
  uint8_t makes;             /* it makes a new d->body, which is then checked and may be printed */
} fl_kad_pass;
/* Derives f by these n passes, until one fails. The result has the name of f with the suffix
** 'ending'. */
fl_kad *fl_kad_derive(fl_kad_state *d, const fl_kfunc *f, const fl_kad_pass *pass, int n,
                      const char *ending);
void fl_kad_variables(fl_kad_state *d);       /* passes of both modes */
void fl_kad_refuse_early(fl_kad_state *d);    /* ad_refuse.c */
/* ad_bits.c: integers that only hand on the bits of real numbers get real twins; real numbers made
** of bits of others are refused */
void fl_kad_twin_bits(fl_kad_state *d);
void fl_kad_refuse_bits(fl_kad_state *d);
fl_kexpr *fl_kad_stripped(fl_kexpr *x);  /* without conversions between integers of one size */
fl_kexpr *fl_kad_real_of_bits(fl_kexpr *x);     /* the real number whose bits x is, or NULL */
fl_kexpr *fl_kad_bits_of(fl_kexpr *x);   /* the integer of whose bits x makes a number, or NULL */
fl_kexpr *fl_kad_bits_of_real(const fl_kad_state *d, int type, fl_kexpr *x);    /* the opposite */
/* Makes shared arrays of integers that atomics change, and that only hold the bits of real numbers,
** arrays of real numbers. */
void fl_kad_real_arrays(fl_kad_state *d);
/* ad_winner.c: makes d->won; the reverse code of s, an atomicMax or atomicMin on such an array */
void fl_kad_find_winners(fl_kad_state *d);
void fl_kad_winner(fl_kad_state *d, const fl_kstmt *s, fl_kblock *r);
/* Are all atomics on v maxima with no barrier between any two, and before any loop that loads from
** v? The adjoint of each then reads what they leave together. */
int fl_kad_is_one_phase(const fl_kad_state *d, int v);
/* Lets s, a copy of such an atomic, see bits again, as it did in the source. */
void fl_kad_see_bits(const fl_kad_state *d, fl_kstmt *s);
static inline int fl_kad_won(const fl_kad_state *d, int32_t v) {
  return d->won && v < d->n_won ? d->won[v] : 0;
}
/* Does the adjoint of the atomic s read what the element holds after it? */
static inline int fl_kad_reads_won(const fl_kad_state *d, const fl_kstmt *s) {
  return s->kind == FL_KS_ATOMIC && fl_kad_won(d, s->var) > 1;
}
/* ad_drawn.c: refuses s, and returns 1, if it is an atomic operation that the derivative runs again
** and whose outcome depends on the order of the threads. */
int fl_kad_is_drawn(fl_kad_state *d, const fl_kstmt *s);
/* Which barriers separate s, an atomic on global memory, from the loads and stores that may reach
** its element, or s, a store, from other writes there with which it does not commute? (If 'load' is
** not NULL: which separate this load in s from stores and atomics?)
** OPEN: not even those of the block; BLOCK: those of the block; GRID: those of the grid, or there
** is one block, or all accesses of an element are of one thread. */
enum { FL_KAD_OPEN, FL_KAD_BLOCK, FL_KAD_GRID };
int fl_kad_apart_in_time(fl_kad_state *d, const fl_kstmt *s, const fl_kexpr *load);
/* For each variable: does the derived kernel read an element of it, or write one? Returns 0 when
** memory is out. */
typedef struct fl_kad_touched { uint8_t *read, *written; } fl_kad_touched;
int fl_kad_find_touched(fl_kad_state *d, fl_kad_touched *t);
/* Sets the roles of the source's pointers, from the complete code; a FINAL one that is read stays
** so. n_params: parameters of the source. An adjoint that writes to a pointer in a struct is
** refused, as no copy can take its place. */
void fl_kad_roles(fl_kad_state *d, int n_params, int tangent);
/* The variable for the derivative of v, which is no pointer: a new one or, for dynamic shared
** memory, v itself (fl_kad_at), unless it is of halves; -1: no memory. */
int fl_kad_shadow(fl_kad_state *d, int v, const char *prefix);
/* Copies as many elements as array v has, from element from_at of array 'from' to element to_at of
** 'to', both of v's kind. A shared array is copied by all threads of the block, between
** barriers. */
void fl_kad_copy_between(fl_kad_state *d, fl_kblock *b, int v, int to, fl_kexpr *to_at, int from,
                 fl_kexpr *from_at);
/* Copies array v to the array 'kept', from its element 'at' on, or from there back. */
void fl_kad_move(fl_kad_state *d, fl_kblock *b, int v, int kept, fl_kexpr *at, int back);
int fl_kad_shared_bytes(fl_kad_state *d);     /* the variable of the FL_KAD_SHARED parameter, which
                                              ** is added if there is none yet */
fl_kexpr *fl_kad_shared_count(fl_kad_state *d, int var);    /* elements of an array, as launched */
/* ad_strong.c */
void fl_kad_strong(fl_kad_state *d);          /* makes d->strong_var */
int fl_kad_chooses(const fl_kexpr *x);        /* is x min, max or a similar function, which chooses
                                              ** one operand? The slope for the others is 0 */
/* A copy of f in which barriers of warps, in loops that all threads of the block go through
** together, are barriers of the block (ad_barrier.c); NULL: there are none, or no memory. */
fl_kfunc *fl_kad_widen(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r);
/* A copy of f, which replays recorded results of atomics, with barriers of the grid instead of
** those of the block after them or, with 'between', one more after the first (ad_barrier.c); NULL:
** there is no place that all threads reach, or no memory. */
fl_kfunc *fl_kad_meet_grid(fl_karena *a, const fl_kfunc *f, int between);
/* A copy of f in which indices that are loaded from arrays of reals, and that f also stores as
** integers in a result, are read from that result (results.c); NULL: there are none, or no
** memory. */
fl_kfunc *fl_kad_read_results(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r);
/* ad_tell.c: prints the result x of the request (FLAME_DEBUG=6); NULL: there is none */
void fl_kad_tell(const char *what, const fl_kfunc *f, const fl_kad_request *r, const fl_kad *x);
/* Adds a row to the table of strategies that FLAME_DEBUG=6 prints: what is done at 'line' with
** variable var (-1: with a loop). Without FLAME_DEBUG=6 it does nothing. */
void fl_kad_chose(fl_kad_state *d, int line, int var, const char *fmt, ...)
  __attribute__((format(printf, 4, 5)));
void fl_kad_tell_strategy(const fl_kad_state *d);
/* norm.c */
void fl_kad_normalise(fl_kad_state *d);       /* makes d->body from d->f->body, without jumps (but
                                              ** see kept_return) */
/* norm_memory.c */
void fl_kad_hold_elements(fl_kad_state *d);
/* norm_loads.c */
void fl_kad_hold_loads(fl_kad_state *d);      /* replaces loads of arrays that are in_thread by
                                              ** variables */
/* ad_last.c */
void fl_kad_last(fl_kad_state *d);            /* makes d->lasting */
/* Makes d->carries; adds code to b that sets their variables to 0. */
void fl_kad_carries(fl_kad_state *d, fl_kblock *b);
/* The carry to which the adjoint of the load x adds; NULL: none. */
fl_kad_carry *fl_kad_carry_of_load(const fl_kad_state *d, const fl_kexpr *x);
/* Returns 'seed' (NULL: it is not needed) with what is carried to the store s, and adds code to r
** that clears that. */
fl_kexpr *fl_kad_take_carries(fl_kad_state *d, const fl_kstmt *s, fl_kexpr *seed, fl_kblock *r);
/* fl_kad_last_values, called before tidying, sets the roles of arrays that are read as the launch
** leaves them; fl_kad_last_cotangents, called after it, those of cotangents that are never
** written. */
void fl_kad_last_values(fl_kad_state *d);
void fl_kad_last_cotangents(fl_kad_state *d);
/* norm_reads.c */
void fl_kad_read_once(fl_kad_state *d);       /* an element that is read twice is read into a
                                              ** variable */
/* activity.c */
int fl_kad_flows(const uint8_t *set, const fl_kexpr *x);   /* does x depend on a variable of 'set'
                                                           ** through real numbers? */
/* The value that s assigns, stores, adds or sends to other lanes (NULL: none), and the variable or
** array that receives it, or the result of a vote, or that a DECL declares (-1: none). */
fl_kexpr *fl_kad_value_of(const fl_kstmt *s);
int fl_kad_target_of(const fl_kstmt *s);
void fl_kad_activity(fl_kad_state *d);
void fl_kad_need(fl_kad_state *d);            /* sets the marks of all statements */
/* Computes the marks inside a loop for its reverse code alone (with 'condition': for reverse code
** that evaluates the loop's condition). */
void fl_kad_need_again(fl_kad_state *d, const fl_kstmt *loop, int condition);
void fl_kad_values(fl_kset s, const fl_kexpr *x);          /* adds to s all that x reads */
/* Does the adjoint of x read the value of operand i? active: by operand: does a derivative flow to
** it? */
int fl_kad_uses(const fl_kexpr *x, int i, const int *active);
/* Adds to s what the adjoint of statement t reads. */
void fl_kad_reads(const fl_kad_state *d, fl_kset s, const fl_kstmt *t);
/* ad_modes.c: makes d->site_add, site_meets, adds and zeroes. */
void fl_kad_modes(fl_kad_state *d);
/* Is each variable and array that x reads assigned by at most one statement, a parameter by none?
** (In a loop such a variable may still have a new value in each iteration.) */
int fl_kad_steady(const fl_kad_state *d, const fl_kexpr *x);
/* ad_meet.c: accesses that no barrier of the block (with 'grid': of the grid) separates. Statement
** at[i] makes access i of n; 'pair' (NULL: none) is called for each two, k and then i; k == i: one
** access in two iterations. wall: statements with this note count as if a barrier were before them;
** NULL: none do. */
typedef void (*fl_kad_meet_fn)(void *arg, int i, int k);
typedef struct fl_kad_meeting {
  fl_karena *a;
  const fl_kstmt *const *at;
  int n;
  fl_kad_meet_fn pair;
  void *arg;
  const void *wall;
  int grid;
} fl_kad_meeting;
void fl_kad_meetings(const fl_kad_meeting *m, const fl_kblock *b);
int fl_kad_has_barrier(const fl_kblock *b);   /* does b hold a barrier of the block? */
/* The operand e of v = v + e (also e + v, and longer chains of + and -), or NULL: s has another
** form. */
fl_kexpr *fl_kad_added(fl_kad_state *d, const fl_kstmt *s);

/* ad_expr.c: the adjoint of the value of x, seeded with 'seed', appended to *b */
void fl_kad_expr(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, fl_kexpr *seed);
/* fl_kad_expr where the value of x, if it is a call, is in 'result'; NULL: it is computed again. */
void fl_kad_expr_of(fl_kad_state *d, fl_kblock *b, const fl_kexpr *x, fl_kexpr *result,
                    fl_kexpr *seed);
/* x if it is a variable, a constant or a special; else a new variable, which b sets to x. */
fl_kexpr *fl_kad_atom(fl_kad_state *d, fl_kblock *b, fl_kexpr *x);
/* The derivative with respect to operand i of the source's call x. 'call': the copy of x in the
** derived kernel; r: its value. NULL: refused. */
fl_kexpr *fl_kad_slope(fl_kad_state *d, const fl_kexpr *x, const fl_kexpr *call, int i,
                       fl_kexpr *r);
fl_kexpr *fl_kad_at(fl_kad_state *d, int var, fl_kexpr *index);   /* index in the shadow */
/* ad_sweep.c: the forward and the reverse code of a block (fl_kad_sweep) */
/* A copy of statement s at the end of b, with the same operands and with empty blocks. */
fl_kstmt *fl_kad_copy(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s);
/* If the replay needs s, which assigns to v, appends s to *f. If reverse code will read the old
** value of v, *f saves it first, and *r begins by restoring it. Returns whether s has an adjoint.
** keep: see ad_sweep.c. */
int fl_kad_redo(fl_kad_state *d, const fl_kstmt *s, int v, fl_kset keep, fl_kblock *f,
                fl_kblock *r);
/* Returns the cotangent of v, and adds to r the code that clears it. */
fl_kexpr *fl_kad_take(fl_kad_state *d, int v, fl_kblock *r);
/* Appends to out what is marked FORWARD in b. */
void fl_kad_primal(fl_kad_state *d, const fl_kblock *b, fl_kblock *out);
void fl_kad_sweep(fl_kad_state *d, const fl_kblock *b, fl_kset keep, fl_kblock *forward,
                  fl_kblock *reverse);
/* ad_warp.c: does x have one value in all threads of a block that reach s? shared: a load of shared
** memory has one if its index has one; otherwise no such load does. */
int fl_kad_equal_in_block(const fl_kad_state *d, const fl_kstmt *s, const fl_kexpr *x, int shared);
/* ad_warp.c: appends the forward and the reverse code of s, a shuffle or vote, to *f and *r. */
void fl_kad_warp(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r);
/* ad_loop.c: the same of a loop */
void fl_kad_loop(fl_kad_state *d, fl_kstmt *s, fl_kset keep, fl_kblock *forward,
                 fl_kblock *reverse);
/* ad_list.c, if the kernel may have lists of elements: fl_kad_number_thread adds code to b that
** sets d->self to the thread's number; fl_kad_next_phase adds code that begins another phase after
** s, a copy of a barrier of the block. */
void fl_kad_number_thread(fl_kad_state *d, fl_kblock *b);
void fl_kad_next_phase(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s);
/* Makes d->blocks, if lists may be made. */
void fl_kad_find_blocks(fl_kad_state *d);
/* Does x load an element of them? Then the forward code evaluates its index, for the claim. */
int fl_kad_claims_loads(const fl_kad_state *d, const fl_kexpr *x);
/* Adds code to b that fails if another thread claims the element that s writes; 0: it is not
** possible, or known to be so. */
int fl_kad_claim(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s);
/* Adds code to b that lists the element that s writes, and notes those that it reads, where
** d->listing asks for it. s: no loop; fl_kad_list_loads: an expression instead. */
void fl_kad_list_uses(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s);
void fl_kad_list_loads(fl_kad_state *d, fl_kblock *b, fl_kexpr *x, int line);
/* ad_sums.c: sums that a loop adds to one element are collected in a register */
void fl_kad_sum_loops(fl_kad_state *d);
/* ad_phases.c: sums into shared memory that need no atomics */
void fl_kad_phases(fl_kad_state *d);
/* ad_orders.c: gradients that depend on the order of the threads in any case are summed in any
** order */
void fl_kad_free_orders(fl_kad_state *d);
int32_t fl_kad_beyond(const fl_kad_state *d);      /* the variable of the FL_KAD_SHARED parameter of
                                                   ** the tidied kernel; -1: none */
/* ad_tidy.c: drops unused code, renumbers variables and accesses */
void fl_kad_tidy(fl_kad_state *d);

/* Short builders */
static inline fl_kexpr *kx_var(fl_kad_state *d, int v) { return fl_kexpr_var(d->f, v); }
static inline fl_kexpr *kx_int(fl_kad_state *d, int64_t i) {
  return fl_kexpr_int(d->a, FL_KT_I64, i);
}
static inline fl_kexpr *kx_bool(fl_kad_state *d, int v) {
  return fl_kexpr_int(d->a, FL_KT_BOOL, v);
}
static inline fl_kexpr *kx_op(fl_kad_state *d, int op, fl_kexpr *x, fl_kexpr *y) {
  return fl_kexpr_binary(d->a, op, x, y);
}
static inline void kx_set(fl_kad_state *d, fl_kblock *b, int v, fl_kexpr *x) {
  fl_kstmt_assign(d->f, b, v, x);
}
/* x converted to the type in which its derivatives are computed. */
static inline fl_kexpr *kx_real(fl_kad_state *d, fl_kexpr *x) {
  return x ? fl_kexpr_cast(d->a, fl_kad_type(x->type), x) : NULL;
}
/* x && y, where NULL is true. */
static inline fl_kexpr *kx_both(fl_kad_state *d, fl_kexpr *x, fl_kexpr *y) {
  return !x ? y : !y ? x : kx_op(d, FL_KO_LAND, x, y);
}
/* x; 0 where t is 0 */
static inline fl_kexpr *kx_unless_zero(fl_kad_state *d, fl_kexpr *t, fl_kexpr *x) {
  if (!t || !x) return NULL;
  return fl_kexpr_select(d->a, kx_op(d, FL_KO_NE, t, fl_kexpr_zero(d->a, t->type)), x,
                         fl_kexpr_zero(d->a, x->type));
}

/* Views of dynamic shared memory of one type all begin at byte 0: fl_kad_unify_views makes them one
** array (ad_slots.c). Those of several types, and shadows of halves, are different arrays
** (facts/views.h). */
void fl_kad_unify_views(fl_kfunc *f);
#endif
