/*
** Compiled kernels, found by a key (of a generated kernel: the bytes of fl_text_key): in memory as
** long as the context exists, on disk (cache.c), or compiled now (nvrtc.c). Needed kernels are
** queued first and built together, so that they compile in parallel. Text is made only for a kernel
** that is not in memory. Other modules hold the hand-written kernels of kernels/steps.cu, one
** module for each dtype, other files of kernels/, and the user's kernels.
*/
#include "base/nvtx.h"
#include "cuda/driver/explain.h"
#include "cuda/compile/module.h"
#include "cuda/text/embedded.h"
#include "cuda/compile/headers.h"
#include "kernel/text/text.h"
#include <stdio.h>
#include <string.h>

struct fl_module {
  struct fl_module *next;               /* in its bin */
  struct fl_module *queue;              /* next wanted */
  uint64_t hash;
  fl_cu_module handle;                  /* NULL: not built */
  fl_cu_function function;              /* of a kernel */
  char *text;                           /* source, while queued */
  size_t text_bytes;                    /* of text, with its zero */
  void *image;                          /* cubin while being built */
  size_t image_bytes;
  uint8_t digest[32];                   /* disk key */
  uint8_t steps;                /* its entries are looked up by name when they are launched (all
                                ** modules but those of generated kernels) */
  char entry[FL_TEXT_NAME];             /* otherwise the name of its only entry */
  const fl_kfunction *user;            /* while queued, for a user's kernel: its text and options */
  size_t nkey;
  char key[];
};

int fl_modules_open(fl_cuda *s) {
  fl_modules *t = &s->modules;
  t->bin = fl_zalloc(s->mem, 64 * sizeof *t->bin);
  if (t->bin) t->nbin = 64;
  return t->bin != NULL;
}

static void drop(fl_cuda *s, fl_module *m, int host_only) {
  if (m->handle && !host_only) s->cu->ModuleUnload(m->handle);
  fl_free(s->mem, m->text, m->text_bytes);
  fl_free(s->mem, m->image, m->image_bytes);
  fl_free(s->mem, m, sizeof *m + m->nkey);
}

void fl_modules_close(fl_cuda *s, int host_only) {
  fl_modules *t = &s->modules;
  for (int64_t i = 0; i < t->nbin; i++) {
    for (fl_module *m = t->bin[i], *next; m; m = next) {
      next = m->next;
      drop(s, m, host_only);
    }
  }
  fl_free(s->mem, t->bin, (size_t)t->nbin * sizeof *t->bin);
  memset(t, 0, sizeof *t);
}

static fl_module **bin_of(fl_modules *t, uint64_t hash) {
  return &t->bin[hash & (uint64_t)(t->nbin - 1)];
}

/* Doubles the bins; without memory for that chains get longer. */
static void grow(fl_cuda *s) {
  fl_modules *t = &s->modules;
  const int64_t nold = t->nbin;
  fl_module **old = t->bin, **fresh = fl_zalloc(s->mem, 2 * (size_t)nold * sizeof *fresh);
  if (!fresh) return;
  t->bin = fresh;
  t->nbin = 2 * nold;
  for (int64_t i = 0; i < nold; i++) {
    for (fl_module *m = old[i], *next; m; m = next) {
      next = m->next;
      fl_module **b = bin_of(t, m->hash);
      m->next = *b;
      *b = m;
    }
  }
  fl_free(s->mem, old, (size_t)nold * sizeof *old);
}

/* The module with this key; a new one, queued, if there is none (then *fresh is 1). */
static fl_module *intern(fl_cuda *s, const char *key, size_t n, int *fresh) {
  fl_modules *t = &s->modules;
  const uint64_t hash = fl_hash64(key, n, 17);
  *fresh = 0;
  for (fl_module *m = *bin_of(t, hash); m; m = m->next)
    if (m->hash == hash && m->nkey == n && memcmp(m->key, key, n) == 0) return m;
  if (t->n >= 2 * t->nbin) grow(s);
  fl_module *m = fl_zalloc(s->mem, sizeof *m + n);
  if (!m) {
    FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory for a kernel");
    return NULL;
  }
  m->hash = hash;
  m->nkey = n;
  memcpy(m->key, key, n);
  fl_module **b = bin_of(t, hash);
  m->next = *b;
  *b = m;
  t->n++;
  m->queue = t->wanted;
  t->wanted = m;
  *fresh = 1;
  return m;
}

