/*
** Short loops written out (unroll.h), outer ones first, so that bounds of an inner loop that depend
** on an outer counter are numbers when it is written out. Their CONTINUE and BREAK become LEAVEs of
** a BLOCK around one iteration or around all; other loops stay.
*/
#include "kernel/ad/unroll.h"
#include "kernel/facts/defs.h"
#include <assert.h>
#include <string.h>

enum { MOST_ROUNDS = 32 };

typedef struct unroller {
  fl_kfunc *f;
  int32_t counter;               /* of the round at work */
  fl_kexpr *value;
  int done, statements, most;
} unroller;

/* ---- the counter's value substituted ----------------------------------------------------- */

static fl_kexpr *put_logic(unroller *u, fl_kexpr *x, fl_kexpr *l, fl_kexpr *r) {
  const int decides = x->op == FL_KO_LOR;
  assert(l && r);
  if (l->kind == FL_KX_CONST) return (l->value.i != 0) == decides ? l : r;
  if (r->kind == FL_KX_CONST && (r->value.i != 0) != decides) return l;
  return fl_kexpr_binary(u->f->arena, x->op, l, r);
}

static fl_kexpr *build(unroller *u, fl_kexpr *x, fl_kexpr *const *k) {
  fl_karena *a = u->f->arena;
  switch (x->kind) {
  case FL_KX_LOAD: return fl_kexpr_load(u->f, x->var, k[0]);
  case FL_KX_UNARY: return fl_kexpr_unary(a, x->op, k[0]);
  case FL_KX_BINARY:
    if (x->op == FL_KO_LAND || x->op == FL_KO_LOR) return put_logic(u, x, k[0], k[1]);
    return fl_kexpr_binary(a, x->op, k[0], k[1]);
  case FL_KX_SELECT: return fl_kexpr_select(a, k[0], k[1], k[2]);
  case FL_KX_CAST: return fl_kexpr_cast(a, x->type, k[0]);
  case FL_KX_CALL: return fl_kexpr_call(a, x->op, x->type, x->n, k);
  default: return x;
  }
}

/* x with the counter's value substituted; its loads get new site numbers. */
static fl_kexpr *put(unroller *u, fl_kexpr *x) {
  fl_kexpr *k[FL_K_MAX_ARGS] = {0};
  if (!x || (x->kind == FL_KX_VAR && x->var == u->counter)) return x ? u->value : NULL;
  if (!x->n) return x;
  for (int i = 0; i < x->n; i++)
    if (!(k[i] = put(u, x->x[i]))) return NULL;
  fl_kexpr *r = build(u, x, k);
  if (r && r != u->value && !r->line) r->line = x->line;
  return r;
}

static int put_statement(void *arg, fl_kstmt *s) {
  unroller *u = arg;
  for (int i = 0; i < 4; i++) s->x[i] = put(u, s->x[i]);
  for (int i = 0; i < s->n_args; i++) s->args[i] = put(u, s->args[i]);
  return 1;
}

/* ---- rounds written out ---------------------------------------------------------------------- */

/* Turns CONTINUE and BREAK of the loop with body b into LEAVEs of the blocks with the labels
** 'round' and 'all' ('round' -1: only looks). Returns 1 if there is a CONTINUE, plus 2 if there is
** a BREAK. */
static int leave(fl_kblock *b, int32_t round, int32_t all) {
  int any = 0;
  for (fl_kstmt *s = b->first; s; s = s->next) {
    if (s->kind == FL_KS_LOOP) continue;
    any |= (s->kind == FL_KS_CONTINUE) | (s->kind == FL_KS_BREAK) << 1;
    if (round >= 0 && (s->kind == FL_KS_CONTINUE || s->kind == FL_KS_BREAK)) {
      s->label = s->kind == FL_KS_CONTINUE ? round : all;
      s->kind = FL_KS_LEAVE;
    }
    any |= leave(&s->body, round, all) | leave(&s->other, round, all);
  }
  return any;
}

static int rename_declared(void *arg, fl_kstmt *s) {
  int32_t **map = arg;
  if (s->kind == FL_KS_DECL) (*map)[s->var] = -2;
  return 1;
}

