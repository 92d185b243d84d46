/*
** NCCL without a GPU, part of fake_cuda.c: device memory is host memory, and processes of one host
** meet in shared memory that is named after the unique id. As with a non-blocking communicator,
** calls are queued at ncclGroupEnd and done by a thread: ncclCommGetAsyncError returns IN_PROGRESS
** until all ranks have reached them. Arrays have at most FAKE_ARRAY / FAKE_RANKS bytes. FAKE_NCCL
** plans a fault as "rank:what:count": at its group of calls number 'count' the rank "dies"
** (SIGKILL), "hangs" (the calls never end) or "fails" (ncclCommGetAsyncError returns an error).
*/
#include "cuda/api/nccl_api.h"
#include "group/group.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FAKE_RANKS = 4, FAKE_ARRAY = 1 << 18, FAKE_OPS = 256 };
/* A buffer in shared memory for data that a rank sends to all ranks (fake_room.all) or to one
** (fake_room.pair). posted: number of messages written; taken: of those read, by each reader. */
typedef struct { atomic_long posted, taken[FAKE_RANKS]; char data[FAKE_ARRAY]; } fake_box;
typedef struct {
  atomic_int there;
  fake_box all[FAKE_RANKS], pair[FAKE_RANKS][FAKE_RANKS];
} fake_room;

typedef enum { FAKE_REDUCE, FAKE_SCATTER, FAKE_GATHER, FAKE_FROM, FAKE_SEND, FAKE_RECV } fake_kind;
typedef struct {
  fake_kind kind;
  const void *from;
  void *to;
  size_t n;
  fl_nccl_type type;
  fl_nccl_op op;
  int peer, state;                      /* state: 0: queued; 1: its data is posted; 2: done */
} fake_op;

struct ncclComm {
  fake_room *room;
  int rank, ranks, calls, bad, ended;   /* calls: groups so far; bad: it hangs (-1) or fails (1) */
  long serial, sent[FAKE_RANKS], got[FAKE_RANKS];     /* collectives, sends and receives so far */
  fake_op op[FAKE_OPS];
  int n;
  atomic_int busy, over;                /* busy: the thread has calls to do; over: it must end */
  pthread_t thread;
};

static const int fake_dtype[] = { FLAME_I8, FLAME_U8, FLAME_I32, -1, FLAME_I64, -1, FLAME_F16,
                                  FLAME_F32, FLAME_F64, FLAME_BF16 };
static fl_nccl_comm fake_comm;          /* the communicator with queued calls; one per process */

static size_t fake_bytes(const fake_op *o) {
  return o->n * (size_t)fl_dtype_size(fake_dtype[o->type]);
}

static int fake_taken(const fake_box *b, int ranks, long serial) {
  for (int r = 0; r < ranks; r++) if (atomic_load(&b->taken[r]) < serial) return 0;
  return 1;
}

static void fake_combine(fl_nccl_comm c, const fake_op *o, size_t at, size_t n, char *out) {
  const int dtype = fake_dtype[o->type];
  const int how[] = { FL_REDUCE_SUM, 0, FL_REDUCE_MAX, FL_REDUCE_MIN, FL_REDUCE_SUM };
  const size_t size = (size_t)fl_dtype_size(dtype);
  memcpy(out, c->room->all[0].data + at * size, n * size);
  for (int r = 1; r < c->ranks; r++)
    fl_group_combine(dtype, how[o->op], out, c->room->all[r].data + at * size, (int64_t)n);
  if (o->op == FL_NCCL_AVG) fl_group_divide(dtype, out, (int64_t)n, c->ranks);
}

static void fake_finish(fl_nccl_comm c, const fake_op *o) {
  const size_t bytes = fake_bytes(o);
  switch (o->kind) {
    case FAKE_REDUCE: fake_combine(c, o, 0, o->n, o->to); break;
    case FAKE_SCATTER: fake_combine(c, o, o->n * (size_t)c->rank, o->n, o->to); break;
    case FAKE_GATHER:
      for (int r = 0; r < c->ranks; r++)
        memcpy((char *)o->to + bytes * (size_t)r, c->room->all[r].data, bytes);
      break;
    default: memcpy(o->to, c->room->all[o->peer].data, bytes);
  }
}

