/*
** From a word to ids. Words repeat often, so the ids of recent ones are kept, by text; when the
** memory for that is full all are dropped.
*/
#include "text/parts.h"

enum { KEPT_WORD = 64, KEPT_IDS = 1 << 20 };     /* bytes of a word that is kept; ids of all */

static int push_id(fl_model *m, fl_ids *ids, int32_t id) {
  int32_t *p = FL_PUSH(m->vocab.mem, ids);
  if (p) *p = id;
  return p != NULL;
}

static flame_status unknown(fl_tokenizer *t, const char *what) {
  return FL_FAIL(t->c, FLAME_BAD_ARGUMENT, "encode",
                 "%s has no token, and the model has none for what is unknown", what);
}

/* ---- BPE ------------------------------------------------------------------------------------- */
static int push_symbol(fl_tokenizer *t, int32_t id) {
  fl_model *m = &t->model;
  const int64_t n = m->symbols.n;
  fl_symbol *s = n < INT32_MAX ? FL_PUSH(m->vocab.mem, &m->symbols) : NULL;
  if (!s) return fl_tok_no_memory(t->c), 0;
  *s = (fl_symbol){ id, (int32_t)n - 1, (int32_t)n + 1, 0 };
  return 1;
}

/* The id of a character with the model's prefix or suffix; -1: it has none. */
static int32_t id_of_part(fl_model *m, const char *p, size_t n, int first, int last,
                          fl_span *spelled) {
  *spelled = (fl_span){ p, n };
  fl_tok_empty(&m->spelled);
  if (n == 1 && !m->prefix.n && !m->suffix.n) return m->single[(unsigned char)*p];
  if ((m->prefix.n && !first) || (m->suffix.n && last)) {
    if (!first) fl_text_add(&m->spelled, m->prefix.at, m->prefix.n);
    fl_text_add(&m->spelled, p, n);
    if (last) fl_text_add(&m->spelled, m->suffix.at, m->suffix.n);
    if (m->spelled.failed) return -1;
    *spelled = (fl_span){ m->spelled.at, m->spelled.n };
  }
  const fl_token *token = fl_vocab_get(&m->vocab, spelled->at, spelled->n);
  return token ? token->id : -1;
}

/* Does each byte of s have a token, and may it be used? */
static int has_bytes(const fl_model *m, fl_span s) {
  for (size_t i = 0; i < s.n; i++) if (m->bytes[(unsigned char)s.at[i]] < 0) return 0;
  return m->fallback;
}

/* The symbols of a word. Unknown characters become byte tokens, or one unknown token each, or, if
** fused, one for all adjacent ones; they are left out if there is no such token. 0: it failed. */
static int spell(fl_tokenizer *t, fl_span word) {
  fl_model *m = &t->model;
  int waits = 0, k;                  /* waits: an unknown token was met and is still to be added */
  m->symbols.n = 0;
  for (const char *p = word.at, *end = p + word.n; p < end; p += k) {
    fl_span s;
    (void)fl_utf8_get(p, &k);
    const int32_t id = id_of_part(m, p, (size_t)k, p == word.at, p + k == end, &s);
    if (m->spelled.failed) return fl_tok_no_memory(t->c), 0;
    if (fl_tok_poll(t->c) != FLAME_OK) return 0;
    if (id < 0 && has_bytes(m, s)) {
      for (size_t i = 0; i < s.n; i++)
        if (!push_symbol(t, m->bytes[(unsigned char)s.at[i]])) return 0;
      continue;
    }
    if (waits && (id >= 0 || !m->fuse) && !push_symbol(t, m->unknown)) return 0;
    waits = id < 0 && m->unknown >= 0;
    if (id >= 0 && !push_symbol(t, id)) return 0;
  }
  return !waits || push_symbol(t, m->unknown);
}

