#include "base/signals.h"
#include <pthread.h>

static const int number[] = { SIGINT, SIGTERM, SIGXFSZ };
enum { NUMBERS = sizeof number / sizeof *number };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int holders;
static struct sigaction was[NUMBERS];

void fl_signals_hold(sigset_t *mask) {
  sigset_t held;
  sigemptyset(&held);
  for (int i = 0; i < NUMBERS; i++) sigaddset(&held, number[i]);
  pthread_sigmask(SIG_BLOCK, &held, mask);
  pthread_mutex_lock(&lock);
  if (holders++ == 0)
    for (int i = 0; i < NUMBERS; i++) sigaction(number[i], NULL, &was[i]);
  pthread_mutex_unlock(&lock);
}

int fl_signals_pending(const sigset_t *mask) {
  sigset_t pending;
  if (sigpending(&pending) != 0) return 0;
  for (int i = 0; i < NUMBERS; i++)
    if (sigismember(&pending, number[i]) == 1 && sigismember(mask, number[i]) == 0) return 1;
  return 0;
}

void fl_signals_release(const sigset_t *mask) {
  pthread_mutex_lock(&lock);
  if (--holders == 0)
    for (int i = 0; i < NUMBERS; i++) sigaction(number[i], &was[i], NULL);
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, mask, NULL);
}
