/* The loops of vm_table.h for AVX-512 F, BW, DQ and VL; compiled with the flags of its name. */
#define VM_TABLE fl_vm_avx512
#define VM_PAIRS fl_vm_pairs_avx512
#define VM_NAME "avx512"
#define VM_ISA avx512
#define FL_VECTORS                       /* tensor/math_special.h: in forms that vectorise */
#include "cpu/vm_table.h"
