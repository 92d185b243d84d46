/*
** Text of a sweep over the vectors of a row (text_row.c has the names): their loads, what is
** computed of them, and what is held or stored.
*/
#include "cuda/text/text_row.h"
#include <stdio.h>
#include <string.h>

static const char *held_type(const text_form *f, int v) {
  return fl_row_size(f, v) == 4 ? "s4" : "s8";
}

const char *fl_row_index_type(const text_form *f) {
  return f->cls == C_CHUNKS && !f->few ? "long long" : "int";
}

/* "h7[threadIdx.x / 32] + e" */
static void put_held_place(const row_writer *r, int v) {
  const text_form *f = r->w->f;
  if (f->lanes > 32) fl_text_printf(r->w->out, "h%d[0] + e", v);
  else fl_text_printf(r->w->out, "h%d[threadIdx.x / %d] + e", v, f->lanes);
}

void fl_row_put_room(const row_writer *r, int v) {
  const text_form *f = r->w->f;
  if (f->persist)
    fl_text_printf(r->w->out, "%s k%d[%d];\n",
                   fl_text_ctype(fl_dtype_reg(f->k->instr[v].dtype)), v, f->steps * f->vector);
  else if (f->once)
    fl_text_printf(r->w->out, "s4 *const h%d[1] = { held };\n", v);
  else
    fl_text_printf(r->w->out, "__shared__ __align__(16) %s h%d[%d][%d];\n", held_type(f, v), v,
                   f->lanes > 32 ? 1 : f->threads / f->lanes, fl_row_room(f));
}

/* ---- loads ----------------------------------------------------------------------------------- */

static void put_row_load(row_writer *r, int v, int vector) {
  text_writer *w = r->w;
  const int o = fl_row_instr(w, v)->arg, whole = vector && w->f->in[o] == 1;
  if (whole && fl_row_is_asked(r, v)) {
    fl_row_put_asked(r, v);
    return;
  }
  if (whole) fl_text_printf(w->out, "l%d[j] = load<%d>(p%d + ", v, w->f->vector, o);
  else if (vector)
    fl_text_printf(w->out, "for (int q = 0; q < %d; q++) l%d[j].put(q, p%d[", w->f->vector, v, o);
  else fl_text_printf(w->out, "l%d[j].put(q, p%d[", v, o);
  w->plus = vector && !whole ? "q" : NULL;
  fl_text_offset(w, o);
  w->plus = NULL;
  fl_text_puts(w->out, whole ? ");\n" : "]);\n");
}

/* Begins the loop over a vector's elements: all of them, or only those in the row. */
static void put_elements(text_writer *w, int all) {
  fl_text_printf(w->out, "#pragma unroll\nfor (int q = 0; q < %d; q++) %s{\n", w->f->vector,
                 all ? "" : "if (e + q < n) ");
}

/* Begins the loop over vectors; count 0: over the batch of late loads from jb on. */
static void put_vector_head(row_writer *r, int count) {
  text_writer *w = r->w;
  if (count) fl_text_printf(w->out, "#pragma unroll\nfor (int j = 0; j < %d; j++) {\n", count);
  else
    fl_text_printf(w->out, "#pragma unroll\nfor (int j = jb; j < jb + %d; j++) {\n",
                   fl_row_late_batch(w->f));
  fl_text_printf(w->out, "const %s e = base + (j * %d + lane) * %d;\n", fl_row_index_type(w->f),
                 w->f->lanes, w->f->vector);
  if (w->f->once) fl_text_printf(w->out, "if (j == %d && e >= n) break;\n", w->f->steps - 1);
}

/* Writes loads that take all vectors whole or all element by element, by one branch: a choice for
** each vector would become predicated loads, which take time even if they do nothing. */
void fl_row_put_loads(row_writer *r, const uint8_t *need, int count) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  if (!fl_row_loads(f, need)) return;
  fl_text_puts(w->out, "if (vector) {\n");
  put_vector_head(r, count);
  fl_text_puts(w->out, f->full || f->once ? "{\n" : "if (e < n) {\n");
  fl_text_coords(w, f->k->nkept, f->ndim, "e");
  for (int v = 0; v < f->k->ninstr; v++)
    if (need[v] && fl_text_packed(f, v)) put_row_load(r, v, 1);
  fl_text_puts(w->out, "}\n}\n} else {\n");
  put_vector_head(r, count);
  put_elements(w, f->full);
  fl_text_coords(w, f->k->nkept, f->ndim, "e + q");
  for (int v = 0; v < f->k->ninstr; v++)
    if (need[v] && fl_text_packed(f, v)) put_row_load(r, v, 0);
  fl_text_puts(w->out, "}\n}\n}\n");
}