/* Advances a collective of all ranks as far as possible without waiting; returns 1 when done. */
static int fake_common(fl_nccl_comm c, fake_op *o) {
  fake_box *mine = &c->room->all[c->rank];
  const size_t bytes = fake_bytes(o) * (o->kind == FAKE_SCATTER ? (size_t)c->ranks : 1);
  if (o->state == 0) {
    if (!fake_taken(mine, c->ranks, c->serial)) return 0;
    memcpy(mine->data, o->from, bytes);
    atomic_store(&mine->posted, ++c->serial);
    o->state = 1;
  }
  for (int r = 0; r < c->ranks; r++)
    if (atomic_load(&c->room->all[r].posted) < c->serial) return 0;
  fake_finish(c, o);
  for (int r = 0; r < c->ranks; r++) atomic_store(&c->room->all[r].taken[c->rank], c->serial);
  return 1;
}

static int fake_pair(fl_nccl_comm c, fake_op *o) {
  const int send = o->kind == FAKE_SEND;
  fake_box *b = send ? &c->room->pair[c->rank][o->peer] : &c->room->pair[o->peer][c->rank];
  if (send && atomic_load(&b->taken[0]) < c->sent[o->peer]) return 0;
  if (!send && atomic_load(&b->posted) <= c->got[o->peer]) return 0;
  if (send) memcpy(b->data, o->from, fake_bytes(o));
  else memcpy(o->to, b->data, fake_bytes(o));
  if (send) atomic_store(&b->posted, ++c->sent[o->peer]);
  else atomic_store(&b->taken[0], ++c->got[o->peer]);
  return 1;
}

/* Is a call of the queue before the i-th, of the same kind (send or receive) and with the same
** peer, still to be done? */
static int fake_behind(const struct ncclComm *c, int i) {
  const fake_op *o = c->op;
  for (int k = 0; k < i; k++)
    if (o[k].state < 2 && o[k].kind == o[i].kind && o[k].peer == o[i].peer) return 1;
  return 0;
}

/* Advances the queued calls; returns 1 when all are done. Sends to one peer, receives from one
** peer, and collectives complete in the order of the queue. */
static int fake_progress(fl_nccl_comm c) {
  int left = 0;
  for (int i = 0; i < c->n; i++) {
    fake_op *o = &c->op[i];
    if (o->state < 2 && (o->kind < FAKE_SEND || !fake_behind(c, i)))
      o->state = (o->kind < FAKE_SEND ? fake_common(c, o) : fake_pair(c, o)) ? 2 : o->state;
    left += o->state < 2;
    if (left && o->kind < FAKE_SEND) break;
  }
  if (!left) c->n = 0;
  return !left;
}

static void *fake_work(void *arg) {
  fl_nccl_comm c = arg;
  while (!atomic_load(&c->over)) {
    if (atomic_load(&c->busy) && c->bad == 0 && fake_progress(c)) atomic_store(&c->busy, 0);
    usleep(20);
  }
  return NULL;
}

/* Counts a group of calls, and does the fault that FAKE_NCCL plans for it, if any. */
static void fake_fate(fl_nccl_comm c) {
  const char *text = getenv("FAKE_NCCL");
  char what[8];
  int rank, count;
  c->calls++;
  if (!text || sscanf(text, "%d:%7[a-z]:%d", &rank, what, &count) != 3 || rank != c->rank ||
      c->calls != count) return;
  if (strcmp(what, "dies") == 0) raise(SIGKILL);
  c->bad = strcmp(what, "hangs") == 0 ? -1 : 1;
}

static fl_nccl_status fake_queue(fl_nccl_comm c, fake_op o) {
  if (c->n == FAKE_OPS || fake_bytes(&o) * FAKE_RANKS > FAKE_ARRAY) return 4;
  c->op[c->n++] = o;
  fake_comm = c;
  return FL_NCCL_OK;
}

/* ---- the entry points ---- */

