/*
** From a pattern to a program. The parser appends code, and moves it when a split must be inserted
** before it; branches of an alternative and bodies of repetitions are copied or shifted as whole
** spans, whose jumps are relative to their beginning until fl_regex_open is done (so a span may be
** moved and copied freely): 'a' and 'b' of jumps are distances from the instruction itself.
*/
#include "text/regex.h"
#include "text/unicode.h"
#include <string.h>

enum { DEPTH = 50, MOST_CODE = 5000, MOST_COUNT = 1000 };
typedef struct parser {
  fl_regex *r;
  const char *start, *at, *end;
  int icase, depth;
} parser;
/* A span of code from 'from' to the end of the code so far. set: 1 + number of the set, if it is
** one character of a set, else 0; empty: it can match the empty text; first: bytes with which
** another match can begin. */
typedef struct part { int32_t from; int set; int empty; uint64_t first[4]; } part;

static int refuse(parser *p, const char *at, const char *what) {
  if (!p->r->wrong) {
    p->r->wrong = what;
    p->r->offset = (size_t)(at - p->start);
  }
  return 0;
}
static int lost(parser *p) { p->r->failed = 1; return refuse(p, p->at, "no host memory"); }
static int more(const parser *p) { return p->at < p->end; }
static int at_quantifier(const parser *p) {
  return more(p) && (*p->at == '*' || *p->at == '+' || *p->at == '?');
}
static int comes(parser *p, const char *text) {
  const size_t n = strlen(text);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n) != 0) return 0;
  p->at += n;
  return 1;
}

/* ---- code ------------------------------------------------------------------------------------ */
static fl_regex_code *emit(parser *p, int op) {
  if (p->r->code.n >= MOST_CODE) return refuse(p, p->at, "the pattern is too long"), NULL;
  fl_regex_code *i = FL_PUSH(p->r->mem, &p->r->code);
  if (!i) return lost(p), NULL;
  *i = (fl_regex_code){ .op = (uint8_t)op };
  return i;
}

/* A new instruction at 'place', before what is there. */
static fl_regex_code *insert(parser *p, int32_t place, int op) {
  if (!emit(p, op)) return NULL;
  fl_regex_code *at = p->r->code.at + place, new = p->r->code.at[p->r->code.n - 1];
  memmove(at + 1, at, (size_t)(p->r->code.n - 1 - place) * sizeof *at);
  *at = new;
  return at;
}

static void unite(uint64_t to[4], const uint64_t from[4]) {
  for (int i = 0; i < 4; i++) to[i] |= from[i];
}

static void any_byte(uint64_t first[4]) { memset(first, 0xFF, 4 * sizeof *first); }

/* Makes an instruction of a set, and takes ownership of it. */
static int emit_set(parser *p, fl_set *s, part *out) {
  fl_set *to = NULL;
  fl_set_tidy(s);
  if (p->icase && !fl_set_fold(p->r->mem, s)) goto out;
  if (!fl_set_finish(p->r->mem, s)) goto out;
  to = FL_PUSH(p->r->mem, &p->r->sets);
out:
  if (!to) {
    fl_set_drop(p->r->mem, s);
    return lost(p);
  }
  *to = *s;
  for (uint32_t c = 0; c < 0x80; c++) out->first[c >> 6] |= (uint64_t)fl_set_has(to, c) << (c & 63);
  if (to->ranges.n && to->ranges.at[to->ranges.n - 1].last >= 0x80)
    out->first[2] = out->first[3] = ~UINT64_C(0);
  out->set = (int)p->r->sets.n;
  fl_regex_code *i = emit(p, FL_RX_SET);
  if (i) i->a = out->set - 1;
  return i != NULL;
}

/* ---- characters and classes ------------------------------------------------------------------ */
static int hex(parser *p, int least, int most, uint32_t *v) {
  const char *from = p->at;
  for (*v = 0; more(p) && p->at - from < most; p->at++) {
    const char h = *p->at;
    const int d = h >= '0' && h <= '9' ? h - '0' : (h | 32) >= 'a' && (h | 32) <= 'f' ?
                  (h | 32) - 'a' + 10 : -1;
    if (d < 0) break;
    *v = *v << 4 | (uint32_t)d;
  }
  return p->at - from >= least;
}

