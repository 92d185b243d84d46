/*
** Handles: what a Lua box or a C caller holds. A write rebinds 'node'; no other handle sees it.
** A handle owns one 'held' count of its node and one reference of its gradient handle.
*/
#ifndef FL_TENSOR_TENSOR_H
#define FL_TENSOR_TENSOR_H
#include "tensor/context.h"

enum { FL_GRAD_ADDED = 1 };   /* flag of 'used': a backward has added to it since */

struct flame_tensor {
  int32_t refs;
  uint8_t view;               /* made by a view function: writes raise */
  uint8_t retain;             /* retain_grad: a non-leaf that keeps .grad */
  uint8_t closed;
  uint8_t used;               /* a gradient: twice the number of the optimiser whose step has read
                              ** it, and a flag; 0 after a write of the script */
  flame_context *ctx;
  fl_node *node;              /* NULL once closed */
  struct flame_tensor *grad;  /* .grad, NULL: none */
  void *hooks;                /* list kept by autograd/ */
  const char *made_by;        /* view handles: "x[…]", "reshape": static text for the message */
  struct flame_tensor *next, *prev;   /* of the context's handles */
};

/* New handle on a node, refs = 1, within a scope. NULL in, NULL out. A node that a handle
** has named before is aliased: the handle's node may be another than n. */
flame_tensor *fl_tensor_new(flame_context *c, fl_node *n);
flame_tensor *fl_tensor_new_view(flame_context *c, fl_node *n, const char *made_by);
flame_tensor *fl_tensor_retain(flame_tensor *t);       /* refs + 1; undone by release */
void fl_tensor_release(flame_tensor *t);                /* flame_free of who is inside already */
/* Drop value, gradient and hooks now; the struct stays for its owners (x:free(), scopes). */
void fl_tensor_shut(flame_tensor *t);
/* .grad becomes 'grad' (a reference is taken), NULL: none. */
void fl_tensor_set_grad(flame_tensor *t, flame_tensor *grad);
/* Does t name a value? Otherwise keeps the error "the tensor was freed". */
int fl_tensor_open(const flame_tensor *t, const char *op);
/* Make the handle name n (checks: not a view, not a tracked leaf outside no_grad, same shape,
** dtype, device). n gets the old value's memory as home where the handle owned it; a n that is
** anything but a fresh PENDING node of this call is copied first. Leafhood stays. */
flame_status fl_tensor_write(flame_tensor *t, fl_node *n, const char *op);
/* The handle's value becomes n, of any dtype and device but the same shape (x:to_): n is made
** outside the tape. A leaf stays the same leaf; views and tracked values refuse. */
flame_status fl_tensor_convert(flame_tensor *t, fl_node *n, const char *op);
/* The handle names n, which it has named before or which is a copy of its value: no write. */
void fl_tensor_rename(flame_tensor *t, fl_node *n);
int fl_tensor_is_leaf(const flame_tensor *t);
int fl_tensor_tracked(const flame_tensor *t);
#endif
