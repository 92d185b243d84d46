/*
** Launches of the fake GPU: a block's threads run on fibers with separate stacks, one at a time. A
** thread goes on until it ends, waits (at a barrier, at a warp's operation, at __activemask()) or
** polls. When it ends, its fiber runs the next one, so that only threads that wait need a fiber
** each. Blocks, and the threads of a block each time that all of them had a chance to run, are
** ordered at random from the "seed" of FAKE_CUDA, so that results that depend on the order differ
** between seeds. Shared memory of a new block is filled with a pattern, and its dynamic part has
** the length that the launch gives: a store beyond it is an error. An error of a kernel ends the
** launch with a message: a wait that never ends, lanes at different operations, an assertion, an
** address outside memory.
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

/* A place to jump to, fake_set() at it and fake_jump() to it. Most of a launch is switches between
** fibers; the compiler's own jumps take less time than libc's, which sanitizers follow. Of those a
** function may have one, and with fake_set() in it, it is FAKE_APART: callers, which other fibers
** run meanwhile, must expect that registers change. */
#if defined __GNUC__ && !defined __clang__ && !defined __SANITIZE_ADDRESS__ && \
    !defined __SANITIZE_THREAD__
typedef void *fake_place[5];
#define FAKE_APART __attribute__((noipa))
#define fake_set(to) __builtin_setjmp(to)
static FAKE_APART _Noreturn void fake_jump(fake_place to) {
  __builtin_longjmp(to, 1);
}
#else
typedef jmp_buf fake_place;
#define FAKE_APART __attribute__((noinline))
#define fake_set(to) _setjmp(to)
static _Noreturn void fake_jump(fake_place to) { _longjmp(to, 1); }
#endif

typedef enum fake_state_of { FRESH, READY, AT_BARRIER, AT_WARP, AT_ACTIVE, ENDED } fake_state_of;
typedef struct fake_thread {
  fake_place here, top;           /* where it has yielded; where it ends early */
  unsigned own;                   /* the number of its fiber */
  int kind, p;                    /* kind of its warp operation; p: its predicate at a barrier */
  unsigned mask, got;             /* mask of its warp operation; result of its barrier or
                                  ** __activemask() */
  unsigned char value[32];        /* what it gives to the warp operation, 'size' bytes */
  unsigned size;
  fake_lane_end *finish;          /* called with the values of all lanes and 'arg'; may be NULL */
  void *arg, *at;                 /* at: code address of its __activemask() */
} fake_thread;
typedef struct fake_fiber {
  char *stack;
  int made;                       /* it exists, and waits at 'idle' if it has no thread */
  fake_place idle;
} fake_fiber;

