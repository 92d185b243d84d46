/* The loops of vm_table.h for AVX2, FMA and F16C; compiled with the flags of its name. */
#define VM_TABLE fl_vm_avx2
#define VM_PAIRS fl_vm_pairs_avx2
#define VM_NAME "avx2"
#define VM_ISA avx2
#define FL_VECTORS                       /* tensor/math_special.h: in forms that vectorise */
#include "cpu/vm_table.h"
