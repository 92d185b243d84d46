/* Collectives on the lane: see nccl.h. */
#include "cuda/library/nccl_meet.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- which way ---- */

static int is_pair(const fl_call *k) {
  const int64_t what = k->p[FL_COLLECT_WHAT];
  return what == FL_COLLECT_SEND || what == FL_COLLECT_RECEIVE;
}

static int reduces(const fl_call *k) {
  const int64_t what = k->p[FL_COLLECT_WHAT];
  return what == FL_COLLECT_ALL_REDUCE || what == FL_COLLECT_REDUCE_SCATTER;
}

/* The library's number of a dtype, -1: it has none. */
static int type_of(int dtype) {
  switch (dtype) {
    case FLAME_F64: return FL_NCCL_F64;
    case FLAME_F32: return FL_NCCL_F32;
    case FLAME_F16: return FL_NCCL_F16;
    case FLAME_BF16: return FL_NCCL_BF16;
    case FLAME_I64: return FL_NCCL_I64;
    case FLAME_I32: return FL_NCCL_I32;
    case FLAME_I8: return FL_NCCL_I8;
    case FLAME_U8: case FLAME_BOOL: return FL_NCCL_U8;
    default: return -1;
  }
}

/* Can the library do this collective? It is not asked for a maximum or minimum of floats: it
** ignores NaN, and ours do not. */
static int takes(const fl_call *k) {
  const int64_t reduce = k->p[FL_COLLECT_REDUCE];
  if (k->p[FL_COLLECT_WHAT] == FL_COLLECT_BARRIER) return 0;
  if (!reduces(k)) return 1;
  if (fl_is_float(k->dtype) && (reduce == FL_REDUCE_MAX || reduce == FL_REDUCE_MIN)) return 0;
  return type_of(k->dtype) >= 0;
}

static fl_lane lane_of(void *state, const fl_call *k) {
  const fl_cuda *s = state;
  const fl_nccl *q = s->nccl;
  if (!takes(k)) return FL_LANE_HOST;
  if (!q->decided) return is_pair(k) ? FL_LANE_HOST : FL_LANE_ASKS;
  return q->serves ? FL_LANE_GPU : FL_LANE_HOST;
}

/* ---- what is under way ---- */

/* Removes calls that have ended from the ring, and counts their times. */
static void harvest(fl_cuda *s, fl_nccl *q) {
  while (q->flying > q->pending) {
    fl_nccl_slot *x = &q->slot[q->oldest];
    float ms = 0;
    if (s->cu->EventQuery(x->ended) != FL_CU_OK) return;
    fl_group_stats *stats = q->g ? &q->g->stats : NULL;
    if (stats && s->cu->EventElapsed(&ms, x->begun, x->ended) == FL_CU_OK) stats->gpu += ms / 1e3;
    if (stats && x->waited && s->cu->EventElapsed(&ms, x->joined, x->ended) == FL_CU_OK && ms > 0)
      stats->bare += ms / 1e3;
    q->oldest = (q->oldest + 1) % FL_NCCL_SLOTS;
    q->flying--;
  }
  if (q->flying) return;
  q->spent = 0;
  s->watch = NULL;
}

/* Sets the context's error, at the script's line of the running collective: 'fault', the reason why
** the group of processes broke; or, if that is empty, that the user has interrupted. */
static flame_status told(fl_cuda *s, const char *what, uint32_t site, const char *fault) {
  if (s->dead) return fl_cuda_lost(s);
  if (!fault[0]) return fl_interrupted(s->ctx, "eval");
  if (s->ctx->err.code == FLAME_OK) s->ctx->err.site = site;
  return FL_FAIL(s->ctx, FLAME_BAD_VALUE, what, "%s", fault);
}

