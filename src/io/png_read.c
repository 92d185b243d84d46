/*
** PNG files, read: every colour type and bit depth, interlaced or not, palettes, transparency.
** Channels come as planes, as png.c writes them: grey (h, w), grey with alpha (2, h, w), colour
** (3, h, w), colour with alpha (4, h, w); a palette is colour, and a transparent colour makes an
** alpha channel. Samples of 16 bits are i32, all others u8: fewer than 8 bits are stretched to 0 …
** 255. Gamma, colour profiles, text and other ancillary chunks are skipped, but their checksums
** must be right.
*/
#include "io/io.h"
#include <string.h>

enum { GREY = 0, COLOUR = 2, PALETTE = 3, GREY_ALPHA = 4, COLOUR_ALPHA = 6, MOST_PACKED = 1040 };

typedef struct image {
  fl_reader *in;
  int64_t width, height, raw;            /* raw: bytes of all filtered rows */
  int depth, type, interlaced;
  int samples, channels; /* samples of a pixel in the file, channels in the tensor */
  unsigned char colour[256][4];          /* the palette, with alpha */
  int colours, clear;           /* size of the palette; clear: 1: there is a transparent colour, or
                                ** the palette has alphas (tRNS) */
  int clear_sample[3];
  struct { unsigned char *at; int64_t n, cap; } packed;
} image;

