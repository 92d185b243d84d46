/*
** What the device keeps for each step of a plan, except calls and copies (prepare.c): compiled
** kernels, tables, geometry. It belongs to the step, is made before the plan's first run and freed
** with the plan; if the device is closed first, only host memory remains.
*/
#ifndef FL_CUDA_PREPARED_H
#define FL_CUDA_PREPARED_H
#include "cuda/compile/module.h"

/* The instances (kernels of one structure) of a step that share one text: they are one launch. */
typedef struct fl_launch_group {
  fl_module *module;
  fl_cu_function function;
  fl_text key;                    /* while grouping */
  int32_t n, *which;              /* instances */
  fl_text_geometry *geometry;     /* by instance; NULL until compiled */
  int64_t grid;                   /* blocks, of all */
  int32_t words;                  /* of the parameters, of the instance that has most */
  int64_t scratch, counters;      /* bytes, of all instances together */
  void *table, *chunk;            /* device: see fl_text_multi */
  int64_t *sent;                  /* the contents of the table, if 'current' */
  uint8_t current;
} fl_launch_group;

struct fl_prepared {              /* belongs to a step */
  fl_prepared *next, *prev;       /* all of the device */
  fl_cuda *s;                     /* NULL: the device was closed */
  fl_mem *mem;
  int32_t count, ngroup;
  fl_launch_group *group;         /* room for 'count' */
  fl_module *steps;               /* MATMUL by our own kernel, SCATTER */
  fl_cu_function entry[FL_TEXT_MAX_CALLS];
  uint8_t library;                /* MATMUL by fl_blas_run */
  int64_t scratch;                /* bytes that fl_blas_run needs */
};

/* Compiles what is missing and reserves what the steps need. After an error the plan has no
** prepared data. */
flame_status fl_prepared_make(fl_cuda *s, fl_plan *p);
void fl_prepared_free(fl_plan *p);
/* Called when the device is closed: prepared data then keeps only host memory. */
void fl_prepared_let_go(fl_cuda *s);
#endif
