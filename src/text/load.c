/* From a tokenizer.json to a tokenizer. The file is untrusted data: everything in it is checked. */
#include "text/parts.h"

/* ---- errors and values ----------------------------------------------------------------------- */
flame_status fl_load_fail(fl_tokenizer *t, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fl_fail_list(&t->c->err, FLAME_IO, "tokenizer", fmt, args);
  va_end(args);
  return FLAME_IO;
}

int fl_load_shown(fl_span s) {
  const size_t n = s.n < 40 ? s.n : 40;
  return (int)(n - fl_utf8_cut(s.at, n));
}

int fl_load_flag(const fl_tree_node *object, const char *key, int otherwise) {
  const fl_tree_node *n = fl_tree_get(object, key);
  return n && n->kind == FL_TREE_WORD ? fl_tree_is(n, "true") : otherwise;
}

int64_t fl_load_count(const fl_tree_node *n) {
  int64_t v = 0;
  if (!n || n->kind != FL_TREE_NUMBER || n->n > 10) return -1;
  for (uint32_t i = 0; i < n->n; i++) {
    if (n->at[i] < '0' || n->at[i] > '9') return -1;
    v = v * 10 + (n->at[i] - '0');
  }
  return v;
}

fl_span fl_load_text(const fl_tree_node *n) {
  return n && n->kind == FL_TREE_STRING ? (fl_span){ n->at, n->n } : (fl_span){ NULL, 0 };
}

/* ---- added tokens ---------------------------------------------------------------------------- */
static flame_status one_added(fl_tokenizer *t, const fl_tree_node *o) {
  const fl_span text = fl_load_text(fl_tree_get(o, "content"));
  const int64_t id = fl_load_count(fl_tree_get(o, "id"));
  if (!text.at || id < 0 || id > INT32_MAX)
    return fl_load_fail(t, "an added token needs \"content\", a string, and \"id\", a count");
  const fl_token *known = fl_vocab_get(&t->model.vocab, text.at, text.n);
  if (known && known->id != id)
    return fl_load_fail(t, "the added token '%.*s' has id %lld, and %d in the vocabulary",
                        fl_load_shown(text), text.at, (long long)id, known->id);
  fl_added *a = FL_PUSH(&t->c->mem, &t->added);
  if (!a) return fl_tok_no_memory(t->c);
  *a = (fl_added){ .text = text, .id = (int32_t)id };
  a->special = (uint8_t)fl_load_flag(o, "special", 0);
  a->single = (uint8_t)fl_load_flag(o, "single_word", 0);
  a->lstrip = (uint8_t)fl_load_flag(o, "lstrip", 0);
  a->rstrip = (uint8_t)fl_load_flag(o, "rstrip", 0);
  a->normalized = (uint8_t)fl_load_flag(o, "normalized", !a->special);
  uint64_t *place = fl_table_put(&t->added_by_id, (uint64_t)id, 0);
  if (!place || !fl_vocab_put(&t->added_ids, text, (int32_t)id, 0)) return fl_tok_no_memory(t->c);
  *place = (uint64_t)t->added.n - 1;
  return FLAME_OK;
}

/* Enters the token into the trie in which it is searched; normalised, if it is searched after
** normalisation. */
static flame_status find_added(fl_tokenizer *t, int64_t i) {
  fl_added *a = &t->added.at[i];
  fl_span text = a->text;
  if (a->normalized) {
    fl_tok_bound(t, text.n);
    const flame_status e = fl_tok_normalise(t, &text);
    if (e != FLAME_OK) return e;
  }
  if (text.n == 0) return FLAME_OK;
  fl_trie *trie = a->normalized ? &t->normal : &t->raw;
  return fl_trie_put(trie, &t->c->mem, text, (int32_t)i) ? FLAME_OK : fl_tok_no_memory(t->c);
}

flame_status fl_load_added(fl_tokenizer *t, const fl_tree_node *list) {
  const fl_tree_node *n = fl_tree_first(list, FL_TREE_LIST);
  flame_status e = FLAME_OK;
  if (list && !n) return fl_load_fail(t, "\"added_tokens\" is not a list");
  for (uint32_t i = 0; list && i < list->n && e == FLAME_OK; i++, n = fl_tree_next(n))
    e = one_added(t, n);
  for (int64_t i = 0; i < t->added.n && e == FLAME_OK; i++) e = find_added(t, i);
  return e;
}

/* ---- templates ------------------------------------------------------------------------------- */
static flame_status put_item(fl_tokenizer *t, fl_template *to, int32_t id, int sequence,
                             int64_t type) {
  fl_item *i = FL_PUSH(&t->c->mem, to);
  if (!i) return fl_tok_no_memory(t->c);
  *i = (fl_item){ id, (uint8_t)type, (uint8_t)sequence };
  return FLAME_OK;
}

/* The list of ids of a special token, by its name; NULL: it has none. */
static const fl_tree_node *ids_of(const fl_tree_node *specials, fl_span name) {
  const fl_tree_node *found = NULL, *k = fl_tree_first(specials, FL_TREE_OBJECT);
  for (uint32_t i = 0; k && i < specials->n; i++, k = fl_tree_next(k + 1))
    if (k->n == name.n && memcmp(k->at, name.at, name.n) == 0) found = k + 1;
  return fl_tree_get(found, "ids");
}

