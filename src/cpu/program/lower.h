/* What lower.c uses of lower_mode.c and lean.c. */
#ifndef FL_CPU_LOWER_H
#define FL_CPU_LOWER_H
#include "cpu/program/program.h"

/* Rows of this length or longer are processed one by one; for shorter ones a row's value is copied
** to each element. */
enum { FL_UNI_ROW = 64 };

/* Chooses mode, tiles and units of g. kind[i]: the register kind of instruction i's value. */
void fl_prog_choose_mode(fl_prog *g, const uint8_t *kind, int workers);
/* Sets how operand i is walked, and which elements of it are reached. */
void fl_prog_access(fl_prog *g, int i);
/* A dim along which some operand has unit stride while its stride along dim 'last' is long; -1:
** none. */
int fl_jumping_dim(const fl_kernel *k, int last);
/* lean.c: sets g->k to k without the instructions that have no effect; 0 when memory is out. */
int fl_prog_lean(fl_prog *g, const fl_kernel *k);

/* How many of the values a, b, c the instruction has. */
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
