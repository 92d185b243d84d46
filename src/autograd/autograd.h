/*
** Autograd: the backward walk over the tape (tensor/entry.h). It computes only with the functions
** that record ops (tensor/build.h), so its work is fused and can be differentiated again.
*/
#ifndef FL_AUTOGRAD_AUTOGRAD_H
#define FL_AUTOGRAD_AUTOGRAD_H
#include "tensor/build.h"
#include "tensor/entry.h"
#include "tensor/tensor.h"

/* Computes the gradients of the roots, whose cotangents are 'seeds' (NULL: ones, and roots[i] must
** have one element), with respect to the nodes wrt[0..n). out[i]: the gradient, a borrowed node, or
** NULL: not reached. The walk itself only records nodes; hooks, and functions of the host, may
** evaluate. create_graph: rules run with the grad mode on. If neither it nor retain_graph is set,
** the entries walked are freed, and may not be walked again. since: nodes recorded before it are
** not walked, as if they were leaves. strict: fails with the reason, without walking anything, if
** an input is not tracked or not on a path. */
typedef struct fl_backward {
  int retain_graph, create_graph, strict;
  int64_t since;
} fl_backward;
flame_status fl_gradients(flame_context *c, int nroots, fl_node *const *roots,
                          fl_node *const *seeds, int n, fl_node *const *wrt,
                          fl_node **out, fl_backward how);
/* Finds the inputs of the part of the roots' graph that was recorded since 'since': the tracked
** nodes recorded earlier that this part reads. They are held by the caller's scope, in an array
** that the caller frees. The graph itself is freed, as by a backward without retain_graph. Roots
** that are not tracked are skipped. */
typedef struct fl_nodes { fl_node **at; int64_t n, cap; } fl_nodes;
flame_status fl_cut(flame_context *c, int nroots, fl_node *const *roots, int64_t since,
                    fl_nodes *out);
/* loss:backward(): adds the gradients to .grad of every handle whose value was reached and is a
** leaf, or has retain_grad. */
flame_status fl_backward_into_leaves(flame_tensor *root, flame_tensor *seed,
                                     fl_backward how);
/* Runs the gradient rule of y's op (autograd/rules.c, from ops.def): computes those cotangents gin
** of y's inputs that are needed (fl_wants) from y's cotangent g. */
flame_status fl_rule(fl_node *y, fl_node *g, fl_node **gin);
#endif
