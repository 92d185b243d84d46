/*
** What gather.c (which sums, the two kernels) and gather_site.c (the code of one access) share
** while they make the gather kernel of an adjoint. Contract: ad.h, fl_kad_gather.
*/
#ifndef FL_KERNEL_GATHER_H
#define FL_KERNEL_GATHER_H
#include "kernel/ad/ad_state.h"
#include "kernel/facts/poly.h"

enum { FL_KG_CHAINS = 4, FL_KG_RANGES = 9, FL_KG_NEAR = 1 << 20, FL_KG_CARRIES = 64 };

/* How each thread of the gather kernel splits the index j of its element into digits, once: j =
** b[0] + m[0] * (b[1] + m[1] * b[2]). Then the digits of a nearby source thread need no division. m
** are the moduli of the source (w of x % w), made positive. If the modulus of an index of an array
** is not positive, the highest b is set far below 0, so that it is the digit of no thread. If an
** index of the thread is split ('symbol'), 'sign' is the sign of the source's modulus, and so that
** of C's quotient. */
typedef struct fl_kchain {
  int n;                         /* moduli, 1 or 2 */
  fl_kterm whole[2];             /* m[0], m[0] * m[1] */
  int32_t symbol;               /* the thread's index that is split; -1: the index of an array
                                ** element is split */
  int32_t m[2], b[3];            /* variables */
  int32_t given[2], sign[2];     /* variables: the moduli as the source gives them; their signs. -1:
                                 ** none, as the modulus is certainly positive (or, of 'sign', as an
                                 ** index of an array is split) */
} fl_kchain;

/* A site: accesses of one array with one index. A thread of the gather kernel sums their
** contributions to one element. */
typedef struct fl_ksite {
  int32_t grad;                  /* the array summed into, a variable of the adjoint */
  fl_kdigits digits;             /* of the index */
  int chain;                     /* index in fl_kgathering.chain; -1: none */
  uint8_t near;  /* the thread's digits are those of j minus the constants 'by', with few carries */
  int64_t by[3];
} fl_ksite;

/* A statement of the adjoint that adds to a gradient. site: -1: its index cannot be inverted. */
typedef struct fl_ksum { fl_kstmt *s; int32_t site; } fl_ksum;

typedef struct fl_kgathering {
  fl_kad_state d;                /* the kernel being made: d.f is a clone of 'src' */
  const fl_kad *from;            /* the adjoint … */
  const fl_kfunc *src;           /* … and its function */
  fl_kindices *k;                /* of src */
  fl_ksum *sum;
  int n_sums;
  fl_ksite *site;
  int n_sites;
  fl_kchain chain[FL_KG_CHAINS];
  int n_chains;
  uint8_t *taken;                /* by variable of src: 1: a gradient whose sums are gathered */
  uint8_t *assigned;             /* by variable of src: written somewhere */
  uint8_t *late;                 /* by variable of src: it may be read after it was written */
  int32_t range[FL_KG_RANGES];   /* variables of the parameters with sizes of the launch, in the
                                 ** order of fl_kg_range; -1: not made yet */
  int32_t element;               /* variable: j */
} fl_kgathering;

/* gather_digits.c */
void fl_kg_chains(fl_kgathering *g);            /* chooses how indices are split into digits */
void fl_kg_bases(fl_kgathering *g, fl_kblock *b);        /* adds code that splits j by all chains */
/* The size of the launch that bounds a symbol (blockDim.x of threadIdx.x), or that a symbol is: its
** number in FL_KAD_LAUNCH. fl_kg_extent: its value. */
int fl_kg_range(int32_t symbol);
fl_kexpr *fl_kg_extent(fl_kgathering *g, int32_t symbol);
/* Is the shift p a small constant and at most one int, added or subtracted? Then j - p may be
** computed in U32: a result that wraps is not the index of a thread. */
int fl_kg_is_short(const fl_kgathering *g, const fl_kpoly *p);
/* Index j of the element minus 'shift', computed in 'type': I64 for any shift, U32 for short ones,
** I32 for small constants. */
fl_kexpr *fl_kg_number(fl_kgathering *g, const fl_kpoly *shift, int type);
/* Adds code that splits t into the digits of the site's chain, and sets v[i] to the new variables
** with them. t is at least 0 unless the site is 'near'. */
void fl_kg_digits(fl_kgathering *g, fl_kblock *b, const fl_ksite *s, fl_kexpr *t, int *v);
int fl_kg_is_division(const fl_kexpr *x);                /* is x a / or a % of integers? */
/* Is the division x the quotient / m or the remainder % m of the thread's index 'symbol' (or of a
** quotient of it)? *below: the divisor of that quotient, or 1; *whole: *below times m. */
int fl_kg_part_of(const fl_kindices *k, const fl_kplace *at, const fl_kexpr *x, int32_t symbol,
                  fl_kterm *below, fl_kterm *whole);
/* gather_site.c */
/* Adds code to b that adds to variable 'total' the contributions to element j of all threads that
** access it at the site. site: its index in g->site. */
void fl_kg_site(fl_kgathering *g, fl_kblock *b, int site, int total);

/* Short builders */
static inline fl_kexpr *kg_wide(fl_kgathering *g, fl_kexpr *x) {
  return fl_kexpr_cast(g->d.a, FL_KT_I64, x);
}
static inline fl_kexpr *kg_int(fl_kgathering *g, int64_t i) {
  return fl_kexpr_int(g->d.a, FL_KT_I32, i);
}
static inline int kg_local(fl_kgathering *g, int type, const char *name) {
  return fl_kad_local(&g->d, type, name);
}
static inline fl_kexpr *kg_op(fl_kgathering *g, int op, int v, fl_kexpr *y) {
  return kx_op(&g->d, op, kx_var(&g->d, v), y);
}
#endif
