/*
** Kernel texts of plans that run on the CPU. Generating text needs no GPU, so it is generated for
** every structure that is new to the context: a script's texts can be counted (flame.stats().texts)
** and looked at (FLAME_DEBUG=4) on any machine, and a test that a later step generates no text
** holds for both devices. Costs about 20 us per new structure.
*/
#include "base/hash.h"
#include "cuda/text/text.h"
#include "engine/evaluate.h"
#include <stdio.h>

/* Adds h to the set; 1 if it was not there. If there is no memory to enlarge the set: 1, and h is
** counted again the next time. */
static int is_new(fl_engine *e, fl_mem *m, uint64_t h) {
  if (e->texts.n * 2 >= e->texts.cap) {
    const int64_t cap = e->texts.cap ? 2 * e->texts.cap : 256;
    uint64_t *at = fl_zalloc(m, (size_t)cap * sizeof *at);
    if (!at) return 1;
    for (int64_t i = 0; i < e->texts.cap; i++) {
      if (!e->texts.at[i]) continue;
      int64_t k = (int64_t)(e->texts.at[i] & (uint64_t)(cap - 1));
      while (at[k]) k = (k + 1) & (cap - 1);
      at[k] = e->texts.at[i];
    }
    fl_free(m, e->texts.at, (size_t)e->texts.cap * sizeof *at);
    e->texts.at = at;
    e->texts.cap = cap;
  }
  h += h == 0;
  int64_t k = (int64_t)(h & (uint64_t)(e->texts.cap - 1));
  while (e->texts.at[k] && e->texts.at[k] != h) k = (k + 1) & (e->texts.cap - 1);
  if (e->texts.at[k]) return 0;
  e->texts.at[k] = h;
  e->texts.n++;
  return 1;
}

static void generate(flame_context *c, const fl_kernel *k, int multi) {
  char name[FL_TEXT_NAME];
  fl_text t;
  fl_text_init(&t, &c->mem);
  if (fl_text_named(k, multi, name, &t) == FLAME_OK) c->stats.texts++;
  const char *s = c->show_texts ? fl_text_str(&t) : NULL;
  if (s) fputs(s, stderr);
  fl_text_free(&t);
}

void fl_engine_texts(flame_context *c, const fl_plan *p) {
  fl_engine *e = c->engine;
  for (int32_t i = 0; i < p->nstep; i++) {
    const fl_step *s = &p->step[i];
    if (s->kind != FL_S_KERNEL) continue;
    fl_text key;
    fl_text_init(&key, &c->mem);
    fl_text_key(s->kernel, s->count > 1, &key);
    const int fresh = !key.failed &&
                      is_new(e, &c->mem, fl_hash64(key.at, key.n, (uint64_t)(s->count > 1)));
    fl_text_free(&key);
    if (fresh) generate(c, s->kernel, s->count > 1);
  }
}

void fl_engine_texts_close(flame_context *c) {
  fl_engine *e = c->engine;
  fl_free(&c->mem, e->texts.at, (size_t)e->texts.cap * sizeof *e->texts.at);
}
