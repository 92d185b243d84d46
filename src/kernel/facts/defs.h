/*
** Where the variables of a function get their values, found once over a body; which loops count,
** and by what. All code that replaces a variable by its value, or needs to know whether it is a
** counter, uses this.
**
** Places are the numbers of statements in the order of the text, from 1; a construct has a lower
** number than its parts. In
**   int i = blockIdx.x * blockDim.x + threadIdx.x;    1: DECL, 2: i has one value
**   for (int j = i; j < n; j += 32) y[j] = i;         3, 4: j = i; 5: loop, 6: y[j] = i, 7: step
** i is replaced by its value, j is a counter: count 2, value 'i', step 'j + 32' of loop 0.
*/
#ifndef FL_KERNEL_DEFS_H
#define FL_KERNEL_DEFS_H
#include "kernel/tree/tree.h"

typedef struct fl_kdef {
  int32_t count;             /* statements that assign to the variable, or to an element of it */
  uint8_t param;          /* a parameter or a member of one, which has a value before any
                          ** statement */
  uint8_t in_loop;           /* one of these statements is in a loop */
  uint8_t zero;              /* an integer that is no parameter and is assigned only 0 or other such
                             ** integers */
  int32_t order, until;      /* place of its first assignment; if that is the only one: the place up
                             ** to which the variable keeps its value, in one iteration of the loops
                             ** around (0: unknown) */
  const fl_kexpr *value;     /* the value first assigned; NULL: none, or it is no expression (the
                             ** result of an atomic or a shuffle, an element) */
  const fl_kexpr *step;      /* the value assigned second, if that is in the step of while loop
                             ** step_loop; else NULL */
  int32_t step_loop;
} fl_kdef;

typedef struct fl_kdefs {
  const fl_kfunc *f;
  fl_kblock body;
  int32_t n_vars;
  fl_kdef *var;
  int32_t *loop_order;       /* place of each loop, by label */
} fl_kdefs;

/* The definitions in 'body' of all variables that f has now, in the arena 'a'; NULL: no memory. */
fl_kdefs *fl_kdefs_new(fl_karena *a, const fl_kfunc *f, fl_kblock body);

/* The only value that the variable ever gets; NULL: it has none or several, is a parameter, or the
** value is no expression. */
static inline const fl_kexpr *fl_kdef_only(const fl_kdefs *d, int32_t var) {
  const fl_kdef *v = &d->var[var];
  return v->count == 1 && !v->param ? v->value : NULL;
}
/* fl_kdef_only if the variable has that value at place 'order' (set before it, in the same
** iteration of the loops around it); else NULL. */
static inline const fl_kexpr *fl_kdef_at(const fl_kdefs *d, int32_t var, int32_t order) {
  const fl_kdef *v = &d->var[var];
  return v->order <= order && order <= v->until ? fl_kdef_only(d, var) : NULL;
}
/* Is the variable a parameter that is never assigned? */
static inline int fl_kdef_is_given(const fl_kdefs *d, int32_t var) {
  return d->var[var].param && !d->var[var].count;
}
/* Is x made of constants, parameters that are never assigned and variable v (-1: none) alone? */
int fl_kdef_gives(const fl_kdefs *d, const fl_kexpr *x, int32_t v);
/* Is the variable assigned once before a loop, and once more in the loop's step? */
int fl_kdef_is_counter(const fl_kdefs *d, int32_t var);

/* ---- without the table: assignments in a part of the tree ---- */

/* How many statements in b assign to the variable; if some are ASSIGNs, *last (if not NULL) is set
** to one of these. */
int fl_kassigned(const fl_kblock *b, int32_t var, const fl_kstmt **last);
/* Marks in 'set' (by variable) the variables that s, or a statement in it, assigns or declares;
** stores to elements do not count. */
void fl_kassigned_by(const fl_kstmt *s, uint8_t *set);
/* Does x (NULL: no) read the variable, or an element of it? */
int fl_kreads(const fl_kexpr *x, int32_t var);
/* Does x read memory, or a variable of 'set', which may be NULL? */
int fl_kreads_of(const fl_kexpr *x, const uint8_t *set);
/* Is 'is' true for s, or for a statement inside it? */
int fl_kstmt_any(const fl_kstmt *s, int (*is)(const void *arg, const fl_kstmt *s), const void *arg);
int fl_kjumps(fl_kblock b);                           /* does b hold a BREAK, CONTINUE or LEAVE? */
int fl_kis_exit(const fl_kstmt *s);                   /* is s a BREAK, CONTINUE, LEAVE or RETURN? */
int fl_kis_barrier(const void *none, const fl_kstmt *s);     /* of a block or the grid */
/* Is a barrier of a block or the grid among the statements of b, not counting those inside
** others? */
int fl_kwaits(fl_kblock b);
/* Does operand 0 of x decide whether operand i is evaluated? */
static inline int fl_kis_lazy(const fl_kexpr *x, int i) {
  return i > 0 && (x->kind == FL_KX_SELECT ||
                   (x->kind == FL_KX_BINARY && (x->op == FL_KO_LAND || x->op == FL_KO_LOR)));
}

/* ---- counting ---- */

/* A statement v = v + by, v = by + v (op ADD) or v = v - by (op SUB), for an integer v of 32 bits
** or more. 'exact': the conversions in it keep v's bits, so that n steps give v + n * by (v - n *
** by) in v's type. */
typedef struct fl_kstep { int32_t var; int op; const fl_kexpr *by; int exact; } fl_kstep;
int fl_kstep_of(const fl_kfunc *f, const fl_kstmt *s, fl_kstep *out);      /* 0: s is none */

/* A loop while (v op bound) { body; step } whose step is one fl_kstep of v. op: LT to NE, with v on
** the left; 'direct': v is compared without conversions. The caller checks that the body does not
** assign to v (fl_kassigned). */
typedef struct fl_kcount {
  fl_kstep step;
  int op, direct;
  const fl_kexpr *bound;
} fl_kcount;
int fl_kcount_of(const fl_kfunc *f, const fl_kstmt *loop, fl_kcount *out);      /* 0: it is none */
/* The same for a part of the condition (a && part): the loop makes at most its rounds. */
int fl_kcount_most(const fl_kfunc *f, const fl_kstmt *loop, fl_kcount *out);
int fl_kop_mirrored(int op);      /* a < b is b > a */

/* A loop for (v = first; v op bound; v += step) whose three values are numbers. */
typedef struct fl_krange { int32_t var; int64_t first, bound, step; int op; } fl_krange;
int fl_kexpr_is_int(const fl_kexpr *x);               /* a constant of an integer type */
/* Is s a loop whose first value, bound and step are numbers (fl_krange)? 'before' is the statement
** before it (NULL: none). Returns the number of its rounds, of which jumps may leave out some; -1:
** it is no such loop, has more than 'most' rounds, or its counter would leave the range of int
** (with an unsigned counter, 0 to INT32_MAX). */
int fl_krange_of(const fl_kfunc *f, const fl_kstmt *before, const fl_kstmt *s, int most,
                 fl_krange *out);
int fl_kop_negated(int op);       /* a < b is not a >= b; 0: op is no comparison */
#endif
