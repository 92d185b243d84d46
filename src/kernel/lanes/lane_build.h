/* What lane.c (statements) and lane_expr.c (expressions) share while a kernel is compiled. */
#ifndef FL_KERNEL_LANE_BUILD_H
#define FL_KERNEL_LANE_BUILD_H
#include "kernel/lanes/lane_code.h"
#include <stddef.h>

/* A value that is in the register 'reg'. An expression with an equal key uses that register as long
** as the versions are current, that is, neither 'reg' nor an operand has been assigned since. */
typedef struct fl_lane_known {
  int32_t key[4], version[3];   /* key[0]: the function (FL_LANE_FN), ~(FL_LI_INDEX | class << 8),
                                ** or ~(FL_LI_LOAD | variable << 8); then the registers of up to
                                ** three operands, -1: none (of a load: the index, and -2 minus the
                                ** version of the variable's contents). version: of these registers;
                                ** 0: none */
  int32_t reg, reg_version;
} fl_lane_known;

typedef struct fl_lane_builder {
  fl_mem *mem;
  const fl_kfunc *f;
  fl_lane_code *code;
  fl_lane_shape shape;
  struct { fl_lane_known *at; int64_t n, cap; } known;
  struct { int32_t *at; int64_t n, cap; } version;    /* by register: time of its last assignment;
                                                      ** 0: it is computed once */
  struct { int32_t *at; int64_t n, cap; } info;       /* by register: info of an index, or -1 */
  int32_t *var_reg;           /* by variable: its register; -1: an array */
  int32_t *var_track;         /* by variable: number of its flags (FL_LI_BEGIN); -1: none */
  int32_t *var_memory;        /* by variable: version of its contents (arrays) */
  uint8_t *guess;             /* by site: is the load only a guess? (facts/guess.h) */
  int32_t special[FL_KSPECIAL_COUNT];       /* its register, or -1 */
  int32_t clock;              /* counts versions */
  int32_t stmt, line;         /* statement (number in pre-order) and line that are compiled */
  int32_t mask_depth;         /* masks in use */
  int failed;
  struct fl_lane_place_ctx *around;   /* the innermost construct around (lane.c) */
} fl_lane_builder;

fl_lane_ins *fl_lane_emit(fl_lane_builder *b, int op);     /* never NULL: if memory is out, 'failed'
                                                           ** is set, and the first instruction is
                                                           ** given again */
/* Emits an instruction with the result dst and the operands x, y, z: registers, or -1: none. */
fl_lane_ins *fl_lane_emit_on(fl_lane_builder *b, int op, int32_t dst, int32_t x, int32_t y,
                             int32_t z);
/* temporary: it holds a value of an expression, not a variable. */
int32_t fl_lane_reg_new(fl_lane_builder *b, int uniform, int wide, int temporary);
/* The register that holds x. It is valid until a value that x reads changes. */
int32_t fl_lane_expr(fl_lane_builder *b, const fl_kexpr *x);
/* The value of x as a vector: one that is uniform is copied to all lanes. */
int32_t fl_lane_vector(fl_lane_builder *b, const fl_kexpr *x);
int32_t fl_lane_splat(fl_lane_builder *b, int32_t reg);      /* reg as such a vector */
/* The register of an index. *info: number of its fl_lane_info, which FL_LI_INDEX computes; -1: the
** register is a uniform I64. */
int32_t fl_lane_index(fl_lane_builder *b, const fl_kexpr *x, int32_t *info);
/* The register of var[index], with 'info' from fl_lane_index. site: number of the access; -1:
** none. */
int32_t fl_lane_load(fl_lane_builder *b, int var, int32_t index, int32_t info, int line,
                     int32_t site);
/* dst = reg, with or without blending under the mask. start: the first instruction that computes
** the value; the last one is made to write to dst itself, if possible. */
void fl_lane_assign(fl_lane_builder *b, int32_t dst, int32_t reg, int blend, int64_t start);
int32_t fl_lane_cast(fl_lane_builder *b, int32_t reg, int from, int to);
int32_t fl_lane_binary(fl_lane_builder *b, int op, int type, int32_t x, int32_t y);
/* Assigns registers to slots after all code is emitted (lane_slots.c). 0: no memory. */
int fl_lane_give_slots(fl_lane_builder *b);
static inline int fl_lane_uniform(const fl_lane_builder *b, int32_t reg) {
  return b->code->regs.at[reg].uniform;
}
static inline int fl_lane_masks_new(fl_lane_builder *b) {           /* the first of two numbers */
  const int m = b->mask_depth;
  b->mask_depth += 2;
  if (b->mask_depth > b->code->n_masks) b->code->n_masks = b->mask_depth;
  return m;
}
#endif
