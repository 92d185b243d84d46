/*
** The host's work for a device while a profile is on: compiling, runs, copies, waits. The device
** gets a table whose functions time the original ones; without a profile it has the original table,
** at no cost. If an NVIDIA tool is connected (base/nvtx.h), another such table shows this work
** there as ranges, as long as the device is open.
*/
#include "engine/profile.h"
#include "base/nvtx.h"
#include <stdio.h>

static fl_profile *profile_of(const fl_device *d) {
  return ((const fl_engine *)d->ctx->engine)->profile;
}

static flame_status prepare(fl_device *d, fl_plan *p) {
  const double start = fl_trace_now();
  const flame_status e = profile_of(d)->inner[d->index]->prepare(d, p);
  fl_profile_span(profile_of(d), FL_EVENT_COMPILE, d->index, start, 0);
  return e;
}

static flame_status ready(fl_device *d, struct fl_kfunction *const *k, int n) {
  const double start = fl_trace_now();
  const flame_status e = profile_of(d)->inner[d->index]->ready(d, k, n);
  fl_profile_span(profile_of(d), FL_EVENT_COMPILE, d->index, start, 0);
  return e;
}

static flame_status run(fl_device *d, fl_plan *p, const fl_binding *b, fl_fault *fault,
                        int32_t *done) {
  const double start = fl_trace_now();
  const flame_status e = profile_of(d)->inner[d->index]->run(d, p, b, fault, done);
  fl_profile_span(profile_of(d), FL_EVENT_RUN, d->index, start, 0);
  return e;
}

static flame_status upload(fl_device *d, void *dst, const void *src, int64_t bytes) {
  const double start = fl_trace_now();
  const flame_status e = profile_of(d)->inner[d->index]->upload(d, dst, src, bytes);
  fl_profile_span(profile_of(d), FL_EVENT_UPLOAD, d->index, start, bytes);
  return e;
}

static flame_status download(fl_device *d, void *dst, const void *src, int64_t bytes) {
  const double start = fl_trace_now();
  const flame_status e = profile_of(d)->inner[d->index]->download(d, dst, src, bytes);
  fl_profile_span(profile_of(d), FL_EVENT_DOWNLOAD, d->index, start, bytes);
  return e;
}

static flame_status sync(fl_device *d, fl_fault *fault) {
  const double start = fl_trace_now();
  const flame_status e = profile_of(d)->inner[d->index]->sync(d, fault);
  fl_profile_span(profile_of(d), FL_EVENT_WAIT, d->index, start, 0);
  return e;
}

void fl_profile_attach(fl_profile *f, fl_device *d) {
  fl_device_table *t = &f->table[d->index];
  f->inner[d->index] = d->table;
  *t = *d->table;
  t->prepare = prepare;
  t->ready = ready;
  t->run = run;
  t->upload = upload;
  t->download = download;
  t->sync = sync;
  d->table = t;
  d->trace = &f->trace;
}

void fl_profile_detach(fl_profile *f, fl_device *d) {
  if (f->inner[d->index] == NULL) return;
  d->table = f->inner[d->index];
  f->inner[d->index] = NULL;
  d->trace = NULL;
}

/* ---- ranges ---- */

struct fl_ranges {
  fl_device_table table[2];                      /* of the CPU and of GPUs */
  const fl_device_table *inner[2];
};

static const fl_device_table *inner_of(const fl_device *d) {
  return ((const fl_engine *)d->ctx->engine)->ranges->inner[d->index > 0];
}

static flame_status range_prepare(fl_device *d, fl_plan *p) {
  fl_nvtx_push("flame: compile");
  const flame_status e = inner_of(d)->prepare(d, p);
  fl_nvtx_pop();
  return e;
}

/* The range is named by the line that recorded the run's last value, and by its device. */
static flame_status range_run(fl_device *d, fl_plan *p, const fl_binding *b, fl_fault *fault,
                              int32_t *done) {
  const fl_program *g = ((const fl_engine *)d->ctx->engine)->now;
  char place[96] = "", device[96], name[256];
  if (g && g->nodes.n && p->nstep && d->ctx->up && d->ctx->up->place)
    d->ctx->up->place(d->ctx, fl_step_value(g, p, p->nstep - 1)->site, place);
  fl_device_name(d->index, device);
  snprintf(name, sizeof name, "flame: run%s%s, %d steps on %s", place[0] ? " to " : "", place,
           (int)p->nstep, device);
  fl_nvtx_push(name);
  const flame_status e = inner_of(d)->run(d, p, b, fault, done);
  fl_nvtx_pop();
  return e;
}

static flame_status range_upload(fl_device *d, void *dst, const void *src, int64_t bytes) {
  fl_nvtx_push("flame: upload");
  const flame_status e = inner_of(d)->upload(d, dst, src, bytes);
  fl_nvtx_pop();
  return e;
}

static flame_status range_download(fl_device *d, void *dst, const void *src, int64_t bytes) {
  fl_nvtx_push("flame: download");
  const flame_status e = inner_of(d)->download(d, dst, src, bytes);
  fl_nvtx_pop();
  return e;
}

static flame_status range_sync(fl_device *d, fl_fault *fault) {
  fl_nvtx_push("flame: wait");
  const flame_status e = inner_of(d)->sync(d, fault);
  fl_nvtx_pop();
  return e;
}

void fl_ranges_attach(fl_engine *e, fl_device *d) {
  const int k = d->index > 0;
  if (!fl_nvtx_on()) return;
  if (e->ranges == NULL) e->ranges = fl_zalloc(&d->ctx->mem, sizeof *e->ranges);
  if (e->ranges == NULL) return;                 /* no memory: no ranges */
  fl_device_table *t = &e->ranges->table[k];
  e->ranges->inner[k] = d->table;
  *t = *d->table;
  t->prepare = range_prepare;
  t->run = range_run;
  t->upload = range_upload;
  t->download = range_download;
  t->sync = range_sync;
  d->table = t;
}

void fl_ranges_free(flame_context *c) {
  fl_engine *e = c->engine;
  if (e->ranges) fl_free(&c->mem, e->ranges, sizeof *e->ranges);
  e->ranges = NULL;
}
