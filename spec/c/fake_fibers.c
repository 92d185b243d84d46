/*
** Launches of the fake GPU: each block's threads are fibers on separate stacks, one of which runs
** at a time. A fiber goes on until it ends, waits (at a barrier, at a warp's operation, at
** __activemask()) or polls. Blocks, and the threads of a block each time that all of them had a
** chance to run, are ordered at random from the "seed" of FAKE_CUDA, so that results that depend on
** the order differ between seeds. Shared memory of a new block is filled with a pattern, and its
** dynamic part has the length that the launch gives: a store beyond it is an error. An error of a
** kernel ends the launch with a message: a wait that never ends, lanes at different operations, an
** assertion, an address outside memory.
*/
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

typedef struct fake_dim { unsigned x, y, z; } fake_dim;
typedef struct fake_lanes { unsigned mask, lane; unsigned char value[32][32]; } fake_lanes;
typedef void fake_lane_end(const fake_lanes *, void *);
typedef struct fake_machine {      /* what a kernel sees: as in fake_words.hh, which has the
                                   ** comments */
  fake_dim thread, block, threads, blocks;
  unsigned linear, run;
  unsigned char *dynamic;
  unsigned (*barrier)(int id, unsigned n, int p);
  unsigned (*arrived)(void);
  void (*warp)(int kind, unsigned mask, const void *value, unsigned size, fake_lane_end *finish,
               void *arg);
  unsigned (*active)(void *at);
  void (*fail)(const char *why, const char *what);
  void (*leave)(void);
} fake_machine;

enum { FIBERS = 1024, STACK = 256 << 10, DYNAMIC = 256 << 10, PAGE = 4096 };
typedef enum fake_state_of { FRESH, READY, AT_BARRIER, AT_WARP, AT_ACTIVE, ENDED } fake_state_of;
typedef struct fake_fiber {
  char *stack;
  int made;                       /* its context exists */
  jmp_buf here, top;              /* where it has yielded; where it ends a thread early */
  ucontext_t first;               /* where it begins */
  fake_state_of state;
  int kind, p;                    /* kind of its warp operation; p: its predicate at a barrier */
  unsigned mask, got;             /* mask of its warp operation; result of its barrier or
                                  ** __activemask() */
  unsigned char value[32];        /* what it gives to the warp operation, 'size' bytes */
  unsigned size;
  fake_lane_end *finish;          /* called with the values of all lanes and 'arg'; may be NULL */
  void *arg, *at;                 /* at: code address of its __activemask() */
} fake_fiber;

static struct {
  fake_machine m;
  fake_fiber fiber[FIBERS];
  unsigned order[FIBERS];         /* in which threads run next */
  unsigned n, left, waiting;      /* numbers of threads: in the block; that have not ended; that
                                  ** wait at the barrier */
  unsigned alive[FIBERS / 32], there[FIBERS / 32];    /* of each warp, the lanes that have not
                                  ** ended, and those that wait at a warp's operation */
  unsigned now;                   /* the thread that runs */
  jmp_buf scheduler;
  ucontext_t base;
  void (*run)(void **params);
  void **params;
  uint64_t seed;
  int parts;                      /* __activemask() may leave out lanes, as if they had diverged */
  unsigned char *dynamic;         /* DYNAMIC bytes between inaccessible pages. The dynamic shared
                                  ** memory of a launch is at their end. Other bytes of the pages in
                                  ** which it lies must keep their pattern, else the kernel has
                                  ** stored outside its shared memory */
  unsigned shared;                /* dynamic shared memory of the launch, in bytes */
  char failure[400];
} gpu;

static unsigned fake_random(unsigned below) {
  gpu.seed = gpu.seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)((gpu.seed >> 33) % below);
}

static void fake_shuffle(unsigned *a, unsigned n) {
  for (unsigned i = n; i > 1; i--) {
    const unsigned j = fake_random(i), x = a[j];
    a[j] = a[i - 1];
    a[i - 1] = x;
  }
}

/* ---- AddressSanitizer has to be told which stack is in use ---- */

#ifdef __SANITIZE_ADDRESS__
static const void *fake_base;              /* the scheduler's stack */
static size_t fake_base_bytes;
static void *fake_base_frames;             /* ASan's state of that stack while a fiber runs */
static void fake_to_fiber(fake_fiber *f) {
  __sanitizer_start_switch_fiber(&fake_base_frames, f->stack, STACK);
}
static void fake_in_fiber(void) {
  __sanitizer_finish_switch_fiber(NULL, &fake_base, &fake_base_bytes);
}
static void fake_to_scheduler(void) {
  __sanitizer_start_switch_fiber(NULL, fake_base, fake_base_bytes);
}
static void fake_in_scheduler(void) {
  __sanitizer_finish_switch_fiber(fake_base_frames, NULL, NULL);
}
#else
static void fake_to_fiber(fake_fiber *f) { (void)f; }
static void fake_in_fiber(void) {}
static void fake_to_scheduler(void) {}
static void fake_in_scheduler(void) {}
#endif

