/*
** What is done without a device: asking NVRTC whether a kernel's text compiles, making its image,
** counting or clearing the cubin cache on disk, and keeping a measured choice (a number) there.
*/
#include "base/env.h"
#include "base/hash.h"
#include "base/signals.h"
#include "cuda/compile/module.h"
#include "cuda/compile/headers.h"

void fl_cuda_cache_usage(flame_context *c, int clear, int64_t *entries, int64_t *bytes) {
  fl_disk d;
  fl_disk_open(&d, &c->mem, fl_env(FL_ENV_FLAME_CACHE_DIR));
  fl_disk_usage(&d, clear, entries, bytes);
  fl_disk_close(&d);
}

int64_t fl_cuda_kept_choice(flame_context *c, const char *key, size_t bytes, int64_t value) {
  fl_disk d;
  uint8_t digest[32];
  size_t size = 0;
  fl_sha256(key, bytes, digest);
  fl_disk_open(&d, &c->mem, fl_env(FL_ENV_FLAME_CACHE_DIR));
  if (value) fl_disk_put(&d, digest, &value, sizeof value);
  int64_t *kept = value ? NULL : fl_disk_get(&d, digest, &size);
  if (kept && size == sizeof *kept) value = *kept;
  fl_free(&c->mem, kept, size);
  fl_disk_close(&d);
  return value;
}

/* Compiles the kernel's text for sm_90. 0: NVRTC is missing or makes no program of the text;
** otherwise *result tells the outcome, and *p must be destroyed. */
static int compile(const fl_nvrtc *rtc, const fl_kfunction *k, fl_rtc_program *p,
                   fl_rtc_result *result) {
  const char *option[24] = { "--gpu-architecture=sm_90", "-default-device" };
  char path[1024];
  int n = 2;
  n += fl_include_options(option + n, path);
  if (!rtc) return 0;
  fl_text t;
  fl_text_init(&t, k->mem);
  fl_cuda_put_user(k, &t);
  const char *text = fl_text_str(&t);
  const int made = text && rtc->nvrtcCreateProgram(p, text, k->unit->label, FL_HEADERS,
                                                   fl_header_texts, fl_header_names) == FL_RTC_OK;
  fl_text_free(&t);
  if (!made) return 0;
  for (int32_t i = 0; i < k->unit->noption && n < 24; i++) option[n++] = k->unit->option[i];
  sigset_t mask;
  fl_signals_hold(&mask);
  *result = rtc->nvrtcCompileProgram(*p, n, option);
  fl_signals_release(&mask);
  return 1;
}

/* Does NVRTC accept the text? If NVRTC can not be opened nothing is known: FLAME_OK. */
flame_status fl_cuda_check_source(flame_context *c, const fl_kfunction *k) {
  const char *reason = "";
  const fl_nvrtc *rtc = fl_cuda_libraries.nvrtc(&reason);
  fl_rtc_program p;
  fl_rtc_result result;
  flame_status e = FLAME_OK;
  if (!compile(rtc, k, &p, &result)) return FLAME_OK;
  if (result == FL_RTC_COMPILATION) {
    size_t bytes = 0;
    char *log = rtc->nvrtcGetProgramLogSize(p, &bytes) == FL_RTC_OK
                ? fl_zalloc(&c->mem, bytes + 1) : NULL;
    if (log && rtc->nvrtcGetProgramLog(p, log) != FL_RTC_OK) *log = 0;
    e = FL_FAIL(c, FLAME_BAD_ARGUMENT, "kernel", "%.470s", log ? log : "it does not compile");
    if (log) fl_free(&c->mem, log, bytes + 1);
  }
  rtc->nvrtcDestroyProgram(&p);
  return e;
}

void *fl_cuda_image(flame_context *c, const fl_kfunction *k, size_t *bytes) {
  const char *reason = "";
  const fl_nvrtc *rtc = fl_cuda_libraries.nvrtc(&reason);
  fl_rtc_program p;
  fl_rtc_result result;
  char *image = NULL;
  if (!compile(rtc, k, &p, &result)) return NULL;
  if (result == FL_RTC_OK && rtc->nvrtcGetCUBINSize(p, bytes) == FL_RTC_OK && *bytes)
    image = fl_alloc(&c->mem, *bytes);
  if (image && rtc->nvrtcGetCUBIN(p, image) != FL_RTC_OK) {
    fl_free(&c->mem, image, *bytes);
    image = NULL;
  }
  rtc->nvrtcDestroyProgram(&p);
  return image;
}