/* ---- computing ------------------------------------------------------------------------------- */

/* May a lane compute beyond the row's end? Not if it checks an index or gathers at one: that of a
** point beyond the end may be bad. */
static int harmless(const text_form *f, const uint8_t *need) {
  for (int v = 0; v < f->k->ninstr; v++) {
    const int code = f->k->instr[v].code;
    if (need[v] && (code == FL_I_GATHER || code == FL_I_INDEX)) return 0;
  }
  return 1;
}

static int needs_coords(const text_form *f, const uint8_t *need, const uint8_t *cached) {
  for (int v = 0; v < f->k->ninstr; v++) {
    const int code = f->k->instr[v].code;
    if (need[v] && !cached[v] && (code == FL_I_IOTA || code == FL_I_GATHER)) return 1;
  }
  return 0;
}

static int has_quads(const text_form *f) {
  for (int o = 0; o < f->k->noperand; o++) if (f->quad[o]) return 1;
  return 0;
}

/* What follows the name o<t> of the vector that holds values to be stored. Usually a vector is
** stored as soon as it is computed. With 'few' (rows of two chunks, text_form.h) the names are
** arrays, indexed by j, and all vectors are stored at the end: one branch chooses between storing
** vectors and storing elements, where predicated stores of each vector take time even if they do
** nothing. With longer vectors this would take too many registers. */
static const char *stored_at(const text_form *f) { return f->few ? "[j]" : ""; }

static void put_room_to_store(row_writer *r, int count) {
  const text_form *f = r->w->f;
  for (int t = 0; t < f->k->nstore; t++) {
    if (!fl_row_is_full(f, t)) continue;
    fl_text_printf(r->w->out, "pack<%s, %d> o%d",
                   fl_text_storage(f->k->operand[f->k->store[t].operand].dtype), f->vector, t);
    fl_text_printf(r->w->out, f->few ? "[%d] = {};\n" : " = {};\n", count);
  }
}

/* Writes the line that adds element q of the current row to its sum over rows (text_across.c). */
static void put_sum(row_writer *r, int t) {
  const fl_store *s = &r->w->f->k->store[t];
  const int reg = fl_dtype_reg(r->w->f->k->operand[s->operand].dtype), V = r->w->f->vector;
  fl_text_printf(r->w->out, "z%d[j * %d + q] = fl_add_%s(z%d[j * %d + q], (%s)v%d);\n", t, V,
                 fl_text_suffix(reg), t, V, fl_text_ctype(reg), s->value);
}

/* Writes the line by which reduction v takes element q, if that is in the row. */
static void put_reduce(text_writer *w, int v) {
  const text_form *f = w->f;
  const char *part = f->once ? "j / 16 * 2 + " : "";
  if (!f->full && f->once) fl_text_printf(w->out, "if (j < %d || e + q < n) ", f->steps - 1);
  else if (!f->full) fl_text_puts(w->out, "if (e + q < n) ");
  fl_text_printf(w->out, "a%d[%sq] = ", v, part);
  fl_text_reducer(w, v);
  fl_text_printf(w->out, "::join(a%d[%sq], ", v, part);
  fl_text_reduce_input(w, v, "e + q");
  fl_text_puts(w->out, ");\n");
}

static void put_element(row_writer *r, const sweep *s, const uint8_t *before) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int quads = has_quads(f);                 /* then one reduced dim */
  if (needs_coords(f, s->need, before))
    fl_text_coords(w, f->k->nkept, f->ndim, quads ? "e" : "e + q");
  w->hits = 1;
  w->slot = "[j]";
  w->plus = quads ? "q" : NULL;
  w->cached = before;
  fl_text_values(w, s->need, V_UNIFORM, V_ELEMENT);
  w->slot = w->plus = NULL;
  w->cached = NULL;
  w->hits = 0;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (s->keep[v] && f->persist)
      fl_text_printf(w->out, "k%d[j * %d + q] = v%d;\n", v, f->vector, v);
    else if (s->keep[v])
      fl_text_printf(w->out, "n%d.put(q, out_%s(v%d));\n", v,
                     fl_text_suffix(fl_dtype_reg(fl_row_instr(w, v)->dtype)), v);
    if (s->round < 0 || !fl_row_in_round(r, v, s->round)) continue;
    put_reduce(w, v);
  }
  for (int t = 0; s->stores && t < f->k->nstore; t++) {
    if (f->k->store[t].across) put_sum(r, t);
    if (!fl_row_is_full(f, t)) continue;
    if (fl_text_rounds_late(f, f->k->store[t].value)) {
      fl_text_printf(w->out, "y%d[q] = v%d;\n", t, f->k->store[t].value);
      continue;
    }
    fl_text_printf(w->out, "o%d%s.put(q, ", t, stored_at(f));
    fl_text_out(w, f->k->store[t].operand, f->k->store[t].value);
    fl_text_puts(w->out, ");\n");
  }
}

