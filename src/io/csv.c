/*
** csv: a table of numbers as text, one row per line, with commas between. A float has as many
** digits as are needed to read the same number again, 17 for f64 and 9 for narrower dtypes; NaN and
** infinities are the words nan, inf and -inf. lua/flame/data.lua reads such files.
*/
#include "io/io.h"
#include "base/text.h"
#include "tensor/build.h"
#include <math.h>
#include <string.h>

typedef struct table { const void *at; int is_float, digits; } table;

static void add_number(fl_text *t, const table *v, int64_t i) {
  int64_t whole;
  double d;
  if (!v->is_float) {
    memcpy(&whole, (const char *)v->at + 8 * i, 8);
    fl_text_printf(t, "%lld", (long long)whole);
    return;
  }
  memcpy(&d, (const char *)v->at + 8 * i, 8);
  if (isnan(d)) fl_text_puts(t, "nan");
  else if (d == 0 && signbit(d)) fl_text_puts(t, "-0.0");       /* -0 would read as the integer 0 */
  else if (isinf(d)) fl_text_puts(t, d < 0 ? "-inf" : "inf");
  else fl_text_printf(t, "%.*g", v->digits, d);
}

static flame_status write_rows(fl_writer *o, const table *v, int64_t rows, int64_t columns) {
  fl_text t;
  flame_status e = FLAME_OK;
  fl_text_init(&t, &o->c->mem);
  for (int64_t r = 0; e == FLAME_OK && r < rows; r++) {
    for (int64_t c = 0; c < columns; c++) {
      add_number(&t, v, r * columns + c);
      fl_text_puts(&t, c + 1 < columns ? "," : "\n");
    }
    e = t.failed ? FL_FAIL(o->c, FLAME_NO_MEMORY, "save", "no host memory for a row")
                 : fl_writer_write(o, t.at, t.n);
    if (e == FLAME_OK && (r & 0xfff) == 0xfff) e = fl_writer_poll(o);
    t.n = 0;
  }
  fl_text_free(&t);
  return e;
}

flame_status fl_csv_save(flame_context *c, const char *path, fl_node *n) {
  char shape[192];
  fl_writer o;
  size_t bytes = 0;
  if (n->shape->rank != 2 || n->shape->numel == 0)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "save",
                   "%.150s: a csv file holds rows and columns of numbers, the tensor has shape %s"
                   FL_DO ": "
                   "reshape it, or use .npy", path,
                   fl_shape_text(shape, n->shape->rank, n->shape->size));
  table v = { NULL, fl_is_float(n->dtype), n->dtype == FLAME_F64 ? 17 : 9 };
  fl_node *wide = n_cast(n, v.is_float ? FLAME_F64 : FLAME_I64);
  void *p = wide ? fl_io_bytes_of(c, wide, &bytes) : NULL;
  if (!p) return c->err.code;
  v.at = p;
  flame_status e = fl_writer_open(&o, c, "save", path);
  if (e == FLAME_OK) e = write_rows(&o, &v, n->shape->size[0], n->shape->size[1]);
  if (e == FLAME_OK) e = fl_writer_commit(&o);
  fl_writer_close(&o);
  fl_free(&c->mem, p, bytes);
  return e;
}