/* Removes a queued module again; it is the first in the queue. */
static void forget_first(fl_cuda *s) {
  fl_modules *t = &s->modules;
  fl_module *m = t->wanted, **b = bin_of(t, m->hash);
  t->wanted = m->queue;
  while (*b != m) b = &(*b)->next;
  *b = m->next;
  t->n--;
  drop(s, m, 0);
}

void fl_modules_forget(fl_cuda *s) {
  while (s->modules.wanted) forget_first(s);
}

/* Gives the text to the module; if making the text has failed, the module is removed. */
static fl_module *keep_text(fl_cuda *s, fl_module *m, fl_text *t, flame_status e) {
  const char *text = e == FLAME_OK ? fl_text_str(t) : NULL;
  if (text) m->text = fl_alloc(s->mem, t->n + 1);
  if (text && m->text) {
    memcpy(m->text, text, t->n + 1);
    m->text_bytes = t->n + 1;
    s->ctx->stats.texts++;
  } else {
    if (e == FLAME_OK) FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda",
                               "no host memory for a kernel's text");
    else FL_FAIL(s->ctx, e, "cuda", "no kernel can be made for this step");
    forget_first(s);
    m = NULL;
  }
  fl_text_free(t);
  return m;
}

fl_module *fl_modules_kernel(fl_cuda *s, const fl_kernel *k, int multi) {
  fl_text t;
  int fresh = 0;
  fl_module *m = NULL;
  fl_text_init(&t, s->mem);
  fl_text_add(&t, multi ? "m" : "s", 1);
  fl_text_key(k, multi, &t);
  const char *key = fl_text_str(&t);
  if (key) m = intern(s, key, t.n, &fresh);
  else FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory for a kernel's key");
  fl_text_free(&t);
  if (!m || !fresh) return m;
  fl_text_init(&t, s->mem);
  fl_text_prelude(&t);
  const size_t before = t.n;
  const flame_status e = fl_text_named(k, multi, m->entry, &t);
  if (s->ctx->show_texts && fl_text_str(&t)) fputs(t.at + before, stderr);
  return keep_text(s, m, &t, e);
}

/* Does this line of steps.cu instantiate, for some dtype, an entry other than the wanted one? Such
** a line begins with "MACRO(dtype, …)". */
static int unwanted(const char *line, size_t n, const char *entry) {
  static const char *const macros[][2] = { { "MATMUL(", "matmul_" },
                                           { "SCATTER_ADD(", "scatter_add_" },
                                           { "SCATTER_ANY(", "scatter_any_" } };
  for (int i = 0; i < 3; i++) {
    const size_t m = strlen(macros[i][0]), stem = strlen(macros[i][1]);
    const char *comma = n > m && memcmp(line, macros[i][0], m) == 0 ? memchr(line, ',', n) : NULL;
    if (!comma) continue;
    const size_t dtype = (size_t)(comma - line) - m;
    return strncmp(entry, macros[i][1], stem) != 0 || strlen(entry) != stem + dtype ||
           memcmp(entry + stem, line + m, dtype) != 0;
  }
  return 0;
}

/* Appends the text of steps.cu without the lines for other dtypes than that of 'entry', since NVRTC
** takes many seconds for all dtypes at once. */
static void put_steps(const char *text, const char *entry, fl_text *out) {
  while (*text) {
    const char *end = strchr(text, '\n');
    const size_t n = end ? (size_t)(end - text) + 1 : strlen(text);
    if (!unwanted(text, n, entry)) fl_text_add(out, text, n);
    text += n;
  }
}

fl_module *fl_modules_steps(fl_cuda *s, const char *entry) {
  fl_text key, all, t;
  int fresh = 0;
  fl_module *m = NULL;
  fl_text_init(&key, s->mem);
  fl_text_printf(&key, "steps %s", entry);
  const char *k = fl_text_str(&key);
  if (k) m = intern(s, k, key.n, &fresh);
  else FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory for a kernel's key");
  fl_text_free(&key);
  if (!m || !fresh) return m;
  m->steps = 1;
  fl_text_init(&all, s->mem);
  fl_text_init(&t, s->mem);
  fl_text_steps(&all);
  const char *text = fl_text_str(&all);
  if (text) put_steps(text, entry, &t);
  else t.failed = 1;
  fl_text_free(&all);
  return keep_text(s, m, &t, FLAME_OK);
}

/* ---- files of kernels/ for calls (call.h) ---- */

