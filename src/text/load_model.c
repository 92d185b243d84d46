/* The model of a tokenizer.json: vocabulary, merges, and what else it needs. */
#include "text/parts.h"
#include <stdio.h>

static int number_of(const fl_tree_node *n, double *v) {
  return n->kind == FL_TREE_NUMBER && fl_read_number(n->at, n->n, 0, v);
}

/* A score as the library 'tokenizers' reads it, which sometimes differs by one unit from the
** nearest double: it reads the digits as an integer of 64 bits, ignores those that do not fit, and
** multiplies or divides once by a power of ten. Equal sums of scores must be equal here as
** there. */
static int score_of(const fl_tree_node *n, double *v) {
  if (!number_of(n, v)) return 0;
  const char *p = n->at, *end = p + n->n;
  uint64_t digits = 0;
  int full = 0, point = 0;
  int64_t power = 0;
  for (p += *p == '-'; p < end && (*p | 32) != 'e'; p++) {
    if (*p == '.') {
      point = 1;
      continue;
    }
    const unsigned d = (unsigned)(*p - '0');
    full = full || digits > (UINT64_MAX - d) / 10;
    if (!full) digits = digits * 10 + d;
    power += full ? !point : -point;
  }
  if (p < end) {
    const int below = p[1] == '-';
    int64_t e = 0;
    for (p += 1 + (below || p[1] == '+'); p < end; p++)
      if (e < 100000) e = e * 10 + (*p - '0');
    power += below ? -e : e;
  }
  const double nearest = *v;
  double f = (double)digits, ten;
  for (; power < -308 && f != 0; power += 308) f /= 1e308;
  char text[8];
  const int k = snprintf(text, sizeof text, "1e%d", (int)(power < 0 ? -power : power) % 1000);
  if (f == 0 || power > 308 || !fl_read_number(text, (size_t)k, 0, &ten)) return 1;
  f = power < 0 ? f / ten : f * ten;
  *v = nearest < 0 ? -f : f;
  return 1;
}

/* ---- vocabularies ---------------------------------------------------------------------------- */
static flame_status read_vocab(fl_tokenizer *t, const fl_tree_node *vocab) {
  const fl_tree_node *k = fl_tree_first(vocab, FL_TREE_OBJECT);
  int64_t top = 0;
  if (!k) return fl_load_fail(t, "the model needs \"vocab\", an object of tokens and ids");
  for (uint32_t i = 0; i < vocab->n; i++, k = fl_tree_next(k + 1)) {
    const fl_span text = { k->at, k->n };
    const int64_t id = fl_load_count(k + 1);             /* bounded: there is an array by id */
    if (id < 0 || id > 1024 + 16 * (int64_t)vocab->n)
      return fl_load_fail(t, "the token '%.*s' needs an id from 0 to %lld", fl_load_shown(text),
                          text.at, 1024 + 16 * (long long)vocab->n);
    if (!fl_vocab_put(&t->model.vocab, text, (int32_t)id, 0)) return fl_tok_no_memory(t->c);
    top = id >= top ? id + 1 : top;
  }
  return fl_vocab_index(&t->model.vocab, top) ? FLAME_OK : fl_tok_no_memory(t->c);
}

/* A list of [token, score]; a token's id is its place. */
static flame_status read_scores(fl_tokenizer *t, const fl_tree_node *vocab) {
  fl_model *m = &t->model;
  const fl_tree_node *k = fl_tree_first(vocab, FL_TREE_LIST);
  if (!k) return fl_load_fail(t, "the model needs \"vocab\", a list of tokens and scores");
  m->least = 1.0 / 0.0;
  for (uint32_t i = 0; i < vocab->n; i++, k = fl_tree_next(k)) {
    const fl_tree_node *token = k->n == 2 ? fl_tree_first(k, FL_TREE_LIST) : NULL;
    const fl_span text = fl_load_text(token);
    double score;
    if (!token || !text.at || !score_of(fl_tree_next(token), &score))
      return fl_load_fail(t, "token %u is not [text, score]", i);
    if (score < m->least) m->least = score;
    if (!fl_vocab_put(&m->vocab, text, (int32_t)i, score)) return fl_tok_no_memory(t->c);
    const int32_t place = (int32_t)(fl_vocab_get(&m->vocab, text.at, text.n) - m->vocab.tokens.at);
    if (text.n && !fl_trie_put(&m->trie, &t->c->mem, text, place)) return fl_tok_no_memory(t->c);
  }
  return fl_vocab_index(&m->vocab, vocab->n) ? FLAME_OK : fl_tok_no_memory(t->c);
}

