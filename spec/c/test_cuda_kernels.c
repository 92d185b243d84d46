/*
** Tests of what the CUDA device compiles and launches, on the fake driver: kernels and their caches
** in memory and on disk, traces, the tables of launches of several kernels, matrix products. Where
** there is a real NVRTC, it compiles the kernel texts.
*/
#include "fake_device.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- kernels ---- */

/* 1 if a kernel's name is 'ops' followed by 8 hexadecimal digits, the hash of its text. */
static int is_named(const char *name, const char *ops) {
  const size_t n = strlen(ops);
  return strncmp(name, ops, n) == 0 && strlen(name) == n + 8 &&
         strspn(name + n, "0123456789abcdef") == 8;
}

/* A kernel is named after its ops, as far as they fit (six do not), and the name that is launched
** must be the one that the text defines. */
static void a_name_tells_the_ops(void) {
  static sample q;
  fl_instr long_one[8];
  char name[2][FL_TEXT_NAME], line[2 * FL_TEXT_NAME];
  fl_text t[2];
  static const int op[] = { FL_OP_add, FL_OP_mul, FL_OP_add, FL_OP_atan2, FL_OP_sub,
                            FL_OP_maximum };
  rig *r = open_rig(0, 1);
  make_sample(&q, &r->c, FL_OP_sub);
  memcpy(long_one, q.instr[0], sizeof q.instr[0]);
  for (int i = 0; i < 6; i++) {
    long_one[2 + i] = q.instr[0][2];
    long_one[2 + i].op = (uint16_t)op[i];
  }
  q.kernel[0].instr = long_one;
  q.kernel[0].ninstr = 8;
  for (int i = 0; i < 2; i++) {
    fl_text_init(&t[i], &r->c.mem);
    q.kernel[0].size[0] += i;                               /* sizes are no part of the structure */
    CHECK(fl_text_named(&q.kernel[0], 0, name[i], &t[i]) == FLAME_OK);
  }
  CHECK(is_named(name[0], "fl_add_mul_atan2_sub_maximum_"));
  CHECK(strcmp(name[0], name[1]) == 0 && strcmp(fl_text_str(&t[0]), fl_text_str(&t[1])) == 0);
  snprintf(line, sizeof line, "#define fl_kernel %s\n", name[0]);
  CHECK(strstr(fl_text_str(&t[0]), line) != NULL);
  for (int i = 0; i < 2; i++) fl_text_free(&t[i]);
  drop_sample(&q);
  close_rig(r);
}

static void a_structure_is_compiled_once(void) {
  static sample q;
  rig *r = open_rig(0, 3);
  CHECK(r->c.stats.compiles == 3 && r->c.stats.texts == 3 && fake.compiles == 3 && fake.loads == 3);
  CHECK(r->d.table->prepare(&r->d, &r->p.plan) == FLAME_OK);
  make_sample(&q, &r->c, FL_OP_sub);
  q.plan.nstep = 3;
  /* another batch size */
  for (int i = 0; i < 5; i++) q.kernel[i].size[0] = q.kernel[i].points = q.kernel[i].rows = 333;
  CHECK(r->d.table->prepare(&r->d, &q.plan) == FLAME_OK);
  CHECK(r->c.stats.compiles == 3 && r->c.stats.texts == 3);
  CHECK(run_rig(r) == FLAME_OK && r->done == 3);
  CHECK(fake.nlaunch == 3);                                   /* the step of three is one */
  CHECK(is_named(fake.launch[0].name, "fl_add_") && fake.launch[0].grid > 0);
  drop_sample(&q);
  close_rig(r);
}

typedef struct teller { fl_trace trace; int32_t steps; double ms, end; } teller;

static void note_time(fl_trace *t, struct fl_device *d, const struct fl_plan *p, int32_t i,
                      const fl_timing *w) {
  teller *x = (teller *)t;
  CHECK(d->index == 1 && p != NULL && i == x->steps && w->start > 0);
  CHECK(w->host > 0 && w->host_ms >= 0 && w->start >= x->end && !w->replayed);
  x->steps++;
  x->ms += w->ms;
  x->end = w->start + w->ms;
}

