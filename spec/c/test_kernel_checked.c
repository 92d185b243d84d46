/*
** Kernels with checks compiled in (kernel/text/text_check.h). The CUDA text of every kernel that
** the front end is tested with, and of those in spec/kernel/races/kernel_plants_spec.lua, must
** compile after kernels/check.cu. Also tested: the layout of shared memory and the list of asserts.
** That the checks find errors needs a GPU: kernel_plants_spec.lua with FLAME_DEVICE=cuda.
*/
#include "cuda/text/embedded.h"
#include "kernel/ad/ad.h"
#include "kernel/lanes/lane.h"
#include "kernel/front/source.h"
#include "kernel/text/text.h"
#include "kernel/text/text_check.h"
#include "kernel/text/text_stop.h"
#include "kernel_sources.h"
#include "nvrtc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static fl_mem mem;
#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static void check(int ok, const char *what, const char *detail) {
  if (ok) passed++;
  else failed++, printf("FAILED: %s: %s\n", what, detail ? detail : "");
}

/* ---- NVRTC --------------------------------------------------------------------------- */

static void compiles(const char *what, const char *text) {
  static const char *const options[] = { "--gpu-architecture=sm_90", "-default-device" };
  nvrtc n;
  void *program = NULL;
  size_t size = 0;
  if (!nvrtc_open(&n)) {
    printf("no NVRTC here: texts are not compiled\n");
    return;
  }
  if (n.create(&program, text, "checked.cu", 0, NULL, NULL)) {
    check(0, what, "no program");
    return;
  }
  const int bad = nvrtc_judge(n.compile, program, COUNT(options), options);
  n.log_size(program, &size);
  char *log = calloc(1, size + 1);
  n.log(program, log);
  check(!bad, what, log);
  if (bad && getenv("FLAME_TEXT_DUMP")) puts(text);
  free(log);
  n.destroy(&program);
}

/* ---- texts --------------------------------------------------------------------------- */

static int number, derived;
enum { EACH = 3 };            /* NVRTC is slow, so adjoints only of every third kernel */

/* Adds the adjoint of f, if it has one, without the check of uninitialised reads (UNINIT), which a
** launch of an adjoint leaves out too. */
static void add_adjoint(fl_text *t, fl_kfunc *f, unsigned checks) {
  uint8_t want[64] = { 0 };
  for (int i = 0; i < f->n_params && i < 64; i++)
    want[i] = f->params[i].is_pointer && !f->params[i].is_const ? FL_KAD_OUTPUT | FL_KAD_FRESH
                                                                : FL_KAD_INPUT;
  const fl_kad_request r = { .want = want, .deterministic = derived % 2 };
  fl_kad *ad = f->n_params <= 64 ? fl_kad_adjoint(f->arena, f, &r) : NULL;
  if (!ad || !ad->func) return;
  derived++;
  fl_ktext_checked(t, ad->func, checks & ~(unsigned)FL_LANE_UNINIT);
}

/* Adds the checked texts of all kernels of a source, each under another name. */
static void add(fl_text *t, const char *what, const char *source, unsigned checks) {
  fl_error e = { .code = FLAME_OK };
  fl_ksource *s = fl_ksource_parse(&mem, &e, source, strlen(source));
  check(s && s->n_kernels > 0, what, "it does not parse");
  for (int i = 0; s && i < s->n_kernels; i++) {
    fl_kfunc *f = s->kernels[i];
    if (!f->has_body) { check(0, what, f->refusal); continue; }
    f->name = fl_karena_printf(f->arena, "kernel_%d", number++);
    fl_ktext_checked(t, f, checks);
    if (number % EACH == 0) add_adjoint(t, f, checks);
  }
  fl_ksource_free(s);
}

