/*
** safetensors: 8 bytes of header length, a JSON header, the tensors' bytes.
**
** Reading checks everything before the first tensor is made: the header against the file, the
** offsets against shape, dtype, file and each other. A file with a hole between tensors is
** read; one with an overlap, a name twice or an unknown dtype is refused.
*/
#include "io/io.h"
#include "io/json.h"
#include "base/text.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

static const char *const dtype_names[FLAME_DTYPE_COUNT] = {
  "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"
};

static int is(fl_span s, const char *word) {
  return s.n == strlen(word) && memcmp(s.at, word, s.n) == 0;
}

static int compare_spans(fl_span a, fl_span b) {
  const size_t n = a.n < b.n ? a.n : b.n;
  const int k = n ? memcmp(a.at, b.at, n) : 0;
  return k ? k : (a.n > b.n) - (a.n < b.n);
}

/* For messages: names come from the file, so they are cut and only printed as
** far as they are text. */
static const char *shown(fl_span s, char buf[64]) {
  size_t n = 0;
  for (; n < s.n && n < 60; n++)
    buf[n] = (unsigned char)s.at[n] < 0x20 || s.at[n] == 0x7f ? '?' : s.at[n];
  buf[n] = 0;
  return buf;
}

/* ---- reading: the header --------------------------------------------------------------- */

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4 };

static const struct { const char *name; int dtype, packed; } wider[] = {
  { "U16", FLAME_I32, 2 }, { "U32", FLAME_I64, 4 }, { "U64", FLAME_I64, 8 }
};

static int read_dtype(fl_json *j, fl_archive *a, fl_saved *t) {
  fl_span s;
  char name[64], dtype[64];
  if (!fl_json_string(j, &s)) return 0;
  for (t->dtype = 0; t->dtype < FLAME_DTYPE_COUNT; t->dtype++)
    if (is(s, dtype_names[t->dtype])) return 1;
  for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
    if (is(s, wider[i].name)) {
      t->dtype = wider[i].dtype;
      t->packed = wider[i].packed;
      return 1;
    }
  fl_reader_fail(&a->in, "tensor '%s' has dtype %s, which is not supported: "
                 "F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL",
                 shown(t->name, name), shown(s, dtype));
  return fl_json_fail(j, "dtype");
}

static int read_shape(fl_json *j, fl_saved *t) {
  int first = 1;
  t->rank = 0;
  if (!fl_json_open(j, '[')) return 0;
  while (fl_json_more(j, '[', &first)) {
    if (t->rank == FL_MAX_AXES) return fl_json_fail(j, "more than 8 axes in 'shape'");
    if (!fl_json_integer(j, &t->size[t->rank++])) return 0;
  }
  return j->wrong == NULL;
}

static int read_offsets(fl_json *j, fl_saved *t) {
  int first = 1;
  int64_t end = 0;
  if (!fl_json_open(j, '[') || !fl_json_more(j, '[', &first) || !fl_json_integer(j, &t->begin) ||
      !fl_json_more(j, '[', &first) || !fl_json_integer(j, &end) || fl_json_more(j, '[', &first))
    return fl_json_fail(j, "'data_offsets' must be two numbers");
  if (j->wrong) return 0;
  if (end < t->begin) return fl_json_fail(j, "'data_offsets' ends before it begins");
  t->bytes = end - t->begin;
  return 1;
}

static int read_field(fl_json *j, fl_archive *a, fl_saved *t, int *seen) {
  fl_span key;
  if (!fl_json_key(j, &key)) return 0;
  const int which = is(key, "dtype") ? HAS_DTYPE : is(key, "shape")
                    ? HAS_SHAPE : is(key, "data_offsets") ? HAS_OFFSETS : 0;
  if (*seen & which) return fl_json_fail(j, "a field appears twice");
  *seen |= which;
  switch (which) {
    case HAS_DTYPE: return read_dtype(j, a, t);
    case HAS_SHAPE: return read_shape(j, t);
    case HAS_OFFSETS: return read_offsets(j, t);
    default: return fl_json_skip(j);
  }
}

static int check_size(fl_json *j, fl_archive *a, const fl_saved *t) {
  char name[64], shape[192];
  const int64_t bytes = fl_io_packed_bytes(t->dtype, t->packed, t->rank, t->size),
                room = a->in.size - a->data;
  if (bytes != t->bytes) {
    fl_reader_fail(&a->in,
        "tensor '%s': 'data_offsets' [%lld, %lld] hold %lld bytes, shape %s of %s does not",
               shown(t->name, name), (long long)t->begin, (long long)(t->begin + t->bytes),
               (long long)t->bytes, fl_shape_text(shape, t->rank, t->size), dtype_names[t->dtype]);
    return fl_json_fail(j, "size");
  }
  if (t->begin > room || t->bytes > room - t->begin) {
    fl_reader_fail(&a->in,
        "tensor '%s': 'data_offsets' [%lld, %lld] go beyond the file, which has %lld bytes of data",
               shown(t->name, name), (long long)t->begin, (long long)(t->begin + t->bytes),
               (long long)room);
    return fl_json_fail(j, "offsets");
  }
  return 1;
}

