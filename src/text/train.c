/*
** Training of a BPE (Sennrich, Haddow and Birch 2016): counts words, then repeatedly makes the most
** frequent pair of symbols a new symbol. Of equally frequent pairs the one with the older left,
** then right symbol is chosen.
*/
#include "text/parts.h"

typedef struct word { int64_t count; int32_t *at; int32_t n, cap; } word;
/* A pair that may be merged, with its count at the time it was entered and the words that contain
** it. */
typedef struct entry { int64_t count; uint64_t pair; int64_t places; } entry;
typedef struct places { int32_t *at; int64_t n, cap; } places;

struct fl_trainer {
  flame_context *c;
  fl_mem *mem;
  fl_tokenizer *shape;
  fl_vocab seen;                /* words: the id is the index in 'words' */
  struct { fl_span *at; int64_t n, cap; } texts;     /* blocks with the bytes of words and tokens */
  struct { word *at; int64_t n, cap; } words;
  fl_vocab tokens;
  struct { int32_t *at; int64_t n, cap; } lengths;     /* of tokens, in characters */
  fl_table pairs;               /* pair -> how often it occurs (as int64_t) */
  fl_table fresh;               /* pair -> words, for pairs that a merge created */
  struct { entry *at; int64_t n, cap; } heap;
  struct { places *at; int64_t n, cap; } lists;
  struct { uint64_t *at; int64_t n, cap; } merges;
};

/* ---- words ----------------------------------------------------------------------------------- */
fl_trainer *fl_trainer_open(flame_context *c, fl_tokenizer *shape) {
  fl_trainer *r = fl_zalloc(&c->mem, sizeof *r);
  if (!r) return fl_tok_no_memory(c), NULL;
  r->c = c;
  r->shape = shape;
  r->mem = r->seen.mem = r->tokens.mem = r->pairs.mem = r->fresh.mem = &c->mem;
  return r;
}

void fl_trainer_close(fl_trainer *r) {
  if (!r) return;
  fl_mem *m = r->mem;
  for (int64_t i = 0; i < r->texts.n; i++)
    fl_free(m, (void *)(uintptr_t)r->texts.at[i].at, r->texts.at[i].n);
  for (int64_t i = 0; i < r->words.n; i++)
    fl_free(m, r->words.at[i].at, (size_t)r->words.at[i].cap * sizeof(int32_t));
  for (int64_t i = 0; i < r->lists.n; i++) FL_DROP(m, &r->lists.at[i]);
  FL_DROP(m, &r->texts);
  FL_DROP(m, &r->words);
  FL_DROP(m, &r->lengths);
  FL_DROP(m, &r->heap);
  FL_DROP(m, &r->lists);
  FL_DROP(m, &r->merges);
  fl_vocab_drop(&r->seen);
  fl_vocab_drop(&r->tokens);
  fl_table_drop(&r->pairs);
  fl_table_drop(&r->fresh);
  fl_free(m, r, sizeof *r);
}

/* A copy of the text that lives as long as the trainer; a span at NULL: no memory. */
static fl_span copied(fl_trainer *r, const char *at, size_t n) {
  fl_span *place = FL_PUSH(r->mem, &r->texts);
  char *copy = place ? fl_alloc(r->mem, n) : NULL;
  if (place && !copy) r->texts.n--;
  if (!copy) return (fl_span){ NULL, 0 };
  memcpy(copy, at, n);
  return *place = (fl_span){ copy, n };
}

/* Counts a word; called for each one of a text. */
static flame_status count(void *arg, fl_span text) {
  fl_trainer *r = arg;
  const fl_token *known = fl_vocab_get(&r->seen, text.at, text.n);
  if (known) return r->words.at[known->id].count++, FLAME_OK;
  const fl_span copy = text.n < INT32_MAX / 4 ? copied(r, text.at, text.n) : (fl_span){ NULL, 0 };
  word *w = copy.at && r->words.n < INT32_MAX / 4 ? FL_PUSH(r->mem, &r->words) : NULL;
  if (!w) return fl_tok_no_memory(r->c);
  *w = (word){ 1, NULL, 0, 0 };
  const int kept = fl_vocab_put(&r->seen, copy, (int32_t)r->words.n - 1, 0);
  return kept ? FLAME_OK : fl_tok_no_memory(r->c);
}

