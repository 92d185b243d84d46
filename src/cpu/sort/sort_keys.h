/*
** Sort keys: unsigned integers whose order is that of the values. NaN is above everything and
** all NaN are one key; -0 and +0 are one key. A descending order is the ascending one of the
** complement, so ties keep their order in both. kernels/sort.cu has the same text: positions
** must agree on every device.
*/
#ifndef FL_CPU_SORT_KEYS_H
#define FL_CPU_SORT_KEYS_H
#include "tensor/dtype.h"
#include <string.h>

/* The key of a float that has 'bits' bits, which are b; inf: the bits of its type's infinity. */
static inline uint64_t fl_key_float(uint64_t b, int bits, uint64_t inf) {
  const uint64_t sign = (uint64_t)1 << (bits - 1), all = sign | (sign - 1);
  const uint64_t size = b & (sign - 1);
  if (size > inf) return all;                  /* NaN */
  if (size == 0) return sign;                  /* -0 is +0 */
  return b & sign ? ~b & all : b | sign;
}

static inline uint64_t fl_key_f64(double x) {
  uint64_t b;
  memcpy(&b, &x, 8);
  return fl_key_float(b, 64, 0x7FF0000000000000u);
}
/* The key of an f32, the most frequent case, with 32-bit operations only. */
static inline uint64_t fl_key_f32(float x) {
  uint32_t b;
  memcpy(&b, &x, 4);
  const uint32_t negative = (uint32_t)((int32_t)b >> 31);
  uint32_t k = b ^ (negative | 0x80000000u);
  k = (b << 1) == 0 ? 0x80000000u : k;
  return (b << 1) > 0xFF000000u ? 0xFFFFFFFFu : k;
}
static inline uint64_t fl_key_f16(uint16_t b) { return fl_key_float(b, 16, 0x7C00); }
static inline uint64_t fl_key_bf16(uint16_t b) { return fl_key_float(b, 16, 0x7F80); }
static inline uint64_t fl_key_i64(int64_t x) { return (uint64_t)x ^ (uint64_t)1 << 63; }
static inline uint64_t fl_key_i32(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
static inline uint64_t fl_key_i16(int16_t x) { return (uint16_t)((uint16_t)x ^ 0x8000u); }
static inline uint64_t fl_key_i8(int8_t x) { return (uint8_t)((uint8_t)x ^ 0x80u); }
static inline uint64_t fl_key_u8(uint8_t x) { return x; }
static inline uint64_t fl_key_bool(uint8_t x) { return x != 0; }

/* Bits of a key; bool has one. */
static inline int fl_key_bits(int dtype) {
  return dtype == FLAME_BOOL ? 1 : 8 * fl_dtype_size(dtype);
}

/* X(enum, C storage type, key function) for every dtype. */
#define FL_KEY_TYPES(X) \
  X(F64, double, fl_key_f64) X(F32, float, fl_key_f32) X(F16, uint16_t, fl_key_f16) \
  X(BF16, uint16_t, fl_key_bf16) X(I64, int64_t, fl_key_i64) X(I32, int32_t, fl_key_i32) \
  X(I16, int16_t, fl_key_i16) X(I8, int8_t, fl_key_i8) X(U8, uint8_t, fl_key_u8) \
  X(BOOL, uint8_t, fl_key_bool)

/* A key with the 0-based position it came from. In rows of less than 2^32 elements of at most 32
** bits both are in one word, otherwise in two. */
typedef uint64_t fl_slim;
typedef struct fl_wide { uint64_t key, at; } fl_wide;
static inline int fl_key_slim(int dtype, int64_t n) {
  return fl_dtype_size(dtype) <= 4 && n < (int64_t)1 << 32;
}
static inline int64_t fl_key_bytes(int dtype, int64_t n) {
  return fl_key_slim(dtype, n) ? (int64_t)sizeof(fl_slim) : (int64_t)sizeof(fl_wide);
}

/* Elements first .. first + n - 1 of the row x with their keys, complemented when 'flip' is
** not 0. *any and *all: the 'or' and the 'and' of all keys (may be NULL). */
void fl_slim_make(int dtype, const void *x, int64_t first, int64_t n, int flip, fl_slim *e,
                  uint64_t *any, uint64_t *all);
void fl_wide_make(int dtype, const void *x, int64_t first, int64_t n, int flip, fl_wide *e,
                  uint64_t *any, uint64_t *all);

/* Stable sort of a, whose keys differ in their lowest 'bits' bits at most: out gets the 1-based
** positions. b: n elements, as room; a is destroyed. count: FL_RADIX_COUNTS words. */
enum { FL_RADIX_BITS = 11, FL_RADIX_COUNTS = 2 << FL_RADIX_BITS };
void fl_slim_sort(fl_slim *a, fl_slim *b, int64_t n, int bits, int64_t *out, int64_t *count);
void fl_wide_sort(fl_wide *a, fl_wide *b, int64_t n, int bits, int64_t *out, int64_t *count);

/* Moves the k elements of a that a stable sort by 'bits' bits would put first to sel, unsorted;
** elements of equal keys keep their order in a. a is destroyed. With sel NULL it only finds the
** k-th. Returns the 0-based position of the first element whose key is the k-th's. */
int64_t fl_slim_select(fl_slim *a, int64_t n, int bits, int64_t k, fl_slim *sel, int64_t *count);
int64_t fl_wide_select(fl_wide *a, int64_t n, int bits, int64_t k, fl_wide *sel, int64_t *count);
#endif
