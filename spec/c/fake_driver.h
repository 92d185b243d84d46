/*
** A CUDA driver, NVRTC, cuBLASLt, cuFFT, cuSOLVER and cuBLAS that need no GPU, behind the tables of
** src/cuda/api/api.def, cufft.def and cusolver.def.
** Device memory is host memory, copies are memcpy, launches are written down, the matrix
** product is computed (f32 and f64), compiled kernels are their texts' hashes. The k-th call
** can be made to fail, once or for ever, with any result; everything created is counted
** until it is released, so that a test can ask for leaks after a failure at any place.
** A test includes fake_driver.c; there is one fake per program.
*/
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H
#include "cuda/api/api.h"

enum { FAKE_LAUNCHES = 64 };
typedef struct fake_launch { char name[64]; unsigned grid, block, shared; } fake_launch;

typedef struct fake_state {
  /* what to do */
  int64_t fail_at;                /* this call fails (1: the next after fake_reset); 0: none */
  int forever;                    /* and all after it */
  fl_cu_result code;              /* with this result (NVRTC and cuBLASLt: one of theirs) */
  const char *only;               /* fail_at counts and fails calls of this name alone */
  int64_t capacity;               /* bytes of device memory */
  int busy;                       /* event queries that say "not ready"; -1: all of them */
  int cleared;                    /* new memory is zero */
  int idle;                       /* products are not computed: the host's time alone is left */
  /* the library can not be opened */
  int missing_nvrtc, missing_blaslt, missing_fft, missing_solver;
  int devices, version, arch;     /* version of the driver, 1000 major + 10 minor */
  int nvrtc;                      /* its version, 10 major + minor */
  int image;                      /* what it compiles for, which the driver sees; 0: arch */
  void *launch_writes;            /* every launch copies launch_bytes here, as a kernel might */
  const void *launch_bytes;
  void (*on_launch)(void **params);    /* … or this runs instead of the kernel */
  const char *word;                /* texts for NVRTC that hold it are counted */
  int texts, with_word;
  int ways;                       /* of cuBLASLt; 0: one; else they write their number */
  float way_ms[8];                /* what each takes */
  int clock;                      /* events have the time of the clock */
  size_t launch_size;
  /* what happened */
  int64_t calls;                  /* that could have failed */
  const char *failed;             /* name of the first call that was made to fail */
  int64_t allocs, compiles, loads, products, transforms;
  int64_t tf32;                   /* of them with operands rounded to TF32 */
  int64_t way_runs[8];            /* of them by each algorithm */
  int way;                        /* that of the last */
  int64_t captures, graph_launches, node_sets;
  int64_t nlaunch;
  fake_launch launch[FAKE_LAUNCHES];   /* the first ones */
  /* what lives */
  int64_t contexts, pushed, streams, events, blocks, bytes, pinned, modules, programs, lt,
          plans, solver, graphs, execs;
} fake_state;

/* A kernel that can be run: its arguments come by their addresses. */
enum { FAKE_ARGS = 160 };
typedef struct fake_entry { void (*run)(void **args); int n; unsigned size[FAKE_ARGS]; } fake_entry;

/* What compiles texts and runs kernels (fake_compute.c); without one kernels write nothing. */
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
                        const unsigned block[3]);                      /* NULL, or why not */
} fake_computer;
extern const fake_computer *fake_computes;

extern fake_state fake;
extern const fl_cuda_lib fake_libraries;
/* Zero counts and wishes; what lives stays counted. */
void fake_reset(void);
/* Number of things created and not released, and contexts left current. */
int64_t fake_leaks(void);
#endif
