/* What the files of a tokenizer share. */
#ifndef FL_TEXT_PARTS_H
#define FL_TEXT_PARTS_H
#include "text/regex.h"
#include "text/tokenizer.h"
#include "text/tree.h"
#include "text/unicode.h"

/* ---- texts by hash, and tries (vocab.c) ------------------------------------------------------ */
typedef struct fl_token { const char *at; uint32_t n; int32_t id; double score; } fl_token;
typedef struct fl_vocab {
  fl_mem *mem;
  struct { fl_token *at; int64_t n, cap; } tokens;
  int32_t *bins;          /* 1 + index in tokens, hashed by text; the number of bins is a power of
                          ** two */
  int64_t nbins;
  int32_t *by_id;               /* 1 + index in tokens; 0: no token has this id */
  int64_t nids;
  size_t longest;               /* bytes of the longest text */
} fl_vocab;
/* The text remains the caller's. An existing text gets the new id. 0: no memory. */
int fl_vocab_put(fl_vocab *v, fl_span text, int32_t id, double score);
const fl_token *fl_vocab_get(const fl_vocab *v, const char *at, size_t n);      /* or NULL */
/* Called once, after the last put: makes tokens findable by id; all ids are below nids. 0: no
** memory. */
int fl_vocab_index(fl_vocab *v, int64_t nids);
const fl_token *fl_vocab_of(const fl_vocab *v, int64_t id);                     /* or NULL */
void fl_vocab_drop(fl_vocab *v);

/* 64-bit keys to 64-bit values; ~0 is not a key. */
typedef struct fl_table {
  fl_mem *mem;
  uint64_t *at;                 /* pairs */
  int64_t n, nbins;
} fl_table;
/* The value of a key, created as 'otherwise' if it is new; NULL: no memory. Valid until the next
** call. */
uint64_t *fl_table_put(fl_table *t, uint64_t key, uint64_t otherwise);
const uint64_t *fl_table_get(const fl_table *t, uint64_t key);  /* or NULL */
void fl_table_drop(fl_table *t);

/* A trie over bytes, one per level. Node 0 is the root. */
typedef struct fl_trie {
  fl_table edges;               /* node << 8 | byte -> node */
  struct { int32_t *at; int64_t n, cap; } values;      /* by node: the value of the text that ends
                                                       ** here; -1: none ends here */
  uint64_t first[4];            /* bytes with which a text can begin */
} fl_trie;
/* The value is 0 or more. Returns 0 if there is no memory. */
int fl_trie_put(fl_trie *t, fl_mem *mem, fl_span text, int32_t value);
/* The node below 'node' for this byte; -1: there is none. */
static inline int64_t fl_trie_step(const fl_trie *t, int64_t node, char byte) {
  const uint64_t *v = fl_table_get(&t->edges, (uint64_t)node << 8 | (unsigned char)byte);
  return v ? (int64_t)*v : -1;
}
void fl_trie_drop(fl_trie *t);

/* ---- passes ---------------------------------------------------------------------------------- */
typedef enum fl_pass_kind {
  FL_PASS_NFD, FL_PASS_NFC, FL_PASS_NFKD, FL_PASS_NFKC, FL_PASS_LOWERCASE, FL_PASS_STRIP,
  FL_PASS_STRIP_ACCENTS, FL_PASS_REPLACE, FL_PASS_PREPEND, FL_PASS_BERT, FL_PASS_NMT,
  FL_PASS_PRECOMPILED, FL_PASS_BYTES,
  FL_PASS_BYTE_LEVEL, FL_PASS_SPLIT, FL_PASS_WHITESPACE, FL_PASS_WHITESPACE_SPLIT,
  FL_PASS_BERT_WORDS, FL_PASS_METASPACE, FL_PASS_DIGITS, FL_PASS_PUNCTUATION,
  FL_PASS_WORDPIECE, FL_PASS_FALLBACK, FL_PASS_FUSE, FL_PASS_SUFFIX
} fl_pass_kind;
typedef enum fl_behaviour { FL_REMOVED, FL_ISOLATED, FL_WITH_PREVIOUS, FL_WITH_NEXT,
                            FL_CONTIGUOUS } fl_behaviour;
enum { FL_ALWAYS, FL_FIRST, FL_NEVER };                 /* a prefix */
enum { FL_CLEAN = 1, FL_CHINESE = 2, FL_ACCENTS = 4, FL_LOWER = 8 };    /* flags of BERT */

typedef struct fl_pass {
  uint8_t kind, behaviour;
  uint8_t invert, flags;        /* invert: what the pattern does not match counts as a match */
  uint8_t regex;                /* rx is used, not the text */
  /* options of Strip: left, right; of Metaspace: FL_ALWAYS …, split; of WordPiece: clean up */
  uint8_t on[2];
  int64_t count[2];             /* of a decoder's strip */
  fl_span text, with;           /* the pattern, prefix or suffix; what replaces it, is put before a
                                ** text, or marks a blank */
  fl_regex rx;
  const unsigned char *units;   /* for Precompiled: its trie, and the texts to which it maps */
  int64_t nunits;
  fl_span texts;
  uint8_t gone;                 /* in a normaliser: it removed the first character */
  fl_text out;
} fl_pass;
typedef struct fl_passes { fl_pass *at; int64_t n, cap; } fl_passes;

