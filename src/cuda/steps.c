/*
** Queues one step of a plan: fills in parameters and launches. The device table of a launch group
** (several kernels in one launch) is uploaded again only if its contents changed.
*/
#include "cuda/steps.h"
#include "cuda/call/call.h"
#include "kernel/function.h"
#include "cuda/library/blas.h"
#include "base/num.h"
#include <string.h>

void fl_step_describe(const fl_step *t, char *const at[4], void *scratch, fl_text_step *out) {
  if (t->kind == FL_S_SCATTER) fl_text_scatter(t->scatter, at[0], at[1], at[2], scratch,
                                               out);
  else fl_text_matmul(t->matmul, at[0], at[1], at[2], at[3], out);
}

static void operands(const fl_kernel *k, const fl_binding *b, void **at) {
  for (int i = 0; i < k->noperand; i++) at[i] = fl_place_address(b, &k->operand[i].place);
}

/* Queues one launch with one parameter by value. */
static flame_status launch(fl_cuda *s, fl_cu_function f, int64_t grid, uint32_t block,
                           uint32_t shared, void *param) {
  void *params[1] = { param };
  const flame_status e = fl_cuda_check(
    s, s->cu->LaunchKernel(f, (unsigned)grid, 1, 1, block, 1, 1, shared, s->stream, params,
                           NULL), "cuLaunchKernel");
  if (e != FLAME_OK || !s->ctx->sync_each) return e;
  return fl_cuda_check(s, s->cu->StreamSynchronize(s->stream),
                       "the kernel just launched");
}

void fl_step_words(const fl_cuda *s, const fl_kernel *k, const fl_binding *b, int64_t *word) {
  void *at[FL_MAX_OPERANDS];
  const fl_text_aux aux = { s->fault, s->scratch, s->counters };
  operands(k, b, at);
  fl_text_params(k, at, b->scalar, &aux, word);
}

static flame_status run_single(fl_cuda *s, const fl_kernel *k, const fl_launch_group *g,
                               const fl_binding *b, const fl_step_notes *notes) {
  int64_t word[FL_TEXT_MAX_WORDS];
  fl_step_words(s, k, b, word);
  const flame_status e = launch(s, g->function, g->grid, g->geometry[0].block,
                                g->geometry[0].shared, word);
  return e == FLAME_OK && notes ? notes->launched(notes->arg, k, g, word) : e;
}

int fl_step_table(const fl_cuda *s, const fl_step *t, const fl_launch_group *g,
                  const fl_binding *b, int64_t *rows) {
  int64_t word[FL_TEXT_MAX_WORDS], scratch = 0, counters = 0;
  void *at[FL_MAX_OPERANDS];
  int changed = 0;
  for (int32_t i = 0; i < g->n; i++) {
    const fl_text_geometry *y = &g->geometry[i];
    const fl_kernel *k = &t->kernel[g->which[i]];
    const fl_text_aux aux = { s->fault, (char *)s->scratch + scratch,
                              (char *)s->counters + counters };
    int64_t *row = rows + (int64_t)i * g->words;
    operands(k, b, at);
    fl_text_instance(k, at, &aux, word);
    if (memcmp(row, word, (size_t)y->words * 8) != 0) {
      memcpy(row, word, (size_t)y->words * 8);
      changed = 1;
    }
    scratch += fl_round_up(y->scratch, 256);
    counters += y->counters * 4;
  }
  return changed;
}

static flame_status run_multi(fl_cuda *s, const fl_step *t, fl_launch_group *g,
                              const fl_binding *b, const fl_step_notes *notes) {
  fl_text_multi param = { g->table, g->chunk, s->scalars };
  if (notes) {
    param.table = notes->table(notes->arg, g);
  } else if (fl_step_table(s, t, g, b, g->sent) || !g->current) {
    g->current = 0;
    const flame_status e = fl_stage_upload(s, g->table, g->sent,
                                           (int64_t)g->n * g->words * 8);
    if (e != FLAME_OK) return e;
    g->current = 1;
  }
  return launch(s, g->function, g->grid, g->geometry[0].block, 0, &param);
}

static flame_status run_calls(fl_cuda *s, const fl_step *t, const fl_binding *b) {
  const fl_prepared *r = t->prepared;
  char *at[4] = { NULL };
  fl_text_step x = { 0 };
  if (t->kind == FL_S_SCATTER) {
    at[0] = fl_place_address(b, &t->scatter->dst.place);
    at[1] = fl_place_address(b, &t->scatter->idx.place);
    at[2] = fl_place_address(b, &t->scatter->src.place);
  } else {
    at[0] = fl_place_address(b, &t->matmul->at);
    at[1] = fl_place_address(b, &t->matmul->bt);
    at[2] = fl_place_address(b, &t->matmul->ct);
    if (t->matmul->biased) at[3] = fl_place_address(b, &t->matmul->bias);
    if (r->library) return fl_blas_run(s, t->matmul, at);
  }
  if (!r->steps) return FLAME_OK;
  fl_step_describe(t, at, s->scratch, &x);
  flame_status e = FLAME_OK;
  for (int32_t i = 0; i < x.ncall && e == FLAME_OK; i++)
    if (x.call[i].grid) e = launch(s, r->entry[i], x.call[i].grid, x.call[i].block,
                                   0, x.param);
  return e;
}

