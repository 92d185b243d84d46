/* Inside group/: posting messages and waiting for them (wait.c), what ranks compare (agree.c). */
#ifndef FL_GROUP_WAIT_H
#define FL_GROUP_WAIT_H
#include "group/group.h"

/* What a rank calls, as the others see it. */
typedef struct fl_header {
  int64_t form;                          /* of this struct and what is sent after it */
  int64_t number, dtype, lane;
  int64_t count, digest;                 /* it and those that follow in the plan; of these */
  int64_t checks;                        /* the plan has any */
  int64_t p[FL_COLLECT_SIZES + FL_MAX_AXES];
  char what[32], place[96];
} fl_header;

/* A collective that runs: its text for messages is header[rank]'s. fault: FL_CALL_FAULT bytes. */
typedef struct fl_turn { fl_group *g; fl_header *mine; char *fault; } fl_turn;

double fl_group_now(void);
void fl_group_rest(void);                /* between two looks */
/* Put a message under way; nothing where bytes is 0. */
void fl_group_send(fl_group *g, int to, int channel, const void *p, int64_t bytes);
void fl_group_receive(fl_group *g, int from, int channel, void *p, int64_t bytes);
/* Till all that is under way has arrived. 1: it has. 0: the group broke, t->fault says why (or,
** when it is empty, the script was interrupted). */
int fl_group_wait(fl_turn *t);
/* Test without waiting: 1: all has arrived; 0: not yet; -1: the wire failed. */
int fl_group_look(fl_group *g);
/* The same of one letter. */
int fl_letter_look(fl_wire *w, fl_letter *l);
/* Give up what is under way. */
void fl_group_cancel(fl_group *g);

/* A GPU waits for other ranks, since 'since' (0: it is not known to). 0: the group broke, as
** t->fault says. */
int fl_group_watch(fl_turn *t, double since);
/* Each rank's record, by rank; that of rank 0 on all. 0: as fl_group_wait. */
int fl_group_gather_records(fl_turn *t, void *all, int64_t bytes);
int fl_group_first_record(fl_turn *t, void *p, int64_t bytes);

/* choice.c. Rank 0 has chosen. */
void fl_group_choose(fl_group *g, const uint8_t key[32], const void *data, size_t bytes);
/* What rank 0 has chosen, asked by another: 1: it is in data; 0: nothing. -1: as fl_group_wait,
** with the fault's text or none. */
int fl_group_choice(fl_group *g, const uint8_t key[32], void *data, size_t bytes, char *fault);
/* Rank 0 answers those who ask; waits: also those to whom it has nothing to say. */
void fl_group_answer(fl_group *g, int waits);

/* ahead.c. The header of this rank, of a collective or another of FL_COLLECT_*. */
fl_header *fl_group_head(fl_group *g, const char *what, int64_t kind);
/* What this rank calls, described in t->mine, which is set. */
void fl_group_describe(fl_turn *t, const fl_call *k, const fl_scalar *scalar, fl_lane lane);
/* The ranks come to the collective k. 1: they agree; else as fl_group_wait. */
int fl_group_come(fl_turn *t, const fl_call *k);
/* The checks of this rank found nothing: nor did those of the others? Else as fl_group_wait. */
int fl_group_fine(fl_turn *t);

/* "all_reduce of f32 (2, 3) at train.lua:8" */
void fl_group_text(const fl_header *h, char *out, size_t bytes);
/* Exchange headers with all ranks, or with one. 1: they agree; else as fl_group_wait. */
int fl_group_agree(fl_turn *t);
int fl_group_agree_pair(fl_turn *t, int peer);
#endif
