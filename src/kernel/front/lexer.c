/*
** Characters to tokens. Never fails on text: characters that form no token become one of kind BAD,
** and the parser refuses the code that contains it.
*/
#include "kernel/front/lexer.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
  fl_karena *a;
  const char *at, *end;
  int32_t line;
  int first, glued;
} lexer;

static int is_digit(int c) { return c >= '0' && c <= '9'; }
static int is_start(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static int is_part(int c) { return is_start(c) || is_digit(c); }
static int ahead(const lexer *l, int k) { return l->end - l->at > k ? (unsigned char)l->at[k] : 0; }

/* The length of a line splice, a backslash and a newline; 0: there is none. */
static int splice(const lexer *l) {
  if (ahead(l, 0) != '\\') return 0;
  if (ahead(l, 1) == '\n') return 2;
  return ahead(l, 1) == '\r' && ahead(l, 2) == '\n' ? 3 : 0;
}

static void skip_comment(lexer *l, int block) {
  l->at += 2;
  while (l->at < l->end) {
    if (block && l->at[0] == '*' && ahead(l, 1) == '/') { l->at += 2; return; }
    if (!block && l->at[0] == '\n') return;
    if (!block && splice(l)) l->at += splice(l) - 1;
    if (l->at[0] == '\n') l->line++;
    l->at++;
  }
}

static void skip_space(lexer *l) {
  for (;; l->glued = 0) {
    const int c = ahead(l, 0);
    if (c == '\n') l->line++, l->at++, l->first = 1;
    else if (splice(l)) l->at += splice(l), l->line++;
    else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') l->at++;
    else if (c == '/' && ahead(l, 1) == '/') skip_comment(l, 0);
    else if (c == '/' && ahead(l, 1) == '*') skip_comment(l, 1);
    else return;
  }
}

static void bad(fl_ktok *t, const char *why) {
  t->kind = FL_TOK_BAD;
  t->text = why;
  t->n = (int32_t)strlen(why);
}

int fl_ktok_among(const fl_ktok *t, const char *const *names, int n) {
  for (int i = 0; i < n; i++)
    if (names[i] && fl_ktok_is(t, names[i])) return i;
  return -1;
}

/* Makes t the text from s to 'end', which is no number, as "4x4". ## may make a name of it. */
static void no_number(fl_ktok *t, const char *s, const char *end) {
  t->kind = FL_TOK_BAD;
  t->type = FL_BAD_NUMBER;
  t->text = s;
  t->n = (int32_t)(end - s);
}

/* ---- numbers ------------------------------------------------------------------------------ */

static int digit_value(int c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

/* The smallest of C's types for the value v, with suffix u or l: unsigned ones only for hex, octal,
** binary and suffix u, or where no signed one is wide enough. */
static int literal_type(uint64_t v, int decimal, int u, int l) {
  if (!l && !u && v <= INT32_MAX) return FL_KT_I32;
  if (!l && (u || !decimal) && v <= UINT32_MAX) return FL_KT_U32;
  if (!u && v <= INT64_MAX) return FL_KT_I64;
  return FL_KT_U64;
}

static void integer(fl_ktok *t, const char *s, const char *end) {
  const char *const first = s;
  int base = 10, u = 0, l = 0;
  uint64_t v = 0;
  if (s[0] == '0' && end - s > 1) {
    base = s[1] == 'x' || s[1] == 'X' ? 16 : s[1] == 'b' || s[1] == 'B' ? 2 : 8;
    s += base == 8 ? 1 : 2;
  }
  for (; s < end && (digit_value(*s) < base || *s == '\''); s++) {
    if (*s == '\'') continue;
    if (v > (UINT64_MAX - (uint64_t)digit_value(*s)) / (uint64_t)base) {
      bad(t, "integer literal does not fit in 64 bits");
      return;
    }
    v = v * (uint64_t)base + (uint64_t)digit_value(*s);
  }
  for (; s < end; s++) {
    if ((*s == 'u' || *s == 'U') && !u) u = 1;
    else if ((*s == 'l' || *s == 'L') && l < 2) l++;
    else { no_number(t, first, end); return; }
  }
  t->kind = FL_TOK_INT;
  t->type = (uint8_t)literal_type(v, base == 10, u, l);
  t->is_long = l < 2 && t->type >= FL_KT_I64;
  t->value.i = (int64_t)v;
}

static void floating(fl_ktok *t, const char *s, const char *end, int hex) {
  int is_f32 = 0;
  const char *stop = end;
  if (!hex || memchr(s, 'p', (size_t)(end - s)) || memchr(s, 'P', (size_t)(end - s))) {
    if (stop[-1] == 'f' || stop[-1] == 'F') is_f32 = 1, stop--;
    else if (stop[-1] == 'l' || stop[-1] == 'L') stop--;
  }
  /* fl_read_number is used so that the decimal point of the host program's locale does not change a
  ** kernel */
  if (!fl_read_number(s, (size_t)(stop - s), is_f32, &t->value.d)) {
    no_number(t, s, end);
    return;
  }
  t->kind = FL_TOK_FLOAT;
  t->type = is_f32 ? FL_KT_F32 : FL_KT_F64;
  t->bare = stop == end;
}

static void number(lexer *l, fl_ktok *t) {
  const char *s = l->at;
  const int hex = s[0] == '0' && (ahead(l, 1) == 'x' || ahead(l, 1) == 'X');
  int is_float = 0;
  while (l->at < l->end) {
    const int c = ahead(l, 0), next = ahead(l, 1);
    const int mark = hex ? c == 'p' || c == 'P' : c == 'e' || c == 'E';
    if (c == '.' || mark) is_float = 1;
    if (mark && (next == '+' || next == '-')) l->at++;
    else if (c == '\'' && is_part(next)) l->at++;
    else if (c != '.' && !is_part(c)) break;
    l->at++;
  }
  t->n = (int32_t)(l->at - s);
  if (!is_float && !hex && (l->at[-1] == 'f' || l->at[-1] == 'F')) no_number(t, s, l->at);
  else if (is_float) floating(t, s, l->at, hex);
  else integer(t, s, l->at);
}

/* ---- characters and strings ----------------------------------------------------------------- */

/* Reads one character of a literal at l->at, which may be an escape sequence; -1: there is none, or
** the escape sequence is unknown. */
static int escaped(lexer *l) {
  static const char from[] = "ntr0abfv\\'\"?", to[] = "\n\t\r\0\a\b\f\v\\'\"?";
  int c = ahead(l, 0);
  if (l->at >= l->end || c == '\n') return -1;
  l->at++;
  if (c != '\\') return c;
  c = ahead(l, 0);
  if (c == 'x') {
    int v = 0;
    for (l->at++; digit_value(ahead(l, 0)) < 16; l->at++) v = (16 * v + digit_value(*l->at)) & 255;
    return v;
  }
  if (is_digit(c) && c < '8') {
    int v = 0;
    for (int k = 0; k < 3 && digit_value(ahead(l, 0)) < 8; k++) v = 8 * v + *l->at++ - '0';
    return v & 255;
  }
  const char *p = c ? strchr(from, c) : NULL;
  if (!p) return -1;
  l->at++;
  return (unsigned char)to[p - from];
}

static void character(lexer *l, fl_ktok *t) {
  l->at++;
  const int c = escaped(l);
  t->kind = FL_TOK_CHAR;
  t->type = FL_KT_I8;
  t->value.i = (int8_t)c;
  if (c < 0 || ahead(l, 0) != '\'') bad(t, "malformed character literal");
  else l->at++;
}

/* Moves past the end of a string, or to the end of its line if it has none. */
static void skip_string(lexer *l) {
  for (; l->at < l->end && *l->at != '"' && *l->at != '\n'; l->at++) {
    if (splice(l)) l->at += splice(l) - 1, l->line++;
    else if (*l->at == '\\' && ahead(l, 1) && ahead(l, 1) != '\n') l->at++;
  }
  if (ahead(l, 0) == '"') l->at++;
}

static void string(lexer *l, fl_ktok *t) {
  const char *s = ++l->at;
  char *out = fl_karena_new(l->a, (size_t)(l->end - s) < 4096 ? (size_t)(l->end - s) + 1 : 4097);
  int32_t n = 0;
  t->kind = FL_TOK_STRING;
  while (ahead(l, 0) != '"') {
    if (splice(l)) { l->at += splice(l); l->line++; continue; }
    const int c = n < 4096 && out ? escaped(l) : -1;
    if (c < 0) { bad(t, "malformed string literal"); skip_string(l); return; }
    out[n++] = (char)c;
  }
  l->at++;
  t->text = out;
  t->n = n;
}

/* Reads R"x(...)x" at l->at if there is one, for the host alone: a BAD token. 0: there is none. */
static int raw_string(lexer *l, fl_ktok *t) {
  const char *open = l->at + 2, *at = open;
  if (ahead(l, 0) != 'R' || ahead(l, 1) != '"') return 0;
  while (at < l->end && at - open < 16 && *at != '(' && *at != '"' && *at != '\n') at++;
  const size_t n = (size_t)(at - open);
  if (at == l->end || *at != '(') return 0;
  while (at < l->end && !(*at == ')' && (size_t)(l->end - at) > n + 1 && at[n + 1] == '"' &&
                          !memcmp(at + 1, open, n))) {
    l->line += *at == '\n';
    at++;
  }
  l->at = at < l->end ? at + n + 2 : at;
  bad(t, "a raw string");
  return 1;
}

/* ---- punctuators ----------------------------------------------------------------------------- */

static const struct { const char *s; int16_t p; } long_ones[] = {
  { "%:%:", FL_PU_PASTE }, { "%:", '#' }, { "<%", '{' }, { "%>", '}' },      /* digraphs */
  { "<<<", FL_PU_LAUNCH }, { "<<=", FL_PU_SHL_SET }, { ">>=", FL_PU_SHR_SET },
  { "...", FL_PU_ELLIPSIS },
  { "<<", FL_PU_SHL }, { ">>", FL_PU_SHR }, { "<=", FL_PU_LE }, { ">=", FL_PU_GE },
  { "==", FL_PU_EQ },
  { "!=", FL_PU_NE }, { "&&", FL_PU_LAND }, { "||", FL_PU_LOR }, { "++", FL_PU_INC },
  { "--", FL_PU_DEC },
  { "->", FL_PU_ARROW }, { "::", FL_PU_SCOPE }, { "##", FL_PU_PASTE }, { "+=", FL_PU_ADD_SET },
  { "-=", FL_PU_SUB_SET }, { "*=", FL_PU_MUL_SET }, { "/=", FL_PU_DIV_SET },
  { "%=", FL_PU_REM_SET },
  { "&=", FL_PU_AND_SET }, { "|=", FL_PU_OR_SET }, { "^=", FL_PU_XOR_SET },
};

static void punctuator(lexer *l, fl_ktok *t) {
  t->kind = FL_TOK_PUNCT;
  for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++) {
    if (long_ones[i].s[0] != *l->at) continue;
    const size_t n = strlen(long_ones[i].s);
    if ((size_t)(l->end - l->at) >= n && !memcmp(l->at, long_ones[i].s, n)) {
      t->punct = long_ones[i].p;
      t->n = (int32_t)n;
      l->at += n;
      return;
    }
  }
  t->punct = (int16_t)ahead(l, 0);
  t->n = 1;
  if (!strchr("+-*/%&|^~!<>=?:;,.()[]{}#", t->punct))
    bad(t, "a character that CUDA C does not have here");
  l->at++;
}

/* The words "and", "or", "not" … are operators (but not "and_eq" …). */
static void spelled(fl_ktok *t) {
  static const struct { const char *word; int16_t p; } words[] = {
    { "and", FL_PU_LAND }, { "or", FL_PU_LOR }, { "not", '!' }, { "xor", '^' }, { "bitand", '&' },
    { "bitor", '|' }, { "compl", '~' }, { "not_eq", FL_PU_NE } };
  for (size_t i = 0; t->n < 7 && i < sizeof words / sizeof *words; i++)
    if (fl_ktok_is(t, words[i].word)) t->kind = FL_TOK_PUNCT, t->punct = words[i].p;
}

const char *fl_kfull(fl_karena *a, int64_t n, int64_t most, const char *what) {
  if (n < most) return NULL;
  const char *why = fl_karena_printf(a, "at most %lld %s", (long long)most, what);
  return why ? why : "too long a list";
}

static void token(lexer *l, fl_ktok *t) {
  memset(t, 0, sizeof *t);
  l->glued = 1;
  skip_space(l);
  t->first = (uint8_t)l->first;
  t->glued = (uint8_t)l->glued;
  l->first = 0;
  t->line = l->line;
  t->text = l->at;
  const int c = ahead(l, 0);
  if (l->at >= l->end || !c) return;                             /* END */
  if (is_digit(c) || (c == '.' && is_digit(ahead(l, 1)))) { number(l, t); return; }
  if (c == '\'') { character(l, t); return; }
  if (c == '"') { string(l, t); return; }
  if (!is_start(c)) { punctuator(l, t); return; }
  if (raw_string(l, t)) return;
  while (is_part(ahead(l, 0))) l->at++;
  t->kind = FL_TOK_NAME;
  t->n = (int32_t)(l->at - t->text);
  spelled(t);
}

int fl_klex(fl_karena *a, const char *text, size_t n, int32_t line, fl_ktoks *out) {
  const int mark = n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3);     /* the byte order mark */
  lexer l = { .a = a, .at = text + 3 * mark, .end = text + n, .line = line, .first = 1 };
  for (;;) {
    fl_ktok *t = FL_PUSH(a->mem, out);
    if (!t) return a->failed = 1, 0;
    token(&l, t);
    if (t->kind == FL_TOK_END) { t->first = 1; return !a->failed; }
  }
}
