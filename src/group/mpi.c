/*
** MPI as a wire (group.h): OpenMPI, opened at run time. Handles of its C interface are addresses
** of objects that the library exports (MPI_BYTE is &ompi_mpi_byte), which is what makes it usable
** without its header. In MPICH and its derivatives handles are integers with another meaning: their
** library has no such names and is refused.
**
** OpenMPI loads parts of itself later, which look for its symbols among the global ones, so it is
** opened with RTLD_GLOBAL. The state belongs to the process: MPI can be initialised and finalised
** only once. Calls come from the context's thread. If the host has initialised MPI, the host must
** finalise it.
*/
#include "base/env.h"
#include "base/error.h"
#include "group/group.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef void *handle;                    /* MPI_Comm, MPI_Request, MPI_Datatype: addresses */
enum { MPI_SERIALIZED = 2, CANCEL_LOOKS = 2000 };

static struct {
  int (*Initialized)(int *flag);
  int (*Finalized)(int *flag);
  int (*Init_thread)(int *argc, char ***argv, int wanted, int *given);
  int (*Finalize)(void);
  int (*Comm_rank)(handle comm, int *rank);
  int (*Comm_size)(handle comm, int *size);
  int (*Comm_dup)(handle comm, handle *out);
  int (*Comm_set_errhandler)(handle comm, handle errhandler);
  int (*Isend)(const void *p, int n, handle type, int to, int tag, handle comm, handle *request);
  int (*Irecv)(void *p, int n, handle type, int from, int tag, handle comm, handle *request);
  int (*Test)(handle *request, int *done, void *status);
  int (*Iprobe)(int from, int tag, handle comm, int *there, void *status);
  int (*Cancel)(handle *request);
  int (*Error_string)(int code, char *text, int *length);
  handle world, byte, errors_return;
} mpi;

static const struct { const char *name; void *at; } symbols[] = {
#define ENTRY(f) { "MPI_" #f, &mpi.f }
  ENTRY(Initialized), ENTRY(Finalized), ENTRY(Init_thread), ENTRY(Finalize), ENTRY(Comm_rank),
  ENTRY(Comm_size), ENTRY(Comm_dup), ENTRY(Comm_set_errhandler), ENTRY(Isend), ENTRY(Irecv),
  ENTRY(Test), ENTRY(Iprobe), ENTRY(Cancel), ENTRY(Error_string),
#undef ENTRY
  { "ompi_mpi_comm_world", &mpi.world }, { "ompi_mpi_byte", &mpi.byte },
  { "ompi_mpi_errors_return", &mpi.errors_return },
};

typedef struct mpi_wire { fl_wire wire; handle comm; int ours, open; } mpi_wire;
static mpi_wire the;                     /* protected by the lock while it is being opened */
static char missing[300];                /* why there is none */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- a wire ---------------------------------------------------------------------------------- */

static int checked(fl_wire *w, int code, const char *call) {
  char text[512] = "";                   /* at least MPI_MAX_ERROR_STRING, which is 256 */
  int n = 0;
  if (code == 0) return 1;
  mpi.Error_string(code, text, &n);
  snprintf(w->error, sizeof w->error, "MPI_%s: %.120s", call, text);
  return 0;
}

static int post(fl_wire *w, fl_letter *l) {
  const int n = (int)(l->left < FL_WIRE_PIECE ? l->left : FL_WIRE_PIECE);
  const handle comm = ((const mpi_wire *)w)->comm;
  return l->out ? checked(w, mpi.Isend(l->at, n, mpi.byte, l->peer, l->channel, comm, &l->request),
                          "Isend")
                : checked(w, mpi.Irecv(l->at, n, mpi.byte, l->peer, l->channel, comm, &l->request),
                          "Irecv");
}

static int test(fl_wire *w, fl_letter *l, int *done) {
  return checked(w, mpi.Test(&l->request, done, NULL), "Test");
}

