/*
** Contexts and their devices: opening, closing, names, and memory with the policy of
** docs/design.md 1.11 (out of memory: collect twice, trim, retry once, then an error with the bytes
** asked for, free and live).
*/
#include "engine/engine.h"
#include "base/env.h"
#include "engine/evaluate.h"
#include "engine/flight.h"
#include "engine/memory.h"
#include "group/group.h"
#include "kernel/ad/ad.h"
#include "kernel/lanes/lane.h"
#include "engine/dry.h"
#include "engine/profile.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_BUDGET = 32768, PLANS_SHARE = 8 };      /* limited memory: an eighth is for plans */

/* ---- devices --------------------------------------------------------------------------------- */

void fl_device_name(int index, char buf[16]) {
  if (index == 0) { memcpy(buf, "cpu", 4); return; }
  const int n = index - 1;
  memcpy(buf, "cuda:", 5);
  if (n > 9) { buf[5] = (char)('0' + n / 10); buf[6] = (char)('0' + n % 10); buf[7] = 0; }
  else { buf[5] = (char)('0' + n); buf[6] = 0; }
}

static int named_device(flame_context *c, const char *name) {
  if (!strcmp(name, "cpu")) return 0;
  if (!strcmp(name, "cuda")) return c->sim ? 0 : 1;
  if (!strncmp(name, "cuda:", 5) && name[5] >= '0' && name[5] <= '9') {
    char *end;
    const long n = strtol(name + 5, &end, 10);
    if (*end == 0 && n < FL_MAX_DEVICES - 1) return c->sim ? 0 : (int)n + 1;
  }
  FL_FAIL(c, FLAME_BAD_ARGUMENT, "device",
          "\"%.40s\" is no device; there are \"cpu\", \"cuda\" and \"cuda:0\" to \"cuda:%d\"", name,
          FL_MAX_DEVICES - 2);
  return -1;
}

int fl_device_index(flame_context *c, const char *name) {
  const int d = named_device(c, name);
  return d < 0 || d == c->default_device || fl_may(c, FLAME_DEVICES, "device") ? d : -1;
}

/* Notes about a hundredth of a GPU's free memory: so many bytes may be held before a full
** collection is due (collect.c). With a higher limit so many dead values would be held that results
** would always be put in new memory. */
static void note_room(fl_engine *e, fl_device *d) {
  fl_usage u;
  d->table->memory(d, &u);
  if (u.free / 128 > e->roomy) e->roomy = u.free / 128;
}