flame_status fl_trainer_feed(fl_trainer *r, fl_span text) {
  fl_ids none = { NULL, 0, 0 };
  fl_tokenizer *t = r->shape;
  t->word = count;
  t->word_arg = r;
  t->ids = &none;
  const flame_status e = fl_tok_text(t, text);
  t->word = NULL;
  FL_DROP(r->mem, &none);
  return e;
}

/* ---- symbols --------------------------------------------------------------------------------- */
/* Adds a token if it is new; length: in characters. 0: no memory. */
static int add_token(fl_trainer *r, fl_span text, int32_t length) {
  if (fl_vocab_get(&r->tokens, text.at, text.n)) return 1;
  int32_t *p = FL_PUSH(r->mem, &r->lengths);
  if (!p || !fl_vocab_put(&r->tokens, text, (int32_t)r->tokens.tokens.n, 0)) return 0;
  *p = length;
  return 1;
}

/* Adds the spelling of all bytes and all characters of the words, in the order of Unicode. */
static int add_alphabet(fl_trainer *r) {
  uint8_t *seen = fl_zalloc(r->mem, FL_UC_TOP / 8);
  int ok = seen != NULL;
  for (uint32_t c = 0; ok && c < 324; c++)
    if (fl_bytes_of(c) >= 0) seen[c >> 3] |= (uint8_t)(1 << (c & 7));
  for (int64_t i = 0; ok && i < r->seen.tokens.n; i++) {
    const fl_token *w = &r->seen.tokens.at[i];
    int k;
    for (const char *p = w->at, *end = p + w->n; p < end; p += k) {
      const uint32_t c = fl_utf8_get(p, &k);
      seen[c >> 3] |= (uint8_t)(1 << (c & 7));
    }
  }
  for (uint32_t c = 0; ok && c < FL_UC_TOP; c++) {
    if (!(seen[c >> 3] >> (c & 7) & 1)) continue;
    char b[4];
    const size_t n = (size_t)fl_utf8_put(b, c);
    const fl_span text = fl_vocab_get(&r->tokens, b, n) ? (fl_span){ b, 0 } : copied(r, b, n);
    ok = text.at && (text.n == 0 || add_token(r, text, 1));
  }
  fl_free(r->mem, seen, seen ? FL_UC_TOP / 8 : 0);
  return ok;
}

/* ---- pairs ----------------------------------------------------------------------------------- */
static uint64_t pair_of(int32_t a, int32_t b) { return (uint64_t)(uint32_t)a << 32 | (uint32_t)b; }