static fl_module *file_module(fl_cuda *s, const char *file, const char *defines, int prelude,
                              int *fresh) {
  fl_text key;
  fl_text_init(&key, s->mem);
  fl_text_printf(&key, "file %s %d %s", file, prelude, defines);
  const char *k = fl_text_str(&key);
  fl_module *m = k ? intern(s, k, key.n, fresh) : NULL;
  if (!k) FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory for a kernel's key");
  fl_text_free(&key);
  return m;
}

/* Appends the files named in 'names'; 0: one does not exist. */
static int put_files(fl_text *t, const char *names) {
  char name[64];
  int length;
  for (; sscanf(names, " %63s%n", name, &length) == 1; names += length)
    if (!fl_embedded_put(t, name)) return 0;
  return 1;
}

int fl_cuda_want_file(fl_cuda *s, const char *file, const char *defines, int prelude) {
  int fresh = 0;
  fl_module *m = file_module(s, file, defines, prelude, &fresh);
  if (!m || !fresh) return m != NULL;
  fl_text t;
  m->steps = 1;
  fl_text_init(&t, s->mem);
  fl_text_puts(&t, defines);
  if (prelude) fl_text_prelude(&t);
  const int found = put_files(&t, file);
  return keep_text(s, m, &t, found ? FLAME_OK : FLAME_INTERNAL) != NULL;
}

flame_status fl_cuda_file_entry(fl_cuda *s, const char *file, const char *defines, int prelude,
                                const char *entry, fl_cu_function *f) {
  int fresh = 0;
  fl_module *m = file_module(s, file, defines, prelude, &fresh);
  if (!m) return s->ctx->err.code;
  if (fresh || !m->handle) {
    if (fresh) forget_first(s);
    return FL_FAIL(s->ctx, FLAME_INTERNAL, "cuda", "%s was not made ready for this call", file);
  }
  return fl_module_entry(s, m, entry, f);
}

/* ---- user kernels ---- */

static fl_module *user_module(fl_cuda *s, const fl_kfunction *k, int *fresh) {
  char key[sizeof k->digest + 5] = "user ";
  memcpy(key + 5, k->digest, sizeof k->digest);
  return intern(s, key, sizeof key, fresh);
}

void fl_cuda_put_user(const fl_kfunction *k, fl_text *t) {
  if (k->guarded) fl_ktext_prelude(t);
  if (k->guarded) fl_embedded_put(t, "check.cu");
  fl_text_add(t, k->text, k->text_bytes);
}

int fl_cuda_want_user(fl_cuda *s, const fl_kfunction *k) {
  int fresh = 0;
  fl_module *m = user_module(s, k, &fresh);
  if (!m || !fresh) return m != NULL;
  fl_text t;
  m->steps = 1;
  m->user = k;
  fl_text_init(&t, s->mem);
  fl_cuda_put_user(k, &t);
  return keep_text(s, m, &t, FLAME_OK) != NULL;
}

flame_status fl_cuda_user_entry(fl_cuda *s, const fl_kfunction *k, fl_cu_function *f) {
  int fresh = 0;
  fl_module *m = user_module(s, k, &fresh);
  if (!m) return s->ctx->err.code;
  if (fresh) forget_first(s);
  if (fresh || !m->handle)
    return FL_FAIL(s->ctx, FLAME_INTERNAL, "kernel", "%s was not compiled", k->f->name);
  const fl_cu_result r = s->cu->ModuleGetFunction(f, m->handle, k->f->name);
  if (r == FL_CU_NOT_FOUND)
    return FL_FAIL(s->ctx, FLAME_BAD_ARGUMENT, "kernel", "there is no entry '%s' in it",
                   k->f->name);
  return fl_cuda_check(s, r, "cuModuleGetFunction");
}

/* Collects the compiler's options: the architecture, folders of headers and others of ours, then
** those of the user. */
static int user_options(fl_cuda *s, const fl_kunit *u, char arch[40], char path[1024],
                        const char **option, int most) {
  const char *ours[FL_NVRTC_OPTIONS];
  int n = 0;
  fl_nvrtc_options(s, arch, ours);
  option[n++] = ours[0];
  option[n++] = "-default-device";
  n += fl_include_options(option + n, path);
  if (s->ctx->sync_each || fl_nvtx_on()) option[n++] = "-lineinfo";
  for (int32_t i = 0; i < u->noption && n < most; i++) option[n++] = u->option[i];
  return n;
}

/* ---- building ---- */

/* Is the module's cubin kept on disk? */
static int is_kept(const fl_cuda *s, const fl_module *m) {
  return s->disk.folder >= 0 && !(m->user && m->user->reads_files);
}

