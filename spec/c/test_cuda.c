/*
** Tests of the CUDA device on the fake driver: pool, copies, waiting, interrupts, errors, and the
** failure of each call of the driver. Kernels are in test_cuda_kernels.c.
*/
#include "fake_device.h"
#include <sys/wait.h>
#include <unistd.h>

/* ---- a device from open to close, while one call of the driver fails ---- */

typedef struct life {
  flame_context c;
  fl_device d;
  flame_status first;         /* first failure */
  int retry;                  /* a failed call is tried again and must then succeed */
  int broken;                 /* a retry failed too */
  int64_t told;               /* if one of this many first calls fails, there must be an error */
} life;

/* Notes e, the result of a call, if it is a failure; 1 if the caller is to try the call again. */
static int again(life *l, flame_status e, int *tries) {
  if (e == FLAME_OK) return 0;
  if (l->first == FLAME_OK) l->first = e;
  if (++*tries > 1 || !l->retry) {
    l->broken = 1;
    return 0;
  }
  fl_error_clear(&l->c.err);
  return 1;
}
#define STEP(l, call) \
  do { \
    int tries_ = 0; \
    while (again((l), (call), &tries_)) { } \
    if ((l)->broken) goto done; \
  } while (0)

static flame_status take(fl_device *d, void **p, int64_t bytes) {
  *p = d->table->alloc(d, bytes);
  return *p ? FLAME_OK : d->ctx->err.code != FLAME_OK ? d->ctx->err.code : FLAME_NO_MEMORY;
}

static void live(life *l) {
  static float host[N], back[N];
  static sample p;
  void *x[4] = { NULL };
  fl_fault fault;
  int32_t done = 0;
  fl_usage use;
  const fl_scalar scalar[2] = { { .d = 1 }, { .d = 2 } };
  memset(&p, 0, sizeof p);
  STEP(l, fl_cuda_open_with(&l->c, &l->d, 0, &fake_libraries));
  for (int i = 0; i < 4; i++) STEP(l, take(&l->d, &x[i], 4 * N));
  for (int i = 0; i < N; i++) host[i] = (float)i;
  for (int i = 0; i < 2; i++) STEP(l, l->d.table->upload(&l->d, x[i], host, 4 * N));
  make_sample(&p, &l->c, FL_OP_sub);
  STEP(l, l->d.table->prepare(&l->d, &p.plan));
  const fl_binding b = { .ext = x, .out = x + 2, .scalar = scalar };
  STEP(l, l->d.table->run(&l->d, &p.plan, &b, &fault, &done));
  CHECK(done == STEPS);
  STEP(l, l->d.table->sync(&l->d, &fault));
  CHECK(fault.site == -1);
  STEP(l, l->d.table->download(&l->d, back, x[2], 4 * N));
  l->told = fake.calls;
  l->d.table->memory(&l->d, &use);
  CHECK(memcmp(host, back, sizeof host) == 0);          /* copied by the plan's last step */
  l->d.table->trim(&l->d);
done:
  drop_sample(&p);
  for (int i = 0; i < 4 && l->d.table; i++) l->d.table->free(&l->d, x[i], 4 * N);
  close_fake(&l->c, &l->d);
}

static void survives_the_failure_of_any_call(void) {
  static const fl_cu_result codes[] = { FL_CU_OUT_OF_MEMORY, FL_CU_ILLEGAL_ADDRESS,
                                        FL_CU_INVALID_VALUE };
  fake_reset();
  life l = { 0 };
  live(&l);
  const int64_t calls = fake.calls;
  CHECK(l.first == FLAME_OK && calls > 60);
  const int64_t told = l.told;
  for (unsigned c = 0; c < sizeof codes / sizeof *codes; c++) {
    for (int forever = 0; forever < 2; forever++) {
      for (int64_t k = 1; k <= calls; k++) {
        fake_reset();
        fake.code = codes[c];
        fake.fail_at = k;
        fake.forever = forever;
        const int sticky = fake_is_sticky(codes[c]);
        l = (life){ .retry = !forever && !sticky };
        live(&l);
        const int quiet = !fake.failed || fake_releases(fake.failed) || k > told ||
                          /* without cuBLASLt's answer our own kernel is used */
                          strstr(fake.failed, "GetHeuristic") ||
                          /* the pool then asks for less */
                          (codes[c] == FL_CU_OUT_OF_MEMORY && !strcmp(fake.failed, "MemAlloc"));
        const int ok = l.first == FLAME_OK ? quiet : l.c.err.code == FLAME_OK ? l.retry && !l.broken
                                                   : !l.retry;
        if (!ok) printf("call %lld (%s), code %u, forever %d: status %d: %s\n",
                        (long long)k, fake.failed,
                        codes[c], forever, l.first, l.c.err.message);
        CHECK(ok);
      }
    }
  }
}

