/*
** The fake GPU that computes ("computes=1" in FAKE_CUDA, fake_cuda.c): a text for NVRTC goes
** through the preprocessor of g++, fake_rewrite.c, fake_prune.c and g++ itself; the shared object
** is the image. Its messages go to NVRTC's log. The text, headers given with it, and those CUDA
** headers that the fake has and the text names, are written into a folder, which is removed after
** the compilation. An image that was made before is read instead where a run of the suite keeps
** them (fake_store.c). FAKE_CUDA_PLANT="old|new" plants a fault in each text that has 'old', for
** specs that show that it is detected; FAKE_CUDA_KEEP=1 keeps the folders for inspection.
*/
#include "fake_fibers.c"
#include "fake_rewrite.c"
#include "fake_prune.c"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fake_store.c"

extern char **environ;
typedef struct fake_source {
  fake_out files;                 /* names and texts in turn, each with its final 0; text.cu last */
  char folder[128];               /* "": not made yet */
  char *image, log[2000];
  size_t bytes;
} fake_source;

/* Adds the text, with 'old' of FAKE_CUDA_PLANT="old|new" replaced. */
static void fake_plant(fake_out *o, const char *text) {
  const char *plant = getenv("FAKE_CUDA_PLANT"), *bar = plant ? strchr(plant, '|') : NULL;
  if (bar) {
    char old[200];
    snprintf(old, sizeof old, "%.*s", (int)(bar - plant), plant);
    for (const char *at; old[0] && (at = strstr(text, old)) != NULL; text = at + strlen(old)) {
      fake_add_text(o, text, (size_t)(at - text));
      fake_say(o, bar + 1);
    }
  }
  fake_add_text(o, text, strlen(text) + 1);
}

#define FAKE_GROUPS "#include \"fake_groups.hh\"\n"
#define FAKE_CUB "#include \"fake_cub.hh\"\n"
static const char *const fake_headers[][2] = {
  { "cuda_fp16.h", "" }, { "cuda_bf16.h", "" }, { "cuda_runtime.h", "" }, { "cuda.h", "" },
  { "device_launch_parameters.h", "" }, { "vector_types.h", "" },
  { "cooperative_groups.h", FAKE_GROUPS }, { "cooperative_groups/reduce.h", FAKE_GROUPS },
  { "cooperative_groups/scan.h", FAKE_GROUPS },
  { "cooperative_groups/memcpy_async.h", FAKE_GROUPS },
  { "cub/cub.cuh", FAKE_CUB }, { "cub/warp/warp_reduce.cuh", FAKE_CUB },
  { "cub/warp/warp_scan.cuh", FAKE_CUB }, { "cub/block/block_scan.cuh", FAKE_CUB },
  { "cub/block/block_reduce.cuh", FAKE_CUB },
  { "cuda/std/limits", "#include <fl_std>\nnamespace cuda { namespace std = ::std; }\n" },
};

static void *fake_source_new(const char *text, int n, const char *const *headers,
                             const char *const *names) {
  fake_source *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  for (int i = 0; i < n; i++) {
    fake_add_text(&s->files, names[i], strlen(names[i]) + 1);
    fake_add_text(&s->files, headers[i], strlen(headers[i]) + 1);
  }
  fake_add_text(&s->files, "text.cu", sizeof "text.cu");
  fake_plant(&s->files, text);
  return s;
}

static void fake_write_source(fake_source *s) {
  const char *folder = getenv("TMPDIR");
  snprintf(s->folder, sizeof s->folder, "%s/fake-XXXXXX", folder ? folder : "/tmp");
  if (!mkdtemp(s->folder)) abort();
  for (size_t i = 0; i < sizeof fake_headers / sizeof *fake_headers; i++) {
    const char *name = fake_headers[i][0], *text = fake_headers[i][1];
    if (memmem(s->files.at, s->files.n, name, strlen(name)))
      fake_write_file(s->folder, name, text, strlen(text));
  }
  for (const char *name = s->files.at; name < s->files.at + s->files.n;) {
    const char *text = name + strlen(name) + 1;
    fake_write_file(s->folder, name, text, strlen(text));
    name = text + strlen(text) + 1;
  }
}

static int fake_remove(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st; (void)kind; (void)at;
  return remove(path);
}

