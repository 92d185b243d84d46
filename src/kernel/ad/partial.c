/* Derivatives of the functions of builtins.def, parsed from their texts there (partial.h). */
#include "kernel/ad/partial.h"
#include "kernel/front/source.h"
#include "kernel/tree/builtins.h"
#include <string.h>

typedef struct put { fl_karena *a; fl_kexpr *const *by; int n; } put;

/* A copy of x with variable k replaced by by[k]. x is parsed from a text of builtins.def,
** so the recursion is not deep. */
static fl_kexpr *substitute(const put *s, const fl_kexpr *x) {
  if (x->kind == FL_KX_VAR) return x->var < s->n ? s->by[x->var] : NULL;
  fl_kexpr *y[FL_K_MAX_ARGS] = { NULL };
  for (int i = 0; i < x->n; i++)
    if (!(y[i] = substitute(s, x->x[i]))) return NULL;
  switch (x->kind) {
    case FL_KX_UNARY: return fl_kexpr_unary(s->a, x->op, y[0]);
    case FL_KX_BINARY: return fl_kexpr_binary(s->a, x->op, y[0], y[1]);
    case FL_KX_SELECT: return fl_kexpr_select(s->a, y[0], y[1], y[2]);
    case FL_KX_CAST: return fl_kexpr_cast(s->a, x->type, y[0]);
    case FL_KX_CALL: return fl_kexpr_call(s->a, x->op, x->type, x->n, y);
    default:
      return fl_kt_is_float(x->type) ? fl_kexpr_float(s->a, x->type, x->value.d)
                                     : fl_kexpr_int(s->a, x->type, x->value.i);
  }
}

fl_kexpr *fl_kbuiltin_partial(fl_karena *a, const fl_kexpr *c, int i, fl_kexpr *r) {
  const fl_kbuiltin_info *b = &fl_kbuiltins[c->op];
  const int type = c->type;
  if (i >= b->n) return NULL;
  if (!strcmp(b->d[i] ? b->d[i] : "", "0"))
    return fl_kt_is_float(type) ? fl_kexpr_float(a, type, 0) : fl_kexpr_float(a, FL_KT_F32, 0);
  if (!b->d[i]) return NULL;
  char text[256] = "x, y, z, n, r -> ";
  strcat(text, b->d[i]);
  const uint8_t types[5] = { (uint8_t)type, (uint8_t)type, (uint8_t)type, FL_KT_I32,
                             (uint8_t)type };
  fl_error e = { .code = FLAME_OK };
  fl_kmap *m = fl_kmap_parse(a->mem, &e, text, strlen(text), types, 5, type);
  fl_kexpr *by[5] = { c->x[0], c->n > 1 ? c->x[1] : NULL, c->n > 2 ? c->x[2] : NULL, NULL, NULL };
  if (b->rule == FL_KBR_FLOATI) by[3] = c->x[1], by[1] = NULL;
  by[4] = r ? r : fl_kexpr_call(a, c->op, c->type, c->n, c->x);
  put s = { a, by, 5 };
  fl_kexpr *d = m && m->value ? substitute(&s, m->value) : NULL;
  if (!d) a->failed = a->failed ? a->failed : 1;
  else d->line = c->line;
  fl_kmap_free(m);
  return d;
}