static void survives_the_failure_of_any_host_allocation(void) {
  fake_reset();
  life l = { 0 };
  live(&l);
  const int64_t calls = l.c.mem.calls;
  CHECK(calls > 30);
  for (int forever = 0; forever < 2; forever++) {
    for (int64_t k = 1; k <= calls; k++) {
      fake_reset();
      l = (life){ .retry = !forever };
      l.c.mem.fail_at = k;
      l.c.mem.fail_forever = forever;
      live(&l);
      if (!forever && l.broken)
        printf("host allocation %lld: status %d: %s\n", (long long)k, l.first,
               l.c.err.message);
      CHECK(forever ? 1 : !l.broken);
      CHECK(l.first == FLAME_OK || l.first == FLAME_NO_MEMORY);
    }
  }
}

/* ---- pool ---- */

static void reuses_splits_and_merges_memory(void) {
  flame_context c;
  fl_device d;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  const int64_t allocs = fake.allocs;
  void *a = d.table->alloc(&d, 1000), *b = d.table->alloc(&d,
                                                          1000), *z = d.table->alloc(&d, 0);
  CHECK(a && b && z && a != b && fake.allocs == allocs);    /* both are parts of one segment, which
                                                            ** was there */
  CHECK((char *)b - (char *)a == 1024);
  d.table->free(&d, a, 1000);
  CHECK(d.table->alloc(&d, 600) == a);
  d.table->free(&d, a, 600);
  d.table->free(&d, b, 1000);
  d.table->free(&d, z, 0);
  void *big = d.table->alloc(&d, 40 << 20), *half = d.table->alloc(&d, 20 << 20);
  CHECK(big && half);
  d.table->free(&d, big, 40 << 20);
  d.table->free(&d, half, 20 << 20);
  const int64_t before = fake.allocs;
  CHECK((big = d.table->alloc(&d, 39 << 20)) && fake.allocs == before);
  d.table->free(&d, big, 39 << 20);
  d.table->trim(&d);
  fl_usage use;
  d.table->memory(&d, &use);
  CHECK(use.reserved.now == fake.bytes && use.reserved.now <= 4 << 20 &&
        use.free == fake.capacity - fake.bytes);
  close_fake(&c, &d);
}

static void random_allocations_never_overlap(void) {
  enum { LIVE = 200 };
  flame_context c;
  fl_device d;
  unsigned char *p[LIVE] = { 0 };
  int64_t n[LIVE] = { 0 };
  uint64_t r = 12345;
  int bad = 0;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  for (int turn = 0; turn < 20000; turn++) {
    r = fl_mix64(r, 99);
    const int i = (int)(r % LIVE);
    if (p[i]) {
      for (int64_t j = 0; j < n[i]; j += n[i] / 3 + 1) bad += p[i][j] != (unsigned char)i;
      bad += p[i][n[i] - 1] != (unsigned char)i;
      d.table->free(&d, p[i], n[i]);
      p[i] = NULL;
    } else {
      n[i] = 1 + (int64_t)((r >> 20) % (1u << ((r >> 50) % 22 + 1)));
      p[i] = d.table->alloc(&d, n[i]);
      if (!p[i]) { bad++; continue; }
      for (int64_t j = 0; j < n[i]; j += n[i] / 3 + 1) p[i][j] = (unsigned char)i;
      p[i][n[i] - 1] = (unsigned char)i;
    }
  }
  CHECK(bad == 0);
  for (int i = 0; i < LIVE; i++) if (p[i]) d.table->free(&d, p[i], n[i]);
  d.table->trim(&d);
  CHECK(((fl_cuda *)d.state)->pool.reserved.now <= 4 << 20);     /* all merged again */
  close_fake(&c, &d);
}

static void gives_cached_memory_back_before_it_fails(void) {
  flame_context c;
  fl_device d;
  fake_reset();
  fake.capacity = 100 << 20;
  CHECK(open_fake(&c, &d) == FLAME_OK);
  void *a = d.table->alloc(&d, 60 << 20);
  CHECK(a != NULL);
  CHECK(d.table->alloc(&d, 60 << 20) == NULL && c.err.code == FLAME_OK);
  d.table->free(&d, a, 60 << 20);
  a = d.table->alloc(&d, 80 << 20);                          /* memory for a or b, not both */
  CHECK(a != NULL);
  d.table->free(&d, a, 80 << 20);
  close_fake(&c, &d);
}