/* {"SpecialToken": {"id", "type_id"}} or {"Sequence": {"id": "A" or "B", "type_id"}}. */
static flame_status template_item(fl_tokenizer *t, fl_template *to, const fl_tree_node *specials,
                                  const fl_tree_node *o) {
  const fl_tree_node *sequence = fl_tree_get(o, "Sequence");
  const fl_tree_node *it = sequence ? sequence : fl_tree_get(o, "SpecialToken");
  const fl_span name = fl_load_text(fl_tree_get(it, "id"));
  const int64_t type = fl_load_count(fl_tree_get(it, "type_id"));
  if (!name.at || type < 0 || type > 255)
    return fl_load_fail(t, "an item of a template needs \"id\" and \"type_id\"");
  if (sequence)
    return put_item(t, to, 0, name.n == 1 && name.at[0] == 'B' ? 2 : 1, type);
  const fl_tree_node *ids = ids_of(specials, name), *k = fl_tree_first(ids, FL_TREE_LIST);
  if (!k) return fl_load_fail(t, "the template's token '%.*s' has no \"ids\"",
                              fl_load_shown(name), name.at);
  for (uint32_t i = 0; i < ids->n; i++, k = fl_tree_next(k)) {
    const int64_t id = fl_load_count(k);
    if (id < 0 || id > INT32_MAX) return fl_load_fail(t, "an id of a template is not a count");
    if (put_item(t, to, (int32_t)id, 0, type) != FLAME_OK) return t->c->err.code;
  }
  return fl_tok_poll(t->c);
}

static flame_status template_list(fl_tokenizer *t, fl_template *to, const fl_tree_node *o,
                                  const char *key) {
  const fl_tree_node *list = fl_tree_get(o, key), *n = fl_tree_first(list, FL_TREE_LIST);
  const fl_tree_node *specials = fl_tree_get(o, "special_tokens");
  if (!n) return fl_load_fail(t, "a template without \"%s\"", key);
  for (uint32_t i = 0; i < list->n; i++, n = fl_tree_next(n)) {
    const flame_status e = template_item(t, to, specials, n);
    if (e != FLAME_OK) return e;
  }
  return FLAME_OK;
}

/* BertProcessing: cls A sep B sep; RobertaProcessing: cls A sep sep B sep, all of type 0. */
static flame_status bert_template(fl_tokenizer *t, const fl_tree_node *o, int roberta) {
  int32_t id[2];
  for (int k = 0; k < 2; k++) {
    const fl_tree_node *pair = fl_tree_get(o, k ? "sep" : "cls");
    const fl_tree_node *token = fl_tree_first(pair, FL_TREE_LIST);
    const int64_t v = token && pair->n == 2 ? fl_load_count(fl_tree_next(token)) : -1;
    if (v < 0 || v > INT32_MAX)
      return fl_load_fail(t, "\"cls\" and \"sep\" need a token and its id");
    id[k] = (int32_t)v;
  }
  flame_status e = FLAME_OK;
  for (int k = 0; k < 2 && e == FLAME_OK; k++) {
    fl_template *to = k ? &t->pair : &t->one;
    e = put_item(t, to, id[0], 0, 0);
    if (e == FLAME_OK) e = put_item(t, to, 0, 1, 0);
    if (e == FLAME_OK) e = put_item(t, to, id[1], 0, 0);
    if (k && roberta && e == FLAME_OK) e = put_item(t, to, id[1], 0, 0);
    if (k && e == FLAME_OK) e = put_item(t, to, 0, 2, !roberta);
    if (k && e == FLAME_OK) e = put_item(t, to, id[1], 0, !roberta);
  }
  return e;
}

flame_status fl_load_template(fl_tokenizer *t, const fl_tree_node *o) {
  const fl_tree_node *type = fl_tree_get(o, "type");
  const fl_tree_node *list = fl_tree_get(o, "processors"), *n = fl_tree_first(list, FL_TREE_LIST);
  const fl_span name = fl_load_text(type);
  flame_status e = FLAME_OK;
  if (!o || fl_tree_is(type, "ByteLevel")) return e;       /* that one only concerns offsets */
  if (fl_tree_is(type, "Sequence") && n) {
    for (uint32_t i = 0; i < list->n && e == FLAME_OK; i++, n = fl_tree_next(n))
      e = fl_load_template(t, n);
    return e;
  }
  if (t->templated) return fl_load_fail(t, "two post-processors that add tokens");
  t->templated = 1;
  if (fl_tree_is(type, "TemplateProcessing")) {
    e = template_list(t, &t->one, o, "single");
    return e == FLAME_OK ? template_list(t, &t->pair, o, "pair") : e;
  }
  if (fl_tree_is(type, "BertProcessing")) return bert_template(t, o, 0);
  if (fl_tree_is(type, "RobertaProcessing")) return bert_template(t, o, 1);
  return fl_load_fail(t, "the post-processor '%.*s' is not supported", fl_load_shown(name),
                      name.at ? name.at : "");
}
