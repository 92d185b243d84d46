/*
** PNG files of images, written: 8 or 16 bits per channel, grey or colour, with alpha or without.
** Pixels are packed by deflate.c, so that writing needs no library and gives the same bytes
** everywhere; where that does not make them shorter they are in deflate's stored blocks. Channels
** come as planes, as networks have them. png_read.c reads them.
*/
#include "io/io.h"
#include <string.h>

enum { STORED = 65535 }; /* most bytes of a stored block */

typedef struct image {
  const void *planes;
  int64_t channels, height, width;
  int wide;                     /* 1: the planes are i32, and samples have 16 bits in the file */
} image;

static void put32(unsigned char *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* Writes a chunk: length, type, data, and the checksum of type and data. Returns the address after
** it. */
static unsigned char *chunk(unsigned char *p, const char *type, const void *data, size_t n) {
  put32(p, (uint32_t)n);
  memcpy(p + 4, type, 4);
  if (data != p + 8) memcpy(p + 8, data, n);
  put32(p + 8 + n, fl_io_crc(0, p + 4, 4 + n));
  return p + 12 + n;
}

/* Writes rows of pixels, each after its filter byte 0. Returns a value that does not fit 16 bits,
** or 0. */
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

/* Writes n raw bytes in zlib's format: header, stored blocks, checksum. Returns the length. */
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

enum { AROUND = 8 + 12 + 13 + 12 + 12 };     /* bytes of a file in addition to the packed pixels */

/* Writes the file of the rows in 'raw' (n bytes) to 'to', which has room for the unpacked rows.
** Returns its length. */
static size_t assemble(const image *v, const unsigned char *raw, size_t n, uint32_t *work,
                       unsigned char *to) {
  static const unsigned char signature[8] = { 0x89, 'P', 'N', 'G', 13, 10, 26, 10 };
  static const unsigned char types[5] = { 0, 0, 4, 2, 6 };      /* by channels */
  unsigned char head[13] = { 0 }, *p = to;
  put32(head, (uint32_t)v->width);
  put32(head + 4, (uint32_t)v->height);
  head[8] = v->wide ? 16 : 8;
  head[9] = types[v->channels];
  memcpy(p, signature, sizeof signature);
  p = chunk(p + sizeof signature, "IHDR", head, sizeof head);
  const size_t most = n + 5 * (n / STORED + 1),
               packed = fl_deflate(raw, n, n / (size_t)v->height, p + 10, most, work);
  size_t bytes;
  if (packed) {
    p[8] = 0x78, p[9] = 0x01;                                   /* zlib's header */
    put32(p + 10 + packed, adler(raw, n));
    bytes = packed + 6;
  } else bytes = stored(raw, n, p + 8);
  p = chunk(p, "IDAT", p + 8, bytes);
  return (size_t)(chunk(p, "IEND", "", 0) - to);
}

/* Writes an image, given as planes, to 'to'; 'name' is for messages. */
static flame_status pack(flame_context *c, const char *name, const image *v, size_t raw_bytes,
                         fl_png *to) {
  fl_mem *m = &c->mem;
  const size_t work_bytes = FL_DEFLATE_WORK * sizeof(uint32_t);
  unsigned char *raw = fl_alloc(m, raw_bytes);
  uint32_t *work = raw ? fl_alloc(m, work_bytes) : NULL;
  flame_status e = FLAME_OK;
  if (work) {
    const int32_t beyond = rows_of(v, raw);
    if (beyond != 0)
      e = FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
                  "%.150s: the value %d is not in the range of a PNG of i32, "
                  "0 to 65535" FL_DO ": divide, or save u8", name, (int)beyond);
    else to->n = assemble(v, raw, raw_bytes, work, to->at);
  } else e = FL_FAIL(c, FLAME_NO_MEMORY, "save", "no host memory for an image");
  fl_free(m, work, work_bytes);
  fl_free(m, raw, raw_bytes);
  return e;
}

flame_status fl_png_pack(flame_context *c, const char *name, fl_node *n, fl_png *to) {
  const fl_layout *l = n->shape;
  const int64_t *s = l->size + (l->rank == 3);
  image v = { NULL, l->rank == 3 ? l->size[0] : 1, s[0], s[1], n->dtype == FLAME_I32 };
  const int fits = (n->dtype == FLAME_U8 || v.wide) && (l->rank == 2 || l->rank == 3) &&
                   v.channels >= 1 && v.channels <= 4 && v.height > 0 &&
                   v.width > 0 && v.height < 1 << 24 && v.width < 1 << 24 && l->numel < 1 << 30;
  *to = (fl_png){ NULL, 0, 0 };
  if (!fits)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
                   "%.150s: a PNG needs u8 or i32 of shape (h, w) or (1 to 4, h, w), below 2^30 values",
                   name);
  const size_t raw_bytes = (size_t)((v.wide + 1) * l->numel + v.height);
  size_t bytes = 0;
  void *planes = fl_io_bytes_of(c, n, &bytes);
  if (!planes) return c->err.code;
  v.planes = planes;
  to->held = raw_bytes + 5 * (raw_bytes / STORED + 1) + 6 + AROUND;
  to->at = fl_alloc(&c->mem, to->held);
  const flame_status e = to->at ? pack(c, name, &v, raw_bytes, to)
                                : FL_FAIL(c, FLAME_NO_MEMORY, "save",
                                          "no host memory for an image");
  fl_free(&c->mem, planes, bytes);
  if (e != FLAME_OK) fl_png_drop(c, to);
  return e;
}

void fl_png_drop(flame_context *c, fl_png *p) {
  fl_free(&c->mem, p->at, p->held);
  *p = (fl_png){ NULL, 0, 0 };
}

flame_status fl_png_save(flame_context *c, const char *path, fl_node *n) {
  fl_writer o;
  fl_png p;
  flame_status e = fl_png_pack(c, path, n, &p);
  if (e != FLAME_OK) return e;
  e = fl_writer_open(&o, c, "save", path);
  if (e == FLAME_OK) e = fl_writer_write(&o, p.at, p.n);
  if (e == FLAME_OK) e = fl_writer_commit(&o);
  fl_writer_close(&o);
  fl_png_drop(c, &p);
  return e;
}
