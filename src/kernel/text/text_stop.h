/*
** Assertions of kernels on a GPU. CUDA's own assert and trap lose the device, so a text that
** *stops* has two parameters more: the record of a run's checks (report() of kernels/prelude.cu),
** and the number of the step that launches it. A thread of which an assertion fails writes to the
** record and ends; those that meet it in its block (at a barrier, a shuffle, a vote) end there as
** well, since what it has not written is not known.
*/
#ifndef FL_KERNEL_TEXT_STOP_H
#define FL_KERNEL_TEXT_STOP_H
#include "kernel/text/text_write.h"

/* Does a text that is printed from f stop? Not without an assertion, nor where threads may wait for
** others in memory (a barrier of the grid, locks), which might wait for one that has ended: there a
** failed assertion is a trap. derived: f has no such waits but that barrier. */
int fl_ktext_stops(const fl_kfunc *f, int derived);
/* Writes what such a text needs before the kernel. */
void fl_ktext_stop(fl_text *t);
/* The n-th ASSERT (from 0); NULL: there is none. */
const fl_kstmt *fl_kassert_of(const fl_kfunc *f, int64_t n);

/* ---- for text.c ---- */
/* Raises w->stops from 1 to 2 if threads of a block meet (at barriers and so on) and shared memory
** has room for one more word: that word then tells the others that a thread has ended. */
void fl_kstop_open(fl_kwriter *w);
void fl_kstop_begin(fl_kwriter *w);                 /* what the kernel does first */
void fl_kput_assert(fl_kwriter *w, const fl_kstmt *s);
void fl_kstop_met(fl_kwriter *w);                   /* follows a statement at which threads meet */
#endif
