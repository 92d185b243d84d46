/*
** The client's side of NVTX 3 (nvtx.h). The tool's library has a function InitializeInjectionNvtx2.
** It receives a function that returns our tables by number: the table of versions, and per module
** the table in which the tool puts its own functions. Tools refuse a client that lacks one of the
** six modules; only two functions, of CORE, are used here.
*/
#include "base/nvtx.h"
#include "base/machine.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3, VERSION = 3 };
enum { NONE, CORE, CUDA, OPENCL, CUDART, CORE2, SYNC, MODULES, MOST_PLACES = 16 };
enum { RANGE_PUSH = 9, RANGE_POP = 11 };                                      /* of CORE */

typedef void (*any_function)(void);
static any_function places[MODULES][MOST_PLACES], *table[MODULES][MOST_PLACES];
static any_function *const place = places[CORE];

static int get_module(int module, any_function ***out, unsigned *size) {
  static const uint8_t count[MODULES] = { [CORE] = 16, [CUDA] = 9, [OPENCL] = 15, [CUDART] = 7,
                                          [CORE2] = 16, [SYNC] = 7 };
  if (module <= NONE || module >= MODULES) return 0;
  for (int i = 1; i < count[module]; i++) table[module][i] = &places[module][i];
  if (out) *out = table[module];
  if (size) *size = count[module];
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

/* Opens the library that the environment names, and closes it again if it is no tool or refuses
** this client. A tool that accepts may fill the tables later. */
static void open_tool(void) {
  const char *file = getenv("NVTX_INJECTION64_PATH");
  int (*begin)(const void *(*)(uint32_t)) = NULL;
  char path[512];
  void *tool = file && *file ? dlopen(fl_machine_path(file, path, sizeof path), RTLD_LAZY) : NULL;
  void *f = tool ? dlsym(tool, "InitializeInjectionNvtx2") : NULL;
  memcpy(&begin, &f, sizeof begin);                /* ISO C has no such cast */
  if (begin && begin(get_table)) on = 1;
  else if (tool) dlclose(tool);
}

int fl_nvtx_on(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_tool);
  return on;
}

void fl_nvtx_push(const char *name) {
  int (*push)(const char *);
  if (!fl_nvtx_on() || !place[RANGE_PUSH]) return;
  memcpy(&push, &place[RANGE_PUSH], sizeof push);
  push(name);
}

void fl_nvtx_pop(void) {
  int (*pop)(void);
  if (!fl_nvtx_on() || !place[RANGE_POP]) return;
  memcpy(&pop, &place[RANGE_POP], sizeof pop);
  pop();
}
