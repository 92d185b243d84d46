/*
** Compares cuFFT's header, where a machine has it, with src/cuda/api/cufft.def and cufft.h. Nothing
** runs; the test is that this file compiles:
**   cc -std=c11 -D_GNU_SOURCE -Isrc -I<toolkit>/include -Werror -fsyntax-only spec/c/check_cufft.c
*/
#include <cufft.h>
#include "cuda/api/cufft_api.h"

#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
_Static_assert(sizeof(fl_cufft_status) == sizeof(cufftResult), "a status");
_Static_assert(sizeof(fl_cufft_type) == sizeof(cufftType), "a type");
_Static_assert(sizeof(int) == sizeof(cufftHandle), "a plan");
SAME(FL_CUFFT_OK, CUFFT_SUCCESS);
SAME(FL_CUFFT_ALLOC_FAILED, CUFFT_ALLOC_FAILED);
SAME(FL_CUFFT_EXEC_FAILED, CUFFT_EXEC_FAILED);
SAME(FL_CUFFT_FORWARD, CUFFT_FORWARD);
SAME(FL_CUFFT_INVERSE, CUFFT_INVERSE);
SAME(FL_CUFFT_R2C, CUFFT_R2C);
SAME(FL_CUFFT_C2R, CUFFT_C2R);
SAME(FL_CUFFT_C2C, CUFFT_C2C);
SAME(FL_CUFFT_D2Z, CUFFT_D2Z);
SAME(FL_CUFFT_Z2D, CUFFT_Z2D);
SAME(FL_CUFFT_Z2Z, CUFFT_Z2Z);

/* Our parameter lists with the library's types. */
#define fl_cufft_stream cudaStream_t
#define fl_cufft_type cufftType
#define fl_cufft_c32 cufftComplex
#define fl_cufft_r32 cufftReal
#define fl_cufft_c64 cufftDoubleComplex
#define fl_cufft_r64 cufftDoubleReal
#define CUFFT(name, params, args) cufftResult (*check_##name) params = name;
#include "cuda/api/cufft.def"