/* Adds the pair that begins at i to the heap, if it can be merged. 0: no memory. */
static int offer(fl_model *m, int32_t i) {
  fl_symbol *s = &m->symbols.at[i];
  s->rank = UINT32_MAX;
  if (s->next >= m->symbols.n) return 1;
  const uint64_t key = (uint64_t)(uint32_t)s->id << 32 | (uint32_t)m->symbols.at[s->next].id;
  const uint64_t *merge = fl_table_get(&m->merges, key);
  if (!merge) return 1;
  s->rank = (uint32_t)(*merge >> 32);
  uint64_t *p = FL_PUSH(m->vocab.mem, &m->heap);
  if (!p) return 0;
  const uint64_t v = (uint64_t)s->rank << 32 | (uint32_t)i;
  int64_t k = m->heap.n - 1;
  uint64_t *h = m->heap.at;
  for (; k > 0 && h[(k - 1) / 2] > v; k = (k - 1) / 2) h[k] = h[(k - 1) / 2];
  h[k] = v;
  return 1;
}

static uint64_t take_least(fl_model *m) {
  uint64_t *h = m->heap.at;
  const uint64_t least = h[0], v = h[--m->heap.n];
  int64_t k = 0;
  for (int64_t child; (child = 2 * k + 1) < m->heap.n; k = child) {
    if (child + 1 < m->heap.n && h[child + 1] < h[child]) child++;
    if (h[child] >= v) break;
    h[k] = h[child];
  }
  h[k] = v;
  return least;
}

/* Merges in the order of ranks, leftmost first. An entry of the heap whose symbol is gone or has
** another rank by now is ignored. */
static flame_status merge_all(fl_tokenizer *t) {
  fl_model *m = &t->model;
  m->heap.n = 0;
  for (int32_t i = 0; i < m->symbols.n; i++) if (!offer(m, i)) return fl_tok_no_memory(t->c);
  while (m->heap.n > 0) {
    const uint64_t v = take_least(m);
    const int32_t i = (int32_t)(uint32_t)v;
    fl_symbol *s = &m->symbols.at[i], *right;
    if (s->id < 0 || s->rank != (uint32_t)(v >> 32)) continue;
    right = &m->symbols.at[s->next];
    const uint64_t key = (uint64_t)(uint32_t)s->id << 32 | (uint32_t)right->id;
    s->id = (int32_t)(uint32_t)*fl_table_get(&m->merges, key);
    s->next = right->next;
    right->id = -1;
    if (s->next < m->symbols.n) m->symbols.at[s->next].previous = i;
    if (!offer(m, i) || (s->previous >= 0 && !offer(m, s->previous))) return fl_tok_no_memory(t->c);
    if (fl_tok_poll(t->c) != FLAME_OK) return t->c->err.code;
  }
  return FLAME_OK;
}

static flame_status bpe_word(fl_tokenizer *t, fl_span word, fl_ids *ids) {
  fl_model *m = &t->model;
  if (m->ignore_merges) {
    const fl_token *whole = fl_vocab_get(&m->vocab, word.at, word.n);
    if (whole) return push_id(m, ids, whole->id) ? FLAME_OK : fl_tok_no_memory(t->c);
  }
  if (!spell(t, word)) return t->c->err.code;
  const flame_status e = merge_all(t);
  for (int32_t i = 0; e == FLAME_OK && i < m->symbols.n; i = m->symbols.at[i].next)
    if (!push_id(m, ids, m->symbols.at[i].id)) return fl_tok_no_memory(t->c);
  return e;
}

/* ---- Unigram: the best path, from left to right ---------------------------------------------- */
/* A path comes to this place: it is kept if it is better than the one before. */
static void reach(fl_best *to, double score, int64_t from, int32_t id) {
  if (to->from < 0 || score > to->score) *to = (fl_best){ score, from, id };
}