static struct {
  fake_machine m;
  fake_thread thread[FIBERS];
  fake_fiber fiber[FIBERS];
  unsigned idle[FIBERS], idles;   /* fibers without a thread, and how many */
  unsigned char state[FIBERS];    /* of each thread: fake_state_of */
  unsigned order[FIBERS];         /* in which threads run next */
  unsigned n, left, waiting;      /* numbers of threads: in the block; that have not ended; that
                                  ** wait at the barrier */
  unsigned alive[FIBERS / 32], there[FIBERS / 32];    /* of each warp, the lanes that have not
                                  ** ended, and those that wait at a warp's operation */
  unsigned now, at;               /* the thread that runs, and its place in 'order' */
  fake_place scheduler;
  ucontext_t first;               /* where a fiber begins */
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
  return (unsigned)(gpu.seed >> 33) % below;
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
static FAKE_APART void fake_yield(void) {
  if (fake_set(gpu.thread[gpu.now].here) == 0) {
    fake_to_scheduler();
    fake_jump(gpu.scheduler);
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
  fake_jump(gpu.scheduler);
}

/* Lets all threads go on if all that have not ended wait at the barrier. */
static void fake_open_barrier(void) {
  unsigned count = 0;
  if (!gpu.left || gpu.waiting < gpu.left) return;
  for (unsigned i = 0; i < gpu.n; i++)
    count += gpu.state[i] == AT_BARRIER && gpu.thread[i].p;
  for (unsigned i = 0; i < gpu.n; i++) {
    if (gpu.state[i] != AT_BARRIER) continue;
    gpu.thread[i].got = count;
    gpu.state[i] = READY;
  }
  gpu.waiting = 0;
}

static unsigned fake_barrier(int id, unsigned n, int p) {
  fake_thread *f = &gpu.thread[gpu.now];
  (void)n;
  if (id) fake_fail("the fake GPU has one barrier", "");
  f->p = p;
  gpu.state[gpu.now] = AT_BARRIER;
  gpu.waiting++;
  fake_open_barrier();
  fake_yield();
  return f->got;
}
static unsigned fake_arrived(void) { return gpu.left; }

/* All lanes of a warp operation have arrived: each gets its result and can run again. */
static void fake_finish_all(unsigned warp, unsigned alive) {
  fake_thread *w = &gpu.thread[warp * 32];
  static fake_lanes l;
  l.mask = alive;
  for (unsigned i = 0; i < 32; i++)
    if (alive >> i & 1) memcpy(l.value[i], w[i].value, w[i].size);
  for (l.lane = 0; l.lane < 32; l.lane++) {
    fake_thread *f = w + l.lane;
    if (!(alive >> l.lane & 1)) continue;
    if (f->finish) f->finish(&l, f->arg);
    gpu.state[warp * 32 + l.lane] = READY;
  }
  gpu.there[warp] &= ~alive;
}

/* Completes the warp operation that thread t waits for, if all lanes of its mask wait there. */
static void fake_try_warp(unsigned t) {
  const fake_thread *f = &gpu.thread[t];
  const unsigned warp = t / 32, alive = f->mask & gpu.alive[warp];
  if (alive & ~gpu.there[warp]) return;
  for (unsigned i = 0; i < 32; i++) {
    const fake_thread *g = &gpu.thread[warp * 32 + i];
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
  fake_thread *f = &gpu.thread[gpu.now];
  if (kind < 0) {                          /* a poll: other threads run first */
    gpu.state[gpu.now] = READY;
    fake_yield();
    return;
  }
  if (!(mask >> gpu.now % 32 & 1)) fake_fail("a lane calls with a mask that it is not in", "");
  f->kind = kind, f->mask = mask, f->size = size, f->finish = finish, f->arg = arg;
  if (size) memcpy(f->value, value, size);
  gpu.state[gpu.now] = AT_WARP;
  gpu.there[gpu.now / 32] |= 1u << gpu.now % 32;
  fake_try_warp(gpu.now);
  fake_yield();
}

/* __activemask() at the code address 'at': waits until no other thread can run. Lanes of the warp
** that wait at the same address then count as active together. */
static unsigned fake_active(void *at) {
  fake_thread *f = &gpu.thread[gpu.now];
  f->at = at;
  gpu.state[gpu.now] = AT_ACTIVE;
  fake_yield();
  return f->got;
}

/* Lets the lanes that wait at one __activemask() go on; 0: no thread waits at one. */
static int fake_activate(void) {
  for (unsigned k = 0; k < gpu.n; k++) {
    const unsigned t = gpu.order[k], warp = t / 32 * 32;
    unsigned mask = 0;
    if (gpu.state[t] != AT_ACTIVE) continue;
    for (unsigned i = 0; i < 32 && warp + i < gpu.n; i++) {
      if (gpu.state[warp + i] == AT_ACTIVE &&                       /* one in eight is left out */
          gpu.thread[warp + i].at == gpu.thread[t].at &&
          (warp + i == t || !gpu.parts || fake_random(8))) mask |= 1u << i;
    }
    for (unsigned i = 0; i < 32; i++)
      if (mask >> i & 1) gpu.thread[warp + i].got = mask, gpu.state[warp + i] = READY;
    return 1;
  }
  return 0;
}

/* ---- the scheduler ---- */

/* Thread t has ended: barriers and warp operations no longer wait for it. */
static void fake_end(unsigned t) {
  gpu.state[t] = ENDED;
  gpu.left--;
  gpu.alive[t / 32] &= ~(1u << t % 32);
  fake_open_barrier();
  for (unsigned i = t / 32 * 32; gpu.there[t / 32] && i < gpu.n && i < t / 32 * 32 + 32; i++)
    if (gpu.state[i] == AT_WARP) fake_try_warp(i);
}

static void fake_leave(void) { fake_jump(gpu.thread[gpu.now].top); }

/* Makes t the thread that runs. */
static void fake_take(unsigned t) {
  fake_machine *m = &gpu.m;
  gpu.now = m->linear = t;
  m->thread = (fake_dim){ t % m->threads.x, t / m->threads.x % m->threads.y,
                          t / m->threads.x / m->threads.y };
  gpu.state[t] = READY;
}

/* After the end of a thread: takes the next one in the order for the same fiber, if it has not
** begun; 0: there is none, or it has a fiber. */
static int fake_take_next(unsigned own) {
  unsigned k = gpu.at + 1;
  while (k < gpu.n && gpu.state[gpu.order[k]] > READY) k++;
  if (k == gpu.n || gpu.state[gpu.order[k]] != FRESH) return 0;
  gpu.at = k;
  fake_take(gpu.order[k]);
  gpu.thread[gpu.now].own = own;
  return 1;
}

/* Goes back to the scheduler, and returns when the fiber has another thread. */
static FAKE_APART void fake_wait_idle(unsigned own) {
  gpu.idle[gpu.idles++] = own;
  if (fake_set(gpu.fiber[own].idle) == 0) {
    fake_to_scheduler();
    fake_jump(gpu.scheduler);
  }
  fake_in_fiber();
}

/* What a fiber executes: it runs the kernel for one thread after the other. */
static FAKE_APART void fake_begin(void) {
  const unsigned own = gpu.thread[gpu.now].own;
  fake_in_fiber();
  for (;;) {
    do {
      if (fake_set(gpu.thread[gpu.now].top) == 0) gpu.run(gpu.params);
      fake_end(gpu.now);
    } while (fake_take_next(own));
    fake_wait_idle(own);
  }
}

/* Makes a fiber and enters it. Stacks begin at different places of a page: the caches would keep
** few lines of many stacks at one. */
static void fake_make(unsigned own) {
  fake_fiber *f = &gpu.fiber[own];
  if (!f->stack) {
    f->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->stack == MAP_FAILED) abort();
    mprotect(f->stack, PAGE, PROT_NONE);
  }
  getcontext(&gpu.first);
  gpu.first.uc_stack.ss_sp = f->stack;
  gpu.first.uc_stack.ss_size = STACK - own % 32 * 128;
  gpu.first.uc_link = NULL;
  makecontext(&gpu.first, fake_begin, 0);
  f->made = 1;
  fake_to_fiber(f);
  setcontext(&gpu.first);
}

/* Runs thread t until it yields; others may end on its fiber before. */
static FAKE_APART void fake_step(unsigned t) {
  const int fresh = gpu.state[t] == FRESH;
  fake_take(t);
  if (fake_set(gpu.scheduler)) {
    fake_in_scheduler();
    return;
  }
  if (fresh) gpu.thread[t].own = gpu.idle[--gpu.idles];
  fake_fiber *f = &gpu.fiber[gpu.thread[t].own];
  if (!f->made) fake_make(gpu.thread[t].own);
  fake_to_fiber(f);
  fake_jump(fresh ? f->idle : gpu.thread[t].here);
}

static void fake_report_waits(void) {
  static const char *const what[] = { "fresh", "ready", "__syncthreads()", "a warp's operation",
                                      "__activemask()", "ended" };
  unsigned first[6] = { 0 }, n[6] = { 0 };
  for (unsigned i = 0; i < gpu.n; i++) {
    const fake_state_of s = gpu.state[i];
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
    gpu.state[i] = FRESH;
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
    for (gpu.at = 0; gpu.at < gpu.n && !gpu.failure[0]; gpu.at++) {
      const unsigned t = gpu.order[gpu.at];
      if (gpu.state[t] > READY) continue;
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

/* At first, and after a failure, which leaves fibers in the middle of kernels: each is made when it
** is next used. */
static void fake_forget(void) {
  gpu.idles = FIBERS;
  for (unsigned i = 0; i < FIBERS; i++) gpu.fiber[i].made = 0, gpu.idle[i] = FIBERS - 1 - i;
}

static void fake_open_gpu(void) {
  if (gpu.dynamic) return;
  gpu.dynamic = mmap(NULL, 3 * DYNAMIC, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (gpu.dynamic == MAP_FAILED) abort();
  gpu.dynamic += DYNAMIC;
  gpu.m = (fake_machine){ .barrier = fake_barrier, .arrived = fake_arrived,
                          .warp = fake_warp, .active = fake_active, .fail = fake_fail,
                          .leave = fake_leave };
  fake_forget();
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
