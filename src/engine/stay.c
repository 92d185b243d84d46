/*
** Graphs hold the addresses of results that calls, products and copies write (cuda/replay.h), so a
** result returns to its last address if that is free. Often it is not: the script keeps the old
** value (images in a list), or has dropped it, but its handle is old for the collector and not
** freed yet. Then the old value is copied to the memory that the new one would have got, and its
** buffer names that memory: handles see no difference, and the step is launched as graphs, not as
** some hundred launches.
**
** A value stays where it is if its memory is known outside (DLPack), if this run writes it, and in
** a rehearsal, which copies nothing. A result that alternates between two addresses is left alone:
** there is a set of graphs for each.
*/
#include "engine/stay.h"
#include "engine/profile.h"
#include <stdio.h>
#include <string.h>

/* MOST: bytes of the largest value that is copied, which takes as long as a few launches. LEAST: a
** value is copied only after its result has moved in so many runs. */
enum { MOST = 16 << 20, LEAST = 2 };

/* The counted buffer at this address; NULL: that is free by now, or part of another. */
static fl_buffer *at_address(const flame_context *c, const void *at, const fl_buffer *like) {
  for (fl_buffer *b = c->buffer; b; b = b->next)
    if (b->ptr == at && b->device == like->device) return b->bytes == like->bytes ? b : NULL;
  return NULL;
}

flame_status fl_stay(flame_context *c, const fl_program *p, fl_plan *plan, int32_t i,
                     fl_buffer *b) {
  fl_engine *e = c->engine;
  fl_device *d = &e->device[plan->device];
  fl_out *o = &plan->out[i];
  if (!d->table->freezes || !o->last || o->last == b->ptr || e->dry) return FLAME_OK;
  const int returns = o->before == b->ptr;
  o->before = o->last;
  if (returns) return FLAME_OK;
  if (o->moves < LEAST) {
    o->moves++;
    return FLAME_OK;
  }
  if (o->bytes > MOST || !d->table->freezes(plan, ~i)) return FLAME_OK;
  fl_buffer *held = at_address(c, o->last, b);
  if (!held || held->homed || held->pinned || fl_program_home(p, held) >= 0)
    return FLAME_OK;
  const flame_status s = d->table->copy(d, b->ptr, held->ptr, held->bytes);
  if (s != FLAME_OK) return s;
  c->stats.copies++;
  held->ptr = b->ptr;
  b->ptr = o->last;
  return s;
}

/* ---- why a run was not replayed -------------------------------------------------------------- */

static const char *const reasons[] = {
  "",
#define WHY(name, text) text,
#include "tensor/why.def"
#undef WHY
};

void fl_why_text(const fl_unreplayed *w, const fl_plan *p, char *out, size_t size) {
  char name[72] = "";
  if (p && w->step >= 0 && w->step < p->nstep) fl_step_name(&p->step[w->step], name, sizeof name);
  if (w->reason == FL_WHY_other_program && w->op < 0)
    snprintf(out, size, "%s what it writes or keeps", reasons[w->reason]);
  else if (w->reason == FL_WHY_other_program)
    snprintf(out, size, "%s %s%s%s", reasons[w->reason], fl_ops[w->op].name,
             w->was >= 0 && w->was != w->op ? ", where that has " : "",
             w->was >= 0 && w->was != w->op ? fl_ops[w->was].name : "");
  else if (w->reason) snprintf(out, size, "%s%s%s", reasons[w->reason], name[0] ? " " : "", name);
  else if (w->replays == 0) snprintf(out, size, "%s", reasons[FL_WHY_first_runs]);
  else if (w->outside && p)
    snprintf(out, size, "%d of %d steps are not in its graphs, the first is %s", (int)w->outside,
             (int)p->nstep, name);
  else out[0] = 0;
}