static flame_status watch(fl_cuda *s) {
  fl_nccl *q = s->nccl;
  char fault[FL_CALL_FAULT] = "";
  fl_nccl_status r = FL_NCCL_OK;
  harvest(s, q);
  if (!q->flying || !q->g) return FLAME_OK;
  fl_nccl_slot *x = &q->slot[q->oldest];
  const uint32_t site = x->site;
  const fl_header head = x->head;
  fl_turn t = { q->g, &x->head, fault };
  if (x->seen <= 0 && s->cu->EventQuery(x->begun) == FL_CU_OK) x->seen = fl_group_now();
  if (!q->comm) {                                    /* the group broke, but the device is usable */
    snprintf(fault, sizeof fault, "%.300s", q->g->broken);
    return told(s, head.what, site, fault);
  }
  if (q->lib->ncclCommGetAsyncError(q->comm, &r) != FL_NCCL_OK) r = FL_NCCL_CUDA;
  if (fl_nccl_poll(s, &t, r == FL_NCCL_IN_PROGRESS ? FL_NCCL_OK : r, "a collective") &&
      fl_group_watch(&t, x->seen)) return FLAME_OK;
  return told(s, head.what, site, fault);
}

/* ---- giving up and closing ---- */

/* Called when the group broke: aborts the communicator. The device is lost if results that can not
** be undone depend on a collective that is given up. */
static void give_up(void *state) {
  fl_cuda *s = state;
  fl_nccl *q = s->nccl;
  const fl_nccl_comm comm = q->comm;
  char cause[400];
  if (!comm || s->pid != getpid()) return;
  const int pushed = s->cu->CtxPush(s->context) == FL_CU_OK;
  q->comm = NULL;
  q->kept.n = 0;
  harvest(s, q);
  q->pending = 0;
  q->lib->ncclCommAbort(comm);
  if (s->cu->EventRecord(q->fork, q->lane) == FL_CU_OK)        /* kernels of the communicator may
                                                               ** still be ending */
    s->cu->StreamWaitEvent(s->stream, q->fork, 0);
  if (pushed) fl_cuda_leave(s);
  if (!q->flying || !q->spent) return;
  snprintf(cause, sizeof cause, "a collective was given up that its arrays rest on: %.240s",
           q->g->broken);
  fl_cuda_lose(s, cause);
}

/* Called when the group is closed, before its device is: finalises the communicator if all ranks
** end in order, else aborts it. */
static void end(void *state, int orderly) {
  fl_cuda *s = state;
  fl_nccl *q = s->nccl;
  char fault[FL_CALL_FAULT] = "";
  fl_turn t = { q->g, &q->first, fault };
  if (q->comm && orderly && !s->dead && fl_cuda_enter(s) == FLAME_OK) {
    if (fl_cuda_wait_all(s) == FLAME_OK && q->comm &&
        fl_nccl_poll(s, &t, q->lib->ncclCommFinalize(q->comm), "ncclCommFinalize")) {
      q->lib->ncclCommDestroy(q->comm);
      q->comm = NULL;
    }
    fl_cuda_leave(s);
  }
  give_up(s);
  q->g = NULL;
}

void fl_nccl_close(fl_cuda *s, int host_only) {
  fl_nccl *q = s->nccl;
  if (!q) return;
  if (q->g) q->g->gpu = (fl_group_gpu){ 0 };
  if (!host_only && q->comm) q->lib->ncclCommAbort(q->comm);
  for (int i = 0; i < FL_NCCL_SLOTS && !host_only; i++) {
    if (q->slot[i].begun) s->cu->EventDestroy(q->slot[i].begun);
    if (q->slot[i].ended) s->cu->EventDestroy(q->slot[i].ended);
    if (q->slot[i].joined) s->cu->EventDestroy(q->slot[i].joined);
  }
  if (!host_only && q->fork) s->cu->EventDestroy(q->fork);
  if (!host_only && q->lane) s->cu->StreamDestroy(q->lane);
  FL_DROP(s->mem, &q->kept);
  fl_free(s->mem, q, sizeof *q);
  s->nccl = NULL;
  s->watch = NULL;
}

