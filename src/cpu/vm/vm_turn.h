/*
** A transposed box: d[i * ds + j] = s[j * ss + i] for i < ni, j < nj. It is done in blocks of 4 x
** 4, held in vectors, so that no element is moved by itself; there is one function for elements of
** four bytes and one for those of eight. 'along': blocks follow each other along the source's rows,
** else along the target's: the cache lines of that array, if it is in memory, are then accessed
** once.
*/
#ifndef FL_CPU_VM_TURN_H
#define FL_CPU_VM_TURN_H
#include <stdint.h>

typedef uint32_t turn_4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint64_t turn_8 __attribute__((vector_size(32), aligned(8), may_alias));
typedef uint32_t turn_one_4 __attribute__((may_alias));
typedef uint64_t turn_one_8 __attribute__((may_alias));

#ifdef TURN_SHORT
#define TURN_LOOP _Pragma("GCC unroll 1")
#define TURN_ONE __asm__ volatile("" ::: "memory");
#define TURN_KIND noinline, noclone
#else
#define TURN_LOOP
#define TURN_ONE
#define TURN_KIND noinline
#endif

/* Shuffles of the elements of a and b; those of b are numbered after those of a. */
#if defined(__clang__)
#define PICK(V, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(V, a, b, ...) __builtin_shuffle(a, b, (V){ __VA_ARGS__ })
#endif

#define TURN(size) \
  static inline void turn_block_##size(turn_one_##size *d, int64_t ds, const turn_one_##size *s, \
                                       int64_t ss) { \
    const turn_##size a = *(const turn_##size *)s, b = *(const turn_##size *)(s + ss); \
    const turn_##size c = *(const turn_##size *)(s + 2 * ss), \
    e = *(const turn_##size *)(s + 3 * ss); \
    const turn_##size p = PICK(turn_##size, a, b, 0, 4, 1, 5); \
    const turn_##size q = PICK(turn_##size, c, e, 0, 4, 1, 5); \
    const turn_##size t = PICK(turn_##size, a, b, 2, 6, 3, 7); \
    const turn_##size u = PICK(turn_##size, c, e, 2, 6, 3, 7); \
    *(turn_##size *)d = PICK(turn_##size, p, q, 0, 1, 4, 5); \
    *(turn_##size *)(d + ds) = PICK(turn_##size, p, q, 2, 3, 6, 7); \
    *(turn_##size *)(d + 2 * ds) = PICK(turn_##size, t, u, 0, 1, 4, 5); \
    *(turn_##size *)(d + 3 * ds) = PICK(turn_##size, t, u, 2, 3, 6, 7); \
  } \
  static __attribute__((TURN_KIND)) void turn_##size##_bytes(void *to, int64_t ds, \
                                                             const void *from, int64_t ss, \
                                                            int64_t ni, int64_t nj, int along) { \
    turn_one_##size *d = to; \
    const turn_one_##size *s = from; \
    const int64_t wi = ni & ~(int64_t)3, wj = nj & ~(int64_t)3; \
    if (along) \
      for (int64_t j = 0; j < wj; j += 4) \
        TURN_LOOP for (int64_t i = 0; i < wi; i += 4) \
          turn_block_##size(d + i * ds + j, ds, s + j * ss + i, ss); \
    else \
      for (int64_t i = 0; i < wi; i += 4) \
        TURN_LOOP for (int64_t j = 0; j < wj; j += 4) \
          turn_block_##size(d + i * ds + j, ds, s + j * ss + i, ss); \
    for (int64_t j = 0; j < nj; j++) \
      for (int64_t i = j < wj ? wi : 0; i < ni; i++) { d[i * ds + j] = s[j * ss + i]; TURN_ONE } \
  }
TURN(4)
TURN(8)
#undef TURN
#undef PICK
#undef TURN_LOOP
#undef TURN_ONE
#undef TURN_KIND
#endif
