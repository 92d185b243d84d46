/*
** zip, as far as npz needs it: members stored or deflated, 64-bit sizes. The directory at the
** end is what counts; a member's local header is only read to find where its data begins.
** Refused: encryption, other packings, absolute names and names with "..", names twice, members
** that lie outside the file or over one another (one small member named a million times would
** fill the memory), sizes that deflate can not reach, wrong checksums. A .pt file of PyTorch is
** a zip of a pickle: it is refused with the line that converts it.
*/
#include "io/npy.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_MEMBERS = 1 << 20, MOST_WRITTEN = 65000, LONGEST_NAME = 4096, END_SIZE = 22,
       LOCAL_SIZE = 30, CENTRAL_SIZE = 46 };
#define LARGEST INT64_C(0xFFFF0000)      /* largest sizes and offsets that are written: they have 32
                                         ** bits */

static uint64_t le(const unsigned char *p, int n) {
  uint64_t v = 0;
  while (n-- > 0) v = v << 8 | p[n];
  return v;
}

/* ---- the directory --------------------------------------------------------------------- */

static flame_status bytes_at(fl_zip *z, int64_t at, void *p, size_t n) {
  z->in.member = 0;
  if (at < 0 || (int64_t)n > z->in.size || at > z->in.size - (int64_t)n)
    return fl_reader_fail(&z->in, "zip: %zu bytes at offset %lld are beyond the file of %lld bytes",
                          n, (long long)at, (long long)z->in.size);
  const flame_status e = fl_reader_seek(&z->in, at);
  return e == FLAME_OK ? fl_reader_read(&z->in, p, n) : e;
}

typedef struct place { int64_t at, bytes, count; } place;

/* Reads the 64-bit end record, which files have whose numbers do not fit the end record at 'end':
** 20 bytes before that say where it is. */
static flame_status find_wide(fl_zip *z, int64_t end, place *d) {
  unsigned char b[56] = { 0 };
  flame_status e = bytes_at(z, end - 20, b, 20);
  if (e == FLAME_OK && memcmp(b, "PK\6\7", 4) != 0)
    e = fl_reader_fail(&z->in, "zip: no 64-bit end record");
  const uint64_t at = le(b + 8, 8);
  if (e == FLAME_OK && at > (uint64_t)z->in.size)
    e = fl_reader_fail(&z->in, "zip: the 64-bit end record is beyond the file");
  if (e == FLAME_OK) e = bytes_at(z, (int64_t)at, b, 56);
  if (e == FLAME_OK && memcmp(b, "PK\6\6", 4) != 0)
    e = fl_reader_fail(&z->in, "zip: no 64-bit end record");
  if (e == FLAME_OK && (le(b + 32, 8) | le(b + 40, 8) | le(b + 48, 8)) >> 62)
    e = fl_reader_fail(&z->in, "zip: sizes are out of range");
  if (e == FLAME_OK)
    *d = (place){ (int64_t)le(b + 48, 8), (int64_t)le(b + 40, 8), (int64_t)le(b + 32, 8) };
  return e;
}

static flame_status find_directory(fl_zip *z, place *d) {
  enum { TAIL = END_SIZE + 1024 };               /* the end record and a short comment */
  unsigned char b[TAIL];
  const int64_t n = z->in.size < TAIL ? z->in.size : TAIL;
  flame_status e = bytes_at(z, z->in.size - n, b, (size_t)n);
  if (e != FLAME_OK) return e;
  int64_t k = n - END_SIZE;
  while (k >= 0 && memcmp(b + k, "PK\5\6", 4) != 0) k--;
  if (k < 0) return fl_reader_fail(&z->in, "zip: no end record: no zip file, or cut off");
  *d = (place){ (int64_t)le(b + k + 16, 4), (int64_t)le(b + k + 12, 4),
                (int64_t)le(b + k + 10, 2) };
  if (d->at == 0xFFFFFFFF || d->bytes == 0xFFFFFFFF || d->count == 0xFFFF)
    e = find_wide(z, z->in.size - n + k, d);
  if (e == FLAME_OK &&
      (d->bytes > z->in.size || d->at > z->in.size - d->bytes || d->count > MOST_MEMBERS))
    e = fl_reader_fail(&z->in, "zip: the directory [%lld, +%lld] is beyond the file of %lld bytes",
                       (long long)d->at, (long long)d->bytes, (long long)z->in.size);
  return e;
}