static void works_without_the_pool(void) {
  setenv("FLAME_POOL", "0", 1);
  fake_reset();
  flame_context c;
  fl_device d;
  CHECK(open_fake(&c, &d) == FLAME_OK);
  const int64_t blocks = fake.blocks, bytes = fake.bytes;
  void *a = d.table->alloc(&d, 1000);
  CHECK(a && fake.blocks == blocks + 1 && fake.bytes == bytes + 1000);
  d.table->free(&d, a, 1000);
  CHECK(fake.blocks == blocks);
  close_fake(&c, &d);
  life l = { 0 };
  live(&l);
  CHECK(l.first == FLAME_OK);
  unsetenv("FLAME_POOL");
}

/* ---- copies, waiting, faults ---- */

static void copies_any_size_there_and_back(void) {
  static const int64_t sizes[] = { 1, 63, 64, 4096, FL_STAGE_BYTES - 1, FL_STAGE_BYTES,
                                   FL_STAGE_BYTES + 1,
                                   5 * FL_STAGE_BYTES + 77 };
  flame_context c;
  fl_device d;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int64_t n = sizes[i];
    unsigned char *a = malloc((size_t)n), *b = malloc((size_t)n);
    void *x = d.table->alloc(&d, n), *y = d.table->alloc(&d, n);
    for (int64_t j = 0; j < n; j++) a[j] = (unsigned char)(j * 31 + i);
    memset(b, 0, (size_t)n);
    CHECK(d.table->upload(&d, x, a, n) == FLAME_OK);
    CHECK(d.table->copy(&d, y, x, n) == FLAME_OK);
    CHECK(d.table->download(&d, b, y, n) == FLAME_OK && memcmp(a, b, (size_t)n) == 0);
    d.table->free(&d, x, n);
    d.table->free(&d, y, n);
    free(a);
    free(b);
  }
  CHECK(d.table->download(&d, NULL, NULL, 0) == FLAME_OK &&
        d.table->upload(&d, NULL, NULL, 0) == FLAME_OK);
  close_fake(&c, &d);
}

static void an_interrupt_ends_a_wait(void) {
  flame_context c;
  fl_device d;
  int v = 7, w = 0;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  void *x = d.table->alloc(&d, 4);
  CHECK(d.table->upload(&d, x, &v, 4) == FLAME_OK);
  fake.busy = -1;
  atomic_store(&c.interrupted, 1);
  CHECK(d.table->download(&d, &w, x,
                          4) == FLAME_INTERRUPTED && c.err.code == FLAME_INTERRUPTED);
  CHECK(atomic_load(&c.interrupted) == 0);
  atomic_store(&c.interrupted, 1);
  CHECK(d.table->sync(&d, NULL) == FLAME_INTERRUPTED);
  fake.busy = 500;                                            /* slow, then done */
  fl_error_clear(&c.err);
  CHECK(d.table->download(&d, &w, x, 4) == FLAME_OK && w == 7);
  d.table->free(&d, x, 4);
  close_fake(&c, &d);
}

static void an_interrupt_ends_a_run_before_its_first_step(void) {
  rig *r = open_rig(0, STEPS);
  atomic_store(&r->c.interrupted, 1);
  CHECK(run_rig(r) == FLAME_INTERRUPTED && r->done == 0);
  close_rig(r);
}

/* After the user has interrupted a kernel that never ends, closing must not wait for it: it leaves
** the driver's objects as they are. Tested in a child process, so that its end frees them. */
static void closing_leaves_an_endless_kernel_behind(void) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    flame_context c;
    fl_device d;
    fake_reset();
    alarm(20);
    if (open_fake(&c, &d) != FLAME_OK) _exit(2);
    void *x = d.table->alloc(&d, 4);
    fake.busy = -1;
    atomic_store(&c.interrupted, 1);
    if (d.table->sync(&d, NULL) != FLAME_INTERRUPTED) _exit(3);
    d.table->free(&d, x, 4);
    d.table->close(&d);
    _exit(fake.contexts == 1 && fake.streams == 1 && fake.blocks > 0 && fake.pushed == 0 ? 0 : 4);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void a_run_with_index_checks_tells_its_fault(void) {
  rig *r = open_rig(0, 2);
  for (int i = 0; i < 2; i++) {         /* turn both kernels into ones that check an index */
    r->p.instr[i][1].code = FL_I_INDEX;
    r->p.instr[i][1].arg = (uint16_t)(2 + i);
  }
  CHECK(run_rig(r) == FLAME_OK && r->fault.site == -1 && r->done == 2);
  fl_text_fault record;
  fake.launch_writes = ((fl_cuda *)r->d.state)->fault;
  fake.launch_bytes = &record;
  fake.launch_size = sizeof record;
  for (int i = 0; i < 2; i++) {
    const int64_t value = -7 - i;
    for (int b = 0; b < 8; b++)         /* as a kernel would */
      record.word[b] = (uint64_t)(2 + i) << 48 | 5 << 8 | ((uint64_t)value >> 8 * b & 255);
    CHECK(run_rig(r) == FLAME_OK);
    CHECK(r->fault.site == 2 + i && r->fault.value == value && r->fault.position == 5);
    CHECK(r->done == i);                                    /* steps that ran before it are right */
  }
  fake.launch_size = 0;
  CHECK(r->d.table->sync(&r->d, &r->fault) == FLAME_OK && r->fault.site == -1);      /* told once */
  CHECK(run_rig(r) == FLAME_OK && r->fault.site == -1);
  close_rig(r);
}