static int probe(fl_wire *w, int from, int channel) {
  int there = 0;
  if (channel == FL_WIRE_ALIVE) return 0;              /* the launcher ends the other ranks */
  if (!checked(w, mpi.Iprobe(from, channel, ((const mpi_wire *)w)->comm, &there, NULL), "Iprobe"))
    return -1;
  return there;
}

/* A message that has begun to arrive continues, and one that is being sent cannot be cancelled. As
** most of both end soon, their end is awaited for a short time. */
static int cancel(fl_wire *w, fl_letter *l) {
  int done = 0;
  if (!l->out) mpi.Cancel(&l->request);
  for (int i = 0; i < CANCEL_LOOKS && !done; i++) {
    if (!test(w, l, &done)) return 0;
    if (!done) nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
  }
  return done;
}

static void close_wire(fl_wire *w, int orderly) {
  mpi_wire *m = (mpi_wire *)w;
  if (m->ours && orderly) mpi.Finalize();
  m->open = 0;
}

static const fl_wire_table table = {
  .name = "mpi", .post = post, .test = test, .probe = probe, .cancel = cancel, .close = close_wire,
};

/* ---- opening --------------------------------------------------------------------------------- */

#define INSTALL "(Debian: apt-get install openmpi-bin libopenmpi3)"

static int load(void) {
  const char *asked = fl_env(FL_ENV_FLAME_MPI), *file = *asked ? asked : "libmpi.so.40";
  void *h = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (!h && !*asked) h = dlopen("libmpi.so", RTLD_NOW | RTLD_GLOBAL);
  if (!h) {
    snprintf(missing, sizeof missing, "%.60s not found " INSTALL, file);
    return 0;
  }
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *p = dlsym(h, symbols[i].name);
    if (!p) {
      snprintf(missing, sizeof missing, "%.60s has no %s: it is not OpenMPI, which alone is"
               " supported " INSTALL, file, symbols[i].name);
      return 0;
    }
    memcpy(symbols[i].at, &p, sizeof p);                  /* ISO C has no such cast */
  }
  return 1;
}

static int begin(mpi_wire *m, char *why, size_t bytes) {
  int begun = 0, ended = 0, given = 0;
  mpi.Initialized(&begun);
  mpi.Finalized(&ended);
  if (ended) {
    snprintf(why, bytes, "MPI has ended in this process: it can begin once");
    return 0;
  }
  if (!begun && mpi.Init_thread(NULL, NULL, MPI_SERIALIZED, &given) != 0) {
    snprintf(why, bytes, "MPI_Init_thread failed: see what it has printed");
    return 0;
  }
  m->ours |= !begun;
  if (m->comm) return 1;
  if (mpi.Comm_dup(mpi.world, &m->comm) != 0 ||
      mpi.Comm_set_errhandler(m->comm, mpi.errors_return) != 0) {
    snprintf(why, bytes, "MPI_Comm_dup failed");
    return 0;
  }
  mpi.Comm_rank(m->comm, &m->wire.rank);
  mpi.Comm_size(m->comm, &m->wire.size);
  return 1;
}

static fl_wire *open_wire(const fl_launch *l, char *why, size_t bytes) {
  static int tried, loaded;
  if (!tried) loaded = load();
  tried = 1;
  if (!loaded) {
    snprintf(why, bytes, "MPI: %s", missing);
    return NULL;
  }
  if (the.open) {
    snprintf(why, bytes, "another context of this process has a group: there can be one");
    return NULL;
  }
  if (!begin(&the, why, bytes)) return NULL;
  if (the.wire.size != l->size) {
    snprintf(why, bytes, "%s says %d ranks and MPI %d" FL_DO ": start with mpirun -n %d, or srun"
             " --mpi=pmix", l->by, l->size, the.wire.size, l->size);
    return NULL;
  }
  the.wire.table = &table;
  the.open = 1;
  return &the.wire;
}

fl_wire *fl_mpi_open(const fl_launch *l, char *why, size_t bytes) {
  pthread_mutex_lock(&lock);
  fl_wire *w = open_wire(l, why, bytes);
  pthread_mutex_unlock(&lock);
  return w;
}