/* Reads the 64-bit sizes and offset of a member from its extra fields: those whose 32-bit field is
** 2^32 - 1 are there, in order. */
static int widen(fl_member *m, const unsigned char *p, size_t n) {
  while (n >= 4) {
    const size_t size = (size_t)le(p + 2, 2);
    if (size > n - 4) return 0;
    if (le(p, 2) == 1) {
      const unsigned char *q = p + 4, *end = q + size;
      int64_t *const fields[] = { &m->unpacked, &m->bytes, &m->at };
      for (int i = 0; i < 3; i++) {
        if (*fields[i] != 0xFFFFFFFF) continue;
        if (end - q < 8 || le(q, 8) >> 62) return 0;
        *fields[i] = (int64_t)le(q, 8);
        q += 8;
      }
      return 1;
    }
    p += 4 + size;
    n -= 4 + size;
  }
  return 1;
}

static int is_slash(char c) { return c == '/' || c == '\\'; }

/* Is the name empty or absolute, or is a part of it ".."? */
static int bad_name(fl_span s) {
  if (s.n == 0 || is_slash(s.at[0]) || memchr(s.at, 0, s.n)) return 1;
  for (size_t i = 0, part = 0; i <= s.n; i++) {
    if (i < s.n && !is_slash(s.at[i])) continue;
    if (i - part == 2 && memcmp(s.at + part, "..", 2) == 0) return 1;
    part = i + 1;
  }
  return 0;
}

static flame_status check_member(fl_zip *z, const fl_member *m, int flags) {
  const int n = m->name.n < 60 ? (int)m->name.n : 60;
  const char *why = NULL;
  if (m->name.n > LONGEST_NAME || bad_name(m->name))
    why = "has a name that is refused (absolute, with .., or too long)";
  else if (flags & 1) why = "is encrypted";
  else if (m->packed != 0 && m->packed != 8) why = "is packed by other means than deflate";
  else if (m->bytes > z->in.size || m->at > z->in.size - m->bytes) why = "lies beyond the file";
  else if (m->packed == 0 && m->bytes != m->unpacked) why = "has two sizes";
  else if (m->packed == 8 && m->unpacked / 1040 > m->bytes)
    why = "claims a size that deflate can not reach";
  return why ? fl_reader_fail(&z->in, "zip: the member '%.*s' %s", n, m->name.at, why) : FLAME_OK;
}

static flame_status read_member(fl_zip *z, size_t *at) {
  const unsigned char *p = (const unsigned char *)z->directory + *at;
  const size_t left = z->directory_bytes - *at;
  if (left < CENTRAL_SIZE || memcmp(p, "PK\1\2", 4) != 0)
    return fl_reader_fail(&z->in, "zip: the directory is damaged at its offset %zu", *at);
  const size_t name = (size_t)le(p + 28, 2), extra = (size_t)le(p + 30, 2),
               note = (size_t)le(p + 32, 2);
  if (left - CENTRAL_SIZE < name + extra + note)
    return fl_reader_fail(&z->in, "zip: the directory is cut off at its offset %zu", *at);
  fl_member *m = FL_PUSH(&z->in.c->mem, &z->members);
  if (!m) return FL_FAIL(z->in.c, FLAME_NO_MEMORY, "load", "no host memory for the directory");
  *m = (fl_member){ .name = { (const char *)p + CENTRAL_SIZE, name }, .packed = (int)le(p + 10, 2),
                    .crc = (uint32_t)le(p + 16, 4),
                    .bytes = (int64_t)le(p + 20, 4), .unpacked = (int64_t)le(p + 24, 4),
                    .at = (int64_t)le(p + 42, 4) };
  if (!widen(m, p + CENTRAL_SIZE + name, extra))
    return fl_reader_fail(&z->in, "zip: damaged 64-bit sizes at offset %zu of the directory", *at);
  *at += CENTRAL_SIZE + name + extra + note;
  return check_member(z, m, (int)le(p + 8, 2));
}

