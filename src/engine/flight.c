/* Runs whose index checks are read later: see flight.h. */
#include "engine/flight.h"
#include "base/hooks.h"
#include "tensor/entry.h"
#include <string.h>

/* ---- may it be in flight? -------------------------------------------------------------------- */

/* Is the value of n that of a write which does not happen if a check fails, or a view of it? */
static int is_written(const fl_node *n) {
  const fl_node *q = n->base ? n->base : n;
  return q->state == FL_PENDING && q->before && q->rests;
}

/* Sets 'rests' of each node of the program: bit k: its value depends on check k. 0: something is
** computed from a write that may not happen. */
static int mark(const fl_program *p, const fl_plan *plan) {
  for (int64_t i = 0; i < p->nodes.n; i++) p->nodes.at[i]->rests = 0;
  for (int32_t k = 0; k < plan->nfault; k++)
    p->nodes.at[plan->fault[k].node]->rests |= (uint8_t)(1 << k);
  for (int64_t i = 0; i < p->nodes.n; i++) {
    fl_node *n = p->nodes.at[i];
    for (int k = 0; k < (n->base ? 1 : n->nin); k++) {
      const fl_node *q = n->base ? n->base : n->in[k];
      if (!q || q->state != FL_PENDING) continue;
      if (!n->base && is_written(q)) return 0;
      n->rests |= q->rests;
    }
  }
  return 1;
}

/* k if bits 0 … k - 1 of rests are set and no others; -1: other bits are set. */
static int prefix(unsigned rests) {
  int k = 0;
  while (rests >> k & 1) k++;
  return rests >> k ? -1 : k;
}

/* The first step that writes homes. This step and others that write homes do nothing if a check has
** failed, so other values that are computed from here on may be missing then. */
static int32_t first_commit(const fl_plan *plan) {
  int32_t i = 0;
  while (i < plan->nstep && !plan->step[i].commits) i++;
  return i;
}

/* Can a failed check be told later, as far as result o of node n is concerned? A write into its
** target's buffer must leave there the value from before the run. */
static int allows(const fl_node *n, const fl_out *o, int nfault, int32_t commit) {
  const int k = prefix(n->rests);
  if (k < 0 || n->effect) return 0;
  if (o->home < 0) return (k == 0 || !n->before) && (k == nfault || o->step < commit);
  return k == nfault && n->before && n->before->state == FL_STORED &&
         (!n->entry || n->entry->leaf);
}

static int possible(const flame_context *c, const fl_program *p, const fl_plan *plan) {
  if (plan->nfault < 1 || plan->nfault > FL_FLIGHT_SITES || c->group || c->scan ||
      !mark(p, plan)) return 0;
  const int32_t commit = first_commit(plan);
  for (int32_t i = 0; i < plan->nout; i++)
    if (!allows(p->nodes.at[plan->out[i].node], &plan->out[i], plan->nfault, commit)) return 0;
  return 1;
}

/* ---- beginning and landing ------------------------------------------------------------------- */

/* Sets checks of the values that may fail, and of their views. */
static void set_checks(const fl_flight *f, uint8_t checks) {
  for (int64_t i = 0; i < f->out.n; i++) {
    fl_node *n = f->out.at[i].home ? NULL : f->out.at[i].buffer->nodes;
    for (; n; n = n->bnext) n->checks = checks;
  }
}

void fl_flight_stored(const flame_context *c, int device) {
  const fl_engine *e = c->engine;
  if (e->flying && e->flight[device].open && !FL_PLANTED(c, FL_PLANT_GUARD))
    set_checks(&e->flight[device], 1);
}

static void let_go(flame_context *c, fl_flight *f) {
  set_checks(f, 0);
  for (int64_t i = 0; i < f->out.n; i++) fl_buffer_release(c, f->out.at[i].buffer);
  f->out.n = 0;
  ((fl_engine *)c->engine)->flying -= f->open;
  f->open = 0;
}

int fl_flight_begin(flame_context *c, const fl_program *p, const fl_plan *plan,
                    fl_buffer *const *made) {
  fl_engine *e = c->engine;
  if (!possible(c, p, plan)) return 0;
  if (!e->flight) e->flight = fl_zalloc(&c->mem, sizeof *e->flight * FL_MAX_DEVICES);
  if (!e->flight) return 0;
  fl_flight *f = &e->flight[p->device];
  f->nsite = plan->nfault;
  for (int32_t k = 0; k < f->nsite; k++) f->fact[k] = fl_fault_of(p, plan, k);
  for (int32_t i = 0; i < plan->nout; i++) {
    const int32_t home = plan->out[i].home;
    const int sites = prefix(p->nodes.at[plan->out[i].node]->rests);
    if (!sites) continue;
    fl_flown *x = FL_PUSH(&c->mem, &f->out);
    if (!x) {
      let_go(c, f);
      return 0;
    }
    *x = (fl_flown){ fl_buffer_retain(home >= 0 ? p->homes.at[home] : made[i]), sites, home >= 0 };
  }
  f->open = 1;
  e->flying++;
  f->number = ++e->flights;
  return 1;
}

