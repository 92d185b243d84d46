/*
** A profile: what ran on the devices while it was on, step by step. Owned by the engine; one
** at a time. Reading it out is the binding's.
*/
#ifndef FL_ENGINE_PROFILE_H
#define FL_ENGINE_PROFILE_H
#include "device/trace.h"
#include "engine/engine.h"

typedef struct fl_profile_event {
  char op[72];                   /* "mul+add+relu", "matmul", "sort" */
  uint32_t site;                 /* the line that recorded what it computes, 0: unknown */
  uint8_t device;
  int32_t calls;                 /* instances in the one launch */
  int64_t bytes;
  double start, ms;              /* milliseconds since the profile began; on the device */
} fl_profile_event;

typedef struct fl_profile {
  fl_trace trace;                /* first: a device knows this part */
  flame_context *ctx;
  const fl_program *program;     /* that runs now */
  double origin;
  int64_t lost;                  /* events for which there was no memory */
  struct { fl_profile_event *at; int64_t n, cap; } events;
} fl_profile;

/* Name of a step: the ops in it. */
void fl_step_name(const fl_step *s, char *out, size_t size);
/* The device was lost in step i, which was waited for: the cause names its op, line and shape. */
void fl_step_blame(flame_context *c, const fl_program *g, const fl_plan *p, int32_t i);

/* ---- FLAME_DEBUG: to stderr, asked for by the user ---- */
void fl_debug_window(flame_context *c, const fl_program *g);                  /* from level 5 on */
void fl_debug_run(flame_context *c, int64_t ops, const fl_plan *p, double ms);  /* from 2 on */

/* Begin; 0: one is on already, or no memory. */
int fl_profile_start(flame_context *c);
/* End: devices tell nothing any more. The events stay until fl_profile_free. */
void fl_profile_stop(flame_context *c);
void fl_profile_free(flame_context *c);
#endif
