/*
** PNG files of images, written: 8 or 16 bits a channel, grey or colour, with alpha or without.
** Pixels are not compressed (deflate's stored blocks), so that writing needs no library; a viewer
** or optimiser may pack them. Channels come as planes, as networks have them. png_read.c reads
** them.
*/
#include "io/io.h"
#include <string.h>

enum { STORED = 65535 }; /* most bytes of a stored block */

typedef struct image {
  const void *planes;
  int64_t channels, height, width;
  int wide;                     /* planes of i32, 16 bits each in the file */
} image;

static void put32(unsigned char *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* length, type, data, checksum of type and data */
static flame_status chunk(fl_writer *o, const char *type, const void *data, size_t n) {
  unsigned char head[8], tail[4];
  put32(head, (uint32_t)n);
  memcpy(head + 4, type, 4);
  put32(tail, fl_io_crc(fl_io_crc(0, type, 4), data, n));
  flame_status e = fl_writer_write(o, head, sizeof head);
  if (e == FLAME_OK && n) e = fl_writer_write(o, data, n);
  return e == FLAME_OK ? fl_writer_write(o, tail, sizeof tail) : e;
}

/* Rows of pixels, each behind its filter byte 0. Returns a value that 16 bits do not hold, or 0. */
static int32_t rows_of(const image *v, unsigned char *to) {
  const int64_t plane = v->height * v->width;
  const unsigned char *narrow = v->planes;
  const int32_t *wide = v->planes;
  for (int64_t y = 0; y < v->height; y++) {
    *to++ = 0;
    for (int64_t x = 0; x < v->width; x++)
      for (int64_t c = 0; c < v->channels; c++) {
        const int64_t at = c * plane + y * v->width + x;
        if (!v->wide) {
          *to++ = narrow[at];
          continue;
        }
        if (wide[at] < 0 || wide[at] > 65535) return wide[at];
        *to++ = (unsigned char)(wide[at] >> 8);
        *to++ = (unsigned char)wide[at];
      }
  }
  return 0;
}

static uint32_t adler(const unsigned char *p, size_t n) {
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < n; i++) {
    a = (a + p[i]) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

/* zlib's form of n raw bytes: header, stored blocks, checksum. Returns its length. */
static size_t stored(const unsigned char *raw, size_t n, unsigned char *to) {
  unsigned char *p = to;
  *p++ = 0x78, *p++ = 0x01;
  for (size_t at = 0; at < n; at += STORED) {
    const size_t len = n - at < STORED ? n - at : STORED;
    *p++ = at + len == n;
    for (int i = 0; i < 2; i++) *p++ = (unsigned char)(len >> 8 * i);
    for (int i = 0; i < 2; i++) *p++ = (unsigned char)(~len >> 8 * i);
    memcpy(p, raw + at, len);
    p += len;
  }
  put32(p, adler(raw, n));
  return (size_t)(p + 4 - to);
}

static flame_status write_chunks(fl_writer *o, const image *v, const unsigned char *data,
                                 size_t n) {
  static const unsigned char signature[8] = { 0x89, 'P', 'N', 'G', 13, 10, 26, 10 };
  unsigned char head[13] = { 0 };
  put32(head, (uint32_t)v->width);
  put32(head + 4, (uint32_t)v->height);
  static const unsigned char types[5] = { 0, 0, 4, 2, 6 };      /* by channels */
  head[8] = v->wide ? 16 : 8;
  head[9] = types[v->channels];
  flame_status e = fl_writer_write(o, signature, sizeof signature);
  if (e == FLAME_OK) e = chunk(o, "IHDR", head, sizeof head);
  if (e == FLAME_OK) e = chunk(o, "IDAT", data, n);
  return e == FLAME_OK ? chunk(o, "IEND", "", 0) : e;
}

/* raw and packed are as long as the image asks for. */
static flame_status write_image(flame_context *c, const char *path, const image *v,
                                unsigned char *raw, size_t n, unsigned char *packed) {
  fl_writer o;
  const int32_t beyond = rows_of(v, raw);
  if (beyond != 0)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
                   "%.150s: the value %d is not in the range of a PNG of i32, "
                                  "0 to 65535" FL_DO ": divide, or save u8", path, (int)beyond);
  const size_t bytes = stored(raw, n, packed);
  flame_status e = fl_writer_open(&o, c, "save", path);
  if (e == FLAME_OK) e = write_chunks(&o, v, packed, bytes);
  if (e == FLAME_OK) e = fl_writer_commit(&o);
  fl_writer_close(&o);
  return e;
}

flame_status fl_png_save(flame_context *c, const char *path, fl_node *n) {
  const fl_layout *l = n->shape;
  const int64_t *s = l->size + (l->rank == 3);
  const image v = { NULL, l->rank == 3 ? l->size[0] : 1, s[0], s[1], n->dtype == FLAME_I32 };
  const int fits = (n->dtype == FLAME_U8 || v.wide) && (l->rank == 2 || l->rank == 3) &&
                   v.channels >= 1 && v.channels <= 4 && v.height > 0 &&
                   v.width > 0 && v.height < 1 << 24 && v.width < 1 << 24 && l->numel < 1 << 30;
  if (!fits)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
                   "%.150s: a PNG needs u8 or i32 of shape (h, w) or (1 to 4, h, w), "
                   "below 2^30 values", path);
  const size_t raw_bytes = (size_t)((v.wide + 1) * l->numel + v.height),
               packed_bytes = raw_bytes + 5 * (raw_bytes / STORED + 1) + 6;
  size_t bytes = 0;
  image w = v;
  void *planes = fl_io_bytes_of(c, n, &bytes);
  if (!planes) return c->err.code;
  unsigned char *raw = fl_alloc(&c->mem, raw_bytes),
                *packed = raw ? fl_alloc(&c->mem, packed_bytes) : NULL;
  w.planes = planes;
  const flame_status e = packed ? write_image(c, path, &w, raw, raw_bytes, packed)
                                : FL_FAIL(c, FLAME_NO_MEMORY, "save",
                                          "no host memory for an image");
  fl_free(&c->mem, packed, packed_bytes);
  fl_free(&c->mem, raw, raw_bytes);
  fl_free(&c->mem, planes, bytes);
  return e;
}
