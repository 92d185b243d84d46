/*
** A profile: the steps that ran on the devices while it was on. Owned by the engine; one at a time.
** The binding reads it.
*/
#ifndef FL_ENGINE_PROFILE_H
#define FL_ENGINE_PROFILE_H
#include "device/trace.h"
#include "engine/engine.h"

/* Kinds of events: steps on a device, and kinds of work of the host, which may be nested. */
typedef enum fl_profile_kind {
  FL_EVENT_OP, FL_EVENT_PLAN, FL_EVENT_COMPILE, FL_EVENT_RUN, FL_EVENT_UPLOAD, FL_EVENT_DOWNLOAD,
  FL_EVENT_WAIT, FL_EVENT_REGION, FL_EVENT_KINDS
} fl_profile_kind;

typedef struct fl_profile_event {
  char op[72];                   /* "mul+add+relu", "matmul", "sort"; or the kind's name */
  char shape[72];                /* "(32, 16) f32" of a kept result, "32x8 . 8x16 f32" of a product,
                                 ** "(32, 16)" of the points of a kernel; "": not known */
  uint32_t site;                 /* line that recorded what it computes; 0: unknown */
  uint8_t kind, device, dtype, replayed;
  int32_t calls;                 /* instances in the one launch */
  int64_t bytes, flops;          /* flops: 0 if unknown */
  fl_timing at;                  /* start in milliseconds since the profile began */
} fl_profile_event;

/* A plan whose runs are not all graphs: what is said of it (plan.h), and its launches. */
typedef struct fl_profile_why {
  int64_t serial, launches;
  uint32_t site;
  char text[160];                /* "": its runs are graphs when no profile is on */
} fl_profile_why;

typedef struct fl_profile {
  fl_trace trace;                /* must be first: a device knows this part */
  flame_context *ctx;
  const fl_program *program;     /* that runs now */
  fl_device_table table[FL_MAX_DEVICES];    /* the device's functions, with profiling around them */
  const fl_device_table *inner[FL_MAX_DEVICES];  /* the device's original table; NULL: not opened */
  double origin;
  int64_t lost;                  /* events for which there was no memory */
  struct { fl_profile_event *at; int64_t n, cap; } events;
  struct { fl_profile_why *at; int64_t n, cap; } whys;
} fl_profile;

/* Writes the name of a step: the ops in it. */
void fl_step_name(const fl_step *s, char *out, size_t size);
/* A value that step i computes: a kept one if it completes any; if none is known, the program's
** last one. */
const fl_node *fl_step_value(const fl_program *g, const fl_plan *p, int32_t i);
/* The device was lost in step i: names its op, line and shape as the cause. */
void fl_step_blame(flame_context *c, const fl_program *g, const fl_plan *p, int32_t i);

/* ---- FLAME_DEBUG: output to stderr that the user asked for ---- */
void fl_debug_window(flame_context *c, const fl_program *g);                  /* from level 5 on */
void fl_debug_plan(flame_context *c, const fl_plan *p);                       /* from 1 on */
void fl_debug_run(flame_context *c, int64_t ops, const fl_plan *p, double ms);  /* from 2 on */

/* For a device that is opened while the profile is on: its calls are recorded too. (spans.c) */
void fl_profile_attach(fl_profile *f, fl_device *d);
void fl_profile_detach(fl_profile *f, fl_device *d);
/* For a device that is opened: if an NVIDIA tool is connected, the host's work for the device is
** shown there as ranges. (spans.c) */
void fl_ranges_attach(fl_engine *e, fl_device *d);
void fl_ranges_free(flame_context *c);
/* Records a part of the script, which the script named, since 'start'. */
void fl_profile_region(fl_profile *f, const char *name, double start);
/* Records work of the host since 'start'. */
void fl_profile_span(fl_profile *f, fl_profile_kind kind, int device, double start, int64_t bytes);

/* Begins a profile; 0: one is on already, or a rehearsal (dry.h), or no memory. */
int fl_profile_start(flame_context *c);
/* Ends the profile: devices record nothing more. The events remain until fl_profile_free. */
void fl_profile_stop(flame_context *c);
void fl_profile_free(flame_context *c);
#endif