fl_lane fl_nccl_lane(fl_cuda *s, const fl_call *k) {
  fl_group *g = s->ctx->group;
  if (!s->nccl && (!g->gpu.state || g->gpu.state == s)) {
    s->nccl = fl_zalloc(s->mem, sizeof *s->nccl);
    if (!s->nccl) return FL_LANE_HOST;
    s->nccl->g = g;
    g->gpu = (fl_group_gpu){ s, lane_of, give_up, end };
  }
  return s->nccl && s->nccl->g == g ? lane_of(s, k) : FL_LANE_HOST;
}

/* ---- queueing ---- */

/* Bytes that this rank sends of the arrays of a collective. */
static int64_t sent(const fl_call *k, int rank) {
  const int64_t n = k->p[FL_COLLECT_RANKS], size = fl_dtype_size(k->dtype);
  const int64_t bytes = k->p[FL_COLLECT_ARRAYS] ? k->in_numel[0] * size : 0;
  switch (k->p[FL_COLLECT_WHAT]) {
    case FL_COLLECT_ALL_REDUCE: return 2 * (bytes * (n - 1) / n);
    case FL_COLLECT_ALL_GATHER: return bytes * (n - 1);
    case FL_COLLECT_BROADCAST: return rank == k->p[FL_COLLECT_PEER] ? bytes * (n - 1) : 0;
    case FL_COLLECT_SEND: return bytes;
    default: return bytes * (n - 1) / n;
  }
}

static fl_nccl_kept *keep(fl_cuda *s, fl_nccl *q, const fl_call_run *r) {
  fl_nccl_kept *x = FL_PUSH(s->mem, &q->kept);
  if (x) *x = (fl_nccl_kept){ r->call, r->in[0], r->out, (uint32_t)r->scalar[0].i };
  return x;
}

static fl_nccl_status all_to_all(const fl_nccl *q, const fl_nccl_kept *x, int64_t bytes, int n) {
  fl_nccl_status r = FL_NCCL_OK;
  const size_t part = (size_t)(bytes / n);
  for (int k = 0; k < n && r == FL_NCCL_OK; k++) {
    r = q->lib->ncclSend((char *)x->in + part * (size_t)k, part, FL_NCCL_U8, k, q->comm, q->lane);
    if (r == FL_NCCL_OK)
      r = q->lib->ncclRecv((char *)x->out + part * (size_t)k, part, FL_NCCL_U8, k, q->comm,
                           q->lane);
  }
  return r;
}

/* Queues a collective. Those that only move data do it in bytes, for any dtype. */
static fl_nccl_status queue(const fl_nccl *q, const fl_nccl_kept *x, int n) {
  const fl_call *k = x->call;
  static const unsigned op_of[FL_REDUCE_COUNT] = { FL_NCCL_SUM, FL_NCCL_AVG, FL_NCCL_MAX,
                                                   FL_NCCL_MIN };
  const unsigned type = (unsigned)type_of(k->dtype), op = op_of[k->p[FL_COLLECT_REDUCE]];
  const int64_t bytes = k->numel * fl_dtype_size(k->dtype);
  const int peer = (int)k->p[FL_COLLECT_PEER];
  switch (k->p[FL_COLLECT_WHAT]) {
    case FL_COLLECT_ALL_REDUCE:
      return q->lib->ncclAllReduce(x->in, x->out, (size_t)k->numel, type, op, q->comm, q->lane);
    case FL_COLLECT_REDUCE_SCATTER:
      return q->lib->ncclReduceScatter(x->in, x->out, (size_t)k->numel, type, op, q->comm, q->lane);
    case FL_COLLECT_ALL_GATHER:
      return q->lib->ncclAllGather(x->in, x->out, (size_t)(bytes / n), FL_NCCL_U8, q->comm,
                                   q->lane);
    case FL_COLLECT_BROADCAST:
      return q->lib->ncclBroadcast(x->in, x->out, (size_t)bytes, FL_NCCL_U8, peer, q->comm,
                                   q->lane);
    case FL_COLLECT_ALL_TO_ALL: return all_to_all(q, x, bytes, n);
    case FL_COLLECT_SEND:
      return q->lib->ncclSend(x->in, (size_t)(k->in_numel[0] * fl_dtype_size(k->dtype)),
                              FL_NCCL_U8, peer, q->comm, q->lane);
    default: return q->lib->ncclRecv(x->out, (size_t)bytes, FL_NCCL_U8, peer, q->comm, q->lane);
  }
}

