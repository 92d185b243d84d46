/*
** npy, NumPy's file of one array: magic, version, header length, a Python dictionary as text,
** the elements. Versions 1 to 3 are read, version 1 is written. Big-endian values are swapped and
** Fortran order is transposed. u2 becomes i32, u4 and u8 become i64; other dtypes that flame does
** not have (complex, text, objects, which are pickles) are refused by name.
*/
#include "io/npy.h"
#include "tensor/build.h"
#include "base/text.h"
#include <string.h>

enum { MAX_HEADER = 1 << 20 };

static const struct { const char *name; int dtype; } descriptors[] = {
  { "f8", FLAME_F64 }, { "f4", FLAME_F32 }, { "f2", FLAME_F16 }, { "i8", FLAME_I64 },
  { "i4", FLAME_I32 },
  { "i2", FLAME_I16 }, { "i1", FLAME_I8 }, { "u1", FLAME_U8 }, { "b1", FLAME_BOOL }
};

static const struct { const char *name; int dtype, packed; } wider[] = {
  { "u2", FLAME_I32, 2 }, { "u4", FLAME_I64, 4 }, { "u8", FLAME_I64, 8 }
};

/* ---- the dictionary ------------------------------------------------------------------ */
typedef struct cursor { const char *at, *end; } cursor;

static int take(cursor *p, char what) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\n')) p->at++;
  if (p->at >= p->end || *p->at != what) return 0;
  p->at++;
  return 1;
}

static int take_string(cursor *p, fl_span *s) {
  const char quote = take(p, '\'') ? '\'' : take(p, '"') ? '"' : 0;
  if (!quote) return 0;
  s->at = p->at;
  while (p->at < p->end && *p->at != quote && *p->at != '\\') p->at++;
  s->n = (size_t)(p->at - s->at);
  return take(p, quote);
}

static int take_word(cursor *p, const char *word) {
  const size_t n = strlen(word);
  take(p, 0);                                   /* skips space */
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0) return 0;
  p->at += n;
  return 1;
}

static int take_shape(cursor *p, fl_npy *h) {
  h->rank = 0;
  if (!take(p, '(')) return 0;
  while (!take(p, ')')) {
    int64_t v = 0;
    take(p, 0);
    if (h->rank == FL_MAX_AXES || p->at >= p->end || *p->at < '0' || *p->at > '9') return 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
      if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
          __builtin_add_overflow(v, (int64_t)(*p->at - '0'), &v))
        return 0;
    take(p, 'L');                               /* written by Python 2 */
    h->size[h->rank++] = v;
    if (take(p, ',')) continue;
    return take(p, ')');
  }
  return 1;
}

static flame_status read_descriptor(fl_reader *f, fl_span s, fl_npy *h) {
  h->dtype = -1;
  h->swap = s.n > 0 && s.at[0] == '>';
  const int order = s.n == 3 &&
                    (s.at[0] == '<' || s.at[0] == '>' || s.at[0] == '|' || s.at[0] == '=');
  for (size_t i = 0; order && i < sizeof descriptors / sizeof *descriptors; i++)
    if (memcmp(s.at + 1, descriptors[i].name, 2) == 0) h->dtype = descriptors[i].dtype;
  for (size_t i = 0; order && i < sizeof wider / sizeof *wider; i++)
    if (memcmp(s.at + 1, wider[i].name, 2) == 0) {
      h->dtype = wider[i].dtype;
      h->packed = wider[i].packed;
    }
  if (h->dtype >= 0) return FLAME_OK;
  if (order == 0 && s.n == 2 && s.at[1] == 'O')
    return fl_reader_fail(f, "holds Python objects, that is a pickle, which can run code"
                          FL_DO "; convert it once with Python: "
                          "numpy.save('%s', numpy.load('%s', allow_pickle=True).astype('f4'))",
                          "new.npy", "old.npy");
  char name[32];
  size_t n = s.n < 31 ? s.n : 31;
  for (size_t i = 0; i < n; i++) name[i] = s.at[i] > 0x20 && s.at[i] < 0x7f ? s.at[i] : '?';
  name[n] = 0;
  return fl_reader_fail(f,
      "has the dtype '%s', which flame has not: f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 b1"
      FL_DO "; convert with "
                        "numpy.save(path, array.astype(…))", name);
}

