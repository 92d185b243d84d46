/*
** A profile: what ran on the devices while it was on, step by step. Owned by the engine; one
** at a time. Reading it out is the binding's.
*/
#ifndef FL_ENGINE_PROFILE_H
#define FL_ENGINE_PROFILE_H
#include "device/trace.h"
#include "engine/engine.h"

/* A step on a device, or what the host did: these nest. */
typedef enum fl_profile_kind {
  FL_EVENT_OP, FL_EVENT_PLAN, FL_EVENT_COMPILE, FL_EVENT_RUN, FL_EVENT_UPLOAD, FL_EVENT_DOWNLOAD,
  FL_EVENT_WAIT, FL_EVENT_REGION, FL_EVENT_KINDS
} fl_profile_kind;

typedef struct fl_profile_event {
  char op[72];                   /* "mul+add+relu", "matmul", "sort"; else the kind's name */
  char shape[72];                /* "(32, 16) f32" of the result, or "32x8 . 8x16 f32"; "" */
  uint32_t site;                 /* the line that recorded what it computes, 0: unknown */
  uint8_t kind, device, dtype, replayed;
  int32_t calls;                 /* instances in the one launch */
  int64_t bytes, flops;          /* flops: 0 where they are not known */
  fl_timing at;                  /* starts: milliseconds since the profile began */
} fl_profile_event;

typedef struct fl_profile {
  fl_trace trace;                /* first: a device knows this part */
  flame_context *ctx;
  const fl_program *program;     /* that runs now */
  fl_device_table table[FL_MAX_DEVICES];          /* the device's, with notes of its calls */
  const fl_device_table *inner[FL_MAX_DEVICES];   /* the device's own; NULL: not opened */
  double origin;
  int64_t lost;                  /* events for which there was no memory */
  struct { fl_profile_event *at; int64_t n, cap; } events;
} fl_profile;

/* Name of a step: the ops in it. */
void fl_step_name(const fl_step *s, char *out, size_t size);
/* What step i computes, a value that is kept if it makes one. */
const fl_node *fl_step_value(const fl_program *g, const fl_plan *p, int32_t i);
/* The device was lost in step i, which was waited for: the cause names its op, line and shape. */
void fl_step_blame(flame_context *c, const fl_program *g, const fl_plan *p, int32_t i);

/* ---- FLAME_DEBUG: to stderr, asked for by the user ---- */
void fl_debug_window(flame_context *c, const fl_program *g);                  /* from level 5 on */
void fl_debug_run(flame_context *c, int64_t ops, const fl_plan *p, double ms);  /* from 2 on */

/* A device is opened while it is on: its calls are noted too. (spans.c) */
void fl_profile_attach(fl_profile *f, fl_device *d);
void fl_profile_detach(fl_profile *f, fl_device *d);
/* A device is opened: where a tool listens, what the host does for it makes ranges. (spans.c) */
void fl_ranges_attach(fl_engine *e, fl_device *d);
void fl_ranges_free(flame_context *c);
/* A part of the script that it names, since 'start'. */
void fl_profile_region(fl_profile *f, const char *name, double start);
/* What the host did since 'start'. */
void fl_profile_span(fl_profile *f, fl_profile_kind kind, int device, double start, int64_t bytes);

/* Begin; 0: one is on already, or no memory. */
int fl_profile_start(flame_context *c);
/* End: devices tell nothing any more. The events stay until fl_profile_free. */
void fl_profile_stop(flame_context *c);
void fl_profile_free(flame_context *c);
#endif
