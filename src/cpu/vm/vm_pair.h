/*
** One instruction set's table of chains (vm_pair_loops.h), compiled for each (base/isa.h). It is
** separate from vm_table.h, where it would change what the compiler inlines.
*/
#include "cpu/vm/vm.h"
#include "base/isa.h"
#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* For COMPARE: ordered comparisons except 'ne', as in C. */
#if defined(__AVX512F__)
#define AS_gt _CMP_GT_OQ
#define AS_ge _CMP_GE_OQ
#define AS_lt _CMP_LT_OQ
#define AS_le _CMP_LE_OQ
#define AS_eq _CMP_EQ_OQ
#define AS_ne _CMP_NEQ_UQ
#else
#define AS_gt >
#define AS_ge >=
#define AS_lt <
#define AS_le <=
#define AS_eq ==
#define AS_ne !=
#endif

#define T double
#define SUFFIX f64
#define INT int64_t
#define ROOT __builtin_sqrt
#define IS_F32 0
#include "cpu/vm/vm_pair_loops.h"
#define T float
#define SUFFIX f32
#define INT int32_t
#define ROOT __builtin_sqrtf
#define IS_F32 1
#include "cpu/vm/vm_pair_loops.h"

const fl_vm_pairs FL_ISA_NAME(fl_vm_pairs) = {
  .chain = { chain_f64, chain_f32 },
  .dot_rows = { dot_rows_f64, dot_rows_f32 },
  .dot_cols = { dot_cols_f64, dot_cols_f32 },
  .half_rows = half_rows_f32,
  .half_cols = half_cols_f32,
};
