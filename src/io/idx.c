/*
** IDX, the format of MNIST: two zero bytes, a type, the number of axes, the sizes as 32-bit
** big-endian numbers, the elements big-endian. Values are not changed.
*/
#include "io/io.h"

static int dtype_of(unsigned char type) {
  switch (type) {
    case 0x08: return FLAME_U8;
    case 0x09: return FLAME_I8;
    case 0x0B: return FLAME_I16;
    case 0x0C: return FLAME_I32;
    case 0x0D: return FLAME_F32;
    case 0x0E: return FLAME_F64;
    default: return -1;
  }
}

typedef struct head { int dtype, rank; int64_t size[FL_MAX_AXES]; } head;

static flame_status read_sizes(fl_reader *f, head *h) {
  for (int a = 0; a < h->rank; a++) {
    unsigned char b[4];
    const flame_status e = fl_reader_read(f, b, 4);
    if (e != FLAME_OK) return e;
    h->size[a] = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
  }
  return FLAME_OK;
}

static flame_status read_head(fl_reader *f, head *h) {
  unsigned char magic[4];
  char shape[192];
  flame_status e = fl_reader_read(f, magic, 4);
  if (e != FLAME_OK) return e;
  h->dtype = dtype_of(magic[2]);
  h->rank = magic[3];
  if (magic[0] != 0 || magic[1] != 0 || h->dtype < 0)
    return fl_reader_fail(f, "is no IDX file: it begins with %02x %02x %02x %02x, need 00 00, "
                          "a type of 08 09 0b 0c 0d 0e and the number of axes",
                          magic[0], magic[1], magic[2], magic[3]);
  if (h->rank > FL_MAX_AXES)
    return fl_reader_fail(f, "%d axes at offset 3, at most %d", h->rank, FL_MAX_AXES);
  e = read_sizes(f, h);
  if (e != FLAME_OK) return e;
  const int64_t bytes = fl_io_bytes(h->dtype, h->rank, h->size);
  if (bytes < 0 || bytes > fl_reader_most(f))
    return fl_reader_fail(f,
        "cut off: shape %s of %s does not fit into %lld bytes from offset %lld on",
                      fl_shape_text(shape, h->rank, h->size), fl_dtype_name(h->dtype),
                      (long long)fl_reader_most(f), (long long)f->at);
  return FLAME_OK;
}

typedef struct source { fl_reader *in; int element; } source;

static flame_status fill(void *arg, void *p, size_t bytes) {
  const source *s = arg;
  char more;
  size_t got = 0;
  flame_status e = fl_reader_read(s->in, p, bytes);
  if (e == FLAME_OK) e = fl_reader_some(s->in, &more, 1, &got);
  if (e == FLAME_OK && got != 0)
    e = fl_reader_fail(s->in, "goes on after its last element, at offset %lld",
                       (long long)s->in->at - 1);
  if (e == FLAME_OK) fl_io_swap(p, bytes, s->element);
  return e;
}

fl_node *fl_idx_read(flame_context *c, const char *path, int device) {
  fl_reader f;
  head h = { 0, 0, { 0 } };
  fl_node *n = NULL;
  flame_status e = fl_reader_open(&f, c, "idx", path);
  if (e == FLAME_OK) e = read_head(&f, &h);
  if (e == FLAME_OK) {
    source s = { &f, fl_dtype_size(h.dtype) };
    n = fl_io_node(c, device, h.dtype, h.rank, h.size, fill, &s);
  }
  fl_reader_close(&f);
  return n;
}
