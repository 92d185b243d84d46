/* What text.c (statements, kernels), text_expr.c (expressions), text_lanes.c and text_check.c
** share. */
#ifndef FL_KERNEL_TEXT_WRITE_H
#define FL_KERNEL_TEXT_WRITE_H
#include "kernel/tree/tree.h"

/* slot[p]: 1 + the number of the exact (order-independent) sum that parameter p receives, 0: none;
** NULL: no sums are exact. */
typedef struct fl_kwriter {
  fl_text *t;
  const fl_kfunc *f;
  int depth;
  const uint8_t *slot;
  const struct fl_knear *near;   /* sums that are combined in the warp; NULL: none */
  struct fl_kcheck *check;       /* accesses are checked (text_check.c); NULL: they are not */
  const char *index;             /* text for the index of the element that is written; NULL: that is
                                 ** printed from the tree */
  uint8_t batch;                 /* blockIdx.z counts the launches of a batch, too */
  const char *file;              /* the script's file: each statement gets a #line; NULL: none
                                 ** does */
  int first;                     /* the line in 'file' at which the source begins */
  uint8_t saved;                 /* 1: the text is read again later; 2: and exact sums are calls of
                                 ** fl_ordered_add */
  int line, asserts, calls;      /* line of the statement; number of asserts, and of calls of
                                 ** fl_warp_adds, so far */
  uint8_t bounded;               /* as in fl_ktext_form */
  uint8_t stops;                 /* a failed assertion ends a thread (text_stop.h); 2: and those
                                 ** that meet it */
  uint8_t apart;                 /* costly functions are called (fl_kput_apart) */
  uint8_t warps;                 /* fl_kput_warps: where the statement is written */
} fl_kwriter;

/* Writes a statement. */
typedef void fl_kput(fl_kwriter *w, const fl_kstmt *s);
/* Sums in step (fl_kstmt.in_step) are written twice: for warps that have all their lanes (WHOLE),
** and for the last one of a block if it has less (PARTS). ANY: all else. */
typedef enum { FL_KPUT_ANY, FL_KPUT_WHOLE, FL_KPUT_PARTS } fl_kput_warps;

static inline const char *fl_kput_half(int type) { return type == FL_KT_F16 ? "f16" : "bf16"; }
/* fl_kput_value_type: the C type of a variable, or of an element of an ARRAY or TABLE;
** fl_kput_memory_type: of an element in global or shared memory, and of a parameter. */
static inline const char *fl_kput_value_type(int type) {
  return fl_kt_is_half(type) ? "float" : fl_ktypes[type].c;
}
static inline const char *fl_kput_memory_type(int type) {
  return fl_kt_is_half(type) ? "unsigned short" : fl_ktypes[type].c;
}

void fl_kput_name(fl_kwriter *w, const char *name);   /* writes a name in a form that CUDA does not
                                                      ** use itself */
void fl_kput_var(fl_kwriter *w, int var);
void fl_kput_constant(fl_kwriter *w, const fl_kexpr *x);
void fl_kput_expr(fl_kwriter *w, const fl_kexpr *x);
/* If a kernel calls functions such as sinf and powf at many places: writes, before it, functions
** that call them, which it then calls instead, so that their texts are not repeated. */
void fl_kput_apart(fl_kwriter *w);
void fl_kput_list(fl_kwriter *w, fl_kexpr *const *x, int n);   /* with commas, and a ')' after it */
void fl_kput_element(fl_kwriter *w, const fl_kstmt *s);     /* the element that s writes */
/* text_sums.c. fl_kput_is_ordered: is s an exact sum, which must be the same in any order of the
** threads? fl_kput_ordered writes such a sum; the other two write what a kernel with exact sums
** does first, and what each of its threads does when it ends. */
int fl_kput_is_ordered(const fl_kfunc *f, const fl_kstmt *s);
void fl_kput_ordered(fl_kwriter *w, const fl_kstmt *s);
void fl_kput_sums_begin(fl_kwriter *w);
void fl_kput_sums_end(fl_kwriter *w);
/* text_lanes.c */
void fl_kput_warp(fl_kwriter *w, const fl_kstmt *s);        /* a shuffle or vote */
void fl_kput_barrier(fl_kwriter *w, const fl_kstmt *s);
int fl_kput_is_joint(const fl_kstmt *s);            /* is s a sum that lanes make together? */
/* Writes such a sum s and those that are made with it (fl_kstmt.joined), and returns the last. */
const fl_kstmt *fl_kput_joined(fl_kwriter *w, const fl_kstmt *s);
/* What lanes hold of the sums in the loop (fl_kstmt.held) is declared before it, cleared when a
** round begins, added up when it ends, and added to memory after the loop. A text that is checked
** or saved has no such sums. */
typedef enum { FL_KPUT_BEFORE, FL_KPUT_BEGIN, FL_KPUT_END, FL_KPUT_AFTER } fl_kput_when;
void fl_kput_held(fl_kwriter *w, const fl_kstmt *loop, fl_kput_when when);
/* If lanes hold sums in step in the loop (not in one inside it) and it is not yet being written
** twice: calls 'put' for it twice and returns 1; else returns 0 and writes nothing. */
int fl_kput_twice(fl_kwriter *w, const fl_kstmt *loop, fl_kput *put);
#endif
