/*
** Tests of what the CUDA device compiles and launches, against the fake driver: kernels and their
** caches in memory and on disk, traces, the tables of groups, matrix products; and the texts through
** the real NVRTC, where there is one.
*/
#include "fake_device.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- kernels ---- */

static void a_structure_is_compiled_once(void) {
  static sample p, q;
  flame_context c;
  fl_device d;
  fl_fault fault;
  int32_t done;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  void *x = d.table->alloc(&d, 4 * N), *at[4] = { x, x, x, x };
  make_sample(&p, &c, FL_OP_sub);
  p.plan.nstep = 3;
  CHECK(d.table->prepare(&d, &p.plan) == FLAME_OK);
  CHECK(c.stats.compiles == 3 && c.stats.texts == 3 && fake.compiles == 3 && fake.loads == 3);
  CHECK(d.table->prepare(&d, &p.plan) == FLAME_OK);
  make_sample(&q, &c, FL_OP_sub);
  q.plan.nstep = 3;
  for (int i = 0; i < 5; i++) q.kernel[i].size[0] = q.kernel[i].points = q.kernel[i].rows = 333;   /* another batch size */
  CHECK(d.table->prepare(&d, &q.plan) == FLAME_OK);
  CHECK(c.stats.compiles == 3 && c.stats.texts == 3);
  const fl_binding b = { .ext = at, .out = at + 2, .scalar = (fl_scalar[2]){ { 0 } } };
  CHECK(d.table->run(&d, &p.plan, &b, &fault, &done) == FLAME_OK && done == 3);
  CHECK(fake.nlaunch == 3);                                   /* the step of three is one */
  CHECK(strcmp(fake.launch[0].name, "fl_kernel") == 0 && fake.launch[0].grid > 0);
  drop_sample(&p);
  drop_sample(&q);
  d.table->free(&d, x, 4 * N);
  close_fake(&c, &d);
}

typedef struct teller { fl_trace trace; int32_t steps; double ms; } teller;

static void note_time(fl_trace *t, struct fl_device *d, const struct fl_plan *p, int32_t i, double start, double ms) {
  teller *x = (teller *)t;
  CHECK(d->index == 1 && p != NULL && i == x->steps && start > 0);
  x->steps++;
  x->ms += ms;
}

/* With or without events to measure with, the run is the same. */
static void a_trace_hears_of_each_step(void) {
  static sample p;
  flame_context c;
  fl_device d;
  fl_fault fault;
  int32_t done;
  for (int64_t k = 0; k < 8; k++) {
    teller t = { .trace = { note_time } };
    fake_reset();
    CHECK(open_fake(&c, &d) == FLAME_OK);
    void *x = d.table->alloc(&d, 4 * N), *at[4] = { x, x, x, x };
    make_sample(&p, &c, FL_OP_sub);
    p.plan.nstep = 3;
    CHECK(d.table->prepare(&d, &p.plan) == FLAME_OK);
    const fl_binding b = { .ext = at, .out = at + 2, .scalar = (fl_scalar[2]){ { 0 } } };
    d.trace = &t.trace;
    fake.only = "EventCreate";
    fake.code = FL_CU_OUT_OF_MEMORY;
    fake.calls = 0;
    fake.fail_at = k;
    CHECK(d.table->run(&d, &p.plan, &b, &fault, &done) == FLAME_OK && done == 3);
    CHECK(fake.nlaunch == 3);
    CHECK(k > 0 && k < 7 ? t.steps == 0 : t.steps == 3 && t.ms == 1.5);
    d.trace = NULL;
    fake.only = NULL;
    fake.fail_at = 0;
    drop_sample(&p);
    d.table->free(&d, x, 4 * N);
    close_fake(&c, &d);
  }
}

/* A group's table is sent again only when an address in it is another. */
static void a_table_is_sent_when_an_address_changes(void) {
  static sample p;
  flame_context c;
  fl_device d;
  fl_fault fault;
  int32_t done;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  void *x = d.table->alloc(&d, 4 * N), *y = d.table->alloc(&d, 4 * N), *at[4] = { x, x, x, x };
  make_sample(&p, &c, FL_OP_sub);
  p.plan.step = p.step + 2;
  p.plan.nstep = 1;
  p.plan.nscalar = 0;
  CHECK(d.table->prepare(&d, &p.plan) == FLAME_OK);
  const fl_binding b = { .ext = at, .out = at + 2, .scalar = NULL };
  fake.only = "CopyIn";
  fake.calls = 0;
  CHECK(d.table->run(&d, &p.plan, &b, &fault, &done) == FLAME_OK && fake.calls == 1);
  CHECK(d.table->run(&d, &p.plan, &b, &fault, &done) == FLAME_OK && fake.calls == 1);
  at[1] = y;
  CHECK(d.table->run(&d, &p.plan, &b, &fault, &done) == FLAME_OK && fake.calls == 2);
  drop_sample(&p);
  d.table->free(&d, x, 4 * N);
  d.table->free(&d, y, 4 * N);
  close_fake(&c, &d);
}