static void fake_source_free(void *source) {
  fake_source *s = source;
  if (s->folder[0] && !getenv("FAKE_CUDA_KEEP") &&
      nftw(s->folder, fake_remove, 8, FTW_DEPTH | FTW_PHYS) != 0) abort();
  free(s->files.at);
  free(s->image);
  free(s);
}

/* "computes=2": kernels run for so long that -O1 pays; else -Og, which g++ needs less time for. */
static int fake_long;

/* Runs g++ in the source's folder and adds its messages to the log; returns 1 if it succeeds. */
static int fake_gxx(fake_source *s, const char **argv) {
  posix_spawn_file_actions_t act;
  char path[160];
  pid_t child;
  int status = 1;
  snprintf(path, sizeof path, "%s/log", s->folder);
  posix_spawn_file_actions_init(&act);
  posix_spawn_file_actions_addopen(&act, 2, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&act, 2, 1);
  const int e = posix_spawnp(&child, argv[0], &act, NULL, (char **)argv, environ);
  posix_spawn_file_actions_destroy(&act);
  while (e == 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (e == 0 && status == 0) return 1;
  size_t n;
  char *log = fake_read_file(s->folder, "log", &n);
  const char *first = log ? strstr(log, "error") : NULL;
  while (first && first > log && first[-1] != '\n') first--;
  snprintf(s->log, sizeof s->log, "%s", e ? "g++ does not start" : first ? first : log ? log : "?");
  free(log);
  return 0;
}

/* The NVRTC options that g++ understands. */
static int fake_options(const char **argv, int k, int n, const char *const *options) {
  static const char *const kept[] = { "-D", "-U", "-std=", "--std=", "-I" };
  for (int i = 0; i < n; i++) {
    const char *o = options[i];
    for (size_t j = 0; j < sizeof kept / sizeof *kept; j++)
      if (strncmp(o, kept[j], strlen(kept[j])) == 0) argv[k++] = o;
    if (strncmp(o, "--include-path=", 15) == 0 && !strstr(o, "/cuda")) {
      argv[k++] = "-I";
      argv[k++] = o + 15;
    }
    if (strncmp(o, "--define-macro=", 15) == 0) {
      argv[k++] = "-D";
      argv[k++] = o + 15;
    }
  }
  return k;
}

/* The text as C++; NULL if the preprocessor refuses it. *own: it is made from s->files alone. */
static char *fake_preprocess(fake_source *s, int n, const char *const *options, int *own) {
  char in[160], mid[160];
  size_t bytes;
  snprintf(in, sizeof in, "%s/text.cu", s->folder);
  snprintf(mid, sizeof mid, "%s/text.ii", s->folder);
  const char *first[] = { "g++", "-E", "-std=c++17", "-nostdinc", "-x", "c++", "-include",
                          FAKE_FOLDER "/fake_words.hh", "-I", s->folder, "-I", FAKE_FOLDER, "-o",
                          mid, in };
  const size_t k = sizeof first / sizeof *first;
  const char **argv = calloc(k + (size_t)n + 1, sizeof *argv);
  if (!argv) abort();
  memcpy(argv, first, sizeof first);
  memcpy(argv + k, options, (size_t)n * sizeof *argv);
  char *text = fake_gxx(s, argv) ? fake_read_file(s->folder, "text.ii", &bytes) : NULL;
  free(argv);
  *own = text && !fake_reads_elsewhere(text, s->folder);
  char *made = text ? fake_prune(fake_rewrite(text)) : NULL;
  free(text);
  return made;
}

/* Whether fmaf() can be an instruction: a call takes longer, and has the same result. */
static int fake_has_fma(void) {
#if defined __x86_64__
  return __builtin_cpu_supports("fma") != 0;
#else
  return 0;
#endif
}

/* Makes the image, if the text compiles; options[0] is the level. Returns 1 if it is made and can
** be kept. It is linked with neither libc nor libm, which a process that opens it has and ld would
** read for long. */
static int fake_make_image(fake_source *s, int n, const char *const *options) {
  char in[160], out[160];
  int own;
  if (!s->folder[0]) fake_write_source(s);
  char *made = fake_preprocess(s, n, options, &own);
  if (!made) return 0;
  fake_write_file(s->folder, "text.cc", made, strlen(made));
  free(made);
  snprintf(in, sizeof in, "%s/text.cc", s->folder);
  snprintf(out, sizeof out, "%s/text.so", s->folder);
  const char *second[] = { "g++", "-std=c++17", options[0], "-finline-functions-called-once",
    "-ftree-sra", "-fira-region=one", "-shared", "-fPIC", "-w", "-fpermissive",
    "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti",
    "-fno-threadsafe-statics", "-fno-asynchronous-unwind-tables", "-fno-math-errno",
    "-fno-trapping-math", "-Wl,-Bsymbolic", "-nodefaultlibs", "-o", out, in, "-lgcc",
    fake_has_fma() ? "-mfma" : NULL, NULL };
  if (fake_gxx(s, second)) s->image = fake_read_file(s->folder, "text.so", &s->bytes);
  return s->image && own;
}

/* Whether the options name folders, so that files may be read that are not among the source's. */
static int fake_searches(int n, const char *const *options) {
  for (int i = 0; i < n; i++)
    if (strncmp(options[i], "-I", 2) == 0) return 1;
  return 0;
}

static int fake_source_compile(void *source, int n, const char *const *options) {
  fake_source *s = source;
  char name[65];
  const char **kept = calloc((size_t)n * 2 + 2, sizeof *kept);
  if (!kept) abort();
  kept[0] = fake_long ? "-O1" : "-Og";
  const int k = fake_options(kept, 1, n, options), keep = fake_images() && !fake_searches(k, kept);
  if (keep) {
    fake_name_image(name, &s->files, k, kept);
    s->image = fake_find_image(name, &s->bytes);
    if (s->image && getenv("FAKE_CUDA_KEEP")) fake_write_source(s);
  }
  if (!s->image && fake_make_image(s, k, kept) && keep) fake_keep_image(name, s->image, s->bytes);
  free(kept);
  return s->image != NULL;
}

static const char *fake_source_log(void *source) { return ((fake_source *)source)->log; }
static const char *fake_source_image(void *source, size_t *n) {
  *n = ((fake_source *)source)->bytes;
  return ((fake_source *)source)->image;
}

/* ---- modules ---- */

static void *fake_object_open(const char *image, size_t n) {
  static int serial;
  const char *folder = getenv("TMPDIR");
  char name[64], path[256];
  snprintf(name, sizeof name, "fake-%d-%d.so", (int)getpid(), serial++);
  snprintf(path, sizeof path, "%s/%s", folder ? folder : "/tmp", name);
  fake_write_file(folder ? folder : "/tmp", name, image, n);
  void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!so) fprintf(stderr, "the fake GPU: %s\n", dlerror());
  unlink(path);
  fake_machine **m = so ? (fake_machine **)dlsym(so, "fake_m") : NULL;
  fake_open_gpu();
  if (m) *m = &gpu.m;
  return so;
}
static void fake_object_close(void *so) { dlclose(so); }

