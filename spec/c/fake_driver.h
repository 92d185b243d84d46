/*
** A CUDA driver, NVRTC, cuBLASLt, cuFFT, cuSOLVER and cuBLAS that need no GPU, behind the tables of
** src/cuda/api/api.def, cufft.def and cusolver.def. Device memory is host memory, copies are
** memcpy. Matrix products and Fourier transforms are computed; launches are only recorded, unless
** fake_computes is set. The image of a compiled kernel has a hash of its text. The k-th call can be
** made to fail, alone or with all calls after it, with any result. Everything created is counted
** until it is released, so that a test finds leaks after a failure at any place. A test includes
** fake_driver.c; there is one fake per program.
*/
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H
#include "cuda/api/api.h"

enum { FAKE_LAUNCHES = 64, FAKE_SHARED = 232448 /* bytes that a block can have */ };
/* grid, block: sizes along x. */
typedef struct fake_launch { char name[64]; unsigned grid, block, shared; } fake_launch;

typedef struct fake_state {
  /* what to do */
  int64_t fail_at;                /* number of the call after fake_reset that fails; 0: none */
  int forever;                    /* all calls after the one with number fail_at fail as well */
  fl_cu_result code;          /* result of a failing call (a code of the function's library) */
  const char *only;               /* if set, only calls of this function count for fail_at */
  int64_t capacity;               /* bytes of device memory */
  int busy;                       /* the next 'busy' event queries say "not ready"; -1: all do */
  int cleared;                    /* new memory is zero */
  int registers;                  /* of each thread of a user's kernel that does not have
                                  ** __launch_bounds__(1024); 0: 32 */
  int shared;                     /* bytes of shared memory per block; 0 means FAKE_SHARED */
  int idle;                       /* products are not computed, so that only the host takes time */
  /* which libraries can not be opened */
  int missing_nvrtc, missing_blaslt, missing_fft, missing_solver;
  int devices, version, arch;     /* version of the driver, 1000 major + 10 minor */
  int nvrtc;                      /* version of NVRTC, 10 major + minor */
  int image;                    /* the architecture that NVRTC's images are for; 0 means 'arch' */
  void *launch_writes;            /* where every launch stores the launch_size bytes at
                                  ** launch_bytes, as a kernel might */
  const void *launch_bytes;
  void (*on_launch)(void **params);    /* if set, a launch calls it instead of a kernel */
  const char *word;                /* if set, with_word counts the texts for NVRTC that contain
                                   ** it */
  int texts, with_word;            /* texts: all */
  /* cuBLASLt offers this many algorithms; each writes only its number. 0: one, which computes */
  int ways;
  float way_ms[8];                /* the time of each algorithm; below 0: it is refused */
  /* used if ways is 0. 1: the time between events is that of the host's clock; 0: it is 0.5 ms */
  int clock;
  size_t launch_size;             /* see launch_writes; 0: nothing is stored */
  /* what happened */
  int64_t calls;                  /* number of calls that could have failed */
  const char *failed;             /* name of the first call that was made to fail */
  int64_t allocs, compiles, loads, products, transforms;
  int64_t tf32;                   /* number of products with operands rounded to TF32 */
  int64_t way_runs[8];            /* number of products by each algorithm */
  int way;                        /* the algorithm of the last product */
  int64_t captures, graph_launches, node_sets;
  int64_t nlaunch;
  fake_launch launch[FAKE_LAUNCHES];   /* the first ones */
  /* what lives */
  int64_t contexts, pushed, streams, events, blocks, bytes, pinned, modules, programs, lt,
          plans, solver, graphs, execs;
} fake_state;

/* A kernel that can be run: 'run' gets the addresses of its n arguments, of size[i] bytes each. */
enum { FAKE_ARGS = 160 };
typedef struct fake_entry { void (*run)(void **args); int n; unsigned size[FAKE_ARGS]; } fake_entry;

/* Compiles texts and runs kernels (fake_compute.c); without it kernels write nothing. */
typedef struct fake_computer {
  void *(*source)(const char *text, int n, const char *const *headers, const char *const *names);
  void (*drop)(void *source);
  int (*compile)(void *source, int n, const char *const *options);    /* 0: see log */
  const char *(*log)(void *source);
  const char *(*image)(void *source, size_t *bytes);
  void *(*load)(const char *image, size_t bytes);
  void (*unload)(void *object);
  int (*entry)(void *object, const char *name, fake_entry *e);         /* 0: no such kernel */
  const char *(*launch)(const fake_entry *e, void **args, const unsigned grid[3],
                        const unsigned block[3], unsigned shared);     /* NULL, or why not */
} fake_computer;
extern const fake_computer *fake_computes;

extern fake_state fake;
extern const fl_cuda_lib fake_libraries;
/* Sets all settings to their defaults and all counts to 0, except the counts of objects not yet
** released. */
void fake_reset(void);
/* Number of objects created and not released, and contexts left current. */
int64_t fake_leaks(void);
#endif
