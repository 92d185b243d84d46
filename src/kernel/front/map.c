/* "x, y -> expression" of flame.map: the expression parser over named scalars. */
#include "kernel/front/front.h"
#include <string.h>

/* Token index of "->"; 0: there is none. *n: number of names before it. */
static int64_t arrow(const fl_ktoks *t, int *n) {
  *n = 0;
  for (int64_t i = 0; i < t->n; i++) {
    const fl_ktok *k = &t->at[i];
    if (fl_is_punct(k, FL_PU_ARROW))
      return i == 2 * *n - 1 ? i : 0;
    const int comma = fl_is_punct(k, ',');
    if (i % 2 ? !comma : k->kind != FL_TOK_NAME) return 0;
    *n += !comma;
  }
  return 0;
}

int fl_kmap_arity(const char *text, size_t n) {
  fl_mem own = { 0 };
  fl_karena a;
  fl_ktoks t = { NULL, 0, 0 };
  int count = -1;
  fl_karena_init(&a, &own);
  if (fl_klex(&a, text, n, 1, &t) && !arrow(&t, &count)) count = -1;
  FL_DROP(&own, &t);
  fl_karena_close(&a);
  return count;
}

static void refuse(fl_kmap *x, fl_front *p) {
  x->error = p->why ? p->why : "not understood";
}

static void read_value(fl_kmap *x, fl_front *p, const uint8_t *types, int n_types,
                       int result) {
  int n = 0;
  const int64_t body = arrow(&p->toks, &n);
  if (!body) {
    x->error = FL_DO "write names, ->, and an expression: \"x, y -> x*y + 1\"";
    return;
  }
  if (n != n_types) {
    x->error = fl_karena_printf(&x->arena, "%d name%s for %d argument%s", n, FL_S(n),
                                 n_types, FL_S(n_types));
    return;
  }
  for (int i = 0; i < n && !p->a->failed; i++) {
    const fl_ktok *t = &p->toks.at[2 * i];
    const char *name = fl_karena_str(p->a, t->text, (size_t)t->n);
    if (name && fl_front_find(p, name, t->n))
      fl_refuse(p, 1, "the name '%s' appears twice", name);
    const int var = name ? fl_kvar_add(x->f, FL_KV_LOCAL, types[i], name, 1) : -1;
    const fl_cvalue v = { .kind = FL_V_PLACE, .is_const = 1, .type = fl_ctype_scalar(types[i]),
                          .var = var };
    if (var >= 0) fl_front_bind(p, name, FL_SYM_OBJECT, v);
  }
  x->n_args = n;
  p->at = body + 1;
  fl_kexpr *e = p->failed ? NULL : fl_parse_scalar(p);
  const fl_ktok *t = fl_front_tok(p);
  if (e && t->kind != FL_TOK_END)
    fl_refuse(p, 1, "'%.*s' behind the expression", (int)t->n, t->text);
  if (e && !p->failed && result) e = fl_val_convert(p, e, result);
  if (p->failed || !e) refuse(x, p);
  else x->value = e;
}

fl_kmap *fl_kmap_parse(fl_mem *m, fl_error *e, const char *text, size_t n,
                       const uint8_t *types, int n_types, int result) {
  fl_front p;
  memset(&p, 0, sizeof p);
  fl_kmap *x = fl_zalloc(m, sizeof *x);
  if (!x) {
    fl_fail(e, FLAME_NO_MEMORY, "map", "no memory for the expression");
    return NULL;
  }
  fl_karena_init(&x->arena, m);
  x->mem = m;
  x->f = fl_kfunc_new(&x->arena, "map");
  p.a = &x->arena;
  p.f = x->f;
  p.end.kind = FL_TOK_END;
  p.statement_call = -1;
  if (fl_kt_is_float(result)) p.bare = result == FL_KT_F64 ? FL_KT_F64 : FL_KT_F32;
  const char *copy = fl_karena_str(&x->arena, text, n);
  if (x->f && copy && fl_kpreprocess(&x->arena, copy, n, "", NULL, &p.toks))
    read_value(x, &p, types, n_types, result);
  FL_DROP(m, &p.toks);
  if (!x->arena.failed) return x;
  fl_kmap_free(x);
  fl_fail(e, FLAME_NO_MEMORY, "map", "no memory for the expression");
  return NULL;
}

void fl_kmap_free(fl_kmap *x) {
  if (!x) return;
  fl_mem *m = x->mem;
  fl_karena_close(&x->arena);
  fl_free(m, x, sizeof *x);
}
