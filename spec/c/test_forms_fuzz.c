/* A short run of forms_fuzz.c with the tests: 200 programs, always the same. */
#include "forms_fuzz.c"
