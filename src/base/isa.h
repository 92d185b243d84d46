/*
** The instruction set that a file is compiled for. CMakeLists.txt lists the sources that are
** compiled once for each set: a file per set defines FL_ISA (base, avx2, avx512), includes the
** source, and is compiled with the set's flags.
*/
#ifndef FL_BASE_ISA_H
#define FL_BASE_ISA_H

/* name_base, name_avx2 or name_avx512 */
#define FL_ISA_NAME(name) FL_ISA_NAME_(name, FL_ISA)
#define FL_ISA_NAME_(name, isa) FL_ISA_NAME__(name, isa)
#define FL_ISA_NAME__(name, isa) name##_##isa
#define FL_ISA_TEXT FL_ISA_TEXT_(FL_ISA)
#define FL_ISA_TEXT_(isa) FL_ISA_TEXT__(isa)
#define FL_ISA_TEXT__(isa) #isa

#if defined(__AVX512F__)
enum { FL_ISA_LEVEL = 2 };
#define FL_ISA_BYTES 64                  /* of a vector */
#elif defined(__AVX2__)
enum { FL_ISA_LEVEL = 1 };
#define FL_ISA_BYTES 32
#else
enum { FL_ISA_LEVEL = 0 };
#define FL_ISA_BYTES 16
#endif
#endif
