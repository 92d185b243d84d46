/*
** Why there is no gradient (why.h). These functions are called only to make a message and change
** nothing: the marks that a search leaves on nodes are removed again.
*/
#include "autograd/why.h"
#include "tensor/call.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SEEN = 2 };                       /* in node->mark, as VISITED in a walk */

static void say(char out[FL_WHY_TEXT], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(char out[FL_WHY_TEXT], const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fl_print(out, FL_WHY_TEXT, fmt, args);
  va_end(args);
}

char *fl_why_place(flame_context *c, const char *before, uint32_t site, char buf[120]) {
  char place[96] = "";
  if (site && c->up && c->up->place) c->up->place(c, site, place);
  buf[0] = '\0';
  if (place[0]) snprintf(buf, 120, "%s%s", before, place);
  return buf;
}

uint32_t fl_walk_site(const flame_context *c, uint32_t number) {
  const uint32_t last = c->walked.walks & 0x7fffffff;
  return number && last - number < FL_WALK_SITES ? c->walked.sites[number % FL_WALK_SITES] : 0;
}

static const char *op_name(int op) {
  if (op >= FL_OP_COUNT) return fl_calls[op - FL_OP_COUNT].name;
  return op == FL_OP_custom ? "a function" : fl_ops[op].name;
}

/* Describes one reason for a lost tracking: what happened to the value. */
static char *lost_text(flame_context *c, uint32_t lost, char out[200]) {
  char at[120];
  const int op = fl_lost_op(lost);
  fl_why_place(c, " at ", fl_lost_site(lost), at);
  switch (fl_lost_why(lost)) {
    case FL_LOST_DETACH: snprintf(out, 200, "detached%s", at); break;
    case FL_LOST_NO_GRAD: snprintf(out, 200, "made under no_grad%s", at); break;
    case FL_LOST_GRADIENT:
      snprintf(out, 200, "made by a backward%s without create_graph", at);
      break;
    case FL_LOST_RESET: snprintf(out, 200, "forgotten by autograd.reset%s", at); break;
    case FL_LOST_OP:
      if (op == FL_OP_cast) snprintf(out, 200, "cast to a dtype without gradients%s", at);
      else snprintf(out, 200, "given to %s%s, which has no gradient", op_name(op), at);
      break;
    default: out[0] = '\0';
  }
  return out;
}

char *fl_why_untracked(const fl_node *n, char out[FL_WHY_TEXT]) {
  if (n->state == FL_FAILED || !n->lost) {
    snprintf(out, FL_WHY_TEXT, "no input has requires_grad");
    return out;
  }
  return lost_text(n->ctx, n->lost, out);
}

/* Is this a reason for which tracking can end on a path that a walk has searched? */
static int is_end(uint32_t lost) { return fl_lost_why(lost) > FL_LOST_GRADIENT ||
                                          fl_lost_why(lost) == FL_LOST_NO_GRAD; }

char *fl_why_unreached(flame_context *c, const fl_entry *e, int ncuts, const uint32_t *cuts,
                       char out[FL_WHY_TEXT]) {
  char one[200];
  int said = 0;
  for (int i = 0; i < ncuts; i++)
    if (e->lost && cuts[i] == e->lost) return lost_text(c, e->lost, out);
  size_t n = (size_t)snprintf(out, FL_WHY_TEXT, "never used in it");
  for (int i = 0; i < ncuts && said < 2; i++) {
    if (!is_end(cuts[i])) continue;
    lost_text(c, cuts[i], one);
    const char *link = said++ ? ", or " : ", or lost in what was ";
    if (n + strlen(link) + strlen(one) >= FL_WHY_TEXT) break;
    n += (size_t)snprintf(out + n, FL_WHY_TEXT - n, "%s%s", link, one);
  }
  return out;
}

/* ---- what was made of a leaf ----------------------------------------------------------------- */

typedef struct list { fl_node **at; int64_t n, cap; } list;

/* Is the value of entry e among those that n was made of? 0 also when memory is out. */
static int made_of(flame_context *c, fl_node *n, const fl_entry *e, list *seen) {
  int found = 0;
  for (int64_t k = 0; n && !found; n = ++k <= seen->n ? seen->at[k - 1] : NULL) {
    found = n->entry == e;
    if (!n->entry || n->entry->leaf || n->entry->spent) continue;
    for (int i = 0; i < n->nin; i++) {
      fl_node *m = n->in[i];
      if (!m || !m->entry || m->mark & SEEN) continue;
      fl_node **slot = FL_PUSH(&c->mem, seen);
      if (!slot) return 0;
      *slot = m;
      m->mark |= SEEN;
    }
  }
  return found;
}

/* Among the values of handles, the one recorded last that was computed from the value of entry e,
** through entries (records on the tape) that are not freed. NULL: none, or memory is out. */
static fl_node *last_use(flame_context *c, const fl_entry *e) {
  fl_node *last = NULL;
  list seen = { 0 };
  for (const flame_tensor *t = c->handles; t; t = t->next) {
    fl_node *n = t->node;
    if (!n || !n->entry || n->entry == e || (last && n->entry->sequence <= last->entry->sequence))
      continue;
    if (made_of(c, n, e, &seen)) last = n;
    for (int64_t k = 0; k < seen.n; k++) seen.at[k]->mark &= (uint8_t)~SEEN;
    seen.n = 0;
  }
  FL_DROP(&c->mem, &seen);
  return last;
}

/* ---- x:why() --------------------------------------------------------------------------------- */

/* Explains that a backward ran and did not reach t, which would have received a gradient. */
static char *not_reached(flame_tensor *t, char out[FL_WHY_TEXT]) {
  flame_context *c = t->ctx;
  const fl_entry *e = t->node->entry;
  const fl_node *use = last_use(c, e);
  char at[120], used[120], path[FL_WHY_TEXT];
  fl_why_place(c, " at ", fl_walk_site(c, c->walked.number), at);
  fl_why_unreached(c, e, c->walked.ncuts, c->walked.cuts, path);
  if (use && strncmp(path, "never", 5) == 0)
    say(out, "the backward%s did not come to it: what was made of it%s was no part of that", at,
        fl_why_place(c, " at ", use->entry->site, used));
  else
    say(out, "the backward%s did not come to it: %s", at, path);
  return out;
}

static char *why_tracked(flame_tensor *t, char out[FL_WHY_TEXT]) {
  flame_context *c = t->ctx;
  const fl_entry *e = t->node->entry;
  char at[120] = "", made[120];
  const uint32_t walk = e->walk >> 1, last = c->walked.number;
  if (!e->leaf && !t->retain) {
    if (e->spent) fl_why_place(c, "; the backward at ", fl_walk_site(c, walk), at);
    say(out, "it is no leaf, but computed%s%s%s: call retain_grad() before the backward, or "
        "gradients{x}", fl_why_place(c, " at ", e->site, made), e->spent ? at : "",
        e->spent && at[0] ? " has freed its graph" : "");
  } else if (!last || e->sequence >= c->walked.sequence) {
    say(out, "no backward has run since it was made");
  } else if (walk == last) {
    fl_why_place(c, " at ", fl_walk_site(c, walk), at);
    if (e->walk & 1)
      say(out, "the backward%s gave it one, which is gone since: zero_grad(), or .grad = nil", at);
    else
      say(out, "the backward%s came to it with nothing: a function's backward or a kernel's vjp "
          "gave nil", at);
  } else {
    return not_reached(t, out);
  }
  return out;
}

char *fl_why(flame_tensor *t, char out[FL_WHY_TEXT]) {
  const fl_node *n = t->node;
  char why[FL_WHY_TEXT];
  if (t->grad)
    say(out, "nothing is missing: it has a gradient");
  else if (n->entry)
    return why_tracked(t, out);
  else if (!fl_is_float(n->dtype))
    say(out, "%s has no gradients, only floats have", fl_dtype_name(n->dtype));
  else
    say(out, "it is not tracked: %s", fl_why_untracked(n, why));
  return out;
}