/* Writes one vector of store t, or, unless 'whole', its elements one by one. */
static void put_full_store(text_writer *w, int t, int whole) {
  const text_form *f = w->f;
  const int o = f->k->store[t].operand, unit = whole && f->in[o] == 1;
  if (unit) fl_text_printf(w->out, "store(p%d + ", o);
  else if (whole) fl_text_printf(w->out, "for (int q = 0; q < %d; q++) p%d[", f->vector, o);
  else fl_text_printf(w->out, "p%d[", o);
  w->plus = whole && !unit ? "q" : NULL;
  fl_text_offset(w, o);
  w->plus = NULL;
  if (unit) fl_text_printf(w->out, ", o%d%s);\n", t, stored_at(f));
  else fl_text_printf(w->out, "] = o%d%s.get(q);\n", t, stored_at(f));
}

/* Writes the stores of vector j or, with f->few, those of all 'count' vectors. */
static void put_full_stores(row_writer *r, int count) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int rest = f->once && !f->full;       /* the last vector may be longer than what is left */
  for (int whole = 1; whole >= 0; whole--) {
    if (rest && whole)
      fl_text_printf(w->out, "if (j < %d || e + %d <= n) {\n", f->steps - 1, f->vector);
    else
      fl_text_printf(w->out, whole ? "if (vector%s) {\n" : "} else %s{\n",
                     f->cls != C_GROUP ? "" : whole ? " && on" : "if (on) ");
    if (f->few) put_vector_head(r, count);
    if (whole) fl_text_puts(w->out, f->full || rest ? "{\n" : "if (e < n) {\n");
    else put_elements(w, f->full);
    fl_text_coords(w, f->k->nkept, f->ndim, whole ? "e" : "e + q");
    for (int t = 0; t < f->k->nstore; t++)
      if (fl_row_is_full(f, t)) put_full_store(w, t, whole);
    fl_text_puts(w->out, f->few ? "}\n}\n" : "}\n");
  }
  fl_text_puts(w->out, "}\n");
}

/* For values held in shared memory: writes the loads of the values that this sweep reads (k<v>),
** and declares packs for the values that it computes (n<v>). */
static void put_held(row_writer *r, const sweep *s, const uint8_t *before) {
  const text_form *f = r->w->f;
  for (int v = 0; v < f->k->ninstr && !f->persist; v++) {
    const char *type = held_type(f, v);
    if (s->keep[v]) fl_text_printf(r->w->out, "pack<%s, %d> n%d = {};\n", type, f->vector, v);
    if (!s->need[v] || !before[v]) continue;
    fl_text_printf(r->w->out, "const pack<%s, %d> k%d = load<%d>(", type, f->vector, v, f->vector);
    put_held_place(r, v);
    fl_text_puts(r->w->out, ");\n");
  }
}

static void put_holding(row_writer *r, const sweep *s) {
  for (int v = 0; v < r->w->f->k->ninstr && !r->w->f->persist; v++) {
    if (!s->keep[v]) continue;
    fl_text_puts(r->w->out, "store(");
    put_held_place(r, v);
    fl_text_printf(r->w->out, ", n%d);\n", v);
  }
}

/* For stored values that are rounded two by two: declares room for a vector of them or, when
** 'done', writes the line that rounds the vector into the pack to be stored. */
static void put_rounding(text_writer *w, int done) {
  const text_form *f = w->f;
  for (int t = 0; t < f->k->nstore; t++) {
    const int v = f->k->store[t].value;
    if (!fl_row_is_full(f, t) || !fl_text_rounds_late(f, v)) continue;
    if (done)
      fl_text_printf(w->out, "o%d%s = outs_%s(y%d);\n", t, stored_at(f),
                     fl_dtype_name(f->k->operand[f->k->store[t].operand].dtype), t);
    else fl_text_printf(w->out, "float y%d[%d] = {};\n", t, f->vector);
  }
}

