/* Operators of structs and enumerations: members, friends or free functions; conversions where
** there is no such operator. */
#include "kernel/front/forms.h"
#include <stdio.h>
#include <string.h>

/* An enum class has no built-in operators but comparisons of its values. */
static int is_scoped(const fl_ctype *t) { return t && fl_ctype_is_enum(t) && t->scoped; }

int fl_operator(fl_front *p, const char *name, const fl_cvalue *args, int n, fl_cvalue *out,
                int32_t line) {
  const int32_t length = (int32_t)strlen(name);
  for (int i = -1; i < n && !p->failed; i++) {
    fl_kdevice *all = fl_member_functions(args[i < 0 ? 0 : i].type, name), *d;
    fl_cvalue self = args[0];
    fl_kcall c = { .args = args, .n = n, .line = line };
    if (!all || (i < 0 && !fl_val_is_object(self))) continue;
    if (i < 0) c = (fl_kcall){ .self = &self, .args = args + 1, .n = n - 1, .line = line };
    d = fl_overload(p, all, &c, NULL);
    if (d && i >= 0 && d->body <= 0) continue;       /* a friend that is defined at file scope */
    if (d && i < 0) self = fl_call_object(p, fl_order_now(p, self, line), d, d->next, line);
    if (d) return *out = p->failed ? fl_val_none() : fl_inline(p, d, &c), 1;
  }
  const int64_t globals = p->globals ? p->globals : p->syms.n;
  const fl_symbol *s = fl_front_among(p->syms.at, globals, name, length);
  const fl_kcall c = { .args = args, .n = n, .line = line };
  int fit = FL_FITS_NOT, objects = 0;
  for (int i = 0; i < n; i++) objects |= fl_val_is_object(args[i]) || is_scoped(args[i].type);
  fl_kdevice *d = s && s->kind == FL_SYM_FUNCTION && !p->failed
                  ? fl_overload(p, s->device, &c, &fit) : NULL;
  if (!objects && fit == FL_FITS_NOT) d = NULL;             /* the built-in operator fits better */
  if (d) *out = fl_inline(p, d, &c);
  return d != NULL || p->failed;
}

static int may_have(const fl_cvalue *v) {
  return fl_val_is_object(*v) ||
         ((v->kind == FL_V_EXPR || v->kind == FL_V_PLACE) && fl_ctype_is_enum(v->type));
}

int fl_operator_found(fl_front *p, const char *op, const char *more, const fl_cvalue *args, int n,
                      fl_cvalue *out, int32_t line) {
  char name[16];
  if (p->failed || !(may_have(args) || (n > 1 && may_have(args + 1)))) return 0;
  snprintf(name, sizeof name, "operator%s%s", op, more);
  const int is = fl_operator(p, name, args, n, out, line);
  if (p->failed) *out = fl_val_none();
  return is;
}

fl_cvalue fl_operator_plain(fl_front *p, int op, fl_cvalue x, fl_cvalue y, int32_t line) {
  const fl_ctype *const t = (fl_val_is_object(x) ? x : y).type;
  x = fl_member_plain(p, fl_order_value(p, x, line), line);
  y = fl_member_plain(p, y, line);
  x = fl_member_pointer(p, x, line);
  y = fl_member_pointer(p, y, line);
  if (!fl_val_is_object(x) && !fl_val_is_object(y)) return fl_binary(p, op, x, y, line);
  return fl_val_refuse(p, line, "there is no operator '%s' for '%s'", fl_koperator_text[op],
                       fl_ctype_text(p->a, t));
}

fl_cvalue fl_operator_update(fl_front *p, int op, fl_cvalue to, fl_cvalue from, int32_t line) {
  const fl_cvalue args[2] = { to, from };
  fl_cvalue out;
  if (!fl_operator_found(p, fl_koperator_text[op], "=", args, 2, &out, line))
    fl_val_assign(p, to, fl_binary(p, op, to, from, line), line);
  return to;
}

void fl_operator_logic(fl_front *p, const char *name, const fl_cvalue *x, int32_t line) {
  const int64_t globals = p->globals ? p->globals : p->syms.n;
  if (!p->failed && x->type && fl_ctype_is_enum(x->type) &&
      fl_front_among(p->syms.at, globals, name, 10))
    fl_refuse(p, line, "%s of an enumeration, for which the text has a function" FL_DO
              ": call that by its name", name + 8);
}
