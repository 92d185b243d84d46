/* The loops of vm_scan.h for any x86-64 or other machine; compiled with the flags of its name. */
#define SCAN_TABLE fl_scan_base
#include "cpu/vm_scan.h"