/* Computes the key on disk, from what the cubin depends on, but for headers of the toolkit that a
** user's kernel includes (they come with NVRTC, whose version is in the key). */
static int digest(fl_cuda *s, fl_module *m) {
  char arch[40];
  const char *option[FL_NVRTC_OPTIONS];
  fl_text t;
  fl_nvrtc_options(s, arch, option);
  fl_text_init(&t, s->mem);
  if (m->user) fl_text_add(&t, (const char *)m->user->digest, sizeof m->user->digest);
  fl_text_printf(&t, "flame-lua %s text %d nvrtc %d.%d driver %d\n", FLAME_VERSION,
                 (int)FL_TEXT_VERSION, s->modules.rtc_major, s->modules.rtc_minor,
                 s->driver_version);
  for (const char **o = option; *o; o++) fl_text_printf(&t, "%s\n", *o);
  fl_text_add(&t, m->text, m->text_bytes);
  const char *all = fl_text_str(&t);
  if (all) fl_sha256(all, t.n, m->digest);
  if (!all) FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory for a kernel's key");
  fl_text_free(&t);
  return all != NULL;
}

/* Reports that the driver can not load an image of this kind: which GPU it is, and what the image
** is for. */
static flame_status no_image(fl_cuda *s, const fl_module *m, fl_cu_result r, const char *op) {
  const int arch = fl_cuda_image_arch(m->image, m->image_bytes), own = !m->user || !m->user->binary;
  char made[32] = "another architecture or version", driver[64];
  if (arch) snprintf(made, sizeof made, "sm_%d", arch);
  snprintf(driver, sizeof driver, "install a driver of CUDA %d.%d or later", s->modules.rtc_major,
           s->modules.rtc_minor);
  const char *remedy = !own ? "compile it for this GPU, or give its source"
    : arch && arch != s->arch ? "install the NVRTC of a newer CUDA toolkit" : driver;
  return FL_FAIL(s->ctx, own ? FLAME_NO_DEVICE : FLAME_BAD_ARGUMENT, op,
                 "no kernel image for this device (%s): GPU sm_%d, compiled for %s, the driver serves "
                 "CUDA %d.%d" FL_DO "; %s", fl_cuda_error_name(s->cu, r), s->arch, made,
                 s->driver_version / 1000, s->driver_version % 1000 / 10,
                 remedy);
}

static int is_image_error(fl_cu_result r) {
  return r == FL_CU_NO_BINARY || r == FL_CU_INVALID_PTX || r == FL_CU_UNSUPPORTED_PTX ||
         r == FL_CU_INVALID_IMAGE;
}

static flame_status load_image(fl_cuda *s, fl_module *m) {
  const fl_cu_result r = s->cu->ModuleLoadData(&m->handle, m->image);
  flame_status e = is_image_error(r) ? no_image(s, m, r, "cuda")
                                     : fl_cuda_check(s, r, "cuModuleLoadData");
  if (e != FLAME_OK) m->handle = NULL;
  if (e == FLAME_OK && !m->steps) e = fl_module_entry(s, m, m->entry, &m->function);
  return e;
}

static void unload(fl_cuda *s, fl_module *m) {
  if (m->handle) s->cu->ModuleUnload(m->handle);
  m->handle = NULL;
  m->function = NULL;
}

/* Loads the module from disk, if the file exists and the driver accepts it. A refused cubin is
** compiled again, so the refusal is not an error. */
static flame_status try_disk(fl_cuda *s, fl_module *m) {
  fl_error before = s->ctx->err;
  m->image = fl_disk_get(&s->disk, m->digest, &m->image_bytes);
  if (!m->image) return FLAME_OK;
  const flame_status e = load_image(s, m);
  if (e == FLAME_OK || s->dead || e == FLAME_NO_MEMORY) return e;
  s->ctx->err = before;
  unload(s, m);
  fl_free(s->mem, m->image, m->image_bytes);
  m->image = NULL;
  m->image_bytes = 0;
  return FLAME_OK;
}