static int no_memory(fl_json *j, fl_archive *a) {
  FL_FAIL(a->in.c, FLAME_NO_MEMORY, "load", "no host memory for the header");
  return fl_json_fail(j, "memory");
}

static int read_entry(fl_json *j, fl_archive *a, fl_span name) {
  int first = 1, seen = 0;
  fl_saved *t = FL_PUSH(&a->in.c->mem, &a->tensors);
  if (!t) return no_memory(j, a);
  *t = (fl_saved){ .name = name };
  if (name.n > FL_IO_MAX_NAME) return fl_json_fail(j, "a name of more than 64 KB");
  if (!fl_json_open(j, '{')) return 0;
  while (fl_json_more(j, '{', &first)) if (!read_field(j, a, t, &seen)) return 0;
  if (j->wrong) return 0;
  if (seen != (HAS_DTYPE | HAS_SHAPE | HAS_OFFSETS))
    return fl_json_fail(j, "a tensor needs 'dtype', 'shape' and 'data_offsets'");
  return check_size(j, a, t);
}

static int read_metadata(fl_json *j, fl_archive *a) {
  int first = 1;
  if (!fl_json_open(j, '{')) return 0;
  while (fl_json_more(j, '{', &first)) {
    fl_pair *p = FL_PUSH(&a->in.c->mem, &a->meta);
    if (!p) return no_memory(j, a);
    *p = (fl_pair){ { NULL, 0 }, { NULL, 0 } };
    if (!fl_json_key(j, &p->key) || !fl_json_string(j, &p->value)) return 0;
    if (p->key.n > FL_IO_MAX_NAME) return fl_json_fail(j, "a name of more than 64 KB");
  }
  return j->wrong == NULL;
}

static int by_name(const void *p, const void *q) {
  return compare_spans(((const fl_saved *)p)->name, ((const fl_saved *)q)->name);
}
static int by_key(const void *p, const void *q) {
  return compare_spans(((const fl_pair *)p)->key, ((const fl_pair *)q)->key);
}
/* Orders tensors by their place in the file; of equal places empty tensors come first, so that they
** do not overlap others. */
static int by_place(const void *p, const void *q) {
  const fl_saved *a = p, *b = q;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return compare_spans(a->name, b->name);
}

/* Checks that no name occurs twice, and no byte belongs to two tensors. Leaves the tensors sorted
** by place. */
static flame_status check_all(fl_archive *a) {
  char one[64], two[64];
  if (a->meta.n > 1) qsort(a->meta.at, (size_t)a->meta.n, sizeof *a->meta.at, by_key);
  for (int64_t i = 1; i < a->meta.n; i++)
    if (compare_spans(a->meta.at[i - 1].key, a->meta.at[i].key) == 0)
      return fl_reader_fail(&a->in, "the key '%s' appears twice in the metadata",
                            shown(a->meta.at[i].key, one));
  if (a->tensors.n < 2) return FLAME_OK;
  qsort(a->tensors.at, (size_t)a->tensors.n, sizeof *a->tensors.at, by_name);
  for (int64_t i = 1; i < a->tensors.n; i++)
    if (compare_spans(a->tensors.at[i - 1].name, a->tensors.at[i].name) == 0)
      return fl_reader_fail(&a->in, "the name '%s' appears twice in the header",
                            shown(a->tensors.at[i].name, one));
  qsort(a->tensors.at, (size_t)a->tensors.n, sizeof *a->tensors.at, by_place);
  for (int64_t i = 1; i < a->tensors.n; i++) {
    const fl_saved *p = &a->tensors.at[i - 1], *q = &a->tensors.at[i];
    if (p->begin + p->bytes > q->begin)
      return fl_reader_fail(&a->in, "tensors '%s' and '%s' overlap at offset %lld of the data",
                            shown(p->name, one),
                        shown(q->name, two), (long long)q->begin);
  }
  return FLAME_OK;
}