static const char *const planted[] = {
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  if (i <= n)\n"
  "    y[i] = x[i];                                                    // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  if (i < n) y[i] = 0.5f * (x[i]\n"
  "                            + x[i - 1]);                            // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  float m[3][2] = {};\n"
  "  for (int j = 0; j <= 3; j++)\n"
  "    m[j][1] = x[j];                                                 // HERE\n"
  "  if (threadIdx.x < n) y[threadIdx.x] = m[0][1];\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  if (i >= n) return;\n"
  "  y[i] = x[i];\n"
  "  if (i == 40)\n"
  "    y[7] = 2.f * x[i];                                              // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
  "  if (i < n)\n"
  "    y[i % 50] = x[i];                                               // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[128];\n"
  "  int i = threadIdx.x;\n"
  "  s[i] = i < n ? x[i] : 0.f;\n"
  "  // __syncthreads() is forgotten\n"
  "  if (i < n)\n"
  "    y[i] = s[127 - i];                                              // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[128];\n"
  "  int i = threadIdx.x;\n"
  "  for (int t = 0; t < 3; t++) {\n"
  "    s[i] = i < n ? t * x[i] : 0.f;                                  // HERE\n"
  "    __syncthreads();\n"
  "    if (i < n) y[i] = s[127 - i];\n"
  "  }\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[128];\n"
  "  int i = threadIdx.x;\n"
  "  if (i != 60) s[i] = i < n ? x[i] : 0.f;\n"
  "  __syncthreads();\n"
  "  if (i < n)\n"
  "    y[i] = s[127 - i];                                              // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  float v;\n"
  "  if (i != 5 && i < n) v = x[i];\n"
  "  if (i < n)\n"
  "    y[i] = v;                                                       // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[128];\n"
  "  int i = threadIdx.x;\n"
  "  if (i < n) {\n"
  "    s[i] = x[i];\n"
  "    __syncthreads();                                                // HERE\n"
  "    y[i] = s[n - 1 - i];\n"
  "  }\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  if (i < 10)\n"
  "    y[i] = __shfl_down_sync(0xffffffffu, x[i], 4);                  // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  if (i < n)\n"
  "    y[i] = x[i] * (n / (i - 3));                                    // HERE\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  if (i < n) {\n"
  "    assert(x[i] > 0.f);                                             // HERE\n"
  "    y[i] = x[i];\n"
  "  }\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[128];\n"
  "  int i = threadIdx.x;\n"
  "  s[i] = i < n ? x[i] : 0.f;\n"
  "  __syncthreads();\n"
  "  if (i < n) y[i] = s[n - 1 - i];\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  int i = threadIdx.x;\n"
  "  if (i < n) atomicAdd(&y[i % 3], x[i]);\n"
  "  y[50] = 1.f;\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[128];\n"
  "  int i = threadIdx.x;\n"
  "  if (i >= n) return;\n"
  "  s[i] = x[i];\n"
  "  __syncthreads();\n"
  "  y[i] = s[n - 1 - i];\n"
  "}",
  "__global__ void k(const float *x, float *y, int n) {\n"
  "  __shared__ float s[128];\n"
  "  int i = threadIdx.x;\n"
  "  s[i] = i < n ? x[i] : 0.f;\n"
  "  for (int d = 64; d > 0; d /= 2) {\n"
  "    __syncthreads();\n"
  "    if (i < d) s[i] += s[i + d];\n"
  "  }\n"
  "  if (i == 0) y[0] = s[0];\n"
  "}",
};

static void begin(fl_text *t) {
  fl_text_init(t, &mem);
  fl_ktext_prelude(t);
  check(fl_embedded_put(t, "check.cu"), "check.cu", "is not embedded");
}

static void all_compile(unsigned checks) {
  fl_text t;
  begin(&t);
  for (int i = 0; i < COUNT(good); i++) add(&t, good[i].name, good[i].text, checks);
  for (int i = 0; i < COUNT(with_half); i++) add(&t, with_half[i].name, with_half[i].text, checks);
  for (int i = 0; i < COUNT(planted); i++) add(&t, "planted", planted[i], checks);
  check(derived > 8, "adjoints", "are too few");
  compiles("all checked texts", fl_text_str(&t));
  fl_text_free(&t);
}

/* ---- what the launcher is told ------------------------------------------------------- */

static void layout(void) {
  static const char text[] =
    "__global__ void k(const float *x, float *y, int n) {\n"
    "  __shared__ double a[3]; __shared__ short b[5]; extern __shared__ int c[];\n"
    "  int i = threadIdx.x; a[i % 3] = x[i]; b[i % 5] = 1; c[i] = 2; __threadfence(); __syncthreads();\n"
    "  assert(n > 0); assert(n < 7); y[i] = a[0] + b[0] + c[0];\n}\n";
  fl_error e = { .code = FLAME_OK };
  fl_ksource *s = fl_ksource_parse(&mem, &e, text, sizeof text - 1);
  const fl_kfunc *f = s ? s->kernels[0] : NULL;
  fl_kcheck c;
  check(f && f->has_body && fl_kcheck_open(&c, &mem, f, 7), "layout",
        f ? f->refusal : "it does not parse");
  check(c.grain == 2 && c.cells == 3 * 4 + 5 && c.n_arrays == 2 && c.waits && c.fences, "layout",
        "is wrong");
  for (int i = 0; i < f->n_vars; i++) {
    const fl_kvar *v = &f->vars[i];
    if (v->kind == FL_KV_SHARED)
      check(c.cell[i] == (v->dynamic ? 17 : v->type == FL_KT_F64 ? 0 : 12), "cells", v->name);
  }
  check(!strcmp(fl_kassert_of(f, 1)->text, "n < 7") && !fl_kassert_of(f, 2), "asserts",
        "are wrong");
  fl_kcheck_close(&c, &mem);
  fl_ksource_free(s);
}

int main(void) {
  layout();
  all_compile(FL_LANE_BOUNDS | FL_LANE_RACE | FL_LANE_UNINIT);
  check(mem.live_blocks == 0, "memory", "something is left");
  printf("kernel_checked: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