static uint32_t big32(const unsigned char *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* ---- rows: passes of the interlaced form, or one --------------------------------------------- */

typedef struct pass { int x, y, dx, dy; } pass;
static const pass whole = { 0, 0, 1, 1 };
static const pass adam7[7] = {
  { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 }, { 2, 0, 4, 4 }, { 0, 2, 2, 4 }, { 1, 0, 2, 2 },
  { 0, 1, 1, 2 }
};
static int passes_of(const image *v, const pass **p) {
  *p = v->interlaced ? adam7 : &whole;
  return v->interlaced ? 7 : 1;
}

static int64_t columns(const image *v, const pass *p) {
  return (v->width - p->x + p->dx - 1) / p->dx;
}
static int64_t lines(const image *v, const pass *p) {
  return (v->height - p->y + p->dy - 1) / p->dy;
}
static int64_t row_bytes(const image *v, int64_t pixels) {
  return (pixels * v->depth * v->samples + 7) / 8;
}

/* Bytes of all rows, each after a byte for its filter; 0 if that overflows. A pass without columns
** has no rows. */
static int64_t raw_bytes(const image *v) {
  const pass *p;
  int64_t sum = 0;
  for (int k = 0, n = passes_of(v, &p); k < n; k++) {
    const int64_t w = columns(v, &p[k]), h = lines(v, &p[k]);
    int64_t bytes;
    if (w <= 0 || h <= 0) continue;
    if (__builtin_mul_overflow(h, row_bytes(v, w) + 1, &bytes) ||
        __builtin_add_overflow(sum, bytes, &sum))
      return 0;
  }
  return sum;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static flame_status read_head(image *v, const unsigned char *b) {
  /* depths: a bit for each depth that is allowed */
  static const struct { int type, samples, depths; } kinds[] = {
    { GREY, 1, 1 | 2 | 4 | 8 | 16 }, { COLOUR, 3, 8 | 16 }, { PALETTE, 1, 1 | 2 | 4 | 8 },
    { GREY_ALPHA, 2, 8 | 16 }, { COLOUR_ALPHA, 4, 8 | 16 }
  };
  v->width = big32(b);
  v->height = big32(b + 4);
  v->depth = b[8];
  v->type = b[9];
  v->interlaced = b[12];
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const int one_bit = v->depth > 0 && (v->depth & (v->depth - 1)) == 0;
    if (kinds[i].type == v->type && one_bit && (kinds[i].depths & v->depth))
      v->samples = kinds[i].samples;
  }
  if (v->samples == 0)
    return fl_reader_fail(v->in, "PNG: there is no colour type %d with %d bits", v->type, v->depth);
  if (v->width < 1 || v->height < 1 || v->width > INT32_MAX || v->height > INT32_MAX)
    return fl_reader_fail(v->in, "PNG: %lld columns and %lld rows, need 1 to 2^31 - 1",
                          (long long)v->width, (long long)v->height);
  if (b[10] || b[11] || v->interlaced > 1)
    return fl_reader_fail(v->in,
                          "PNG: compression %d, filter %d, interlace %d: need 0, 0 and 0 or 1",
                          b[10], b[11], v->interlaced);
  v->raw = raw_bytes(v);
  return v->raw > 0 ? FLAME_OK : fl_reader_fail(v->in, "PNG: the image is too large");
}

static flame_status read_palette(image *v, const unsigned char *b, int64_t n) {
  if (v->colours || n == 0 || n % 3 || n > 3 * 256)
    return fl_reader_fail(v->in,
                          "PNG: a palette of %lld bytes, need one of 3 to 768, a multiple of 3",
                          (long long)n);
  v->colours = (int)n / 3;
  for (int i = 0; i < v->colours; i++) {
    memcpy(v->colour[i], b + 3 * i, 3);
    v->colour[i][3] = 255;
  }
  return FLAME_OK;
}

/* Reads the alphas of the palette's first colours, or the one transparent colour. */
static flame_status read_clear(image *v, const unsigned char *b, int64_t n) {
  const int bytes = v->type == GREY ? 2 : v->type == COLOUR ? 6 : 0;
  if (v->clear || (v->type == PALETTE ? n < 1 || n > v->colours : bytes == 0 || n != bytes))
    return fl_reader_fail(v->in, "PNG: tRNS of %lld bytes does not fit colour type %d",
                          (long long)n, v->type);
  v->clear = 1;
  for (int64_t i = 0; v->type == PALETTE && i < n; i++) v->colour[i][3] = b[i];
  for (int i = 0; i < bytes / 2; i++)
    v->clear_sample[i] = (b[2 * i] << 8 | b[2 * i + 1]) & ((1 << v->depth) - 1);
  return FLAME_OK;
}

static int is(const unsigned char *type, const char *name) { return memcmp(type, name, 4) == 0; }

/* Reads the data of a chunk. That of IDAT is appended to v->packed; that of other chunks is used
** here and dropped. */
static flame_status read_data(image *v, const unsigned char *head, int64_t n) {
  fl_reader *f = v->in;
  unsigned char crc[4];
  const int64_t before = v->packed.n;
  if (n > fl_reader_most(f))
    return fl_reader_fail(f, "PNG: cut off: a chunk of %lld bytes at offset %lld", (long long)n,
                          (long long)f->at - 8);
  if (!FL_RESERVE(&f->c->mem, &v->packed, before + n + 1))
    return FL_FAIL(f->c, FLAME_NO_MEMORY, "load", "no host memory for an image");
  unsigned char *p = v->packed.at + before;
  flame_status e = n ? fl_reader_read(f, p, (size_t)n) : FLAME_OK;
  if (e == FLAME_OK) e = fl_reader_read(f, crc, 4);
  if (e != FLAME_OK) return e;
  if (fl_io_crc(fl_io_crc(0, head + 4, 4), p, (size_t)n) != big32(crc))
    return fl_reader_fail(f,
        "PNG: the checksum of a chunk that ends at offset %lld is wrong: the file is damaged",
        (long long)f->at);
  if (is(head + 4, "IDAT")) v->packed.n += n;
  else if (is(head + 4, "IHDR")) e = read_head(v, p);
  else if (is(head + 4, "PLTE")) e = read_palette(v, p, n);
  else if (is(head + 4, "tRNS")) e = read_clear(v, p, n);
  return e;
}

/* Checks the position of a chunk. stage: 0 before IHDR, 1 before the image data, 2 within it, 3
** after it. */
static flame_status check_order(const image *v, const unsigned char *head, int stage) {
  const unsigned char *type = head + 4;
  const int known = is(type, "IHDR") || is(type, "PLTE") || is(type, "tRNS") || is(type, "IDAT") ||
                    is(type, "IEND");
  const char *why = NULL;
  if ((stage == 0) != is(type, "IHDR")) why = "IHDR must come first, and once";
  else if (stage == 0 && big32(head) != 13) why = "IHDR must have 13 bytes";
  else if (is(type, "IDAT") && stage == 3) why = "image data are not in one piece";
  else if ((is(type, "PLTE") || is(type, "tRNS")) && stage > 1)
    why = "a palette or tRNS after image data";
  else if (is(type, "IDAT") && v->type == PALETTE && !v->colours)
    why = "colour type 3 has no palette";
  else if (is(type, "IEND") && v->packed.n == 0) why = "there are no image data";
  else if (!known && !(type[0] & 32)) why = "a chunk that is critical and unknown";
  else if (big32(head) > INT32_MAX) why = "a chunk of 2^31 bytes or more";
  return why ? fl_reader_fail(v->in, "PNG: %s, at offset %lld", why, (long long)v->in->at - 8)
             : FLAME_OK;
}

static flame_status read_chunks(image *v) {
  static const unsigned char signature[8] = { 0x89, 'P', 'N', 'G', 13, 10, 26, 10 };
  unsigned char head[8];
  int stage = 0;
  flame_status e = fl_reader_read(v->in, head, 8);
  if (e == FLAME_OK && memcmp(head, signature, 8) != 0)
    e = fl_reader_fail(v->in, "is no PNG file, or was changed as a text");
  while (e == FLAME_OK) {
    e = fl_reader_read(v->in, head, 8);
    if (e == FLAME_OK) e = check_order(v, head, stage);
    if (e == FLAME_OK) e = read_data(v, head, big32(head));
    if (is(head + 4, "IEND")) break;
    stage = is(head + 4, "IDAT") ? 2 : stage == 2 ? 3 : stage == 0 ? 1 : stage;
  }
  if (e != FLAME_OK) return e;
  v->channels = (v->type == PALETTE ? 3 : v->samples) + v->clear;
  if (v->raw / MOST_PACKED > v->packed.n)
    return fl_reader_fail(v->in, "PNG: %lld x %lld pixels do not fit into %lld packed bytes",
      (long long)v->width, (long long)v->height, (long long)v->packed.n);
  return FLAME_OK;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

static unsigned char nearest(int left, int up, int corner) {
  const int p = left + up - corner, a = p > left ? p - left : left - p,
            b = p > up ? p - up : up - p, c = p > corner ? p - corner : corner - p;
  return (unsigned char)(a <= b && a <= c ? left : b <= c ? up : corner);
}

/* Undoes the filter of n bytes; 'up' is the row above, NULL at the top; 'step' the bytes of a
** pixel, at least 1. 0: there is no such filter. */
static int unfilter(int filter, unsigned char *row, const unsigned char *up, int64_t n, int step) {
  for (int64_t i = 0; i < n; i++) {
    const int left = i < step ? 0 : row[i - step], above = up ? up[i] : 0,
              corner = up && i >= step ? up[i - step] : 0;
    switch (filter) {
      case 0: return 1;
      case 1: row[i] = (unsigned char)(row[i] + left); break;
      case 2: row[i] = (unsigned char)(row[i] + above); break;
      case 3: row[i] = (unsigned char)(row[i] + (left + above) / 2); break;
      case 4: row[i] = (unsigned char)(row[i] + nearest(left, above, corner)); break;
      default: return 0;
    }
  }
  return 1;
}

static int sample(const image *v, const unsigned char *row, int64_t i) {
  if (v->depth == 8) return row[i];
  if (v->depth == 16) return row[2 * i] << 8 | row[2 * i + 1];
  const int64_t bit = i * v->depth;
  return row[bit / 8] >> (8 - v->depth - bit % 8) & ((1 << v->depth) - 1);
}

/* Reads the channels of pixel x of a row; 0: its colour is not in the palette. */
static int pixel(const image *v, const unsigned char *row, int64_t x, int out[4]) {
  const int most = v->depth == 16 ? 65535 : 255,
            scale = v->depth < 8 ? 255 / ((1 << v->depth) - 1) : 1;
  if (v->type == PALETTE) {
    const int k = sample(v, row, x);
    for (int c = 0; c < 4; c++) out[c] = v->colour[k][c];
    return k < v->colours;
  }
  int same = 1;
  for (int c = 0; c < v->samples; c++) {
    const int s = sample(v, row, x * v->samples + c);
    same = same && v->clear && s == v->clear_sample[c];
    out[c] = s * scale;
  }
  if (v->clear) out[v->samples] = same ? 0 : most;
  return 1;
}

static flame_status put_row(const image *v, const pass *p, const unsigned char *row, int64_t y,
                            void *to) {
  const int64_t plane = v->width * v->height, w = columns(v, p);
  for (int64_t x = 0; x < w; x++) {
    const int64_t at = y * v->width + p->x + x * p->dx;
    int out[4] = { 0 };
    if (!pixel(v, row, x, out))
      return fl_reader_fail(v->in, "PNG: a pixel has a colour beyond the palette's %d", v->colours);
    for (int c = 0; c < v->channels; c++)
      if (v->depth == 16) ((int32_t *)to)[c * plane + at] = out[c];
      else ((unsigned char *)to)[c * plane + at] = (unsigned char)out[c];
  }
  return FLAME_OK;
}

static flame_status put_rows(const image *v, unsigned char *raw, void *to) {
  const pass *p;
  const int step = v->depth * v->samples < 8 ? 1 : v->depth * v->samples / 8;
  for (int k = 0, n = passes_of(v, &p); k < n; k++) {
    const int64_t w = columns(v, &p[k]), h = lines(v, &p[k]), bytes = row_bytes(v, w);
    for (int64_t y = 0; w > 0 && y < h; y++, raw += bytes + 1) {
      if (!unfilter(raw[0], raw + 1, y ? raw - bytes : NULL, bytes, step))
        return fl_reader_fail(v->in, "PNG: a row has the filter %d, need 0 to 4", raw[0]);
      const flame_status e = put_row(v, &p[k], raw + 1, p[k].y + y * p[k].dy, to);
      if (e != FLAME_OK) return e;
    }
  }
  return FLAME_OK;
}

static flame_status fill(void *arg, void *p, size_t bytes) {
  const image *v = arg;
  fl_mem *m = &v->in->c->mem;
  (void)bytes;
  unsigned char *raw = fl_alloc(m, (size_t)v->raw);
  if (!raw)
    return FL_FAIL(v->in->c, FLAME_NO_MEMORY, "load", "no %lld bytes of host memory for an image",
                   (long long)v->raw);
  flame_status e = fl_reader_inflate(v->in, v->packed.at, (size_t)v->packed.n, raw, (size_t)v->raw);
  if (e == FLAME_OK) e = put_rows(v, raw, p);
  fl_free(m, raw, (size_t)v->raw);
  return e;
}

fl_node *fl_png_read(flame_context *c, const char *path, int device) {
  fl_reader in;
  image v = { .in = &in };
  fl_node *n = NULL;
  flame_status e = fl_reader_open(&in, c, "load", path);
  if (e == FLAME_OK) e = read_chunks(&v);
  if (e == FLAME_OK) {
    const int64_t size[3] = { v.channels, v.height, v.width };
    const int grey = v.channels == 1;
    n = fl_io_node(c, device, v.depth == 16 ? FLAME_I32 : FLAME_U8, grey ? 2 : 3, size + grey,
                   fill, &v);
  }
  FL_DROP(&c->mem, &v.packed);
  fl_reader_close(&in);
  return n;
}