static flame_status read_dictionary(fl_reader *f, const char *text, size_t n, fl_npy *h) {
  cursor p = { text, text + n };
  fl_span key, descr = { NULL, 0 };
  int seen = 0;
  if (!take(&p, '{')) return fl_reader_fail(f, "the npy header is no dictionary");
  while (!take(&p, '}')) {
    int ok = take_string(&p, &key) && take(&p, ':');
    if (ok && key.n == 5 && memcmp(key.at, "descr", 5) == 0) {
      take(&p, 0);
      if (p.at < p.end && *p.at == '[')
        return fl_reader_fail(f, "has records, which flame has not");
      ok = take_string(&p, &descr);
      seen |= 1;
    } else if (ok && key.n == 13 && memcmp(key.at, "fortran_order", 13) == 0) {
      h->fortran = take_word(&p, "True");
      ok = h->fortran || take_word(&p, "False");
      seen |= 2;
    } else if (ok && key.n == 5 && memcmp(key.at, "shape", 5) == 0) {
      ok = take_shape(&p, h);
      seen |= 4;
    } else {
      ok = 0;
    }
    if (!ok)
      return fl_reader_fail(f, "the npy header can not be read at its offset %lld (at most 8 axes)",
                            (long long)(p.at - text));
    if (!take(&p, ',')) {
      if (take(&p, '}')) break;
      return fl_reader_fail(f, "the npy header can not be read at its offset %lld",
                            (long long)(p.at - text));
    }
  }
  if (seen != 7) return fl_reader_fail(f, "the npy header needs descr, fortran_order and shape");
  return read_descriptor(f, descr, h);
}

flame_status fl_npy_head(fl_reader *f, fl_npy *h) {
  unsigned char b[12];
  memset(h, 0, sizeof *h);
  flame_status e = fl_reader_read(f, b, 10);
  if (e != FLAME_OK) return e;
  if (memcmp(b, "\x93NUMPY", 6) != 0) return fl_reader_fail(f, "is no npy file");
  if (b[6] < 1 || b[6] > 3)
    return fl_reader_fail(f, "npy version %d at offset 6, need 1 to 3", b[6]);
  uint64_t n = (uint64_t)b[8] | (uint64_t)b[9] << 8;
  if (b[6] > 1) {
    e = fl_reader_read(f, b + 10, 2);
    if (e != FLAME_OK) return e;
    n |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
  }
  if (n > MAX_HEADER || (int64_t)n > fl_reader_most(f))
    return fl_reader_fail(f, "the npy header length at offset 8 is %llu, more than the file holds",
                          (unsigned long long)n);
  char *text = fl_alloc(&f->c->mem, (size_t)n);
  if (!text) return FL_FAIL(f->c, FLAME_NO_MEMORY, f->op, "no host memory for a header");
  e = fl_reader_read(f, text, (size_t)n);
  if (e == FLAME_OK) e = read_dictionary(f, text, (size_t)n, h);
  fl_free(&f->c->mem, text, (size_t)n);
  if (e != FLAME_OK) return e;
  const int64_t bytes = fl_io_packed_bytes(h->dtype, h->packed, h->rank, h->size);
  char shape[192];
  if (bytes < 0 || bytes > fl_reader_most(f))
    return fl_reader_fail(f,
        "cut off: shape %s of %s does not fit into the %lld bytes from offset %lld on",
                          fl_shape_text(shape, h->rank, h->size), fl_dtype_name(h->dtype),
                          (long long)fl_reader_most(f), (long long)f->at);
  return FLAME_OK;
}

/* ---- the array ---------------------------------------------------------------------------- */
typedef struct source { fl_reader *in; const fl_npy *head; } source;

