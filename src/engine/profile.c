/*
** Names of steps of plans, and the list of what ran. A step of fused ops has its kernel's name
** (plan/kernel.h).
*/
#include "engine/profile.h"
#include "engine/stay.h"
#include "tensor/build_util.h"
#include "tensor/call_conv.h"
#include <stdio.h>
#include <string.h>

void fl_step_name(const fl_step *s, char *out, size_t size) {
  const char *name = "copy";
  switch (s->kind) {
    case FL_S_KERNEL: fl_kernel_name(s->kernel, out, size); return;
    case FL_S_MATMUL: name = "matmul"; break;
    case FL_S_SCATTER: name = s->scatter->add ? "scatter_add" : "scatter"; break;
    case FL_S_CALL:
      name = s->call->call.what[0] ? s->call->call.what : fl_calls[s->call->call.kind].name;
      break;
    default: break;
  }
  snprintf(out, size, "%s", name);
}

/* The bytes that a step reads and writes, as the planner has counted them. It does not count those
** of a product, which is taken here to read two matrices and write one for each of its batch. */
static int64_t bytes_of(const fl_step *s) {
  const fl_matmul *m = s->matmul;
  if (s->kind != FL_S_MATMUL || s->moved > 0) return s->moved;
  int64_t n = m->m * m->k + m->k * m->n + (m->biased == FL_BIAS_ALL ? 2 : 1) * m->m * m->n;
  for (int i = 0; i < m->nbatch; i++) n *= m->batch[i];
  return n * fl_dtype_size(m->dtype);
}

/* A value that step i completes and that is kept after the run; NULL: there is none. */
static const fl_node *made_by(const fl_program *g, const fl_plan *p, int32_t i) {
  for (int32_t k = 0; k < p->nout; k++)
    if (p->out[k].step == i && p->out[k].node < g->nodes.n) return g->nodes.at[p->out[k].node];
  return NULL;
}

const fl_node *fl_step_value(const fl_program *g, const fl_plan *p, int32_t i) {
  const fl_node *n = made_by(g, p, i);
  const int32_t own = p->step[i].node;
  return n ? n : g->nodes.at[own >= 0 && own < g->nodes.n ? own : g->nodes.n - 1];
}

/* The line of the value that fl_step_value gives. *own: the kept value that the step completes, or
** NULL. */
static uint32_t site_of(const fl_program *g, const fl_plan *p, int32_t i, const fl_node **own) {
  *own = NULL;
  if (g == NULL || g->nodes.n == 0) return 0;
  *own = made_by(g, p, i);
  return fl_step_value(g, p, i)->site;
}

void fl_step_blame(flame_context *c, const fl_program *g, const fl_plan *p, int32_t i) {
  fl_error *lost = &c->lost[p->device], named = { 0 };
  char op[sizeof named.op], shape[FL_SHAPE_TEXT], text[sizeof lost->message + 64];
  if (i >= p->nstep || g->nodes.n == 0) return;
  const fl_node *n = fl_step_value(g, p, i);
  fl_error_text(lost, text, sizeof text);
  const char *cause = strstr(text, ": ");
  fl_step_name(&p->step[i], op, sizeof op);
  fl_fail(&named, FLAME_DEVICE_LOST, op, "its launch, for a result of shape %s, failed: %s",
          fl_shape_text(shape, n->shape->rank, n->shape->size), cause ? cause + 2 : text);
  named.site = n->site;
  *lost = named;
  c->err = named;
}

static void note_shape(fl_profile_event *e, const fl_step *s, const fl_node *n) {
  char text[192] = "";
  const fl_matmul *m = s->matmul;
  e->dtype = n ? n->dtype : s->kind == FL_S_MATMUL ? m->dtype : FLAME_F32;
  if (s->kind == FL_S_MATMUL) {
    int64_t batch = 1;
    for (int i = 0; i < m->nbatch; i++) batch *= m->batch[i];
    e->dtype = m->dtype;
    const int k = batch > 1 ? snprintf(text, sizeof text, "%lld of ", (long long)batch) : 0;
    snprintf(text + k, sizeof text - (size_t)k, "%lldx%lld . %lldx%lld", (long long)m->m,
             (long long)m->k, (long long)m->k, (long long)m->n);
  } else if (n) {
    fl_shape_text(text, n->shape->rank, n->shape->size);
  } else if (s->kind == FL_S_KERNEL) {
    fl_shape_text(text, s->kernel->nkept + s->kernel->nred, s->kernel->size);
    snprintf(e->shape, sizeof e->shape, "%.71s", text);
    return;
  } else {
    return;
  }
  snprintf(e->shape, sizeof e->shape, "%.60s %.8s", text, fl_dtype_name(e->dtype));
}

