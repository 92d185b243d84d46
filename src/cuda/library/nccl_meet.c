/*
** How the communicator is opened (nccl.h): ranks exchange what they have, and if NCCL can be used
** rank 0 makes a unique id, all receive it, and the library connects.
*/
#include "cuda/library/nccl_meet.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WATCH_EVERY = 64, SPINS = 4000 };

typedef struct { int64_t status; fl_nccl_id id; } invitation;

/* ---- waiting for the library ---- */

static int failed(fl_cuda *s, fl_turn *t, fl_nccl_status r, const char *name) {
  const fl_nccl *q = s->nccl;
  char word[FL_CALL_FAULT];
  const char *last = q->comm && r != FL_NCCL_REMOTE ? q->lib->ncclGetLastError(q->comm) : "";
  snprintf(t->fault, FL_CALL_FAULT, "NCCL: %s said '%.60s'%s%.120s", name,
           q->lib->ncclGetErrorString(r), last && *last ? ": " : "", last ? last : "");
  snprintf(word, sizeof word, "rank %d gave up: %.240s", t->g->launch.rank + 1, t->fault);
  fl_group_break(t->g, t->fault, word);
  return 0;
}

int fl_nccl_poll(fl_cuda *s, fl_turn *t, fl_nccl_status r, const char *name) {
  const fl_nccl *q = s->nccl;
  const double start = fl_group_now();
  for (int64_t looks = 1; r == FL_NCCL_IN_PROGRESS; looks++) {
    if (q->lib->ncclCommGetAsyncError(q->comm, &r) != FL_NCCL_OK) r = FL_NCCL_CUDA;
    if (r != FL_NCCL_IN_PROGRESS) break;
    if (fl_take_interrupt(s->ctx)) {
      fl_group_interrupted(t->g);
      t->fault[0] = 0;
      return 0;
    }
    if (looks % WATCH_EVERY == 0 && !fl_group_watch(t, start)) return 0;
    if (looks < SPINS) sched_yield();
    else fl_group_rest();
  }
  return r == FL_NCCL_OK ? 1 : failed(s, t, r, name);
}

/* ---- what ranks have ---- */

/* Identifies this host until it is restarted. */
static void host_of(char *out, size_t bytes) {
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
  out[0] = 0;
  if (f && fgets(out, (int)bytes, f)) out[strcspn(out, "\n")] = 0;
  else gethostname(out, bytes);
  out[bytes - 1] = 0;
  if (f) fclose(f);
}

static void own_card(fl_cuda *s, fl_card *c) {
  fl_nccl *q = s->nccl;
  const char *why = "";
  char host[64], bus[20] = "";
  int version = 0;
  *c = (fl_card){ .form = (int64_t)sizeof *c };
  if (s->lib->nccl) q->lib = s->lib->nccl(&why);
  if (q->lib && q->lib->ncclGetVersion(&version) != FL_NCCL_OK) {
    q->lib = NULL;
    why = "libnccl.so.2 does not tell its version";
  }
  host_of(host, sizeof host);
  s->cu->DeviceGetPCIBusId(bus, (int)sizeof bus, s->device);
  snprintf(c->id, sizeof c->id, "%s %s", host, bus);
  snprintf(c->why, sizeof c->why, "%s", why);
  fl_error_plain(c->why);
  c->can = q->lib ? version : 0;
}

static void version_text(char out[24], int64_t v) {
  snprintf(out, 24, "%d.%d.%d", (int)(v / 10000 % 100), (int)(v / 100 % 100), (int)(v % 100));
}

/* Writes to 'why' that ranks have NCCL of different versions, which can not work together. */
static void differ(char *why, size_t bytes, int rank, int64_t first, int64_t other) {
  char a[24], b[24];
  version_text(a, first);
  version_text(b, other);
  snprintf(why, bytes, "rank 1 has NCCL %s and rank %d NCCL %s (install the same)", a, rank + 1, b);
}

