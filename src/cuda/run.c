/*
** Runs of a plan: steps are queued one by one, or as the graphs of a recording (replay.h); between
** steps the reports of index checks, and values that the script will read soon, are copied to the
** host.
*/
#include "cuda/run.h"
#include "cuda/library/nccl.h"
#include "cuda/replay.h"

static int has_multi(const fl_plan *p) {
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_prepared *r = p->step[i].prepared;
    for (int32_t j = 0; r && j < r->ngroup; j++)
      if (r->group[j].n > 1) return 1;
  }
  return 0;
}

/* Called before the first step: uploads the scalars, if a launch of several kernels reads them. */
static flame_status begin(fl_cuda *s, const fl_plan *p, const fl_binding *b) {
  s->fault_pending = 0;
  if (!p->nscalar || !has_multi(p)) return FLAME_OK;
  return fl_stage_upload(s, s->scalars, b->scalar, (int64_t)p->nscalar * 8);
}

/* Index checks. After the last step that checks before a write or a collective, or of the plan, the
** fault record is copied to the host, and an event tells when that is done: reading it waits for
** the checks, not for work queued after them, so the GPU keeps running. It is read after the last
** step is queued (results are not valid before), and before a step that writes a home (a buffer of
** the script) without reading the record itself (an error must leave the target unchanged) or a
** collective (must_look). Once a step that does read it has been queued, the run goes on until the
** record is read, unless the device is lost: only the record tells whether the step wrote. */
static flame_status send_fault(fl_cuda *s) {
  const flame_status e = fl_step_send(s);
  if (e == FLAME_OK) s->fault_pending = 1;
  return e;
}

static flame_status look(fl_cuda *s, int written, fl_fault *fault) {
  if (s->dead) return FLAME_OK;
  const flame_status e = written ? fl_cuda_wait_out(s, s->checked) : fl_cuda_wait(s, s->checked);
  if (e == FLAME_OK) fl_cuda_fault(s, fault);
  return e;
}

/* The step, from 'first' on, one of whose index checks has this number (an index in
** plan->fault); 'first' if there is none. */
static int32_t step_of_site(const fl_plan *p, int32_t first, int32_t site) {
  for (int32_t i = first; i < p->nstep; i++) {
    if (fl_step_asserts(&p->step[i]) && p->step[i].call->fault == site) return i;
    for (int32_t j = 0; p->step[i].kind == FL_S_KERNEL && j < p->step[i].count; j++) {
      const fl_kernel *k = &p->step[i].kernel[j];
      for (int v = 0; v < k->ninstr; v++)
        if (k->instr[v].code == FL_I_INDEX && k->instr[v].arg == site) return i;
    }
  }
  return first;
}

/* Checks whose reports have not been read yet. */
typedef struct unseen {
  int32_t open;                    /* the first step that checked; -1: none */
  int written;                     /* steps are queued that read the checks themselves and write */
} unseen;

/* Reads the checks. If a step has reported, the steps before it are done: the record keeps the
** lowest report, so they have found nothing. */
static flame_status look_at(fl_cuda *s, const fl_plan *p, unseen *u, fl_fault *fault,
                            int32_t *done) {
  const int32_t first = u->open;
  const flame_status e = look(s, u->written, fault);
  *u = (unseen){ -1, 0 };
  if (e != FLAME_OK) *done = first;
  else if (fault->site >= 0) *done = step_of_site(p, first, fault->site);
  return e;
}

/* Queues steps from 'from' to 'to', one by one, and the sending of their checks where that is due;
** before step 0 it empties the record. *done rises by the number of steps queued. */
static flame_status queue_steps(fl_cuda *s, const fl_plan *p, const fl_binding *b, int32_t from,
                                int32_t to, char *text, int32_t *done, fl_marks *marks) {
  flame_status e = from == 0 && p->nfault ? fl_step_clear(s) : FLAME_OK;
  for (int32_t i = from; i < to && e == FLAME_OK; i++) {
    fl_marks_set(s, marks, i, 0);
    e = fl_step_run(s, &p->step[i], b, NULL, text);
    fl_marks_set(s, marks, i, 1);
    if (text[0]) break;
    if (e == FLAME_OK) (*done)++;
    if (e == FLAME_OK && fl_step_sends(p, i)) e = send_fault(s);
  }
  return e;
}

