/* Operators of structs: members, friends or free functions; conversions where there is no such
** operator. */
#include "kernel/front/forms.h"
#include <string.h>

/* Calls the operator of that name for these operands: a member of the first, a friend in the struct
** of either, or a free function. 0: there is none; 1 also if the text was refused. */
int fl_operator(fl_front *p, const char *name, const fl_cvalue *args, int n, fl_cvalue *out,
                int32_t line) {
  const int32_t length = (int32_t)strlen(name);
  for (int i = -1; i < n && !p->failed; i++) {
    fl_kdevice *all = fl_member_functions(args[i < 0 ? 0 : i].type, name), *d;
    fl_cvalue self = args[0];
    fl_kcall c = { .args = args, .n = n, .line = line };
    if (!all) continue;
    if (i < 0) self = fl_val_stored(p, fl_order_now(p, self, line), line);
    if (i < 0) c = (fl_kcall){ .self = &self, .args = args + 1, .n = n - 1, .line = line };
    d = p->failed ? NULL : fl_overload(p, all, &c, NULL);
    if (d) return *out = fl_inline(p, d, &c), 1;
  }
  const int64_t globals = p->globals ? p->globals : p->syms.n;
  const fl_symbol *s = fl_front_among(p->syms.at, globals, name, length);
  const fl_kcall c = { .args = args, .n = n, .line = line };
  fl_kdevice *d = s && s->kind == FL_SYM_FUNCTION && !p->failed
                  ? fl_overload(p, s->device, &c, NULL) : NULL;
  if (d) *out = fl_inline(p, d, &c);
  return d != NULL || p->failed;
}

fl_cvalue fl_operator_call(fl_front *p, int op, fl_cvalue x, fl_cvalue y, int32_t line) {
  char name[16] = "operator";
  const fl_cvalue args[2] = { x, y };
  fl_cvalue out = fl_val_none();
  strcat(name, fl_koperator_text[op]);
  if (fl_operator(p, name, args, 2, &out, line)) return out;
  x = fl_member_plain(p, fl_order_value(p, x, line), line);
  y = fl_member_plain(p, y, line);
  x = fl_member_pointer(p, x, line);
  y = fl_member_pointer(p, y, line);
  if (!fl_val_is_object(x) && !fl_val_is_object(y)) return fl_binary(p, op, x, y, line);
  return fl_val_refuse(p, line, "there is no operator '%s' for '%s'", fl_koperator_text[op],
                       fl_ctype_text(p->a, args[!fl_val_is_object(args[0])].type));
}

/* a += b of structs: operator+= if there is one, else operator+ and an assignment. */
fl_cvalue fl_operator_update(fl_front *p, int op, fl_cvalue to, fl_cvalue from, int32_t line) {
  char name[16] = "operator";
  const fl_cvalue args[2] = { to, from };
  fl_cvalue out = fl_val_none();
  strcat(strcat(name, fl_koperator_text[op]), "=");
  if (!fl_operator(p, name, args, 2, &out, line))
    fl_val_assign(p, to, fl_operator_call(p, op, to, from, line), line);
  return to;
}
