/*
** Reads normalisers, pre-tokenizers and decoders of a tokenizer.json: lists of passes (steps), into
** which a Sequence is put member by member.
*/
#include "text/parts.h"

enum { MOST_PASSES = 250 };             /* each calls the next one, so they nest on the C stack */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

typedef flame_status (*fill)(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o);
/* One type of pass. fill reads its fields; NULL: it has none. */
typedef struct row { const char *type; fl_pass_kind kind; fill fill; } row;

static flame_status need_text(fl_tokenizer *t, const fl_tree_node *o, const char *key,
                              fl_span *text) {
  const fl_span type = fl_load_text(fl_tree_get(o, "type"));
  *text = fl_load_text(fl_tree_get(o, key));
  return text->at ? FLAME_OK : fl_load_fail(t, "'%.*s' needs \"%s\", a string",
                                            fl_load_shown(type), type.at, key);
}

static flame_status need_char(fl_tokenizer *t, const fl_tree_node *o, const char *key,
                              fl_span *text) {
  const flame_status e = need_text(t, o, key, text);
  if (e != FLAME_OK || (text->n && (size_t)fl_utf8_length(text->at, text->at + text->n) == text->n))
    return e;
  return fl_load_fail(t, "\"%s\" is '%.*s', need one character", key, fl_load_shown(*text),
                      text->at);
}

static flame_status regex(fl_tokenizer *t, fl_pass *s, const char *pattern, size_t n) {
  s->regex = 1;
  if (fl_regex_open(&s->rx, &t->c->mem, pattern, n)) return FLAME_OK;
  if (s->rx.failed) return fl_tok_no_memory(t->c);
  size_t at = 1;
  for (size_t i = 0; i < s->rx.offset; i++) at += !fl_utf8_goes_on(pattern + i);
  return fl_load_fail(t, "the pattern '%.*s' is refused at character %zu: %s",
                      fl_load_shown((fl_span){ pattern, n }), pattern, at, s->rx.wrong);
}

/* "pattern": {"Regex": …} or {"String": …}. */
static flame_status pattern(fl_tokenizer *t, fl_pass *s, const fl_tree_node *o) {
  const fl_tree_node *p = fl_tree_get(o, "pattern");
  const fl_span text = fl_load_text(fl_tree_get(p, "String"));
  const fl_span rx = fl_load_text(fl_tree_get(p, "Regex"));
  if (text.at) return s->text = text, FLAME_OK;
  if (rx.at) return regex(t, s, rx.at, rx.n);
  return fl_load_fail(t, "\"pattern\" needs \"String\" or \"Regex\"");
}

/* ---- normalisers ----------------------------------------------------------------------------- */
static flame_status strip(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)t, (void)to;
  s->on[0] = (uint8_t)fl_load_flag(o, "strip_left", 1);
  s->on[1] = (uint8_t)fl_load_flag(o, "strip_right", 1);
  return FLAME_OK;
}

static flame_status replace(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  const flame_status e = pattern(t, s, o);
  return e == FLAME_OK ? need_text(t, o, "content", &s->with) : e;
}

static flame_status prepend(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  return need_text(t, o, "prepend", &s->with);
}

static flame_status bert(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)t, (void)to;
  const int lower = fl_load_flag(o, "lowercase", 1);
  s->flags = (uint8_t)(FL_CLEAN * fl_load_flag(o, "clean_text", 1) |
                       FL_CHINESE * fl_load_flag(o, "handle_chinese_chars", 1) |
                       FL_ACCENTS * fl_load_flag(o, "strip_accents", lower) | FL_LOWER * lower);
  return FLAME_OK;
}