/* Compiles and loads the n modules 'which' (those that were not found on disk), and stores their
** cubins there. */
static flame_status compile_all(fl_cuda *s, fl_module **which, fl_compile *job, int n) {
  enum { MOST = 24 };
  struct words { char arch[40], path[1024]; } *arch = fl_alloc(s->mem, sizeof *arch * (size_t)n);
  const char *(*option)[MOST] = fl_alloc(s->mem, sizeof *option * (size_t)n);
  flame_status e = arch && option ? FLAME_OK : FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda",
                                                       "no host memory for kernels");
  for (int i = 0; i < n && e == FLAME_OK; i++) {
    job[i] = (fl_compile){ .text = which[i]->text, .name = "flame.cu" };
    const fl_kfunction *k = which[i]->user;
    if (!k) continue;
    job[i].user = 1;
    job[i].name = k->unit->label;
    job[i].option = option[i];
    job[i].noption = user_options(s, k->unit, arch[i].arch, arch[i].path, option[i], MOST);
  }
  if (e == FLAME_OK) e = fl_nvrtc_compile(s, job, n);
  else memset(job, 0, sizeof *job * (size_t)n);
  for (int i = 0; i < n && e == FLAME_OK; i++) {
    fl_module *m = which[i];
    m->image = fl_nvrtc_cubin(s, &job[i], &m->image_bytes);
    e = m->image ? load_image(s,
                              m) : s->ctx->err.code != FLAME_OK ? s->ctx->err.code : FLAME_INTERNAL;
    if (e == FLAME_OK && is_kept(s, m)) fl_disk_put(&s->disk, m->digest, m->image, m->image_bytes);
  }
  fl_nvrtc_drop(s, job, n);
  fl_free(s->mem, option, sizeof *option * (size_t)n);
  fl_free(s->mem, arch, sizeof *arch * (size_t)n);
  return e;
}

/* A binary that the user gave is itself the image. */
static flame_status load_binary(fl_cuda *s, fl_module *m) {
  m->image = fl_alloc(s->mem, m->text_bytes);
  if (!m->image) return FL_FAIL(s->ctx, FLAME_NO_MEMORY, "kernel", "no host memory for a binary");
  m->image_bytes = m->text_bytes;
  memcpy(m->image, m->text, m->text_bytes);
  const fl_cu_result r = s->cu->ModuleLoadData(&m->handle, m->image);
  if (r == FL_CU_OK) return FLAME_OK;
  m->handle = NULL;
  if (is_image_error(r) && r != FL_CU_INVALID_IMAGE) return no_image(s, m, r, "cuda.load");
  return fl_cuda_check(s, r, "cuModuleLoadData");
}

/* Frees what only building needed. */
static void settle(fl_cuda *s, fl_module *m) {
  fl_free(s->mem, m->text, m->text_bytes);
  fl_free(s->mem, m->image, m->image_bytes);
  m->text = NULL;
  m->user = NULL;
  m->image = NULL;
  m->text_bytes = m->image_bytes = 0;
}

static flame_status build(fl_cuda *s, int n) {
  int missing = 0;
  flame_status e = fl_nvrtc_open(s);
  fl_module **which = fl_alloc(s->mem, (size_t)n * sizeof *which);
  fl_compile *job = fl_alloc(s->mem, (size_t)n * sizeof *job);
  if (e == FLAME_OK && (!which || !job))
    e = FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory for kernels");
  for (fl_module *m = s->modules.wanted; m && e == FLAME_OK; m = m->queue) {
    if (m->user && m->user->binary) {
      e = load_binary(s, m);
      continue;
    }
    if (is_kept(s, m)) e = digest(s, m) ? try_disk(s, m) : FLAME_NO_MEMORY;
    if (e == FLAME_OK && !m->handle) which[missing++] = m;
    s->ctx->stats.cache_hits += m->handle != NULL;
    s->ctx->stats.cache_misses += e == FLAME_OK && !m->handle;
  }
  if (e == FLAME_OK && missing) e = compile_all(s, which, job, missing);
  fl_free(s->mem, job, (size_t)n * sizeof *job);
  fl_free(s->mem, which, (size_t)n * sizeof *which);
  return e;
}

flame_status fl_modules_build(fl_cuda *s) {
  fl_modules *t = &s->modules;
  int n = 0;
  for (fl_module *m = t->wanted; m; m = m->queue) n++;
  if (!n) return FLAME_OK;
  const flame_status e = build(s, n);
  if (e != FLAME_OK) {
    fl_modules_forget(s);
    return e;
  }
  for (fl_module *m = t->wanted; m; m = m->queue) settle(s, m);
  t->wanted = NULL;
  return FLAME_OK;
}

fl_cu_function fl_module_function(const fl_module *m) { return m->function; }

flame_status fl_module_entry(fl_cuda *s, const fl_module *m, const char *name,
                             fl_cu_function *f) {
  return fl_cuda_check(s, s->cu->ModuleGetFunction(f, m->handle, name),
                       "cuModuleGetFunction");
}
