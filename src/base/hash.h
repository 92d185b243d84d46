/* fl_hash64: fast, not cryptographic, and no file is found by it (hash.c). fl_sha256: for names and
** checks of files. */
#ifndef FL_BASE_HASH_H
#define FL_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>
uint64_t fl_hash64(const void *p, size_t n, uint64_t seed);
static inline uint64_t fl_mix64(uint64_t a, uint64_t b) {
  const __uint128_t p = (__uint128_t)(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD1B54A32D192ED03u);
  return (uint64_t)p ^ (uint64_t)(p >> 64);
}
void fl_sha256(const void *p, size_t n, uint8_t digest[32]);
#endif
