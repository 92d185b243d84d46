/*
** Which accesses to memory can follow one another with no barrier of the block (of the grid) in
** between. Of those, one thread may be at the first while another is at the second.
*/
#include "kernel/ad/ad_state.h"

int fl_kad_has_barrier(const fl_kblock *b) { return fl_kblock_any(*b, fl_kis_barrier, NULL); }

static int separates(const void *of, const fl_kstmt *s) {
  const fl_kad_meeting *m = of;
  return fl_kis_barrier(NULL, s) && (s->mode || !m->grid);
}

/* Access i of statement s comes after those that are live. */
static void meet(const fl_kad_meeting *m, uint8_t *live, const fl_kstmt *s) {
  for (int i = 0; i < m->n; i++) {
    if (m->at[i] != s) continue;
    for (int k = 0; k < m->n; k++)
      if (live[k] && m->pair) m->pair(m->arg, i, k);
    live[i] = 1;
  }
}

static void walk(const fl_kad_meeting *m, const fl_kblock *b, uint8_t *live);

/* Walks a loop. 'live' are the accesses since the last barrier. Whatever is live at its start, an
** iteration adds the same accesses: a first walk that forms no pairs finds them, and a second one,
** which begins with them, finds all pairs. So the body of a loop inside k other loops is walked k +
** 2 times. */
static void walk_loop(const fl_kad_meeting *m, const fl_kstmt *s, uint8_t *live) {
  const size_t n = (size_t)m->n;
  uint8_t *before = fl_karena_new(m->a, n + 1);
  if (!before) return;
  fl_kad_meeting none = *m;
  none.pair = NULL;
  for (int pairs = m->pair == NULL; pairs < 2; pairs++) {
    const fl_kad_meeting *now = pairs ? m : &none;
    meet(now, live, s);                                   /* its condition */
    memcpy(before, live, n);
    walk(now, &s->body, live);
    walk(now, &s->other, live);
    meet(now, live, s);
    for (size_t i = 0; i < n; i++) live[i] |= before[i];
  }
}

static void walk_if(const fl_kad_meeting *m, const fl_kstmt *s, uint8_t *live) {
  const size_t n = (size_t)m->n;
  meet(m, live, s);
  if (!fl_kblock_any(s->body, separates, m) && !fl_kblock_any(s->other, separates, m)) {
    walk(m, &s->body, live);             /* one thread is in the body while another is in 'other' */
    walk(m, &s->other, live);
    return;
  }
  uint8_t *other = fl_karena_new(m->a, n + 1);            /* all threads take one way */
  if (!other) return;
  memcpy(other, live, n);
  walk(m, &s->body, live);
  walk(m, &s->other, other);
  for (size_t i = 0; i < n; i++) live[i] |= other[i];
}

static void walk(const fl_kad_meeting *m, const fl_kblock *b, uint8_t *live) {
  for (const fl_kstmt *s = b->first; s && !m->a->failed; s = s->next) {
    if (separates(m, s) || (m->wall && s->note == m->wall)) memset(live, 0, (size_t)m->n);
    if (s->kind == FL_KS_IF) walk_if(m, s, live);
    else if (s->kind == FL_KS_LOOP) walk_loop(m, s, live);
    else meet(m, live, s);
    if (s->kind == FL_KS_BLOCK) walk(m, &s->body, live);
  }
}

void fl_kad_meetings(const fl_kad_meeting *m, const fl_kblock *b) {
  uint8_t *live = fl_karena_new(m->a, (size_t)m->n + 1);
  if (live) walk(m, b, live);
}
