/*
** Two hashes. fl_hash64 mixes 16 bytes at a time by a 64x64 -> 128 multiplication. It may change
** from version to version: its values are used in tables in memory, in names within generated texts
** and for what ranks of one version compare, and no file is found by them. SHA-256 (FIPS 180-4)
** names files of the kernel cache and checks downloads.
*/
#include "base/hash.h"
#include <string.h>

static uint64_t read64(const unsigned char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

uint64_t fl_hash64(const void *data, size_t n, uint64_t seed) {
  const unsigned char *p = data;
  uint64_t h = fl_mix64(seed, (uint64_t)n);
  for (; n >= 16; n -= 16, p += 16) h = fl_mix64(read64(p) ^ h, read64(p + 8));
  unsigned char tail[16] = { 0 };
  if (n) memcpy(tail, p, n);
  h = fl_mix64(read64(tail) ^ h, read64(tail + 8));
  return fl_mix64(h, 0x2545F4914F6CDD1Du);
}

/* --- SHA-256 ---------------------------------------------------------------------- */

static const uint32_t round_constant[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
  0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
  0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
  0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
  0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
  0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
  0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
  0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
  0xc67178f2,
};

static uint32_t ror(uint32_t x, int k) {
  return x >> k | x << (32 - k);
}

static uint32_t read_be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Processes one block of 64 bytes into the state. */
static void absorb(uint32_t state[8], const uint8_t *block) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++) w[i] = read_be32(block + 4 * i);
  for (int i = 16; i < 64; i++) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) + w[i - 7] +
           (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
  }
  memcpy(v, state, sizeof v);
  for (int i = 0; i < 64; i++) {
    const uint32_t a = v[0], e = v[4];
    const uint32_t t1 = v[7] + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) +
                        ((e & v[5]) ^ (~e & v[6])) + round_constant[i] + w[i];
    const uint32_t t2 = (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) +
                        ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof v[0]);
    v[4] += t1;
    v[0] = t1 + t2;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

void fl_sha256(const void *data, size_t n, uint8_t digest[32]) {
  uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
  const uint8_t *p = data;
  size_t left = n;
  for (; left >= 64; left -= 64, p += 64) absorb(state, p);
  uint8_t tail[128] = { 0 };                 /* the rest of the data, 0x80, zeros, length in bits */
  if (left) memcpy(tail, p, left);
  tail[left] = 0x80;
  const size_t end = left < 56 ? 64 : 128;
  const uint64_t bits = (uint64_t)n * 8;
  for (int i = 0; i < 8; i++) tail[end - 1 - (size_t)i] = (uint8_t)(bits >> 8 * i);
  absorb(state, tail);
  if (end == 128) absorb(state, tail + 64);
  for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