/* ---- what a fiber calls ---- */

/* Goes back to the scheduler, and returns when the thread runs again. */
static void fake_yield(void) {
  fake_fiber *f = &gpu.fiber[gpu.now];
  if (_setjmp(f->here) == 0) {
    fake_to_scheduler();
    _longjmp(gpu.scheduler, 1);
  }
  fake_in_fiber();
}

/* Ends the launch with a message; does not return. The first message stays. */
static void fake_fail(const char *why, const char *what) {
  const fake_machine *m = &gpu.m;
  if (!gpu.failure[0])
    snprintf(gpu.failure, sizeof gpu.failure, "%s %s (block %u %u %u, thread %u %u %u)", why, what,
             m->block.x, m->block.y, m->block.z, m->thread.x, m->thread.y, m->thread.z);
  fake_to_scheduler();
  _longjmp(gpu.scheduler, 1);
}

/* Lets all threads go on if all that have not ended wait at the barrier. */
static void fake_open_barrier(void) {
  unsigned count = 0;
  if (!gpu.left || gpu.waiting < gpu.left) return;
  for (unsigned i = 0; i < gpu.n; i++)
    count += gpu.fiber[i].state == AT_BARRIER && gpu.fiber[i].p;
  for (unsigned i = 0; i < gpu.n; i++) {
    fake_fiber *f = &gpu.fiber[i];
    if (f->state != AT_BARRIER) continue;
    f->got = count;
    f->state = READY;
  }
  gpu.waiting = 0;
}

static unsigned fake_barrier(int id, unsigned n, int p) {
  fake_fiber *f = &gpu.fiber[gpu.now];
  (void)n;
  if (id) fake_fail("the fake GPU has one barrier", "");
  f->p = p;
  f->state = AT_BARRIER;
  gpu.waiting++;
  fake_open_barrier();
  fake_yield();
  return f->got;
}
static unsigned fake_arrived(void) { return gpu.left; }

/* All lanes of a warp operation have arrived: each gets its result and can run again. */
static void fake_finish_all(unsigned warp, unsigned alive) {
  fake_fiber *w = &gpu.fiber[warp * 32];
  static fake_lanes l;
  l.mask = alive;
  for (unsigned i = 0; i < 32; i++)
    if (alive >> i & 1) memcpy(l.value[i], w[i].value, w[i].size);
  for (l.lane = 0; l.lane < 32; l.lane++) {
    fake_fiber *f = w + l.lane;
    if (!(alive >> l.lane & 1)) continue;
    if (f->finish) f->finish(&l, f->arg);
    f->state = READY;
  }
  gpu.there[warp] &= ~alive;
}

/* Completes the warp operation that thread t waits for, if all lanes of its mask wait there. */
static void fake_try_warp(unsigned t) {
  const fake_fiber *f = &gpu.fiber[t];
  const unsigned warp = t / 32, alive = f->mask & gpu.alive[warp];
  if (alive & ~gpu.there[warp]) return;
  for (unsigned i = 0; i < 32; i++) {
    const fake_fiber *g = &gpu.fiber[warp * 32 + i];
    if (!(alive >> i & 1)) continue;
    if (g->mask != f->mask) return;
    if (g->kind == f->kind && g->size == f->size) continue;
    gpu.now = t;
    fake_fail("lanes of a warp wait for different operations", "");
  }
  fake_finish_all(warp, alive);
}

static void fake_warp(int kind, unsigned mask, const void *value, unsigned size,
                      fake_lane_end *finish, void *arg) {
  fake_fiber *f = &gpu.fiber[gpu.now];
  if (kind < 0) {                          /* a poll: other threads run first */
    f->state = READY;
    fake_yield();
    return;
  }
  if (!(mask >> gpu.now % 32 & 1)) fake_fail("a lane calls with a mask that it is not in", "");
  f->kind = kind, f->mask = mask, f->size = size, f->finish = finish, f->arg = arg;
  if (size) memcpy(f->value, value, size);
  f->state = AT_WARP;
  gpu.there[gpu.now / 32] |= 1u << gpu.now % 32;
  fake_try_warp(gpu.now);
  fake_yield();
}