static int ends_in(fl_span s, const char *tail) {
  const size_t n = strlen(tail);
  return s.n >= n && memcmp(s.at + s.n - n, tail, n) == 0;
}

static int compare_spans(const void *p, const void *q) {
  const fl_span a = *(const fl_span *)p, b = *(const fl_span *)q;
  const int k = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);
  return k ? k : (a.n > b.n) - (a.n < b.n);
}

static int by_name(const void *p, const void *q) {
  return compare_spans(&((const fl_member *)p)->name, &((const fl_member *)q)->name);
}

static int by_place(const void *p, const void *q) {
  const int64_t a = ((const fl_member *)p)->at, b = ((const fl_member *)q)->at;
  return (a > b) - (a < b);
}

/* Checks that each member has its own bytes: a local header with the name, and the data. Leaves the
** members sorted by their place in the file. */
static flame_status check_places(fl_zip *z) {
  if (z->members.n > 1) qsort(z->members.at, (size_t)z->members.n, sizeof *z->members.at, by_place);
  for (int64_t i = 1; i < z->members.n; i++) {
    const fl_member *m = &z->members.at[i - 1];
    if (z->members.at[i].at - m->at < LOCAL_SIZE + (int64_t)m->name.n + m->bytes)
      return fl_reader_fail(&z->in, "zip: the member '%.*s' lies over the next one",
                            m->name.n < 60 ? (int)m->name.n : 60, m->name.at);
  }
  return FLAME_OK;
}

static flame_status check_members(fl_zip *z) {
  for (int64_t i = 0; i < z->members.n; i++) {
    const fl_span s = z->members.at[i].name;
    if (ends_in(s, "data.pkl"))
      return fl_reader_fail(&z->in, "is a pickle of PyTorch, which can run code"
                            FL_DO "; convert it once with Python: "
                            "import torch, safetensors.torch as s; s.save_file("
                            "torch.load('model.pt', weights_only=True), 'model.safetensors')");
    if (!ends_in(s, ".npy"))
      return fl_reader_fail(&z->in, "zip: '%.*s' is no .npy member: no npz file",
                            s.n < 60 ? (int)s.n : 60, s.at);
  }
  if (z->members.n > 1) qsort(z->members.at, (size_t)z->members.n, sizeof *z->members.at, by_name);
  for (int64_t i = 1; i < z->members.n; i++)
    if (by_name(&z->members.at[i - 1], &z->members.at[i]) == 0) {
      const fl_span s = z->members.at[i].name;
      return fl_reader_fail(&z->in, "zip: the name '%.*s' appears twice",
                            s.n < 60 ? (int)s.n : 60, s.at);
    }
  return check_places(z);
}

flame_status fl_zip_open(fl_zip *z, flame_context *c, const char *path) {
  place d = { 0, 0, 0 };
  size_t at = 0;
  memset(z, 0, sizeof *z);
  flame_status e = fl_reader_open(&z->in, c, "load", path);
  if (e == FLAME_OK) e = find_directory(z, &d);
  if (e != FLAME_OK) return e;
  z->directory = fl_alloc(&c->mem, (size_t)d.bytes);
  if (!z->directory) return FL_FAIL(c, FLAME_NO_MEMORY, "load", "no host memory for the directory");
  z->directory_bytes = (size_t)d.bytes;
  e = bytes_at(z, d.at, z->directory, z->directory_bytes);
  for (int64_t i = 0; e == FLAME_OK && i < d.count; i++) e = read_member(z, &at);
  return e == FLAME_OK ? check_members(z) : e;
}