/* Prepare the sample in a context of its own; how many compiles that took. */
static int64_t compiles_of_a_new_context(void) {
  static sample p;
  flame_context c;
  fl_device d;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  make_sample(&p, &c, FL_OP_sub);
  p.plan.nstep = 3;
  CHECK(d.table->prepare(&d, &p.plan) == FLAME_OK);
  const int64_t n = c.stats.compiles;
  drop_sample(&p);
  close_fake(&c, &d);
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
  CHECK(open_fake(&c, &d) == FLAME_OK);
  products(&d, FLAME_F32);
  /* batches: joined into one call, then broadcast, then looped over */
  const int64_t before = fake.products;
  product(&d, FLAME_F32, &(fl_matmul){ .nbatch = 2, .batch = { 2, 3 }, .m = 3, .n = 5,
                                       .k = 4,
                            .as = { 4, 1 }, .bs = { 5, 1 }, .abatch = { 36, 12 }, .bbatch = { 60, 20 },
                            .cbatch = { 45, 15 } }, 72, 120, 90);
  CHECK(fake.products == before + 1);
  product(&d, FLAME_F32, &(fl_matmul){ .nbatch = 2, .batch = { 2, 3 }, .m = 3, .n = 5,
                                       .k = 4,
                            .as = { 4, 1 }, .bs = { 5, 1 }, .abatch = { 36, 12 }, .cbatch = { 45, 15 } }, 72, 20, 90);
  CHECK(fake.products == before + 2);
  product(&d, FLAME_F32, &(fl_matmul){ .nbatch = 2, .batch = { 2, 3 }, .m = 3, .n = 5,
                                       .k = 4,
                            .as = { 4, 1 }, .bs = { 5, 1 }, .abatch = { 0, 12 }, .bbatch = { 60, 20 },
                            .cbatch = { 45, 15 } }, 36, 120, 90);
  CHECK(fake.products == before + 4);
  close_fake(&c, &d);
}

/* ---- the real compiler, where there is one ---- */

static const fl_nvrtc *real_nvrtc(const char **reason) { return fl_cuda_libraries.nvrtc(reason); }

/* The last step of p becomes a scatter with sums. */
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
  static const fl_cuda_lib mixed = { fake_get_driver, real_nvrtc, fake_get_blaslt, fake_get_fft, fake_get_solver };
  static sample p;
  flame_context c = { 0 };
  fl_device d = { 0 };
  const char *reason = "";
#ifdef __SANITIZE_THREAD__
  printf("skipped: compiling with NVRTC (it is not built for the thread sanitizer)\n");
  return;
#endif
  if (!real_nvrtc(&reason)) {
    printf("skipped: compiling with NVRTC (%s)\n", reason);
    return;
  }
  fake_reset();
  CHECK(fl_cuda_open_with(&c, &d, 0, &mixed) == FLAME_OK);
  make_sample(&p, &c, FL_OP_sub);
  p.matmul.dtype = FLAME_I32;                                 /* by our own kernel */
  make_scatter(&p);
  const flame_status e = d.table->prepare(&d, &p.plan);
  if (e != FLAME_OK) printf("%s\n", c.err.message);
  CHECK(e == FLAME_OK && c.stats.compiles == 5);
  void *x = d.table->alloc(&d, 8 * N), *at[4] = { x, x, x, x };
  fl_fault fault;
  int32_t done;
  CHECK(d.table->run(&d, &p.plan, &(fl_binding){ .ext = at, .out = at + 2,
                                                 .scalar = (fl_scalar[2]){ { 0 } } },
                     &fault, &done) == FLAME_OK && done == STEPS && fake.nlaunch > 5);
  d.table->free(&d, x, 8 * N);
  drop_sample(&p);
  close_fake(&c, &d);
}

int main(void) {
  setenv("FLAME_CACHE_DIR", "off", 1);
  a_structure_is_compiled_once();
  a_trace_hears_of_each_step();
  a_table_is_sent_when_an_address_changes();
  cubins_are_kept_on_disk_and_checked();
  a_full_disk_cache_drops_the_oldest();
  products_of_every_layout_are_right();
  real_nvrtc_takes_the_texts();
  printf("cuda_kernels: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