/* __activemask() at the code address 'at': waits until no other thread can run. Lanes of the warp
** that wait at the same address then count as active together. */
static unsigned fake_active(void *at) {
  fake_fiber *f = &gpu.fiber[gpu.now];
  f->at = at;
  f->state = AT_ACTIVE;
  fake_yield();
  return f->got;
}

/* Lets the lanes that wait at one __activemask() go on; 0: no thread waits at one. */
static int fake_activate(void) {
  for (unsigned k = 0; k < gpu.n; k++) {
    const unsigned t = gpu.order[k], warp = t / 32 * 32;
    unsigned mask = 0;
    if (gpu.fiber[t].state != AT_ACTIVE) continue;
    for (unsigned i = 0; i < 32 && warp + i < gpu.n; i++) {
      const fake_fiber *g = &gpu.fiber[warp + i];
      if (g->state == AT_ACTIVE && g->at == gpu.fiber[t].at &&      /* one in eight is left out */
          (warp + i == t || !gpu.parts || fake_random(8))) mask |= 1u << i;
    }
    for (unsigned i = 0; i < 32; i++)
      if (mask >> i & 1) gpu.fiber[warp + i].got = mask, gpu.fiber[warp + i].state = READY;
    return 1;
  }
  return 0;
}

/* ---- the scheduler ---- */

/* Thread t has ended: barriers and warp operations no longer wait for it. */
static void fake_end(unsigned t) {
  gpu.fiber[t].state = ENDED;
  gpu.left--;
  gpu.alive[t / 32] &= ~(1u << t % 32);
  fake_open_barrier();
  for (unsigned i = t / 32 * 32; gpu.there[t / 32] && i < gpu.n && i < t / 32 * 32 + 32; i++)
    if (gpu.fiber[i].state == AT_WARP) fake_try_warp(i);
}

static void fake_leave(void) { _longjmp(gpu.fiber[gpu.now].top, 1); }

/* What a fiber executes: it runs the kernel for one thread, yields, and when it is used for another
** thread runs the kernel again. */
static void fake_begin(void) {
  fake_in_fiber();
  for (;;) {
    fake_fiber *const f = &gpu.fiber[gpu.now];
    if (_setjmp(f->top) == 0) gpu.run(gpu.params);
    fake_end(gpu.now);
    fake_yield();
  }
}

static void fake_make(fake_fiber *f) {
  if (!f->stack) {
    f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->stack == MAP_FAILED) abort();
    mprotect(f->stack, 4096, PROT_NONE);
  }
  getcontext(&f->first);
  f->first.uc_stack.ss_sp = f->stack;
  f->first.uc_stack.ss_size = STACK;
  f->first.uc_link = &gpu.base;
  makecontext(&f->first, fake_begin, 0);
  f->made = 1;
}

/* Runs thread t until it yields. */
static void fake_step(unsigned t) {
  fake_fiber *f = &gpu.fiber[t];
  fake_machine *m = &gpu.m;
  gpu.now = m->linear = t;
  m->thread = (fake_dim){ t % m->threads.x, t / m->threads.x % m->threads.y,
                          t / m->threads.x / m->threads.y };
  f->state = READY;
  if (_setjmp(gpu.scheduler)) {
    fake_in_scheduler();
    return;
  }
  const int made = f->made;
  if (!made) fake_make(f);
  fake_to_fiber(f);
  if (made) _longjmp(f->here, 1);
  setcontext(&f->first);
}

static void fake_report_waits(void) {
  static const char *const what[] = { "fresh", "ready", "__syncthreads()", "a warp's operation",
                                      "__activemask()", "ended" };
  unsigned first[6] = { 0 }, n[6] = { 0 };
  for (unsigned i = 0; i < gpu.n; i++) {
    const fake_state_of s = gpu.fiber[i].state;
    if (!n[s]++) first[s] = i;
  }
  int at = snprintf(gpu.failure, sizeof gpu.failure, "threads wait for ever in block %u %u %u:",
                    gpu.m.block.x, gpu.m.block.y, gpu.m.block.z);
  for (int s = 0; s < 6; s++)
    if (n[s])
      at += snprintf(gpu.failure + at, sizeof gpu.failure - (size_t)at, " %u at %s (thread %u)",
                     n[s], what[s], first[s]);
}

/* The first page of the launch's dynamic shared memory. */
static unsigned char *fake_page(void) {
  return gpu.dynamic + (gpu.m.dynamic - gpu.dynamic) / PAGE * PAGE;
}

