/*
** Patterns: see lpattern.h. An item is the part of a pattern for one step of matching: a set of
** bytes with its repetition, the start or end of a capture, a position capture, %b, %f, %1, or the
** end of the subject. A set is 256 bits. Matching backtracks by recursion, which is as deep as
** there are captures and items with a choice, at most DEPTH.
*/
#include "lua/lpattern.h"
#include "lua/hook.h"
#include <assert.h>
#include <ctype.h>

enum { DEPTH = 200, LOOK_EACH = 1024, TESTS_A_STEP = 8 };     /* tests: bytes that are examined */

typedef enum kind { SET, OPEN, POSITION, CLOSE, BALANCE, FRONTIER, AGAIN, END } kind;

typedef struct item {
  uint8_t kind, often;              /* repetition: 0 once, or '*' '+' '-' '?' */
  uint8_t a, b;                     /* BALANCE: the two bytes; AGAIN: the index of a capture, from
                                    ** 0 */
  uint64_t set[4];
} item;

struct fl_lpattern { int anchored, n; item at[]; };

int fl_lpattern_anchored(const fl_lpattern *p) { return p->anchored; }

/* ---- reading --------------------------------------------------------------------------------- */

static void put(uint64_t set[4], int c) { set[c >> 6] |= UINT64_C(1) << (c & 63); }
static int has(const uint64_t set[4], int c) { return (int)(set[c >> 6] >> (c & 63) & 1); }

static int class_has(int c, int class) {
  switch (tolower(class)) {
    case 'a': return isalpha(c);
    case 'c': return iscntrl(c);
    case 'd': return isdigit(c);
    case 'g': return isgraph(c);
    case 'l': return islower(c);
    case 'p': return ispunct(c);
    case 's': return isspace(c);
    case 'u': return isupper(c);
    case 'w': return isalnum(c);
    case 'x': return isxdigit(c);
    default: return -1;                      /* no class: the byte itself */
  }
}

/* %x: a class, its complement for an upper-case letter, or the byte x. */
static void put_escaped(uint64_t set[4], int class) {
  if (class_has(0, class) < 0) {
    put(set, class);
    return;
  }
  for (int c = 0; c < 256; c++)
    if (!class_has(c, class) == (isupper(class) != 0)) put(set, c);
}

/* Reads what is between '[' and ']', and returns the address after it. A ']' directly after '[' is
** an ordinary byte. */
static const char *read_set(lua_State *L, const char *p, const char *end, uint64_t set[4]) {
  const int inverse = p < end && *p == '^';
  if (inverse) p++;
  for (const char *first = p; ; ) {
    if (p >= end) luaL_error(L, "malformed pattern (missing ']')");
    const int c = (unsigned char)*p;
    if (c == ']' && p > first) break;
    if (c == '%') {
      if (p + 1 >= end) luaL_error(L, "malformed pattern (missing ']')");
      put_escaped(set, (unsigned char)p[1]);
      p += 2;
    } else if (p + 2 < end && p[1] == '-' && p[2] != ']') {
      for (int k = c; k <= (unsigned char)p[2]; k++) put(set, k);
      p += 3;
    } else {
      put(set, c);
      p++;
    }
  }
  for (int k = 0; k < 4 && inverse; k++) set[k] = ~set[k];
  return p + 1;
}

/* The state of reading a pattern: open has the captures that are open at p. */
typedef struct reader { const char *p, *end; int captures, depth, open[FL_CAPTURES];
                        uint8_t closed[FL_CAPTURES]; } reader;

static void read_open(lua_State *L, reader *r, item *i) {
  const int position = r->p + 1 < r->end && r->p[1] == ')';
  if (r->captures >= FL_CAPTURES) {
    luaL_error(L, "too many captures");
    return;                 /* never reached: luaL_error does not return, but is not declared so */
  }
  i->kind = position ? POSITION : OPEN;
  r->closed[r->captures] = (uint8_t)position;
  if (!position) r->open[r->depth++] = r->captures;
  r->captures++;
  r->p += 1 + position;
}

static void read_close(lua_State *L, reader *r, item *i) {
  if (r->depth == 0) luaL_error(L, "invalid pattern capture");
  i->kind = CLOSE;
  i->a = (uint8_t)r->open[--r->depth];
  r->closed[i->a] = 1;
  r->p++;
}

