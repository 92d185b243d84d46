/* A short run of parts_fuzz.c with the tests: 200 programs, always the same. */
#include "parts_fuzz.c"
