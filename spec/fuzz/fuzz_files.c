/*
** Damaged files for the readers of src/io: safetensors and lists of them, npy, npz, IDX, PNG and
** gzip. The files are made by the library, PNG and the zip and gzip around them here (with right
** check sums, so that what is damaged inside is reached). A reader gives values that can be read or
** an error that is kept, asks for memory in proportion to the file, and leaves nothing behind.
*/
#include "fuzz.h"
#include "io/io.h"
#include "tensor/build.h"
#include <fcntl.h>
#include <sys/mman.h>
#ifdef FL_HAVE_ZLIB
#include <zlib.h>
#endif

enum { SAFETENSORS, NPY, NPZ, IDX, INDEX, PNG, KINDS };

static flame_context *context;
static fuzz_bytes valid[KINDS][8], work;
static int count[KINDS], values, refusals;
static char path[64];              /* of a file in memory */
static int file;
static int64_t blown_up;           /* bytes of the result for each byte of the file, at most */

static const char *const words[] = {
  "{", "}", "[", "]", ",", ":", "\"", "'", "(", ")", "\\u0000", "null", "-1", "0", "1e9",
  "9223372036854775807",
  "18446744073709551616", "\"dtype\"", "\"shape\"", "\"data_offsets\"", "\"__metadata__\"",
  "\"F32\"", "\"BOOL\"",
  "\"U16\"", "\"U64\"", "\"BF16\"", "[0,0]",
  "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
  "'descr'", "'<f4'", "'>f8'", "'|b1'", "'<u2'", "'<u8'", "'|O'", "'fortran_order'", "True",
  "False", "(2, 3)", "(,)",
  "{\"weight_map\":{\"a\":\"b.safetensors\"}}", "\"weight_map\"", "\"flame\":\"1:{}\"",
  "\"flame\":\"JAX\"", "\\u005c",
  "IHDR", "PLTE", "tRNS", "IDAT", "IEND", "\x89PNG\r\n\x1a\n", "\x93NUMPY", "PK\1\2", "PK\3\4",
  "PK\5\6", "PK\6\6", "\x1f\x8b\x08", "\n", " ", NULL
};

/* ---- valid files ----------------------------------------------------------------------------- */

static void take(int kind, const char *from) {
  fuzz_bytes *b = &valid[kind][count[kind]++];
  FILE *f = fopen(from, "rb");
  b->n = f ? fread(b->at, 1, sizeof b->at, f) : 0;
  if (f) fclose(f);
  if (!b->n) fuzz_fault("a valid file was not written");
}

static void save_each(const char *name, flame_tensor *const *x, int n) {
  fl_to_save s[8];
  const fl_pair meta[2] = { { { "flame", 5 }, { "1:{}", 4 } },
                            { { "\xc3\xa9\"", 3 }, { "\n", 1 } } };
  for (int i = 0; i < n; i++) {
    s[i] = (fl_to_save){ { &"abcdefgh"[i], 1 }, x[i]->node };
    if (fl_npy_save(context, name, x[i]->node) == FLAME_OK) take(NPY, name);
  }
  for (int some = 1; some <= n; some += n - 1) {
    if (fl_safetensors_save(context, name, some, s, some > 1 ? 2 : 0, meta) == FLAME_OK)
      take(SAFETENSORS, name);
    if (fl_npz_save(context, name, some, s) == FLAME_OK) take(NPZ, name);
  }
}

static void make_idx(unsigned type, unsigned size) {
  fuzz_bytes *b = &valid[IDX][count[IDX]++];
  memcpy(b->at, (unsigned char[]){ 0, 0, (unsigned char)type, 2, 0, 0, 0, 3, 0, 0, 0, 5 }, 12);
  b->n = 12 + 15 * (size_t)size;
  for (size_t i = 12; i < b->n; i++) b->at[i] = (unsigned char)i;
}

