/* Walks, copies and comparison of trees. The recursion is bounded by FL_K_MAX_DEPTH in expressions,
** and by the nesting of statements. */
#include "kernel/tree/tree.h"
#include <string.h>

/* ---- walks -------------------------------------------------------------------------------- */

void fl_kwalk_expr(const fl_kvisitor *v, fl_kexpr *x) {
  if (!x || !v->expr || !v->expr(v->arg, x)) return;
  for (int i = 0; i < x->n; i++) fl_kwalk_expr(v, x->x[i]);
}

void fl_kwalk_operands(const fl_kvisitor *v, const fl_kstmt *s) {
  for (int i = 0; i < 4; i++) fl_kwalk_expr(v, s->x[i]);
  for (int i = 0; i < s->n_args; i++) fl_kwalk_expr(v, s->args[i]);
}

void fl_kwalk_stmt(const fl_kvisitor *v, fl_kstmt *s) {
  if (v->stmt && !v->stmt(v->arg, s)) return;
  fl_kwalk_operands(v, s);
  fl_kwalk_block(v, s->body);
  fl_kwalk_block(v, s->other);
}

void fl_kwalk_block(const fl_kvisitor *v, fl_kblock b) {
  for (fl_kstmt *s = b.first; s; s = s->next) fl_kwalk_stmt(v, s);
}

typedef struct accessed { uint8_t *read, *written; } accessed;

static int see_write(void *arg, fl_kstmt *s) {
  if (fl_kwrites(s)) ((accessed *)arg)->written[s->var] = 1;
  return 1;
}

static int see_read(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_LOAD) ((accessed *)arg)->read[x->var] = 1;
  return 1;
}

void fl_kaccessed(fl_kblock b, uint8_t *read, uint8_t *written) {
  accessed a = { read, written };
  const fl_kvisitor v = { written ? see_write : NULL, read ? see_read : NULL, &a };
  fl_kwalk_block(&v, b);
}

int fl_kblock_length(fl_kblock b) {
  int n = 0;
  for (const fl_kstmt *s = b.first; s; s = s->next)
    n += 1 + fl_kblock_length(s->body) + fl_kblock_length(s->other);
  return n;
}

int fl_kblock_any(fl_kblock b, int (*is)(const void *arg, const fl_kstmt *s), const void *arg) {
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if (is(arg, s) || fl_kblock_any(s->body, is, arg) || fl_kblock_any(s->other, is, arg)) return 1;
  return 0;
}

static int is_that(const void *that, const fl_kstmt *s) { return s == that; }

int fl_kblock_holds(fl_kblock b, const fl_kstmt *s) { return fl_kblock_any(b, is_that, s); }

int fl_kleaves(fl_kblock b, int32_t label) {
  int n = 0;
  for (const fl_kstmt *s = b.first; s; s = s->next)
    n += (s->kind == FL_KS_LEAVE && s->label == label) + fl_kleaves(s->body, label) +
         fl_kleaves(s->other, label);
  return n;
}

int fl_kexpr_same(const fl_kexpr *a, const fl_kexpr *b) {
  if (a == b) return 1;
  if (!a || !b || a->kind != b->kind || a->type != b->type || a->op != b->op || a->n != b->n ||
      a->var != b->var || a->value.i != b->value.i)
    return 0;
  for (int i = 0; i < a->n; i++)
    if (!fl_kexpr_same(a->x[i], b->x[i])) return 0;
  return 1;
}

int fl_kexpr_any(const fl_kexpr *x, int (*is)(const void *arg, const fl_kexpr *x),
                 const void *arg) {
  if (!x || is(arg, x)) return x != NULL;
  for (int i = 0; i < x->n; i++)
    if (fl_kexpr_any(x->x[i], is, arg)) return 1;
  return 0;
}

/* ---- copies ------------------------------------------------------------------------------- */

/* fresh: sites, labels and loops get new numbers in f; otherwise they keep theirs. */
typedef struct copier {
  fl_kfunc *f;
  const int32_t *map;
  int fresh;
  const struct renamed *labels;       /* labels of the enclosing BLOCKs, the innermost first */
} copier;
typedef struct renamed { int32_t from, to; const struct renamed *up; } renamed;

static char *copy_text(fl_karena *a, const char *s) {
  return s ? fl_karena_str(a, s, strlen(s)) : NULL;
}

static int32_t mapped(const copier *c, int32_t var) {
  return c->map && var >= 0 ? c->map[var] : var;
}

static fl_kexpr *copy_expr(copier *c, const fl_kexpr *x) {
  if (!x) return NULL;
  fl_kexpr *e = fl_karena_new(c->f->arena, sizeof *e);
  if (!e) return NULL;
  *e = *x;
  e->var = mapped(c, x->var);
  if (c->fresh && e->site >= 0) e->site = c->f->n_sites++;
  for (int i = 0; i < e->n; i++)
    if (!(e->x[i] = copy_expr(c, x->x[i]))) return NULL;
  return e;
}