/* Queues all kept collectives in one group call of the library. */
static fl_nccl_status call(fl_nccl *q) {
  const int n = q->g->launch.size;
  fl_nccl_status r = q->lib->ncclGroupStart();
  if (r != FL_NCCL_OK) return r;
  for (int64_t i = 0; i < q->kept.n && r == FL_NCCL_OK; i++) {
    r = queue(q, &q->kept.at[i], n);
    if (r == FL_NCCL_IN_PROGRESS) r = FL_NCCL_OK;
  }
  const fl_nccl_status last = q->lib->ncclGroupEnd();
  return r == FL_NCCL_OK ? last : r;
}

static fl_nccl_slot *newest(fl_nccl *q) {
  return &q->slot[(q->oldest + q->flying + FL_NCCL_SLOTS - 1) % FL_NCCL_SLOTS];
}

/* Waits until NCCL has queued the newest call on the lane (NCCL's stream), then records the event
** of its end. */
static flame_status settle(fl_cuda *s, fl_turn *t) {
  fl_nccl *q = s->nccl;
  if (!q->pending) return FLAME_OK;
  const int ok = fl_nccl_poll(s, t, FL_NCCL_IN_PROGRESS, "ncclGroupEnd");
  q->pending = 0;
  if (!ok) return FLAME_OK;                                    /* t->fault */
  return fl_cuda_check(s, s->cu->EventRecord(newest(q)->ended, q->lane), "cuEventRecord");
}

static flame_status queue_kept(fl_cuda *s, fl_turn *t) {
  fl_nccl *q = s->nccl;
  flame_status e = settle(s, t);
  if (e != FLAME_OK || !q->comm) return e;
  harvest(s, q);
  if (q->flying == FL_NCCL_SLOTS) e = fl_cuda_wait(s, q->slot[q->oldest].ended);
  harvest(s, q);
  q->flying++;
  fl_nccl_slot *x = newest(q);
  q->flying--;
  if (e == FLAME_OK) e = fl_cuda_check(s, s->cu->EventRecord(q->fork, s->stream), "cuEventRecord");
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->StreamWaitEvent(q->lane, q->fork, 0), "cuStreamWaitEvent");
  if (e == FLAME_OK) e = fl_cuda_check(s, s->cu->EventRecord(x->begun, q->lane), "cuEventRecord");
  if (e != FLAME_OK) return e;
  x->head = q->first;
  x->site = q->kept.at[0].site;
  x->last = q->last;
  x->waited = 0;
  x->seen = 0;
  q->flying++;
  q->open = 1;
  s->watch = watch;
  q->pending = 1;
  const fl_nccl_status r = call(q);
  q->kept.n = 0;
  if (r == FL_NCCL_IN_PROGRESS) return FLAME_OK;
  return fl_nccl_poll(s, t, r, "ncclGroupEnd") ? settle(s, t) : FLAME_OK;
}

