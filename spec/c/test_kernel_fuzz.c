/* A short run of kernel_fuzz.c with the tests: 200 programs, always the same. */
#include "kernel_fuzz.c"
