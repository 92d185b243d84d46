/* Normalisers: each makes a new text from a text, in a separate buffer. */
#include "text/parts.h"

enum { POLL = 1 << 16 };                         /* bytes between two tests for an interrupt */
typedef void (*on_char)(fl_pass *s, uint32_t c);

/* Applies f, which adds to s->out, to each character of a text. */
static flame_status each(fl_tokenizer *t, fl_pass *s, fl_span text, on_char f) {
  const size_t before = s->out.n;
  const char *polled = text.at;
  for (const char *p = text.at, *end = p + text.n; p < end;) {
    int k;
    f(s, fl_utf8_get(p, &k));
    if (p == text.at && s->out.n == before) s->gone = 1;
    p += k;
    if (p - polled < POLL) continue;
    if (fl_tok_poll(t->c) != FLAME_OK) return t->c->err.code;
    polled = p;
  }
  return FLAME_OK;
}

/* Does p begin with a character that does not compose with one before it? ASCII and U+4000 to
** U+9FFF are such. */
static int begins_apart(const char *p) {
  const unsigned char b = (unsigned char)*p;
  return b < 0x80 || (b >= 0xE4 && b <= 0xE9);
}

/* Converts to a normal form, in stretches that do not depend on each other. */
static flame_status normal(fl_tokenizer *t, fl_text *out, fl_span text, fl_uc_form form) {
  const char *p = text.at, *end = p + text.n;
  while (p < end) {
    const char *stop = end - p > POLL ? p + POLL : end;
    while (stop < end && !begins_apart(stop)) stop++;
    fl_uc_normal(out, p, (size_t)(stop - p), form);
    if (fl_tok_poll(t->c) != FLAME_OK) return t->c->err.code;
    p = stop;
  }
  return FLAME_OK;
}

static void lower(fl_pass *s, uint32_t c) { fl_uc_lower(&s->out, c); }
static void unaccent(fl_pass *s, uint32_t c) {
  if (c < 0x80 || !fl_uc_was(c, FL_UC_MARK, 9)) fl_utf8_add(&s->out, c);
}

