/* What lower.c uses of lower_mode.c and lean.c. */
#ifndef FL_CPU_LOWER_H
#define FL_CPU_LOWER_H
#include "cpu/program/program.h"

/* Rows of this length are processed one by one; for shorter ones a row's value is copied to each
** element. */
enum { FL_UNI_ROW = 64 };

/* Mode, tiles, units of g; kind: of each instruction's value. */
void fl_prog_choose_mode(fl_prog *g, const uint8_t *kind, int workers);
/* How operand i is walked, and how far it reaches. */
void fl_prog_access(fl_prog *g, int i);
/* A dim in which some operand has unit stride while it does not in dim 'last'; -1: none. */
int fl_jumping_dim(const fl_kernel *k, int last);
/* lean.c: afterwards g->k is k without what has no effect; 0 when memory is out. */
int fl_prog_lean(fl_prog *g, const fl_kernel *k);

/* Of its values a, b, c. */
static inline int fl_operand_count(const fl_instr *x) {
  switch (x->code) {
    case FL_I_OP: return fl_ops[x->op].form == FL_FORM_UNARY ? 1 :
                         fl_ops[x->op].form == FL_FORM_BINARY ? 2 : 3;
    case FL_I_CAST: case FL_I_GATHER: case FL_I_REDUCE: return 1;
    case FL_I_INDEX: case FL_I_RANDOM: return 3;
    default: return 0;
  }
}
#endif