fl_device *fl_engine_device(flame_context *c, int index) {
  fl_engine *e = c->engine;
  fl_device *d = &e->device[index];
  if (e->open[index]) return d;
  d->ctx = c;
  d->index = index;
  const flame_status s = index == 0 ? fl_cpu_open(c, d, e->threads) : fl_cuda_open(c, d, index - 1);
  if (s != FLAME_OK) return NULL;
  fl_ranges_attach(e, d);
  fl_dry_attach(e, d);
  if (e->profile) fl_profile_attach(e->profile, d);
  e->open[index] = 1;
  if (index > 0) note_room(e, d);
  return d;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *device_alloc(flame_context *c, int device, int64_t bytes) {
  fl_device *d = fl_engine_device(c, device);
  if (!d) return NULL;
  void *at = ((const fl_engine *)c->engine)->place;
  void *p = at && d->table->alloc_at ? d->table->alloc_at(d, at, bytes) : d->table->alloc(d, bytes);
  if (p || fl_is_lost(c, device)) return p;
  fl_engine_collect(c);
  fl_engine_drop_arena(c, device);
  d->table->trim(d);
  p = d->table->alloc(d, bytes);
  if (!p) fl_engine_no_memory(c, device, bytes, "its value");
  return p;
}

static void device_free(flame_context *c, int device, void *p, int64_t bytes) {
  fl_engine *e = c->engine;
  fl_device *d = &e->device[device];
  if (e->open[device]) d->table->free(d, p, bytes);
}

static flame_status upload(flame_context *c, int device, void *dst, const void *src,
                           int64_t bytes) {
  fl_device *d = fl_engine_device(c, device);
  return d ? d->table->upload(d, dst, src, bytes) : c->err.code;
}

static flame_status download(flame_context *c, int device, void *dst, const void *src,
                             int64_t bytes) {
  fl_device *d = fl_engine_device(c, device);
  return d ? d->table->download(d, dst, src, bytes) : c->err.code;
}

void fl_engine_spare(flame_context *c) {
  fl_engine *e = c->engine;
  if (c->evaluating || !e || !e->open[0]) return;
  fl_engine_drop_arena(c, 0);
  e->device[0].table->trim(&e->device[0]);
}

static fl_device *host(flame_context *c) { return fl_engine_device(c, 0); }

void fl_engine_drop_arena(flame_context *c, int device) {
  fl_engine *e = c->engine;
  fl_device *d = &e->device[device];
  if (c->evaluating || !e->arena[device]) return;
  d->table->free(d, e->arena[device], e->arena_bytes[device]);
  e->arena[device] = NULL;
  e->arena_bytes[device] = 0;
}

void fl_engine_drop_spare(flame_context *c) {
  fl_engine *e = c->engine;
  fl_program_free(&e->spare);
  memset(&e->spare, 0, sizeof e->spare);
  fl_free(&c->mem, e->block, e->block_bytes);
  e->block = NULL;
}

void *fl_engine_arena(flame_context *c, int device, int64_t bytes) {
  fl_engine *e = c->engine;
  fl_device *d = &e->device[device];
  if (bytes <= e->arena_bytes[device]) return e->arena[device];
  if (e->arena[device]) d->table->free(d, e->arena[device], e->arena_bytes[device]);
  e->arena[device] = d->table->alloc(d, bytes);
  e->arena_bytes[device] = e->arena[device] ? bytes : 0;
  return e->arena[device];
}

/* ---- contexts -------------------------------------------------------------------------------- */

static const fl_upcalls calls = {
  .evaluate = fl_evaluate, .evaluate_all = fl_evaluate_all, .anomaly = fl_anomaly_check,
  .collect = fl_engine_collect,
  .device_alloc = device_alloc,
  .device_free = device_free, .upload = upload, .download = download, .host = host,
  .no_memory = fl_engine_no_memory, .suspects = fl_suspects_tell,
};

static void gone(flame_context *c) { free(c); }

/* Refuses a misspelt switch, which would have no effect. */
static flame_status check_environment(flame_context *c) {
  char why[300];
  for (int k = 0; k < FL_ENV_COUNT; k++)
    if (fl_env_refuse(k, why, sizeof why)) return FL_FAIL(c, FLAME_BAD_ARGUMENT, "open", "%s", why);
  return FLAME_OK;
}

static unsigned checks_of_environment(const flame_context *c) {
  static const struct { const char *word; unsigned check; } known[] = {
    { "bounds", FL_LANE_BOUNDS }, { "race", FL_LANE_RACE }, { "uninit", FL_LANE_UNINIT } };
  unsigned checks = 0;
  for (int i = 0; i < 3; i++)
    if (c->sim || fl_env_lists(FL_ENV_FLAME_CHECK, known[i].word)) checks |= known[i].check;
  return checks;
}

void fl_engine_debug(flame_context *c, int level) {
  ((fl_engine *)c->engine)->debug = level;
  c->show_texts = level >= 4;
}

void fl_engine_debug_cuda(flame_context *c, int on) {
  c->sync_each = on != 0;
  c->kernel_checks = (uint8_t)(checks_of_environment(c) | (on ? FL_LANE_BOUNDS : 0));
}

static void configure_checks(flame_context *c) {
  fl_engine_debug_cuda(c, fl_env_int(FL_ENV_DEBUG_CUDA) ||
                          fl_env_lists(FL_ENV_FLAME_CHECK, "sync"));
  c->scan = (uint8_t)fl_env_lists(FL_ENV_FLAME_CHECK, "nan");
}

/* The caller's options as this version's struct: fields that an older, shorter one lacks are 0, and
** those that only a newer, longer one has must be 0. */
static flame_status read_options(flame_context *c, const flame_options *from, flame_options *o) {
  *o = (flame_options){ .size = sizeof *o };
  if (!from) return FLAME_OK;
  if (from->size < offsetof(flame_options, limit))
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "open", "the options have size %zu" FL_DO
                   "; write FLAME_OPTIONS(.device = \"cpu\")", from->size);
  if (!fl_copy_known(o, sizeof *o, from, from->size))
    return FL_FAIL(c, FLAME_BAD_ARGUMENT, "open", "the options are of a later version than %s, "
                   "and have settings that it does not know", FLAME_VERSION);
  for (int k = 0; k < FLAME_LIMITS; k++)
    if (o->limit[k] < 0 || (k > FLAME_OUTPUT_BYTES && o->limit[k]))
      return FL_FAIL(c, FLAME_BAD_ARGUMENT, "open", "limit %d is %lld, need %s", k,
                     (long long)o->limit[k],
                     k > FLAME_OUTPUT_BYTES ? "0: there is no such limit" : "0 (none) or more");
  if (!(o->allow & ~(uint32_t)FLAME_LIBRARIES)) return FLAME_OK;
  return FL_FAIL(c, FLAME_BAD_ARGUMENT, "open", "allow is %#x, need 0 or FLAME_LIBRARIES",
                 (unsigned)o->allow);
}

