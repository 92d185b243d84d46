/*
** Pre-tokenizers: each cuts a piece and passes each part on to the next one at once, so that memory
** holds only one piece per pass.
*/
#include "text/parts.h"

/* ---- ByteLevel's spelling: printable bytes as they are, the others from U+0100 on ------------ */
static int printable(int b) {
  return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

void fl_bytes_spell(fl_text *out, fl_span bytes) {
  for (size_t i = 0; i < bytes.n; i++) {
    const int b = (unsigned char)bytes.at[i];
    uint32_t c = (uint32_t)b;
    if (!printable(b)) c = 256u + (uint32_t)(b < 33 ? b : b < 161 ? b - 127 + 33 : 67);
    fl_utf8_add(out, c);
  }
}

int fl_bytes_of(uint32_t c) {
  if (c < 256) return printable((int)c) ? (int)c : -1;
  if (c < 256 + 33) return (int)c - 256;
  if (c < 256 + 67) return (int)c - 256 - 33 + 127;
  return c == 256 + 67 ? 0xAD : -1;
}

/* ---- what separates -------------------------------------------------------------------------- */
static int separates(const fl_pass *s, uint32_t c) {
  switch ((fl_pass_kind)s->kind) {
    case FL_PASS_WHITESPACE_SPLIT: return fl_uc_space(c);
    case FL_PASS_BERT_WORDS: return s->invert ? fl_uc_punct(c) : fl_uc_space(c);
    case FL_PASS_DIGITS: return fl_uc_is(c, FL_UC_NUMBER);
    default: return fl_uc_punct(c);              /* FL_PASS_PUNCTUATION */
  }
}

int fl_pass_find(fl_tokenizer *t, fl_pass *s, fl_span text, const char *from, const char **first,
                 const char **last) {
  const char *end = text.at + text.n;
  int k;
  if (s->regex) return fl_regex_find(&s->rx, t->c, text.at, end, from, first, last);
  if (s->text.at) {
    const int any = s->text.n && from < end;
    *first = any ? memmem(from, (size_t)(end - from), s->text.at, s->text.n) : NULL;
    *last = *first ? *first + s->text.n : NULL;
    return *first != NULL;
  }
  for (; from < end; from += k) {
    if (!separates(s, fl_utf8_get(from, &k))) continue;
    *first = from;
    *last = from + k;
    return 1;
  }
  return 0;
}

/* ---- cutting: a piece waits until it is known what it is merged with ------------------------- */
/* first: the text that is cut is the beginning of the whole text. */
typedef struct cutter {
  fl_tokenizer *t;
  int64_t pass;
  fl_pass *s;
  const char *text;
  int first;
  fl_span waits;                /* at NULL: none */
  int waits_match, before;      /* waits_match: the waiting piece is a match, and nothing has been
                                ** joined to it; before: the last piece was a match */
} cutter;

static flame_status on(fl_tokenizer *t, int64_t pass, fl_span piece, int first);

/* Passes a piece on to the next pass. */
static flame_status give(cutter *c, fl_span piece) {
  if (piece.at == NULL || piece.n == 0) return FLAME_OK;
  return on(c->t, c->pass + 1, piece, c->first && piece.at == c->text);
}

/* Makes a piece wait, and gives the one that waited. */
static flame_status wait(cutter *c, fl_span piece, int match) {
  const fl_span before = c->waits;
  c->waits = piece;
  c->waits_match = match;
  return give(c, before);
}

/* Handles the next segment of the text: a match, or what is between two of them. */
static flame_status segment(cutter *c, fl_span piece, int match) {
  const int was = c->before, joins = c->waits.at != NULL;
  match ^= c->s->invert && c->s->kind != FL_PASS_BERT_WORDS;
  c->before = match;
  switch ((fl_behaviour)c->s->behaviour) {
    case FL_REMOVED: return match ? FLAME_OK : give(c, piece);
    case FL_ISOLATED: return give(c, piece);
    case FL_WITH_PREVIOUS:
      if (match && !was && joins) return c->waits.n += piece.n, FLAME_OK;
      return wait(c, piece, match);
    case FL_WITH_NEXT:
      if (joins && c->waits_match && !match) {
        c->waits.n += piece.n;
        c->waits_match = 0;
        return FLAME_OK;
      }
      return wait(c, piece, match);
    default:                                     /* FL_CONTIGUOUS */
      if (match == was && joins) return c->waits.n += piece.n, FLAME_OK;
      return wait(c, piece, match);
  }
}

/* Cuts a piece at the matches of s, which is pass number 'pass'. */
static flame_status cut(fl_tokenizer *t, int64_t pass, fl_pass *s, fl_span piece, int starts) {
  cutter c = { .t = t, .pass = pass, .s = s, .text = piece.at, .first = starts };
  const char *from = piece.at, *end = from + piece.n, *first, *last;
  flame_status e = FLAME_OK;
  int found = 1;
  for (const char *look = from; e == FLAME_OK; look = last) {
    if ((found = fl_pass_find(t, s, piece, look, &first, &last)) <= 0) break;
    if (first == last && first == from && from != piece.at) {      /* empty, behind a match */
      if (last >= end) break;
      do last++; while (last < end && fl_utf8_goes_on(last));
      continue;
    }
    if (first > from) e = segment(&c, (fl_span){ from, (size_t)(first - from) }, 0);
    if (e == FLAME_OK) e = segment(&c, (fl_span){ first, (size_t)(last - first) }, 1);
    from = last;
    if (first == last) {
      if (last >= end) break;
      do last++; while (last < end && fl_utf8_goes_on(last));
    }
  }
  if (found < 0) return t->c->err.code;
  if (e == FLAME_OK && end > from) e = segment(&c, (fl_span){ from, (size_t)(end - from) }, 0);
  return e == FLAME_OK ? give(&c, c.waits) : e;
}

/* ---- those that write ------------------------------------------------------------------------ */
/* The spelling of ByteLevel. Its prefix and GPT-2's pattern, if requested, are separate passes
** before this one. */
static flame_status spell(fl_tokenizer *t, int64_t pass, fl_pass *s, fl_span piece, int first) {
  fl_tok_empty(&s->out);
  fl_bytes_spell(&s->out, piece);
  if (fl_tok_wrote(t, &s->out) != FLAME_OK) return t->c->err.code;
  return on(t, pass + 1, (fl_span){ s->out.at, s->out.n }, first);
}

static int begins(fl_span t, fl_span with) {
  return t.n >= with.n && memcmp(t.at, with.at, with.n) == 0;
}

/* Adds a prefix if there is none. */
static flame_status prefix(fl_tokenizer *t, int64_t pass, fl_pass *s, fl_span piece, int first) {
  if (begins(piece, s->with)) return on(t, pass + 1, piece, first);
  fl_tok_empty(&s->out);
  fl_text_add(&s->out, s->with.at, s->with.n);
  fl_text_add(&s->out, piece.at, piece.n);
  if (fl_tok_wrote(t, &s->out) != FLAME_OK) return t->c->err.code;
  return on(t, pass + 1, (fl_span){ s->out.at, s->out.n }, first);
}

/* Replaces blanks with the mark, puts one before the piece if the scheme says so, and cuts. */
static flame_status metaspace(fl_tokenizer *t, int64_t pass, fl_pass *s, fl_span piece, int first) {
  const char *from = piece.at, *end = from + piece.n;
  const int prefixed = (s->on[0] == FL_ALWAYS || (s->on[0] == FL_FIRST && first)) &&
                       !begins(piece, s->with) && *piece.at != ' ';
  fl_tok_empty(&s->out);
  if (prefixed) fl_text_add(&s->out, s->with.at, s->with.n);
  while (from < end) {
    const char *blank = memchr(from, ' ', (size_t)(end - from));
    fl_text_add(&s->out, from, (size_t)((blank ? blank : end) - from));
    if (blank) fl_text_add(&s->out, s->with.at, s->with.n);
    from = blank ? blank + 1 : end;
  }
  if (fl_tok_wrote(t, &s->out) != FLAME_OK) return t->c->err.code;
  const fl_span out = { s->out.at, s->out.n };
  return s->on[1] ? cut(t, pass, s, out, first) : on(t, pass + 1, out, first);
}

/* Applies the passes (pre-tokenizers) from number 'pass' on to a piece. first: the piece is the
** beginning of the text. Recursion is bounded by the number of passes. */
static flame_status on(fl_tokenizer *t, int64_t pass, fl_span piece, int first) {
  if (pass >= t->cut.n && fl_tok_poll(t->c) != FLAME_OK) return t->c->err.code;
  if (pass >= t->cut.n) return t->word ? t->word(t->word_arg, piece) : fl_model_word(t, piece);
  fl_pass *s = &t->cut.at[pass];
  switch ((fl_pass_kind)s->kind) {
    case FL_PASS_BYTE_LEVEL: return spell(t, pass, s, piece, first);
    case FL_PASS_PREPEND: return prefix(t, pass, s, piece, first);
    case FL_PASS_METASPACE: return metaspace(t, pass, s, piece, first);
    default: return cut(t, pass, s, piece, first);
  }
}

flame_status fl_tok_cut(fl_tokenizer *t, fl_span piece, int first) {
  return piece.n ? on(t, 0, piece, first) : FLAME_OK;
}
