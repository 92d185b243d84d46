/*
** Why there is no gradient: sentences made on request from what nodes, entries and the last walks
** have noted (tensor/lost.h, fl_walked).
*/
#ifndef FL_AUTOGRAD_WHY_H
#define FL_AUTOGRAD_WHY_H
#include "tensor/lost.h"
#include "tensor/tensor.h"

enum { FL_WHY_TEXT = 400 };

/* Writes 'before' and the script line of the site, or "" if lines are not known; returns buf. */
char *fl_why_place(flame_context *c, const char *before, uint32_t site, char buf[120]);
/* The script line of the walk with this number; 0: it was too long ago. */
uint32_t fl_walk_site(const flame_context *c, uint32_t number);
/* Explains a value without an entry: "detached at train.lua:4". Returns 'out', like those below. */
char *fl_why_untracked(const fl_node *n, char out[FL_WHY_TEXT]);
/* Explains why a graph does not contain the value of e. cuts: how values that the graph reads lost
** their tracking (tensor/lost.h). */
char *fl_why_unreached(flame_context *c, const fl_entry *e, int ncuts, const uint32_t *cuts,
                       char out[FL_WHY_TEXT]);
/* Why t has no .grad, as a sentence without the full stop. */
char *fl_why(flame_tensor *t, char out[FL_WHY_TEXT]);
#endif
