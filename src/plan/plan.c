/*
** Planning as a whole, and plans as text. The planner's own memory is freed at the end; if memory
** runs out, the window (the recorded ops) is unchanged.
*/
#include "plan/planner.h"
#include "base/text.h"
#include "tensor/call_conv.h"
#include <string.h>

void fl_plan_drop_copy(fl_planner *P) {
  const fl_cell *t = &P->cell.at[--P->cell.n];
  fl_layout_release(&P->c->layouts, t->view);
  fl_layout_release(&P->c->layouts, t->shape);
}

static void close_planner(fl_planner *P) {
  while (P->cell.n > 0 && !P->cell.at[P->cell.n - 1].node) fl_plan_drop_copy(P);
  for (int64_t g = 0; g < P->group.n; g++) {
    fl_group *G = &P->group.at[g];
    FL_DROP(P->mem, &G->instr);
    FL_DROP(P->mem, &G->value);
    FL_DROP(P->mem, &G->access);
    FL_DROP(P->mem, &G->scalar);
    FL_DROP(P->mem, &G->deps);
  }
  FL_DROP(P->mem, &P->group);
  FL_DROP(P->mem, &P->cell);
  FL_DROP(P->mem, &P->todo);
  FL_DROP(P->mem, &P->fault);
  FL_DROP(P->mem, &P->piece);
  FL_DROP(P->mem, &P->reader);
}

fl_plan *fl_plan_make(flame_context *c, const fl_program *p) {
  fl_planner P = { .c = c, .mem = &c->mem, .p = p };
  const int64_t before = c->mem.live_bytes;
  fl_plan *plan = NULL;
  if (fl_plan_classify(&P) && fl_plan_place(&P)) plan = fl_plan_finish(&P);
  close_planner(&P);
  if (!plan && fl_take_interrupt(c)) {
    fl_interrupted(c, "evaluate");
    return NULL;
  }
  if (!plan) {
    FL_FAIL(c, FLAME_NO_MEMORY, "evaluate", "out of host memory while planning %lld ops",
            (long long)p->nodes.n);
    return NULL;
  }
  /* the planner has freed its working memory */
  plan->total_bytes = c->mem.live_bytes - before;
  return plan;
}

int32_t fl_plan_commit_end(const fl_plan *p, int32_t i) {
  int32_t last = i;
  for (int32_t k = 0; k < p->nout; k++)
    if (p->out[k].home >= 0 && p->out[k].first == i && p->out[k].step > last) last = p->out[k].step;
  return last;
}

void fl_plan_print(const fl_plan *p, fl_text *out) {
  fl_text_printf(out, "plan: %d nodes, %d steps, %d inputs, %d results, arena %lld bytes\n",
                 p->nnode, p->nstep, p->next, p->nout, (long long)p->arena_bytes);
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_step *s = &p->step[i];
    if (s->joins) fl_text_printf(out, "waits for step %d\n", s->joins);
    fl_text_printf(out, "step %d: ", i + 1);
    if (s->kind == FL_S_KERNEL) {
      if (s->count > 1) fl_text_printf(out, "%d times ", s->count);
      fl_kernel_print(&s->kernel[0], out);
    } else if (s->kind == FL_S_MATMUL) {
      const int biased = s->matmul->biased;
      fl_text_printf(out, "matmul %s %lld x %lld x %lld, %d batch dims%s%s\n",
                     fl_dtype_name(s->matmul->dtype), (long long)s->matmul->m,
                     (long long)s->matmul->n, (long long)s->matmul->k, s->matmul->nbatch,
                     biased == FL_BIAS_ALL ? ", sum" : biased ? ", bias" : "",
                     s->matmul->padded ? ", padded" : "");
    } else if (s->kind == FL_S_SCATTER) {
      fl_text_printf(out, "scatter %s%s%s\n", fl_dtype_name(s->scatter->dtype),
                     s->scatter->add ? " add" : "",
                     s->scatter->fault < 0 ? "" : ", checks its index");
    } else if (s->kind == FL_S_CALL) {
      fl_text_printf(out, "call %s\n", fl_calls[s->call->call.kind].name);
    } else fl_text_printf(out, "copy %lld bytes\n", (long long)s->bytes);
  }
}

int64_t fl_step_flops(const fl_step *s) {
  if (s->kind == FL_S_MATMUL) {
    const fl_matmul *m = s->matmul;
    int64_t n = 2 * m->m * m->k * m->n;
    for (int i = 0; i < m->nbatch; i++) n *= m->batch[i];
    return n;
  }
  if (s->kind != FL_S_CALL) return 0;
  const fl_call *q = &s->call->call;
  fl_conv v;
  if (strncmp(fl_calls[q->kind].name, "conv", 4) != 0 || !fl_conv_read(q, &v)) return 0;
  return 2 * v.n * v.o * (v.c / v.groups) * fl_volume3(v.k) * fl_volume3(v.out);
}
