/*
** Structure of kernels: equality, key, and a readable form. Structure is everything that determines
** a kernel's text: instructions, dtypes, the class of each stride, alignment, the size class of
** rows; not exact sizes, addresses, offsets or scalars (which are run-time data, so that a new
** batch size mostly needs no compilation).
*/
#include "plan/kernel.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/text.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static int stride_class(int64_t s) { return s == 0 ? 0 : s == 1 ? 1 : 2; }

/* The size class of rows, by powers of two from 32: devices have different code for them. */
static int row_class(const fl_kernel *k) {
  int c = 0;
  if (k->kind == FL_K_MAP) return 0;
  while (c < 12 && (32LL << c) < k->n) c++;
  return c;
}

static int same_operand(const fl_kernel *a, const fl_kernel *b, int i) {
  const fl_operand *p = &a->operand[i], *q = &b->operand[i];
  if (p->dtype != q->dtype || p->reads != q->reads || p->writes != q->writes ||
      p->aligned16 != q->aligned16)
    return 0;
  for (int d = 0; d < a->nkept + a->nred; d++)
    if (stride_class(p->stride[d]) != stride_class(q->stride[d])) return 0;
  return (p->gstride != 0) == (q->gstride != 0);
}

int fl_row_lanes(int64_t n) {
  if (n <= 4) return 1;
  if (n <= 16) return 4;
  if (n <= 64) return 16;
  if (n <= FL_WARP_ROW) return 32;
  if (n <= 4096) return 256;
  return n <= 8192 ? 512 : 1024;
}

int64_t fl_column_chunk(int64_t n, int64_t kept) {
  const int64_t tiles = fl_ceil_div(kept, 64);
  int64_t c = 256;
  const int64_t least = kept <= FL_WARP_ROW ? 640 : 300;
  while (c < 2048 && tiles * fl_ceil_div(n, 2 * c) >= (c < 1024 ? least : 1024)) c *= 2;
  while (n / c > 1024) c *= 2;
  return c;
}

int64_t fl_row_partials(int64_t rows, int64_t n) {
  return fl_ceil_div(rows, fl_column_chunk(rows, n)) * fl_row_parts(n);
}

int fl_kernel_same_structure(const fl_kernel *a, const fl_kernel *b) {
  if (a->kind != b->kind || a->partial != b->partial || a->nkept != b->nkept ||
      a->nred != b->nred || a->ninstr != b->ninstr || a->noperand != b->noperand ||
      a->nstore != b->nstore || a->nscalar != b->nscalar || row_class(a) != row_class(b))
    return 0;
  for (int i = 0; i < a->ninstr; i++) {
    fl_instr x = a->instr[i], y = b->instr[i];
    if (x.code == FL_I_INDEX) x.arg = y.arg = 0;             /* which fault site: data */
    if (memcmp(&x, &y, sizeof x)) return 0;
  }
  for (int i = 0; i < a->noperand; i++) if (!same_operand(a, b, i)) return 0;
  return !a->nstore || !memcmp(a->store, b->store, sizeof *a->store * a->nstore);
}

uint64_t fl_kernel_key(const fl_kernel *k) {
  const uint16_t head[8] = { (uint16_t)(k->kind | k->partial << 8), k->nkept, k->nred, k->ninstr,
                             k->noperand, k->nstore, k->nscalar, (uint16_t)row_class(k) };
  uint64_t h = fl_hash64(head, sizeof head, 1);
  for (int i = 0; i < k->ninstr; i++) {
    fl_instr x = k->instr[i];
    if (x.code == FL_I_INDEX) x.arg = 0;
    h = fl_hash64(&x, sizeof x, h);
  }
  for (int i = 0; i < k->noperand; i++) {
    const fl_operand *o = &k->operand[i];
    uint8_t b[16] = { o->dtype, o->reads, o->writes, o->aligned16, o->gstride != 0 };
    for (int d = 0; d < k->nkept + k->nred; d++) b[5 + d] = (uint8_t)stride_class(o->stride[d]);
    h = fl_hash64(b, sizeof b, h);
  }
  return k->nstore ? fl_hash64(k->store, sizeof *k->store * k->nstore, h) : h;
}

