/* Pairs of operations (vm_pair.h), compiled with the flags of this file's name. */
#define PAIR_TABLE fl_vm_pairs_base
#define VM_ISA base
#include "cpu/vm_pair.h"
