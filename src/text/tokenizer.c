/* A tokenizer as a whole: opening, facts about its tokens, and the way from texts to ids. */
#include "text/parts.h"

/* ---- errors and bounds ----------------------------------------------------------------------- */
flame_status fl_tok_no_memory(flame_context *c) {
  return FL_FAIL(c, FLAME_NO_MEMORY, "tokenizer", "no host memory");
}

flame_status fl_tok_poll(flame_context *c) {
  if (!atomic_load_explicit(&c->interrupted, memory_order_relaxed)) return FLAME_OK;
  atomic_store(&c->interrupted, 0);
  return FL_FAIL(c, FLAME_INTERRUPTED, "tokenizer", "interrupted!");
}

void fl_tok_bound(fl_tokenizer *t, size_t n) { t->room = (n + 64) * 256; }

flame_status fl_tok_wrote(fl_tokenizer *t, const fl_text *out) {
  if (out->failed) return fl_tok_no_memory(t->c);
  if (out->n <= t->room) return FLAME_OK;
  return FL_FAIL(t->c, FLAME_BAD_ARGUMENT, "tokenizer",
                 "the passes of the file make more than %zu bytes of a text", t->room);
}

/* ---- opening and closing --------------------------------------------------------------------- */
static flame_status read_root(fl_tokenizer *t, const fl_tree_node *root) {
  if (root->kind != FL_TREE_OBJECT) return fl_load_fail(t, "the file is not an object of JSON");
  flame_status e = fl_load_model(t, fl_tree_get(root, "model"));
  if (e == FLAME_OK) e = fl_load_passes(t, root);
  if (e == FLAME_OK) e = fl_load_added(t, fl_tree_get(root, "added_tokens"));
  if (e == FLAME_OK) e = fl_load_template(t, fl_tree_get(root, "post_processor"));
  const fl_tree_node *pad = fl_tree_get(fl_tree_get(root, "padding"), "pad_id");
  t->pad = fl_load_count(pad);
  return e;
}

static flame_status read_file(fl_tokenizer *t) {
  fl_tree tree;
  fl_json j;
  flame_status e = FLAME_OK;
  if (fl_tree_read(&tree, &t->c->mem, &j, t->text, t->bytes)) e = read_root(t, tree.nodes.at);
  else if (j.wrong) e = fl_load_fail(t, "byte %lld: %s", (long long)j.offset, j.wrong);
  else e = fl_tok_no_memory(t->c);
  fl_tree_drop(&tree, &t->c->mem);
  return e;
}

fl_tokenizer *fl_tokenizer_open(flame_context *c, const char *text, size_t n) {
  fl_tokenizer *t = fl_zalloc(&c->mem, sizeof *t);
  if (!t) return fl_tok_no_memory(c), NULL;
  t->c = c;
  t->added_ids.mem = t->added_by_id.mem = t->raw.edges.mem = t->normal.edges.mem = &c->mem;
  fl_text_init(&t->mended, &c->mem);
  t->bytes = n;
  t->text = fl_alloc(&c->mem, n);
  if (t->text) memcpy(t->text, text, n);
  if (t->text ? read_file(t) == FLAME_OK : (fl_tok_no_memory(c), 0)) return t;
  fl_tokenizer_close(t);
  return NULL;
}

static void close_passes(fl_mem *m, fl_passes *s) {
  for (int64_t i = 0; i < s->n; i++) {
    fl_regex_close(&s->at[i].rx);
    fl_text_free(&s->at[i].out);
  }
  FL_DROP(m, s);
}

static void close_model(fl_mem *mem, fl_model *m) {
  fl_vocab_drop(&m->vocab);
  fl_vocab_drop(&m->known);
  fl_table_drop(&m->merges);
  fl_trie_drop(&m->trie);
  if (m->words) fl_free(mem, m->words, FL_KEPT_BYTES);
  FL_DROP(mem, &m->lists);
  FL_DROP(mem, &m->symbols);
  FL_DROP(mem, &m->heap);
  FL_DROP(mem, &m->best);
  FL_DROP(mem, &m->found);
  if (m->spelled.mem) fl_text_free(&m->spelled);
}

void fl_tokenizer_close(fl_tokenizer *t) {
  if (!t) return;
  fl_mem *m = &t->c->mem;
  close_passes(m, &t->normalise);
  close_passes(m, &t->cut);
  close_passes(m, &t->decode);
  close_model(m, &t->model);
  FL_DROP(m, &t->added);
  fl_vocab_drop(&t->added_ids);
  fl_table_drop(&t->added_by_id);
  fl_trie_drop(&t->raw);
  fl_trie_drop(&t->normal);
  FL_DROP(m, &t->one);
  FL_DROP(m, &t->pair);
  fl_text_free(&t->mended);
  fl_free(m, t->text, t->text ? t->bytes : 0);
  fl_free(m, t, sizeof *t);
}

