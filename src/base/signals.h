/*
** Signals while a library that installs signal handlers is working. While NVRTC compiles (also for
** cuDNN), it installs handlers for SIGINT and SIGTERM that end the process, and ignores SIGXFSZ;
** after two compilations at once its handlers remain. So these signals are blocked in the calling
** thread, and their actions are restored afterwards.
**
** Actions belong to the process, so the number of compiling threads is counted for the process. Any
** thread may call these functions. A thread of the host that has the signals unblocked may still
** run the library's handler.
*/
#ifndef FL_BASE_SIGNALS_H
#define FL_BASE_SIGNALS_H
#include <signal.h>

/* Blocks the signals. *mask receives the thread's mask from before, which the other two functions
** need. */
void fl_signals_hold(sigset_t *mask);
/* Is a signal pending that fl_signals_release will deliver? */
int fl_signals_pending(const sigset_t *mask);
void fl_signals_release(const sigset_t *mask);
#endif