/* A run under a trace tells the time of each step; where no events can be made to measure it, the
** run is the same without times. */
static void a_trace_hears_of_each_step(void) {
  for (int64_t k = 0; k < 8; k++) {
    teller t = { .trace = { note_time } };
    rig *r = open_rig(0, 3);
    r->d.trace = &t.trace;
    fake.only = "EventCreate";
    fake.code = FL_CU_OUT_OF_MEMORY;
    fake.calls = 0;
    fake.fail_at = k;
    CHECK(run_rig(r) == FLAME_OK && r->done == 3);
    CHECK(fake.nlaunch == 3);
    CHECK(k > 0 && k < 7 ? t.steps == 0 : t.steps == 3 && t.ms == 1.5);
    r->d.trace = NULL;
    fake.only = NULL;
    fake.fail_at = 0;
    close_rig(r);
  }
}

/* The table of addresses for a launch of several kernels is uploaded again only if an address in it
** has changed. */
static void a_table_is_sent_when_an_address_changes(void) {
  rig *r = open_rig(2, 1);
  void *y = r->d.table->alloc(&r->d, 4 * N);
  r->p.plan.nscalar = 0;                                      /* nothing else is sent */
  fake.only = "CopyIn";
  fake.calls = 0;
  CHECK(run_rig(r) == FLAME_OK && fake.calls == 1);
  CHECK(run_rig(r) == FLAME_OK && fake.calls == 1);
  r->at[1] = y;
  CHECK(run_rig(r) == FLAME_OK && fake.calls == 2);
  r->d.table->free(&r->d, y, 4 * N);
  close_rig(r);
}

/* Prepares the sample plan in a new context; returns how many kernels were compiled for it. */
static int64_t compiles_of_a_new_context(void) {
  rig *r = open_rig(0, 3);
  const int64_t n = r->c.stats.compiles;
  close_rig(r);
  return n;
}

typedef void (*on_file)(const char *path);
static int each_file(const char *folder, on_file f) {
  int n = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char path[600];
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    n++;
    if (f) f(path);
  }
  if (dir) closedir(dir);
  return n;
}

static void damage(const char *path) {
  const int fd = open(path, O_RDWR);
  const char c = '!';
  CHECK(fd >= 0 && pwrite(fd, &c, 1, 60) == 1);
  close(fd);
}
static void cut(const char *path) { CHECK(truncate(path, 20) == 0); }
static void delete(const char *path) { CHECK(unlink(path) == 0); }

static void cubins_are_kept_on_disk_and_checked(void) {
  char folder[] = "/tmp/flame-cache-XXXXXX", inner[64];
  struct stat st;
  CHECK(mkdtemp(folder) != NULL);
  snprintf(inner, sizeof inner, "%s/a/b", folder);
  setenv("FLAME_CACHE_DIR", inner, 1);
  CHECK(compiles_of_a_new_context() == 3 && each_file(inner, NULL) == 3);
  CHECK(stat(inner, &st) == 0 && (st.st_mode & 0777) == 0700);
  CHECK(compiles_of_a_new_context() == 0);
  each_file(inner, damage);
  CHECK(compiles_of_a_new_context() == 3 && each_file(inner, NULL) == 3);
  each_file(inner, cut);
  CHECK(compiles_of_a_new_context() == 3);
  CHECK(compiles_of_a_new_context() == 0);
  chmod(inner, 0777);                                        /* others could write it */
  CHECK(compiles_of_a_new_context() == 3);
  chmod(inner, 0700);
  CHECK(compiles_of_a_new_context() == 0);
  setenv("FLAME_CACHE_DIR", "off", 1);
  CHECK(compiles_of_a_new_context() == 3);
  each_file(inner, delete);
  rmdir(inner);
  snprintf(inner, sizeof inner, "%s/a", folder);
  rmdir(inner);
  rmdir(folder);
}

static void a_full_disk_cache_drops_the_oldest(void) {
  char folder[] = "/tmp/flame-cache-XXXXXX";
  uint8_t key[32] = { 0 };
  char data[1000] = { 1, 2, 3 };
  size_t size;
  fl_mem m = { 0 };
  fl_disk k;
  CHECK(mkdtemp(folder) != NULL);
  fl_disk_open(&k, &m, folder);
  CHECK(k.folder >= 0);
  k.limit = 10 * 1048;
  for (int i = 0; i < 30; i++) {
    key[0] = (uint8_t)i;
    fl_disk_put(&k, key, data, sizeof data);
  }
  const int n = each_file(folder, NULL);
  CHECK(n >= 7 && n <= 10);
  void *p = fl_disk_get(&k, key, &size);
  CHECK(p && size == sizeof data && memcmp(p, data, size) == 0);
  fl_free(&m, p, size);
  key[0] = 0;
  CHECK(fl_disk_get(&k, key, &size) == NULL);
  fl_disk_close(&k);
  each_file(folder, delete);
  rmdir(folder);
  CHECK(m.live_bytes == 0);
}

