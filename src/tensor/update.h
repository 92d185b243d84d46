/*
** Steps of optimisers: what an update of one parameter records, in one call.
*/
#ifndef FL_TENSOR_UPDATE_H
#define FL_TENSOR_UPDATE_H
#include "tensor/tensor.h"

/* One step of Adam (Kingma and Ba 2015) or, with 'decoupled', AdamW (Loshchilov and Hutter 2019):
** p, m, v and, for AMSGrad, the largest v so far (else NULL) are written. Grad mode is off.
** Recorded in C, since 15 calls from Lua for each parameter would take long. */
typedef struct fl_adam {
  double lr, beta1, beta2, eps, decay;
  int decoupled;
  int64_t step;                    /* number of this step, from 1 */
  double left1, left2;             /* 1 - beta1^step, 1 - beta2^step (fl_adam_count) */
  struct flame_tensor *count;      /* 'step' as a 0-d i64 tensor on the device; or NULL */
} fl_adam;
void fl_adam_count(fl_adam *rule, int64_t step);       /* sets the number of the step */
flame_status fl_adam_step(flame_tensor *p, fl_node *g, flame_tensor *m, flame_tensor *v,
                          flame_tensor *largest, const fl_adam *rule);

/* One step of gradient descent; moving: the momentum's buffer, NULL for a momentum of 0. The new
** values are written as copies, as by copy_ in the Lua form of this step: both record the same
** ops. */
typedef struct fl_sgd { double lr, momentum, dampening, decay; int nesterov; } fl_sgd;
flame_status fl_sgd_step(flame_tensor *p, fl_node *g, flame_tensor *moving, const fl_sgd *rule);
#endif