static void make_index(void) {
  static const char *const texts[] = {
    "{\"metadata\": {\"total_size\": 20}, \"weight_map\": {\"a.b\": \"m-1.safetensors\", \"c\": \"m-2.safetensors\"}}",
    "{\"weight_map\":{}}",
    "{\"a\":[1,{\"b\":null}],\"weight_map\":{\"\\u0061\":\"x.safetensors\"},\"c\":-1e5}"
  };
  for (int i = 0; i < 3; i++) {
    fuzz_bytes *b = &valid[INDEX][count[INDEX]++];
    b->n = strlen(texts[i]);
    memcpy(b->at, texts[i], b->n);
  }
}

static void make_valid(void) {
  static const int dtypes[] = { FLAME_F32, FLAME_F64, FLAME_I64, FLAME_I16, FLAME_U8, FLAME_BOOL };
  static const int64_t shape[] = { 2, 1, 3, 4 };
  static const unsigned char bytes[24 * 8] = { 1, 0, 1 };
  flame_tensor *x[6];
  char folder[] = "/tmp/flame-fuzz-XXXXXX", name[64];
  if (!mkdtemp(folder)) exit(2);
  snprintf(name, sizeof name, "%s/file", folder);
  for (int i = 0; i < 6; i++)
    x[i] = flame_from_data(context, dtypes[i], i < 5 ? i : 1, shape, bytes);
  FL_ENTER(context);
  save_each(name, x, 6);
  FL_LEAVE(context);
  for (int i = 0; i < 6; i++) flame_free(x[i]);
  for (unsigned i = 0; i < 6; i++)
    make_idx((unsigned[]){ 8, 9, 11, 12, 13, 14 }[i], (unsigned[]){ 1, 1, 2, 4, 4, 8 }[i]);
  make_index();
  unlink(name);
  rmdir(folder);
}

/* ---- around them ----------------------------------------------------------------------------- */

