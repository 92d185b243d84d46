/*
** Forms: integer expressions as polynomials (sums of products of symbols), and how an expression is
** read as one. The client says what a variable stands for (fl_kreader). In a kernel
**   int i = blockIdx.x * blockDim.x + threadIdx.x;  y[3 * i + n]
** the index is read as 3 * GLOBAL.x + n: the two terms with blockIdx and threadIdx are joined.
**
** A form is the value in exact arithmetic. The flags of fl_kpoly tell where the kernel's own
** arithmetic may overflow, wrap or cut bits off. Clients that take sums as exact ("an index that
** overflows its type is not an index") do not look at them.
*/
#ifndef FL_KERNEL_FORM_H
#define FL_KERNEL_FORM_H
#include "kernel/tree/tree.h"

enum { FL_KPOLY_TERMS = 12, FL_KPOLY_FACTORS = 8 };

/* Symbols: fl_kspecial are 0..; GLOBAL + axis: blockIdx * blockDim + threadIdx; SAME + number: an
** expression that is equal in the threads that are compared (poly.h); VAR + variable; COUNTER +
** number: a counter, where its variable does not tell it from others (cover_form.h; 'renamed' in
** index.c); QUOTIENT + number (fl_kquotients); UNKNOWN + number: an expression that is no
** polynomial (fl_kunknown in poly.h). */
enum { FL_KSYM_GLOBAL = 100, FL_KSYM_SAME = 110, FL_KSYM_VAR = 200, FL_KSYM_COUNTER = 1 << 23,
       FL_KSYM_QUOTIENT = 1 << 24, FL_KSYM_UNKNOWN = 1 << 25 };
static inline int fl_ksym_is_same(int32_t s) { return s >= FL_KSYM_SAME && s < FL_KSYM_VAR; }

/* c * s[0] * … * s[n - 1]; the symbols are sorted. */
typedef struct fl_kterm {
  int64_t c;
  int n;
  int32_t s[FL_KPOLY_FACTORS];
} fl_kterm;

/* narrow: an operation or cast in the expression has less than 64 bits. unsure: an unsigned step
** may have been below 0, or terms have cancelled, so that the sum of magnitudes of the remaining
** terms does not bound all steps. wraps: an unsigned sum or product may have wrapped; cut: a cast
** may have lost bits or changed the sign (neither is set of an expression with only indices and
** sizes of the launch in it). Then the value may be another one than the polynomial's. */
typedef struct fl_kpoly {
  int n;
  uint8_t bad, narrow, unsure;      /* bad: the expression is not such a polynomial, or has too many
                                    ** terms */
  uint8_t wraps, cut;
  fl_kterm t[FL_KPOLY_TERMS];
} fl_kpoly;

/* a / m in C, for integers of 'type' (fl_ktype). a % m is written a - m * (a / m), so that the
** quotient cancels where a number is split by / and % and put together again. */
typedef struct fl_kquotient { fl_kpoly a; fl_kterm m; int type; } fl_kquotient;
/* All quotients that were read, each once, in an arena: at[i] is symbol QUOTIENT + i. Pointers to
** them stay valid. */
typedef struct fl_kquotients { fl_karena *a; int n, cap; fl_kquotient *at; } fl_kquotients;
/* Polynomials with numbers (fl_kpolys_number): equal ones have the same number. */
typedef struct fl_kpolys {
  fl_karena *a;
  int n, cap;
  struct fl_kpoly_met { uint64_t hash; fl_kpoly p; } *at;
} fl_kpolys;

/* ---- terms ---- */