/* ---- matrix products ---- */

static void products_of_every_layout_are_right(void) {
  flame_context c;
  fl_device d;
  fake_reset();
  fake.arch = 75;                                   /* no kernel of ours for small products */
  CHECK(open_fake(&c, &d) == FLAME_OK);
  products(&d, FLAME_F32);
  /* batched products: all in one call; in one call with b broadcast; in a loop of two calls */
  const int64_t before = fake.products;
  product(&d, FLAME_F32, &(fl_matmul){ .nbatch = 2, .batch = { 2, 3 }, .m = 3, .n = 5,
                                       .k = 4,
                            .as = { 4, 1 }, .bs = { 5, 1 }, .abatch = { 36, 12 },
                            .bbatch = { 60, 20 },
                            .cbatch = { 45, 15 } }, 72, 120, 90);
  CHECK(fake.products == before + 1);
  product(&d, FLAME_F32, &(fl_matmul){ .nbatch = 2, .batch = { 2, 3 }, .m = 3, .n = 5,
                                       .k = 4,
                            .as = { 4, 1 }, .bs = { 5, 1 }, .abatch = { 36, 12 },
                            .cbatch = { 45, 15 } }, 72, 20, 90);
  CHECK(fake.products == before + 2);
  product(&d, FLAME_F32, &(fl_matmul){ .nbatch = 2, .batch = { 2, 3 }, .m = 3, .n = 5,
                                       .k = 4,
                            .as = { 4, 1 }, .bs = { 5, 1 }, .abatch = { 0, 12 },
                            .bbatch = { 60, 20 },
                            .cbatch = { 45, 15 } }, 36, 120, 90);
  CHECK(fake.products == before + 4);
  close_fake(&c, &d);
}

/* The name of our kernel that computes an f32 product of this size, or "" if cuBLASLt does. */
static const char *kernel_of(fl_device *d, int64_t m, int64_t n, int64_t k) {
  fl_matmul p = { .dtype = FLAME_F32, .m = m, .n = n, .k = k, .as = { k, 1 }, .bs = { n, 1 },
                  .at = { FL_AT_EXT, 0, 0 }, .bt = { FL_AT_EXT, 0, 0 }, .ct = { FL_AT_OUT, 0, 0 } };
  fl_step step = { .kind = FL_S_MATMUL, .matmul = &p };
  fl_out out = { .bytes = 4 * (m + 1) * (n + 1) * (k + 1) };
  fl_plan plan = { .device = 1, .next = 1, .nout = 1, .out = &out, .nstep = 1, .step = &step,
                   .mem = &d->ctx->mem };
  const int64_t size = 4 * (m + 1) * (n + 1) * (k + 1), before = fake.products;
  fl_fault fault;
  int32_t done;
  void *x[2] = { d->table->alloc(d, size), d->table->alloc(d, size) };
  fake.nlaunch = 0;
  CHECK(d->table->prepare(d, &plan) == FLAME_OK);
  CHECK(d->table->run(d, &plan, &(fl_binding){ .ext = x, .out = x + 1 }, &fault,
                      &done) == FLAME_OK);
  if (plan.prepared) plan.unprepare(&plan);
  for (int i = 0; i < 2; i++) d->table->free(d, x[i], size);
  CHECK((fake.products > before) == (fake.nlaunch == 0));
  return fake.nlaunch ? fake.launch[0].name : "";
}

static void small_products_of_f32_are_made_without_the_library(void) {
  flame_context c;
  fl_device d;
  fake_reset();
  fake.missing_blaslt = 1;
  CHECK(open_fake(&c, &d) == FLAME_OK);
  CHECK(strcmp(kernel_of(&d, 8, 8, 1), "small") == 0 && fake.launch[0].grid == 1);
  CHECK(strcmp(kernel_of(&d, 33, 17, 256), "small") == 0 && fake.launch[0].grid == 6);
  CHECK(strcmp(kernel_of(&d, 4096, 16, 3), "small") == 0 && fake.launch[0].grid == 256);
  close_fake(&c, &d);
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  CHECK(strcmp(kernel_of(&d, 8, 8, 4), "small") == 0);
  CHECK(strcmp(kernel_of(&d, 7, 8, 4), "") == 0 && strcmp(kernel_of(&d, 8, 7, 4), "") == 0);
  CHECK(strcmp(kernel_of(&d, 8, 8, 257), "") == 0);
  CHECK(strcmp(kernel_of(&d, 4097, 16, 1), "") == 0 && strcmp(kernel_of(&d, 16, 4097, 1), "") == 0);
  close_fake(&c, &d);
}