/* sentencepiece's "nmt": control characters are left out, other blanks become spaces. */
static void nmt(fl_pass *s, uint32_t c) {
  const int control = (c > 0 && c < 9) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F;
  if (control || c == 0x8F || c == 0x9F) return;
  const int blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                    (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                    c == 0xFEFF || c == 0xFFFD;
  fl_utf8_add(&s->out, blank ? ' ' : c);
}

/* ---- BERT ------------------------------------------------------------------------------------ */
static int chinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

static void clean(fl_pass *s, uint32_t c) {
  if ((s->flags & FL_CLEAN) && c != '\t' && c != '\n' && c != '\r') {
    if (c == 0 || c == FL_UC_REPLACEMENT || ((c < 32 || c >= 127) && fl_uc_was(c, FL_UC_OTHER, 8)))
      return;
  }
  if ((s->flags & FL_CLEAN) && fl_uc_space(c)) c = ' ';
  const int apart = (s->flags & FL_CHINESE) && c >= 0x3400 && chinese(c);
  if (apart) fl_text_add(&s->out, " ", 1);
  fl_utf8_add(&s->out, c);
  if (apart) fl_text_add(&s->out, " ", 1);
}

static void not_spacing(fl_pass *s, uint32_t c) {
  if (c < 0x80 || !fl_uc_was(c, FL_UC_NONSPACING, 8)) fl_utf8_add(&s->out, c);
}

/* Moves the output to 'work', as the input of another part. */
static fl_span again(fl_pass *s, fl_text *work) {
  const fl_text out = s->out;
  s->out = *work;
  s->out.n = 0;
  s->out.failed |= out.failed;
  *work = out;
  return (fl_span){ work->at, work->n };
}

static flame_status bert(fl_tokenizer *t, fl_pass *s, fl_span text) {
  fl_text work;
  fl_text_init(&work, s->out.mem);
  flame_status e = each(t, s, text, clean);
  if (e == FLAME_OK && (s->flags & FL_ACCENTS)) {
    const fl_span cleaned = again(s, &work);
    e = normal(t, &s->out, cleaned, FL_NFD);
    const fl_span apart = again(s, &work);
    if (e == FLAME_OK) e = each(t, s, apart, not_spacing);
  }
  if (e == FLAME_OK && (s->flags & FL_LOWER)) e = each(t, s, again(s, &work), lower);
  fl_text_free(&work);
  return e;
}

/* ---- Precompiled: sentencepiece's map, a double array ---------------------------------------- */
static uint32_t unit_of(const fl_pass *s, size_t i) {
  uint32_t u = 0xFF;                             /* not the label of any byte */
  if (i < (size_t)s->nunits) memcpy(&u, s->units + 4 * i, 4);
  return u;
}

/* The text to which the map sends the shortest of its keys that begins p; if there is none, a span
** at NULL. */
static fl_span mapped(const fl_pass *s, const char *p, size_t n) {
  uint32_t u = unit_of(s, 0);
  size_t node = (size_t)(u >> 10) << ((u & 1u << 9) >> 6);
  for (size_t i = 0; i < n && p[i]; i++) {
    node ^= (unsigned char)p[i];
    u = unit_of(s, node);
    if ((u & (1u << 31 | 0xFF)) != (unsigned char)p[i]) break;
    node ^= (size_t)(u >> 10) << ((u & 1u << 9) >> 6);
    if (!(u >> 8 & 1)) continue;
    const size_t at = unit_of(s, node) & 0x7FFFFFFF;
    if (at >= s->texts.n || fl_utf8_goes_on(s->texts.at + at)) break;
    return (fl_span){ s->texts.at + at, strnlen(s->texts.at + at, s->texts.n - at) };
  }
  return (fl_span){ NULL, 0 };
}

static void map_or_keep(fl_pass *s, const char *p, size_t n) {
  const fl_span to = mapped(s, p, n);
  fl_text_add(&s->out, to.at ? to.at : p, to.at ? to.n : n);
}

/* A grapheme of fewer than six bytes is mapped as a whole if the map has it. */
static flame_status precompiled(fl_tokenizer *t, fl_pass *s, fl_span text) {
  const char *end = text.at + text.n;
  for (const char *p = text.at; p < end;) {
    int k, next;
    const uint32_t c = fl_utf8_get(p, &k);
    const char *q = p + k;
    const int control = c < 32 || c == 127 ||
                        (c >= 0x80 && c != 0x200D && fl_uc_is(c, FL_UC_OTHER));
    if (c == '\r' && q < end && *q == '\n') q++;
    while (!control && q < end && fl_uc_extends(fl_utf8_get(q, &next))) q += next;
    if (q - p > k && q - p < 6 && mapped(s, p, (size_t)(q - p)).at) {
      map_or_keep(s, p, (size_t)(q - p));
    } else {
      for (; p < q; p += k) {
        (void)fl_utf8_get(p, &k);
        map_or_keep(s, p, (size_t)k);
      }
    }
    p = q;
    if (fl_tok_wrote(t, &s->out) != FLAME_OK || fl_tok_poll(t->c) != FLAME_OK)
      return t->c->err.code;
  }
  return FLAME_OK;
}

/* ---- the rest -------------------------------------------------------------------------------- */
static fl_span stripped(const fl_pass *s, fl_span t) {
  const char *p = t.at, *end = p + t.n;
  int k;
  while (s->on[0] && p < end && fl_uc_space(fl_utf8_get(p, &k))) p += k;
  while (s->on[1] && end > p) {
    const char *q = end - 1;
    while (fl_utf8_goes_on(q)) q--;
    if (!fl_uc_space(fl_utf8_get(q, &k))) break;
    end = q;
  }
  return (fl_span){ p, (size_t)(end - p) };
}

flame_status fl_pass_replace(fl_tokenizer *t, fl_pass *s, fl_span *text) {
  const char *from = text->at, *end = from + text->n, *first, *last;
  int found, any = 0;
  for (const char *look = from; (found = fl_pass_find(t, s, *text, look, &first, &last)) > 0;) {
    fl_text_add(&s->out, from, (size_t)(first - from));
    fl_text_add(&s->out, s->with.at, s->with.n);
    if (!any && first == from && last > first && s->with.n == 0) s->gone = 1;
    look = from = last;
    any = 1;
    if (fl_tok_wrote(t, &s->out) != FLAME_OK || fl_tok_poll(t->c) != FLAME_OK)
      return t->c->err.code;
    if (first == last) {
      if (last >= end) break;
      do look++; while (look < end && fl_utf8_goes_on(look));
    }
  }
  if (found < 0) return t->c->err.code;
  if (!any) return FLAME_OK;
  fl_text_add(&s->out, from, (size_t)(end - from));
  if (s->out.failed) return fl_tok_no_memory(t->c);
  *text = (fl_span){ s->out.at ? s->out.at : "", s->out.n };
  return FLAME_OK;
}

static int is_ascii(fl_span t) {
  for (size_t i = 0; i < t.n; i++) if ((unsigned char)t.at[i] >= 0x80) return 0;
  return 1;
}

static flame_status write_out(fl_tokenizer *t, fl_pass *s, fl_span text) {
  switch ((fl_pass_kind)s->kind) {
    case FL_PASS_NFD: return normal(t, &s->out, text, FL_NFD);
    case FL_PASS_NFC: return normal(t, &s->out, text, FL_NFC);
    case FL_PASS_NFKD: return normal(t, &s->out, text, FL_NFKD);
    case FL_PASS_NFKC: return normal(t, &s->out, text, FL_NFKC);
    case FL_PASS_LOWERCASE: return each(t, s, text, lower);
    case FL_PASS_STRIP_ACCENTS: return each(t, s, text, unaccent);
    case FL_PASS_NMT: return each(t, s, text, nmt);
    case FL_PASS_BERT: return bert(t, s, text);
    case FL_PASS_PRECOMPILED: return precompiled(t, s, text);
    case FL_PASS_BYTES: fl_bytes_spell(&s->out, text); return FLAME_OK;
    default:                                     /* FL_PASS_PREPEND */
      if (text.n) fl_text_add(&s->out, s->with.at, s->with.n);
      fl_text_add(&s->out, text.at, text.n);
      return FLAME_OK;
  }
}

/* Applies one normaliser: *text becomes the new text. */
static flame_status one(fl_tokenizer *t, fl_pass *s, fl_span *text) {
  const int forms = s->kind <= FL_PASS_NFKC || s->kind == FL_PASS_STRIP_ACCENTS;
  s->gone = 0;
  if (forms && is_ascii(*text)) return FLAME_OK;
  fl_tok_empty(&s->out);
  if (s->kind == FL_PASS_STRIP) {
    const fl_span rest = stripped(s, *text);
    s->gone = rest.at != text->at;
    *text = rest;
    return FLAME_OK;
  }
  if (s->kind == FL_PASS_REPLACE) return fl_pass_replace(t, s, text);
  flame_status e = write_out(t, s, *text);
  if (e == FLAME_OK) e = fl_tok_wrote(t, &s->out);
  if (e != FLAME_OK) return e;
  *text = (fl_span){ s->out.at ? s->out.at : "", s->out.n };
  return FLAME_OK;
}

flame_status fl_tok_normalise(fl_tokenizer *t, fl_span *text) {
  t->gone = 0;
  for (int64_t i = 0; i < t->normalise.n; i++) {
    flame_status e = one(t, &t->normalise.at[i], text);
    t->gone |= t->normalise.at[i].gone;
    if (e == FLAME_OK) e = fl_tok_poll(t->c);
    if (e != FLAME_OK) return e;
  }
  return FLAME_OK;
}