static fl_nccl_status fake_ncclGetVersion(int *v) {
  const char *text = getenv("FAKE_NCCL_VERSION");
  *v = text ? atoi(text) : 22703;
  return FL_NCCL_OK;
}
static fl_nccl_status fake_ncclGetUniqueId(fl_nccl_id *id) {
  snprintf(id->at, sizeof id->at, "/flame-fake-%ld", (long)getpid());
  return FL_NCCL_OK;
}
static fl_nccl_status fake_ncclCommInitRankConfig(fl_nccl_comm *out, int ranks, fl_nccl_id id,
                                                  int rank, fl_nccl_config *how) {
  if (how->magic != FL_NCCL_MAGIC || how->size != sizeof *how || how->blocking ||
      ranks > FAKE_RANKS)
    return 4;
  const int fd = shm_open(id.at, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(fake_room)) != 0) return 2;
  fl_nccl_comm c = calloc(1, sizeof *c);
  if (!c) return 2;
  c->room = mmap(NULL, sizeof(fake_room), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  c->rank = rank;
  c->ranks = ranks;
  if (atomic_fetch_add(&c->room->there, 1) == ranks - 1) shm_unlink(id.at);
  *out = c;
  if (pthread_create(&c->thread, NULL, fake_work, c) != 0) return 2;
  return FL_NCCL_IN_PROGRESS;
}
static fl_nccl_status fake_ncclCommGetAsyncError(fl_nccl_comm c, fl_nccl_status *state) {
  const int there = atomic_load(&c->room->there) >= c->ranks;
  *state = c->bad > 0 ? FL_NCCL_CUDA
         : there && c->bad == 0 && !atomic_load(&c->busy) ? FL_NCCL_OK : FL_NCCL_IN_PROGRESS;
  return FL_NCCL_OK;
}
static fl_nccl_status fake_ncclCommFinalize(fl_nccl_comm c) { c->ended = 1; return FL_NCCL_OK; }
static fl_nccl_status fake_ncclCommAbort(fl_nccl_comm c) {
  atomic_store(&c->over, 1);
  pthread_join(c->thread, NULL);
  munmap(c->room, sizeof *c->room);
  free(c);
  return FL_NCCL_OK;
}
static fl_nccl_status fake_ncclCommDestroy(fl_nccl_comm c) {
  if (!c->ended || c->n) abort();
  return fake_ncclCommAbort(c);
}
static fl_nccl_status fake_ncclGroupStart(void) { fake_comm = NULL; return FL_NCCL_OK; }
static fl_nccl_status fake_ncclGroupEnd(void) {
  if (!fake_comm) return FL_NCCL_OK;
  fake_fate(fake_comm);
  atomic_store(&fake_comm->busy, 1);
  return FL_NCCL_IN_PROGRESS;
}
static fl_nccl_status fake_ncclAllReduce(const void *from, void *to, size_t n, fl_nccl_type type,
                                         fl_nccl_op op, fl_nccl_comm c, fl_nccl_stream s) {
  return fake_queue(c, (fake_op){ FAKE_REDUCE, from, to, n, type, op, 0, 0 });
}
static fl_nccl_status fake_ncclReduceScatter(const void *from, void *to, size_t n,
                                             fl_nccl_type type, fl_nccl_op op, fl_nccl_comm c,
                                             fl_nccl_stream s) {
  return fake_queue(c, (fake_op){ FAKE_SCATTER, from, to, n, type, op, 0, 0 });
}
static fl_nccl_status fake_ncclAllGather(const void *from, void *to, size_t n, fl_nccl_type type,
                                         fl_nccl_comm c, fl_nccl_stream s) {
  return fake_queue(c, (fake_op){ FAKE_GATHER, from, to, n, type, 0, 0, 0 });
}
static fl_nccl_status fake_ncclBroadcast(const void *from, void *to, size_t n, fl_nccl_type type,
                                         int root, fl_nccl_comm c, fl_nccl_stream s) {
  return fake_queue(c, (fake_op){ FAKE_FROM, from, to, n, type, 0, root, 0 });
}
static fl_nccl_status fake_ncclSend(const void *from, size_t n, fl_nccl_type type, int peer,
                                    fl_nccl_comm c, fl_nccl_stream s) {
  return fake_queue(c, (fake_op){ FAKE_SEND, from, NULL, n, type, 0, peer, 0 });
}
static fl_nccl_status fake_ncclRecv(void *to, size_t n, fl_nccl_type type, int peer,
                                    fl_nccl_comm c, fl_nccl_stream s) {
  return fake_queue(c, (fake_op){ FAKE_RECV, NULL, to, n, type, 0, peer, 0 });
}
static const char *fake_ncclGetErrorString(fl_nccl_status r) {
  return r == FL_NCCL_CUDA ? "unhandled cuda error" : "another error";
}
static const char *fake_ncclGetLastError(fl_nccl_comm c) { return "made to fail"; }

#define NCCL(name, params, args) \
  SHOWN fl_nccl_status name params; \
  fl_nccl_status name params { return fake_##name args; }
#define NCCL_VALUE(type, name, params, args) \
  SHOWN type name params; \
  type name params { return fake_##name args; }
#include "cuda/api/nccl.def"
