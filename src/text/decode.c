/* From ids to a text: the decoder's passes transform the list of the tokens' texts. */
#include "text/parts.h"

/* Texts one after another, and where each ends. */
typedef struct list { fl_text text; struct { int64_t *at; int64_t n, cap; } ends; } list;
/* raw: bytes that are not UTF-8 stay as they are. */
typedef struct decoder { fl_tokenizer *t; fl_mem *mem; list *in, *out; int raw; } decoder;

/* Ends a text of the list. */
static void end_one(decoder *d, list *l) {
  int64_t *p = FL_PUSH(d->mem, &l->ends);
  if (p) *p = (int64_t)l->text.n;
  else l->text.failed = 1;
}

static fl_span at(const list *l, int64_t i) {
  const int64_t from = i ? l->ends.at[i - 1] : 0;
  return (fl_span){ l->text.at ? l->text.at + from : "", (size_t)(l->ends.at[i] - from) };
}

/* Adds bytes to the result: as they are if raw, else as valid UTF-8. */
static void whole(decoder *d, const fl_text *bytes) {
  if (d->raw) fl_text_add(&d->out->text, bytes->at, bytes->n);
  else fl_utf8_mend(&d->out->text, bytes->at, bytes->n);
}

/* Joins all tokens to one text. A token with a character that is not in the byte spelling stands
** for its own bytes. */
static void byte_level(decoder *d) {
  fl_text bytes;
  fl_text_init(&bytes, d->mem);
  for (int64_t i = 0; i < d->in->ends.n; i++) {
    const fl_span s = at(d->in, i);
    const size_t before = bytes.n;
    int k, b = !d->raw || fl_utf8_is_valid(s.at, s.n) ? 0 : -1;
    for (const char *p = s.at, *end = p + s.n; p < end && b >= 0; p += k) {
      b = fl_bytes_of(fl_utf8_get(p, &k));
      const char c = (char)b;
      if (b >= 0) fl_text_add(&bytes, &c, 1);
    }
    if (b >= 0 || bytes.failed) continue;
    bytes.n = before;
    fl_text_add(&bytes, s.at, s.n);
  }
  whole(d, &bytes);
  d->out->text.failed |= bytes.failed;
  fl_text_free(&bytes);
  end_one(d, d->out);
}