static int32_t label_of(const copier *c, int32_t label) {
  for (const renamed *l = c->labels; l; l = l->up)
    if (l->from == label) return l->to;
  return label;                       /* it is the label of a block around the copied part, so it
                                      ** stays */
}

static void renumber(copier *c, fl_kstmt *s) {
  if (!c->fresh) return;
  if (s->site >= 0) s->site = c->f->n_sites++;
  if (s->kind == FL_KS_LOOP) s->label = c->f->n_loops++;
  if (s->kind == FL_KS_LEAVE) s->label = label_of(c, s->label);
}

static fl_kblock copy_block(copier *c, const fl_kblock *b);

static fl_kexpr **copy_args(copier *c, const fl_kstmt *s) {
  fl_kexpr **args = fl_karena_new(c->f->arena, (size_t)s->n_args * sizeof *args);
  for (int i = 0; args && i < s->n_args; i++) args[i] = copy_expr(c, s->args[i]);
  return args;
}

static fl_kstmt *copy_stmt(copier *c, const fl_kstmt *s) {
  fl_kstmt *r = fl_karena_new(c->f->arena, sizeof *r);
  if (!r) return NULL;
  *r = *s;
  r->next = NULL;
  r->note = NULL;
  r->var = mapped(c, s->var);
  r->result = mapped(c, s->result);
  renumber(c, r);
  for (int i = 0; i < 4; i++) r->x[i] = copy_expr(c, s->x[i]);
  if (s->n_args) r->args = copy_args(c, s);
  r->text = copy_text(c->f->arena, s->text);
  const renamed me = { s->label, c->f->n_labels, c->labels };
  if (c->fresh && s->kind == FL_KS_BLOCK) {
    r->label = c->f->n_labels++;
    c->labels = &me;
  }
  r->body = copy_block(c, &s->body);
  r->other = copy_block(c, &s->other);
  c->labels = me.up;
  return c->f->arena->failed ? NULL : r;
}

static fl_kblock copy_block(copier *c, const fl_kblock *b) {
  fl_kblock r = { NULL, NULL };
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    fl_kstmt *t = copy_stmt(c, s);
    if (!t) break;
    fl_kblock_put(&r, t);
  }
  return r;
}

fl_kexpr *fl_kexpr_clone(fl_kfunc *f, const fl_kexpr *x) {
  copier c = { .f = f, .fresh = 1 };
  return copy_expr(&c, x);
}

fl_kblock fl_kblock_clone(fl_kfunc *f, const fl_kblock *b, const int32_t *map) {
  copier c = { .f = f, .map = map, .fresh = 1 };
  return copy_block(&c, b);
}

static void *copy_array(fl_karena *a, const void *p, int64_t n, size_t size) {
  void *r = fl_karena_new(a, (size_t)n * size);
  if (r && n) memcpy(r, p, (size_t)n * size);
  return r;
}

static int copy_params(fl_karena *a, fl_kfunc *r, const fl_kfunc *f) {
  r->params = copy_array(a, f->params, f->n_params, sizeof *f->params);
  for (int i = 0; r->params && i < f->n_params; i++) {
    fl_kparam *p = &r->params[i];
    p->name = copy_text(a, p->name);
    p->type_name = copy_text(a, p->type_name);
    fl_kfield *fields = copy_array(a, p->fields, p->n_fields, sizeof *fields);
    for (int k = 0; fields && k < p->n_fields; k++) fields[k].path = copy_text(a, fields[k].path);
    p->fields = fields;
  }
  return r->params != NULL;
}

static int copy_vars(fl_karena *a, fl_kfunc *r, const fl_kfunc *f) {
  r->vars = copy_array(a, f->vars, f->n_vars, sizeof *f->vars);
  r->cap_vars = f->n_vars;
  r->names = NULL;
  r->n_names = r->cap_names = 0;
  for (int i = 0; r->vars && i < f->n_vars; i++) {
    fl_kvar *v = &r->vars[i];
    v->name = copy_text(a, v->name);
    v->source = copy_text(a, v->source);
    v->note = NULL;
    if (v->data) v->data = copy_array(a, v->data, v->count, sizeof *v->data);
  }
  return r->vars != NULL;
}

fl_kfunc *fl_kfunc_clone(fl_karena *a, const fl_kfunc *f) {
  fl_kfunc *r = copy_array(a, f, 1, sizeof *f);
  if (!r) return NULL;
  r->arena = a;
  r->name = copy_text(a, f->name);
  r->refusal = copy_text(a, f->refusal);
  if (!copy_params(a, r, f) || !copy_vars(a, r, f)) return NULL;
  copier c = { .f = r };
  r->body = copy_block(&c, &f->body);
  return a->failed ? NULL : r;
}
