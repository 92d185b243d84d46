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
/* Reductions of columns: do rows of n go eight at a time? Those of a page or more; shorter ones as
** they lie, for processors look ahead along one trail a page. The shortest would wait for their
** own stores. */
#define FL_VM_EIGHT(n, T) ((n) * (int64_t)sizeof(T) >= 4096 || (n) <= 32)
#define VM_NAMED(name) VM_NAMED_(name, VM_ISA)
#define VM_NAMED_(name, isa) VM_NAMED__(name, isa)
#define VM_NAMED__(name, isa) name##_##isa
#endif