/* Check k has failed, with this message: values that depend on it fail. Returns whether a write has
** not happened. */
static int fail_values(const flame_context *c, fl_flight *f, int32_t k, const char *why,
                       uint32_t site) {
  int refused = 0;
  for (int64_t i = 0; i < f->out.n; i++) {
    const fl_flown *x = &f->out.at[i];
    if (x->sites <= k && !FL_PLANTED(c, FL_PLANT_LATE)) continue;
    refused |= x->home;
    x->buffer->refused |= x->home;
    for (fl_node *n = x->buffer->nodes, *next; n; n = next) {
      next = n->bnext;
      if (x->home) n->refused = 1;
      else fl_node_spoil(n, why, site);
    }
  }
  return refused;
}

static void note_failed(flame_context *c, const fl_flight *f) {
  fl_engine *e = c->engine;
  e->faults++;
  for (fl_watch *w = e->watches; w; w = w->next)
    if (w->from < f->number && f->number <= w->to) w->failed |= UINT32_C(1) << (f - e->flight);
}

void fl_watch_end(fl_watch *w) {
  if (!w->link) return;
  *w->link = w->next;
  if (w->next) w->next->link = w->link;
  w->link = NULL;
}

void fl_watch_begin(flame_context *c, fl_watch *w) {
  fl_engine *e = c->engine;
  fl_watch_end(w);
  *w = (fl_watch){ .from = e->flights, .to = INT64_MAX, .owner = w->owner, .next = e->watches,
                   .link = &e->watches };
  if (w->next) w->next->link = &w->next;
  e->watches = w;
}

void fl_watches_end(flame_context *c, const void *owner) {
  const fl_engine *e = c->engine;
  for (fl_watch *w = e ? e->watches : NULL, *next; w; w = next) {
    next = w->next;
    if (w->owner == owner) fl_watch_end(w);
  }
}

static flame_status fail(flame_context *c, fl_flight *f, const fl_fault *fault) {
  char why[sizeof c->err.message + 64];
  note_failed(c, f);
  const flame_status s = fl_fault_tell(c, &f->fact[fault->site], fault);
  fl_error_text(&c->err, why, sizeof why);
  if (fail_values(c, f, fault->site, why, c->err.site)) fl_raise_later(c);
  fl_fail_dependents(c);
  return s;
}

/* An error that is in the context already stays the first. */
static flame_status land(flame_context *c, fl_device *d, fl_flight *f) {
  fl_fault fault = { .site = -1 };
  const fl_error before = c->err;
  memset(&c->err, 0, sizeof c->err);
  flame_status s = d->table->checked(d, NULL, &fault, NULL);
  if (s == FLAME_OK && fault.site >= 0) s = fail(c, f, &fault);
  if (s != FLAME_INTERRUPTED) let_go(c, f);
  if (s == FLAME_OK || before.code != FLAME_OK) c->err = before;
  return s;
}

flame_status fl_flight_land(flame_context *c) {
  fl_engine *e = c->engine;
  flame_status first = FLAME_OK;
  for (int i = 0; e->flying && i < FL_MAX_DEVICES; i++) {
    if (!e->flight[i].open) continue;
    const flame_status s = land(c, &e->device[i], &e->flight[i]);
    if (s == FLAME_INTERRUPTED) return s;
    if (first == FLAME_OK) first = s;
  }
  return first;
}

flame_status fl_flight_tell(flame_context *c) {
  const fl_engine *e = c->engine;
  flame_status s = fl_flight_land(c);
  if (s == FLAME_OK && e->untold) {
    c->err = e->untold_error;
    s = e->untold_error.code;
    fl_tell_untold(c);
  } else if (s == FLAME_BAD_VALUE) fl_tell_untold(c);
  return s;
}

void fl_flight_end(flame_context *c) {
  const fl_engine *e = c->engine;
  if (!e) return;
  const uint32_t lost = c->dead;             /* of these the script was told */
  const int untold = e->untold;
  fl_error_clear(&c->err);
  const flame_status s = fl_flight_tell(c);
  if (s == FLAME_BAD_VALUE ||
      (s != FLAME_OK && s != FLAME_INTERRUPTED && (untold || c->dead != lost))) fl_tell_at_end(c);
}

void fl_flight_drop(flame_context *c) {
  fl_engine *e = c->engine;
  for (int i = 0; e->flight && i < FL_MAX_DEVICES; i++) {
    let_go(c, &e->flight[i]);
    FL_DROP(&c->mem, &e->flight[i].out);
  }
  fl_free(&c->mem, e->flight, sizeof *e->flight * FL_MAX_DEVICES);
  e->flight = NULL;
}
