/*
** Compiled kernels of a device: generated ones by their key, files of kernels/ by name and defines,
** and user kernels. They are looked for in memory, then on disk, and otherwise made by NVRTC
** (nvrtc.c). alone.c compiles without a device.
*/
#ifndef FL_CUDA_MODULE_H
#define FL_CUDA_MODULE_H
#include "cuda/driver/state.h"
#include "kernel/function.h"

/* ---- module.c ---- */
int fl_modules_open(fl_cuda *s);
void fl_modules_close(fl_cuda *s, int host_only);
/* The module of a kernel: one that exists, or a new one, queued for fl_modules_build. NULL: an
** error is set in the context. */
fl_module *fl_modules_kernel(fl_cuda *s, const fl_kernel *k, int multi);
/* The module of kernels/steps.cu that has this entry point, or a new one, queued. entry: of the
** entry points that a step launches, the last; its name ends in the dtype. NULL: an error is
** set. */
fl_module *fl_modules_steps(fl_cuda *s, const char *entry);
/* Builds all queued modules; after a failure none of them remains. */
flame_status fl_modules_build(fl_cuda *s);
void fl_modules_forget(fl_cuda *s);                       /* the queued ones */
fl_cu_function fl_module_function(const fl_module *m);    /* the function of a kernel; NULL before
                                                          ** fl_modules_build */
flame_status fl_module_entry(fl_cuda *s, const fl_module *m, const char *name,
                             fl_cu_function *f);

/* Queues a program for compilation, made of files of kernels/. file: a name, or several separated
** by spaces, which follow one another. defines (lines of "#define …\n", may be empty) come before
** all files, so that one compilation holds one dtype; if prelude is 1 the math of tensor/math.h and
** kernels/prelude.cu come next. 0: it failed, the context has the error. */
int fl_cuda_want_file(fl_cuda *s, const char *file, const char *defines, int prelude);
/* When a step runs: finds an entry point of a program that fl_cuda_want_file has queued and that is
** built; *f can be launched. */
flame_status fl_cuda_file_entry(fl_cuda *s, const char *file, const char *defines, int prelude,
                                const char *entry, fl_cu_function *f);
/* Like fl_cuda_want_file and fl_cuda_file_entry, for user kernels. Errors name the line of the
** script. */
int fl_cuda_want_user(fl_cuda *s, const struct fl_kfunction *k);
void fl_cuda_put_user(const struct fl_kfunction *k, fl_text *t);     /* the text that is compiled */
flame_status fl_cuda_user_entry(fl_cuda *s, const struct fl_kfunction *k, fl_cu_function *f);

/* ---- nvrtc.c ---- */
typedef struct fl_compile {     /* one program */
  const char *text, *name;
  const char *const *option;    /* NULL: the options of fl_nvrtc_options */
  int noption;
  uint8_t user;                 /* a user's text: an error message is the compiler's log */
  fl_rtc_program program;
  fl_rtc_result result;
  uint8_t made, done;           /* made: the program was created; done: it was compiled, with
                                ** success or without */
} fl_compile;
flame_status fl_nvrtc_open(fl_cuda *s);                   /* opens NVRTC, at the first call */
enum { FL_NVRTC_OPTIONS = 8 };
/* Collects the options, NULL-terminated; arch gets the text of --gpu-architecture: sm_90a for
** Hopper, as kernels/attention_hopper.cu has instructions that only it has. */
void fl_nvrtc_options(const fl_cuda *s, char arch[40], const char *option[FL_NVRTC_OPTIONS]);
/* Compiles the n jobs, with helping threads; job[i].result has the results. FLAME_INTERRUPTED: some
** are not done. */
flame_status fl_nvrtc_compile(fl_cuda *s, fl_compile *job, int n);
/* The cubin, in memory of s->mem; NULL: an error is set, with the compiler's log. */
void *fl_nvrtc_cubin(fl_cuda *s, fl_compile *job, size_t *size);
void fl_nvrtc_drop(fl_cuda *s, fl_compile *job, int n);
#endif
