/* The matcher: a program counter, a position in the text, and a stack of alternatives still to be
** tried. */
#include "text/regex.h"
#include "text/unicode.h"
#include <string.h>

/* retries: how often the match at one position has gone back to an untried alternative; limited,
** since some patterns can match a text in exponentially many ways. */
typedef struct run {
  fl_regex *r;
  flame_context *c;
  const char *text, *end;
  int64_t retries;
} run;
enum { POLL = 1 << 16, MOST_RETRIES = 10000000, RETRIES_A_BYTE = 64 };

static int has_byte(const uint64_t first[4], const char *p) {
  const unsigned char b = (unsigned char)*p;
  return (int)(first[b >> 6] >> (b & 63) & 1);
}

static int push(run *m, int32_t pc, const char *at, const char *least) {
  fl_regex_try *t = FL_PUSH(m->r->mem, &m->r->stack);
  if (t) *t = (fl_regex_try){ pc, at, least };
  else FL_FAIL(m->c, FLAME_NO_MEMORY, "encode", "no host memory for matching");
  return t != NULL;
}

static int in_set(const run *m, const fl_set *s, const char **at) {
  int k;
  if (*at >= m->end || !fl_set_has(s, fl_utf8_get(*at, &k))) return 0;
  *at += k;
  return 1;
}

/* Takes the longest run from *at on, of at most max characters; *least: where the shortest allowed
** run ends. 0: there are too few. */
static int take(run *m, const fl_regex_code *i, const char **at, const char **least) {
  const fl_set *s = &m->r->sets.at[i->a];
  int64_t n = 0;
  *least = *at;
  while (n != i->max && in_set(m, s, at))
    if (++n == i->min) *least = *at;
  m->r->steps += n;
  return n >= i->min;
}

/* Returns to the newest alternative; 0: there is none above 'base'. If it is a run of characters,
** the run gives up its last one. */
static int back(run *m, int64_t base, int32_t *pc, const char **at) {
  if (m->r->stack.n <= base) return 0;
  fl_regex_try *t = &m->r->stack.at[m->r->stack.n - 1];
  if (t->least) do t->at--; while (fl_utf8_goes_on(t->at));
  *pc = t->pc;
  *at = t->at;
  if (!t->least || t->at <= t->least) m->r->stack.n--;
  return 1;
}

static int line_at(const run *m, int op, const char *at) {
  switch (op) {
    case FL_RX_BEGIN: return at == m->text;
    case FL_RX_END: return at == m->end;
    case FL_RX_LINE: return at == m->text || (at[-1] == '\n' && at < m->end);
    default: return at == m->end || *at == '\n';
  }
}

static int stop(run *m) {
  if (++m->r->steps < POLL) return 0;
  m->r->steps = 0;
  if (!atomic_load_explicit(&m->c->interrupted, memory_order_relaxed)) return 0;
  atomic_store(&m->c->interrupted, 0);
  FL_FAIL(m->c, FLAME_INTERRUPTED, "encode", "interrupted!");
  return 1;
}

/* Goes back to the last alternative that was not tried. An error if that has happened too often for
** the length of the text, so that no pattern takes exponential time. */
static int retry(run *m, int64_t base, int32_t *pc, const char **at) {
  const int64_t most = MOST_RETRIES + RETRIES_A_BYTE * (int64_t)(m->end - m->text);
  if (++m->retries <= most) return back(m, base, pc, at);
  FL_FAIL(m->c, FLAME_BAD_ARGUMENT, "encode",
          "a pattern of the tokenizer has more than %lld ways to match %lld bytes of text",
          (long long)most, (long long)(m->end - m->text));
  return -1;
}

static int match(run *m, int32_t pc, const char *at, const char **last);

/* Executes one instruction: 1 continue, 0 backtrack, -1 failed. Lookahead nests as the groups of
** the pattern do. */
static int step(run *m, int32_t *pc, const char **at) {
  const fl_regex_code *i = &m->r->code.at[*pc];
  const char *least, *end;
  *pc += 1;
  switch ((fl_regex_op)i->op) {
    case FL_RX_SET: return in_set(m, &m->r->sets.at[i->a], at);
    case FL_RX_RUN:
      if (!take(m, i, at, &least)) return 0;
      return i->mode == '+' || *at == least || push(m, *pc, *at, least) ? 1 : -1;
    case FL_RX_SPLIT:
      *pc = i->b;
      if (*at < m->end ? !has_byte(i->first, *at) : !i->empty) return 1;
      if (!push(m, i->b, *at, NULL)) return -1;
      *pc = i->a;
      return 1;
    case FL_RX_JUMP: *pc = i->a; return 1;
    case FL_RX_AHEAD: case FL_RX_NOT_AHEAD: {
      const int found = match(m, *pc, *at, &end);
      *pc = i->a;
      return found < 0 ? -1 : found == (i->op == FL_RX_AHEAD);
    }
    default: return line_at(m, i->op, *at);
  }
}

static int match(run *m, int32_t pc, const char *at, const char **last) {
  const int64_t base = m->r->stack.n;
  int e = 1;
  while (e > 0 && m->r->code.at[pc].op != FL_RX_MATCH) {
    if (stop(m)) e = -1;
    else if ((e = step(m, &pc, &at)) == 0) e = retry(m, base, &pc, &at);
  }
  m->r->stack.n = base;
  *last = at;
  return e;
}

int fl_regex_find(fl_regex *r, flame_context *c, const char *text, const char *end,
                  const char *from, const char **first, const char **last) {
  run m = { .r = r, .c = c, .text = text, .end = end };
  for (;;) {
    while (from < end && !has_byte(r->first, from)) from++;
    if (from >= end && !r->empty) return 0;
    m.retries = 0;
    const int e = match(&m, 0, from, last);
    *first = from;
    if (e) return e;
    if (from >= end) return 0;
    do from++; while (from < end && fl_utf8_goes_on(from));
  }
}
