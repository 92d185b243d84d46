/*
** Launchers: which of a group's processes this is, from the variables that torchrun, OpenMPI's
** mpirun and Slurm's srun set. The innermost launcher counts: torchrun may itself run under srun.
*/
#include "group/group.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const char *by, *rank, *size, *local; } variables;
static const variables known[] = {
  { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK" },
  { "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK" },
  { "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID" },
};

enum { MOST = 1 << 20 };

/* A count in the environment; -1: not set, -2: not a count. */
static long count_of(const char *name) {
  const char *s = getenv(name);
  char *end;
  if (!s || !*s) return -1;
  const long v = strtol(s, &end, 10);
  return *end || v < 0 || v > MOST ? -2 : v;
}

static const char *text_of(const char *name) { return getenv(name) ? getenv(name) : ""; }

static int refuse(char *why, size_t bytes, const variables *v) {
  snprintf(why, bytes, "%s='%.20s' %s='%.20s' %s='%.20s': need a size, at most %d, and a rank from"
           " 0, below it", v->rank, text_of(v->rank), v->size, text_of(v->size), v->local,
           text_of(v->local), MOST);
  return 0;
}

int fl_launch_read(fl_launch *l, char *why, size_t bytes) {
  *l = (fl_launch){ NULL, 0, 1, 0, 0 };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const variables *v = &known[i];
    const long rank = count_of(v->rank), size = count_of(v->size), local = count_of(v->local);
    /* With only one of torchrun's two variables each process would train by itself: refused. With
    ** Slurm's rank alone the job runs outside of srun, which is no group. */
    if (i == 0 && (rank == -1) != (size == -1)) return refuse(why, bytes, v);
    if (rank == -1 || size == -1) continue;
    if (rank < 0 || size < 1 || rank >= size || local == -2) return refuse(why, bytes, v);
    *l = (fl_launch){ v->by, (int)rank, (int)size, (int)(local < 0 ? rank : local), i > 0 };
    return 1;
  }
  return 1;
}
