/*
** The client's side of NVTX 3 (nvtx.h). The tool's library has a function InitializeInjectionNvtx2,
** which is given a function that knows our tables by number: of the version, and of the places
** where the tool puts its own functions, module by module. Of the module CORE there are 16 places,
** of which two are used; other modules are not offered.
*/
#include "base/nvtx.h"
#include "base/machine.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3, MODULE_CORE = 1, VERSION = 3 };
enum { RANGE_PUSH = 9, RANGE_POP = 11, CORE_PLACES = 16 };

typedef void (*any_function)(void);
static any_function place[CORE_PLACES], *table[CORE_PLACES];

static int get_module(int module, any_function ***out, unsigned *size) {
  if (module != MODULE_CORE) return 0;
  for (int i = 0; i < CORE_PLACES; i++) table[i] = &place[i];
  if (out) *out = table;
  if (size) *size = CORE_PLACES;
  return 1;
}
static void set_version(uint32_t version) { (void)version; }

static const struct { size_t size; int (*module)(int, any_function ***, unsigned *); } callbacks = {
  sizeof callbacks, get_module
};
static const struct { size_t size; uint32_t version, zero; void (*set)(uint32_t); } versions = {
  sizeof versions, VERSION, 0, set_version
};

static const void *get_table(uint32_t id) {
  return id == TABLE_CALLBACKS ? (const void *)&callbacks
       : id == TABLE_VERSION ? (const void *)&versions : NULL;
}

static int on;

/* A library that is not a tool's, or does not want us, is closed again. */
static void open_tool(void) {
  const char *file = getenv("NVTX_INJECTION64_PATH");
  int (*begin)(const void *(*)(uint32_t)) = NULL;
  char path[512];
  void *tool = file && *file ? dlopen(fl_machine_path(file, path, sizeof path), RTLD_LAZY) : NULL;
  void *f = tool ? dlsym(tool, "InitializeInjectionNvtx2") : NULL;
  memcpy(&begin, &f, sizeof begin);                /* ISO C has no such cast */
  if (begin && begin(get_table) && place[RANGE_PUSH] && place[RANGE_POP]) on = 1;
  else if (tool) dlclose(tool);
}

int fl_nvtx_on(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_tool);
  return on;
}

void fl_nvtx_push(const char *name) {
  int (*push)(const char *);
  if (!fl_nvtx_on()) return;
  memcpy(&push, &place[RANGE_PUSH], sizeof push);
  push(name);
}

void fl_nvtx_pop(void) {
  int (*pop)(void);
  if (!fl_nvtx_on()) return;
  memcpy(&pop, &place[RANGE_POP], sizeof pop);
  pop();
}