static void only_f32_products_take_tf32_and_only_where_asked(void) {
  static const int dtypes[] = { FLAME_F32, FLAME_F64 };
  for (int on = 0; on < 2; on++) {
    flame_context c;
    fl_device d;
    fake_reset();
    fake.arch = 75;
    CHECK(open_fake(&c, &d) == FLAME_OK);
    for (int i = 0; i < 2; i++) {
      product(&d, dtypes[i], &(fl_matmul){ .m = 3, .n = 5, .k = 4, .as = { 4, 1 },
                                           .bs = { 5, 1 }, .tf32 = on && i == 0 }, 12, 20, 15);
      CHECK(fake.products == i + 1 && fake.tf32 == on);
    }
    close_fake(&c, &d);
  }
}

/* Runs a product twice in a new context; runs[i]: how often algorithm i of cuBLASLt ran. */
static void run_large(int size, int64_t runs[8]) {
  flame_context c;
  fl_device d;
  fl_fault fault;
  int32_t done;
  const int64_t before[8] = { fake.way_runs[0], fake.way_runs[1], fake.way_runs[2],
                              fake.way_runs[3] };
  CHECK(open_fake(&c, &d) == FLAME_OK);
  fl_matmul m = { .dtype = FLAME_F32, .m = size, .n = size, .k = size, .as = { size, 1 },
                  .bs = { size, 1 }, .at = { FL_AT_EXT, 0, 0 }, .bt = { FL_AT_EXT, 0, 0 },
                  .ct = { FL_AT_OUT, 0, 0 } };
  fl_step step = { .kind = FL_S_MATMUL, .matmul = &m };
  fl_out out = { .bytes = 4ll * size * size };
  fl_plan p = { .device = 1, .next = 1, .nout = 1, .out = &out, .nstep = 1, .step = &step,
                .mem = &c.mem };
  void *x[2] = { d.table->alloc(&d, 4ll * size * size), d.table->alloc(&d, 4ll * size * size) };
  CHECK(d.table->prepare(&d, &p) == FLAME_OK);
  for (int i = 0; i < 2; i++)
    CHECK(d.table->run(&d, &p, &(fl_binding){ .ext = x, .out = x + 1 }, &fault, &done) == FLAME_OK);
  p.unprepare(&p);
  for (int i = 0; i < 2; i++) d.table->free(&d, x[i], 4ll * size * size);
  close_fake(&c, &d);
  for (int i = 0; i < 4; i++) runs[i] = fake.way_runs[i] - before[i];
}

/* Checks how often each of four algorithms runs for a product that is timed: the first takes 1 ms,
** the second fails, the third takes 'ms', the fourth 9 ms. */
static void expect_ways(float ms, int size, int64_t first, int64_t second, int64_t third,
                        int64_t fourth) {
  int64_t runs[8];
  fake.ways = 4;
  memcpy(fake.way_ms, (const float[]){ 1, -1, ms, 9 }, 4 * sizeof(float));
  run_large(size, runs);
  CHECK(runs[0] == first && runs[1] == second && runs[2] == third && runs[3] == fourth);
}

static void large_products_are_timed_where_asked(void) {
  enum { LARGE = 1720, SMALL = 1700 };           /* on both sides of TUNE_LEAST */
  char folder[] = "/tmp/flame-tune-XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  fake_reset();
  expect_ways(0.5f, LARGE, 2, 0, 0, 0);          /* FLAME_TUNE is not set */
  setenv("FLAME_TUNE", "1", 1);
  expect_ways(0.5f, SMALL, 2, 0, 0, 0);
  expect_ways(0.98f, LARGE, 6 + 2, 1, 6, 2);     /* too small a gain: the first is used */
  expect_ways(0.96f, LARGE, 6, 1, 6 + 2, 2);
  setenv("FLAME_CACHE_DIR", folder, 1);
  expect_ways(0.5f, LARGE, 6, 1, 6 + 2, 2);
  expect_ways(2.0f, LARGE, 0, 0, 2, 0);      /* the choice is read from the file, not timed */
  CHECK(each_file(folder, damage) == 1);
  expect_ways(2.0f, LARGE, 6 + 2, 1, 2, 2);      /* file unreadable: timed again */
  each_file(folder, delete);
  rmdir(folder);
  setenv("FLAME_CACHE_DIR", "off", 1);
  unsetenv("FLAME_TUNE");
}

