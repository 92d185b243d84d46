/*
** Collectives beside other work. On a GPU they run on a separate lane (cuda/library/nccl.h), and
** a plan helps them:
** - what rests on a result of one comes after all that were recorded before it (fl_plan_ready), so
**   that the sums of gradients go on while backward makes the next ones;
** - what they read and write is not given back before the plan's end (finish.c);
** - the steps that have to wait for them are known: those that read a result, and writes of homes;
** - a collective waits for attention, if a call of it comes soon. Products fill the multiprocessors
**   with one block each, so that one that lacks the few that NCCL has takes up to twice its time;
**   the many blocks of attention lose those few, no more.
*/
#include "plan/planner.h"
#include "tensor/call_collective.h"
#include <string.h>

enum { SOON = 64 };                      /* steps beside collectives that one waits at most */

int fl_plan_is_collective(const fl_planner *P, int32_t g) {
  const fl_group *G = &P->group.at[g];
  const fl_node *n = G->kind == FL_G_CALL ? P->cell.at[G->cell].node : NULL;
  return n && n->attr->call->kind == FL_CALL_collective;
}

int32_t fl_plan_ready(const fl_planner *P, int32_t on) {
  const int32_t stage = P->group.at[on].stage;
  return P->collected > stage && fl_plan_is_collective(P, on) ? P->collected : stage;
}

static const fl_call_step *collective_of(const fl_step *s) {
  return s->kind == FL_S_CALL && s->call->call.kind == FL_CALL_collective ? s->call : NULL;
}

/* Does an array at p begin in what the collective writes? */
static int in_result(const fl_call_step *k, const fl_place *p) {
  const int64_t bytes = k->call.numel * fl_dtype_size(k->call.dtype);
  if (p->where != k->out.where) return 0;
  if (p->where != FL_AT_ARENA) return p->index == k->out.index;
  return p->byte >= k->out.byte && p->byte < k->out.byte + bytes;
}

static int kernel_reads(const fl_step *s, const fl_call_step *k) {
  for (int32_t j = 0; j < s->count; j++)
    for (int i = 0; i < s->kernel[j].noperand; i++)
      if (in_result(k, &s->kernel[j].operand[i].place)) return 1;
  return 0;
}

static int reads(const fl_step *s, const fl_call_step *k) {
  const fl_call_step *own = collective_of(s);
  if (own) return own->call.p[FL_COLLECT_ARRAYS] && in_result(k, &own->in[0]);
  switch (s->kind) {
    case FL_S_KERNEL: return kernel_reads(s, k);
    case FL_S_MATMUL:
      return in_result(k, &s->matmul->at) || in_result(k, &s->matmul->bt) ||
             (s->matmul->biased && in_result(k, &s->matmul->bias));
    case FL_S_COPY: return in_result(k, &s->from);
    case FL_S_SCATTER:
      return in_result(k, &s->scatter->dst.place) || in_result(k, &s->scatter->idx.place) ||
             in_result(k, &s->scatter->src.place);
    default: break;
  }
  for (int i = 0; s->kind == FL_S_CALL && i < s->call->call.nin; i++)
    if (in_result(k, &s->call->in[i])) return 1;
  return 0;
}

static int checks(const fl_step *s) {
  for (int i = 0; s->kind == FL_S_KERNEL && i < s->kernel->ninstr; i++)
    if (s->kernel->instr[i].code == FL_I_INDEX) return 1;
  return 0;
}

static int is_attention(const fl_step *s) {
  return s->kind == FL_S_CALL && (s->call->call.kind == FL_CALL_attention ||
                                  s->call->call.kind == FL_CALL_attention_back);
}

/* Does attention come soon after collective i, before its result is needed? */
static int can_wait(const fl_plan *plan, int32_t i) {
  const fl_call_step *k = plan->step[i].call;
  int others = 0;
  for (int32_t j = i + 1; j < plan->nstep && others < SOON; j++) {
    const fl_step *s = &plan->step[j];
    others += !collective_of(s);
    if (is_attention(s)) return !reads(s, k);
    if (s->commits || reads(s, k)) return 0;
  }
  return 0;
}

int fl_plan_delay_lanes(fl_plan *plan) {
  int32_t n = 0, held = 0;               /* collectives that wait */
  for (int32_t i = 0; i < plan->nstep && n == 0; i++) n = collective_of(&plan->step[i]) != NULL;
  if (!n || !plan->device) return 1;
  fl_step *wait = fl_alloc(plan->mem, sizeof *wait * (size_t)plan->nstep);
  if (!wait) return 0;
  n = 0;
  for (int32_t i = 0; i < plan->nstep; i++) {
    const fl_step s = plan->step[i];
    const int collective = collective_of(&s) != NULL;
    if (collective && can_wait(plan, i)) {
      wait[held++] = s;
      continue;
    }
    if (collective || is_attention(&s)) {
      memcpy(&plan->step[n], wait, sizeof *wait * (size_t)held);
      n += held;
      held = 0;
    }
    plan->step[n++] = s;
  }
  fl_free(plan->mem, wait, sizeof *wait * (size_t)plan->nstep);
  return 1;
}

void fl_plan_note_lanes(fl_plan *plan) {
  int32_t open = -1;                     /* the first collective that is not waited for */
  for (int32_t i = 0; i < plan->nstep; i++) {
    fl_step *s = &plan->step[i];
    plan->checks |= checks(s);
    for (int32_t j = open; j >= 0 && j < i && !s->joins; j++) {
      const fl_call_step *k = collective_of(&plan->step[j]);
      s->joins = s->commits || (k && reads(s, k));
    }
    if (s->joins) open = -1;
    if (open < 0 && collective_of(s)) open = i;
  }
}
