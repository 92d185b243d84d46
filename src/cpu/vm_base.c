/* The loops of vm_table.h for any x86-64 or other machine; compiled with the flags of its name. */
#define VM_TABLE fl_vm_base
#define VM_PAIRS fl_vm_pairs_base
#define VM_NAME "base"
#define VM_ISA base
#include "cpu/vm_table.h"
