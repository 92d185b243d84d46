/* Steps of a plan on the device: they are queued one by one when a plan is run, or when a run is
** recorded as graphs (replay.h). */
#ifndef FL_CUDA_STEPS_H
#define FL_CUDA_STEPS_H
#include "cuda/prepared.h"

/* What a recording needs to know of the kernels that a step launches. */
typedef struct fl_step_notes {
  void *arg;
  /* the device table for a launch group of several kernels, in place of the plan's own */
  void *(*table)(void *arg, const fl_launch_group *g);
  /* called after a kernel was launched with these parameters, which may contain scalars of the
  ** plan */
  flame_status (*launched)(void *arg, const fl_kernel *k, const fl_launch_group *g,
                           const int64_t *word);
} fl_step_notes;

/* Queues a step. notes: is told of its launches; may be NULL. text (FL_CALL_FAULT bytes): a call's
** message about bad values. */
flame_status fl_step_run(fl_cuda *s, const fl_step *t, const fl_binding *b,
                         const fl_step_notes *notes, char *text);
/* Writes the parameters of a kernel that is launched by itself to 'word'. */
void fl_step_words(const fl_cuda *s, const fl_kernel *k, const fl_binding *b, int64_t *word);
/* Writes the table of a launch group of n > 1 kernels, n * words words, to 'rows'; returns whether
** it changed. */
int fl_step_table(const fl_cuda *s, const fl_step *t, const fl_launch_group *g,
                  const fl_binding *b, int64_t *rows);
/* Is it a collective of the group? */
int fl_step_collects(const fl_step *t);
/* Does the step read the run's checks itself before it writes a home (a buffer of the script)? Not
** in a group of processes, where only the host knows what other ranks have found. */
int fl_step_guarded(const fl_cuda *s, const fl_step *t);
/* Does the step launch a user's kernel that notes failed assertions in the record of checks? */
int fl_step_asserts(const fl_step *t);
/* Does step i launch a user's kernel or a derived one after one that asserts? If the assertion has
** failed, indices that it reads may be none (those asserted, or what should have been written), so
** the host reads the record first. */
int fl_step_trusts(const fl_plan *p, int32_t i);
/* Is it a kernel that checks indices or asserts? */
int fl_step_checks(const fl_step *t);
/* Is i the last step with checks before a step at which the host may need their report? Then the
** report is sent after i. */
int fl_step_sends(const fl_plan *p, int32_t i);
/* Before the first step: queues the emptying of the record of checks. */
flame_status fl_step_clear(fl_cuda *s);
/* Queues the copy of the record of checks to the host, and an event that tells when that is done.
** While a graph is captured both become parts of it. */
flame_status fl_step_send(fl_cuda *s);
/* The first result among p->read, from index k on, that is copied to the host right after step i:
** its index there; -1: none. */
int32_t fl_step_soon(const fl_plan *p, int32_t i, int32_t k);
/* Describes the launches of t, a scatter or a product that kernels/steps.cu computes, for operands
** at these addresses (NULL: only the entry points and the scratch size are then of use). */
void fl_step_describe(const fl_step *t, char *const at[4], void *scratch, fl_text_step *out);
#endif
