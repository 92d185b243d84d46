/*
** Compiling kernel text with NVRTC, several programs at once. Workers see the text, the options and
** the table of entry points, nothing else: no context of the project and none of the memory that it
** counts. What needs these (cubins, logs of errors) is fetched by the caller's thread after the
** workers have been joined. After an interrupt no further programs are handed out; one that is
** being compiled can not be stopped and is waited for.
*/
#include "base/nvtx.h"
#include "base/signals.h"
#include "cuda/compile/headers.h"
#include "cuda/compile/module.h"
#include "cuda/driver/explain.h"
#include "cuda/text/text.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORKERS = 8, MOST_SPILLED = 32 /* bytes per thread */ };

flame_status fl_nvrtc_open(fl_cuda *s) {
  const char *reason = "";
  if (s->modules.rtc) return FLAME_OK;
  const fl_nvrtc *rtc = s->lib->nvrtc(&reason);
  if (!rtc) return FL_FAIL(s->ctx, FLAME_NO_DEVICE, "cuda", "%s", reason);
  const fl_rtc_result r = rtc->nvrtcVersion(&s->modules.rtc_major, &s->modules.rtc_minor);
  if (r != FL_RTC_OK)
    return FL_FAIL(s->ctx, FLAME_NO_DEVICE, "cuda", "nvrtcVersion: %s",
                   rtc->nvrtcGetErrorString(r));
  char why[300];
  const int major = s->modules.rtc_major, minor = s->modules.rtc_minor;
  if (!fl_cuda_fits_arch(rtc, major, minor, s->arch, why, sizeof why) ||
      !fl_cuda_fits_version(major, minor, s->driver_version, why, sizeof why))
    return FL_FAIL(s->ctx, FLAME_NO_DEVICE, "cuda", "cuda:%d: %s", s->ordinal, why);
  s->modules.rtc = rtc;
  return FLAME_OK;
}

void fl_nvrtc_options(const fl_cuda *s, char arch[40], const char *option[FL_NVRTC_OPTIONS]) {
  int n = 0;
  const int specific = s->arch == FL_HOPPER && s->modules.rtc_major >= 12;
  snprintf(arch, 40, "--gpu-architecture=sm_%d%s", s->arch, specific ? "a" : "");
  option[n++] = arch;
  option[n++] = "-fmad=false";
  option[n++] = "-default-device";
  option[n++] = "--ptxas-options=-v";               /* the log then reports spilled registers */
  if (s->ctx->sync_each || fl_nvtx_on()) option[n++] = "-lineinfo";
  option[n] = NULL;
}

typedef struct crew {               /* shared by the workers of one call */
  const fl_nvrtc *rtc;
  const char *const *option;
  int noption, n, finished;
  fl_compile *job;
  atomic_int next, stop;
  pthread_mutex_t lock;
  pthread_cond_t change;
} crew;

static void compile_with(const fl_nvrtc *rtc, fl_compile *j, int n, const char *const *option) {
  j->result = rtc->nvrtcCreateProgram(&j->program, j->text, j->name, j->user ? FL_HEADERS : 0,
                                      j->user ? fl_header_texts : NULL,
                                      j->user ? fl_header_names : NULL);
  j->made = j->result == FL_RTC_OK;
  if (j->made) j->result = rtc->nvrtcCompileProgram(j->program, n, option);
}

/* Bytes of registers that a thread spills to memory, according to the log; 0 if it does not say. */
static int spilled(const fl_nvrtc *rtc, fl_rtc_program program) {
  char log[4096];
  size_t n = 0;
  if (rtc->nvrtcGetProgramLogSize(program, &n) != FL_RTC_OK || n == 0 || n >= sizeof log) return 0;
  if (rtc->nvrtcGetProgramLog(program, log) != FL_RTC_OK) return 0;
  log[n] = 0;
  const char *end = strstr(log, " bytes spill stores"), *at = end;
  while (at && at > log && at[-1] >= '0' && at[-1] <= '9') at--;
  return at ? atoi(at) : 0;
}

/* Compiles a program; again with a lower FL_TEXT_BLOCKS (blocks that a multiprocessor should hold)
** if more than MOST_SPILLED bytes of registers are spilled, which costs a row kernel more than
** fewer blocks at a time. */
static void compile_one(crew *w, fl_compile *j) {
  static const char define[] = "#define " FL_TEXT_BLOCKS " ";
  const char *option[FL_NVRTC_OPTIONS + 1], *set = j->user ? NULL : strstr(j->text, define);
  char blocks[32];
  compile_with(w->rtc, j, j->option ? j->noption : w->noption, j->option ? j->option : w->option);
  for (int n = set ? atoi(set + sizeof define - 1) : 0; n > 1 && j->result == FL_RTC_OK;) {
    if (spilled(w->rtc, j->program) <= MOST_SPILLED) break;
    n = n * 2 / 3;
    snprintf(blocks, sizeof blocks, "-D" FL_TEXT_BLOCKS "=%d", n);
    memcpy(option, w->option, sizeof *option * (size_t)w->noption);
    option[w->noption] = blocks;
    w->rtc->nvrtcDestroyProgram(&j->program);
    compile_with(w->rtc, j, w->noption + 1, option);
  }
  j->done = 1;
}

/* The next job that is not done; NULL: there is none, or the workers must stop. */
static fl_compile *take(crew *w) {
  for (;;) {
    const int i = atomic_fetch_add(&w->next, 1);
    if (i >= w->n || atomic_load(&w->stop)) return NULL;
    if (!w->job[i].done) return &w->job[i];
  }
}

