/*
** A tool that listens to NVTX, for fake_cuda.c: it writes each event to the standard error, one per
** line, indented by the open ranges. If NVTX_REFUSE is set, the tool refuses the process.
*/
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int nvtx_depth;

static int nvtx_push(const char *name) {
  fprintf(stderr, "NVTX %*s%s\n", 2 * nvtx_depth, "", name);
  return nvtx_depth++;
}
static int nvtx_pop(void) {
  if (nvtx_depth == 0) fprintf(stderr, "NVTX a pop too many\n");
  return --nvtx_depth;
}

typedef struct nvtx_callbacks {
  size_t size;
  int (*module)(int module, void (****table)(void), unsigned *size);
} nvtx_callbacks;
typedef struct nvtx_version {
  size_t size;
  uint32_t version, reserved;
  void (*set)(uint32_t);
} nvtx_version;

int InitializeInjectionNvtx2(const void *(*get)(uint32_t));
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*get)(uint32_t)) {
  const nvtx_callbacks *c = get(1);
  const nvtx_version *v = get(3);
  void (***table)(void) = NULL;
  unsigned size = 0;
  if (getenv("NVTX_REFUSE") || c->size != sizeof *c || v->size != sizeof *v || v->version != 3)
    return 0;
  static const unsigned sizes[] = { 0, 16, 9, 15, 7, 16, 7 };
  for (int i = 6; i >= 1; i--) {
    if (!c->module(i, &table, &size) || size != sizes[i] || table[0]) return 0;
    for (unsigned k = 1; k < size; k++) if (!table[k]) return 0;
  }
  if (c->module(0, &table, &size) || c->module(7, &table, &size)) return 0;
  *table[9] = (void (*)(void))nvtx_push;
  *table[11] = (void (*)(void))nvtx_pop;
  return 1;
}
