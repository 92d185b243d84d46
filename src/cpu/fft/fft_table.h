/* The transforms of fft_loops.h in f32 and f64, compiled for each instruction set (base/isa.h).
** Without AVX a vector of 32 bytes is two of 16. */
#include "cpu/fft/fft.h"
#include "base/isa.h"
#include <stddef.h>

#define loops32 FL_ISA_NAME(fl_fft32)
#define loops64 FL_ISA_NAME(fl_fft64)
#define T float
#define BYTES (FL_ISA_BYTES < 32 ? 32 : FL_ISA_BYTES)
#define NAME(x) x##32
#include "cpu/fft/fft_loops.h"
#define T double
#define BYTES (FL_ISA_BYTES < 32 ? 32 : FL_ISA_BYTES)
#define NAME(x) x##64
#include "cpu/fft/fft_loops.h"
