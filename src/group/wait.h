/* Inside group/: posting messages and waiting for them (wait.c), what ranks compare (agree.c). */
#ifndef FL_GROUP_WAIT_H
#define FL_GROUP_WAIT_H
#include "group/group.h"

/* Describes the collective that a rank calls; the other ranks compare it with what they call. */
typedef struct fl_header {
  int64_t form;                          /* fl_group_form() */
  int64_t number, dtype, lane;
  int64_t count, digest;                 /* number of collectives from this one to the plan's end,
                                         ** and a digest of those after it */
  int64_t checks;                        /* the plan has checks of indices */
  int64_t p[FL_COLLECT_SIZES + FL_MAX_AXES];
  char what[32], place[96];
} fl_header;

/* A running collective. mine: this rank's header, which also gives the text for messages. fault:
** FL_CALL_FAULT bytes. */
typedef struct fl_turn { fl_group *g; fl_header *mine; char *fault; } fl_turn;

double fl_group_now(void);
void fl_group_rest(void);                /* sleeps between two polls */
/* Posts a message; does nothing if bytes is 0. */
void fl_group_send(fl_group *g, int to, int channel, const void *p, int64_t bytes);
void fl_group_receive(fl_group *g, int from, int channel, void *p, int64_t bytes);
/* Waits until all messages in transit are done. 1: they are. 0: the group broke, for the reason in
** t->fault (if that is empty, the script was interrupted). */
int fl_group_wait(fl_turn *t);
/* Tests them without waiting: 1: all are done; 0: not yet; -1: the wire failed. */
int fl_group_look(fl_group *g);
/* Like fl_group_look, for one letter (message in transit). */
int fl_letter_look(fl_wire *w, fl_letter *l);
/* Cancels what is in transit, except short messages that are being sent: their bytes live as long
** as the group. */
void fl_group_cancel(fl_group *g);

/* Called while a GPU waits for other ranks, since 'since' (0: it may not be waiting). 0: the group
** broke, see t->fault. */
int fl_group_watch(fl_turn *t, double since);
/* fl_group_gather_records collects each rank's record, in the order of ranks, at all ranks;
** fl_group_first_record gives the record of rank 0 to all ranks. 0: as fl_group_wait. */
int fl_group_gather_records(fl_turn *t, void *all, int64_t bytes);
int fl_group_first_record(fl_turn *t, void *p, int64_t bytes);

/* choice.c. Records a choice of rank 0. */
void fl_group_choose(fl_group *g, const uint8_t key[32], const void *data, size_t bytes);
/* Asks rank 0 what it has chosen: 1: it is in data; 0: it has chosen nothing; -1: the group broke,
** for the reason in 'fault' (empty: the script was interrupted). */
int fl_group_choice(fl_group *g, const uint8_t key[32], void *data, size_t bytes, char *fault);
/* Rank 0 answers questions of other ranks; if it 'waits', also those about choices that it has not
** made. */
void fl_group_answer(fl_group *g, int waits);

/* ahead.c. A number that differs between versions of flame, and between builds that lay out headers
** differently. */
int64_t fl_group_form(void);
/* Begins this rank's header, which is returned, with the name 'what' and the kind
** FL_COLLECT_*. */
fl_header *fl_group_head(fl_group *g, const char *what, int64_t kind);
/* Fills this rank's header, t->mine, for the collective k, which it calls; scalar[0] is the place
** of the script's line. */
void fl_group_describe(fl_turn *t, const fl_call *k, const fl_scalar *scalar, fl_lane lane);
/* Lets the ranks agree on the collective k. 1: they do; else as fl_group_wait. */
int fl_group_come(fl_turn *t, const fl_call *k);
/* Called when the checks of indices at this rank found nothing wrong. 1: those of all ranks found
** nothing either; else as fl_group_wait. */
int fl_group_fine(fl_turn *t);

/* "all_reduce of f32 (2, 3) at train.lua:8" */
void fl_group_text(const fl_header *h, char *out, size_t bytes);
/* Exchanges headers with all ranks, or with one. 1: they agree; else as fl_group_wait. */
int fl_group_agree(fl_turn *t);
int fl_group_agree_pair(fl_turn *t, int peer);
#endif