/* Makes new variables for one iteration, one for each that the body declares, but for shared
** arrays. Returns the map from the old variables to the new ones. */
static int32_t *fresh_variables(unroller *u, const fl_kblock *body) {
  fl_kfunc *f = u->f;
  const int n = f->n_vars;
  int32_t *map = fl_karena_new(f->arena, ((size_t)n + 1) * sizeof *map);
  const fl_kvisitor see = {rename_declared, NULL, &map};
  if (!map) return NULL;
  for (int i = 0; i < n; i++) map[i] = i;
  fl_kwalk_block(&see, *body);
  for (int i = 0; i < n; i++) {
    if (map[i] != -2) continue;
    const fl_kvar x = f->vars[i];
    map[i] = x.kind == FL_KV_LOCAL || x.kind == FL_KV_ARRAY
           ? fl_kvar_add(f, (fl_kvkind)x.kind, x.type, x.name, x.count) : i;
    if (map[i] >= 0 && map[i] != i)
      f->vars[map[i]].source = x.source, f->vars[map[i]].line = x.line;
  }
  return map;
}

static void set_counter(unroller *u, fl_kblock *out, const fl_krange *c, int64_t v) {
  fl_kstmt_assign(u->f, out, c->var, fl_kexpr_int(u->f->arena, u->f->vars[c->var].type, v));
}

/* Writes out the iteration in which the counter is v. The counter is set too, since it may be read
** after a jump out of the loop. all: the label of the BLOCK around all iterations; -1: none. */
static void round_of(unroller *u, fl_kblock *out, const fl_kstmt *s, const fl_krange *c, int64_t v,
                     int32_t all) {
  const fl_kvisitor see = {put_statement, NULL, u};
  int32_t *map = fresh_variables(u, &s->body);
  if (!map) return;
  fl_kblock copy = fl_kblock_clone(u->f, &s->body, map);
  u->counter = c->var;
  u->value = fl_kexpr_int(u->f->arena, u->f->vars[c->var].type, v);
  fl_kwalk_block(&see, copy);
  set_counter(u, out, c, v);
  if (!leave(&copy, -1, -1)) {
    fl_kblock_append(out, copy);
    return;
  }
  fl_kstmt *b = fl_kstmt_block(u->f, out);
  if (!b) return;
  leave(&copy, b->label, all);
  b->body = copy;
}

static void expand(unroller *u, fl_kblock *out, const fl_kstmt *s, const fl_krange *c, int n) {
  fl_kblock *to = out;
  int32_t all = -1;
  u->done = 1;
  if (leave((fl_kblock *)(uintptr_t)&s->body, -1, -1) & 2) {
    fl_kstmt *b = fl_kstmt_block(u->f, out);
    if (!b) return;
    all = b->label;
    to = &b->body;
  }
  for (int i = 0; i < n; i++) round_of(u, to, s, c, c->first + i * c->step, all);
  set_counter(u, to, c, c->first + n * c->step);
}

static fl_kblock unroll(unroller *u, fl_kblock b);

/* Appends s to out, with the loops in its two blocks unrolled. Of an IF on a constant only the
** statements of the branch taken are appended. */
static void settle(unroller *u, fl_kblock *out, fl_kstmt *s) {
  s->body = unroll(u, s->body);
  s->other = unroll(u, s->other);
  if (s->kind == FL_KS_IF && fl_kexpr_is_int(s->x[0])) {
    fl_kblock_append(out, s->x[0]->value.i ? s->body : s->other);
    return;
  }
  fl_kblock_put(out, s);
}

static fl_kblock unroll(unroller *u, fl_kblock b) {
  fl_kblock out = {0};
  const fl_kstmt *before = NULL;
  for (fl_kstmt *s; !u->f->arena->failed && (s = fl_kblock_take(&b));) {
    fl_krange c;
    const int n = fl_krange_of(u->f, before, s, MOST_ROUNDS, &c);
    const int more = n < 0 ? 0 : n * fl_kblock_length(s->body);
    if (n >= 0 && u->statements + more <= u->most) {
      fl_kblock all = {0};
      u->statements += more;
      expand(u, &all, s, &c, n);
      fl_kblock_append(&out, unroll(u, all));
    } else {
      settle(u, &out, s);
    }
    before = s;
  }
  return out;
}

fl_kfunc *fl_kunroll(fl_karena *a, const fl_kfunc *f, int most) {
  unroller u = {.f = fl_kfunc_clone(a, f), .most = most};
  if (!u.f) return NULL;
  u.statements = fl_kblock_length(u.f->body);
  u.f->body = unroll(&u, u.f->body);
  return u.done && !a->failed ? u.f : NULL;
}
