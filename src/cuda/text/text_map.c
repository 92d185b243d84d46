/*
** Text of MAP kernels. A block computes w[W_SPAN] consecutive points; a thread takes vectors of V
** points, U of them in flight: all loads of the U vectors are issued before the first store. If a
** start or a stride is not aligned the same is done with V = 1. Each operand is read once, the
** least possible.
**
** A vector lies in one run of the innermost dim (its size is a multiple of V then), so the
** outer coordinates, and what depends on them alone, are computed once per vector. If that is much
** work and runs are long, they are computed once for the U vectors of a thread that lie in one run.
*/
#include "cuda/text/text_form.h"
#include <stdio.h>

/* One of the loops of the text. vector, unroll: as in text_form. need: the values that it computes;
** early: of these, those that the loads need (positions of gathers). */
typedef struct path { int vector, unroll; const uint8_t *need, *early; } path;

static void put_load(text_writer *w, const path *p, int v) {
  const text_form *f = w->f;
  const fl_instr *i = &f->k->instr[v];
  const int in = f->in[i->arg], each = p->vector > 1 && in == 2;
  if (each)
    fl_text_printf(w->out, "for (int q = 0; q < %d; q++) l%d%s.put(q, p%d[", p->vector, v, w->slot,
                   i->arg);
  else if (f->vary[v] == V_UNIFORM)
    fl_text_printf(w->out, "l%d%s.x = p%d[", v, w->slot, i->arg);
  else fl_text_printf(w->out, "l%d%s = load<%d>(p%d + ", v, w->slot, p->vector, i->arg);
  w->plus = each ? "q" : NULL;
  fl_text_offset(w, i->arg);
  if (i->code == FL_I_GATHER) fl_text_printf(w->out, " + v%d * w[%d]", i->a, f->gather[i->arg]);
  fl_text_puts(w->out, each ? "]);\n" : f->vary[v] == V_UNIFORM ? "];\n" : ");\n");
}

static void put_vector_head(text_writer *w, const path *p) {
  fl_text_printf(w->out, "#pragma unroll\nfor (int u = 0; u < %d; u++) {\n", p->unroll);
  fl_text_printf(w->out, "const long long e = at + (u * %d + tid) * %d;\nif (e >= end) break;\n",
                 MAP_THREADS, p->vector);
  fl_text_coords(w, 0, w->f->ndim, "e");
}

static void put_loads(text_writer *w, const path *p) {
  const text_form *f = w->f;
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!p->need[v]) continue;
    if (fl_text_packed(f, v)) put_load(w, p, v);
    if (p->early[v] && f->vary[v] == V_UNIFORM) fl_text_value(w, v);
  }
}

static int packed_store(const text_form *f, const path *p, int s) {
  return p->vector > 1 && f->in[f->k->store[s].operand] == 1;
}

static void put_store(text_writer *w, const path *p, int s) {
  const text_form *f = w->f;
  const fl_store *st = &f->k->store[s];
  if (packed_store(f, p, s)) {
    fl_text_printf(w->out, "o%d.put(q, ", s);
    fl_text_out(w, st->operand, st->value);
    fl_text_puts(w->out, ");\n");
    return;
  }
  fl_text_printf(w->out, "p%d[", st->operand);
  fl_text_offset(w, st->operand);
  fl_text_puts(w->out, "] = ");
  fl_text_out(w, st->operand, st->value);
  fl_text_puts(w->out, ";\n");
}

static void put_compute(text_writer *w, const path *p) {
  const text_form *f = w->f;
  for (int s = 0; s < f->k->nstore; s++) {
    const int o = f->k->store[s].operand;
    if (packed_store(f, p, s))
      fl_text_printf(w->out, "pack<%s, %d> o%d = {};\n", fl_text_storage(f->k->operand[o].dtype),
                     p->vector, s);
  }
  fl_text_printf(w->out, "#pragma unroll\nfor (int q = 0; q < %d; q++) {\n", p->vector);
  w->plus = p->vector > 1 ? "q" : NULL;
  fl_text_values(w, p->need, V_ELEMENT, V_ELEMENT);
  for (int s = 0; s < f->k->nstore; s++) put_store(w, p, s);
  fl_text_puts(w->out, "}\n");
  w->plus = NULL;
  for (int s = 0; s < f->k->nstore; s++) {
    if (!packed_store(f, p, s)) continue;
    fl_text_printf(w->out, "store(p%d + ", f->k->store[s].operand);
    fl_text_offset(w, f->k->store[s].operand);
    fl_text_printf(w->out, ", o%d);\n", s);
  }
}

