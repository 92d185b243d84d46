/*
** write(2) for files. Beyond the limit of file sizes (ulimit -f) the kernel sends SIGXFSZ, which
** ends a process that has no handler for it; here it is only the error EFBIG.
*/
#ifndef FL_BASE_WRITE_H
#define FL_BASE_WRITE_H
#include <stddef.h>
#include <sys/types.h>

/* As write(2). Afterwards the host's handlers and the thread's signal mask are as before. */
ssize_t fl_write(int fd, const void *p, size_t n);
#endif
