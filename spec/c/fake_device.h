/*
** A context and a device on the fake driver, for the tests of the CUDA device that need no GPU.
** Closing checks that the driver and the context hold nothing.
*/
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H
#include "fake_driver.c"
#include "cuda_sample.h"

static inline flame_status open_fake(flame_context *c, fl_device *d) {
  memset(c, 0, sizeof *c);
  memset(d, 0, sizeof *d);
  return fl_cuda_open_with(c, d, 0, &fake_libraries);
}

static void close_fake(flame_context *c, fl_device *d) {
  if (d->table) d->table->close(d);
  CHECK(fake_leaks() == 0 && fake.bytes == 0);
  CHECK(c->mem.live_bytes == 0 && c->mem.live_blocks == 0);
}

/* A device with the sample plan of cuda_sample.h. All inputs and results are the same memory. */
typedef struct rig {
  flame_context c;
  fl_device d;
  sample p;
  void *at[4];
  fl_fault fault;
  int32_t done;
} rig;

/* Opens a rig (a device with the sample plan) on these libraries; the plan is not yet prepared. */
static inline rig *open_rig_on(const fl_cuda_lib *libraries) {
  static rig r;
  memset(&r, 0, sizeof r);
  fake_reset();
  CHECK(fl_cuda_open_with(&r.c, &r.d, 0, libraries) == FLAME_OK);
  r.at[0] = r.d.table->alloc(&r.d, 8 * N);
  for (int i = 1; i < 4; i++) r.at[i] = r.at[0];
  make_sample(&r.p, &r.c, FL_OP_sub);
  return &r;
}

/* Opens a rig and prepares 'count' steps of its sample plan, beginning at step 'first'. */
static inline rig *open_rig(int first, int count) {
  rig *r = open_rig_on(&fake_libraries);
  r->p.plan.step += first;
  r->p.plan.nstep = count;
  CHECK(r->d.table->prepare(&r->d, &r->p.plan) == FLAME_OK);
  return r;
}

static inline flame_status run_rig(rig *r) {
  const fl_scalar scalar[2] = { { 0 } };
  const fl_binding b = { .ext = r->at, .out = r->at + 2, .scalar = scalar };
  return r->d.table->run(&r->d, &r->p.plan, &b, &r->fault, &r->done);
}

static inline void close_rig(rig *r) {
  drop_sample(&r->p);
  r->d.table->free(&r->d, r->at[0], 8 * N);
  close_fake(&r->c, &r->d);
}
#endif