/* Is there, from step 'from' to 'to', a write that reads the checks itself? */
static int writes_guarded(const fl_cuda *s, const fl_plan *p, int32_t from, int32_t to) {
  int any = 0;
  for (int32_t i = from; i < to; i++) any |= fl_step_guarded(s, &p->step[i]);
  return any;
}

/* The first step, from 'from' to 'to', that checks indices; 'open' if that is not -1. */
static int32_t opened(const fl_plan *p, int32_t from, int32_t to, int32_t open) {
  for (int32_t i = from; i < to && open < 0 && p->nfault; i++)
    if (fl_step_checks(&p->step[i])) open = i;
  return open;
}

/* Reports the problem that a call found with its values, unless an earlier check has found one. */
static flame_status tell_call(fl_cuda *s, const fl_plan *p, int32_t open, fl_fault *fault,
                              int32_t *done) {
  fl_fault earlier = { .site = -1 };
  const fl_call_step *t = p->step[*done].call;
  flame_status e = FLAME_OK;
  unseen u = { open, 0 };          /* 0: an interrupt may end the wait for these checks */
  if (open >= 0) e = send_fault(s);
  if (open >= 0 && e == FLAME_OK) e = look_at(s, p, &u, &earlier, done);
  if (e != FLAME_OK || earlier.site >= 0) *fault = earlier;
  else fault->site = t->fault;
  return e;
}

static int any_asserts(const fl_plan *p) {
  for (int32_t i = 0; i < p->nstep; i++) if (fl_step_asserts(&p->step[i])) return 1;
  return 0;
}

/* Must the checks before step i be read? Yes before a kernel that trusts an assertion, a write that
** does not read the checks itself, and a collective that runs on the host or before which ranks
** tell each other the results of their checks. After the last step (i = p->nstep) yes, unless the
** run repeats an earlier one outside of a group of processes and without assertions: then its
** caller reads them. */
static int must_look(fl_cuda *s, const fl_plan *p, const fl_recording *w, int32_t i) {
  if (i == p->nstep) return s->ctx->group || !fl_replay_repeats(w) || any_asserts(p);
  if (fl_step_trusts(p, i)) return 1;
  if (p->step[i].commits) return !fl_step_guarded(s, &p->step[i]);
  if (!fl_step_collects(&p->step[i]) || !s->ctx->group) return 0;
  return fl_nccl_unproven(s) || fl_nccl_lane(s, &p->step[i].call->call) != FL_LANE_GPU;
}

/* Copies small results to the host after step i. A collective that still waits to be combined with
** others (fl_nccl_keeps) has no result yet. */
static flame_status send_soon(fl_cuda *s, const fl_plan *p, const fl_binding *b, int32_t i) {
  flame_status e = FLAME_OK;
  int32_t k = fl_step_soon(p, i, 0);
  if (k >= 0 && fl_step_collects(&p->step[i])) {
    if (fl_nccl_keeps(s)) return e;
    e = fl_nccl_join(s, NULL);
  }
  for (; k >= 0 && e == FLAME_OK; k = fl_step_soon(p, i, k + 1)) e = fl_soon_send(s, p, b, k);
  return e;
}

/* The last collective that step i waits for; NULL: all. */
static const fl_call *awaited(const fl_plan *p, int32_t i) {
  return i < p->nstep ? &p->step[p->step[i].joins - 1].call->call : NULL;
}

static flame_status run_steps(fl_cuda *s, const fl_plan *p, const fl_binding *b, fl_recording *w,
                              fl_fault *fault, int32_t *done, fl_marks *marks, int32_t *lane,
                              unseen *u) {
  flame_status e = FLAME_OK;
  for (int32_t i = 0, to; i <= p->nstep && e == FLAME_OK; i = to) {
    int ran = 0, sent = 0;
    to = i + 1;
    if (i == p->nstep || p->step[i].joins) e = fl_nccl_join(s, awaited(p, i));
    if (e != FLAME_OK) return e;
    if ((u->open >= 0 || fl_nccl_unproven(s)) && must_look(s, p, w, i)) {
      if (u->open >= 0) e = look_at(s, p, u, fault, done);
      if (e != FLAME_OK || fault->site >= 0) return e;
      if (fl_nccl_unproven(s)) e = fl_nccl_prove(s);
      if (e != FLAME_OK) return e;
      *lane = -1;
    }
    if (i == p->nstep) break;
    if (p->step[i].commits) fl_nccl_spend(s);
    if (*lane < 0 && fl_step_collects(&p->step[i])) *lane = i;
    if (e == FLAME_OK && !u->written) e = fl_cuda_poll(s);
    if (e == FLAME_OK && w) e = fl_replay_span(s, w, p, i, u->open >= 0, &to, &ran, &sent);
    if (e != FLAME_OK) return e;
    const int32_t before = u->open;
    u->open = opened(p, i, to, u->open);
    u->written |= u->open >= 0 && writes_guarded(s, p, i, to);
    s->fault_pending |= (uint8_t)sent;
    if (ran) *done = to;
    else e = queue_steps(s, p, b, i, to, fault->text, done, marks);
    if (fault->text[0]) return tell_call(s, p, opened(p, i, *done, before), fault, done);
    if (e == FLAME_OK) e = send_soon(s, p, b, to - 1);
  }
  return e;
}

