/*
** Between files and nodes: nodes from bytes that a reader gives, bytes of nodes for writers.
** Memory is little-endian on every machine that this runs on; files that are not are swapped.
*/
#include "io/io.h"
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are written as they lie in memory");

int64_t fl_io_bytes(int dtype, int rank, const int64_t *size) {
  int64_t n = fl_numel(rank, size);
  if (n < 0 || __builtin_mul_overflow(n, (int64_t)fl_dtype_size(dtype), &n)) return -1;
  return n;
}

static uint32_t crc_of_byte(uint32_t i) {
  for (int k = 0; k < 8; k++) i = i & 1 ? i >> 1 ^ 0xEDB88320u : i >> 1;
  return i;
}

uint32_t fl_io_crc(uint32_t crc, const void *p, size_t n) {
  uint32_t table[256];
  const unsigned char *b = p;
  for (uint32_t i = 0; i < 256; i++) table[i] = crc_of_byte(i);
  crc = ~crc;
  for (size_t i = 0; i < n; i++) crc = table[(crc ^ b[i]) & 255] ^ crc >> 8;
  return ~crc;
}

void fl_io_swap(void *p, size_t bytes, int element) {
  unsigned char *b = p;
  if (element < 2) return;
  for (size_t i = 0; i + (size_t)element <= bytes; i += (size_t)element)
    for (int k = 0; k < element / 2; k++) {
      const unsigned char t = b[i + (size_t)k];
      b[i + (size_t)k] = b[i + (size_t)(element - 1 - k)];
      b[i + (size_t)(element - 1 - k)] = t;
    }
}

int64_t fl_io_packed_bytes(int dtype, int packed, int rank, const int64_t *size) {
  const int64_t n = fl_io_bytes(dtype, rank, size);
  return n < 0 || !packed ? n : n / fl_dtype_size(dtype) * packed;
}

/* The elements are read into the last bytes at p, then widened from the first one on:
** element i is written at or before the place where it was read. */
flame_status fl_io_unsigned(fl_reader *f, void *p, size_t bytes, int dtype, int packed, int swap) {
  const size_t wide = (size_t)fl_dtype_size(dtype), narrow = (size_t)packed, n = bytes / wide;
  unsigned char *out = p, *in = out + (bytes - n * narrow);
  const flame_status e = fl_reader_read(f, in, n * narrow);
  if (e != FLAME_OK) return e;
  if (swap) fl_io_swap(in, n * narrow, packed);
  for (size_t i = 0; i < n; i++) {
    uint64_t v = 0;
    memcpy(&v, in + i * narrow, narrow);
    if (v > INT64_MAX)
      return fl_reader_fail(f, "element %zu is %llu, beyond i64", i + 1, (unsigned long long)v);
    memcpy(out + i * wide, &v, wide);
  }
  return FLAME_OK;
}

/* A bool is 0 or 1 in memory, whatever the file contains. */
static flame_status filled(int dtype, fl_fill fill, void *arg, void *p, size_t bytes) {
  const flame_status e = fill(arg, p, bytes);
  if (e == FLAME_OK && dtype == FLAME_BOOL)
    for (unsigned char *b = p; b < (unsigned char *)p + bytes; b++) *b = *b != 0;
  return e;
}

static fl_node *on_cpu(flame_context *c, int dtype, int rank, const int64_t *size, int64_t bytes,
                       fl_fill fill, void *arg) {
  fl_buffer *b = fl_buffer_new(c, 0, bytes);
  if (!b) return NULL;
  if (filled(dtype, fill, arg, b->ptr, (size_t)bytes) != FLAME_OK) {
    fl_buffer_release(c, b);
    return NULL;
  }
  return fl_node_stored(c, dtype, b, fl_layout_of(&c->layouts, rank, size, NULL), 0);
}

fl_node *fl_io_node(flame_context *c, int device, int dtype, int rank, const int64_t *size,
                    fl_fill fill, void *arg) {
  const int64_t bytes = fl_io_bytes(dtype, rank, size);
  if (bytes < 0) {
    FL_FAIL(c, FLAME_IO, "load", "a tensor is too large");
    return NULL;
  }
  if (device == 0) return on_cpu(c, dtype, rank, size, bytes, fill, arg);
  void *host = fl_alloc(&c->mem, (size_t)bytes);
  if (!host) {
    FL_FAIL(c, FLAME_NO_MEMORY, "load", "no %lld bytes of host memory", (long long)bytes);
    return NULL;
  }
  fl_node *n = NULL;
  if (filled(dtype, fill, arg, host, (size_t)bytes) == FLAME_OK)
    n = fl_node_from_host(c, device, dtype, rank, size, host);
  fl_free(&c->mem, host, (size_t)bytes);
  return n;
}

void *fl_io_bytes_of(flame_context *c, fl_node *n, size_t *bytes) {
  *bytes = (size_t)(n->shape->numel * fl_dtype_size(n->dtype));
  void *p = fl_alloc(&c->mem, *bytes);
  if (!p) {
    FL_FAIL(c, FLAME_NO_MEMORY, "save", "no %zu bytes of host memory", *bytes);
    return NULL;
  }
  if (fl_read_node(c, n, p, *bytes) == FLAME_OK) return p;
  fl_free(&c->mem, p, *bytes);
  return NULL;
}