static fl_profile_event *new_event(fl_profile *f) {
  fl_profile_event *e = FL_PUSH(&f->ctx->mem, &f->events);
  if (e) memset(e, 0, sizeof *e);
  else f->lost++;
  return e;
}

/* Notes why the plan is not replayed, and one launch of it. */
static void note_why(fl_profile *f, const fl_plan *p) {
  fl_profile_why *y = f->whys.n ? &f->whys.at[f->whys.n - 1] : NULL;
  for (int64_t i = 0; i < f->whys.n; i++) if (f->whys.at[i].serial == p->serial) y = &f->whys.at[i];
  if (!y || y->serial != p->serial) {
    if (!(y = FL_PUSH(&f->ctx->mem, &f->whys))) return;
    *y = (fl_profile_why){ .serial = p->serial, .site = p->why.site };
    fl_why_text(&p->why, p, y->text, sizeof y->text);
  }
  y->launches++;
}

static void note_step(fl_trace *t, struct fl_device *d, const struct fl_plan *p, int32_t i,
                      const fl_timing *w) {
  fl_profile *f = (fl_profile *)t;
  fl_profile_event *e = new_event(f);
  if (e == NULL) return;
  const fl_step *s = &p->step[i];
  const fl_node *own;
  fl_step_name(s, e->op, sizeof e->op);
  e->site = site_of(f->program, p, i, &own);
  note_shape(e, s, own);
  e->device = (uint8_t)d->index;
  e->replayed = (uint8_t)w->replayed;
  e->calls = s->kind == FL_S_KERNEL ? s->count : 1;
  e->bytes = bytes_of(s);
  e->flops = fl_step_flops(s);
  e->at = *w;
  e->at.start -= f->origin;
  e->at.host -= f->origin;
  if (d->index) note_why(f, p);
}

void fl_profile_region(fl_profile *f, const char *name, double start) {
  const int64_t before = f->events.n;
  fl_profile_span(f, FL_EVENT_REGION, 0, start, 0);
  if (f->events.n > before)
    snprintf(f->events.at[before].op, sizeof f->events.at->op, "%s", name);
}

void fl_profile_span(fl_profile *f, fl_profile_kind kind, int device, double start,
                     int64_t bytes) {
  static const char *const names[FL_EVENT_KINDS] = { "op", "plan", "compile", "run", "upload",
                                                     "download", "wait", "" };
  fl_profile_event *e = new_event(f);
  if (e == NULL) return;
  snprintf(e->op, sizeof e->op, "%s", names[kind]);
  e->kind = (uint8_t)kind;
  e->device = (uint8_t)device;
  e->calls = 1;
  e->bytes = bytes;
  e->at.start = e->at.host = start - f->origin;
  e->at.ms = e->at.host_ms = fl_trace_now() - start;
}

int fl_profile_start(flame_context *c) {
  fl_engine *e = c->engine;
  if (e->profile != NULL || e->dry != NULL) return 0;
  e->profile = fl_zalloc(&c->mem, sizeof *e->profile);
  if (e->profile == NULL) return 0;
  e->profile->trace.step = note_step;
  e->profile->ctx = c;
  e->profile->origin = fl_trace_now();
  for (int i = 0; i < FL_MAX_DEVICES; i++)
    if (e->open[i]) fl_profile_attach(e->profile, &e->device[i]);
  return 1;
}

void fl_profile_stop(flame_context *c) {
  fl_engine *e = c->engine;
  for (int i = 0; i < FL_MAX_DEVICES; i++) fl_profile_detach(e->profile, &e->device[i]);
}

void fl_profile_free(flame_context *c) {
  fl_engine *e = c->engine;
  if (e->profile == NULL) return;
  fl_profile_stop(c);
  FL_DROP(&c->mem, &e->profile->events);
  FL_DROP(&c->mem, &e->profile->whys);
  fl_free(&c->mem, e->profile, sizeof *e->profile);
  e->profile = NULL;
}
