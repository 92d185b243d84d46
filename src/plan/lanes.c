/*
** Collectives beside other work. On a GPU they run on a separate lane (cuda/library/nccl.h), and
** a plan helps them:
** - work that depends on a collective's result comes after all other work recorded before it
**   (fl_plan_ready), so that gradients are summed while backward computes the next ones;
** - memory that they read and write is not reused before the plan's end (finish.c);
** - it is known which steps must wait for which collectives: those that read a result, and writes
**   of homes (buffers of handles). Within a stage, steps that wait for earlier collectives come
**   first;
** - a collective is delayed until a call of attention, if one comes soon. A product has one block
**   for each multiprocessor, so if NCCL occupies some of them a product takes up to twice its time;
**   attention has many blocks, and only loses the share of these multiprocessors.
*/
#include "plan/planner.h"
#include "tensor/call_collective.h"
#include <stdlib.h>
#include <string.h>

enum { SOON = 64 };                      /* a collective is delayed by at most this many other
                                         ** steps */

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

/* Does an array at p begin inside the collective's result? */
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

/* Is there attention soon after collective i, before its result is read or a home (the buffer of a
** handle) is written? */
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

static int delay(fl_plan *plan) {
  int32_t n = 0, held = 0;               /* collectives that wait */
  fl_step *wait = fl_alloc(plan->mem, sizeof *wait * (size_t)plan->nstep);
  if (!wait) return 0;
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

/* Among the steps after 'done' up to 'newest' (which is a collective), the last collective that
** step i waits for; 'done' if there is none. The collectives of a bucket (one call of NCCL) end
** together. */
static int32_t needs(const fl_plan *plan, int32_t i, int32_t done, int32_t newest) {
  const fl_step *s = &plan->step[i];
  int32_t last = newest;
  for (int32_t j = newest; j > done; j--) {
    const fl_call_step *k = collective_of(&plan->step[j]);
    if (!k) continue;
    if (!k->call.p[FL_COLLECT_JOINS]) last = j;
    if (s->commits || reads(s, k)) return last;
  }
  return done;
}

typedef struct { int32_t step, need; } turn;

static int by_need(const void *a, const void *b) {
  const turn *x = a, *y = b;
  return x->need != y->need ? (x->need > y->need) - (x->need < y->need)
                            : (x->step > y->step) - (x->step < y->step);
}

/* Orders steps i … end - 1, which are of one stage and not collectives, by the last collective, up
** to 'newest', that each waits for. from, t: scratch arrays with room for that many steps. */
static void order_stretch(fl_plan *plan, int32_t i, int32_t end, int32_t newest, fl_step *from,
                          turn *t) {
  const int32_t n = end - i;
  if (n < 2 || newest < 0) return;
  for (int32_t k = 0; k < n; k++) t[k] = (turn){ k, needs(plan, i + k, -1, newest) };
  qsort(t, (size_t)n, sizeof *t, by_need);
  memcpy(from, &plan->step[i], sizeof *from * (size_t)n);
  for (int32_t k = 0; k < n; k++) plan->step[i + k] = from[t[k].step];
}

/* Within a stage, and between two collectives, puts steps that wait for earlier collectives, or for
** none, first. */
static int order(fl_plan *plan) {
  const size_t bytes = (sizeof(turn) + sizeof(fl_step)) * (size_t)plan->nstep;
  fl_step *from = fl_alloc(plan->mem, bytes);
  int32_t newest = -1;
  for (int32_t i = 0, end; from && i < plan->nstep; i = end) {
    const fl_step *s = plan->step;
    if (collective_of(&s[i])) newest = i;
    for (end = i + 1; end < plan->nstep && s[end].stage == s[i].stage && !collective_of(&s[i]) &&
                      !collective_of(&s[end]); end++) {}
    order_stretch(plan, i, end, newest, from, (turn *)(from + plan->nstep));
  }
  fl_free(plan->mem, from, bytes);
  return from != NULL;
}

int fl_plan_order_lanes(fl_plan *plan) {
  int32_t i = 0;
  while (i < plan->nstep && !collective_of(&plan->step[i])) i++;
  return !plan->device || i == plan->nstep || (delay(plan) && order(plan));
}

void fl_plan_note_lanes(fl_plan *plan) {
  int32_t done = -1, newest = -1;        /* done: the last collective that was waited for; newest:
                                         ** the last one before step i */
  for (int32_t i = 0; i < plan->nstep; i++) {
    fl_step *s = &plan->step[i];
    plan->checks |= checks(s);
    const int32_t need = needs(plan, i, done, newest);
    s->joins = need > done ? need + 1 : 0;
    done = need;
    if (collective_of(s)) newest = i;
  }
}