/* Finds the tokens of single bytes, spelled as text or as <0x00>. */
static void find_bytes(fl_model *m) {
  char name[8];
  for (int b = 0; b < 256; b++) {
    const char c = (char)b;
    const fl_token *as_text = b < 128 ? fl_vocab_get(&m->vocab, &c, 1) : NULL;
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)b & 255);
    const fl_token *as_name = fl_vocab_get(&m->vocab, name, 6);
    m->single[b] = as_text ? as_text->id : -1;
    m->bytes[b] = as_name ? as_name->id : -1;
  }
}

/* ---- merges ---------------------------------------------------------------------------------- */
/* "a b" or ["a", "b"]. */
static flame_status two_parts(fl_tokenizer *t, const fl_tree_node *n, fl_span part[2]) {
  const fl_tree_node *first = fl_tree_first(n, FL_TREE_LIST);
  if (first && n->n == 2) {
    part[0] = fl_load_text(first);
    part[1] = fl_load_text(fl_tree_next(first));
    if (part[0].at && part[1].at) return FLAME_OK;
  } else if (n->kind == FL_TREE_STRING) {
    const char *blank = memchr(n->at, ' ', n->n), *end = n->at + n->n;
    if (blank && !memchr(blank + 1, ' ', (size_t)(end - blank - 1))) {
      part[0] = (fl_span){ n->at, (size_t)(blank - n->at) };
      part[1] = (fl_span){ blank + 1, (size_t)(end - blank - 1) };
      return FLAME_OK;
    }
  }
  return fl_load_fail(t, "a merge is not two tokens");
}

static flame_status merge(fl_tokenizer *t, const fl_tree_node *n, uint32_t rank) {
  fl_model *m = &t->model;
  fl_span part[2] = { { NULL, 0 }, { NULL, 0 } };
  const fl_token *found[3];
  if (two_parts(t, n, part) != FLAME_OK) return t->c->err.code;
  const size_t drop = m->prefix.n;
  fl_tok_empty(&m->spelled);
  fl_text_add(&m->spelled, part[0].at, part[0].n);
  if (part[1].n >= drop) fl_text_add(&m->spelled, part[1].at + drop, part[1].n - drop);
  if (m->spelled.failed) return fl_tok_no_memory(t->c);
  const fl_span whole = { m->spelled.at, m->spelled.n };
  for (int k = 0; k < 3; k++) {
    const fl_span s = k < 2 ? part[k] : whole;
    found[k] = fl_vocab_get(&m->vocab, s.at, s.n);
    if (!found[k])
      return fl_load_fail(t, "merge %u names '%.*s', which is not in the vocabulary", rank + 1,
                          fl_load_shown(s), s.at);
  }
  const uint64_t pair = (uint64_t)(uint32_t)found[0]->id << 32 | (uint32_t)found[1]->id;
  uint64_t *v = fl_table_put(&m->merges, pair, 0);
  if (!v) return fl_tok_no_memory(t->c);
  *v = (uint64_t)rank << 32 | (uint32_t)found[2]->id;
  return FLAME_OK;
}

static flame_status read_merges(fl_tokenizer *t, const fl_tree_node *list) {
  const fl_tree_node *n = fl_tree_first(list, FL_TREE_LIST);
  if (!n) return fl_load_fail(t, "a BPE needs \"merges\", a list");
  for (uint32_t i = 0; i < list->n; i++, n = fl_tree_next(n)) {
    const flame_status e = merge(t, n, i);
    if (e != FLAME_OK) return e;
  }
  return FLAME_OK;
}