/* Reads %b, %f or %1; 0: it is not one of them. */
static int read_special(lua_State *L, reader *r, item *i) {
  if (*r->p != '%' || r->p + 1 >= r->end) return 0;
  const int c = (unsigned char)r->p[1];
  if (c == 'b') {
    if (r->p + 3 >= r->end) luaL_error(L, "malformed pattern (missing arguments to '%%b')");
    i->kind = BALANCE;
    i->a = (uint8_t)r->p[2];
    i->b = (uint8_t)r->p[3];
    r->p += 4;
  } else if (c == 'f') {
    if (r->p + 2 >= r->end || r->p[2] != '[')
      luaL_error(L, "missing '[' after '%%f' in pattern");
    i->kind = FRONTIER;
    r->p = read_set(L, r->p + 3, r->end, i->set);
  } else if (isdigit(c)) {
    const int k = c - '1';
    if (k < 0 || k >= r->captures || !r->closed[k])
      luaL_error(L, "invalid capture index %%%d", k + 1);
    i->kind = AGAIN;
    i->a = (uint8_t)k;
    r->p += 2;
  } else {
    return 0;
  }
  return 1;
}

static void read_single(lua_State *L, reader *r, item *i) {
  const int c = (unsigned char)*r->p++;
  i->kind = SET;
  if (c == '.') memset(i->set, 0xff, sizeof i->set);
  else if (c == '[') r->p = read_set(L, r->p, r->end, i->set);
  else if (c == '%') {
    if (r->p >= r->end) luaL_error(L, "malformed pattern (ends with '%%')");
    put_escaped(i->set, (unsigned char)*r->p++);
  } else {
    put(i->set, c);
  }
  if (r->p < r->end && strchr("*+-?", *r->p) && *r->p) i->often = (uint8_t)*r->p++;
}

fl_lpattern *fl_lpattern_push(lua_State *L, int i, int may_anchor) {
  size_t n;
  const char *text = luaL_checklstring(L, i, &n);
  reader r = { .p = text, .end = text + n };
  fl_lpattern *p = (fl_lpattern *)lua_newuserdatauv(L, sizeof *p + n * sizeof(item), 0);
  *p = (fl_lpattern){ 0, 0 };
  if (may_anchor && n && *text == '^') p->anchored = 1, r.p++;
  while (r.p < r.end) {
    item *k = &p->at[p->n++];
    *k = (item){ 0 };
    if (*r.p == '(') read_open(L, &r, k);
    else if (*r.p == ')') read_close(L, &r, k);
    else if (*r.p == '$' && r.p + 1 == r.end) k->kind = END, r.p++;
    else if (!read_special(L, &r, k)) read_single(L, &r, k);
  }
  if (r.depth) luaL_error(L, "unfinished capture");
  return p;
}

/* ---- matching -------------------------------------------------------------------------------- */

typedef struct matcher {
  lua_State *L;
  fl_lua *b;
  const fl_lpattern *p;
  const char *s, *end;
  fl_match *m;
  int depth, tests;
} matcher;

/* Charges for n bytes that are examined. */
static void test(matcher *x, ptrdiff_t n) {
  x->tests += n < LOOK_EACH ? (int)n : LOOK_EACH;
  if (x->tests < LOOK_EACH) return;
  x->tests = 0;
  fl_hook_charge(x->L, x->b, LOOK_EACH / TESTS_A_STEP);
}

static const char *match(matcher *x, const item *i, const char *s);

static const char *deeper(matcher *x, const item *i, const char *s) {
  if (++x->depth > DEPTH) luaL_error(x->L, "pattern too complex");
  const char *e = match(x, i, s);
  x->depth--;
  return e;
}

static int fits(const matcher *x, const item *i, const char *s) {
  return s < x->end && has(i->set, (unsigned char)*s);
}

/* Matches as many times as possible, then fewer; at least 'least' times. */
static const char *most(matcher *x, const item *i, const char *s, int least) {
  const char *e = s;
  for (; fits(x, i, e); e++) test(x, 1);
  if (e - s < least) return NULL;
  if (i + 1 == x->p->at + x->p->n) return e;
  for (; ; e--) {
    test(x, 1);
    const char *whole = deeper(x, i + 1, e);
    if (whole || e - s <= least) return whole;
  }
}

static const char *fewest(matcher *x, const item *i, const char *s) {
  for (; ; s++) {
    test(x, 1);
    const char *whole = deeper(x, i + 1, s);
    if (whole || !fits(x, i, s)) return whole;
  }
}

