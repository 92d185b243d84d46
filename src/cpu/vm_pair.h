/*
** One instruction set's table of pairs (vm_pair_loops.h); included by vm_pair_base.c and its
** fellows with PAIR_TABLE. A file of its own: in vm_table.h's it would change what the compiler
** inlines there.
*/
#include "cpu/vm.h"
#include "cpu/vm_bytes.h"
#include <string.h>

#define T double
#define SUFFIX f64
#include "cpu/vm_pair_loops.h"
#define T float
#define SUFFIX f32
#include "cpu/vm_pair_loops.h"

#define ROW(a, b) [FL_PAIR_##b] = { pair_##a##_##b##_f64, pair_##a##_##b##_f32 }
#define ROWS(a) [FL_PAIR_##a] = { ROW(a, add), ROW(a, sub), ROW(a, mul), ROW(a, rsub) }
const fl_vm_pairs PAIR_TABLE = {
  .op = { ROWS(add), ROWS(sub), ROWS(mul) },
  .dot_rows = { dot_rows_f64, dot_rows_f32 },
  .dot_cols = { dot_cols_f64, dot_cols_f32 },
};
