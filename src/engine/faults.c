/* What the failed check of a run means for its values, and its error. */
#include "engine/faults.h"
#include "base/text.h"
#include "kernel/function.h"
#include <stdio.h>
#include <string.h>

static int is_of(const fl_program *p, const fl_node *n) {
  return n->state == FL_PENDING && n->slot >= 0 && n->slot < p->nodes.n &&
         p->nodes.at[n->slot] == n;
}

void fl_faults_mark(const fl_program *p, const fl_plan *plan, const fl_fault *f) {
  for (int64_t i = 0; i < p->nodes.n; i++) p->nodes.at[i]->rests = FL_CLEAN;
  for (int32_t k = f->site; k < plan->nfault; k++)
    p->nodes.at[plan->fault[k].node]->rests = FL_UNSURE;
  p->nodes.at[plan->fault[f->site].node]->rests = FL_RESTS;    /* it may have several reports */
  for (int64_t i = 0; i < p->nodes.n; i++) {
    fl_node *n = p->nodes.at[i];
    int rests = n->rests == FL_RESTS, unsure = n->rests == FL_UNSURE;
    for (int k = 0; k < (n->base ? 1 : n->nin); k++) {
      const fl_node *q = n->base ? n->base : n->in[k];
      if (!q || q->state != FL_PENDING) continue;
      rests |= q->rests == FL_RESTS;
      unsure |= q->rests == FL_UNSURE;
    }
    const int stays = n->before && n->before->state != FL_FAILED &&
                      !(is_of(p, n->before) && n->before->rests == FL_RESTS);
    n->rests = (uint8_t)(!rests ? unsure ? FL_UNSURE : FL_CLEAN : stays ? FL_REFUSED : FL_RESTS);
  }
}

fl_fault_fact fl_fault_of(const fl_program *p, const fl_plan *plan, int32_t k) {
  const fl_node *n = p->nodes.at[plan->fault[k].node];
  const fl_attr *a = n->attr;
  return (fl_fault_fact){
    .call = a ? a->call : NULL,
    .what = a && a->call ? a->call->what : a && a->what ? a->what : "index",
    .size = n->scal[0].i, .site = n->site, .flags = a ? a->flags : 0, .axis = a ? a->axis : 0
  };
}

flame_status fl_fault_tell(flame_context *c, const fl_fault_fact *x, const fl_fault *f) {
  const long long size = (long long)x->size;
  if (c->err.code == FLAME_OK) c->err.site = x->site;
  if (!f->text[0] && x->call && x->call->kind == FL_CALL_kernel) {
    char text[FL_CALL_FAULT];
    fl_kfunction_say_stopped(x->call, f->position, f->value, text);
    return FL_FAIL(c, FLAME_BAD_VALUE, x->what, "%s", text);
  }
  if (f->text[0]) return FL_FAIL(c, FLAME_BAD_VALUE, x->what, "%s", f->text);   /* of a call */
  if (x->flags & FL_INDEX_CLASS && size == 0)
    return FL_FAIL(c, FLAME_BAD_VALUE, x->what,
                   "class %lld at position %lld, and there are no classes", (long long)f->value,
                   (long long)f->position + 1);
  if (x->flags & FL_INDEX_CLASS)
    return FL_FAIL(c, FLAME_BAD_VALUE, x->what, "class %lld at position %lld, need 1 to %lld"
                   FL_DO " (labels of a 0-based file need + 1)", (long long)f->value,
                   (long long)f->position + 1, size);
  char range[64] = "", where[24] = "";
  if (x->axis > 0)
    snprintf(where, sizeof where, " for axis %d", (int)fl_counted(c, x->axis - 1));
  if (size == 0)
    return FL_FAIL(c, FLAME_BAD_VALUE, x->what,
                   "index %lld at position %lld is out of range%s, which has no elements",
                   (long long)f->value, (long long)f->position + 1,
                   where[0] ? where : " for the tensor");
  if (x->flags & FL_INDEX_NEGATIVE) snprintf(range, sizeof range, "%lld to -1 or ", -size);
  return FL_FAIL(c, FLAME_BAD_VALUE, x->what,
                 "index %lld at position %lld is out of range%s, need %s1 to %lld",
                 (long long)f->value, (long long)f->position + 1, where, range, size);
}

static const char joint[] = "; and";     /* between the errors of one read */

void fl_add_error(flame_context *c, fl_error *e, const fl_error *other) {
  char place[96] = "", text[sizeof e->message];
  const size_t begin = strlen(e->message);
  const char *rest = other->message + begin;
  if (e->site == other->site && !strncmp(e->message, other->message, begin) &&
      (!*rest || !strncmp(rest, joint, sizeof joint - 1))) {
    *e = *other;                                 /* which is the same, perhaps with more errors */
    return;
  }
  if (c->up->place) c->up->place(c, other->site, place);
  const int n = snprintf(text, sizeof text, "%s%s%s: %s: %s", joint, place[0] ? " at " : "", place,
                         other->op, other->message);
  if (n > 0 && !strstr(e->message, text) && begin + (size_t)n < sizeof e->message)
    memcpy(e->message + begin, text, (size_t)n + 1);
}

void fl_raise_later(flame_context *c) {
  fl_engine *e = c->engine;
  if (e->untold) fl_add_error(c, &e->untold_error, &c->err);
  else e->untold_error = c->err;
  e->untold = 1;
}

void fl_tell_untold(flame_context *c) {
  fl_engine *e = c->engine;
  if (e->untold) fl_add_error(c, &c->err, &e->untold_error);
  e->untold = 0;
}

static const fl_node *failed_input(const fl_node *n) {
  if (n->base) return n->base->state == FL_FAILED ? n->base : NULL;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && n->in[i]->state == FL_FAILED) return n->in[i];
  return NULL;
}

void fl_fail_dependents(flame_context *c) {
  for (int64_t i = 0; i < c->win.nodes.n; i++) {
    fl_node *n = c->win.nodes.at[i];
    const fl_node *q = n && n->state == FL_PENDING ? failed_input(n) : NULL;
    if (!q) continue;
    if (!n->before || n->before->state == FL_FAILED) fl_node_fail(n, q->error, q->failed_site);
    else {
      fl_node_refuse(n);
      fl_raise_later(c);
    }
  }
}
