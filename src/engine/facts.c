/*
** Facts about the machine: CUDA (facts_cuda.c), OpenBLAS, the folder of compiled kernels. Libraries
** that were opened stay open: each closing and reopening leaks memory.
*/
#include "engine/facts.h"
#include "base/env.h"
#include "cuda/driver/cache.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void fl_tell(const fl_teller *t, const char *name, int ok, const char *text) {
  char plain[600];
  snprintf(plain, sizeof plain, "%s", text);
  fl_error_plain(plain);
  t->say(t->arg, name, ok, plain);
}

/* The first library of the list that opens; NULL: none. */
static void *open_one(const char *const *files, const char **found) {
  for (; *files; files++) {
    void *h = dlopen(*files, RTLD_LAZY | RTLD_LOCAL);
    *found = *files;
    if (h) return h;
  }
  return NULL;
}

static void find(void *h, const char *name, void *out) {      /* (memcpy converts a data pointer to
                                                              ** a function pointer) */
  void *p = dlsym(h, name);
  memcpy(out, &p, sizeof p);
}

static void tell_blas(const fl_teller *t) {
  static const char *const usual[] = { "libopenblas.so.0", "libopenblas.so", NULL };
  const char *asked = fl_env(FL_ENV_FLAME_BLAS), *file = "";
  if (!strcmp(asked, "off")) {
    fl_tell(t, "blas", 1, "our own kernel (FLAME_BLAS=off)");
    return;
  }
  const char *const named[] = { asked, NULL };
  void *h = open_one(*asked ? named : usual, &file);
  char *(*core)(void) = NULL;
  char text[160];
  if (h) find(h, "openblas_get_corename", &core);
  snprintf(text, sizeof text, "%s%s%s", file, core ? " for " : "", core ? core() : "");
  fl_tell(t, "blas", h != NULL,
       h ? text : "no OpenBLAS (install libopenblas0); our own kernel serves");
}

static void tell_cache(const fl_teller *t, flame_context *c) {
  static const uint8_t key[32] = { 0x66, 0x6c, 0x61, 0x6d, 0x65 };
  const char *setting = fl_env(FL_ENV_FLAME_CACHE_DIR);
  fl_disk d;
  size_t n = 0;
  if (!strcmp(setting, "off")) {
    fl_tell(t, "cache", 1, "switched off (FLAME_CACHE_DIR=off): every run compiles its kernels");
    return;
  }
  fl_disk_open(&d, &c->mem, setting);
  fl_disk_put(&d, key, "flame", 5);
  void *p = d.folder >= 0 ? fl_disk_get(&d, key, &n) : NULL;
  const int ok = p != NULL && n == 5 && memcmp(p, "flame", 5) == 0;
  fl_free(&c->mem, p, n);
  fl_disk_close(&d);
  fl_tell(t, "cache", ok, ok ? "compiled kernels are kept"
                          : "the folder of compiled kernels can not be written, or others may "
                            "write it: name one with FLAME_CACHE_DIR");
}

void fl_facts(flame_context *c, int deep, void (*say)(void *, const char *, int, const char *),
              void *arg) {
  const fl_teller t = { say, arg };
  fl_facts_cuda(&t, deep);
  tell_blas(&t);
  if (deep) tell_cache(&t, c);
}