static const char *balance(matcher *x, const item *i, const char *s) {
  if (s >= x->end || (unsigned char)*s != i->a) return NULL;
  ptrdiff_t open = 1;
  while (++s < x->end) {
    test(x, 1);
    if ((unsigned char)*s == i->b) {
      if (--open == 0) return s + 1;
    } else if ((unsigned char)*s == i->a) {
      open++;
    }
  }
  return NULL;
}

static const char *again(matcher *x, const item *i, const char *s) {
  const ptrdiff_t n = x->m->capture[i->a].n;
  if (n < 0) luaL_error(x->L, "invalid capture index %%%d", i->a + 1);
  if (x->end - s < n) return NULL;
  test(x, n);
  return memcmp(x->m->capture[i->a].at, s, (size_t)n) == 0 ? s + n : NULL;
}

/* Opens a capture, or captures a position; this is undone if the rest does not match. */
static const char *opened(matcher *x, const item *i, const char *s) {
  const int k = x->m->captures++;
  x->m->capture[k].at = s;
  x->m->capture[k].n = i->kind == POSITION ? FL_CAPTURE_POSITION : FL_CAPTURE_OPEN;
  const char *e = deeper(x, i + 1, s);
  if (!e) x->m->captures--;
  return e;
}

static const char *closed(matcher *x, const item *i, const char *s) {
  x->m->capture[i->a].n = s - x->m->capture[i->a].at;
  const char *e = deeper(x, i + 1, s);
  if (!e) x->m->capture[i->a].n = FL_CAPTURE_OPEN;
  return e;
}

static int at_frontier(const matcher *x, const item *i, const char *s) {
  const int before = s == x->s ? 0 : (unsigned char)s[-1], now = s < x->end ? (unsigned char)*s : 0;
  return !has(i->set, before) && has(i->set, now);
}

/* The end of the match of the items from i on at s; NULL: they do not match. */
static const char *match(matcher *x, const item *i, const char *s) {
  for (const item *end = x->p->at + x->p->n; i < end; i++) {
    test(x, 1);
    switch (i->kind) {
      case OPEN: case POSITION: return opened(x, i, s);
      case CLOSE: return closed(x, i, s);
      case BALANCE: s = balance(x, i, s); break;
      case AGAIN: s = again(x, i, s); break;
      case FRONTIER: if (!at_frontier(x, i, s)) return NULL; break;
      case END: if (s != x->end) return NULL; break;
      default:
        if (i->often == '*' || i->often == '+') return most(x, i, s, i->often == '+');
        if (i->often == '-') return fewest(x, i, s);
        if (i->often == '?' && fits(x, i, s)) {
          const char *e = deeper(x, i + 1, s + 1);
          if (e) return e;
        } else if (!i->often) {
          s = fits(x, i, s) ? s + 1 : NULL;
        }
    }
    if (!s) return NULL;
  }
  return s;
}

/* Charges at least one step for a search: gsub may do one search for each byte. */
static void pay(const matcher *x) {
  fl_hook_charge(x->L, x->b, 1 + x->tests / TESTS_A_STEP);
}

int fl_lpattern_find(lua_State *L, fl_lua *b, const fl_lpattern *p, const char *s, size_t n,
                    const char *at, fl_match *m) {
  assert(at);
  matcher x = { .L = L, .b = b, .p = p, .s = s, .end = s + n, .m = m };
  for (; at <= x.end; at++) {
    m->captures = 0;
    const char *e = match(&x, p->at, at);
    if (e || p->anchored) {
      m->from = at;
      m->to = e;
      pay(&x);
      return e != NULL;
    }
  }
  pay(&x);
  return 0;
}

void fl_lpattern_push_capture(lua_State *L, const fl_match *m, int k, const char *s) {
  if (k == 0 && m->captures == 0) lua_pushlstring(L, m->from, (size_t)(m->to - m->from));
  else if (k >= m->captures) luaL_error(L, "invalid capture index %%%d", k + 1);
  else if (m->capture[k].n == FL_CAPTURE_POSITION)
    lua_pushinteger(L, m->capture[k].at - s + 1);
  else lua_pushlstring(L, m->capture[k].at, (size_t)m->capture[k].n);
}

int fl_lpattern_push_captures(lua_State *L, const fl_match *m, const char *s) {
  const int n = m->captures ? m->captures : 1;
  luaL_checkstack(L, n, "too many captures");
  for (int k = 0; k < n; k++) fl_lpattern_push_capture(L, m, k, s);
  return n;
}
