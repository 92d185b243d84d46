/* What the failed check of a run means for its values, and its error. */
#include "engine/faults.h"
#include "base/text.h"
#include <assert.h>
#include <stdio.h>

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

flame_status fl_fault_error(flame_context *c, const fl_program *p, const fl_plan *plan,
                            const fl_fault *f) {
  const fl_node *n = p->nodes.at[plan->fault[f->site].node];
  const int flags = n->attr ? n->attr->flags : 0;
  const char *what = n->attr && n->attr->what ? n->attr->what : "index";
  const long long size = (long long)n->scal[0].i;
  if (c->err.code == FLAME_OK) c->err.site = n->site;
  assert(!f->text[0] || (n->attr && n->attr->call));       /* only calls leave a text */
  if (f->text[0]) return FL_FAIL(c, FLAME_BAD_VALUE, n->attr->call->what, "%s", f->text);
  if (flags & FL_INDEX_CLASS && size == 0)
    return FL_FAIL(c, FLAME_BAD_VALUE, what,
                   "class %lld at position %lld, and there are no classes", (long long)f->value,
                   (long long)f->position + 1);
  if (flags & FL_INDEX_CLASS)
    return FL_FAIL(c, FLAME_BAD_VALUE, what, "class %lld at position %lld, need 1 to %lld"
                   FL_DO " (labels of a 0-based file need + 1)", (long long)f->value,
                   (long long)f->position + 1, size);
  char range[64] = "", where[24] = "";
  if (n->attr && n->attr->axis > 0)
    snprintf(where, sizeof where, " for axis %d", (int)fl_counted(c, n->attr->axis - 1));
  if (size == 0)
    return FL_FAIL(c, FLAME_BAD_VALUE, what,
                   "index %lld at position %lld is out of range%s, which has no elements",
                   (long long)f->value, (long long)f->position + 1,
                   where[0] ? where : " for the tensor");
  if (flags & FL_INDEX_NEGATIVE) snprintf(range, sizeof range, "%lld to -1 or ", -size);
  return FL_FAIL(c, FLAME_BAD_VALUE, what,
                 "index %lld at position %lld is out of range%s, need %s1 to %lld",
                 (long long)f->value, (long long)f->position + 1, where, range, size);
}
