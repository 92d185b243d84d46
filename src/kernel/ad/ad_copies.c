/*
** Removes copies (ad_copies.h), so that derivations and what they make are shorter:
**   float made = a * b, result = made; y[i] = result;   becomes   float made = a * b; y[i] = made;
** A variable u is a copy where it has the value of w, at a place where both surely have the only
** values that they ever get (defs.h). The assignment u = w goes if u is then read nowhere.
*/
#include "kernel/ad/ad_copies.h"
#include "kernel/facts/defs.h"

/* order: place of the current statement (defs.h). By variable: until: the last place where it is
** in scope, 0: it has no DECL; reads: how often it is read. */
typedef struct copies {
  fl_kfunc *f;
  const fl_kdefs *defs;
  int32_t order, *until, *reads;
} copies;

static void find_scopes(copies *c, fl_kblock b) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    c->order++;
    find_scopes(c, s->body);
    find_scopes(c, s->other);
  }
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if (s->kind == FL_KS_DECL) c->until[s->var] = c->order;
}

static int is_local(const copies *c, int32_t var) {
  return c->f->vars[var].kind == FL_KV_LOCAL;
}

/* The variable of which 'var' is a copy at this place; -1: none. */
static int32_t copied(const copies *c, int32_t var) {
  const fl_kdef *const v = &c->defs->var[var];
  const fl_kexpr *x = v->order < c->order ? fl_kdef_at(c->defs, var, c->order) : NULL;
  if (!x || x->kind != FL_KX_VAR || !is_local(c, var) || !is_local(c, x->var) ||
      c->f->vars[var].type != c->f->vars[x->var].type) return -1;
  const fl_kdef *const w = &c->defs->var[x->var];
  if (fl_kdef_is_given(c->defs, x->var)) return x->var;
  return w->order < v->order && c->order <= c->until[x->var] &&
         fl_kdef_at(c->defs, x->var, c->order) ? x->var : -1;
}

static int replace(void *arg, fl_kexpr *x) {
  copies *c = arg;
  if (x->kind == FL_KX_VAR)
    for (int32_t to; (to = copied(c, x->var)) >= 0;) x->var = to;
  if (x->var >= 0) c->reads[x->var]++;
  return 1;
}

static void replace_in(copies *c, fl_kblock b) {
  const fl_kvisitor v = { NULL, replace, c };
  for (fl_kstmt *s = b.first; s; s = s->next) {
    c->order++;
    fl_kwalk_operands(&v, s);
    replace_in(c, s->body);
    replace_in(c, s->other);
  }
}

/* Is var a copy that is read nowhere any more? */
static int is_idle(const copies *c, int32_t var) {
  const fl_kexpr *x = fl_kdef_only(c->defs, var);
  return x && x->kind == FL_KX_VAR && is_local(c, var) && !c->reads[var];
}

static fl_kblock remove_idle(const copies *c, fl_kblock b) {
  fl_kblock out = { NULL, NULL };
  for (fl_kstmt *s; (s = fl_kblock_take(&b));) {
    if ((s->kind == FL_KS_ASSIGN || s->kind == FL_KS_DECL) && is_idle(c, s->var)) continue;
    s->body = remove_idle(c, s->body);
    s->other = remove_idle(c, s->other);
    fl_kblock_put(&out, s);
  }
  return out;
}

static int is_any(const copies *c) {
  for (int32_t v = 0; v < c->defs->n_vars; v++) {
    const fl_kexpr *x = fl_kdef_only(c->defs, v);
    if (x && x->kind == FL_KX_VAR && is_local(c, v) && is_local(c, x->var)) return 1;
  }
  return 0;
}

fl_kfunc *fl_kad_without_copies(fl_karena *a, const fl_kfunc *f) {
  copies c = { .f = (fl_kfunc *)(uintptr_t)f };
  if (!f->has_body) return c.f;
  c.defs = fl_kdefs_new(a, f, f->body);
  if (c.defs && !is_any(&c)) return c.f;
  c.f = fl_kfunc_clone(a, f);
  c.reads = fl_karena_new(a, 2 * ((size_t)f->n_vars + 1) * sizeof *c.reads);
  if (!c.defs || !c.f || !c.reads) return NULL;
  c.until = c.reads + f->n_vars + 1;
  find_scopes(&c, f->body);
  c.order = 0;
  replace_in(&c, c.f->body);
  c.f->body = remove_idle(&c, c.f->body);
  return a->failed ? NULL : c.f;
}
