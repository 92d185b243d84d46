/*
** Deflate (RFC 1951), packing: one block with the fixed codes, matches found by chains of equal
** hashes of three bytes, the longest of a few candidates taken. Drawings and other images with flat
** areas become small; the bytes depend on the input alone, not on a library or its version.
** Unpacking is in file.c.
*/
#include "io/io.h"
#include <string.h>

enum { WINDOW = 32768, HASHES = 32768, LEAST = 3, LONGEST = 258, CANDIDATES = 12, END = 256 };

typedef struct packer {
  unsigned char *at, *end;
  uint64_t bits;              /* bits not yet written, the first one lowest */
  int count, full;            /* the number of these bits; full: there was no room */
} packer;

static void put(packer *p, uint32_t bits, int n) {
  p->bits |= (uint64_t)bits << p->count;
  for (p->count += n; p->count >= 8; p->count -= 8, p->bits >>= 8) {
    if (p->at == p->end) p->full = 1;
    else *p->at++ = (unsigned char)p->bits;
  }
}

/* A Huffman code is written highest bit first. */
static void put_code(packer *p, uint32_t code, int n) {
  uint32_t turned = 0;
  for (int i = 0; i < n; i++) turned |= (code >> i & 1) << (n - 1 - i);
  put(p, turned, n);
}

static void put_symbol(packer *p, int s) {
  if (s < 144) put_code(p, (uint32_t)(0x30 + s), 8);
  else if (s < 256) put_code(p, (uint32_t)(0x190 + s - 144), 9);
  else if (s < 280) put_code(p, (uint32_t)(s - 256), 7);
  else put_code(p, (uint32_t)(0xC0 + s - 280), 8);
}

/* The class (deflate's code) of a length or distance v. A class has 2^extra values; each number of
** extra bits has 'each' classes, 0 twice as many. *rest: v's number within its class. */
static int class_of(int v, int each, int *extra, int *rest) {
  int width = 0, first = 0, k = 0;
  for (int left = 2 * each; first + (1 << width) <= v; k++) {
    first += 1 << width;
    if (--left == 0) width++, left = each;
  }
  *extra = width;
  *rest = v - first;
  return k;
}

static void put_match(packer *p, int length, int distance) {
  int extra, rest, k = class_of(length - LEAST, 4, &extra, &rest);
  if (length == LONGEST) k = 28, extra = 0;
  put_symbol(p, END + 1 + k);
  if (extra) put(p, (uint32_t)rest, extra);
  k = class_of(distance - 1, 2, &extra, &rest);
  put_code(p, (uint32_t)k, 5);
  if (extra) put(p, (uint32_t)rest, extra);
}

static uint32_t hash(const unsigned char *s) {
  return ((uint32_t)s[0] << 16 | (uint32_t)s[1] << 8 | s[2]) * 2654435761u >> 17;
}

/* Adds position i to its chain. Positions count from 1, and 0 ends a chain. */
static void enter(uint32_t *work, const unsigned char *raw, size_t i, size_t n) {
  if (i + LEAST > n) return;
  uint32_t *head = work + hash(raw + i);
  work[HASHES + i % WINDOW] = *head;
  *head = (uint32_t)i + 1;
}

/* The number of equal bytes, at most 'most'. */
static int equal(const unsigned char *a, const unsigned char *b, int most) {
  int n = 0;
  while (n < most && a[n] == b[n]) n++;
  return n;
}

/* The longest match for position i, 0 if there is none. The place one row earlier is tried as
** well. */
static int match(const uint32_t *work, const unsigned char *raw, size_t i, size_t n, size_t row,
                 int *distance) {
  const int most = n - i < LONGEST ? (int)(n - i) : LONGEST;
  int best = 0;
  if (most < LEAST) return 0;
  uint32_t at = work[hash(raw + i)];
  for (int k = 0; k < CANDIDATES && at > 0 && i - (at - 1) < WINDOW && best < most; k++) {
    const int length = equal(raw + at - 1, raw + i, most);
    if (length > best) best = length, *distance = (int)(i - (at - 1));
    at = work[HASHES + (at - 1) % WINDOW];
  }
  if (best < most && i >= row && row < WINDOW) {
    const int length = equal(raw + i - row, raw + i, most);
    if (length > best) best = length, *distance = (int)row;
  }
  return best >= LEAST ? best : 0;
}

size_t fl_deflate(const unsigned char *raw, size_t n, size_t row, unsigned char *to, size_t most,
                  uint32_t *work) {
  packer p = { to, to + most, 0, 0, 0 };
  if (n >= UINT32_MAX) return 0;
  memset(work, 0, HASHES * sizeof *work);
  put(&p, 1, 1);                                /* the last block */
  put(&p, 1, 2);                                /* has the fixed codes */
  for (size_t i = 0; i < n && !p.full;) {
    int distance = 0, length = match(work, raw, i, n, row, &distance);
    if (length) put_match(&p, length, distance);
    else {
      put_symbol(&p, raw[i]);
      length = 1;
    }
    for (; length > 0; length--) enter(work, raw, i++, n);
  }
  put_symbol(&p, END);
  put(&p, 0, 7);                                /* to whole bytes */
  return p.full ? 0 : (size_t)(p.at - to);
}