static int sextet(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26
         : c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The charsmap is base64 of: size of the trie, the trie, and the texts; decoded in place. */
static flame_status precompiled(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  const fl_span map = fl_load_text(fl_tree_get(o, "precompiled_charsmap"));
  if (!map.at) return fl_load_fail(t, "'Precompiled' needs \"precompiled_charsmap\", a string");
  char *out = t->text + (map.at - t->text);
  size_t n = 0;
  uint32_t bits = 0, trie = 0;
  int have = 0;
  for (size_t i = 0; i < map.n && map.at[i] != '='; i++) {
    const int v = sextet(map.at[i]);
    if (v < 0) return fl_load_fail(t, "\"precompiled_charsmap\" is not base64");
    bits = bits << 6 | (uint32_t)v;
    if ((have += 6) < 8) continue;
    out[n++] = (char)(bits >> (have -= 8));
  }
  if (n >= 4) memcpy(&trie, out, 4);
  if (n < 4 || trie > n - 4) return fl_load_fail(t, "\"precompiled_charsmap\" is too short");
  s->units = (const unsigned char *)out + 4;
  s->nunits = trie / 4;
  s->texts = (fl_span){ out + 4 + trie, n - 4 - trie };
  return fl_utf8_is_valid(s->texts.at, s->texts.n) ? FLAME_OK :
         fl_load_fail(t, "\"precompiled_charsmap\" holds texts that are not UTF-8");
}

static const row normalisers[] = {
  { "NFD", FL_PASS_NFD, 0 }, { "NFC", FL_PASS_NFC, 0 }, { "NFKD", FL_PASS_NFKD, 0 },
  { "NFKC", FL_PASS_NFKC, 0 }, { "Lowercase", FL_PASS_LOWERCASE, 0 },
  { "Strip", FL_PASS_STRIP, strip }, { "StripAccents", FL_PASS_STRIP_ACCENTS, 0 },
  { "Replace", FL_PASS_REPLACE, replace }, { "Prepend", FL_PASS_PREPEND, prepend },
  { "BertNormalizer", FL_PASS_BERT, bert }, { "Nmt", FL_PASS_NMT, 0 },
  { "Precompiled", FL_PASS_PRECOMPILED, precompiled }, { "ByteLevel", FL_PASS_BYTES, 0 },
  { NULL, 0, 0 }
};

/* ---- pre-tokenizers -------------------------------------------------------------------------- */
static fl_pass *add(fl_tokenizer *t, fl_passes *to, fl_pass_kind kind) {
  if (to->n >= MOST_PASSES) return fl_load_fail(t, "more than %d passes", MOST_PASSES), NULL;
  fl_pass *s = FL_PUSH(&t->c->mem, to);
  if (!s) return fl_tok_no_memory(t->c), NULL;
  memset(s, 0, sizeof *s);
  s->kind = (uint8_t)kind;
  fl_text_init(&s->out, &t->c->mem);
  return s;
}

static flame_status add_regex(fl_tokenizer *t, fl_passes *to, const char *text, fl_behaviour how) {
  fl_pass *s = add(t, to, FL_PASS_SPLIT);
  if (!s) return t->c->err.code;
  s->behaviour = (uint8_t)how;
  return regex(t, s, text, strlen(text));
}

/* Adds the passes of ByteLevel: the prefix and GPT-2's pattern if the options ask for them, and the
** spelling of bytes. */
static flame_status byte_level(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  const int prefix = fl_load_flag(o, "add_prefix_space", 1), cut = fl_load_flag(o, "use_regex", 1);
  if (prefix) {
    s->kind = FL_PASS_PREPEND;
    s->with = (fl_span){ " ", 1 };
  } else {
    to->n--;
  }
  if (cut && add_regex(t, to, GPT2, FL_ISOLATED) != FLAME_OK) return t->c->err.code;
  return add(t, to, FL_PASS_BYTE_LEVEL) ? FLAME_OK : t->c->err.code;
}

static flame_status behaviour(fl_tokenizer *t, fl_pass *s, const fl_tree_node *o) {
  static const char *const names[] = { "Removed", "Isolated", "MergedWithPrevious",
                                       "MergedWithNext", "Contiguous" };
  const fl_tree_node *n = fl_tree_get(o, "behavior");
  const fl_span name = fl_load_text(n);
  s->invert = (uint8_t)fl_load_flag(o, "invert", 0);
  s->behaviour = FL_ISOLATED;
  for (uint8_t k = 0; n && k < 5; k++)
    if (fl_tree_is(n, names[k])) return s->behaviour = k, FLAME_OK;
  return !n ? FLAME_OK : fl_load_fail(t, "\"behavior\" is '%.*s', which is not known",
                                      fl_load_shown(name), name.at ? name.at : "");
}

static flame_status split(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  const flame_status e = pattern(t, s, o);
  return e == FLAME_OK ? behaviour(t, s, o) : e;
}

static flame_status punctuation(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  return behaviour(t, s, o);
}

/* The characters of words, with the two joiners, which \w of these patterns does not have. */
#define WORD "[\\w\\x{200C}\\x{200D}]"
static flame_status whitespace(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  static const char words[] = WORD "+|[^" WORD "\\s]+";
  (void)to, (void)o;
  s->invert = 1;
  return regex(t, s, words, sizeof words - 1);
}

static flame_status bert_words(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)o, (void)s;
  fl_pass *second = add(t, to, FL_PASS_BERT_WORDS);
  if (!second) return t->c->err.code;
  second->invert = 1;                            /* punctuation, not space */
  second->behaviour = FL_ISOLATED;
  return FLAME_OK;
}

static flame_status digits(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)t, (void)to;
  s->behaviour = fl_load_flag(o, "individual_digits", 0) ? FL_ISOLATED : FL_CONTIGUOUS;
  return FLAME_OK;
}

static flame_status delimiter(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  return need_char(t, o, "delimiter", &s->text);
}

