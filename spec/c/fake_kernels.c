/*
** Modules, launches and NVRTC of the fake driver (fake_driver.h), included by fake_driver.c. An
** image that NVRTC makes is a head of FAKE_IMAGE bytes. Where kernels are computed (fake_computes
** is set), the shared object with the compiled kernel follows the head.
*/
const fake_computer *fake_computes;
static char fake_why[400];                           /* why the last launch failed */

/* The head of an image: that of an ELF file, with the architecture among its flags (FAKE_ARCH) and,
** at FAKE_BYTES, the number of bytes that follow it; FAKE_WIDE: a user's text without
** __launch_bounds__(1024). */
enum { FAKE_IMAGE = 64, FAKE_BYTES = 32 /* that follow */, FAKE_ARCH = 48, FAKE_WIDE };
/* A function of a module. A module is a list of them: its head, which holds the object, and the
** functions that were requested from it, which are freed with it. */
typedef struct fake_function {
  struct fake_function *next;
  char name[64];
  fake_entry entry;
  unsigned dynamic;                                  /* dynamic shared memory allowed, in bytes */
  void *object;                                      /* of a module */
  int wide;                         /* it takes fake.registers */
} fake_function;
static fl_cu_result fake_ModuleLoadData(fl_cu_module *m, const void *image) {
  const unsigned char *head = image;
  uint64_t bytes;
  if (memcmp(head, "\177ELF", 4) != 0) return FL_CU_INVALID_IMAGE;
  if (fake.image && head[FAKE_ARCH] != fake.arch) return FL_CU_NO_BINARY;
  fake_function *f = fake_new(&fake.modules, sizeof *f);
  if (!f) return FL_CU_OUT_OF_MEMORY;
  memcpy(&bytes, head + FAKE_BYTES, sizeof bytes);
  if (fake_computes && bytes)
    f->object = fake_computes->load((const char *)image + FAKE_IMAGE, bytes);
  if (fake_computes && bytes && !f->object) {
    fake_delete(&fake.modules, f);
    return FL_CU_LAUNCH_FAILED;
  }
  f->wide = head[FAKE_WIDE];
  *m = (fl_cu_module)(void *)f;
  fake.loads++;
  return FL_CU_OK;
}
static fl_cu_result fake_ModuleUnload(fl_cu_module m) {
  fake_function *f = (fake_function *)(void *)m;
  for (fake_function *g = f->next, *next; g; g = next) {
    next = g->next;
    free(g);
  }
  if (f->object) fake_computes->unload(f->object);
  fake_delete(&fake.modules, f);
  return FL_CU_OK;
}
static fl_cu_result fake_ModuleGetFunction(fl_cu_function *f, fl_cu_module m,
                                           const char *name) {
  fake_function *all = (fake_function *)(void *)m, *g = calloc(1, sizeof *g);
  if (!g) return FL_CU_OUT_OF_MEMORY;
  if (all->object && !fake_computes->entry(all->object, name, &g->entry)) {
    free(g);
    return FL_CU_NOT_FOUND;
  }
  snprintf(g->name, sizeof g->name, "%s", name);
  g->dynamic = 48 << 10;
  g->wide = all->wide;
  g->next = all->next;
  all->next = g;
  *f = (fl_cu_function)(void *)g;
  return FL_CU_OK;
}
static fl_cu_result fake_FuncGetAttribute(int *value, unsigned which, fl_cu_function f) {
  const fake_function *g = (fake_function *)(void *)f;
  *value = which == 4 ? (g->wide && fake.registers ? fake.registers : 32) : which == 0 ? 1024 : 0;
  if (which == FL_CU_FUNC_DYNAMIC_SHARED) *value = (int)((fake_function *)(void *)f)->dynamic;
  return FL_CU_OK;
}
static fl_cu_result fake_FuncSetAttribute(fl_cu_function f, unsigned which, int v) {
  if (which != FL_CU_FUNC_DYNAMIC_SHARED) return FL_CU_OK;
  if (v < 0 || v > (fake.shared ? fake.shared : FAKE_SHARED)) return FL_CU_INVALID_VALUE;
  ((fake_function *)(void *)f)->dynamic = (unsigned)v;
  return FL_CU_OK;
}
/* Occupancy on a multiprocessor of 2,048 threads, at most 32 blocks and 228 KB of shared memory, of
** which each block takes 1 KB more than it asks for. */
static fl_cu_result fake_Occupancy(int *blocks, fl_cu_function f, int threads, size_t shared) {
  (void)f;
  const int by_threads = 2048 / threads, by_shared = (int)((228 * 1024) / (shared + 1024));
  *blocks = by_threads < by_shared ? by_threads : by_shared;
  if (*blocks > 32) *blocks = 32;
  return FL_CU_OK;
}
/* Sets a kernel node of a graph: the arguments are copied, as the real driver does. */
static void fake_set_node(fake_node *x, const fake_function *f, const unsigned *grid,
                          const unsigned *block, unsigned shared, void **params) {
  size_t bytes = 0;
  x->f = f;
  x->shared = shared;
  memcpy(x->grid, grid, sizeof x->grid);
  memcpy(x->block, block, sizeof x->block);
  for (int i = 0; i < f->entry.n; i++) bytes += (f->entry.size[i] + 15) / 16 * 16;
  free(x->args);
  x->args = bytes ? aligned_alloc(16, bytes) : NULL;
  char *at = x->args;
  for (int i = 0; i < f->entry.n; at += (f->entry.size[i++] + 15) / 16 * 16) {
    if (!x->args) abort();
    memcpy(at, params[i], f->entry.size[i]);
    x->at[i] = at;
  }
}
/* Runs the kernel, where kernels are computed. */
static fl_cu_result fake_compute(const fake_function *f, const unsigned *grid,
                                 const unsigned *block, unsigned shared, void **params) {
  if (!fake_computes || !f->entry.run) return FL_CU_OK;
  const char *why = fake_computes->launch(&f->entry, params, grid, block, shared);
  if (why) snprintf(fake_why, sizeof fake_why, "%s: %s", f->name, why);
  return why ? FL_CU_LAUNCH_FAILED : FL_CU_OK;
}
static fl_cu_result fake_LaunchKernel(fl_cu_function f, unsigned gx, unsigned gy,
                                      unsigned gz,
                                      unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                      fl_cu_stream s, void **params, void **extra) {
  (void)s; (void)extra;
  const uint64_t threads = (uint64_t)bx * by * bz;
  const fake_function *g = (fake_function *)(void *)f;
  const unsigned grid[] = { gx, gy, gz }, block[] = { bx, by, bz };
  if (!gx || !gy || !gz || !threads || threads > 1024) return FL_CU_INVALID_VALUE;
  if (shared > g->dynamic) return FL_CU_INVALID_VALUE;
  if (g->wide && threads * (unsigned)fake.registers > 65536) return FL_CU_LAUNCH_OUT_OF_RESOURCES;
  fake_node *x = fake_capture(FAKE_KERNEL);
  if (x) {
    fake_set_node(x, g, grid, block, shared, params);
    return FL_CU_OK;
  }
  if (fake.nlaunch < FAKE_LAUNCHES) {
    fake_launch *l = &fake.launch[fake.nlaunch];
    snprintf(l->name, sizeof l->name, "%s", g->name);
    l->grid = gx;
    l->block = bx;
    l->shared = shared;
  }
  fake.nlaunch++;
  if (fake.on_launch && params) fake.on_launch(params);
  if (fake.launch_size) memcpy(fake.launch_writes, fake.launch_bytes, fake.launch_size);
  return fake_compute(g, grid, block, shared, params);
}
/* Where kernels are computed, blocks run one after the other and cannot wait for one another, so a
** cooperative launch of several blocks is refused. */
static fl_cu_result fake_LaunchCooperative(fl_cu_function f, unsigned gx, unsigned gy, unsigned gz,
                                           unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                           fl_cu_stream s, void **params) {
  enum { TOO_LARGE = 720 };
  if (fake_computes && (uint64_t)gx * gy * gz > 1) return TOO_LARGE;
  return fake_LaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, params, NULL);
}

