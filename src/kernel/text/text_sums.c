/*
** Exact sums, which do not depend on the order of the threads (text_prelude.c has their functions):
** which statements are such sums, how they are written, and what a kernel that has some does when
** it begins and ends.
*/
#include "kernel/text/text_write.h"
#include "kernel/text/text.h"
#include <string.h>

/* An atomic addition of f32 or f64 to an array that is a parameter is exact if its result is not
** used and its mode is ORDERED or BLOCK. */
int fl_kput_is_ordered(const fl_kfunc *f, const fl_kstmt *s) {
  const fl_kvar *v = s->kind == FL_KS_ATOMIC ? &f->vars[s->var] : NULL;
  return v && s->op == FL_KA_ADD && s->mode > FL_KM_WARP && s->result < 0 &&
         v->kind == FL_KV_POINTER && v->param >= 0 &&
         (v->type == FL_KT_F32 || v->type == FL_KT_F64);
}

typedef struct finder { const fl_kfunc *f; uint8_t *slot, *sole; } finder;

static int find_ordered(void *arg, fl_kstmt *s) {
  const finder *x = arg;
  const int param = fl_kwrites(s) ? x->f->vars[s->var].param : -1;
  if (param < 0) return 1;
  if (fl_kput_is_ordered(x->f, s)) x->slot[param] = 1;
  else x->sole[param] = 0;
  return 1;
}

static int find_read(void *arg, fl_kexpr *e) {
  const finder *x = arg;
  const int param = e->kind == FL_KX_LOAD ? x->f->vars[e->var].param : -1;
  if (param >= 0) x->sole[param] = 0;
  return 1;
}

int fl_ktext_sums(const fl_kfunc *f, uint8_t *slot, uint8_t *sole) {
  finder x = { f, slot, sole };
  const fl_kvisitor v = { find_ordered, find_read, &x };
  int n = 0;
  memset(slot, 0, (size_t)f->n_params);
  memset(sole, 1, (size_t)f->n_params);
  fl_kwalk_block(&v, f->body);
  for (int i = 0; i < f->n_params; i++) if (slot[i]) slot[i] = (uint8_t)++n;
  return n;
}

void fl_kput_ordered(fl_kwriter *w, const fl_kstmt *s) {
  const int sum = w->slot[w->f->vars[s->var].param] - 1;
  fl_text_printf(w->t, "fl_ordered_%sadd(fl_fix[%d], ", s->mode == FL_KM_BLOCK ? "block_" : "",
                 sum);
  if (w->batch)
    fl_text_printf(w->t, "(blockIdx.z / fl_b.blocks + fl_b.first) * (fl_b.step[%d] / %d) + ",
                   (int)w->f->vars[s->var].param, fl_kt_size(w->f->vars[s->var].type));
  fl_kput_expr(w, s->x[0]);
  fl_text_puts(w->t, ", (double)(");
  fl_kput_expr(w, s->x[1]);
  fl_text_printf(w->t, "), fl_most[%d])", sum);
}

void fl_kput_sums_begin(fl_kwriter *w) {
  int n = 0;
  for (int i = 0; i < w->f->n_params; i++) n += w->slot[i] > 0;
  fl_text_puts(w->t, "  if (fl_pass && !fl_fix->again[1]) return;\n");
  fl_text_printf(w->t, "  unsigned fl_most[%d] = {};\n", n);
}

void fl_kput_sums_end(fl_kwriter *w) {
  for (int i = 0; i < w->f->n_params; i++)
    if (w->slot[i])
      fl_text_printf(w->t, "  fl_ordered_end(fl_fix[%d], fl_most[%d]);\n", w->slot[i] - 1,
                     w->slot[i] - 1);
}