static void *worker(void *arg) {
  crew *w = arg;
  for (fl_compile *j; (j = take(w)) != NULL;) compile_one(w, j);
  pthread_mutex_lock(&w->lock);
  w->finished++;
  pthread_cond_signal(&w->change);
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* Starts up to 'want' workers with all signals blocked; returns how many run. */
static int start(crew *w, pthread_t *thread, int want) {
  sigset_t all, old;
  int n = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (n < want && pthread_create(&thread[n], NULL, worker, w) == 0) n++;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return n;
}

/* Makes the workers stop if the user has interrupted (then returns the error) or a signal is
** pending, which is delivered after they have stopped. */
static flame_status look(fl_cuda *s, crew *w, const sigset_t *mask) {
  const flame_status e = fl_cuda_poll(s);
  if (e != FLAME_OK || fl_signals_pending(mask)) atomic_store(&w->stop, 1);
  return e;
}

/* Waits until n workers have finished; an interrupt makes them finish early. */
static flame_status wait_for(fl_cuda *s, crew *w, int n, const sigset_t *mask) {
  flame_status e = FLAME_OK;
  pthread_mutex_lock(&w->lock);
  while (w->finished < n) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 20 * 1000 * 1000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&w->change, &w->lock, &t);
    if (e == FLAME_OK) e = look(s, w, mask);
  }
  pthread_mutex_unlock(&w->lock);
  return e;
}

/* Lets workers take programs until there are none or a signal came; without threads this thread
** compiles. */
static flame_status take_turns(fl_cuda *s, crew *w, const sigset_t *mask) {
  pthread_t thread[MAX_WORKERS];
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int want = w->n < MAX_WORKERS ? w->n : MAX_WORKERS;
  if (want > cores) want = cores > 1 ? (int)cores : 1;
  atomic_store(&w->next, 0);
  atomic_store(&w->stop, 0);
  w->finished = 0;
  const int started = w->n > 1 ? start(w, thread, want) : 0;
  flame_status e = started ? wait_for(s, w, started, mask) : look(s, w, mask);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
  for (fl_compile *j; !started && e == FLAME_OK && (j = take(w)) != NULL;) {
    compile_one(w, j);
    e = look(s, w, mask);
  }
  return e;
}

static int any_left(const fl_compile *job, int n) {
  for (int i = 0; i < n; i++) if (!job[i].done) return 1;
  return 0;
}

flame_status fl_nvrtc_compile(fl_cuda *s, fl_compile *job, int n) {
  char arch[40];
  const char *option[FL_NVRTC_OPTIONS];
  crew w = { .rtc = s->modules.rtc, .option = option, .n = n, .job = job };
  flame_status e = FLAME_OK;
  fl_nvrtc_options(s, arch, option);
  while (option[w.noption]) w.noption++;
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.change, NULL);
  while (e == FLAME_OK && any_left(job, n)) {
    sigset_t mask;
    fl_signals_hold(&mask);
    e = take_turns(s, &w, &mask);
    fl_signals_release(&mask);
    if (e == FLAME_OK) e = fl_cuda_poll(s);
  }
  pthread_cond_destroy(&w.change);
  pthread_mutex_destroy(&w.lock);
  for (int i = 0; i < n; i++) s->ctx->stats.compiles += job[i].done;
  return e;
}

/* Reports the compiler's log, as much as a message can hold. */
static void fail_with_log(fl_cuda *s, const fl_compile *j) {
  const fl_nvrtc *rtc = s->modules.rtc;
  size_t n = 0;
  char *log = NULL;
  if (j->made && rtc->nvrtcGetProgramLogSize(j->program, &n) == FL_RTC_OK && n > 1)
    log = fl_zalloc(s->mem, n + 1);
  if (log && rtc->nvrtcGetProgramLog(j->program, log) != FL_RTC_OK) *log = 0;
  if (j->user && log && *log) FL_FAIL(s->ctx, FLAME_BAD_ARGUMENT, "kernel", "%.470s", log);
  else FL_FAIL(s->ctx, j->result == FL_RTC_OUT_OF_MEMORY ? FLAME_NO_MEMORY : FLAME_INTERNAL,
          "cuda",
          "compiling kernel %s: %s%s%.400s", j->name, rtc->nvrtcGetErrorString(j->result),
          log && *log ? ": " : "", log ? log : "");
  if (log) fl_free(s->mem, log, n + 1);
}

void *fl_nvrtc_cubin(fl_cuda *s, fl_compile *j, size_t *size) {
  const fl_nvrtc *rtc = s->modules.rtc;
  *size = 0;
  if (j->result == FL_RTC_OK) j->result = rtc->nvrtcGetCUBINSize(j->program, size);
  if (j->result != FL_RTC_OK) {
    fail_with_log(s, j);
    return NULL;
  }
  void *p = fl_alloc(s->mem, *size);
  if (!p) {
    FL_FAIL(s->ctx, FLAME_NO_MEMORY, "cuda", "no host memory for a kernel");
    return NULL;
  }
  j->result = rtc->nvrtcGetCUBIN(j->program, p);
  if (j->result == FL_RTC_OK) return p;
  fail_with_log(s, j);
  fl_free(s->mem, p, *size);
  return NULL;
}

void fl_nvrtc_drop(fl_cuda *s, fl_compile *job, int n) {
  for (int i = 0; i < n; i++)
    if (job[i].made) s->modules.rtc->nvrtcDestroyProgram(&job[i].program);
}
