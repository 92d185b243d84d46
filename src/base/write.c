/*
** A write beyond the limit of a file's size must fail, not end the process. SIGXFSZ is blocked in
** this thread during the call, and consumed if the call raised it: the kernel sends it to the
** thread that writes. A SIGXFSZ that was pending before belongs to the host and stays.
*/
#include "base/write.h"
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

ssize_t fl_write(int fd, const void *p, size_t n) {
  const struct timespec now = { 0, 0 };
  sigset_t limit, before, pending;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  if (sigpending(&pending) != 0 || pthread_sigmask(SIG_BLOCK, &limit, &before) != 0)
    return write(fd, p, n);
  const ssize_t k = write(fd, p, n);
  const int why = errno;
  if (k < 0 && why == EFBIG && !sigismember(&pending, SIGXFSZ))
    while (sigtimedwait(&limit, NULL, &now) < 0 && errno == EINTR) {}
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = why;
  return k;
}
