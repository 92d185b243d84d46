/*
** Why a value is not tracked although one of its inputs is. Nodes carry the reason as one number,
** made of the line, the kind of reason and the op, and pass it on to nodes computed from them, so
** that a missing gradient can be explained on request (autograd/why.c); text is made only then. A
** tracked node, which has an entry of the tape, has none.
*/
#ifndef FL_TENSOR_LOST_H
#define FL_TENSOR_LOST_H
#include "tensor/context.h"
#include "tensor/entry.h"

typedef enum {
  FL_LOST_NOT,                   /* nothing tracked is in it */
  FL_LOST_NO_GRAD,               /* recorded without tracking */
  FL_LOST_GRADIENT,              /* recorded by a backward walk without create_graph */
  FL_LOST_DETACH,
  FL_LOST_OP,                    /* the op has no gradient, or its result is not a float */
  FL_LOST_RESET                  /* autograd.reset */
} fl_lost_reason;

enum { FL_LOST_SITE_BITS = 17, FL_LOST_REASON_BITS = 3 };

static inline uint32_t fl_lost(fl_lost_reason reason, uint32_t site, int op) {
  return (site & ((1u << FL_LOST_SITE_BITS) - 1)) | (uint32_t)reason << FL_LOST_SITE_BITS |
         (uint32_t)op << (FL_LOST_SITE_BITS + FL_LOST_REASON_BITS);
}
static inline uint32_t fl_lost_site(uint32_t lost) {
  return lost & ((1u << FL_LOST_SITE_BITS) - 1);
}
static inline fl_lost_reason fl_lost_why(uint32_t lost) {
  return (fl_lost_reason)(lost >> FL_LOST_SITE_BITS & ((1u << FL_LOST_REASON_BITS) - 1));
}
/* The op in the reason 'lost'; for a call (call.h) FL_OP_COUNT plus its kind. */
static inline int fl_lost_op(uint32_t lost) {
  return (int)(lost >> (FL_LOST_SITE_BITS + FL_LOST_REASON_BITS));
}

/* Notes that the tracked value m is used untracked, for the reason 'lost'. Work under no_grad, such
** as an optimiser's, does not replace an earlier reason that was intended or that does not depend
** on the grad mode, such as detach. */
static inline void fl_lost_note(fl_node *m, uint32_t lost) {
  const fl_lost_reason before = fl_lost_why(m->entry->lost);
  if (fl_lost_why(lost) == FL_LOST_NO_GRAD && before > FL_LOST_GRADIENT) return;
  if (fl_lost_why(lost) != FL_LOST_GRADIENT) m->entry->lost = lost;
}

/* The reason why an untracked node that reads m has lost tracking. */
static inline uint32_t fl_lost_from(fl_node *m, int op, fl_lost_reason reason) {
  if (!m->entry) return m->lost;
  const uint32_t lost = fl_lost(reason, m->ctx->site, op);
  fl_lost_note(m, lost);
  return lost;
}
/* The reason for work recorded without tracking: the script, or a walk. */
static inline fl_lost_reason fl_lost_untracked(const flame_context *c) {
  return c->walking ? FL_LOST_GRADIENT : FL_LOST_NO_GRAD;
}
#endif
