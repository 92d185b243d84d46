/*
** Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
** SC'11). Element i of a draw with counter base c takes word i % 4 of block c + i / 4;
** the key is the seed. The text shared with CUDA is in tensor/math.h; this is the generator's
** state, which belongs to a context.
*/
#ifndef FL_BASE_PHILOX_H
#define FL_BASE_PHILOX_H
#include <stdint.h>
typedef struct fl_rng { uint64_t seed, counter; } fl_rng;
/* Reserves counters for n elements, when the op is recorded: returns the base block. */
static inline uint64_t fl_rng_take(fl_rng *r, int64_t n) {
  const uint64_t base = r->counter;
  r->counter += ((uint64_t)n + 3) / 4;
  return base;
}
#endif