/* Reads the code point after \x or \u. */
static int escaped_number(parser *p, const char *from, int letter, uint32_t *c) {
  int ok;
  if (letter == 'x' && comes(p, "{")) ok = hex(p, 1, 8, c) && comes(p, "}");
  else if (letter == 'x') ok = hex(p, 1, 2, c) && *c < 0x80;
  else ok = hex(p, 4, 4, c);
  if (!ok || *c >= FL_UC_TOP || (*c >= 0xD800 && *c < 0xE000))
    return refuse(p, from, "no such character");
  return 1;
}

/* Reads what follows "\". 1: a character, in *c; 2: a set, in s. */
static int escape(parser *p, fl_set *s, uint32_t *c) {
  static const char letters[] = "tnrfvae", values[] = "\t\n\r\f\v\a\033";
  const char *from = p->at - 1;
  if (!more(p)) return refuse(p, from, "a backslash at the end");
  int k;
  *c = fl_utf8_get(p->at, &k);
  p->at += k;
  const char *l = *c && *c < 0x80 ? strchr(letters, (int)*c) : NULL;
  if (l) return *c = (uint32_t)values[l - letters], 1;
  if (*c == 'x' || *c == 'u') return escaped_number(p, from, (int)*c, c);
  if (*c == 'p' || *c == 'P') {
    int not = *c == 'P';
    if (!comes(p, "{")) return refuse(p, from, "a property without braces");
    if (comes(p, "^")) not = !not;
    if (!comes(p, "Script=")) (void)comes(p, "sc=");
    const char *name = p->at;
    while (more(p) && *p->at != '}') p->at++;
    const int found = fl_set_named(p->r->mem, s, name, (size_t)(p->at - name));
    if (found < 0 || !comes(p, "}")) return refuse(p, from, "no such property");
    return found && (!not || fl_set_invert(p->r->mem, s)) ? 2 : lost(p);
  }
  const int found = *c < 0x80 ? fl_set_escape(p->r->mem, s, (char)*c) : -1;
  if (found >= 0) return found ? 2 : lost(p);
  if (*c < 0x80 && ((*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z')))
    return refuse(p, from, "an escape that is not supported");
  return 1;
}

static int class_body(parser *p, fl_set *s);

/* Adds a member of a class to s: a character, a range, an escape or a class. */
static int class_member(parser *p, fl_set *s) {
  const char *from = p->at;
  fl_set inner = { 0 };
  uint32_t c, last;
  int k, kind = 1;
  if (comes(p, "[:")) return refuse(p, from, "a POSIX bracket; write \\p{…}");
  if (comes(p, "[")) {
    kind = class_body(p, &inner) ? 2 : 0;
  } else if (comes(p, "\\")) {
    kind = escape(p, &inner, &c);
  } else {
    c = fl_utf8_get(p->at, &k);
    p->at += k;
  }
  int ok = kind != 0;
  if (ok && kind == 2) ok = fl_set_add_all(p->r->mem, s, &inner) || lost(p);
  fl_set_drop(p->r->mem, &inner);
  if (!ok || kind == 2) return ok;
  last = c;
  if (p->end - p->at > 1 && *p->at == '-' && p->at[1] != ']') {
    p->at++;
    if (comes(p, "\\")) {
      if (escape(p, &inner, &last) != 1) {
        fl_set_drop(p->r->mem, &inner);
        return refuse(p, from, "a range that does not end with a character");
      }
    } else {
      last = fl_utf8_get(p->at, &k);
      p->at += k;
    }
    if (last < c) return refuse(p, from, "a range whose end is before its beginning");
  }
  return fl_set_add(p->r->mem, s, c, last) || lost(p);
}

/* Reads the rest of a class after "[", including the "]". */
static int class_body(parser *p, fl_set *s) {
  const char *from = p->at;
  const int not = comes(p, "^");
  fl_set met = { 0 };                    /* what is before && */
  int ok = ++p->depth <= DEPTH || refuse(p, from, "nested too deep"), meets = 0, first = 1;
  while (ok) {
    const int closes = !first && more(p) && *p->at == ']';
    if (!more(p)) {
      ok = refuse(p, from, "a class that does not end");
    } else if (closes || comes(p, "&&")) {
      p->at += closes;
      fl_set_tidy(s);
      ok = !meets || fl_set_meet(p->r->mem, s, &met);
      ok = ok || lost(p);
      if (closes) break;
      fl_set_drop(p->r->mem, &met);
      met = *s;
      *s = (fl_set){ 0 };
      meets = 1;
    } else {
      ok = class_member(p, s);
    }
    first = 0;
  }
  fl_set_drop(p->r->mem, &met);
  p->depth--;
  if (!ok) return 0;
  if (p->icase && !fl_set_fold(p->r->mem, s)) return lost(p);
  return !not || fl_set_invert(p->r->mem, s) || lost(p);
}

/* ---- repetitions ----------------------------------------------------------------------------- */
static int copy(parser *p, int32_t from, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    fl_regex_code *i = emit(p, FL_RX_MATCH);
    if (!i) return 0;
    *i = p->r->code.at[from + k];
  }
  return 1;
}

/* Sets the targets of split i, which makes the next 'over' instructions optional; a lazy split
** tries without them first. */
static void set_split(fl_regex_code *i, const part *body, int lazy, int32_t over) {
  i->a = lazy ? over + 1 : 1;
  i->b = lazy ? 1 : over + 1;
  i->empty = (uint8_t)(lazy || body->empty);
  if (i->empty) any_byte(i->first);
  else memcpy(i->first, body->first, sizeof i->first);
}

/* Repeats the span: required copies, then a loop or optional copies. */
static int repeat_span(parser *p, const part *body, int32_t min, int32_t max, int lazy) {
  const int32_t from = body->from, n = (int32_t)p->r->code.n - from;
  const int32_t may = max < 0 ? 1 : max - min;
  int32_t source = from;
  for (int32_t k = 1; k < min; k++) if (!copy(p, from, n)) return 0;
  for (int32_t k = 0; k < may; k++) {
    const int32_t over = max < 0 ? n + 1 : (may - k) * (n + 1) - 1;
    fl_regex_code *i = k == 0 && min == 0 ? insert(p, from, FL_RX_SPLIT) : emit(p, FL_RX_SPLIT);
    if (!i) return 0;
    set_split(i, body, lazy, over);
    if (k == 0 && min == 0) source = from + 1;
    else if (!copy(p, source, n)) return 0;
  }
  if (max >= 0) return 1;
  fl_regex_code *i = emit(p, FL_RX_JUMP);
  if (i) i->a = -(n + 1);
  return i != NULL;
}

static int repeat(parser *p, const char *from, part *body, int32_t min, int32_t max, int mode) {
  fl_regex_code *only = &p->r->code.at[p->r->code.n - 1];
  if (max == 0) {
    p->r->code.n = body->from;
    memset(body->first, 0, sizeof body->first);
    body->empty = 1;
    return 1;
  }
  if (body->set && mode != '?') {
    *only = (fl_regex_code){ .op = FL_RX_RUN, .mode = (uint8_t)mode, .a = body->set - 1,
                             .min = min, .max = max };
  } else if (mode == '+') {
    return refuse(p, from, "a possessive quantifier of a group");
  } else if (body->empty) {
    return refuse(p, from, "a repetition of what can match nothing");
  } else if (!repeat_span(p, body, min, max, mode == '?')) {
    return 0;
  }
  if (min == 0) body->empty = 1;
  body->set = 0;
  return 1;
}

/* "{n}", "{n,}", "{,m}" or "{n,m}": 1; anything else is a literal: 0; refused: -1. */
static int counts(parser *p, int32_t *min, int32_t *max) {
  const char *from = p->at++;
  int32_t v[2] = { 0, -1 };
  int digits[2] = { 0, 0 }, k = 0;
  for (; more(p) && *p->at != '}'; p->at++) {
    if (*p->at == ',' && k == 0) {
      k = 1;
    } else if (*p->at >= '0' && *p->at <= '9') {
      v[k] = (digits[k]++ ? v[k] * 10 : 0) + (*p->at - '0');
      if (v[k] > MOST_COUNT) return refuse(p, from, "a count above 1000"), -1;
    } else break;
  }
  if (!comes(p, "}") || !(digits[0] || digits[1])) return p->at = from, 0;
  *min = v[0];
  *max = k == 0 ? v[0] : v[1];
  if (*max >= 0 && *max < *min)
    return refuse(p, from, "a count whose end is before its beginning"), -1;
  if (more(p) && (*p->at == '+' || (*p->at == '?' && k == 0)))
    return refuse(p, p->at, "a quantifier that is not supported here"), -1;
  return 1;
}

static int quantifier(parser *p, part *body) {
  const char *from = p->at;
  int32_t min = 0, max = -1;
  int found = 1;
  if (comes(p, "*")) min = 0;
  else if (comes(p, "+")) min = 1;
  else if (comes(p, "?")) max = 1;
  else found = more(p) && *p->at == '{' ? counts(p, &min, &max) : 0;
  if (found <= 0) return found == 0;
  const int mode = comes(p, "?") ? '?' : comes(p, "+") ? '+' : '*';
  if (p->r->code.n == body->from) return refuse(p, from, "a quantifier without what it repeats");
  if (!repeat(p, from, body, min, max, mode)) return 0;
  if (at_quantifier(p)) return refuse(p, p->at, "a quantifier of a quantifier");
  return 1;
}

/* ---- groups and alternatives ----------------------------------------------------------------- */
static int alternatives(parser *p, part *out);

/* Reads flags after "(?" up to ":" or ")". 1: they hold for the group that follows; 2: for the rest
** of this group. */
static int flags(parser *p, const char *from) {
  int on = 1;
  for (; more(p); p->at++) {
    if (*p->at == '-') on = 0;
    else if (*p->at == 'i') p->icase = on;
    else break;
  }
  if (comes(p, ":")) return 1;
  return comes(p, ")") ? 2 : refuse(p, from, "a group of a kind that is not supported");
}

static int group(parser *p, const char *from, part *out) {
  const int icase = p->icase;
  const int32_t ahead = (int32_t)p->r->code.n;
  int looks = 0;
  if (++p->depth > DEPTH) return refuse(p, from, "nested too deep");
  if (comes(p, "?=")) looks = FL_RX_AHEAD;
  else if (comes(p, "?!")) looks = FL_RX_NOT_AHEAD;
  else if (comes(p, "?")) {
    const int kind = flags(p, from);
    if (kind == 2) out->empty = 1;
    if (kind != 1) return p->depth--, kind;
  }
  if (looks && !emit(p, looks)) return 0;
  if (!alternatives(p, out)) return 0;
  if (!comes(p, ")")) return refuse(p, from, "a group that does not end");
  if (looks) {
    if (!emit(p, FL_RX_MATCH)) return 0;
    p->r->code.at[ahead].a = (int32_t)p->r->code.n - ahead;
    *out = (part){ .from = ahead, .empty = 1 };
  }
  out->set = 0;
  p->icase = icase;
  p->depth--;
  return 1;
}

static int anchor(parser *p, part *out) {
  const int op = comes(p, "^") ? FL_RX_LINE : comes(p, "$") ? FL_RX_LINE_END
                 : comes(p, "\\A") ? FL_RX_BEGIN : comes(p, "\\z") ? FL_RX_END : 0;
  out->empty = op != 0;
  return op == 0 ? 0 : emit(p, op) ? 1 : -1;
}

static int atom(parser *p, part *out) {
  const char *from = p->at;
  fl_set s = { 0 };
  uint32_t c = 0;
  int k;
  *out = (part){ .from = (int32_t)p->r->code.n };
  const int anchored = anchor(p, out);
  if (anchored) return anchored > 0;
  if (comes(p, "(")) return group(p, from, out);
  int kind = 1;
  if (comes(p, "[")) {
    kind = class_body(p, &s) ? 2 : 0;
  } else if (comes(p, "\\")) {
    kind = escape(p, &s, &c);
    if (kind == 2 && (c | 32) == 'w')
      kind = fl_set_latin_numbers(p->r->mem, &s, c == 'W') ? 2 : lost(p);
  } else if (comes(p, ".")) {
    kind = fl_set_add(p->r->mem, &s, 0, 9) && fl_set_add(p->r->mem, &s, 11, FL_UC_TOP - 1) ? 2 :
           lost(p);
  } else if (at_quantifier(p)) {
    kind = refuse(p, from, "a quantifier without what it repeats");
  } else {
    c = fl_utf8_get(p->at, &k);
    p->at += k;
  }
  if (kind == 1 && p->icase && c >= 0x80)
    kind = refuse(p, from, "(?i) of a character that is not ASCII");
  if (kind == 1 && !fl_set_add(p->r->mem, &s, c, c)) kind = lost(p);
  if (kind) return emit_set(p, &s, out);
  fl_set_drop(p->r->mem, &s);
  return 0;
}

static int sequence(parser *p, part *out) {
  *out = (part){ .from = (int32_t)p->r->code.n, .empty = 1 };
  while (more(p) && *p->at != '|' && *p->at != ')') {
    part one;
    if (!atom(p, &one) || !quantifier(p, &one)) return 0;
    if (out->empty) unite(out->first, one.first);
    out->empty = out->empty && one.empty;
  }
  return 1;
}

/* Each branch except the last has a split before it and a jump after it. */
static int alternatives(parser *p, part *out) {
  const int icase = p->icase;
  int32_t jumps = -1;
  part one;
  *out = (part){ .from = (int32_t)p->r->code.n };
  for (;;) {
    if (!sequence(p, &one)) return 0;
    unite(out->first, one.first);
    out->empty |= one.empty;
    if (!comes(p, "|")) break;
    fl_regex_code *i = insert(p, one.from, FL_RX_SPLIT);
    if (!i) return 0;
    set_split(i, &one, 0, (int32_t)p->r->code.n - one.from);
    if (!(i = emit(p, FL_RX_JUMP))) return 0;
    i->b = jumps;                                   /* linked as a list until their target is
                                                    ** known */
    jumps = (int32_t)p->r->code.n - 1;
  }
  while (jumps >= 0) {
    fl_regex_code *i = &p->r->code.at[jumps];
    i->a = (int32_t)p->r->code.n - jumps;
    jumps = i->b;
  }
  p->icase = icase;
  return 1;
}

int fl_regex_open(fl_regex *r, fl_mem *mem, const char *pattern, size_t n) {
  *r = (fl_regex){ .mem = mem };
  parser p = { .r = r, .start = pattern, .at = pattern, .end = pattern + n };
  part all;
  if (!alternatives(&p, &all)) return 0;
  if (more(&p)) return refuse(&p, p.at, "a closing bracket without its opening one");
  if (!emit(&p, FL_RX_MATCH)) return 0;
  memcpy(r->first, all.first, sizeof r->first);
  r->empty = all.empty;
  if (all.empty) any_byte(r->first);
  for (int32_t k = 0; k < r->code.n; k++) {
    fl_regex_code *i = &r->code.at[k];
    const int goes = i->op == FL_RX_SPLIT || i->op == FL_RX_JUMP || i->op == FL_RX_AHEAD ||
                     i->op == FL_RX_NOT_AHEAD;
    if (goes) i->a += k;
    if (i->op == FL_RX_SPLIT) i->b += k;
  }
  return 1;
}

void fl_regex_close(fl_regex *r) {
  if (!r->mem) return;
  for (int64_t i = 0; i < r->sets.n; i++) fl_set_drop(r->mem, &r->sets.at[i]);
  FL_DROP(r->mem, &r->sets);
  FL_DROP(r->mem, &r->code);
  FL_DROP(r->mem, &r->stack);
}
