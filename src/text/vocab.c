/* Hash tables from texts to tokens (fl_vocab) and from numbers to numbers (fl_table), and tries,
** whose edges are in an fl_table. */
#include "text/parts.h"
#include "base/hash.h"

/* ---- texts ----------------------------------------------------------------------------------- */
/* The text's bin, or the free bin for it. */
static int64_t bin_of(const fl_vocab *v, const char *at, size_t n) {
  int64_t i = (int64_t)(fl_hash64(at, n, 0) & (uint64_t)(v->nbins - 1));
  for (; v->bins[i]; i = (i + 1) & (v->nbins - 1)) {
    const fl_token *t = &v->tokens.at[v->bins[i] - 1];
    if (t->n == n && memcmp(t->at, at, n) == 0) break;
  }
  return i;
}

/* Makes room for one more text. 0: no memory. */
static int widen(fl_vocab *v) {
  if (v->tokens.n * 2 < v->nbins) return 1;
  const int64_t nbins = v->nbins ? v->nbins * 2 : 64;
  int32_t *bins = fl_zalloc(v->mem, (size_t)nbins * sizeof *bins);
  if (!bins) return 0;
  fl_free(v->mem, v->bins, (size_t)v->nbins * sizeof *bins);
  v->bins = bins;
  v->nbins = nbins;
  for (int64_t i = 0; i < v->tokens.n; i++)
    v->bins[bin_of(v, v->tokens.at[i].at, v->tokens.at[i].n)] = (int32_t)i + 1;
  return 1;
}

int fl_vocab_put(fl_vocab *v, fl_span text, int32_t id, double score) {
  if (v->tokens.n >= INT32_MAX - 1 || !widen(v)) return 0;
  const int64_t i = bin_of(v, text.at, text.n);
  if (v->bins[i]) {
    v->tokens.at[v->bins[i] - 1].id = id;
    v->tokens.at[v->bins[i] - 1].score = score;
    return 1;
  }
  fl_token *t = FL_PUSH(v->mem, &v->tokens);
  if (!t) return 0;
  *t = (fl_token){ text.at, (uint32_t)text.n, id, score };
  if (text.n > v->longest) v->longest = text.n;
  v->bins[i] = (int32_t)v->tokens.n;
  return 1;
}

const fl_token *fl_vocab_get(const fl_vocab *v, const char *at, size_t n) {
  if (!v->nbins) return NULL;
  const int32_t i = v->bins[bin_of(v, at, n)];
  return i ? &v->tokens.at[i - 1] : NULL;
}

int fl_vocab_index(fl_vocab *v, int64_t nids) {
  v->by_id = fl_zalloc(v->mem, (size_t)nids * sizeof *v->by_id);
  if (!v->by_id) return 0;
  v->nids = nids;
  for (int64_t i = 0; i < v->tokens.n; i++) v->by_id[v->tokens.at[i].id] = (int32_t)i + 1;
  return 1;
}

const fl_token *fl_vocab_of(const fl_vocab *v, int64_t id) {
  const int32_t i = id >= 0 && id < v->nids ? v->by_id[id] : 0;
  return i ? &v->tokens.at[i - 1] : NULL;
}

void fl_vocab_drop(fl_vocab *v) {
  if (!v->mem) return;
  FL_DROP(v->mem, &v->tokens);
  fl_free(v->mem, v->bins, (size_t)v->nbins * sizeof *v->bins);
  fl_free(v->mem, v->by_id, (size_t)v->nids * sizeof *v->by_id);
  *v = (fl_vocab){ .mem = v->mem };
}

/* ---- numbers --------------------------------------------------------------------------------- */
static uint64_t *place_of(const fl_table *t, uint64_t key) {
  uint64_t i = fl_mix64(key, 1) & (uint64_t)(t->nbins - 1);
  while (t->at[2 * i] != key && t->at[2 * i] != UINT64_MAX) i = (i + 1) & (uint64_t)(t->nbins - 1);
  return &t->at[2 * i];
}

static int widen_table(fl_table *t) {
  if (t->n * 2 < t->nbins) return 1;
  const fl_table old = *t;
  const int64_t nbins = t->nbins ? t->nbins * 2 : 64;
  uint64_t *at = fl_alloc(t->mem, (size_t)nbins * 2 * sizeof *at);
  if (!at) return 0;
  memset(at, 0xFF, (size_t)nbins * 2 * sizeof *at);
  t->at = at;
  t->nbins = nbins;
  for (int64_t i = 0; i < old.nbins; i++)
    if (old.at[2 * i] != UINT64_MAX) memcpy(place_of(t, old.at[2 * i]), &old.at[2 * i],
        2 * sizeof *at);
  fl_free(t->mem, old.at, (size_t)old.nbins * 2 * sizeof *at);
  return 1;
}

uint64_t *fl_table_put(fl_table *t, uint64_t key, uint64_t otherwise) {
  if (!widen_table(t)) return NULL;
  uint64_t *p = place_of(t, key);
  if (p[0] == UINT64_MAX) {
    p[0] = key;
    p[1] = otherwise;
    t->n++;
  }
  return p + 1;
}

const uint64_t *fl_table_get(const fl_table *t, uint64_t key) {
  if (!t->nbins) return NULL;
  const uint64_t *p = place_of(t, key);
  return p[0] == UINT64_MAX ? NULL : p + 1;
}

void fl_table_drop(fl_table *t) {
  if (t->mem) fl_free(t->mem, t->at, (size_t)t->nbins * 2 * sizeof *t->at);
  *t = (fl_table){ .mem = t->mem };
}

/* ---- tries ----------------------------------------------------------------------------------- */
static int64_t new_node(fl_trie *t) {
  int32_t *v = FL_PUSH(t->edges.mem, &t->values);
  if (v) *v = -1;
  return v ? t->values.n - 1 : -1;
}

int fl_trie_put(fl_trie *t, fl_mem *mem, fl_span text, int32_t value) {
  t->edges.mem = mem;
  if (t->values.n == 0 && new_node(t) < 0) return 0;
  int64_t node = 0;
  for (size_t i = 0; i < text.n; i++) {
    const unsigned char b = (unsigned char)text.at[i];
    uint64_t *v = fl_table_put(&t->edges, (uint64_t)node << 8 | b, UINT64_MAX);
    if (!v) return 0;
    if (*v == UINT64_MAX) {
      const int64_t made = new_node(t);
      if (made < 0) return 0;
      *v = (uint64_t)made;
    }
    node = (int64_t)*v;
  }
  t->values.at[node] = value;
  if (text.n) {
    const unsigned char b = (unsigned char)text.at[0];
    t->first[b >> 6] |= UINT64_C(1) << (b & 63);
  }
  return 1;
}

void fl_trie_drop(fl_trie *t) {
  if (t->edges.mem) FL_DROP(t->edges.mem, &t->values);
  fl_table_drop(&t->edges);
}