/* Finds the kernel 'name' (with C linkage) in the shared object and fills *e; 0 if it has none. */
static int fake_object_entry(void *so, const char *name, fake_entry *e) {
  char word[128];
  int (*sizes)(unsigned *);
  if (!dlsym(so, name)) return 0;
  snprintf(word, sizeof word, "fake_run_%s", name);
  void *run = dlsym(so, word);
  snprintf(word, sizeof word, "fake_args_%s", name);
  void *args = dlsym(so, word);
  if (!run || !args) return 0;
  memcpy(&e->run, &run, sizeof run);
  memcpy(&sizes, &args, sizeof args);
  e->n = sizes(NULL);
  if (e->n > FAKE_ARGS) return 0;
  sizes(e->size);
  return 1;
}

static const char *fake_object_launch(const fake_entry *e, void **params, const unsigned *grid,
                                      const unsigned *block, unsigned shared) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  const char *why = fake_run_grid(e->run, params, (fake_dim){ grid[0], grid[1], grid[2] },
                                  (fake_dim){ block[0], block[1], block[2] }, shared);
  pthread_mutex_unlock(&lock);
  return why;
}

static const fake_computer fake_with_gxx = {
  fake_source_new, fake_source_free, fake_source_compile, fake_source_log, fake_source_image,
  fake_object_open, fake_object_close, fake_object_entry, fake_object_launch,
};
