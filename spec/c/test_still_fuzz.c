/* A short run of still_fuzz.c with the tests: 200 programs, always the same. */
#include "still_fuzz.c"