/* ---- NVRTC ---- */

typedef struct fake_program { uint64_t hash; int bad, wide; void *source; } fake_program;
static fl_rtc_result fake_nvrtcVersion(int *major,
                                       int *minor) {
  *major = fake.nvrtc / 10;
  *minor = fake.nvrtc % 10;
  return FL_RTC_OK;
}
/* The architectures of NVRTC: up to version 12 the first nine, in version 13 all from 75 on. */
static const int fake_archs[] = { 50, 60, 61, 70, 75, 80, 86, 89, 90, 100, 120 };
static fl_rtc_result fake_nvrtcGetNumSupportedArchs(int *n) {
  *n = fake.nvrtc >= 130 ? 7 : 9;
  return FL_RTC_OK;
}
static fl_rtc_result fake_nvrtcGetSupportedArchs(int *archs) {
  const int old = fake.nvrtc < 130;
  memcpy(archs, fake_archs + (old ? 0 : 4), sizeof(int) * (old ? 9 : 7));
  return FL_RTC_OK;
}
static fl_rtc_result fake_nvrtcCreateProgram(fl_rtc_program *p, const char *text,
                                             const char *name, int n,
                                             const char *const *headers, const char *const *names) {
  (void)name;
  fake_program *q = fake_new(&fake.programs, sizeof *q);
  if (!q) return FL_RTC_OUT_OF_MEMORY;
  q->hash = fl_hash64(text, strlen(text), 1);
  q->bad = strstr(text, "#error please") != NULL;
  q->wide = !strstr(text, "__launch_bounds__(1024)") && !strstr(text, "fl_kernel");
  if (fake_computes) q->source = fake_computes->source(text, n, headers, names);
  __atomic_fetch_add(&fake.texts, 1, __ATOMIC_RELAXED);
  if (fake.word && strstr(text, fake.word))
    __atomic_fetch_add(&fake.with_word, 1, __ATOMIC_RELAXED);
  *p = (fl_rtc_program)(void *)q;
  return FL_RTC_OK;
}
static fl_rtc_result fake_nvrtcDestroyProgram(fl_rtc_program *p) {
  fake_program *q = (fake_program *)(void *)*p;
  if (q && q->source) fake_computes->drop(q->source);
  fake_delete(&fake.programs, q);
  *p = NULL;
  return FL_RTC_OK;
}
static fl_rtc_result fake_nvrtcCompileProgram(fl_rtc_program p, int n,
                                              const char *const *options) {
  fake_program *q = (fake_program *)(void *)p;
  fake_add(&fake.compiles, 1);
  if (q->source && !q->bad) q->bad = !fake_computes->compile(q->source, n, options);
  return q->bad ? FL_RTC_COMPILATION : FL_RTC_OK;
}
/* The computer's image; NULL: there is none. */
static const char *fake_made(fl_rtc_program p, size_t *n) {
  const fake_program *q = (fake_program *)(void *)p;
  *n = 0;
  return q->source ? fake_computes->image(q->source, n) : NULL;
}
static fl_rtc_result fake_nvrtcGetCUBINSize(fl_rtc_program p,
                                            size_t *n) {
  fake_made(p, n);
  *n += FAKE_IMAGE;
  return FL_RTC_OK;
}
static fl_rtc_result fake_nvrtcGetCUBIN(fl_rtc_program p, char *cubin) {
  size_t n;
  const char *made = fake_made(p, &n);
  memset(cubin, 0, FAKE_IMAGE);
  memcpy(cubin, "\177ELF", 4);
  cubin[18] = (char)190;                              /* EM_CUDA */
  cubin[FAKE_ARCH] = (char)(fake.image ? fake.image : fake.arch);
  cubin[FAKE_WIDE] = (char)((fake_program *)(void *)p)->wide;
  memcpy(cubin + FAKE_BYTES, &(uint64_t){ n }, 8);
  memcpy(cubin + 56, &((fake_program *)(void *)p)->hash, 8);
  if (made) memcpy(cubin + FAKE_IMAGE, made, n);
  return FL_RTC_OK;
}
static const char *fake_log(fl_rtc_program p) {
  const fake_program *q = (fake_program *)(void *)p;
  return q->source ? fake_computes->log(q->source) : "flame.cu(1): no";
}
static fl_rtc_result fake_nvrtcGetProgramLogSize(fl_rtc_program p, size_t *n) {
  *n = strlen(fake_log(p)) + 1;
  return FL_RTC_OK;
}
static fl_rtc_result fake_nvrtcGetProgramLog(fl_rtc_program p, char *log) {
  strcpy(log, fake_log(p));
  return FL_RTC_OK;
}
static const char *fake_nvrtcGetErrorString(fl_rtc_result r) {
  return r == FL_RTC_OK ? "NVRTC_SUCCESS" : "NVRTC_ERROR";
}