/* Finds the best path to each place of the word. A character without a token has the lowest score
** less 10, as in the library 'tokenizers'. */
static flame_status paths(fl_tokenizer *t, fl_span word) {
  fl_model *m = &t->model;
  if (!FL_RESERVE(m->vocab.mem, &m->best, (int64_t)word.n + 1)) return fl_tok_no_memory(t->c);
  fl_best *best = m->best.at;
  for (size_t i = 0; i <= word.n; i++) best[i] = (fl_best){ 0, -1, -1 };
  int k;
  for (size_t at = 0; at < word.n; at += (size_t)k) {
    int64_t node = 0;
    int alone = 0;
    (void)fl_utf8_get(word.at + at, &k);
    for (size_t i = at; i < word.n && (node = fl_trie_step(&m->trie, node, word.at[i])) >= 0; i++) {
      const int32_t token = m->trie.values.at[node];
      if (token < 0) continue;
      const fl_token *v = &m->vocab.tokens.at[token];
      reach(&best[i + 1], best[at].score + v->score, (int64_t)at, v->id);
      alone |= i + 1 - at == (size_t)k;
    }
    if (!alone) {
      if (m->unknown < 0) return unknown(t, "a character");
      reach(&best[at + (size_t)k], best[at].score + (m->least - 10), (int64_t)at, m->unknown);
    }
    if (fl_tok_poll(t->c) != FLAME_OK) return t->c->err.code;
  }
  return FLAME_OK;
}

/* Adds the ids of a stretch of the path: its token, its bytes or the unknown token. In reverse
** order, as the path is read from its end. */
static int emit_back(fl_model *m, fl_ids *ids, const char *at, size_t n) {
  const fl_token *token = fl_vocab_get(&m->vocab, at, n);
  if (token) return push_id(m, ids, token->id);
  if (!has_bytes(m, (fl_span){ at, n })) return push_id(m, ids, m->unknown);
  while (n-- > 0) if (!push_id(m, ids, m->bytes[(unsigned char)at[n]])) return 0;
  return 1;
}

static flame_status unigram_word(fl_tokenizer *t, fl_span word, fl_ids *ids) {
  fl_model *m = &t->model;
  const int64_t first = ids->n;
  const flame_status e = paths(t, word);
  if (e != FLAME_OK) return e;
  const fl_best *best = m->best.at;
  for (int64_t end = (int64_t)word.n, from; end > 0; end = from) {
    from = best[end].from;
    if (m->unknown >= 0 && best[end].id == m->unknown)           /* fused */
      while (from > 0 && best[from].id == m->unknown) from = best[from].from;
    if (!emit_back(m, ids, word.at + from, (size_t)(end - from))) return fl_tok_no_memory(t->c);
  }
  for (int64_t i = first, j = ids->n - 1; i < j; i++, j--) {
    const int32_t id = ids->at[i];
    ids->at[i] = ids->at[j];
    ids->at[j] = id;
  }
  return FLAME_OK;
}

/* ---- WordPiece and WordLevel ----------------------------------------------------------------- */
/* The end of the longest token that begins at 'from'; NULL: there is none, or it failed. */
static const char *longest(fl_tokenizer *t, fl_span word, const char *from, int32_t *id) {
  fl_model *m = &t->model;
  const char *end = word.at + word.n;
  if ((size_t)(end - from) > m->vocab.longest) {
    end = from + m->vocab.longest;
    while (fl_utf8_goes_on(end)) end--;
  }
  while (end > from && fl_tok_poll(t->c) == FLAME_OK) {
    fl_tok_empty(&m->spelled);
    if (from > word.at) fl_text_add(&m->spelled, m->prefix.at, m->prefix.n);
    fl_text_add(&m->spelled, from, (size_t)(end - from));
    if (m->spelled.failed) return fl_tok_no_memory(t->c), NULL;
    const fl_token *token = fl_vocab_get(&m->vocab, m->spelled.at, m->spelled.n);
    if (token) return *id = token->id, end;
    do end--; while (fl_utf8_goes_on(end));
  }
  return NULL;
}

