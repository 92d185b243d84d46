/* The loops of vm_scan.h for AVX-512; compiled with the flags of its name. */
#define SCAN_TABLE fl_scan_avx512
#include "cpu/vm_scan.h"
