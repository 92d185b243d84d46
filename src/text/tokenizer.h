/*
** Tokenizers as in Hugging Face's tokenizer.json. A text passes: the search for added tokens in the
** text as given, a normaliser, the search for added tokens in the normalised text, pre-tokenizers,
** which cut it into words, the model, which makes ids of a word, and a template, which puts special
** tokens around them. Ids are the file's: from 0. Everything is counted memory of the context;
** failures are its errors.
*/
#ifndef FL_TEXT_TOKENIZER_H
#define FL_TEXT_TOKENIZER_H
#include "base/text.h"
#include "io/io.h"

typedef struct fl_tokenizer fl_tokenizer;
typedef struct fl_ids { int32_t *at; int64_t n, cap; } fl_ids;

/* Copies the text. NULL with an error. */
fl_tokenizer *fl_tokenizer_open(flame_context *c, const char *text, size_t n);
void fl_tokenizer_close(fl_tokenizer *t);

typedef struct fl_tok_how {
  int plain;                    /* without the template */
  int specials_as_text;         /* special tokens in the text are treated as text */
  int64_t most;                 /* most ids, including those of the template; 0: no limit */
  int left;                     /* cut at the left */
} fl_tok_how;
/* pair.at NULL: one text. ids and, of the same length, types: 0, 1 or what the template says. */
flame_status fl_tokenizer_encode(fl_tokenizer *t, fl_span text, fl_span pair, const fl_tok_how *how,
                                 fl_ids *ids, fl_ids *types);
/* raw: bytes without changes, also if they are not UTF-8. An unknown id is an error. */
flame_status fl_tokenizer_decode(fl_tokenizer *t, const int64_t *ids, int64_t n, int skip_special,
                                 int raw, fl_text *out);
int64_t fl_tokenizer_id(const fl_tokenizer *t, fl_span token);         /* -1: there is none */
int fl_tokenizer_token(const fl_tokenizer *t, int64_t id, fl_span *token, int *special);
int64_t fl_tokenizer_size(const fl_tokenizer *t, int added);           /* tokens */
int64_t fl_tokenizer_top(const fl_tokenizer *t);                       /* the largest id + 1 */
const char *fl_tokenizer_model(const fl_tokenizer *t);                 /* "BPE", … */
int64_t fl_tokenizer_pad(const fl_tokenizer *t);                       /* -1: the file names none */

/* ---- training of a BPE (train.c) ------------------------------------------------------------- */
typedef struct fl_trainer fl_trainer;
typedef struct fl_train_how {
  int64_t vocabulary, least;    /* number of tokens; how often a pair must occur to be merged */
  const fl_span *special;
  int64_t nspecial;
  int64_t longest;              /* a token of three or more characters has fewer than this; 0: no
                                ** limit */
} fl_train_how;
/* 'shape' cuts texts into words. The caller owns it, and it must outlive the trainer. */
fl_trainer *fl_trainer_open(flame_context *c, fl_tokenizer *shape);
void fl_trainer_close(fl_trainer *r);
flame_status fl_trainer_feed(fl_trainer *r, fl_span text);
/* Adds "vocab":{…},"merges":[…] to out, as in tokenizer.json. */
flame_status fl_trainer_finish(fl_trainer *r, const fl_train_how *how, fl_text *out);
#endif
