/*
** Autograd: the backward walk over entries (tensor/entry.h). Needs only builders, so that
** what it records fuses and can be differentiated again.
*/
#ifndef FL_AUTOGRAD_AUTOGRAD_H
#define FL_AUTOGRAD_AUTOGRAD_H
#include "tensor/build.h"
#include "tensor/entry.h"
#include "tensor/tensor.h"

/* Gradients of the roots with cotangents seed (NULL: ones, roots[i] must have one element)
** by the nodes of wrt[0..n). out[i]: borrowed nodes, NULL where unreached. Records into the
** window; nothing is evaluated. create_graph: rules run with the grad mode on.
** retain_graph 0: the entries walked are freed, and walking them again is an error.
** since: what was recorded before is not walked, as if it were leaves. strict: fails, and walks
** nothing, where an input is not tracked or not on a path, with the reason. */
typedef struct fl_backward {
  int retain_graph, create_graph, strict;
  int64_t since;
} fl_backward;
flame_status fl_gradients(flame_context *c, int nroots, fl_node *const *roots,
                          fl_node *const *seeds, int n, fl_node *const *wrt,
                          fl_node **out, fl_backward how);
/* What the roots' graph since 'since' was made from: the tracked nodes recorded before that it
** reads, lent to the caller's scope in an array that he frees. That graph itself is freed, as by
** a backward without retain_graph. Roots that are not tracked are passed over. */
typedef struct fl_nodes { fl_node **at; int64_t n, cap; } fl_nodes;
flame_status fl_cut(flame_context *c, int nroots, fl_node *const *roots, int64_t since,
                    fl_nodes *out);
/* loss:backward(): adds into .grad of every leaf reached (and of retain_grad handles). */
flame_status fl_backward_into_leaves(flame_tensor *root, flame_tensor *seed,
                                     fl_backward how);
/* The rule of one entry: cotangents of the inputs from g (autograd/rules.c, from ops.def). */
flame_status fl_rule(fl_node *y, fl_node *g, fl_node **gin);
#endif