/* ---- the real compiler, where there is one ---- */

static const fl_nvrtc *real_nvrtc(const char **reason) { return fl_cuda_libraries.nvrtc(reason); }

/* Replaces the last step of the sample plan by a scatter that adds. */
static void make_scatter(sample *p) {
  static fl_scatter scatter;
  scatter = (fl_scatter){ .dtype = FLAME_F32, .add = 1, .rank = 1, .size = { N },
                          .extent = 10, .dst_numel = 10 };
  scatter.dst = (fl_operand){ .place = { FL_AT_OUT, 0, 0 }, .dtype = FLAME_F32,
                              .gstride = 1 };
  scatter.idx = (fl_operand){ .place = { FL_AT_EXT, 0, 0 }, .dtype = FLAME_I64,
                              .stride = { 1 } };
  scatter.src = (fl_operand){ .place = { FL_AT_EXT, 1, 0 }, .dtype = FLAME_F32,
                              .stride = { 1 } };
  p->step[4] = (fl_step){ .kind = FL_S_SCATTER, .scatter = &scatter };
}

static void real_nvrtc_takes_the_texts(void) {
  static const fl_cuda_lib mixed = { fake_get_driver, real_nvrtc, fake_get_blaslt, fake_get_fft,
                                     fake_get_solver, NULL, NULL, NULL };
  const char *reason = "";
#ifdef __SANITIZE_THREAD__
  printf("skipped: compiling with NVRTC (it is not built for the thread sanitizer)\n");
  return;
#endif
  if (!real_nvrtc(&reason)) {
    printf("skipped: compiling with NVRTC (%s)\n", reason);
    return;
  }
  rig *r = open_rig_on(&mixed);
  r->p.matmul.dtype = FLAME_I32;                              /* by our own kernel */
  make_scatter(&r->p);
  const flame_status e = r->d.table->prepare(&r->d, &r->p.plan);
  if (e != FLAME_OK) printf("%s\n", r->c.err.message);
  CHECK(e == FLAME_OK && r->c.stats.compiles == 5);
  CHECK(run_rig(r) == FLAME_OK && r->done == STEPS && fake.nlaunch > 5);
  close_rig(r);
}

/* ---- registers that spill ---- */

static fl_nvrtc told;               /* its log says that 6 and 4 blocks per SM spill registers */
static int tried[8], ntried;

static fl_rtc_result note_blocks(fl_rtc_program p, int n, const char *const *option) {
  int blocks = 6;
  for (int i = 0; i < n; i++) sscanf(option[i], "-DMIN_BLOCKS=%d", &blocks);
  if (ntried < 8) tried[ntried++] = blocks;
  const char *reason;
  return fake_libraries.nvrtc(&reason)->nvrtcCompileProgram(p, n, option);
}

static const char *words_of_log(void) {
  return ntried && tried[ntried - 1] > 2
         ? "ptxas . 80 bytes stack frame, 76 bytes spill stores, 70 bytes spill loads\n"
         : "ptxas . 8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n";
}
static fl_rtc_result log_size(fl_rtc_program p, size_t *n) {
  (void)p;
  *n = strlen(words_of_log()) + 1;
  return FL_RTC_OK;
}
static fl_rtc_result log_text(fl_rtc_program p, char *to) {
  (void)p;
  strcpy(to, words_of_log());
  return FL_RTC_OK;
}
static const fl_nvrtc *get_told(const char **reason) { (void)reason; return &told; }

