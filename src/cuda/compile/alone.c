/*
** What is done without a device: asking NVRTC whether a kernel's text compiles and making its
** image, which is kept in the cubin cache on disk; counting or clearing that cache, and keeping a
** measured choice (a number) there.
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

/* A kernel's text, its options for sm_90, and the key that its cubin is kept under. */
typedef struct request {
  fl_text text;
  const char *option[24];
  int n;
  char path[1024];
  uint8_t key[32];
} request;

/* 0: no host memory. In any case q->text must be freed. */
static int ask(request *q, const fl_nvrtc *rtc, const fl_kfunction *k) {
  int major = 0, minor = 0;
  q->n = 2 + fl_include_options(q->option + 2, q->path);
  q->option[0] = "--gpu-architecture=sm_90";
  q->option[1] = "-default-device";
  for (int32_t i = 0; i < k->unit->noption && q->n < 24; i++)
    q->option[q->n++] = k->unit->option[i];
  fl_text_init(&q->text, k->mem);
  fl_cuda_put_user(k, &q->text);
  rtc->nvrtcVersion(&major, &minor);
  fl_text t;
  fl_text_init(&t, k->mem);
  fl_text_add(&t, (const char *)k->digest, sizeof k->digest);
  fl_text_printf(&t, "flame-lua %s text %d alone nvrtc %d.%d\n", FLAME_VERSION,
                 (int)FL_TEXT_VERSION, major, minor);
  for (int i = 0; i < q->n; i++) fl_text_printf(&t, "%s\n", q->option[i]);
  const char *text = fl_text_str(&q->text);
  if (text) fl_text_add(&t, text, q->text.n);
  const char *all = fl_text_str(&t);
  if (all) fl_sha256(all, t.n, q->key);
  fl_text_free(&t);
  return text && all;
}

/* Compiles what was asked for. 0: NVRTC makes no program of the text; otherwise *result tells the
** outcome, and *p must be destroyed. */
static int compile(const fl_nvrtc *rtc, request *q, const fl_kfunction *k, fl_rtc_program *p,
                   fl_rtc_result *result) {
  if (rtc->nvrtcCreateProgram(p, fl_text_str(&q->text), k->unit->label, FL_HEADERS,
                              fl_header_texts, fl_header_names) != FL_RTC_OK) return 0;
  sigset_t mask;
  fl_signals_hold(&mask);
  *result = rtc->nvrtcCompileProgram(*p, q->n, q->option);
  fl_signals_release(&mask);
  return 1;
}

/* Sets the error of a text that NVRTC refuses. */
static flame_status refused(flame_context *c, const fl_nvrtc *rtc, fl_rtc_program p) {
  size_t bytes = 0;
  char *log = rtc->nvrtcGetProgramLogSize(p, &bytes) == FL_RTC_OK
              ? fl_zalloc(&c->mem, bytes + 1) : NULL;
  if (log && rtc->nvrtcGetProgramLog(p, log) != FL_RTC_OK) *log = 0;
  const flame_status e = FL_FAIL(c, FLAME_BAD_ARGUMENT, "kernel", "%.470s",
                                 log ? log : "it does not compile");
  if (log) fl_free(&c->mem, log, bytes + 1);
  return e;
}

/* The cubin of the program, in memory of the context, or NULL. */
static void *cubin(flame_context *c, const fl_nvrtc *rtc, fl_rtc_program p, size_t *bytes) {
  if (rtc->nvrtcGetCUBINSize(p, bytes) != FL_RTC_OK || !*bytes) return NULL;
  char *image = fl_alloc(&c->mem, *bytes);
  if (image && rtc->nvrtcGetCUBIN(p, image) != FL_RTC_OK) {
    fl_free(&c->mem, image, *bytes);
    image = NULL;
  }
  return image;
}

/* The kernel's cubin for sm_90, kept on disk or made now and kept, in memory of the context, with
** its size; NULL: there is none. *e is an error only if NVRTC refuses the text, and is FLAME_OK if
** NVRTC can not be opened. */
static void *image_of(flame_context *c, const fl_kfunction *k, size_t *bytes, flame_status *e) {
  const char *reason = "";
  const fl_nvrtc *rtc = fl_cuda_libraries.nvrtc(&reason);
  fl_rtc_program p;
  fl_rtc_result result;
  request q;
  fl_disk d;
  void *image = NULL;
  *e = FLAME_OK;
  if (!rtc) return NULL;
  fl_disk_open(&d, &c->mem, fl_env(FL_ENV_FLAME_CACHE_DIR));
  const int asked = ask(&q, rtc, k);
  if (asked && !k->reads_files) image = fl_disk_get(&d, q.key, bytes);
  if (asked && !image && compile(rtc, &q, k, &p, &result)) {
    if (result == FL_RTC_COMPILATION) *e = refused(c, rtc, p);
    if (result == FL_RTC_OK) image = cubin(c, rtc, p, bytes);
    if (image && !k->reads_files) fl_disk_put(&d, q.key, image, *bytes);
    rtc->nvrtcDestroyProgram(&p);
  }
  fl_disk_close(&d);
  fl_text_free(&q.text);
  return image;
}

flame_status fl_cuda_check_source(flame_context *c, const fl_kfunction *k) {
  size_t bytes = 0;
  flame_status e;
  void *image = image_of(c, k, &bytes, &e);
  fl_free(&c->mem, image, bytes);
  return e;
}

void *fl_cuda_image(flame_context *c, const fl_kfunction *k, size_t *bytes) {
  const fl_error before = c->err;
  flame_status e;
  void *image = image_of(c, k, bytes, &e);
  if (e != FLAME_OK) c->err = before;
  return image;
}