static flame_status fill(void *arg, void *p, size_t bytes) {
  const source *s = arg;
  if (s->head->packed)
    return fl_io_unsigned(s->in, p, bytes, s->head->dtype, s->head->packed, s->head->swap);
  const flame_status e = fl_reader_read(s->in, p, bytes);
  if (e == FLAME_OK && s->head->swap) fl_io_swap(p, bytes, fl_dtype_size(s->head->dtype));
  return e;
}

fl_node *fl_npy_value(fl_reader *f, const fl_npy *h, int device) {
  source s = { f, h };
  fl_npy back = *h;
  if (!h->fortran || h->rank < 2)
    return fl_io_node(f->c, device, h->dtype, h->rank, h->size, fill, &s);
  int perm[FL_MAX_AXES];
  for (int a = 0; a < h->rank; a++) {
    back.size[a] = h->size[h->rank - 1 - a];
    perm[a] = h->rank - 1 - a;
  }
  fl_node *n = fl_io_node(f->c, device, h->dtype, h->rank, back.size, fill, &s);
  return n_contiguous(n ? n_permute(n, perm) : NULL);
}

fl_node *fl_npy_read(flame_context *c, const char *path, int device) {
  fl_reader f;
  fl_npy h;
  fl_node *n = NULL;
  if (fl_reader_open(&f, c, "load", path) == FLAME_OK && fl_npy_head(&f, &h) == FLAME_OK)
    n = fl_npy_value(&f, &h, device);
  fl_reader_close(&f);
  return n;
}

/* ---- writing --------------------------------------------------------------------------------- */

flame_status fl_npy_text(fl_text *t, const fl_node *n) {
  flame_context *c = n->ctx;
  const char *d = NULL;
  for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
    if (descriptors[i].dtype == n->dtype) d = descriptors[i].name;
  if (!d)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "npy has no %s"
                   FL_DO ": save x:float(), or as .safetensors", fl_dtype_name(n->dtype));
  fl_text_printf(t, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                 fl_dtype_size(n->dtype) == 1 ? '|' : '<', d);
  for (int a = 0; a < n->shape->rank; a++)
    fl_text_printf(t, a ? " %lld," : "%lld,", (long long)n->shape->size[a]);
  if (n->shape->rank > 1 && !t->failed) t->n--;                      /* (2, 3) but (2,) */
  fl_text_puts(t, "), }");
  while (!t->failed && (t->n + 11) % 64 != 0) fl_text_puts(t, " ");
  fl_text_puts(t, "\n");
  return t->failed ? FL_FAIL(c, FLAME_NO_MEMORY, "save", "no host memory for a header") : FLAME_OK;
}

flame_status fl_npy_bytes(flame_context *c, fl_node *n, fl_text *t) {
  unsigned char head[10] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0 };
  fl_text d;
  fl_text_init(&d, &c->mem);
  const flame_status e = fl_npy_text(&d, n);
  if (e == FLAME_OK) {
    head[8] = (unsigned char)d.n;
    head[9] = (unsigned char)(d.n >> 8);
    fl_text_add(t, (const char *)head, 10);
    fl_text_add(t, d.at, d.n);
  }
  fl_text_free(&d);
  return e == FLAME_OK && t->failed
         ? FL_FAIL(c, FLAME_NO_MEMORY, "save", "no host memory for a header") : e;
}

flame_status fl_npy_save(flame_context *c, const char *path, fl_node *n) {
  fl_writer o;
  fl_text t;
  size_t bytes = 0;
  void *p = NULL;
  fl_text_init(&t, &c->mem);
  flame_status e = fl_writer_open(&o, c, "save", path);
  if (e == FLAME_OK) e = fl_npy_bytes(c, n, &t);
  if (e == FLAME_OK && (p = fl_io_bytes_of(c, n, &bytes)) == NULL) e = c->err.code;
  if (e == FLAME_OK) e = fl_writer_write(&o, t.at, t.n);
  if (e == FLAME_OK) e = fl_writer_write(&o, p, bytes);
  if (e == FLAME_OK) e = fl_writer_commit(&o);
  fl_writer_close(&o);
  fl_text_free(&t);
  fl_free(&c->mem, p, bytes);
  return e;
}