static flame_status metaspace(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  const fl_tree_node *scheme = fl_tree_get(o, "prepend_scheme");
  if (need_char(t, o, "replacement", &s->with) != FLAME_OK) return t->c->err.code;
  s->on[0] = fl_load_flag(o, "add_prefix_space", 1) ? FL_ALWAYS : FL_NEVER;
  if (fl_tree_is(scheme, "always")) s->on[0] = FL_ALWAYS;
  else if (fl_tree_is(scheme, "first")) s->on[0] = FL_FIRST;
  else if (fl_tree_is(scheme, "never")) s->on[0] = FL_NEVER;
  else if (scheme) return fl_load_fail(t, "\"prepend_scheme\" is not always, first or never");
  s->on[1] = (uint8_t)fl_load_flag(o, "split", 1);
  s->text = s->with;
  s->behaviour = FL_WITH_NEXT;
  return FLAME_OK;
}

static const row cutters[] = {
  { "ByteLevel", FL_PASS_BYTE_LEVEL, byte_level }, { "Split", FL_PASS_SPLIT, split },
  { "Whitespace", FL_PASS_WHITESPACE, whitespace },
  { "WhitespaceSplit", FL_PASS_WHITESPACE_SPLIT, 0 },
  { "BertPreTokenizer", FL_PASS_BERT_WORDS, bert_words },
  { "Metaspace", FL_PASS_METASPACE, metaspace }, { "Digits", FL_PASS_DIGITS, digits },
  { "Punctuation", FL_PASS_PUNCTUATION, punctuation },
  { "CharDelimiterSplit", FL_PASS_SPLIT, delimiter }, { NULL, 0, 0 }
};

/* ---- decoders -------------------------------------------------------------------------------- */
static flame_status wordpiece(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  s->on[0] = (uint8_t)fl_load_flag(o, "cleanup", 1);
  return need_text(t, o, "prefix", &s->text);
}

static flame_status strip_ends(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  const flame_status e = need_text(t, o, "content", &s->text);
  s->count[0] = fl_load_count(fl_tree_get(o, "start"));
  s->count[1] = fl_load_count(fl_tree_get(o, "stop"));
  if (e == FLAME_OK && (s->count[0] < 0 || s->count[1] < 0 || s->text.n == 0))
    return fl_load_fail(t, "Strip needs \"start\" and \"stop\", counts");
  return e;
}

static flame_status suffix(fl_tokenizer *t, fl_passes *to, fl_pass *s, const fl_tree_node *o) {
  (void)to;
  return need_text(t, o, "suffix", &s->text);
}

static const row decoders[] = {
  { "ByteLevel", FL_PASS_BYTE_LEVEL, 0 }, { "Metaspace", FL_PASS_METASPACE, metaspace },
  { "WordPiece", FL_PASS_WORDPIECE, wordpiece }, { "ByteFallback", FL_PASS_FALLBACK, 0 },
  { "Fuse", FL_PASS_FUSE, 0 }, { "Strip", FL_PASS_STRIP, strip_ends },
  { "Replace", FL_PASS_REPLACE, replace }, { "BPEDecoder", FL_PASS_SUFFIX, suffix }, { NULL, 0, 0 }
};

/* ---- lists ----------------------------------------------------------------------------------- */
/* o: a pass, or a Sequence with a list of them in 'members'. JSON nesting is bounded. */
static flame_status read_pass(fl_tokenizer *t, fl_passes *to, const row *rows, const char *what,
                              const char *members, const fl_tree_node *o) {
  const fl_tree_node *type = fl_tree_get(o, "type");
  const fl_span name = fl_load_text(type);
  if (!name.at) return fl_load_fail(t, "a %s without a type", what);
  if (fl_tree_is(type, "Sequence")) {
    const fl_tree_node *list = fl_tree_get(o, members), *n = fl_tree_first(list, FL_TREE_LIST);
    if (!n) return fl_load_fail(t, "a Sequence without \"%s\"", members);
    for (uint32_t i = 0; i < list->n; i++, n = fl_tree_next(n)) {
      const flame_status e = read_pass(t, to, rows, what, members, n);
      if (e != FLAME_OK) return e;
    }
    return FLAME_OK;
  }
  for (const row *r = rows; r->type; r++) {
    if (!fl_tree_is(type, r->type)) continue;
    fl_pass *s = add(t, to, r->kind);
    return !s ? t->c->err.code : r->fill ? r->fill(t, to, s, o) : FLAME_OK;
  }
  return fl_load_fail(t, "the %s '%.*s' is not supported", what, fl_load_shown(name), name.at);
}

flame_status fl_load_passes(fl_tokenizer *t, const fl_tree_node *root) {
  const fl_tree_node *n = fl_tree_get(root, "normalizer");
  flame_status e = FLAME_OK;
  if (n) e = read_pass(t, &t->normalise, normalisers, "normalizer", "normalizers", n);
  if (e == FLAME_OK && (n = fl_tree_get(root, "pre_tokenizer")))
    e = read_pass(t, &t->cut, cutters, "pre-tokenizer", "pretokenizers", n);
  if (e == FLAME_OK && (n = fl_tree_get(root, "decoder"))) {
    t->decodes = 1;
    e = read_pass(t, &t->decode, decoders, "decoder", "decoders", n);
  }
  return e;
}
