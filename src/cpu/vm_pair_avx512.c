/* Pairs of operations (vm_pair.h), compiled with the flags of this file's name. */
#define PAIR_TABLE fl_vm_pairs_avx512
#define VM_ISA avx512
#include "cpu/vm_pair.h"
