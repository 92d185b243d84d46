/*
** Signals while a library is at work that takes them to itself. NVRTC, and what compiles by it as
** cuDNN does, puts handlers for SIGINT and SIGTERM that end the process and ignores SIGXFSZ
** meanwhile; two compilations at once leave its handlers behind. So those signals are held back
** in the calling thread, and what they do is put back afterwards.
**
** What a signal does belongs to the process, so the count of those at work is the process's.
** Any thread. A thread of the host that has the signals unblocked may still meet the library's
** handler.
*/
#ifndef FL_BASE_SIGNALS_H
#define FL_BASE_SIGNALS_H
#include <signal.h>

/* *mask: what the thread had blocked, for the other two. */
void fl_signals_hold(sigset_t *mask);
/* Does one wait that the release will deliver? */
int fl_signals_pending(const sigset_t *mask);
void fl_signals_release(const sigset_t *mask);
#endif