/* In place; window: as zlib's deflateInit2 takes it (-15 raw, 31 gzip). */
static void pack(fuzz_bytes *b, int window) {
#ifdef FL_HAVE_ZLIB
  static fuzz_bytes out;
  z_stream z = { .next_in = b->at, .avail_in = (unsigned)b->n, .next_out = out.at,
                 .avail_out = sizeof out.at };
  if (deflateInit2(&z, (int)fuzz_draw(10), Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return;
  if (deflate(&z, Z_FINISH) == Z_STREAM_END) {
    out.n = z.total_out;
    *b = out;
    blown_up = 1100;
  }
  deflateEnd(&z);
#else
  (void)b, (void)window;
#endif
}

static void little(unsigned char *p, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) p[i] = (unsigned char)(v >> 8 * i);
}

/* A zip file with one member "x.npy" that holds b. */
static void zip(fuzz_bytes *b, int deflated) {
  unsigned char local[35] = "PK\3\4", central[51] = "PK\1\2", end[22] = "PK\5\6";
  const uint32_t crc = fl_io_crc(0, b->at, b->n);
  const size_t unpacked = b->n;
  if (deflated) pack(b, -15);
  unsigned char *const head[] = { local + 4, central + 6 };
  for (int i = 0; i < 2; i++) {                      /* from "version needed" on the same in both */
    little(head[i], 20, 2);
    little(head[i] + 4, deflated ? 8 : 0, 2);
    little(head[i] + 10, crc, 4);
    little(head[i] + 14, b->n, 4);
    little(head[i] + 18, unpacked, 4);
    little(head[i] + 22, 5, 2);
  }
  memcpy(local + 30, "x.npy", 5);
  memcpy(central + 46, "x.npy", 5);
  little(end + 8, 1, 2);
  little(end + 10, 1, 2);
  little(end + 12, sizeof central, 4);
  little(end + 16, sizeof local + b->n, 4);
  fuzz_replace(b, 0, 0, local, sizeof local);
  fuzz_replace(b, b->n, 0, central, sizeof central);
  fuzz_replace(b, b->n, 0, end, sizeof end);
}

/* Corrects the lengths of headers, so that readers look at the damaged header itself. */
static void mend_length(int kind, fuzz_bytes *b, size_t before) {
  uint64_t n = 0;
  const int at = kind == NPY ? 8 : 0, bytes = kind == NPY ? 2 : 8;
  if (b->n < 10) return;
  for (int i = 0; i < bytes; i++) n |= (uint64_t)b->at[at + i] << 8 * i;
  little(b->at + at, n + b->n - before, bytes);
}

/* ---- PNG ------------------------------------------------------------------------------------- */

static void add_chunk(fuzz_bytes *b, const char *type, const unsigned char *data, size_t n) {
  const unsigned char head[8] = { (unsigned char)(n >> 24), (unsigned char)(n >> 16),
                                  (unsigned char)(n >> 8), (unsigned char)n,
    (unsigned char)type[0], (unsigned char)type[1], (unsigned char)type[2],
    (unsigned char)type[3] };
  fuzz_replace(b, b->n, 0, head, 8);
  fuzz_replace(b, b->n, 0, data, n);
  fuzz_replace(b, b->n, 0, "\0\0\0\0", 4);
}

/* Corrects the check sums of all chunks that can be found. */
static void mend_png(fuzz_bytes *b) {
  for (size_t at = 8; at + 12 <= b->n;) {
    const size_t n = (size_t)b->at[at] << 24 | (size_t)b->at[at + 1] << 16 |
                     (size_t)b->at[at + 2] << 8 | b->at[at + 3];
    if (n > b->n - at - 12) return;
    const uint32_t crc = fl_io_crc(0, b->at + at + 4, n + 4);
    for (unsigned i = 0; i < 4; i++) b->at[at + 8 + n + i] = (unsigned char)(crc >> (24 - 8 * i));
    at += n + 12;
  }
}

/* Rows of one pass: filters that are mostly right, samples that are mostly small. */
static void add_rows(fuzz_bytes *raw, unsigned w, unsigned h, unsigned bits) {
  for (unsigned y = 0; w && y < h; y++)
    for (unsigned i = 0, n = 1 + (w * bits + 7) / 8; i < n && raw->n < sizeof raw->at; i++)
      raw->at[raw->n++] = (unsigned char)(i ? fuzz_draw(fuzz_draw(2) ? 4 : 256)
                                            : fuzz_draw(fuzz_draw(64) ? 5 : 256));
}

static void make_png(void) {
  static const unsigned kinds[][3] = {            /* colour type, samples, the depths that it has */
    { 0, 1, 31 }, { 2, 3, 24 }, { 3, 1, 15 }, { 4, 2, 24 }, { 6, 4, 24 }
  };
  static const unsigned adam7[7][4] = {
    { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 }, { 2, 0, 4, 4 }, { 0, 2, 2, 4 }, { 1, 0, 2, 2 },
    { 0, 1, 1, 2 }
  };
  static fuzz_bytes raw;
  const unsigned *kind = kinds[fuzz_draw(5)], w = 1 + fuzz_draw(20), h = 1 + fuzz_draw(20),
                 interlaced = fuzz_draw(2);
  unsigned shift = fuzz_draw(5);
  while (!(kind[2] >> shift & 1)) shift = (shift + 1) % 5;
  const unsigned bits = (1u << shift) * kind[1];
  unsigned char head[13] = { 0, 0, 0, (unsigned char)w, 0, 0, 0, (unsigned char)h,
                             (unsigned char)(1 << shift), (unsigned char)kind[0], 0, 0,
    (unsigned char)interlaced }, bytes[768];
  raw.n = 0;
  if (!interlaced) add_rows(&raw, w, h, bits);
  for (int k = 0; interlaced && k < 7; k++) {
    const unsigned *p = adam7[k];
    add_rows(&raw, (w + p[2] - 1 - p[0]) / p[2], (h + p[3] - 1 - p[1]) / p[3], bits);
  }
  pack(&raw, 15);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)fuzz_draw(256);
  work.n = 0;
  fuzz_replace(&work, 0, 0, "\x89PNG\r\n\x1a\n", 8);
  add_chunk(&work, "IHDR", head, 13);
  if (kind[0] == 3) add_chunk(&work, "PLTE", bytes, 3 * (1 + fuzz_draw(256)));
  if (fuzz_draw(2))
    add_chunk(&work, "tRNS", bytes, kind[0] == 0 ? 2 : kind[0] == 2 ? 6 : fuzz_draw(8));
  const size_t first = fuzz_draw((unsigned)raw.n + 1);
  add_chunk(&work, "IDAT", raw.at, first);
  add_chunk(&work, "IDAT", raw.at + first, raw.n - first);
  add_chunk(&work, "IEND", raw.at, 0);
}

