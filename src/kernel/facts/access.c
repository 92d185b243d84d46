/*
** Access classes: one walk in program order. Whether an element was written before is decided by
** facts "this thread stored to variable v at index e", which hold until a variable of e is assigned
** and only where the store surely happened (facts found in a branch, a loop body or a BLOCK, which
** may be left early, are dropped at its end).
*/
#include "kernel/facts/access.h"
#include "kernel/facts/defs.h"
#include <string.h>

/* depth: of the construct in which the store was found; it is dropped at the end of that. */
typedef struct fact { int32_t var, depth; const fl_kexpr *index; } fact;

typedef struct walk {
  fl_mem *m;
  const fl_kfunc *f;
  fl_kaccess *out;
  struct { fact *at; int64_t n, cap; } facts;
  uint8_t *in_index;         /* by variable: has the index of a fact read it? */
  int depth, failed;
  int32_t line;              /* of the current statement */
} walk;

/* ---- facts ----------------------------------------------------------------------------------- */

static void forget(walk *w, int32_t var) {
  int64_t n = 0;
  if (!w->in_index[var]) return;
  for (int64_t i = 0; i < w->facts.n; i++)
    if (!fl_kreads(w->facts.at[i].index, var)) w->facts.at[n++] = w->facts.at[i];
  w->facts.n = n;
}

/* A visitor: forgets the facts with an index that reads a variable which s assigns. It runs over a
** loop before the loop is entered, since an earlier iteration may have assigned them. */
static int forget_stmt(void *arg, fl_kstmt *s) {
  if (s->kind == FL_KS_ASSIGN || s->kind == FL_KS_DECL) forget(arg, s->var);
  if (s->result >= 0) forget(arg, s->result);
  return 1;
}

static int note_variable(void *in_index, fl_kexpr *x) {
  if (x->var >= 0) ((uint8_t *)in_index)[x->var] = 1;
  return 1;
}

static void remember(walk *w, int32_t var, const fl_kexpr *index) {
  const fl_kvisitor see = { NULL, note_variable, w->in_index };
  if (fl_kreads_of(index, NULL)) return;
  fact *f = FL_PUSH(w->m, &w->facts);
  if (!f) { w->failed = 1; return; }
  f->var = var;
  f->depth = w->depth;
  f->index = index;
  fl_kwalk_expr(&see, (fl_kexpr *)(uintptr_t)index);
}

static int known(const walk *w, int32_t var, const fl_kexpr *index) {
  for (int64_t i = 0; i < w->facts.n; i++)
    if (w->facts.at[i].var == var && fl_kexpr_same(w->facts.at[i].index, index)) return 1;
  return 0;
}

/* ---- accesses -------------------------------------------------------------------------------- */

static int counts(const walk *w, int32_t var) {
  return var >= 0 &&
         (w->f->vars[var].kind == FL_KV_POINTER || w->f->vars[var].kind == FL_KV_SHARED);
}

static void note_read(walk *w, int32_t var, const fl_kexpr *index, int32_t line) {
  fl_kaccess *a = &w->out[var];
  if (!a->read_line) a->read_line = line;
  if (!a->writes && !a->accumulates && !a->other_atomics) a->reads_first = 1;
  if (known(w, var, index)) return;
  a->reads_unwritten = 1;
  if (!a->unwritten_line) a->unwritten_line = line;
}

static int read_expr(void *arg, fl_kexpr *x) {
  walk *w = arg;
  if (x->kind != FL_KX_LOAD || !counts(w, x->var)) return 1;
  w->out[x->var].reads = 1;
  note_read(w, x->var, x->x[0], x->line ? x->line : w->line);
  return 1;
}

static void read_operands(walk *w, const fl_kstmt *s) {
  const fl_kvisitor v = { NULL, read_expr, w };
  w->line = s->line;
  fl_kwalk_operands(&v, s);
}

static void note_write(walk *w, const fl_kstmt *s) {
  if (!counts(w, s->var)) return;
  fl_kaccess *a = &w->out[s->var];
  const int sum = s->kind == FL_KS_ATOMIC && s->result < 0 && !s->as &&
                  (s->op == FL_KA_ADD || s->op == FL_KA_SUB);
  if (s->kind == FL_KS_STORE && s->accumulate) note_read(w, s->var, s->x[0], s->line);
  if (s->kind == FL_KS_STORE && !s->accumulate) a->writes = 1;
  else if (s->kind == FL_KS_STORE || sum) a->accumulates = 1;
  else a->other_atomics = 1;
  if (s->kind == FL_KS_ATOMIC && s->result >= 0) a->reads = 1;
  if (s->kind == FL_KS_STORE && !s->accumulate) remember(w, s->var, s->x[0]);
}

static void walk_block(walk *w, fl_kblock b);

/* Walks a block that may not run, or may be left before its end: facts found in it are dropped at
** its end. */
static void walk_apart(walk *w, fl_kblock b) {
  int64_t n = 0;
  if (!b.first) return;
  w->depth++;
  walk_block(w, b);
  w->depth--;
  for (int64_t i = 0; i < w->facts.n; i++)
    if (w->facts.at[i].depth <= w->depth) w->facts.at[n++] = w->facts.at[i];
  w->facts.n = n;
}

static void walk_stmt(walk *w, fl_kstmt *s) {
  const fl_kvisitor changes = { forget_stmt, NULL, w };
  if (s->kind == FL_KS_LOOP) {
    fl_kwalk_block(&changes, s->body);
    fl_kwalk_block(&changes, s->other);
    if (!s->post) read_operands(w, s);
    walk_apart(w, s->body);
    walk_apart(w, s->other);
    if (s->post) read_operands(w, s);
    return;
  }
  read_operands(w, s);
  if (fl_kwrites(s)) note_write(w, s);
  walk_apart(w, s->body);
  walk_apart(w, s->other);
  forget_stmt(w, s);
}

static void walk_block(walk *w, fl_kblock b) {
  for (fl_kstmt *s = b.first; s && !w->failed; s = s->next) walk_stmt(w, s);
}

int fl_kaccess_find(fl_mem *m, const fl_kfunc *f, fl_kaccess *access) {
  walk w = { .m = m, .f = f, .out = access };
  memset(access, 0, (size_t)f->n_vars * sizeof *access);
  w.in_index = fl_zalloc(m, (size_t)f->n_vars + 1);
  if (!w.in_index) return 0;
  walk_block(&w, f->body);
  FL_DROP(m, &w.facts);
  fl_free(m, w.in_index, (size_t)f->n_vars + 1);
  return !w.failed;
}

char fl_kaccess_class(const fl_kaccess *x) {
  if (x->other_atomics) return 'b';
  if (x->reads) return x->writes || x->accumulates ? 'b' : 'r';
  if (x->writes) return x->accumulates ? 'b' : 'w';
  return x->accumulates ? 'a' : '-';
}
