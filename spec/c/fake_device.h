/*
** A context and a device on the fake driver, for the tests of the CUDA device that need no GPU.
** Closing checks that the driver and the context hold nothing any more.
*/
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H
#include "fake_driver.c"
#include "cuda_sample.h"

static flame_status open_fake(flame_context *c, fl_device *d) {
  memset(c, 0, sizeof *c);
  memset(d, 0, sizeof *d);
  return fl_cuda_open_with(c, d, 0, &fake_libraries);
}

static void close_fake(flame_context *c, fl_device *d) {
  if (d->table) d->table->close(d);
  CHECK(fake_leaks() == 0 && fake.bytes == 0);
  CHECK(c->mem.live_bytes == 0 && c->mem.live_blocks == 0);
}
#endif