static flame_context *struck;           /* gets a Ctrl-C at its launch number 'strike' */
static int strike;

static void strike_at_launch(void **params) {
  (void)params;
  if (--strike == 0) atomic_store(&struck->interrupted, 1);
}

/* A kernel that overwrites a tensor in place, and itself reads whether the checks of indices passed
** (guard = 1), is queued before the host has read that. An interrupt then waits until the host
** knows whether the kernel wrote. */
static void a_guarded_write_does_not_wait_for_the_host(void) {
  rig *r = open_rig(0, 2);
  fl_text_fault record;
  for (int b = 0; b < 8; b++) record.word[b] = UINT64_C(3) << 48 | 5 << 8 | 1;
  r->p.instr[0][1].code = FL_I_INDEX;
  r->p.instr[0][1].arg = 3;
  r->p.plan.step[1].commits = 1;
  struck = &r->c;
  for (int guard = 0; guard < 2; guard++) {
    r->p.plan.step[1].kernel->guard = (uint8_t)guard;
    const int64_t before = fake.nlaunch;
    fake.launch_writes = ((fl_cuda *)r->d.state)->fault;
    fake.launch_bytes = &record;
    fake.launch_size = sizeof record;
    CHECK(run_rig(r) == FLAME_OK && r->fault.site == 3 && r->done == 0);
    CHECK(fake.nlaunch - before == 1 + guard);
    fake.launch_size = 0;
    fake.busy = 3;                      /* polls until the checks are done */
    strike = 1 + guard;                 /* the last launch before the host waits */
    fake.on_launch = strike_at_launch;
    CHECK(run_rig(r) == (guard ? FLAME_OK : FLAME_INTERRUPTED));
    CHECK(r->fault.site == -1 && r->done == 2 * guard);
    CHECK((fl_take_interrupt(&r->c) != 0) == guard);
    fake.on_launch = NULL;
    fake.busy = 0;
    CHECK(run_rig(r) == FLAME_OK && r->fault.site == -1 && r->done == 2);
  }
  close_rig(r);
}

/* ---- errors ---- */

/* A call checks its values on the device, and the host does not wait for the report, which is
** written to device memory: the next read or sync raises the error, once. */
static void a_late_report_is_told_by_the_next_read(void) {
  static const struct { uint64_t word; const char *text; } reports[] = {
    { (UINT64_C(4) << 16) | 7,
      "probs has a value that is negative, infinite or NaN at position 5" },
    { (UINT64_C(1) << 63) | (UINT64_C(1) << 16) | 7, "row 2 of probs is 0 everywhere" },
    { (UINT64_C(3) << 62) | 7, "probs is 0 everywhere" },
  };
  flame_context c;
  fl_device d;
  fake_reset();
  if (open_fake(&c, &d) != FLAME_OK) { CHECK(0); return; }
  fl_cuda *s = d.state;
  fl_fault fault;
  int32_t x = 3, y = 0;
  void *p = d.table->alloc(&d, sizeof x);
  CHECK(d.table->upload(&d, p, &x, sizeof x) == FLAME_OK);
  for (int i = 0; i < 6; i++) {
    memcpy(s->late, &reports[i / 2].word, sizeof reports->word);
    /* no such call, so nothing is read */
    CHECK(d.table->download(&d, &y, p, sizeof y) == FLAME_OK && y == 3);
    CHECK(fl_cuda_expect_late(s) == FLAME_OK);
    CHECK((i % 2 ? d.table->sync(&d, &fault) : d.table->download(&d, &y, p, sizeof y)) ==
          FLAME_BAD_VALUE);
    CHECK(strcmp(c.err.message, reports[i / 2].text) == 0 && strcmp(c.err.op, "multinomial") == 0 &&
          c.err.site == 7);
    fl_error_clear(&c.err);
    CHECK(fl_cuda_expect_late(s) == FLAME_OK);
    CHECK(d.table->download(&d, &y, p, sizeof y) == FLAME_OK &&
          d.table->sync(&d, &fault) == FLAME_OK);
  }
  d.table->free(&d, p, sizeof x);
  close_fake(&c, &d);
}