void fl_zip_close(fl_zip *z) {
  flame_context *c = z->in.c;
  if (!c) return;
  fl_reader_close(&z->in);
  fl_free(&c->mem, z->directory, z->directory_bytes);
  FL_DROP(&c->mem, &z->members);
  memset(z, 0, sizeof *z);
  z->in.fd = -1;
}

/* ---- members -------------------------------------------------------------------------------- */

fl_node *fl_npz_read(fl_zip *z, const fl_member *m, int device) {
  unsigned char b[LOCAL_SIZE] = { 0 };
  fl_reader *in = &z->in;
  if (bytes_at(z, m->at, b, LOCAL_SIZE) != FLAME_OK) return NULL;
  const int64_t data = m->at + LOCAL_SIZE + (int64_t)le(b + 26, 2) + (int64_t)le(b + 28, 2);
  if (memcmp(b, "PK\3\4", 4) != 0 || data > in->size - m->bytes) {
    fl_reader_fail(in, "zip: no member at offset %lld", (long long)m->at);
    return NULL;
  }
  fl_npy h;
  fl_node *n = NULL;
  if (fl_reader_member(in, data, m->bytes, m->packed == 8, m->unpacked) != FLAME_OK) return NULL;
  if (fl_npy_head(in, &h) == FLAME_OK) n = fl_npy_value(in, &h, device);
  if (n && fl_reader_member_end(in, m->crc) != FLAME_OK) n = NULL;
  return n;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes an integer of n bytes, little-endian. */
static void put(unsigned char **p, uint64_t v, int n) {
  while (n-- > 0) {
    *(*p)++ = (unsigned char)v;
    v >>= 8;
  }
}

static void put_common(unsigned char **p, uint32_t crc, uint64_t bytes, size_t name) {
  put(p, 20, 2);                       /* version needed */
  put(p, 0x800, 2);                    /* names are UTF-8 */
  put(p, 0, 2);                        /* stored */
  put(p, 0, 2);                        /* 1980-01-01 00:00, so that equal values make equal files */
  put(p, 0x21, 2);
  put(p, crc, 4);
  put(p, bytes, 4);
  put(p, bytes, 4);
  put(p, name, 2);
  put(p, 0, 2);
}

static void add_central(fl_text *t, const fl_span name, uint32_t crc, uint64_t bytes, int64_t at) {
  unsigned char b[CENTRAL_SIZE], *p = b;
  put(&p, 0x02014b50, 4);
  put(&p, 20, 2);
  put_common(&p, crc, bytes, name.n + 4);
  put(&p, 0, 10);                       /* no note, disk 0, no attributes */
  put(&p, (uint64_t)at, 4);
  fl_text_add(t, (const char *)b, CENTRAL_SIZE);
  fl_text_add(t, name.at, name.n);
  fl_text_puts(t, ".npy");
}

static flame_status too_large(const fl_writer *o) {
  return FL_FAIL(o->c, FLAME_BAD_ARGUMENT, "save",
                 "%.150s: npz files end at 4 GB here" FL_DO ": use .safetensors", o->path);
}

static flame_status write_member(fl_writer *o, const fl_to_save *s, fl_text *directory) {
  unsigned char b[LOCAL_SIZE], *p = b;
  const int64_t at = o->at;
  size_t bytes = 0;
  fl_text head;
  fl_text_init(&head, &o->c->mem);
  flame_status e = fl_npy_bytes(o->c, s->node, &head);
  void *data = e == FLAME_OK ? fl_io_bytes_of(o->c, s->node, &bytes) : NULL;
  if (e == FLAME_OK && !data) e = o->c->err.code;
  if (e == FLAME_OK && ((int64_t)bytes >= LARGEST || at >= LARGEST)) e = too_large(o);
  if (e == FLAME_OK) {
    const uint32_t crc = fl_io_crc(fl_io_crc(0, head.at, head.n), data, bytes);
    put(&p, 0x04034b50, 4);
    put_common(&p, crc, head.n + bytes, s->name.n + 4);
    add_central(directory, s->name, crc, head.n + bytes, at);
    e = fl_writer_write(o, b, LOCAL_SIZE);
    if (e == FLAME_OK) e = fl_writer_write(o, s->name.at, s->name.n);
    if (e == FLAME_OK) e = fl_writer_write(o, ".npy", 4);
    if (e == FLAME_OK) e = fl_writer_write(o, head.at, head.n);
    if (e == FLAME_OK) e = fl_writer_write(o, data, bytes);
  }
  fl_text_free(&head);
  fl_free(&o->c->mem, data, bytes);
  return e;
}

static flame_status write_end(fl_writer *o, fl_text *directory, int64_t n) {
  unsigned char b[END_SIZE], *p = b;
  if (directory->failed)
    return FL_FAIL(o->c, FLAME_NO_MEMORY, "save", "no host memory for the directory");
  if (o->at >= LARGEST || (int64_t)directory->n >= LARGEST) return too_large(o);
  put(&p, 0x06054b50, 4);
  put(&p, 0, 4);
  put(&p, (uint64_t)n, 2);
  put(&p, (uint64_t)n, 2);
  put(&p, directory->n, 4);
  put(&p, (uint64_t)o->at, 4);
  put(&p, 0, 2);
  const flame_status e = fl_writer_write(o, directory->at, directory->n);
  return e == FLAME_OK ? fl_writer_write(o, b, END_SIZE) : e;
}

/* Refuses two tensors of one name. */
static flame_status check_twice(flame_context *c, int64_t n, const fl_to_save *tensors) {
  if (n < 2) return FLAME_OK;
  flame_status e = FLAME_OK;
  fl_span *s = fl_alloc(&c->mem, (size_t)n * sizeof *s);
  if (!s) return FL_FAIL(c, FLAME_NO_MEMORY, "save", "no host memory for the names");
  for (int64_t i = 0; i < n; i++) s[i] = tensors[i].name;
  qsort(s, (size_t)n, sizeof *s, compare_spans);
  for (int64_t i = 1; e == FLAME_OK && i < n; i++)
    if (compare_spans(&s[i - 1], &s[i]) == 0)
      e = FL_FAIL(c, FLAME_BAD_ARGUMENT, "save", "the name '%.*s' appears twice",
                  s[i].n < 60 ? (int)s[i].n : 60, s[i].at);
  fl_free(&c->mem, s, (size_t)n * sizeof *s);
  return e;
}

/* Checks names by the reader's rules, so that the file can be read. */
static flame_status check_names(flame_context *c, const char *path, int64_t n,
                                const fl_to_save *tensors) {
  if (n > MOST_WRITTEN)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
                   "%lld tensors in one npz file" FL_DO ": use .safetensors", (long long)n);
  for (int64_t i = 0; i < n; i++) {
    const fl_span s = tensors[i].name;
    if (s.n > LONGEST_NAME - strlen(".npy") || bad_name(s))
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
          "%.150s: npz can not have the name '%.*s' (empty, absolute, with .. or too long)"
          FL_DO ": "
                     "use .safetensors", path, s.n < 60 ? (int)s.n : 60, s.at);
  }
  return check_twice(c, n, tensors);
}

flame_status fl_npz_save(flame_context *c, const char *path, int64_t n, const fl_to_save *tensors) {
  fl_writer o;
  fl_text directory;
  flame_status e = check_names(c, path, n, tensors);
  if (e != FLAME_OK) return e;
  fl_text_init(&directory, &c->mem);
  e = fl_writer_open(&o, c, "save", path);
  for (int64_t i = 0; e == FLAME_OK && i < n; i++) e = write_member(&o, &tensors[i], &directory);
  if (e == FLAME_OK) e = write_end(&o, &directory, n);
  if (e == FLAME_OK) e = fl_writer_commit(&o);
  fl_writer_close(&o);
  fl_text_free(&directory);
  return e;
}
