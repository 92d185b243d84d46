/*
** Choices between algorithms: rank 0 records what it chose, the others ask (group.h, "Choices").
** Questions and answers are short messages on separate channels, so other messages do not delay
** them.
*/
#include "group/wait.h"
#include <string.h>

static const fl_choice *known(const fl_group *g, const uint8_t key[32]) {
  for (int64_t i = 0; i < g->choices.n; i++)
    if (memcmp(g->choices.at[i].key, key, 32) == 0) return &g->choices.at[i];
  return NULL;
}

/* Reads a rank's question if one has arrived and the answer to its previous question has been
** sent. */
static void listen(fl_group *g, int from) {
  fl_asker *a = &g->asker[from];
  if (a->answers && fl_letter_look(g->wire, &a->letter)) a->answers = 0;
  if (a->asks || a->answers || g->wire->table->probe(g->wire, from, FL_WIRE_ASK) != 1) return;
  a->letter = (fl_letter){ .at = (char *)&a->choice, .left = sizeof a->choice, .peer = from,
                           .channel = FL_WIRE_ASK };
  int r = 0;
  while (r == 0) r = fl_letter_look(g->wire, &a->letter);      /* it is there */
  a->asks = r == 1;
}

void fl_group_answer(fl_group *g, int waits) {
  if (g->launch.rank != 0 || !g->wire || g->broken[0]) return;
  for (int r = 1; r < g->launch.size; r++) {
    fl_asker *a = &g->asker[r];
    listen(g, r);
    const fl_choice *x = a->asks ? known(g, a->choice.key) : NULL;
    if (!a->asks || (!x && !waits)) continue;
    if (x) a->choice = *x;
    else a->choice.bytes = 0;
    a->letter = (fl_letter){ .at = (char *)&a->choice, .left = sizeof a->choice, .peer = r,
                             .channel = FL_WIRE_ANSWER, .out = 1 };
    a->asks = 0;
    a->answers = fl_letter_look(g->wire, &a->letter) == 0;
  }
}

void fl_group_choose(fl_group *g, const uint8_t key[32], const void *data, size_t bytes) {
  fl_choice *x = bytes <= FL_CHOICE ? FL_PUSH(&g->c->mem, &g->choices) : NULL;
  if (!x) return;                                        /* then the others get none */
  memset(x, 0, sizeof *x);
  memcpy(x->key, key, sizeof x->key);
  x->bytes = (int64_t)bytes;
  memcpy(x->data, data, bytes);
  fl_group_answer(g, 0);
}

int fl_group_choice(fl_group *g, const uint8_t key[32], void *data, size_t bytes, char *fault) {
  fl_choice got;
  fl_turn t = { g, fl_group_head(g, "the choice of a product", FL_COLLECT_FINE), fault };
  fault[0] = 0;
  g->ask = (fl_choice){ .bytes = 0 };
  memcpy(g->ask.key, key, sizeof g->ask.key);
  fl_group_send(g, 0, FL_WIRE_ASK, &g->ask, sizeof g->ask);
  fl_group_receive(g, 0, FL_WIRE_ANSWER, &got, sizeof got);
  if (!fl_group_wait(&t)) return -1;
  if (got.bytes != (int64_t)bytes || memcmp(got.key, key, sizeof got.key) != 0) return 0;
  memcpy(data, got.data, bytes);
  return 1;
}