flame_status fl_nccl_run(fl_cuda *s, const fl_call_run *r, fl_lane lane) {
  fl_nccl *q = s->nccl;
  fl_group *g = q->g;
  const fl_call *k = r->call;
  const int64_t bytes = (k->p[FL_COLLECT_ARRAYS] ? k->in_numel[0] : k->numel) *
                        fl_dtype_size(k->dtype);
  fl_turn t = { g, &g->header[g->launch.rank], r->fault };
  const double start = fl_group_now();
  flame_status e = FLAME_OK;
  fl_group_describe(&t, k, r->scalar, lane);
  if (q->kept.n == 0) q->first = *t.mine;
  int ok = fl_group_come(&t, k);
  if (ok && lane == FL_LANE_ASKS) ok = fl_nccl_meet(s, &t);
  else if (ok) {
    g->stats.calls++;
    g->stats.bytes += bytes;
    g->stats.sent += sent(k, g->launch.rank);
    g->unproven = 1;
    q->last = k;
    if (bytes && !keep(s, q, r)) e = FL_FAIL(s->ctx, FLAME_NO_MEMORY, k->what, "no host memory");
    t.mine = &q->first;
    if (e == FLAME_OK && q->kept.n && (!k->p[FL_COLLECT_JOINS] || g->agreed == 0))
      e = queue_kept(s, &t);
  }
  g->stats.busy += fl_group_now() - start;
  if (ok && !r->fault[0] && e == FLAME_OK && g->broken[0]) ok = 0;
  if (e != FLAME_OK || ok || r->fault[0]) return e;
  return fl_interrupted(s->ctx, "eval");
}

int fl_nccl_keeps(const fl_cuda *s) { return s->nccl && s->nccl->kept.n > 0; }

/* The NCCL call whose last collective is 'last', the newest if there are several; if there is none,
** the newest call. */
static fl_nccl_slot *slot_of(fl_nccl *q, const fl_call *last) {
  for (int i = q->flying - 1; last && i >= 0; i--) {
    fl_nccl_slot *x = &q->slot[(q->oldest + i) % FL_NCCL_SLOTS];
    if (x->last == last) return x;
  }
  return newest(q);
}

flame_status fl_nccl_join(fl_cuda *s, const fl_call *last) {
  fl_nccl *q = s->nccl;
  if (!q || !q->g || !(q->open || q->kept.n)) return FLAME_OK;
  char fault[FL_CALL_FAULT] = "";
  fl_turn t = { q->g, &q->first, fault };
  const uint32_t site = q->kept.n ? q->kept.at[0].site : newest(q)->site;
  flame_status e = FLAME_OK;
  if (q->kept.n) e = queue_kept(s, &t);        /* the collective that they waited to be combined
                                               ** with ran on the host */
  if (e == FLAME_OK) e = settle(s, &t);
  if (e == FLAME_OK && q->g->broken[0]) e = told(s, q->first.what, site, fault);
  fl_nccl_slot *x = slot_of(q, last);
  q->open = x != newest(q);
  if (!q->flying || e != FLAME_OK) return e;
  e = fl_cuda_check(s, s->cu->EventRecord(x->joined, s->stream), "cuEventRecord");
  x->waited = e == FLAME_OK;
  if (e == FLAME_OK)
    e = fl_cuda_check(s, s->cu->StreamWaitEvent(s->stream, x->ended, 0), "cuStreamWaitEvent");
  return e;
}

/* ---- proof ---- */

int fl_nccl_unproven(const fl_cuda *s) {
  const fl_group *g = s->ctx->group;
  return g && g->unproven && g->agreed == 0 && !g->broken[0];
}

flame_status fl_nccl_prove(fl_cuda *s) {
  fl_group *g = s->ctx->group;
  fl_nccl *q = s->nccl;
  char fault[FL_CALL_FAULT] = "";
  fl_turn t = { g, &g->header[g->launch.rank], fault };
  const fl_nccl_slot *x = newest(q);
  char what[sizeof x->head.what];
  const uint32_t site = x->site;
  memcpy(what, x->head.what, sizeof what);
  if (!fl_group_fine(&t)) return told(s, what, site, fault);
  g->unproven = 0;
  fl_nccl_spend(s);
  return FLAME_OK;
}

void fl_nccl_spend(fl_cuda *s) {
  fl_nccl *q = s->nccl;
  if (!q) return;
  harvest(s, q);
  if (q->flying) q->spent = 1;
}