/* A limit that can not be set must not be ignored: the context's devices are made unusable. */
static flame_status refuse(flame_context *c) {
  c->dead = (UINT32_C(1) << FL_MAX_DEVICES) - 1;
  for (int d = 0; d < FL_MAX_DEVICES; d++) c->lost[d] = c->err;
  return c->err.code;
}

static flame_status configure(flame_context *c, const flame_options *given) {
  fl_engine *e = c->engine;
  flame_options o;
  if (read_options(c, given, &o) != FLAME_OK) return refuse(c);
  if (!fl_limits_open(c, &o)) return FLAME_NO_MEMORY;
  const char *device = o.device ? o.device : fl_env(FL_ENV_FLAME_DEVICE);
  e->threads = o.threads;
  if (c->mem.limit > 0 && c->mem.limit / PLANS_SHARE < e->plans.limit)
    e->plans.limit = c->mem.limit / PLANS_SHARE;
  c->budget = fl_env_int(FL_ENV_FLAME_BUDGET);
  if (c->budget <= 0) c->budget = DEFAULT_BUDGET;
  if (fl_env_int(FL_ENV_FLAME_EAGER)) c->budget = 1;
  c->sim = fl_env_int(FL_ENV_FLAME_SIM) != 0;
  c->gather_most = FL_KAD_GATHER_MOST;
  c->kernel_steps = fl_env_int(FL_ENV_FLAME_KERNEL_STEPS);
  if (check_environment(c) != FLAME_OK) return FLAME_BAD_ARGUMENT;
  configure_checks(c);
  fl_engine_debug(c, fl_env_int(FL_ENV_FLAME_DEBUG));
  c->grad_mode = 1;
  c->deterministic = 1;
  c->tf32 = fl_env_int(FL_ENV_FLAME_TF32) != 0;
  c->rng.seed = 0;
  if (!strcmp(device, "auto")) device = fl_cuda_count(NULL, 0) > 0 ? "cuda" : "cpu";
  const int index = named_device(c, device);
  if (index < 0) return FLAME_BAD_ARGUMENT;
  c->default_device = (uint8_t)index;
  return FLAME_OK;
}

flame_context *fl_open_inside(const flame_options *options, flame_context *outer) {
  flame_context *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  if (outer) {
    fl_mem_put_inside(&c->mem, &outer->mem);
    fl_mem_put_inside(&c->room, &outer->room);
  }
  c->up = &calls;
  if (!fl_tensor_init(c)) { free(c); return NULL; }
  c->engine = fl_zalloc(&c->mem, sizeof(fl_engine));
  fl_engine *e = c->engine;
  if (!e || !fl_plans_init(&e->plans, &c->mem) || configure(c, options) == FLAME_NO_MEMORY) {
    flame_close(c);
    return NULL;
  }
  return c;                      /* invalid options, or an invalid FLAME_DEVICE or other switch, are
                                 ** kept as the first error */
}

flame_context *flame_open(const flame_options *options) {
  flame_context *c = fl_open_inside(options, NULL);
  if (c) c->from_zero |= FL_FROM_ZERO_HOST;
  return c;
}

void flame_close(flame_context *c) {
  if (!fl_hold(c)) return;
  if (c->callbacks) {
    FL_FAIL(c, FLAME_BAD_ARGUMENT, "close", "a function of flame_apply is running in this context");
    fl_unhold(&c);
    return;
  }
  if (c->closing) {
    void (*closing)(flame_context *) = c->closing;
    c->closing = NULL;
    fl_unhold(&c);
    closing(c);
    return;
  }
  fl_engine *e = c->engine;
  fl_limits_close(c);
  if (c->drop_programs) c->drop_programs(c);
  if (e) fl_group_close(c);
  if (e) fl_flight_drop(c);
  if (e) fl_dry_free(c);                         /* it holds tensors */
  if (e) fl_plans_close(&e->plans);              /* they hold layouts */
  const int free_now = fl_tensor_close(c);
  if (e) {
    fl_profile_free(c);
    fl_engine_drop_spare(c);
    for (int i = FL_MAX_DEVICES - 1; i >= 0; i--) {
      if (!e->open[i]) continue;
      fl_engine_drop_arena(c, i);
      e->device[i].table->close(&e->device[i]);
      e->open[i] = 0;
    }
    fl_ranges_free(c);
    fl_engine_texts_close(c);
    fl_free(&c->mem, e, sizeof *e);
  }
  c->engine = NULL;
  c->gone = gone;
  if (free_now) free(c);
  else fl_unhold(&c);
}