static flame_status parse(fl_archive *a) {
  fl_json j;
  fl_span name;
  int first = 1, meta = 0, ok;
  fl_json_init(&j, a->header, a->header_bytes);
  ok = fl_json_open(&j, '{');
  while (ok && fl_json_more(&j, '{', &first)) {
    ok = fl_json_key(&j, &name);
    if (ok && is(name, "__metadata__")) {
      ok = meta++ ? fl_json_fail(&j, "'__metadata__' appears twice") : read_metadata(&j, a);
    } else if (ok) {
      ok = read_entry(&j, a, name);
    }
  }
  if (fl_json_end(&j)) return check_all(a);
  if (a->in.c->err.code != FLAME_OK) return a->in.c->err.code;
  return fl_reader_fail(&a->in, "%s, at offset %lld of the file (in the header)", j.wrong,
                        (long long)(j.offset + 8));
}

flame_status fl_safetensors_open(fl_archive *a, flame_context *c, const char *path) {
  unsigned char word[8];
  uint64_t n = 0;
  memset(a, 0, sizeof *a);
  flame_status e = fl_reader_open(&a->in, c, "load", path);
  if (e == FLAME_OK && a->in.unzip)
    e = fl_reader_fail(&a->in, "is gzip, not safetensors" FL_DO ": unpack it first");
  if (e == FLAME_OK && a->in.size < 8)
    e = fl_reader_fail(&a->in,
        "%lld bytes are no safetensors file, which begins with 8 bytes of header length",
        (long long)a->in.size);
  if (e == FLAME_OK) e = fl_reader_read(&a->in, word, 8);
  if (e != FLAME_OK) return e;
  for (int i = 7; i >= 0; i--) n = n << 8 | word[i];
  if (n > FL_IO_MAX_HEADER || n > (uint64_t)(a->in.size - 8))
    return fl_reader_fail(&a->in,
        "the header length at offset 0 is %llu, the file has %lld bytes (at most %d): "
                      "no safetensors file, or cut off", (unsigned long long)n,
                      (long long)a->in.size, FL_IO_MAX_HEADER);
  a->header = fl_alloc(&c->mem, (size_t)n);
  if (!a->header) return FL_FAIL(c, FLAME_NO_MEMORY, "load", "no host memory for the header");
  a->header_bytes = (size_t)n;
  a->data = (int64_t)n + 8;
  e = fl_reader_read(&a->in, a->header, (size_t)n);
  if (e == FLAME_OK && (n == 0 || a->header[0] != '{'))
    e = fl_reader_fail(&a->in,
                       "the header at offset 8 does not begin with '{': no safetensors file");
  return e == FLAME_OK ? parse(a) : e;
}

void fl_safetensors_close(fl_archive *a) {
  flame_context *c = a->in.c;
  if (!c) return;
  fl_reader_close(&a->in);
  fl_free(&c->mem, a->header, a->header_bytes);
  FL_DROP(&c->mem, &a->tensors);
  FL_DROP(&c->mem, &a->meta);
  memset(a, 0, sizeof *a);
  a->in.fd = -1;
}

typedef struct source { fl_reader *in; const fl_saved *saved; } source;

static flame_status fill(void *arg, void *p, size_t bytes) {
  const source *s = arg;
  if (s->saved->packed)
    return fl_io_unsigned(s->in, p, bytes, s->saved->dtype, s->saved->packed, 0);
  return fl_reader_read(s->in, p, bytes);
}

/* A tensor of a bundle, which is not copied until it is written to. */
static fl_node *mapped_node(flame_context *c, const fl_saved *t, const char *at) {
  fl_buffer *b = fl_buffer_foreign(c, (void *)(uintptr_t)at, t->bytes, NULL, NULL);
  return b ? fl_node_stored(c, t->dtype, b, fl_layout_of(&c->layouts, t->rank, t->size, NULL), 0)
           : NULL;
}

