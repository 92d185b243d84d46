/* The loops of vm_scan.h for AVX2; compiled with the flags of its name. */
#define SCAN_TABLE fl_scan_avx2
#include "cpu/vm_scan.h"
