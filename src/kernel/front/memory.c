/*
** Variables of file scope in device memory: __constant__ variables without a value, which the
** script sets, and __device__ variables that begin as zeros. A kernel that uses one has an
** additional parameter for it, after those of its text; a variable that it never writes is an
** input. Each launch begins with the contents that the text gives. If a kernel leaves a value in a
** variable for another kernel (fl_kparam.shared), the script carries it: the one that writes is
** outside the language unless its 'inout' names the variable; for the other the script sets it.
*/
#include "kernel/front/front.h"
#include <string.h>

void fl_memory_declare(fl_front *p, const fl_ctype *t, const char *name, int constant,
                       int32_t line) {
  fl_symbol *s = fl_front_add(p, name, FL_SYM_MEMORY);
  if (!s) return;
  s->type = t;
  s->line = line;
  s->v.is_const = (uint8_t)constant;
}

static void describe(fl_front *p, fl_kparam *q, const fl_symbol *s, int64_t n) {
  q->of_file = s->v.is_const ? 1 : 2;
  q->count = n;
  q->line = s->line;
  q->type_name = fl_ctype_text(p->a, fl_ctype_innermost(s->type));
}

fl_cvalue fl_memory_use(fl_front *p, fl_symbol *s, int32_t line) {
  int64_t n;
  int element = fl_ctype_element(s->type, &n);
  if (!p->f) return fl_val_refuse(p, line, "'%s' in a constant expression", s->name);
  if (s->of == p->f) return s->v;
  if (element == FL_KT_VOID) {                 /* members of several types: the variable is bytes */
    element = FL_KT_U8;
    n = fl_ctype_size(s->type);
  }
  const int var = fl_kparam_add(p->f, s->name, element, 1, s->v.is_const);
  if (var < 0) return fl_val_none();
  describe(p, &p->f->params[p->f->n_params - 1], s, n);
  s->of = p->f;
  s->v = (fl_cvalue){ .kind = FL_V_PLACE, .linear = 1, .is_const = s->v.is_const, .type = s->type,
                      .var = var };
  return s->v;
}

void fl_memory_settle(fl_kfunc *f) {
  uint8_t *written = fl_karena_new(f->arena, (size_t)f->n_vars + 1);
  if (!written) return;
  fl_kaccessed(f->body, NULL, written);
  for (int i = 0; i < f->n_params; i++) {
    fl_kparam *q = &f->params[i];
    if (!q->of_file && !(q->part_of && q->is_pointer)) continue;
    const int n = q->lists > 1 && q->list ? q->lists : 1, first = i - (n > 1 ? q->list - 1 : 0);
    int is = 0;                              /* a list is written whole, so that it is one result */
    for (int j = first; j < first + n; j++) is |= written[f->params[j].first_var];
    q->is_const = !is;
    f->vars[q->first_var].is_const = q->is_const;
  }
}

static fl_kparam *same(const fl_kfunc *f, const fl_kparam *q) {
  for (int i = 0; i < f->n_params; i++)
    if (f->params[i].of_file && f->params[i].line == q->line && !strcmp(f->params[i].name, q->name))
      return &f->params[i];
  return NULL;
}

void fl_memory_compare(fl_ksource *s) {
  for (int i = 0; i < s->n_kernels; i++)
    for (int k = 0; k < s->kernels[i]->n_params; k++) {
      fl_kparam *q = &s->kernels[i]->params[k];
      for (int j = 0; q->of_file && j < s->n_kernels; j++) {
        const fl_kparam *o = j == i ? NULL : same(s->kernels[j], q);
        q->shared |= o && !(o->is_const && q->is_const);
      }
    }
}
