/* Transforms for any processor; fft_loops.h has the loops. */
#include "cpu/fft.h"
#include <stddef.h>

#define loops32 fl_fft_base32
#define loops64 fl_fft_base64
#define T float
#define BYTES 32
#define NAME(x) x##32
#include "cpu/fft_loops.h"
#define T double
#define BYTES 32
#define NAME(x) x##64
#include "cpu/fft_loops.h"
