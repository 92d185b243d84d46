/*
** Alignment of wide types: in "*(float4 *)(x + i)" i may not be a multiple of 4. A GPU faults at
** such an address, so a check is added unless the index is known to be a multiple. The start of an
** array is taken to be aligned; for a parameter the launch checks it (fl_kparam.wide). A local
** object has no address on a GPU: a float2 over y and z of a float3 is allowed in it, and only an
** access whose index counts smaller units than elements (fl_cvalue.unit) is checked. Accesses
** through a pointer into one of several arrays (turn.c) are not checked.
*/
#include "kernel/front/forms.h"

enum { WIDEST = 16 };

/* The largest power of two that is known to divide e, at most WIDEST. */
static int64_t twos(const fl_kexpr *e) {
  int64_t a, b;
  switch (e->kind) {
    case FL_KX_CONST:
      for (a = 1; a < WIDEST && e->value.i % (2 * a) == 0; a *= 2) continue;
      return a;
    case FL_KX_CAST:
      return fl_kt_is_int(e->x[0]->type) && e->type != FL_KT_BOOL ? twos(e->x[0]) : 1;
    case FL_KX_SELECT: a = twos(e->x[1]); b = twos(e->x[2]); return a < b ? a : b;
    case FL_KX_BINARY: break;
    default: return 1;
  }
  switch (e->op) {
    case FL_KO_ADD: case FL_KO_SUB: case FL_KO_OR: case FL_KO_XOR:
      a = twos(e->x[0]);
      b = twos(e->x[1]);
      return a < b ? a : b;
    case FL_KO_AND: a = twos(e->x[0]); b = twos(e->x[1]); return a > b ? a : b;
    case FL_KO_MUL: a = twos(e->x[0]) * twos(e->x[1]); return a < WIDEST ? a : WIDEST;
    case FL_KO_SHL:
      if (e->x[1]->kind != FL_KX_CONST) return 1;
      for (a = twos(e->x[0]), b = e->x[1]->value.i; a < WIDEST && b > 0; b--) a *= 2;
      return a;
    default: return 1;
  }
}

void fl_align_check(fl_front *p, const fl_cvalue *v, int32_t line) {
  if (p->failed || !p->b || !v->linear) return;
  const fl_kvar *var = &p->f->vars[v->var];
  const int64_t unit = v->unit ? v->unit : var->type > FL_KT_BOOL ? fl_kt_size(var->type) : 1,
                align = fl_ctype_align(v->type);
  if (align <= unit || align > WIDEST) return;
  if (var->kind == FL_KV_POINTER && var->param >= 0 && p->f->params[var->param].wide < align)
    p->f->params[var->param].wide = (uint8_t)align;
  const int local = var->kind != FL_KV_POINTER && var->kind != FL_KV_SHARED;
  if (!v->idx || (local && !v->unit) || twos(v->idx) * unit >= align) return;
  fl_kexpr *rest = fl_val_with(p, FL_KO_AND, v->idx, align / unit - 1),
           *good = fl_val_with(p, FL_KO_EQ, rest, 0),
           *byte = fl_val_with(p, FL_KO_MUL, v->idx, unit);
  const char *what = fl_karena_printf(p->a, "'%s' of '%s' begins at a multiple of %d bytes",
                                      fl_ctype_text(p->a, v->type), var->source, (int)align);
  fl_kstmt *s = good && byte ? fl_val_must(p, good, what, line) : NULL;
  if (s) s->x[1] = byte;
}

/* Removes the alignment check with which the block ends, if there is one after the statement
** 'before'. before: the last statement of the block when the operand of '&' was not read yet; NULL:
** there was none. */
void fl_align_forget(fl_front *p, const fl_kstmt *before) {
  fl_kstmt *last = p->failed || !p->b ? NULL : p->b->last, *s = NULL;
  if (!last || last == before || last->kind != FL_KS_ASSERT || !last->x[1]) return;
  if (last != p->b->first)
    for (s = p->b->first; s->next != last; s = s->next) continue;
  if (s) s->next = NULL;
  else p->b->first = NULL;
  p->b->last = s;
}