fl_node *fl_safetensors_read(fl_archive *a, const fl_saved *t, int device) {
  const char *in_place = a->in.mapped ? a->in.mapped + a->data + t->begin : NULL;
  if (in_place && device == 0 && !t->packed && t->bytes && t->dtype != FLAME_BOOL &&
      (uintptr_t)in_place % (uintptr_t)fl_dtype_size(t->dtype) == 0)
    return mapped_node(a->in.c, t, in_place);
  if (fl_reader_seek(&a->in, a->data + t->begin) != FLAME_OK) return NULL;
  source s = { &a->in, t };
  return fl_io_node(a->in.c, device, t->dtype, t->rank, t->size, fill, &s);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void add_string(fl_text *t, fl_span s) {
  fl_text_puts(t, "\"");
  for (size_t i = 0; i < s.n; i++) {
    const unsigned char ch = (unsigned char)s.at[i];
    if (ch == '"' || ch == '\\') fl_text_printf(t, "\\%c", ch);
    else if (ch < 0x20) fl_text_printf(t, "\\u%04x", ch);
    else fl_text_add(t, s.at + i, 1);
  }
  fl_text_puts(t, "\"");
}

/* Wide elements first, which keeps every tensor aligned to its elements. */
static int for_file(const void *p, const void *q) {
  const fl_to_save *a = p, *b = q;
  const int x = fl_dtype_size(a->node->dtype), y = fl_dtype_size(b->node->dtype);
  return x != y ? y - x : compare_spans(a->name, b->name);
}

static void add_entry(fl_text *t, const fl_to_save *s, int64_t begin, int64_t end) {
  add_string(t, s->name);
  fl_text_printf(t, ":{\"dtype\":\"%s\",\"shape\":[", dtype_names[s->node->dtype]);
  for (int a = 0; a < s->node->shape->rank; a++)
    fl_text_printf(t, "%s%lld", a ? "," : "", (long long)s->node->shape->size[a]);
  fl_text_printf(t, "],\"data_offsets\":[%lld,%lld]}", (long long)begin, (long long)end);
}

/* The header's text, padded so that the data begins at a multiple of 8. */
static void add_header(fl_text *t, int64_t n, const fl_to_save *tensors, int64_t nmeta,
                       const fl_pair *meta) {
  int64_t at = 0;
  fl_text_puts(t, "{\"__metadata__\":{");
  for (int64_t i = 0; i < nmeta; i++) {
    if (i) fl_text_puts(t, ",");
    add_string(t, meta[i].key);
    fl_text_puts(t, ":");
    add_string(t, meta[i].value);
  }
  fl_text_puts(t, "}");
  for (int64_t i = 0; i < n; i++) {
    const fl_node *x = tensors[i].node;
    const int64_t bytes = x->shape->numel * fl_dtype_size(x->dtype);
    fl_text_puts(t, ",");
    add_entry(t, &tensors[i], at, at + bytes);
    at += bytes;
  }
  fl_text_puts(t, "}");
  while (!t->failed && t->n % 8 != 0) fl_text_puts(t, " ");
}

static flame_status write_node(fl_writer *o, fl_node *n) {
  size_t bytes;
  void *p = fl_io_bytes_of(o->c, n, &bytes);
  if (!p) return o->c->err.code;
  const flame_status e = fl_writer_write(o, p, bytes);
  fl_free(&o->c->mem, p, bytes);
  return e;
}

/* Refuses names that no reader accepts. */
static flame_status check_names(flame_context *c, int64_t n, const fl_to_save *tensors) {
  char name[64];
  for (int64_t i = 0; i < n; i++) {
    if (tensors[i].name.n > FL_IO_MAX_NAME)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "the name '%s…' has more than 64 KB",
                     shown(tensors[i].name, name));
    if (is(tensors[i].name, "__metadata__") ||
        !fl_utf8_is_valid(tensors[i].name.at, tensors[i].name.n))
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "safetensors can not have the name '%s' "
                     "(reserved, or not UTF-8)", shown(tensors[i].name, name));
    if (i && compare_spans(tensors[i - 1].name, tensors[i].name) == 0)
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "the name '%s' appears twice",
                     shown(tensors[i].name, name));
  }
  return FLAME_OK;
}

flame_status fl_safetensors_save(flame_context *c, const char *path, int64_t n, fl_to_save *tensors,
                                 int64_t nmeta, const fl_pair *meta) {
  fl_writer o;
  fl_text t;
  unsigned char word[8];
  if (n > 1) qsort(tensors, (size_t)n, sizeof *tensors, for_file);
  flame_status e = check_names(c, n, tensors);
  if (e != FLAME_OK) return e;
  fl_text_init(&t, &c->mem);
  add_header(&t, n, tensors, nmeta, meta);
  e = fl_writer_open(&o, c, "save", path);
  if (e == FLAME_OK && t.failed)
    e = FL_FAIL(c, FLAME_NO_MEMORY, "save", "no host memory for the header");
  if (e == FLAME_OK && t.n > FL_IO_MAX_HEADER)
    e = FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
                "%.150s: the names and values that are no tensors take %zu bytes, "
                "at most %d" FL_DO ": keep large data in tensors", path, t.n,
                FL_IO_MAX_HEADER);
  for (int i = 0; i < 8; i++) word[i] = (unsigned char)((uint64_t)t.n >> 8 * i);
  if (e == FLAME_OK) e = fl_writer_write(&o, word, 8);
  if (e == FLAME_OK) e = fl_writer_write(&o, t.at, t.n);
  for (int64_t i = 0; e == FLAME_OK && i < n; i++) e = write_node(&o, tensors[i].node);
  if (e == FLAME_OK) e = fl_writer_commit(&o);
  fl_writer_close(&o);
  fl_text_free(&t);
  return e;
}
