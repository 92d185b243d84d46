/*
** Why there is no gradient: sentences made when somebody asks, from what nodes, entries and the
** last walks keep as numbers (tensor/lost.h, fl_walked).
*/
#ifndef FL_AUTOGRAD_WHY_H
#define FL_AUTOGRAD_WHY_H
#include "tensor/lost.h"
#include "tensor/tensor.h"

enum { FL_WHY_TEXT = 400 };

/* 'before' and the line, or "" where lines are not known; returns buf. */
char *fl_why_place(flame_context *c, const char *before, uint32_t site, char buf[120]);
/* Line of the walk of this number; 0: too long ago. */
uint32_t fl_walk_site(const flame_context *c, uint32_t number);
/* "detached at train.lua:4": of a value without an entry. Returns out, as those below. */
char *fl_why_untracked(const fl_node *n, char out[FL_WHY_TEXT]);
/* Why a graph, whose lost values are 'cuts', has not the value that e explains. */
char *fl_why_unreached(flame_context *c, const fl_entry *e, int ncuts, const uint32_t *cuts,
                       char out[FL_WHY_TEXT]);
/* Why t has no .grad, as a sentence without its end. */
char *fl_why(flame_tensor *t, char out[FL_WHY_TEXT]);
#endif
