/*
** TCP as a wire (group.h): a socket between each two ranks. It needs no library, and serves
** processes that torchrun starts.
**
** A stream is a sequence of frames: a head with channel and length, then the bytes. Frames of
** arrays go directly from and to a letter's bytes, one in each direction at a time. Frames of other
** channels are short: they are written to an outbox when posted, and arrive in a box for their
** channel, so the message of a rank that gave up is seen although its earlier short messages have
** not been read yet.
*/
#ifndef FL_GROUP_TCP_H
#define FL_GROUP_TCP_H
#include "group/wait.h"

enum { FL_TCP_BOX = 512, FL_TCP_OUT = 4096 };
enum { FL_TCP_RANKS = 4096 };            /* most ranks: each has a socket and 8 KB for each other */

typedef struct fl_tcp_frame { int32_t form, channel; int64_t bytes; } fl_tcp_frame;

typedef struct fl_tcp_peer {
  int fd;                                /* -1: none, or it is known to have ended */
  /* incoming: the head, then 'left' bytes to 'to' (NULL: no call has asked for them) */
  fl_tcp_frame head;
  size_t head_n;
  int64_t left;
  char *to;
  fl_letter *wants, *takes;              /* wants: an array for which a call waits; takes: the array
                                         ** that is arriving */
  char box[FL_WIRE_PAIRED][FL_TCP_BOX];
  int32_t full[FL_WIRE_PAIRED];          /* bytes in it, -1: none */
  /* outgoing: short frames, and between two of them an array with its head */
  char out[FL_TCP_OUT];
  size_t out_n;
  fl_letter *gives;
  fl_tcp_frame give_head;
  const char *from;                      /* position in the head or the array; NULL: not begun */
  int64_t to_send;
} fl_tcp_peer;

typedef struct fl_tcp { fl_wire wire; fl_mem *mem; fl_tcp_peer *peer; } fl_tcp;

/* Ranks find each other at MASTER_ADDR and MASTER_PORT (tcp_meet.c). NULL: 'why' gives the
** reason. */
fl_wire *fl_tcp_open(flame_context *c, const fl_launch *l, double limit, char *why, size_t bytes);
/* Connects to every other rank: sets t->peer[].fd. 0: failed, see why; 'stop' ends the attempt. */
int fl_tcp_meet(fl_tcp *t, const fl_launch *l, double limit, const atomic_int *stop, char *why,
                size_t bytes);
#endif
