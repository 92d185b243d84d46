/*
** What the tests of the CPU's calls (cpu/calls.h: sorts, convolutions and other ops that no kernel
** is generated for) share: random numbers from a seed, and a context with a CPU device.
*/
#ifndef CALL_SETUP_H
#define CALL_SETUP_H
#include "cpu/calls.h"
#include <stdlib.h>

static uint64_t state;                 /* of the random numbers */
static inline uint64_t bits(void) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static inline double unit(void) { return (double)(bits() >> 11) * 0x1p-53; }
static inline int64_t pick(int64_t lo, int64_t hi) {
  return lo + (int64_t)(bits() % (uint64_t)(hi - lo + 1));
}

typedef struct setup { flame_context *c; fl_device d; } setup;
static inline setup *open_setup(int threads) {
  setup *s = calloc(1, sizeof *s);
  s->c = calloc(1, sizeof *s->c);
  if (fl_cpu_open(s->c, &s->d, threads)) abort();
  ((fl_cpu *)s->d.state)->stop = &s->c->interrupted;
  return s;
}
/* Opens a setup after setting an environment variable, which the device reads as it is opened. */
static inline setup *open_setup_with(int threads, const char *name, const char *value) {
  setenv(name, value, 1);
  return open_setup(threads);
}
/* Frees the scratch memory that the device keeps. The next call then gets exactly as much as it
** asks for, so that a sanitizer sees when it uses more. */
static inline void drop_scratch(setup *s) {
  fl_cpu *cpu = s->d.state;
  fl_free(&s->c->mem, cpu->shared, (size_t)cpu->shared_bytes);
  cpu->shared = NULL;
  cpu->shared_bytes = 0;
}
/* Closes the device and frees the setup. Returns 1 if all memory was released. */
static inline int close_setup(setup *s) {
  s->d.table->close(&s->d);
  const int clean = s->c->mem.live_bytes == 0 && s->c->mem.live_blocks == 0;
  free(s->c);
  free(s);
  return clean;
}
#endif