/* Called if a run ends with an error after steps that read the checks before they write: those that
** did not write do not count as done. The run's error stays. */
static void note_unwritten(fl_cuda *s, const fl_plan *p, unseen *u, int32_t *done) {
  const fl_error before = s->ctx->err;
  fl_fault fault = { .site = -1 };
  send_fault(s);                 /* checks may have been made after the last sending */
  look_at(s, p, u, &fault, done);
  if (!s->dead) s->ctx->err = before;
}

static void unprepare(fl_plan *p) {
  fl_replay_free(p);
  fl_prepared_free(p);
  p->prepared = 0;
}

flame_status fl_cuda_prepare(fl_device *d, fl_plan *p) {
  fl_cuda *s = d->state;
  if (p->prepared) return FLAME_OK;
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  const int64_t before = p->total_bytes;
  e = fl_prepared_make(s, p);
  if (e == FLAME_OK) e = fl_replay_open(s, p);
  fl_cuda_leave(s);
  p->unprepare = unprepare;
  p->prepared = e == FLAME_OK;
  if (e != FLAME_OK) {
    unprepare(p);
    p->total_bytes = before;
  }
  return e;
}

flame_status fl_cuda_run(fl_device *d, fl_plan *p, const fl_binding *bound, fl_fault *fault,
                         int32_t *done) {
  fl_cuda *s = d->state;
  fl_binding mine = *bound, *const b = &mine;
  *done = 0;
  *fault = (fl_fault){ .site = -1 };
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  fl_soon_begin(s, p, b);
  e = begin(s, p, b);
  fl_marks *marks = d->trace ? fl_marks_open(s, p->nstep) : NULL;
  fl_recording *w = NULL;
  if (e == FLAME_OK && !d->trace) e = fl_replay_begin(s, p, b, &w);
  int32_t lane = -1;       /* the first collective that a check may reject or that may be aborted */
  unseen u = { -1, 0 };
  if (e == FLAME_OK) e = run_steps(s, p, b, w, fault, done, marks, &lane, &u);
  if (e != FLAME_OK && u.written && !s->dead) note_unwritten(s, p, &u, done);
  const int well = e == FLAME_OK && fault->site < 0;
  if (!well && lane >= 0 && s->ctx->group && s->ctx->group->unproven && *done > lane) *done = lane;
  fault->later = well && u.open >= 0;
  s->first_check = u.open;
  if (well) fl_nccl_spend(s);
  else if (!s->dead && s->ctx->group && !s->ctx->group->broken[0] && !fl_nccl_unproven(s))
    fl_nccl_join(s, NULL);       /* the memory that collectives read is freed next */
  if (d->trace) s->ctx->stats.not_replayed[FL_WHY_profile]++;
  else fl_replay_end(s, p, w, *done == p->nstep);
  if (fault->site >= 0) fl_soon_forget_all(s);
  fl_soon_ran(s, p, b);
  fl_marks_tell(d, marks, p, *done);
  fl_marks_close(s, marks);
  fl_cuda_leave(s);
  return e;
}

flame_status fl_cuda_checked(fl_device *d, const fl_plan *p, fl_fault *fault, int32_t *done) {
  fl_cuda *s = d->state;
  *fault = (fl_fault){ .site = -1 };
  flame_status e = fl_cuda_enter(s);
  if (e != FLAME_OK) return e;
  e = look(s, p != NULL, fault);
  if (e == FLAME_OK && fault->site >= 0) fl_soon_forget_all(s);
  if (p && e != FLAME_OK) *done = s->first_check;
  else if (p && fault->site >= 0) *done = step_of_site(p, s->first_check, fault->site);
  fl_cuda_leave(s);
  return e;
}