static void a_lost_device_repeats_its_first_cause(void) {
  flame_context c;
  fl_device d;
  int v = 0;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  void *x = d.table->alloc(&d, 4);
  fake.calls = 0;
  fake.code = FL_CU_ILLEGAL_ADDRESS;
  fake.only = "EventQuery";
  fake.fail_at = 1;
  CHECK(d.table->download(&d, &v, x, 4) == FLAME_DEVICE_LOST && c.dead);
  CHECK(strstr(c.err.message, "CUDA_ERROR_ILLEGAL_ADDRESS") &&
        strstr(c.err.message, "cuEventQuery"));
  CHECK(strstr(c.err.hint, "DEBUG_CUDA"));
  char first[sizeof c.err.message];
  snprintf(first, sizeof first, "%s", c.err.message);
  fl_error_clear(&c.err);
  const int64_t calls = fake.calls;
  CHECK(d.table->upload(&d, x, &v, 4) == FLAME_DEVICE_LOST && strcmp(first, c.err.message) == 0);
  CHECK(d.table->sync(&d, NULL) == FLAME_DEVICE_LOST && fake.calls == calls);
  CHECK(d.table->alloc(&d, 4) == NULL);
  d.table->trim(&d);
  d.table->free(&d, x, 4);
  close_fake(&c, &d);
}

static void missing_things_are_named(void) {
  static sample p;
  flame_context c;
  fl_device d;
  fake_reset();
  fake.devices = 0;
  CHECK(open_fake(&c, &d) == FLAME_NO_DEVICE && strstr(c.err.message,
                                                       "no device cuda:0"));
  close_fake(&c, &d);
  fake.devices = 1;
  fake.missing_nvrtc = fake.missing_blaslt = 1;
  CHECK(open_fake(&c, &d) == FLAME_OK);
  make_sample(&p, &c, FL_OP_sub);
  p.plan.nstep = 2;
  CHECK(d.table->prepare(&d, &p.plan) == FLAME_NO_DEVICE && strstr(c.err.message, "libnvrtc"));
  CHECK(!p.plan.prepared && p.step[0].prepared == NULL);
  close_fake(&c, &d);
  char reason[200] = "x";
  const int n = fl_cuda_count(reason, sizeof reason);
  CHECK(n > 0 ? !*reason : *reason != 0);
}

static void a_forked_child_is_refused(void) {
  flame_context c;
  fl_device d;
  int v = 1, status = 1;
  fake_reset();
  CHECK(open_fake(&c, &d) == FLAME_OK);
  void *x = d.table->alloc(&d, 4);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int64_t calls = fake.calls;
    const int ok = d.table->upload(&d, x, &v,
                                   4) == FLAME_NOT_SUPPORTED && strstr(c.err.message, "forked");
    d.table->free(&d, x, 4);
    d.table->close(&d);
    _exit(ok && fake.calls == calls && c.mem.live_bytes == 0 ? 0 : 1);
  }
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  d.table->free(&d, x, 4);
  close_fake(&c, &d);
}

int main(void) {
  setenv("FLAME_CACHE_DIR", "off", 1);
  reuses_splits_and_merges_memory();
  random_allocations_never_overlap();
  gives_cached_memory_back_before_it_fails();
  works_without_the_pool();
  copies_any_size_there_and_back();
  an_interrupt_ends_a_wait();
  an_interrupt_ends_a_run_before_its_first_step();
  closing_leaves_an_endless_kernel_behind();
  a_run_with_index_checks_tells_its_fault();
  a_guarded_write_does_not_wait_for_the_host();
  a_late_report_is_told_by_the_next_read();
  a_lost_device_repeats_its_first_cause();
  missing_things_are_named();
  a_forked_child_is_refused();
  survives_the_failure_of_any_call();
  survives_the_failure_of_any_host_allocation();
  printf("cuda: %d passed, %d failed\n", passed, failed);
  return failed != 0;
}