/* ---- models ---------------------------------------------------------------------------------- */
static flame_status unknown_token(fl_tokenizer *t, const fl_tree_node *model, int needed) {
  const fl_span text = fl_load_text(fl_tree_get(model, "unk_token"));
  if (!text.at) return FLAME_OK;
  const fl_token *token = fl_vocab_get(&t->model.vocab, text.at, text.n);
  if (token) t->model.unknown = token->id;
  else if (needed)
    return fl_load_fail(t, "the unknown token '%.*s' is not in the vocabulary",
                        fl_load_shown(text), text.at);
  return FLAME_OK;
}

static flame_status read_bpe(fl_tokenizer *t, const fl_tree_node *model) {
  fl_model *m = &t->model;
  double dropout = 0;
  const fl_tree_node *d = fl_tree_get(model, "dropout");
  if (d && (!number_of(d, &dropout) || dropout != 0))
    return fl_load_fail(t, "a BPE with dropout is not supported");
  m->fuse = (uint8_t)fl_load_flag(model, "fuse_unk", 0);
  m->ignore_merges = (uint8_t)fl_load_flag(model, "ignore_merges", 0);
  m->prefix = fl_load_text(fl_tree_get(model, "continuing_subword_prefix"));
  m->suffix = fl_load_text(fl_tree_get(model, "end_of_word_suffix"));
  flame_status e = read_vocab(t, fl_tree_get(model, "vocab"));
  if (e == FLAME_OK) e = read_merges(t, fl_tree_get(model, "merges"));
  return e == FLAME_OK ? unknown_token(t, model, 1) : e;
}

static flame_status read_unigram(fl_tokenizer *t, const fl_tree_node *model) {
  fl_model *m = &t->model;
  const fl_tree_node *id = fl_tree_get(model, "unk_id");
  const flame_status e = read_scores(t, fl_tree_get(model, "vocab"));
  if (e != FLAME_OK || !id) return e;
  const int64_t v = fl_load_count(id);
  if (v < 0 || v >= m->vocab.nids) return fl_load_fail(t, "\"unk_id\" is not a token's");
  m->unknown = (int32_t)v;
  return FLAME_OK;
}

static flame_status read_words(fl_tokenizer *t, const fl_tree_node *model) {
  fl_model *m = &t->model;
  const fl_tree_node *longest = fl_tree_get(model, "max_input_chars_per_word");
  m->longest = longest ? fl_load_count(longest) : 100;
  if (m->longest < 0) return fl_load_fail(t, "\"max_input_chars_per_word\" is not a count");
  m->prefix = fl_load_text(fl_tree_get(model, "continuing_subword_prefix"));
  if (m->kind == FL_WORDPIECE && !m->prefix.at) m->prefix = (fl_span){ "##", 2 };
  const flame_status e = read_vocab(t, fl_tree_get(model, "vocab"));
  return e == FLAME_OK ? unknown_token(t, model, 0) : e;
}

/* Older files have no "type" for a BPE: the kind of the model follows from the keys. */
static int kind_of(const fl_tree_node *model) {
  static const char *const names[] = { "BPE", "Unigram", "WordPiece", "WordLevel" };
  const fl_tree_node *type = fl_tree_get(model, "type");
  for (int k = 0; k < 4; k++) if (fl_tree_is(type, names[k])) return k;
  return !type && fl_tree_get(model, "merges") ? FL_BPE : -1;
}

flame_status fl_load_model(fl_tokenizer *t, const fl_tree_node *model) {
  fl_model *m = &t->model;
  const fl_span name = fl_load_text(fl_tree_get(model, "type"));
  const int kind = kind_of(model);
  m->vocab.mem = m->known.mem = m->merges.mem = &t->c->mem;
  fl_text_init(&m->spelled, &t->c->mem);
  m->unknown = -1;
  if (!model || model->kind != FL_TREE_OBJECT) return fl_load_fail(t, "there is no \"model\"");
  if (kind < 0)
    return fl_load_fail(t, "the model '%.*s' is not supported; need BPE, Unigram, WordPiece or "
                        "WordLevel", fl_load_shown(name), name.at ? name.at : "");
  m->kind = (fl_model_kind)kind;
  m->fallback = (uint8_t)fl_load_flag(model, "byte_fallback", 0);
  const flame_status e = kind == FL_BPE ? read_bpe(t, model)
                         : kind == FL_UNIGRAM ? read_unigram(t, model) : read_words(t, model);
  find_bytes(m);
  return e;
}