static void fake_open_dynamic(unsigned shared) {
  gpu.shared = shared;
  mprotect(gpu.dynamic, DYNAMIC, PROT_NONE);
  gpu.m.dynamic = gpu.dynamic + DYNAMIC - (shared + 15) / 16 * 16;
  mprotect(fake_page(), (size_t)(gpu.dynamic + DYNAMIC - fake_page()), PROT_READ | PROT_WRITE);
}

static void fake_check_dynamic(void) {
  int good = 1;
  for (const unsigned char *p = fake_page(); p < gpu.dynamic + DYNAMIC; p++)
    if (p < gpu.m.dynamic || p >= gpu.m.dynamic + gpu.shared) good &= *p == 0xa5;
  if (!good)
    snprintf(gpu.failure, sizeof gpu.failure, "written beyond %u bytes of dynamic shared memory",
             gpu.shared);
}

static void fake_run_block(void) {
  memset(gpu.alive, 0, sizeof gpu.alive);
  memset(gpu.there, 0, sizeof gpu.there);
  for (unsigned i = 0; i < gpu.n; i++) {
    gpu.fiber[i].state = FRESH;
    gpu.order[i] = i;
    gpu.alive[i / 32] |= 1u << i % 32;
  }
  gpu.left = gpu.n;
  gpu.waiting = 0;
  gpu.m.run++;
  memset(fake_page(), 0xa5, (size_t)(gpu.dynamic + DYNAMIC - fake_page()));
  while (gpu.left && !gpu.failure[0]) {
    int ran = 0;
    fake_shuffle(gpu.order, gpu.n);
    for (unsigned i = 0; i < gpu.n && !gpu.failure[0]; i++) {
      const unsigned t = gpu.order[i];
      if (gpu.fiber[t].state > READY) continue;
      fake_step(t);
      ran = 1;
    }
    if (!ran && gpu.left && !gpu.failure[0] && !fake_activate()) fake_report_waits();
  }
  if (!gpu.failure[0]) fake_check_dynamic();
}

/* The handler of SIGSEGV, SIGBUS and SIGFPE: an address outside all memory, or an integer divided
** by zero, ends the launch with a message. fake_watch sets (on) or resets the handlers. */
static void fake_on_fault(int s) {
  fake_fail(s == SIGFPE ? "an integer divided by zero" : "an address outside memory", "");
}
static const int fake_faults[] = { SIGSEGV, SIGBUS, SIGFPE };
static void fake_watch(int on) {
  static struct sigaction before[3];
  static char stack[64 << 10];
  const stack_t own = { .ss_sp = stack, .ss_size = sizeof stack };
  struct sigaction act = { .sa_handler = fake_on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER };
  if (on) sigaltstack(&own, NULL);
  for (int i = 0; i < 3; i++)
    if (on) sigaction(fake_faults[i], &act, &before[i]);
    else sigaction(fake_faults[i], &before[i], NULL);
}

/* After a failure fibers are left in the middle of kernels; each is made again when next used. */
static void fake_forget(void) {
  for (unsigned i = 0; i < FIBERS; i++) gpu.fiber[i].made = 0;
}

static void fake_open_gpu(void) {
  if (gpu.dynamic) return;
  gpu.dynamic = mmap(NULL, 3 * DYNAMIC, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (gpu.dynamic == MAP_FAILED) abort();
  gpu.dynamic += DYNAMIC;
  gpu.m = (fake_machine){ .barrier = fake_barrier, .arrived = fake_arrived,
                          .warp = fake_warp, .active = fake_active, .fail = fake_fail,
                          .leave = fake_leave };
}

/* Runs a kernel over its grid. Returns NULL, or a message if it failed. */
static const char *fake_run_grid(void (*run)(void **), void **params, fake_dim grid,
                                 fake_dim threads, unsigned shared) {
  const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
  unsigned *order = malloc(blocks * sizeof *order);
  if (!order) abort();
  gpu.failure[0] = 0;
  gpu.run = run;
  gpu.params = params;
  gpu.m.threads = threads;
  gpu.m.blocks = grid;
  gpu.n = threads.x * threads.y * threads.z;
  fake_open_dynamic(shared);
  for (unsigned i = 0; i < blocks; i++) order[i] = i;
  fake_watch(1);
  fake_shuffle(order, (unsigned)blocks);
  for (unsigned i = 0; i < blocks && !gpu.failure[0]; i++) {
    gpu.m.block = (fake_dim){ order[i] % grid.x, order[i] / grid.x % grid.y,
                              order[i] / grid.x / grid.y };
    fake_run_block();
  }
  fake_watch(0);
  free(order);
  if (gpu.failure[0]) fake_forget();
  return gpu.failure[0] ? gpu.failure : NULL;
}