typedef struct fl_added {
  fl_span text;
  int32_t id;
  uint8_t special, single, lstrip, rstrip, normalized;
} fl_added;
/* An item of a template. sequence 0: the token 'id'; 1, 2: the ids of the first or second text. */
typedef struct fl_item { int32_t id; uint8_t type, sequence; } fl_item;
typedef struct fl_template { fl_item *at; int64_t n, cap; } fl_template;
typedef enum fl_model_kind { FL_BPE, FL_UNIGRAM, FL_WORDPIECE, FL_WORDLEVEL } fl_model_kind;

enum { FL_KEPT_BYTES = 1 << 20 };        /* of words that are kept */
/* id -1: it was merged with the one before. previous, next: indices; rank: of the pair with
** next. */
typedef struct fl_symbol { int32_t id, previous, next; uint32_t rank; } fl_symbol;
/* The best path to a place: its score, where its last token begins (-1: none yet) and that
** token. */
typedef struct fl_best { double score; int64_t from; int32_t id; } fl_best;
typedef struct fl_model {
  fl_model_kind kind;
  fl_vocab vocab;
  fl_table merges;              /* left << 32 | right -> rank << 32 | id */
  fl_trie trie;                 /* of a unigram */
  int32_t unknown;              /* id, -1: none */
  int32_t bytes[256];           /* ids of <0x00> … */
  int32_t single[256];          /* ids of texts of one byte; -1: none */
  uint8_t fallback, fuse, ignore_merges;
  double least;                 /* the lowest score of a unigram */
  int64_t longest;              /* most characters of a word for WordPiece */
  fl_span prefix, suffix;
  /* recent words and their ids, both dropped when there are too many */
  fl_vocab known;
  char *words;
  size_t nwords;
  fl_ids lists;
  /* work of one word */
  struct { fl_symbol *at; int64_t n, cap; } symbols;
  struct { uint64_t *at; int64_t n, cap; } heap;
  struct { fl_best *at; int64_t n, cap; } best;
  fl_ids found;
  fl_text spelled;
} fl_model;

struct fl_tokenizer {
  flame_context *c;
  char *text;                   /* the file, decoded in place: tokens point into it */
  size_t bytes;
  fl_passes normalise, cut, decode;
  uint8_t decodes;              /* a decoder is named */
  struct { fl_added *at; int64_t n, cap; } added;
  fl_vocab added_ids;
  fl_table added_by_id;         /* id -> place in added */
  fl_trie raw, normal;          /* for added tokens: indices in 'added' */
  fl_template one, pair;
  uint8_t templated;            /* the file has a post-processor that adds tokens */
  fl_model model;
  int64_t pad;
  fl_text mended;
  size_t room;                  /* bytes that a pass may write for the current text */
  /* valid while a text is cut */
  int specials_as_text;
  int gone;                     /* a normaliser has removed the text's first character */
  fl_ids *ids;
  flame_status (*word)(void *arg, fl_span word);       /* called by a trainer with each word; NULL:
                                                       ** the model is used */
  void *word_arg;
};

/* Makes t empty, also after a failure. */
static inline void fl_tok_empty(fl_text *t) {
  t->n = 0;
  t->failed = 0;
}

/* These return the code of the error in the context. */
flame_status fl_tok_no_memory(flame_context *c);
flame_status fl_tok_poll(flame_context *c);
/* Limits how long the passes (steps, such as normalisers) may make a text of n bytes, since each of
** them could multiply its length. */
void fl_tok_bound(fl_tokenizer *t, size_t n);
/* Called with the text that a pass wrote: fails if it is too long, or memory was out. */
flame_status fl_tok_wrote(fl_tokenizer *t, const fl_text *out);
/* *text becomes the normalised text, which is in a pass's buffer and valid until the next call. */
flame_status fl_tok_normalise(fl_tokenizer *t, fl_span *text);
/* Cuts the piece into words, and gives each to the model, or to t->word. first: it begins the
** text. */
flame_status fl_tok_cut(fl_tokenizer *t, fl_span piece, int first);
flame_status fl_tok_text(fl_tokenizer *t, fl_span text);       /* a whole text */
flame_status fl_model_word(fl_tokenizer *t, fl_span word);     /* adds its ids to t->ids */
/* The first match of a pass's pattern at or after 'from'. Returns what fl_regex_find does. */
int fl_pass_find(fl_tokenizer *t, fl_pass *s, fl_span text, const char *from, const char **first,
                 const char **last);
/* Replaces all matches: *text becomes s->out, or stays if there are none. s->out is empty
** before. */
flame_status fl_pass_replace(fl_tokenizer *t, fl_pass *s, fl_span *text);
void fl_bytes_spell(fl_text *out, fl_span bytes);              /* as ByteLevel writes them */
int fl_bytes_of(uint32_t c);                                   /* the byte, -1: none */
/* ---- reading (load*.c) ----------------------------------------------------------------------- */
flame_status fl_load_fail(fl_tokenizer *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
flame_status fl_load_passes(fl_tokenizer *t, const fl_tree_node *root);
flame_status fl_load_model(fl_tokenizer *t, const fl_tree_node *model);
flame_status fl_load_template(fl_tokenizer *t, const fl_tree_node *processor);
flame_status fl_load_added(fl_tokenizer *t, const fl_tree_node *list);
int fl_load_flag(const fl_tree_node *object, const char *key, int otherwise);
int64_t fl_load_count(const fl_tree_node *n);                  /* -1: not a count */
fl_span fl_load_text(const fl_tree_node *n);                   /* at NULL: not a string */
int fl_load_shown(fl_span s);                  /* bytes of it that a message shows */
#endif