static void spilled_registers_ask_for_fewer_blocks(void) {
  static const fl_cuda_lib mixed = { fake_get_driver, get_told, fake_get_blaslt, fake_get_fft,
                                     fake_get_solver, NULL, NULL, NULL };
  static const char *const text[] = { "#define MIN_BLOCKS 6\nkernel", "kernel without it",
                                      "#define MIN_BLOCKS 6\nof a user" };
  static const int expected[][4] = { { 6, 4, 2 }, { 6 }, { 6 } };
  static const int count[] = { 3, 1, 1 };
  flame_context c = { 0 };
  fl_device d = { 0 };
  const char *reason = "";
  fake_reset();
  told = *fake_libraries.nvrtc(&reason);
  told.nvrtcCompileProgram = note_blocks;
  told.nvrtcGetProgramLogSize = log_size;
  told.nvrtcGetProgramLog = log_text;
  CHECK(fl_cuda_open_with(&c, &d, 0, &mixed) == FLAME_OK);
  fl_cuda *s = d.state;
  CHECK(fl_nvrtc_open(s) == FLAME_OK);
  for (int k = 0; k < 3; k++) {
    fl_compile job = { .text = text[k], .name = "spill.cu", .user = k == 2 };
    ntried = 0;
    CHECK(fl_nvrtc_compile(s, &job, 1) == FLAME_OK && job.result == FL_RTC_OK && job.done);
    CHECK(ntried == count[k] && memcmp(tried, expected[k], sizeof(int) * (size_t)count[k]) == 0);
    fl_nvrtc_drop(s, &job, 1);
  }
  close_fake(&c, &d);
}

/* The words by which a log is searched for spilled registers must be those of the real compiler. */
static void the_real_compiler_tells_what_it_spills(void) {
  static const fl_cuda_lib mixed = { fake_get_driver, real_nvrtc, fake_get_blaslt, fake_get_fft,
                                     fake_get_solver, NULL, NULL, NULL };
  flame_context c = { 0 };
  fl_device d = { 0 };
  fl_text t;
  const char *reason = "";
#ifdef __SANITIZE_THREAD__
  return;
#endif
  if (!real_nvrtc(&reason)) return;
  fake_reset();
  CHECK(fl_cuda_open_with(&c, &d, 0, &mixed) == FLAME_OK);
  fl_cuda *s = d.state;
  CHECK(fl_nvrtc_open(s) == FLAME_OK);
  fl_text_init(&t, &c.mem);
  fl_text_puts(&t, "#ifndef MIN_BLOCKS\n#define MIN_BLOCKS 6\n#endif\n"
               "extern \"C\" __global__ void __launch_bounds__(256, MIN_BLOCKS) spill(float *x) {\n");
  for (int i = 0; i < 96; i++) fl_text_printf(&t, "float v%d = x[%d * 256 + threadIdx.x];\n", i, i);
  fl_text_puts(&t, "__syncthreads();\n");
  for (int i = 0; i < 96; i++)
    fl_text_printf(&t, "x[%d * 256 + threadIdx.x] = v%d - v%d;\n", i, i, (7 * i + 3) % 96);
  fl_text_puts(&t, "}\n");
  fl_compile job = { .text = fl_text_str(&t), .name = "spill.cu" };
  CHECK(fl_nvrtc_compile(s, &job, 1) == FLAME_OK && job.result == FL_RTC_OK);
  char log[4096] = "";
  size_t n = 0;
  CHECK(s->modules.rtc->nvrtcGetProgramLogSize(job.program, &n) == FL_RTC_OK && n < sizeof log);
  if (n < sizeof log) CHECK(s->modules.rtc->nvrtcGetProgramLog(job.program, log) == FL_RTC_OK);
  /* compiled again with fewer blocks, then nothing of this kernel is spilled */
  CHECK(strstr(log, " 0 bytes spill stores") != NULL);
  fl_nvrtc_drop(s, &job, 1);
  fl_text_free(&t);
  close_fake(&c, &d);
}

int main(void) {
  setenv("FLAME_CACHE_DIR", "off", 1);
  spilled_registers_ask_for_fewer_blocks();
  the_real_compiler_tells_what_it_spills();
  a_name_tells_the_ops();
  a_structure_is_compiled_once();
  a_trace_hears_of_each_step();
  a_table_is_sent_when_an_address_changes();
  cubins_are_kept_on_disk_and_checked();
  a_full_disk_cache_drops_the_oldest();
  products_of_every_layout_are_right();
  small_products_of_f32_are_made_without_the_library();
  only_f32_products_take_tf32_and_only_where_asked();
  large_products_are_timed_where_asked();
  real_nvrtc_takes_the_texts();
  printf("cuda_kernels: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
