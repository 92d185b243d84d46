/*
** The launches that may have caused a fault on a GPU. The driver reports a fault at any later call,
** so the engine notes the last launches of each run, with their lines; the device tells up to which
** run all has ended successfully (c->good). At most eight are reported, user kernels first: only
** these compute addresses from what a script wrote.
*/
#include "engine/profile.h"
#include "engine/evaluate.h"
#include "tensor/build_util.h"
#include <stdio.h>
#include <string.h>

static int is_kernel(const fl_step *s) {
  return s->kind == FL_S_CALL && s->call->call.kind == FL_CALL_kernel;
}

static fl_suspect seen_now(const fl_node *n, const fl_plan *p, int32_t i, int64_t run) {
  fl_suspect x = { p, p->serial, run, i, n->site, n->dtype, (uint8_t)n->shape->rank, { 0 } };
  memcpy(x.size, n->shape->size, sizeof *x.size * (size_t)n->shape->rank);
  return x;
}

/* Notes the last steps below 'end', oldest first. kernels 1: those that are user kernels; 0: only
** the others. */
static void note(fl_suspect *ring, int64_t *n, const fl_program *g, const fl_plan *p, int32_t end,
                 int kernels, int64_t run) {
  int32_t from = end;
  for (int left = FL_SUSPECTS; from > 0 && left > 0; from--)
    left -= is_kernel(&p->step[from - 1]) == kernels;
  for (int32_t i = from; i < end; i++)
    if (is_kernel(&p->step[i]) == kernels)
      ring[(*n)++ % FL_SUSPECTS] = seen_now(fl_step_value(g, p, i), p, i, run);
}

static void note_steps(flame_context *c, const fl_program *g, const fl_plan *p, int32_t end) {
  fl_engine *e = c->engine;
  const int64_t run = ++c->runs;
  if (g->nodes.n == 0) return;
  note(e->kernel, &e->nkernel, g, p, end, 1, run);
  note(e->other, &e->nother, g, p, end, 0, run);
}

void fl_suspects_note(flame_context *c, const fl_program *g, const fl_plan *p) {
  note_steps(c, g, p, p->nstep);
}

/* Writes "k at train.lua:8 for (4, 4) f32". */
static void tell(flame_context *c, const fl_suspect *x, char *out, size_t size) {
  const fl_step *s = &x->plan->step[x->step];
  char name[72], shape[FL_SHAPE_TEXT], place[96] = "";
  fl_step_name(s, name, sizeof name);
  if (x->site && c->up->place) c->up->place(c, x->site, place);
  snprintf(out, size, "%.48s%s%.64s for %.60s %s", name, place[0] ? " at " : "", place,
           fl_shape_text(shape, x->rank, x->size), fl_dtype_name(x->dtype));
}

/* Appends to out, newest first, the launches of a ring that are not known to have succeeded. told:
** how many have been reported so far; returns that number after this call. */
static int tell_ring(flame_context *c, int device, const fl_suspect *ring, int64_t n, int told,
                     char *out, size_t size) {
  const fl_engine *e = c->engine;
  char text[220];
  for (int64_t k = n; k > 0 && k > n - FL_SUSPECTS && told < FL_SUSPECTS; k--) {
    const fl_suspect *x = &ring[(k - 1) % FL_SUSPECTS];
    if (x->run <= c->good[device]) break;
    if (!fl_plans_has(&e->plans, x->plan, x->serial) || x->plan->device != device) continue;
    tell(c, x, text, sizeof text);
    const size_t at = strlen(out);
    if (at + strlen(text) + 40 > size) break;
    snprintf(out + at, size - at, "%s%s", told ? ", " : "; it may be of ", text);
    told++;
  }
  return told;
}

void fl_suspects_tell(flame_context *c, int device, char *out, size_t size) {
  fl_engine *e = c->engine;
  out[0] = 0;
  if (e->now_plan && e->now_plan->nstep > 0) {
    const int32_t done = *e->now_done, all = e->now_plan->nstep;
    note_steps(c, e->now, e->now_plan, done < all ? done + 1 : all);
  }
  const int told = tell_ring(c, device, e->kernel, e->nkernel, 0, out, size);
  tell_ring(c, device, e->other, e->nother, told, out, size);
}