static void print_instr(const fl_kernel *k, int i, fl_text *out) {
  static const char *const code[] = { "load", "iota", "scalar", "op", "cast", "index", "gather",
                                      "random", "reduce" };
  const fl_instr *x = &k->instr[i];
  const int named = x->code == FL_I_OP || x->code == FL_I_REDUCE || x->code == FL_I_RANDOM;
  fl_text_printf(out, "  %%%d:%s%s = %s", i, fl_dtype_name(x->dtype), x->level ? "" : "'",
                 named ? fl_ops[x->op].name : code[x->code]);
  if (x->code == FL_I_LOAD || x->code == FL_I_IOTA || x->code == FL_I_GATHER)
    fl_text_printf(out, " @%d", x->arg);
  if (x->code == FL_I_SCALAR) fl_text_printf(out, " $%d", x->arg);
  const int n = x->code == FL_I_OP ? fl_ops[x->op].nin
              : x->code == FL_I_INDEX || x->code == FL_I_RANDOM ? 3
              : x->code == FL_I_LOAD || x->code == FL_I_IOTA || x->code == FL_I_SCALAR ? 0 : 1;
  const uint16_t v[3] = { x->a, x->b, x->c };
  assert(n <= 3);
  for (int j = 0; j < n; j++) fl_text_printf(out, " %%%d", v[j]);
  if (x->pass) fl_text_printf(out, "  ; pass %d", x->pass);
  fl_text_puts(out, "\n");
}

void fl_kernel_print(const fl_kernel *k, fl_text *out) {
  static const char *const kind[] = { "map", "row", "col" };
  fl_text_printf(out, "%s kept(", kind[k->kind]);
  for (int d = 0; d < k->nkept + k->nred; d++)
    fl_text_printf(out, "%s%lld", d == k->nkept ? ") reduced(" : d ? " " : "",
                   (long long)k->size[d]);
  fl_text_puts(out, ")\n");
  for (int i = 0; i < k->noperand; i++) {
    const fl_operand *o = &k->operand[i];
    fl_text_printf(out, "  @%d %s %s%d+%lld%s%s strides(", i, fl_dtype_name(o->dtype),
                   o->place.where == FL_AT_EXT ? "ext" : o->place.where == FL_AT_OUT
                   ? "out" : "arena", o->place.where == FL_AT_ARENA
                   ? (int)(o->place.byte / 256) : o->place.index, (long long)o->offset,
                   o->reads ? " read" : "", o->writes ? " write" : "");
    for (int d = 0; d < k->nkept + k->nred; d++)
      fl_text_printf(out, "%s%lld", d ? " " : "", (long long)o->stride[d]);
    fl_text_printf(out, ")%s\n", o->gstride ? " indexed" : "");
  }
  for (int i = 0; i < k->ninstr; i++) print_instr(k, i, out);
  for (int i = 0; i < k->nstore; i++)
    fl_text_printf(out, "  store @%d = %%%d%s\n", k->store[i].operand, k->store[i].value,
                   k->store[i].across ? ", summed over the rows of each lane" : "");
}

/* Appends "+name" unless it is in the list already; a full list ends in "+...". */
static void add_name(char *out, size_t size, const char *name) {
  const size_t n = strlen(out), k = strlen(name);
  for (const char *p = out; (p = strstr(p, name)) != NULL; p += k)
    if ((p == out || p[-1] == '+') && (p[k] == 0 || p[k] == '+')) return;
  if (n + k + 6 < size) snprintf(out + n, size - n, "%s%s", n ? "+" : "", name);
  else if (n > 3 && strcmp(out + n - 3, "...") != 0) snprintf(out + n, size - n, "+...");
}

void fl_kernel_name(const fl_kernel *k, char *out, size_t size) {
  const char *plain = "copy";
  out[0] = 0;
  for (int i = 0; i < k->ninstr; i++) {
    const fl_instr *x = &k->instr[i];
    switch (x->code) {
      case FL_I_OP:
      case FL_I_REDUCE:
      case FL_I_RANDOM: add_name(out, size, fl_ops[x->op].name); break;
      case FL_I_GATHER: add_name(out, size, "gather"); break;
      case FL_I_CAST: plain = "cast"; break;
      case FL_I_IOTA: plain = "arange"; break;
      case FL_I_SCALAR: if (k->ninstr == 1) plain = "fill"; break;
      default: break;
    }
  }
  if (out[0] == 0) add_name(out, size, plain);
}
