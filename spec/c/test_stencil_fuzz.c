/* A short run of stencil_fuzz.c with the tests: 200 programs, always the same. */
#include "stencil_fuzz.c"