flame_status fl_step_run(fl_cuda *s, const fl_step *t, const fl_binding *b,
                         const fl_step_notes *notes, char *text) {
  if (t->kind == FL_S_CALL) return fl_cuda_call_run(s, t->call, b, text);
  const fl_prepared *r = t->prepared;
  if (t->kind == FL_S_COPY) {
    if (t->bytes <= 0) return FLAME_OK;
    return fl_cuda_check(s, s->cu->CopyOn((fl_cu_ptr)(uintptr_t)fl_place_address(b, &t->to),
                                          (fl_cu_ptr)(uintptr_t)fl_place_address(b, &t->from),
                                          (size_t)t->bytes, s->stream), "cuMemcpyDtoDAsync");
  }
  if (t->kind != FL_S_KERNEL) return run_calls(s, t, b);
  flame_status e = FLAME_OK;
  for (int32_t i = 0; i < r->ngroup && e == FLAME_OK; i++) {
    fl_launch_group *g = &r->group[i];
    e = g->n == 1 ? run_single(s, &t->kernel[g->which[0]], g, b, notes)
                  : run_multi(s, t, g, b, notes);
  }
  return e;
}

/* ---- facts about steps; the record of checks ---- */

int fl_step_collects(const fl_step *t) {
  return t->kind == FL_S_CALL && t->call->call.kind == FL_CALL_collective;
}

int fl_step_guarded(const fl_cuda *s, const fl_step *t) {
  return t->kind == FL_S_KERNEL && t->kernel->guard && !s->ctx->group;
}

/* A user's kernel that a step launches, or NULL. */
static const fl_kfunction *kernel_of(const fl_step *t) {
  if (t->kind != FL_S_CALL || t->call->call.kind != FL_CALL_kernel) return NULL;
  return (const fl_kfunction *)(const void *)t->call->call.callee;
}

int fl_step_asserts(const fl_step *t) {
  const fl_kfunction *k = kernel_of(t);
  return k && fl_kfunction_tells(k, &t->call->call);
}

int fl_step_trusts(const fl_plan *p, int32_t i) {
  if (!kernel_of(&p->step[i])) return 0;
  while (i > 0) if (fl_step_asserts(&p->step[--i])) return 1;
  return 0;
}

int fl_step_checks(const fl_step *t) {
  if (fl_step_asserts(t)) return 1;
  for (int i = 0; t->kind == FL_S_KERNEL && i < t->kernel->ninstr; i++)
    if (t->kernel->instr[i].code == FL_I_INDEX) return 1;
  return 0;
}

int fl_step_sends(const fl_plan *p, int32_t i) {
  if (!p->nfault || !fl_step_checks(&p->step[i])) return 0;
  for (i++; i < p->nstep && !p->step[i].commits && !fl_step_collects(&p->step[i]) &&
            !fl_step_trusts(p, i); i++)
    if (fl_step_checks(&p->step[i])) return 0;
  return 1;
}

flame_status fl_step_clear(fl_cuda *s) {
  return fl_cuda_check(s, s->cu->Memset8((fl_cu_ptr)(uintptr_t)s->fault, 0xff,
                                         sizeof(fl_text_fault), s->stream), "cuMemsetD8Async");
}

flame_status fl_step_send(fl_cuda *s) {
  const flame_status e = fl_cuda_check(
    s, s->cu->CopyOut(s->fault_host, (fl_cu_ptr)(uintptr_t)s->fault, sizeof(fl_text_fault),
                      s->stream), "cuMemcpyDtoHAsync");
  if (e != FLAME_OK) return e;
  return s->capturing == FL_CAPTURE_NONE
         ? fl_cuda_check(s, s->cu->EventRecord(s->checked, s->stream), "cuEventRecord")
         : fl_cuda_check(s, s->cu->EventRecordFlags(s->checked, s->stream, FL_CU_EVENT_OUTSIDE),
                         "cuEventRecordWithFlags");
}

int32_t fl_step_soon(const fl_plan *p, int32_t i, int32_t k) {
  for (; k < p->nread; k++) if (p->out[p->read[k]].step == i) return k;
  return -1;
}
