/* The functions of flame.h for devices, waiting and memory. */
#include "engine/flight.h"
#include "engine/memory.h"
#include <stddef.h>
#include <string.h>

const char *flame_device_of(const flame_tensor *x) {
  static const char names[FL_MAX_DEVICES][8] = {
    "cpu", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7",
    "cuda:8", "cuda:9", "cuda:10", "cuda:11", "cuda:12", "cuda:13", "cuda:14", "cuda:15" };
  return x && x->node ? names[x->node->device] : "";
}

int flame_device_count(flame_context *c) {
  FL_HOLD(c, 0);
  return fl_cuda_count(NULL, 0);
}

flame_status flame_synchronize(flame_context *c) {
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  fl_engine *g = c->engine;
  FL_ENTER(c);
  flame_status e = c->up->evaluate_all(c);
  if (e == FLAME_OK) e = fl_flight_tell(c);
  for (int i = 0; e == FLAME_OK && i < FL_MAX_DEVICES; i++) {
    fl_fault fault = { .site = -1 };
    if (g->open[i]) e = g->device[i].table->sync(&g->device[i], &fault);
  }
  FL_LEAVE(c);
  return e;
}

flame_status flame_memory(flame_context *c, const char *device, flame_memory_use *to) {
  FL_HOLD(c, FLAME_BAD_ARGUMENT);
  fl_usage u;
  const int d = device ? fl_device_index(c, device) : c->default_device;
  if (d < 0) return c->err.code;
  if (!to || to->size < offsetof(flame_memory_use, tensors) + sizeof to->tensors)
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "memory", "the result has size %zu" FL_DO
                   "; write flame_memory_use m = { .size = sizeof m }", to ? to->size : 0);
  fl_engine_usage(c, d, &u);
  const flame_memory_use all = {
    .size = to->size, .tensors = c->tensors_of[d].now, .tensors_peak = c->tensors_of[d].peak,
    .used = u.used.now, .used_peak = u.used.peak, .reserved = u.reserved.now,
    .reserved_peak = u.reserved.peak, .available = u.free, .host = c->mem.live_bytes,
    .host_peak = c->mem.peak_bytes };
  memcpy(to, &all, to->size < sizeof all ? to->size : sizeof all);
  return FLAME_OK;
}

void flame_empty_cache(flame_context *c) {
  FL_HOLD(c, );
  fl_engine *g = c->engine;
  for (int i = 0; i < FL_MAX_DEVICES; i++) {
    fl_engine_drop_arena(c, i);
    if (g->open[i]) g->device[i].table->trim(&g->device[i]);
  }
}