/* ---- tokens ---------------------------------------------------------------------------------- */
int64_t fl_tokenizer_id(const fl_tokenizer *t, fl_span token) {
  const fl_token *found = fl_vocab_get(&t->added_ids, token.at, token.n);
  if (!found) found = fl_vocab_get(&t->model.vocab, token.at, token.n);
  return found ? found->id : -1;
}

int fl_tokenizer_token(const fl_tokenizer *t, int64_t id, fl_span *token, int *special) {
  *special = 0;
  const uint64_t *place = id < 0 ? NULL : fl_table_get(&t->added_by_id, (uint64_t)id);
  if (place) {
    *token = t->added.at[*place].text;
    *special = t->added.at[*place].special;
    return 1;
  }
  const fl_token *found = fl_vocab_of(&t->model.vocab, id);
  if (found) *token = (fl_span){ found->at, found->n };
  return found != NULL;
}

int64_t fl_tokenizer_size(const fl_tokenizer *t, int added) {
  int64_t n = t->model.vocab.tokens.n;
  for (int64_t i = 0; added && i < t->added_ids.tokens.n; i++) {
    const fl_token *a = &t->added_ids.tokens.at[i];
    n += fl_vocab_get(&t->model.vocab, a->at, a->n) == NULL;
  }
  return n;
}

int64_t fl_tokenizer_top(const fl_tokenizer *t) {
  int64_t top = t->model.vocab.nids;
  for (int64_t i = 0; i < t->added.n; i++)
    if (t->added.at[i].id >= top) top = (int64_t)t->added.at[i].id + 1;
  return top;
}

const char *fl_tokenizer_model(const fl_tokenizer *t) {
  static const char *const names[] = { "BPE", "Unigram", "WordPiece", "WordLevel" };
  return names[t->model.kind];
}

int64_t fl_tokenizer_pad(const fl_tokenizer *t) { return t->pad; }

/* ---- added tokens in a text ------------------------------------------------------------------ */
static int push_id(fl_tokenizer *t, int32_t id) {
  int32_t *p = FL_PUSH(&t->c->mem, t->ids);
  if (p) *p = id;
  return p != NULL;
}

/* The longest added token at the start of p; *end: where it ends. */
static const fl_added *added_at(const fl_tokenizer *t, const fl_trie *trie, const char *p,
                                const char *stop, const char **end) {
  const fl_added *found = NULL;
  int64_t node = 0;
  const unsigned char b = (unsigned char)*p;
  if (!(trie->first[b >> 6] >> (b & 63) & 1)) return NULL;
  for (; p < stop && (node = fl_trie_step(trie, node, *p)) >= 0; p++) {
    if (trie->values.at[node] < 0) continue;
    found = &t->added.at[trie->values.at[node]];
    *end = p + 1;
  }
  return found;
}

static const char *char_before(const char *p) {
  do p--; while (fl_utf8_goes_on(p));
  return p;
}

/* May the added token a stand at *first … *last? If so, extends the range by the white space that a
** strips on its sides, on the left not beyond 'from'. */
static int counts(const fl_tokenizer *t, const fl_added *a, fl_span text, const char *from,
                  const char **first, const char **last) {
  const char *end = text.at + text.n;
  int k;
  if (a->special && t->specials_as_text) return 0;
  if (a->single && *first > text.at && fl_uc_word(fl_utf8_get(char_before(*first), &k))) return 0;
  if (a->single && *last < end && fl_uc_word(fl_utf8_get(*last, &k))) return 0;
  while (a->lstrip && *first > from && fl_uc_space(fl_utf8_get(char_before(*first), &k)))
    *first = char_before(*first);
  if (a->lstrip && *first < from) *first = from;
  while (a->rstrip && *last < end && fl_uc_space(fl_utf8_get(*last, &k))) *last += k;
  return 1;
}

typedef flame_status (*between)(fl_tokenizer *t, fl_span piece, int first);

/* Emits ids of the added tokens of a trie, and applies f to the text between them. */
static flame_status around(fl_tokenizer *t, const fl_trie *trie, fl_span text, int starts,
                           between f) {
  const char *from = text.at, *end = from + text.n, *last = NULL;
  flame_status e = FLAME_OK;
  for (const char *p = from; trie->values.n && p < end;) {
    const fl_added *a = added_at(t, trie, p, end, &last);
    const char *first = p;
    if (fl_tok_poll(t->c) != FLAME_OK) return t->c->err.code;
    if (!a) {
      p++;
      continue;
    }
    p = last;                 /* the search goes on before the space that token a strips on its
                              ** right, since that space can contain another token */
    if (!counts(t, a, text, from, &first, &last)) continue;
    if (first > from)
      e = f(t, (fl_span){ from, (size_t)(first - from) }, starts && from == text.at);
    if (e != FLAME_OK) return e;
    if (first >= last) continue;       /* nothing is left of a token that strips the same space */
    if (!push_id(t, a->id)) return fl_tok_no_memory(t->c);
    from = last;
  }
  return end > from ? f(t, (fl_span){ from, (size_t)(end - from) }, starts && from == text.at) : e;
}

