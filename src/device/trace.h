/*
** What a device reports while a profile is on: each step of a run, with the time it took on the
** device. Without a profile fl_device.trace is NULL, and costs a run one comparison. CUDA measures
** between two events of the stream and waits at the end of each run.
*/
#ifndef FL_DEVICE_TRACE_H
#define FL_DEVICE_TRACE_H
#include <stdint.h>
#include <time.h>

struct fl_device;
struct fl_plan;

/* The times of a step, in milliseconds; starts are read from the clock of fl_trace_now. On a device
** that computes while the host waits, host == start and host_ms == ms. */
typedef struct fl_timing {
  double start, ms;              /* on the device */
  double host, host_ms;          /* when the host began to queue the step; how long that took */
  int replayed;                  /* 1: without a profile the step's plan is run as CUDA graphs */
} fl_timing;

typedef struct fl_trace {
  void (*step)(struct fl_trace *t, struct fl_device *d, const struct fl_plan *p, int32_t i,
               const fl_timing *w);
} fl_trace;

static inline double fl_trace_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
#endif