static int hex_of(char c) {
  const char l = (char)(c | 32);
  return c >= '0' && c <= '9' ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

/* The byte of a token <0x00>; -1: it is another token. */
static int byte_of(fl_span s) {
  if (s.n != 6 || memcmp(s.at, "<0x", 3) != 0 || s.at[5] != '>') return -1;
  const int high = hex_of(s.at[3]), low = hex_of(s.at[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Adjacent tokens of bytes (<0x00> to <0xFF>) are decoded as UTF-8; if they are not, and not raw,
** each becomes U+FFFD. */
static void flush(decoder *d, fl_text *bytes) {
  fl_text *out = &d->out->text;
  if (bytes->n == 0) return;
  if (d->raw || fl_utf8_is_valid(bytes->at, bytes->n)) fl_text_add(out, bytes->at, bytes->n);
  else for (size_t i = 0; i < bytes->n; i++) fl_utf8_add(out, FL_UC_REPLACEMENT);
  bytes->n = 0;
  end_one(d, d->out);
}

static void fallback(decoder *d) {
  fl_text bytes;
  fl_text_init(&bytes, d->mem);
  for (int64_t i = 0; i < d->in->ends.n; i++) {
    const fl_span s = at(d->in, i);
    const int b = byte_of(s);
    const char c = (char)b;
    if (b >= 0) {
      fl_text_add(&bytes, &c, 1);
      continue;
    }
    flush(d, &bytes);
    fl_text_add(&d->out->text, s.at, s.n);
    end_one(d, d->out);
  }
  flush(d, &bytes);
  d->out->text.failed |= bytes.failed;
  fl_text_free(&bytes);
}

/* ---- passes of one token after another ------------------------------------------------------- */
/* Replaces each 'from' with 'to', which is not longer, in what was added to out from 'since' on. */
static void swap_all(fl_text *out, size_t since, const char *from, const char *to) {
  const size_t n = strlen(from), m = strlen(to);
  size_t keep = since;
  for (size_t i = since; i < out->n;) {
    if (out->n - i >= n && memcmp(out->at + i, from, n) == 0) {
      memcpy(out->at + keep, to, m);
      keep += m;
      i += n;
    } else out->at[keep++] = out->at[i++];
  }
  out->n = keep;
}

static void wordpiece(decoder *d, const fl_pass *s, fl_span token, int first) {
  static const char *const clean[][2] = {
    { " .", "." }, { " ?", "?" }, { " !", "!" }, { " ,", "," }, { " ' ", "'" }, { " n't", "n't" },
    { " 'm", "'m" }, { " do not", " don't" }, { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" }
  };
  fl_text *out = &d->out->text;
  const size_t since = out->n;
  const int goes_on = !first && token.n >= s->text.n &&
                      memcmp(token.at, s->text.at, s->text.n) == 0;
  const size_t drop = goes_on ? s->text.n : 0;
  if (!first && !goes_on) fl_text_add(out, " ", 1);
  fl_text_add(out, token.at + drop, token.n - drop);
  for (size_t k = 0; s->on[0] && !out->failed && k < sizeof clean / sizeof *clean; k++)
    swap_all(out, since, clean[k][0], clean[k][1]);
}

static void metaspace(decoder *d, const fl_pass *s, fl_span token, int first) {
  const char *p = token.at, *end = p + token.n;
  while (p < end) {
    const char *mark = s->with.n ? memmem(p, (size_t)(end - p), s->with.at, s->with.n) : NULL;
    fl_text_add(&d->out->text, p, (size_t)((mark ? mark : end) - p));
    if (mark && !(first && s->on[0] != FL_NEVER)) fl_text_add(&d->out->text, " ", 1);
    p = mark ? mark + s->with.n : end;
  }
}

static void strip(decoder *d, const fl_pass *s, fl_span token) {
  const fl_span w = s->text;
  for (int64_t k = 0; k < s->count[0] && token.n >= w.n && memcmp(token.at, w.at, w.n) == 0; k++) {
    token.at += w.n;
    token.n -= w.n;
  }
  for (int64_t k = 0; k < s->count[1] && token.n >= w.n &&
       memcmp(token.at + token.n - w.n, w.at, w.n) == 0; k++) token.n -= w.n;
  fl_text_add(&d->out->text, token.at, token.n);
}

/* Replaces the suffix of a word with a space, except at the end of the text. */
static void suffix(decoder *d, const fl_pass *s, fl_span token, int last) {
  const char *p = token.at, *end = p + token.n;
  while (p < end) {
    const char *mark = s->text.n ? memmem(p, (size_t)(end - p), s->text.at, s->text.n) : NULL;
    fl_text_add(&d->out->text, p, (size_t)((mark ? mark : end) - p));
    if (mark && !last) fl_text_add(&d->out->text, " ", 1);
    p = mark ? mark + s->text.n : end;
  }
}

static flame_status each(decoder *d, fl_pass *s) {
  for (int64_t i = 0; i < d->in->ends.n; i++) {
    fl_span token = at(d->in, i);
    switch ((fl_pass_kind)s->kind) {
      case FL_PASS_WORDPIECE: wordpiece(d, s, token, i == 0); break;
      case FL_PASS_METASPACE: metaspace(d, s, token, i == 0); break;
      case FL_PASS_STRIP: strip(d, s, token); break;
      case FL_PASS_SUFFIX: suffix(d, s, token, i == d->in->ends.n - 1); break;
      default:                                     /* FL_PASS_REPLACE */
        fl_tok_empty(&s->out);
        /* a raw text can contain bytes that no pattern matches */
        if (fl_utf8_is_valid(token.at, token.n) && fl_pass_replace(d->t, s, &token) != FLAME_OK)
          return d->t->c->err.code;
        fl_text_add(&d->out->text, token.at, token.n);
    }
    end_one(d, d->out);
    if (d->out->text.failed) return fl_tok_no_memory(d->t->c);
  }
  return FLAME_OK;
}

static flame_status pass(decoder *d, fl_pass *s) {
  d->out->text.n = 0;
  d->out->ends.n = 0;
  flame_status e = FLAME_OK;
  if (s->kind == FL_PASS_BYTE_LEVEL) byte_level(d);
  else if (s->kind == FL_PASS_FALLBACK) fallback(d);
  else if (s->kind == FL_PASS_FUSE) {
    fl_text_add(&d->out->text, d->in->text.at, d->in->text.n);
    end_one(d, d->out);
  } else e = each(d, s);
  list *l = d->in;
  d->in = d->out;
  d->out = l;
  return e != FLAME_OK ? e : d->in->text.failed ? fl_tok_no_memory(d->t->c) : FLAME_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */
static flame_status tokens(decoder *d, const int64_t *ids, int64_t n, int skip_special) {
  for (int64_t i = 0; i < n; i++) {
    fl_span text;
    int special;
    if (!fl_tokenizer_token(d->t, ids[i], &text, &special))
      return FL_FAIL(d->t->c, FLAME_BAD_ARGUMENT, "decode",
                     "id %lld at position %lld, need a token's: 0 to %lld", (long long)ids[i],
                     (long long)i + 1, (long long)fl_tokenizer_top(d->t) - 1);
    if (special && skip_special) continue;
    if (!d->t->decodes && d->in->ends.n) fl_text_add(&d->in->text, " ", 1);
    fl_text_add(&d->in->text, text.at, text.n);
    end_one(d, d->in);
  }
  return d->in->text.failed ? fl_tok_no_memory(d->t->c) : FLAME_OK;
}

flame_status fl_tokenizer_decode(fl_tokenizer *t, const int64_t *ids, int64_t n, int skip_special,
                                 int raw, fl_text *out) {
  list lists[2];
  decoder d = { t, &t->c->mem, &lists[0], &lists[1], raw };
  memset(lists, 0, sizeof lists);
  for (int k = 0; k < 2; k++) fl_text_init(&lists[k].text, d.mem);
  flame_status e = tokens(&d, ids, n, skip_special);
  fl_tok_bound(t, d.in->text.n);
  for (int64_t i = 0; e == FLAME_OK && i < t->decode.n; i++) {
    e = pass(&d, &t->decode.at[i]);
    if (e == FLAME_OK) e = fl_tok_poll(t->c);
  }
  if (e == FLAME_OK) fl_text_add(out, d.in->text.at, d.in->text.n);
  for (int k = 0; k < 2; k++) {
    fl_text_free(&lists[k].text);
    FL_DROP(d.mem, &lists[k].ends);
  }
  return e == FLAME_OK && out->failed ? fl_tok_no_memory(t->c) : e;
}
