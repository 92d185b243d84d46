/*
** NVRTC for tests that compile kernel texts: loads its functions from the installed library.
*/
#ifndef SPEC_NVRTC_H
#define SPEC_NVRTC_H
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvrtc {
  int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
  int (*compile)(void *, int, const char *const *);
  int (*log_size)(void *, size_t *);
  int (*log)(void *, char *);
  int (*cubin_size)(void *, size_t *);
  int (*cubin)(void *, char *);
  int (*ptx_size)(void *, size_t *);
  int (*ptx)(void *, char *);
  int (*destroy)(void **);
} nvrtc;

static inline int nvrtc_find(void *lib, const char *name, void *slot) {
  void *p = dlsym(lib, name);
  memcpy(slot, &p, sizeof p);
  return p != NULL;
}

/* 0: it is not installed. */
static inline int nvrtc_open(nvrtc *n) {
  static const char *const name[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                      "/usr/local/cuda/lib64/libnvrtc.so" };
  void *lib = NULL;
  for (size_t i = 0; i < sizeof name / sizeof *name && !lib; i++) lib = dlopen(name[i], RTLD_NOW);
  return lib && nvrtc_find(lib, "nvrtcCreateProgram", &n->create) &&
         nvrtc_find(lib, "nvrtcCompileProgram", &n->compile) &&
         nvrtc_find(lib, "nvrtcGetProgramLogSize", &n->log_size) &&
         nvrtc_find(lib, "nvrtcGetProgramLog", &n->log) &&
         nvrtc_find(lib, "nvrtcGetCUBINSize", &n->cubin_size) &&
         nvrtc_find(lib, "nvrtcGetCUBIN", &n->cubin) &&
         nvrtc_find(lib, "nvrtcGetPTXSize", &n->ptx_size) &&
         nvrtc_find(lib, "nvrtcGetPTX", &n->ptx) &&
         nvrtc_find(lib, "nvrtcDestroyProgram", &n->destroy);
}

/* For texts that are not run: NVRTC optimises little, and says the same about a text in a fifth
** of the time. One older than 12.8 does not know the option. */
enum { NVRTC_NO_OPTION = 5, NVRTC_MOST_OPTIONS = 32 };

/* Compiles a program that is not run. compile: nvrtcCompileProgram, or what stands for it. */
static inline int nvrtc_judge(int (*compile)(void *, int, const char *const *), void *program,
                              int count, const char *const *option) {
  const char *quick[NVRTC_MOST_OPTIONS + 1];
  if (count > NVRTC_MOST_OPTIONS) abort();
  memcpy(quick, option, (size_t)count * sizeof *option);
  quick[count] = "--Ofast-compile=max";
  const int result = compile(program, count + 1, quick);
  return result == NVRTC_NO_OPTION ? compile(program, count, option) : result;
}
#endif