/* Writes t<v> (fl_text_target) for each value v of the sweep that compares positions with one
** number: the row's label, in a cross-entropy. Opens a scope in the text, since another sweep may
** declare t<v> again; 1 if there is any. */
static int put_targets(row_writer *r, const sweep *s, const uint8_t *before) {
  const text_form *f = r->w->f;
  int any = 0;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!s->need[v] || before[v] || !fl_text_hit(f, v)) continue;
    if (!any++) fl_text_puts(r->w->out, "{\n");
    fl_text_target(r->w, v);
  }
  return any;
}

/* For a row that is read once: if all that the sweep does is to find the greatest or the least of
** its half floats, returns the load of these, and *red, the reduction; else -1. One instruction
** then compares both halves of a 32-bit word. (Other rows gain nothing: a softmax over rows of
** 8,192 bf16 took 197 us with it and 188 without, on an H200.) */
static int paired_load(const row_writer *r, const sweep *s, int *red) {
  const text_form *f = r->w->f;
  *red = -1;
  if (!f->once) return -1;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (s->keep[v]) return -1;
    if (s->round < 0 || !fl_row_in_round(r, v, s->round)) continue;
    if (*red >= 0) return -1;
    *red = v;
  }
  if (*red < 0 || s->stores) return -1;
  const fl_instr *i = fl_row_instr(r->w, *red);
  if (i->op != FL_OP_amax && i->op != FL_OP_amin) return -1;
  int v = i->a;
  if (fl_row_instr(r->w, v)->code == FL_I_CAST && fl_row_instr(r->w, v)->dtype == FLAME_F32)
    v = fl_row_instr(r->w, v)->a;
  i = fl_row_instr(r->w, v);
  return i->code == FL_I_LOAD && (i->dtype == FLAME_BF16 || i->dtype == FLAME_F16) &&
         f->vary[v] == V_ELEMENT ? v : -1;
}

/* Writes the sweep that takes the greatest (the least) of load v for reduction 'red'. */
static void put_pairs(row_writer *r, int v, int red, int count) {
  text_writer *w = r->w;
  const int half = fl_row_instr(w, v)->dtype, most = fl_row_instr(w, red)->op == FL_OP_amax;
  const unsigned first = (half == FLAME_BF16 ? 0x7f80u : 0x7c00u) | (most ? 0x8000u : 0);
  const char *type = fl_dtype_name(half);
  fl_text_printf(w->out, "{\nunsigned m[2] = { 0x%04x%04xu, 0x%04x%04xu };\n", first, first, first,
                 first);
  put_vector_head(r, count);
  fl_text_printf(w->out, "unsigned x = l%d[j].w[0];\n", v);
  if (!w->f->full)
    fl_text_printf(w->out, "if (j == %d && e + 1 >= n) x = (x & 0xffffu) | 0x%04x0000u;\n",
                   w->f->steps - 1, first);
  fl_text_printf(w->out, "m[j / 16] = %ss_%s(m[j / 16], x);\n}\n", most ? "max" : "min", type);
  fl_text_printf(w->out, "#pragma unroll\nfor (int q = 0; q < 4; q++)\n  a%d[q] = ", red);
  fl_text_reducer(w, red);
  fl_text_printf(w->out, "::join(a%d[q], in_%s((s2)(m[q / 2] >> 16 * (q %% 2))));\n}\n", red,
                 type);
}

void fl_row_put_compute(row_writer *r, const sweep *s, const uint8_t *before, int count) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int stores = s->stores && fl_row_has_full_stores(f);
  int red;
  const int pairs = paired_load(r, s, &red);
  if (pairs >= 0) {
    put_pairs(r, pairs, red, count);
    return;
  }
  if (stores && f->few) put_room_to_store(r, count);
  const int targets = put_targets(r, s, before);
  put_vector_head(r, count);
  put_held(r, s, before);
  if (stores && !f->few) put_room_to_store(r, count);
  if (stores) put_rounding(w, 0);
  put_elements(w, f->full || harmless(f, s->need));
  put_element(r, s, before);
  fl_text_puts(w->out, "}\n");
  if (stores) put_rounding(w, 1);
  put_holding(r, s);
  if (stores && !f->few) put_full_stores(r, count);
  fl_text_puts(w->out, targets ? "}\n}\n" : "}\n");
  if (stores && f->few) put_full_stores(r, count);
}