static void put_run_head(text_writer *w, const path *p) {
  fl_text_printf(w->out, "#pragma unroll\nfor (int u = 0; u < %d; u++) {\n"
                 "const long long c%d = run + u * %d;\n", p->unroll, w->f->inner,
                 MAP_THREADS * p->vector);
}

/* Writes the path for the case that all U vectors of a thread lie in one run of the innermost
** dim. */
static void put_run(text_writer *w, const path *p) {
  const text_form *f = w->f;
  const int inner = f->inner, span = (p->unroll - 1) * MAP_THREADS * p->vector;
  uint8_t shared[FL_MAX_INSTR] = { 0 }, own[FL_MAX_INSTR] = { 0 }, late[FL_MAX_INSTR] = { 0 };
  for (int v = 0; v < f->k->ninstr; v++) {
    shared[v] = p->need[v] && f->vary[v] == V_UNIFORM;
    own[v] = p->need[v] && f->vary[v] == V_ELEMENT;
    late[v] = shared[v] && !p->early[v];
  }
  const path rows = { 1, 1, shared, p->early }, row = { p->vector, p->unroll, own, p->early };
  fl_text_printf(w->out, "{\nconst long long e = at + tid * %d;\n", p->vector);
  fl_text_coords(w, 0, f->ndim, "e");
  fl_text_printf(w->out, "if (e + %d < end && c%d + %d < w[%d]) {\n"
                 "const long long run = c%d;\n", span, inner, span, f->size[inner], inner);
  w->slot = "[0]";
  put_loads(w, &rows);
  w->slot = "[u]";
  put_run_head(w, &row);
  put_loads(w, &row);
  fl_text_puts(w->out, "}\n");
  w->slot = "[0]";
  fl_text_values(w, late, V_UNIFORM, V_UNIFORM);
  w->slot = "[u]";
  put_run_head(w, &row);
  put_compute(w, &row);
  w->slot = NULL;
  fl_text_puts(w->out, "}\ncontinue;\n}\n}\n");
}

static void put_path(text_writer *w, const path *p) {
  char count[16];
  snprintf(count, sizeof count, "%d", p->unroll);
  fl_text_printf(w->out, "#pragma unroll 1\nfor (; at < end; at += %d) {\n",
                 MAP_THREADS * p->unroll * p->vector);
  fl_text_packs(w, p->need, p->vector, count);
  if (p->vector > 1 && w->f->runs) put_run(w, p);
  w->slot = "[u]";
  put_vector_head(w, p);
  put_loads(w, p);
  fl_text_puts(w->out, "}\n");
  put_vector_head(w, p);
  fl_text_values(w, p->need, V_UNIFORM, V_UNIFORM);
  put_compute(w, p);
  fl_text_puts(w->out, "}\n");
  w->slot = NULL;
  fl_text_puts(w->out, "}\n");
}

void fl_text_map(text_writer *w) {
  const text_form *f = w->f;
  uint8_t need[FL_MAX_INSTR] = { 0 }, early[FL_MAX_INSTR] = { 0 };
  for (int s = 0; s < f->k->nstore; s++) fl_text_need(f, f->k->store[s].value, NULL, need);
  for (int v = 0; v < f->k->ninstr; v++) {       /* first the positions of gathers that are loaded
                                                 ** as packs */
    if (need[v] && f->k->instr[v].code == FL_I_GATHER && fl_text_packed(f, v))
      fl_text_need(f, f->k->instr[v].a, NULL, early);
  }
  path wide = { f->vector, f->unroll, need, early }, narrow = { 1, f->unroll, need, early };
  fl_text_pointers(w);
  fl_text_values(w, need, V_CONST, V_CONST);
  fl_text_puts(w->out, "const int tid = threadIdx.x;\n");
  fl_text_printf(w->out, "const long long first = block * w[%d];\n", W_SPAN);
  fl_text_printf(w->out, "long long at = first, last = first + w[%d];\n", W_SPAN);
  fl_text_printf(w->out, "if (last > w[%d]) last = w[%d];\n", W_N, W_N);
  fl_text_printf(w->out, "if (w[%d] & %d) {\n", W_FLAGS, F_VECTOR);
  fl_text_printf(w->out, "const long long end = last - (last - first) %% %d;\n", wide.vector);
  put_path(w, &wide);
  fl_text_puts(w->out, "at = end;\n}\nconst long long end = last;\n");
  put_path(w, &narrow);
}
