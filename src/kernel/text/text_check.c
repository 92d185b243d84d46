/* Checked accesses as text (text_check.h, kernels/check.cu). */
#include "kernel/text/text_check.h"
#include "kernel/facts/guess.h"
#include "kernel/lanes/lane.h"
#include <string.h>

static int line_of(const fl_kwriter *w, int32_t line) { return (int)(line ? line : w->line); }

/* ---- names and places of arrays ----------------------------------------------------- */

static int look(void *arg, fl_kstmt *s) {
  fl_kcheck *c = arg;
  if (s->kind == FL_KS_SHUFFLE || s->kind == FL_KS_VOTE) c->waits = 1;
  if (s->kind == FL_KS_BARRIER && s->op == FL_KBAR_FENCE) c->fences = 1;
  else if (s->kind == FL_KS_BARRIER) c->waits = 1;
  if (s->kind == FL_KS_DECL && (c->checks & FL_LANE_UNINIT)) c->tracked[s->var] = 1;
  return 1;
}

static void find_arrays(fl_kcheck *c, const fl_kfunc *f) {
  for (int i = 0; i < f->n_vars; i++) {
    const fl_kvar *v = &f->vars[i];
    c->array[i] = v->kind == FL_KV_POINTER ? c->n_arrays++ : -1;
    if (v->temporary || v->param >= 0 || (v->kind != FL_KV_LOCAL && v->kind != FL_KV_ARRAY))
      c->tracked[i] = 0;
    if (v->kind == FL_KV_SHARED && (!c->grain || fl_kt_size(v->type) < c->grain))
      c->grain = fl_kt_size(v->type);
  }
  for (int i = 0; i < f->n_vars; i++) {
    const fl_kvar *v = &f->vars[i];
    if (v->kind != FL_KV_SHARED || v->dynamic) continue;
    c->cell[i] = (int32_t)c->cells;
    c->cells += v->count * (fl_kt_size(v->type) / c->grain);
  }
  for (int i = 0; i < f->n_vars; i++)
    if (f->vars[i].kind == FL_KV_SHARED && f->vars[i].dynamic) c->cell[i] = (int32_t)c->cells;
}

int fl_kcheck_open(fl_kcheck *c, fl_mem *m, const fl_kfunc *f, unsigned checks) {
  const size_t n = (size_t)f->n_vars + 1;
  *c = (fl_kcheck){ .checks = checks, .n_vars = f->n_vars };
  c->array = fl_zalloc(m, n * sizeof *c->array);
  c->cell = fl_zalloc(m, n * sizeof *c->cell);
  c->tracked = fl_zalloc(m, n);
  c->guess = fl_kguess_find(m, f);
  c->n_sites = f->n_sites;
  if (!c->array || !c->cell || !c->tracked || !c->guess) {
    fl_kcheck_close(c, m);
    return 0;
  }
  const fl_kvisitor v = { look, NULL, c };
  fl_kwalk_block(&v, f->body);
  find_arrays(c, f);
  return 1;
}

void fl_kcheck_close(fl_kcheck *c, fl_mem *m) {
  const size_t n = (size_t)c->n_vars + 1;
  fl_free(m, c->array, n * sizeof *c->array);
  fl_free(m, c->cell, n * sizeof *c->cell);
  fl_free(m, c->tracked, n);
  if (c->guess) fl_free(m, c->guess, (size_t)c->n_sites + 1);
  c->array = c->cell = NULL;
  c->tracked = c->guess = NULL;
}

/* ---- accesses ------------------------------------------------------------------------ */

/* Writes the last arguments of a call of a checking function, without ")": for global memory the
** number of array 'var', else its length; for shared memory its first cell and the cells per
** element; the variable, and the line. */
static void put_rest(fl_kwriter *w, int var, int32_t line) {
  const fl_kvar *v = &w->f->vars[var];
  const fl_kcheck *c = w->check;
  if (v->kind == FL_KV_POINTER) fl_text_printf(w->t, ", %d", (int)c->array[var]);
  else if (v->kind == FL_KV_SHARED && v->dynamic)
    fl_text_printf(w->t, ", fl_t.c->dynamic_bytes / %d", fl_kt_size(v->type));
  else fl_text_printf(w->t, ", %lldll", (long long)v->count);
  if (v->kind == FL_KV_SHARED)
    fl_text_printf(w->t, ", %d, %d", (int)c->cell[var], fl_kt_size(v->type) / c->grain);
  fl_text_printf(w->t, ", %d, %d", var, line_of(w, line));
}

static void put_array(fl_kwriter *w, const char *verb, int var) {
  const fl_kvar *v = &w->f->vars[var];
  fl_text_printf(w->t, "fl_%s%s(fl_t, ", verb,
                 v->kind == FL_KV_POINTER ? "" : v->kind == FL_KV_SHARED ? "_shared" : "_local");
  fl_kput_var(w, var);
  if (v->kind == FL_KV_POINTER || v->kind == FL_KV_SHARED) return;
  fl_text_puts(w->t, ", ");
  if (w->check->tracked[var]) {
    fl_kput_var(w, var);
    fl_text_puts(w->t, "__s");
  } else {
    fl_text_puts(w->t, "(bool *)0");
  }
}

void fl_kcheck_load(fl_kwriter *w, const fl_kexpr *x) {
  put_array(w, "read", x->var);
  fl_text_puts(w->t, ", ");
  fl_kput_expr(w, x->x[0]);
  put_rest(w, x->var, x->line);
  if (x->site >= 0 && w->check->guess[x->site]) fl_text_puts(w->t, ", FL_GUESS");
  fl_text_puts(w->t, ")");
}