/* Can NCCL be used with these cards? If not, 'why' gives the reason. */
static int judge(const fl_card *c, int n, char *why, size_t bytes) {
  for (int r = 0; r < n; r++) {
    if (c[r].form != (int64_t)sizeof *c) {
      snprintf(why, bytes, "rank %d runs another version of flame", r + 1);
      return 0;
    }
    if (!c[r].can) {
      snprintf(why, bytes, "rank %d: %.*s", r + 1, (int)sizeof c[r].why - 1, c[r].why);
      return 0;
    }
    if (c[r].can != c[0].can) {
      differ(why, bytes, r, c[0].can, c[r].can);
      return 0;
    }
    for (int k = 0; k < r; k++) {
      if (memcmp(c[k].id, c[r].id, sizeof c[k].id) != 0) continue;
      snprintf(why, bytes, "ranks %d and %d have the same GPU", k + 1, r + 1);
      return 0;
    }
  }
  return 1;
}

static void note(fl_group *g, int serves, int64_t version, const char *why) {
  g->slow = (uint8_t)!serves;
  char text[24];
  version_text(text, version);
  if (serves) snprintf(g->over, sizeof g->over, "NCCL %s", text);
  else snprintf(g->over, sizeof g->over, "arrays of GPUs go over the host: %s", why);
}

/* ---- the communicator ---- */

static flame_status make_objects(fl_cuda *s, fl_nccl *q) {
  const fl_driver *cu = s->cu;
  fl_cu_result r = cu->StreamCreate(&q->lane, FL_CU_STREAM_NON_BLOCKING);
  if (r == FL_CU_OK) r = cu->EventCreate(&q->fork, FL_CU_EVENT_DISABLE_TIMING);
  for (int i = 0; i < FL_NCCL_SLOTS && r == FL_CU_OK; i++) {
    r = cu->EventCreate(&q->slot[i].begun, 0);
    if (r == FL_CU_OK) r = cu->EventCreate(&q->slot[i].ended, 0);
    if (r == FL_CU_OK) r = cu->EventCreate(&q->slot[i].joined, 0);
  }
  return fl_cuda_check(s, r, "cuEventCreate");
}

static int connect(fl_cuda *s, fl_turn *t) {
  fl_nccl *q = s->nccl;
  const fl_launch *l = &t->g->launch;
  invitation v = { .status = FL_NCCL_OK };
  if (l->rank == 0) v.status = q->lib->ncclGetUniqueId(&v.id);
  if (!fl_group_first_record(t, &v, sizeof v)) return 0;
  if (v.status != FL_NCCL_OK)
    return failed(s, t, (fl_nccl_status)v.status, "ncclGetUniqueId of rank 1");
  fl_nccl_config how = {
    .size = sizeof how, .magic = FL_NCCL_MAGIC, .version = FL_NCCL_VERSION, .blocking = 0,
    .cluster = FL_NCCL_UNSET, .least = FL_NCCL_UNSET, .most = FL_NCCL_UNSET,
    .split = FL_NCCL_UNSET, .spare = FL_NCCL_UNSET
  };
  const fl_nccl_status r = q->lib->ncclCommInitRankConfig(&q->comm, l->size, v.id, l->rank, &how);
  return fl_nccl_poll(s, t, r, "ncclCommInitRankConfig");
}

int fl_nccl_meet(fl_cuda *s, fl_turn *t) {
  fl_nccl *q = s->nccl;
  fl_group *g = t->g;
  const int n = g->launch.size, me = g->launch.rank;
  char why[200] = "", word[FL_CALL_FAULT];
  fl_card *all = fl_zalloc(s->mem, sizeof *all * (size_t)n);
  int ok = all != NULL;
  if (ok) own_card(s, &all[me]);
  if (ok) ok = fl_group_gather_records(t, all, sizeof *all);
  if (ok) {
    q->serves = (uint8_t)judge(all, n, why, sizeof why);
    note(g, q->serves, all[me].can, why);
    q->decided = 1;
  }
  if (ok && q->serves && make_objects(s, q) != FLAME_OK) {
    snprintf(t->fault, FL_CALL_FAULT, "%.300s", s->ctx->err.message);
    snprintf(word, sizeof word, "rank %d gave up: %.240s", me + 1, t->fault);
    fl_group_break(g, t->fault, word);
    ok = 0;
  }
  fl_free(s->mem, all, sizeof *all * (size_t)n);
  return ok && (!q->serves || connect(s, t));
}
