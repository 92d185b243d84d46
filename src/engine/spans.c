/*
** What the host does for a device while a profile is on: compiling, runs, copies, waits. The device
** is given a table whose functions note the time around its own; when none is on, it has its own,
** and nothing is asked.
*/
#include "engine/profile.h"

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