int fl_kterm_same(const fl_kterm *a, const fl_kterm *b);     /* the same symbols; c is ignored */
static inline int fl_kterm_equal(const fl_kterm *a, const fl_kterm *b) {
  return a->c == b->c && fl_kterm_same(a, b);
}
int fl_kterm_holds(const fl_kterm *t, int32_t s);
void fl_kterm_drop(fl_kterm *t, int32_t s);                  /* one factor s, if t has one */
/* The digit of a term in mixed radix: the one symbol in it for which known() is false. It is
** removed from the term, which leaves its stride. -1: there is none; FL_KDIGIT_SEVERAL: there are
** several, or it is squared; in both cases t is unchanged. */
enum { FL_KDIGIT_SEVERAL = -2 };
typedef int fl_kis_known(const void *arg, int32_t s);
int32_t fl_kterm_digit(fl_kterm *t, fl_kis_known *known, const void *arg);
int fl_kterm_all(const fl_kterm *t, fl_kis_known *is, const void *arg);  /* is 'is' true for all? */
/* Is s threadIdx or blockIdx along an axis, or GLOBAL? */
static inline int fl_ksym_is_number(int32_t s) {
  return (s >= 0 && s <= FL_KSPECIAL_BID_Z) || (s >= FL_KSYM_GLOBAL && s < FL_KSYM_GLOBAL + 3);
}
/* *ok 0: too many factors, or c overflows. */
fl_kterm fl_kterm_product(const fl_kterm *a, const fl_kterm *b, int *ok);
/* |big / small|. *ok 0: that is no product of an integer and symbols. */
fl_kterm fl_kterm_ratio(const fl_kterm *big, const fl_kterm *small, int *ok);

/* ---- sums ---- */

fl_kpoly fl_kpoly_symbol(int32_t s);
fl_kpoly fl_kpoly_number(int64_t c);
void fl_kpoly_add(fl_kpoly *p, fl_kterm t);
void fl_kpoly_subtract(fl_kpoly *a, const fl_kpoly *b);      /* a = a - b */
fl_kpoly fl_kpoly_product(const fl_kpoly *a, const fl_kpoly *b);
int fl_kpoly_same(const fl_kpoly *a, const fl_kpoly *b);
/* The number of p in 'all', from 1; a new one is added. 0: no memory. */
int fl_kpolys_number(fl_kpolys *all, const fl_kpoly *p);
/* Takes the constant term out of p and returns it; 0: there is none. */
int64_t fl_kpoly_take_constant(fl_kpoly *p);
int fl_kpoly_has_negative(const fl_kpoly *p);                /* has it a coefficient below 0? */
int fl_kpoly_is_natural(const fl_kpoly *p);                  /* is it certainly not negative? */
int fl_kpoly_all(const fl_kpoly *p, fl_kis_known *is, const void *arg);  /* is 'is' true for all? */
/* blockIdx.a * blockDim.a * P + threadIdx.a * P, for a term P, becomes P times the index in the
** launch along axis a (GLOBAL + a). */
void fl_kpoly_join(fl_kpoly *p);
/* If p is a remainder a - m * (a / m) where a has one term: sets *a and *m, and returns the
** quotient a / m; if a is x / w, that is x / (w * m). NULL: p is no such remainder. */
const fl_kquotient *fl_kpoly_remainder(const fl_kquotients *all, const fl_kpoly *p, fl_kpoly *a,
                                       fl_kterm *m);
/* The symbol that p is; -1: p is not a single symbol. */
static inline int32_t fl_kpoly_single(const fl_kpoly *p) {
  return !p->bad && p->n == 1 && p->t[0].c == 1 && p->t[0].n == 1 ? p->t[0].s[0] : -1;
}
static inline int fl_kpoly_is(const fl_kpoly *p, int32_t s) { return fl_kpoly_single(p) == s; }

/* ---- expressions ---- */

typedef struct fl_kreader fl_kreader;
struct fl_kreader {
  /* The polynomial of a variable. If it reads the variable's value, it passes depth + 1 on. */
  fl_kpoly (*var)(const fl_kreader *r, int32_t var, int depth);
  /* The polynomial of an expression that is 'bad' without it; NULL: it stays so. */
  fl_kpoly (*other)(const fl_kreader *r, const fl_kexpr *x);
  fl_kquotients *quotients;                 /* NULL: quotients and remainders are 'bad' */
  const void *arg;
};
/* The polynomial of x. depth: how many variables were replaced and operands entered so far, which
** is limited; 0 at the first call. The result is not joined (fl_kpoly_join). */
fl_kpoly fl_kform_read(const fl_kreader *r, const fl_kexpr *x, int depth);
/* Is p a constant that is so large that numbers of 'type', unsigned ones of 32 bits, are taken to
** wrap where they are multiplied by it, or count by it, as in a hash? */
int fl_kform_wraps(int type, const fl_kpoly *p);
#endif
