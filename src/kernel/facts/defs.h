/*
** Where the variables of a function get their values, found once over a body; which loops count,
** and by what. All that looks through a variable to its value, or asks whether one is a counter,
** asks here.
**
** Places are the numbers of statements in the order of the text, from 1; all of a construct's parts
** are behind it. In
**   int i = blockIdx.x * blockDim.x + threadIdx.x;    1: DECL, 2: i has one value
**   for (int j = i; j < n; j += 32) y[j] = i;         3, 4: j = i; 5: loop, 6: y[j] = i, 7: step
** i is looked through, j is a counter: count 2, value 'i', step 'j + 32' of loop 0.
*/
#ifndef FL_KERNEL_DEFS_H
#define FL_KERNEL_DEFS_H
#include "kernel/tree/tree.h"

typedef struct fl_kdef {
  int32_t count;             /* statements that give it, or an element of it, a value */
  uint8_t param;             /* it, or the parameter it is a leaf of, has one before them */
  uint8_t in_loop;           /* one of them is in a loop */
  uint8_t zero;              /* an integer that is given 0 alone, or another such one */
  int32_t order, until;      /* place of the first; up to which its value holds in a round */
  const fl_kexpr *value;     /* assigned by the first; NULL: it is the result of a statement */
  const fl_kexpr *step;      /* assigned by the second, in the step of while loop step_loop */
  int32_t step_loop;
} fl_kdef;

typedef struct fl_kdefs {
  const fl_kfunc *f;
  fl_kblock body;
  int32_t n_vars;
  fl_kdef *var;
  int32_t *loop_order;       /* place of each loop */
} fl_kdefs;

/* The definitions of all variables that f has now, in the arena 'a'; NULL: no memory. */
fl_kdefs *fl_kdefs_new(fl_karena *a, const fl_kfunc *f, fl_kblock body);

/* The only value that the variable ever gets; NULL: there is none, or it has one as a parameter. */
static inline const fl_kexpr *fl_kdef_only(const fl_kdefs *d, int32_t var) {
  const fl_kdef *v = &d->var[var];
  return v->count == 1 && !v->param ? v->value : NULL;
}
/* That value where it is the variable's at place 'order': set before, in the same round. */
static inline const fl_kexpr *fl_kdef_at(const fl_kdefs *d, int32_t var, int32_t order) {
  const fl_kdef *v = &d->var[var];
  return v->order <= order && order <= v->until ? fl_kdef_only(d, var) : NULL;
}
/* A parameter that keeps the value it was given. */
static inline int fl_kdef_is_given(const fl_kdefs *d, int32_t var) {
  return d->var[var].param && !d->var[var].count;
}
/* Set once before a loop and once in its step. */
int fl_kdef_is_counter(const fl_kdefs *d, int32_t var);

/* ---- without a table: what a piece of the tree assigns ---- */

/* How many statements in b give the variable a value; *last (not NULL): an assignment of those. */
int fl_kassigned(const fl_kblock *b, int32_t var, const fl_kstmt **last);
/* Marks in set (by variable) what s, or something in it, assigns or declares. */
void fl_kassigned_by(const fl_kstmt *s, uint8_t *set);
int fl_kreads(const fl_kexpr *x, int32_t var);              /* x NULL: no */
/* Does x read memory, or a variable of 'set', which may be NULL? */
int fl_kreads_of(const fl_kexpr *x, const uint8_t *set);
int fl_kjumps(fl_kblock b);                                 /* holds a BREAK, CONTINUE or LEAVE */

/* ---- counting ---- */

/* x without conversions between integers of 32 bits and more. */
const fl_kexpr *fl_kuncast(const fl_kexpr *x);

/* v = v + by, v = by + v or v = v - by of an integer. 'exact': conversions on the way keep v's
** bits, so that n steps are v + n * by in v's type. */
typedef struct fl_kstep { int32_t var; int op; const fl_kexpr *by; int exact; } fl_kstep;
int fl_kstep_of(const fl_kfunc *f, const fl_kstmt *s, fl_kstep *out);

/* while (v op bound) { body; v += by; } where the step does nothing else. op: with v on the left,
** LT to NE; 'direct': v itself is compared, without conversions. That the body leaves v alone is
** for the caller to ask (fl_kassigned). */
typedef struct fl_kcount {
  fl_kstep step;
  int op, direct;
  const fl_kexpr *bound;
} fl_kcount;
int fl_kcount_of(const fl_kfunc *f, const fl_kstmt *loop, fl_kcount *out);
int fl_kop_mirrored(int op);      /* a < b is b > a */
int fl_kop_negated(int op);       /* a < b is not a >= b */
#endif