static int make_file(void) {
  int kind = (int)fuzz_draw(KINDS);
  blown_up = 1;
  if (kind == PNG) {
    make_png();
    if (fuzz_draw(2)) fuzz_damage(&work, 8, words);
    if (fuzz_draw(8)) mend_png(&work);
    blown_up = 1100;
    return kind;
  }
  work = valid[kind][fuzz_draw((unsigned)count[kind])];
  const size_t n = work.n;
  const int within = kind != NPZ && kind != INDEX && fuzz_draw(2);
  fuzz_damage(&work, within ? kind == NPY ? 10 : kind == IDX ? 4 : 8 : 0, words);
  if (within && kind != IDX) mend_length(kind, &work, n);
  if (kind == NPY && fuzz_draw(2)) zip(&work, (int)fuzz_draw(2)), kind = NPZ;
  else if (fuzz_draw(kind == IDX ? 2 : 8) == 0) pack(&work, 31);
  if (fuzz_draw(4) == 0) fuzz_damage(&work, 0, words);
  return fuzz_draw(16) ? kind : (int)fuzz_draw(KINDS);        /* sometimes a file of another kind */
}

/* ---- reading --------------------------------------------------------------------------------- */

static void look(const fl_node *n) {
  if (!n) {
    refusals++;
    if (flame_error_code(context) == FLAME_OK) fuzz_fault("no value and no error");
    return;
  }
  const size_t bytes = (size_t)fl_io_bytes(n->dtype, n->shape->rank, n->shape->size);
  unsigned char *p = malloc(bytes + 1);
  if (!p || fl_read_node(context, (fl_node *)n, p, bytes) != FLAME_OK)
    fuzz_fault("a value can not be read");
  for (size_t i = 0; p && n->dtype == FLAME_BOOL && i < bytes; i++)
    if (p[i] > 1) fuzz_fault("a bool is neither 0 nor 1");
  free(p);
  values++;
}

static void read_file(int kind) {
  fl_archive a;
  fl_parts parts;
  fl_zip z;
  switch (kind) {
    case NPY: look(fl_npy_read(context, path, 0)); return;
    case PNG: look(fl_png_read(context, path, 0)); return;
    case INDEX:
      if (fl_parts_open(&parts, context, path) != FLAME_OK) look(NULL);
      fl_parts_close(&parts);
      return;
    case IDX: look(fl_idx_read(context, path, 0)); return;
    case SAFETENSORS:
      if (fl_safetensors_open(&a, context, path) != FLAME_OK) look(NULL);
      else
        for (int64_t i = 0; i < a.tensors.n; i++)
          look(fl_safetensors_read(&a, &a.tensors.at[i], 0));
      fl_safetensors_close(&a);
      return;
    default:
      if (fl_zip_open(&z, context, path) != FLAME_OK) look(NULL);
      else for (int64_t i = 0; i < z.members.n; i++) look(fl_npz_read(&z, &z.members.at[i], 0));
      fl_zip_close(&z);
  }
}

static void round_of_files(void) {
  fl_mem *m = &context->mem;
  const int kind = make_file();
  if (ftruncate(file, 0) || pwrite(file, work.at, work.n, 0) != (ssize_t)work.n) exit(2);
  flame_clear_error(context);
  const int64_t before = m->live_bytes;
  m->peak_bytes = before;
  FL_ENTER(context);
  read_file(kind);
  FL_LEAVE(context);
  const int64_t most = (1 << 20) + 64 * blown_up * (int64_t)work.n;
  if (m->peak_bytes - before > most) fuzz_fault("more memory than the file can ask for");
}

int main(int argc, char **argv) {
  context = flame_open(NULL);
  file = memfd_create("fuzz", 0);
  if (!context || file < 0) return 2;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  make_valid();
  fuzz_budget = 2;
  const int result = fuzz_main(argc, argv, &context->mem, round_of_files, 1);
  printf("%s: %d values, %d refusals\n", fuzz_name, values, refusals);
  flame_close(context);
  close(file);
  return result;
}