void fl_kcheck_store(fl_kwriter *w, const fl_kstmt *s,
                     void (*value)(fl_kwriter *w, const fl_kstmt *s)) {
  put_array(w, "write", s->var);
  fl_text_puts(w->t, ", ");
  fl_kput_expr(w, s->x[0]);
  fl_text_puts(w->t, ", ");
  value(w, s);
  put_rest(w, s->var, s->line);
  fl_text_puts(w->t, ")");
}

void fl_kcheck_atomic(fl_kwriter *w, const fl_kstmt *s) {
  const fl_kvar *v = &w->f->vars[s->var];
  if (s->result >= 0) {
    fl_kput_var(w, s->result);
    fl_text_puts(w->t, " = 0; ");
  }
  fl_text_puts(w->t, "const long long fl_i = ");
  fl_kput_expr(w, s->x[0]);
  fl_text_printf(w->t, "; if (fl_change%s(fl_t, fl_i", v->kind == FL_KV_SHARED ? "_shared" : "");
  put_rest(w, s->var, s->line);
  fl_text_puts(w->t, ")) ");
}

void fl_kcheck_var(fl_kwriter *w, const fl_kexpr *x) {
  if (!w->check->tracked[x->var]) { fl_kput_var(w, x->var); return; }
  fl_text_puts(w->t, "fl_value(fl_t, ");
  fl_kput_var(w, x->var);
  fl_text_puts(w->t, ", ");
  fl_kput_var(w, x->var);
  fl_text_printf(w->t, "__s, %d, %d)", (int)x->var, line_of(w, x->line));
}

void fl_kcheck_divisor(fl_kwriter *w, const fl_kexpr *x, const fl_kexpr *divisor) {
  const int checked = (x->op == FL_KO_DIV || x->op == FL_KO_REM) && !fl_kt_is_float(x->type) &&
                      divisor->kind != FL_KX_CONST && (w->check->checks & FL_LANE_BOUNDS);
  if (checked) fl_text_puts(w->t, "fl_divisor(fl_t, ");
  fl_kput_expr(w, divisor);
  if (checked) fl_text_printf(w->t, ", %d)", line_of(w, x->line));
}

/* ---- threads together ---------------------------------------------------------------- */

void fl_kcheck_warp(fl_kwriter *w, const fl_kstmt *s) {
  const int shuffle = s->kind == FL_KS_SHUFFLE, line = line_of(w, s->line);
  const unsigned site = 2u * (unsigned)++w->check->sites;
  fl_kput_var(w, s->result);
  fl_text_printf(w->t, " = (%s)fl_%s(fl_t, %d, ", fl_kput_value_type(w->f->vars[s->result].type),
                 shuffle ? "shuffle" : "vote", s->op);
  if (s->x[0]) fl_kput_expr(w, s->x[0]);
  else fl_text_puts(w->t, "~0u");
  fl_text_puts(w->t, ", ");
  if (s->x[1]) fl_kput_expr(w, s->x[1]);
  else fl_text_puts(w->t, "false");
  for (int i = 2; i < 4 && shuffle; i++) {
    fl_text_puts(w->t, ", (unsigned)");
    fl_kput_expr(w, s->x[i]);
  }
  fl_text_printf(w->t, ", %uu, %d)", site, line);
}

void fl_kcheck_barrier(fl_kwriter *w, const fl_kstmt *s) {
  const int line = line_of(w, s->line);
  if (s->op == FL_KBAR_BLOCK) { fl_text_printf(w->t, "fl_barrier(fl_t, %d)", line); return; }
  fl_text_puts(w->t, "fl_together(fl_t, ");
  if (s->x[0]) fl_kput_expr(w, s->x[0]);
  else fl_text_puts(w->t, "~0u");
  fl_text_printf(w->t, ", %uu, %d, %s)", 2u * (unsigned)++w->check->sites + 1u, line,
                 s->x[0] ? "true" : "false");
}

void fl_kcheck_assertion(fl_kwriter *w, const fl_kstmt *s) {
  fl_text_puts(w->t, "if (!");
  fl_kput_expr(w, s->x[0]);
  fl_text_printf(w->t, ") fl_fault(fl_t, FL_ASSERT, %d, 0, 0, %d)", w->asserts++,
                 line_of(w, s->line));
}

/* ---- flags --------------------------------------------------------------------------- */

void fl_kcheck_flag(fl_kwriter *w, int var) {
  if (!w->check->tracked[var]) return;
  fl_text_puts(w->t, "  bool ");
  fl_kput_var(w, var);
  if (w->f->vars[var].kind == FL_KV_ARRAY)
    fl_text_printf(w->t, "__s[%lld];\n", (long long)w->f->vars[var].count);
  else fl_text_puts(w->t, "__s;\n");
}

void fl_kcheck_begin(fl_kwriter *w, int var) {
  const fl_kvar *v = &w->f->vars[var];
  if (!w->check->tracked[var]) return;
  fl_text_printf(w->t, "%*s", 2 * w->depth, "");
  if (v->kind == FL_KV_ARRAY)
    fl_text_printf(w->t, "for (int fl_j = 0; fl_j < %lld; fl_j++) ", (long long)v->count);
  fl_kput_var(w, var);
  fl_text_puts(w->t, v->kind == FL_KV_ARRAY ? "__s[fl_j] = false;\n" : "__s = false;\n");
}

void fl_kcheck_given(fl_kwriter *w, int var) {
  if (var < 0 || !w->check->tracked[var]) return;
  fl_text_puts(w->t, "; ");
  fl_kput_var(w, var);
  fl_text_puts(w->t, "__s = true");
}