static int before(const entry *a, const entry *b) {
  return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static int push_entry(fl_trainer *r, entry e) {
  if (!FL_RESERVE(r->mem, &r->heap, r->heap.n + 1)) return 0;
  r->heap.n++;
  entry *h = r->heap.at;
  int64_t k = r->heap.n - 1;
  for (; k > 0 && before(&e, &h[(k - 1) / 2]); k = (k - 1) / 2) h[k] = h[(k - 1) / 2];
  h[k] = e;
  return 1;
}

static entry pop_entry(fl_trainer *r) {
  entry *h = r->heap.at;
  const entry top = h[0], last = h[--r->heap.n];
  int64_t k = 0;
  for (int64_t child; (child = 2 * k + 1) < r->heap.n; k = child) {
    if (child + 1 < r->heap.n && before(&h[child + 1], &h[child])) child++;
    if (!before(&h[child], &last)) break;
    h[k] = h[child];
  }
  h[k] = last;
  return top;
}

/* Changes the count of a pair by 'by', for a word. note: keeps the word in the pair's list too, so
** that the pair can be merged there later. */
static int change(fl_trainer *r, uint64_t pair, int64_t by, int32_t in, int note) {
  uint64_t *n = fl_table_put(&r->pairs, pair, 0);
  if (!n) return 0;
  *n += (uint64_t)by;
  if (!note) return 1;
  uint64_t *list = fl_table_put(&r->fresh, pair, UINT64_MAX);
  if (!list) return 0;
  if (*list == UINT64_MAX) {
    places *p = FL_PUSH(r->mem, &r->lists);
    if (!p) return 0;
    *p = (places){ NULL, 0, 0 };
    *list = (uint64_t)r->lists.n - 1;
  }
  places *p = &r->lists.at[*list];
  if (p->n && p->at[p->n - 1] == in) return 1;
  int32_t *at = FL_PUSH(r->mem, p);
  if (at) *at = in;
  return at != NULL;
}

/* Adds the pairs that change() has noted to the heap. */
static int offer_fresh(fl_trainer *r) {
  for (int64_t i = 0; i < r->fresh.nbins; i++) {
    const uint64_t pair = r->fresh.at[2 * i];
    if (pair == UINT64_MAX) continue;
    const uint64_t *n = fl_table_get(&r->pairs, pair);
    const entry e = { n ? (int64_t)*n : 0, pair, (int64_t)r->fresh.at[2 * i + 1] };
    if (e.count > 0 && !push_entry(r, e)) return 0;
    if (e.count <= 0) FL_DROP(r->mem, &r->lists.at[e.places]);
  }
  fl_table_drop(&r->fresh);
  return 1;
}

/* Splits a word into symbols and counts their pairs. */
static int split_word(fl_trainer *r, int32_t i) {
  const fl_token *text = &r->seen.tokens.at[i];
  word *w = &r->words.at[i];
  w->cap = (int32_t)text->n;
  if (!(w->at = fl_alloc(r->mem, (size_t)w->cap * sizeof *w->at))) return w->cap = 0, 0;
  int k;
  for (const char *p = text->at, *end = p + text->n; p < end; p += k) {
    (void)fl_utf8_get(p, &k);
    w->at[w->n++] = fl_vocab_get(&r->tokens, p, (size_t)k)->id;
  }
  for (int32_t j = 1; j < w->n; j++)
    if (!change(r, pair_of(w->at[j - 1], w->at[j]), w->count, i, 1)) return 0;
  return 1;
}

static flame_status split_words(fl_trainer *r) {
  for (int64_t i = 0; i < r->words.n; i++) {
    if (!split_word(r, (int32_t)i)) return fl_tok_no_memory(r->c);
    if (fl_tok_poll(r->c) != FLAME_OK) return r->c->err.code;
  }
  return offer_fresh(r) ? FLAME_OK : fl_tok_no_memory(r->c);
}

/* Replaces each pair (a, b) in one word by 'made'. A pair that would have 'longest' characters or
** more is not counted, so it is never merged. */
static int merge_word(fl_trainer *r, int32_t in, int32_t a, int32_t b, int32_t made,
                      int64_t longest) {
  word *w = &r->words.at[in];
  const int32_t *length = r->lengths.at;
  int32_t kept = 0;
  for (int32_t i = 0; i < w->n; i++) {
    if (w->at[i] != a || i + 1 >= w->n || w->at[i + 1] != b) {
      w->at[kept++] = w->at[i];
      continue;
    }
    const int32_t left = kept ? w->at[kept - 1] : -1, right = i + 2 < w->n ? w->at[i + 2] : -1;
    w->at[kept++] = made;
    i++;
    if (left >= 0 && !change(r, pair_of(left, a), -w->count, in, 0)) return 0;
    if (left >= 0 && (!longest || length[left] + length[made] < longest) &&
        !change(r, pair_of(left, made), w->count, in, 1)) return 0;
    if (right >= 0 && !change(r, pair_of(b, right), -w->count, in, 0)) return 0;
    if (right >= 0 && (!longest || length[right] + length[made] < longest) &&
        !change(r, pair_of(made, right), w->count, in, 1)) return 0;
  }
  w->n = kept;
  return 1;
}

static int merge_pair(fl_trainer *r, const entry *e, int64_t longest) {
  const int32_t a = (int32_t)(e->pair >> 32), b = (int32_t)(uint32_t)e->pair;
  const fl_token *s = r->tokens.tokens.at;
  fl_text both;
  fl_text_init(&both, r->mem);
  fl_text_add(&both, s[a].at, s[a].n);
  fl_text_add(&both, s[b].at, s[b].n);
  const fl_span text = both.failed ? (fl_span){ NULL, 0 } : copied(r, both.at, both.n);
  fl_text_free(&both);
  uint64_t *merge = text.at ? FL_PUSH(r->mem, &r->merges) : NULL;
  if (!merge) return 0;
  *merge = e->pair;
  if (!add_token(r, text, r->lengths.at[a] + r->lengths.at[b])) return 0;
  const int32_t made = fl_vocab_get(&r->tokens, text.at, text.n)->id;
  for (int64_t i = 0; i < r->lists.at[e->places].n; i++)
    if (!merge_word(r, r->lists.at[e->places].at[i], a, b, made, longest)) return 0;
  FL_DROP(r->mem, &r->lists.at[e->places]);
  return offer_fresh(r);
}

/* Merges until there are enough tokens. A pair whose count has changed since it was entered is
** entered again. */
static flame_status merge_all(fl_trainer *r, const fl_train_how *how) {
  while (r->tokens.tokens.n < how->vocabulary && r->heap.n > 0) {
    entry e = pop_entry(r);
    if (fl_tok_poll(r->c) != FLAME_OK) return r->c->err.code;
    const int64_t now = (int64_t)*fl_table_get(&r->pairs, e.pair);
    if (e.count != now) {
      e.count = now;
      if (!push_entry(r, e)) return fl_tok_no_memory(r->c);
      continue;
    }
    if (now < 1 || now < how->least) break;
    if (!merge_pair(r, &e, how->longest)) return fl_tok_no_memory(r->c);
  }
  return FLAME_OK;
}

/* ---- what is written ------------------------------------------------------------------------- */
static void quoted(fl_text *out, const fl_token *t) {
  fl_text_add(out, "\"", 1);
  for (uint32_t i = 0; i < t->n; i++) {
    const char c = t->at[i];
    if (c == '"' || c == '\\') fl_text_add(out, "\\", 1);
    if ((unsigned char)c < 0x20) fl_text_printf(out, "\\u%04x", (unsigned)c);
    else fl_text_add(out, &c, 1);
  }
  fl_text_add(out, "\"", 1);
}

flame_status fl_trainer_finish(fl_trainer *r, const fl_train_how *how, fl_text *out) {
  int ok = 1;
  for (int64_t i = 0; i < how->nspecial && ok; i++) ok = add_token(r, how->special[i], 1);
  if (!ok || !add_alphabet(r)) return fl_tok_no_memory(r->c);
  flame_status e = split_words(r);
  if (e == FLAME_OK) e = merge_all(r, how);
  if (e != FLAME_OK) return e;
  const fl_token *t = r->tokens.tokens.at;
  fl_text_puts(out, "\"vocab\":{");
  for (int64_t i = 0; i < r->tokens.tokens.n; i++) {
    if (i) fl_text_puts(out, ",");
    quoted(out, &t[i]);
    fl_text_printf(out, ":%lld", (long long)i);
  }
  fl_text_puts(out, "},\"merges\":[");
  for (int64_t i = 0; i < r->merges.n; i++) {
    fl_text_puts(out, i ? ",[" : "[");
    quoted(out, &t[r->merges.at[i] >> 32]);
    fl_text_puts(out, ",");
    quoted(out, &t[(uint32_t)r->merges.at[i]]);
    fl_text_puts(out, "]");
  }
  fl_text_puts(out, "]");
  return out->failed ? fl_tok_no_memory(r->c) : FLAME_OK;
}
