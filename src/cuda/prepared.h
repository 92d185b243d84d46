/*
** What the device keeps for each step of a plan (prepare.c): compiled kernels, tables, geometry.
** It hangs on the step, is made before the plan's first run and goes with the plan; when the
** device is closed before, it keeps host memory alone.
*/
#ifndef FL_CUDA_PREPARED_H
#define FL_CUDA_PREPARED_H
#include "cuda/compile/module.h"

/* Instances of a step that one text serves: one launch. */
typedef struct fl_launch_group {
  fl_module *module;
  fl_cu_function function;
  fl_text key;                    /* while grouping */
  int32_t n, *which;              /* instances */
  fl_text_geometry *geometry;     /* of each; NULL until compiled */
  int64_t grid;                   /* blocks, of all */
  int32_t words;                  /* of the largest */
  int64_t scratch, counters;      /* bytes, of all together */
  void *table, *chunk;            /* device: see fl_text_multi */
  int64_t *sent;                  /* what the table holds, if 'current' */
  uint8_t current;
} fl_launch_group;

struct fl_prepared {              /* hangs on a step */
  fl_prepared *next, *prev;       /* all of the device */
  fl_cuda *s;                     /* NULL: the device was closed */
  fl_mem *mem;
  int32_t count, ngroup;
  fl_launch_group *group;         /* room for 'count' */
  fl_module *steps;               /* MATMUL by our own kernel, SCATTER */
  fl_cu_function entry[FL_TEXT_MAX_CALLS];
  uint8_t library;                /* MATMUL by cuBLASLt */
  int64_t scratch;                /* bytes that it needs */
};

/* Compile what is missing and reserve what steps need. After an error nothing is kept. */
flame_status fl_prepared_make(fl_cuda *s, fl_plan *p);
void fl_prepared_free(fl_plan *p);
/* Closing: what is prepared keeps only host memory. */
void fl_prepared_let_go(fl_cuda *s);
#endif