static flame_status normal_piece(fl_tokenizer *t, fl_span piece, int first) {
  const flame_status e = fl_tok_normalise(t, &piece);
  return e == FLAME_OK ? around(t, &t->normal, piece, first && !t->gone, fl_tok_cut) : e;
}

flame_status fl_tok_text(fl_tokenizer *t, fl_span text) {
  fl_tok_bound(t, text.n);
  if (!fl_utf8_is_valid(text.at, text.n)) {
    fl_tok_empty(&t->mended);
    fl_utf8_mend(&t->mended, text.at, text.n);
    if (t->mended.failed) return fl_tok_no_memory(t->c);
    text = (fl_span){ t->mended.at, t->mended.n };
  }
  const flame_status e = around(t, &t->raw, text, 1, normal_piece);
  return e == FLAME_OK ? fl_tok_poll(t->c) : e;
}

/* ---- templates and bounds -------------------------------------------------------------------- */
/* Sets how many ids of two texts are kept: the longer is cut first, until both have equally
** many. */
static void share(int64_t *a, int64_t *b, int64_t most, int two) {
  if (!two) {
    *a = *a < most ? *a : most;
    return;
  }
  int64_t less = *a < *b ? *a : *b, more;
  const int swap = *a > *b;
  if (*a + *b <= most) return;
  more = less > most ? less : (less > most - less ? less : most - less);
  if (less + more > most) {
    less = most / 2;
    more = less + most % 2;
  }
  *a = swap ? more : less;
  *b = swap ? less : more;
}

static int put(fl_mem *m, fl_ids *ids, fl_ids *types, int32_t id, int32_t type) {
  int32_t *p = FL_PUSH(m, ids), *q = p ? FL_PUSH(m, types) : NULL;
  if (!q) return 0;
  *p = id;
  *q = type;
  return 1;
}

/* Arranges the ids of texts one and two, which are one after another in t->model.found, by the
** template. */
static int arrange(fl_tokenizer *t, const fl_template *p, const int64_t all[2],
                   const int64_t kept[2], int left, fl_ids *ids, fl_ids *types) {
  const int32_t *found = t->model.found.at;
  for (int64_t i = 0; i < p->n; i++) {
    const fl_item it = p->at[i];
    const int s = it.sequence - 1;
    if (s < 0 && !put(&t->c->mem, ids, types, it.id, it.type)) return 0;
    const int64_t from = s < 0 ? 0 : (s ? all[0] : 0) + (left ? all[s] - kept[s] : 0);
    for (int64_t k = 0; s >= 0 && k < kept[s]; k++)
      if (!put(&t->c->mem, ids, types, found[from + k], it.type)) return 0;
  }
  return 1;
}

flame_status fl_tokenizer_encode(fl_tokenizer *t, fl_span text, fl_span pair, const fl_tok_how *how,
                                 fl_ids *ids, fl_ids *types) {
  fl_item plain[2] = { { 0, 0, 1 }, { 0, 1, 2 } };
  const int two = pair.at != NULL;
  fl_template all = { plain, 1 + two, 2 };
  int64_t n[2], kept[2], extra = 0;
  t->ids = &t->model.found;
  t->ids->n = 0;
  t->specials_as_text = how->specials_as_text;
  flame_status e = fl_tok_text(t, text);
  n[0] = t->ids->n;
  if (e == FLAME_OK && two) e = fl_tok_text(t, pair);
  if (e != FLAME_OK) return e;
  n[1] = t->ids->n - n[0];
  if (t->templated && !how->plain) all = two ? t->pair : t->one;
  for (int64_t i = 0; i < all.n; i++) extra += all.at[i].sequence == 0;
  kept[0] = n[0];
  kept[1] = n[1];
  if (how->most > 0) {
    if (how->most < extra)
      return FL_FAIL(t->c, FLAME_BAD_ARGUMENT, "encode",
                     "max_length is %lld, and the template alone has %lld ids",
                     (long long)how->most, (long long)extra);
    share(&kept[0], &kept[1], how->most - extra, two);
  }
  return arrange(t, &all, n, kept, how->left, ids, types) ? FLAME_OK : fl_tok_no_memory(t->c);
}
