/* What depends on the instruction set that a file is compiled for: the bytes of a vector, and names
** (of VM_ISA) that two of its files share. */
#ifndef FL_CPU_VM_BYTES_H
#define FL_CPU_VM_BYTES_H
#if defined(__AVX512F__)
#define VM_BYTES 64
#elif defined(__AVX2__)
#define VM_BYTES 32
#else
#define VM_BYTES 16
#endif
#define VM_NAMED(name) VM_NAMED_(name, VM_ISA)
#define VM_NAMED_(name, isa) VM_NAMED__(name, isa)
#define VM_NAMED__(name, isa) name##_##isa
#endif