static int64_t characters_of(fl_span s) {
  int64_t n = 0;
  for (size_t i = 0; i < s.n; i++) n += !fl_utf8_goes_on(s.at + i);
  return n;
}

static flame_status wordpiece_word(fl_tokenizer *t, fl_span word, fl_ids *ids) {
  fl_model *m = &t->model;
  const int64_t first = ids->n;
  const char *from = word.at, *end = from + word.n;
  int32_t id = -1;
  if (characters_of(word) > m->longest) end = NULL;              /* not looked at */
  while (end && from < end && (from = longest(t, word, from, &id)))
    if (!push_id(m, ids, id)) return fl_tok_no_memory(t->c);
  if (from == end || t->c->err.code != FLAME_OK) return t->c->err.code;
  ids->n = first;
  if (m->unknown < 0) return unknown(t, "a word");
  return push_id(m, ids, m->unknown) ? FLAME_OK : fl_tok_no_memory(t->c);
}

static flame_status wordlevel_word(fl_tokenizer *t, fl_span word, fl_ids *ids) {
  fl_model *m = &t->model;
  const fl_token *whole = fl_vocab_get(&m->vocab, word.at, word.n);
  const int32_t id = whole ? whole->id : m->unknown;
  if (id < 0) return unknown(t, "a word");
  return push_id(m, ids, id) ? FLAME_OK : fl_tok_no_memory(t->c);
}

/* ---- words that were there ------------------------------------------------------------------- */
static flame_status fresh(fl_tokenizer *t, fl_span word, fl_ids *ids) {
  switch (t->model.kind) {
    case FL_BPE: return bpe_word(t, word, ids);
    case FL_UNIGRAM: return unigram_word(t, word, ids);
    case FL_WORDPIECE: return wordpiece_word(t, word, ids);
    default: return wordlevel_word(t, word, ids);
  }
}

static void forget(fl_model *m) {
  fl_vocab_drop(&m->known);
  m->nwords = 0;
  m->lists.n = 0;
}

/* Stores the ids of a word, those from 'first' on, for the next time it occurs. */
static int keep(fl_model *m, fl_span word, const fl_ids *ids, int64_t first) {
  const int64_t n = ids->n - first;
  fl_mem *mem = m->vocab.mem;
  if (!m->words && !(m->words = fl_alloc(mem, FL_KEPT_BYTES))) return 0;
  if (m->nwords + word.n > FL_KEPT_BYTES || m->lists.n + n > KEPT_IDS) forget(m);
  if (!FL_RESERVE(mem, &m->lists, m->lists.n + n)) return 0;
  char *at = memcpy(m->words + m->nwords, word.at, word.n);
  if (n) memcpy(m->lists.at + m->lists.n, ids->at + first, (size_t)n * sizeof *ids->at);
  if (!fl_vocab_put(&m->known, (fl_span){ at, word.n }, (int32_t)m->lists.n, (double)n)) return 0;
  m->nwords += word.n;
  m->lists.n += n;
  return 1;
}

flame_status fl_model_word(fl_tokenizer *t, fl_span word) {
  fl_model *m = &t->model;
  fl_ids *ids = t->ids;
  const int64_t first = ids->n;
  const fl_token *kept = word.n <= KEPT_WORD ? fl_vocab_get(&m->known, word.at, word.n) : NULL;
  if (kept) {
    const int64_t n = (int64_t)kept->score;
    if (!FL_RESERVE(m->vocab.mem, ids, ids->n + n)) return fl_tok_no_memory(t->c);
    for (int64_t i = 0; i < n; i++) ids->at[ids->n++] = m->lists.at[kept->id + i];
    return FLAME_OK;
  }
  const flame_status e = fresh(t, word, ids);
  if (e != FLAME_OK || word.n > KEPT_WORD) return e;
  return keep(m, word, ids, first) ? FLAME_OK : fl_tok_no_memory(t->c);
}
