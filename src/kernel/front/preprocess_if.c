/*
** The conditions of #if: integers of 64 bits, names, and C's operators by precedence climbing. As
** in C++, an operation is unsigned if one of its operands is, comparisons and logical operators
** give signed results, and what && || ?: do not evaluate may divide by 0.
*/
#include "kernel/front/forms.h"
#include "kernel/tree/fold.h"
#include <string.h>

enum { MAX_DEPTH = 200 };

/* dead: no value is needed of what is read. wrong: the condition has no value. */
typedef struct cond { const fl_ktok *at, *end; int depth, dead, wrong; } cond;
typedef struct number { int64_t v; int type; } number;      /* type: FL_KT_I64 or FL_KT_U64 */

static number expression(cond *c, int level);

static int takes(cond *c, int punct) {
  if (c->at >= c->end || !fl_is_punct(c->at, punct)) return 0;
  c->at++;
  return 1;
}

/* An integer of 32 bits is one of 64 bits here, unsigned only with suffix u or if it is large. */
static number literal(const fl_ktok *t) {
  const int is_unsigned = t->kind == FL_TOK_INT &&
                          (t->value.i < 0 || memchr(t->text, 'u', (size_t)t->n) ||
                           memchr(t->text, 'U', (size_t)t->n));
  return (number){ t->value.i, is_unsigned ? FL_KT_U64 : FL_KT_I64 };
}

static number primary(cond *c) {
  number x = { 0, FL_KT_I64 };
  if (c->at >= c->end || ++c->depth > MAX_DEPTH) return c->wrong = 1, x;
  if (takes(c, '!')) x = (number){ !primary(c).v, FL_KT_I64 };
  else if (takes(c, '~')) x = primary(c), x.v = ~x.v;
  else if (takes(c, '+')) x = primary(c);
  else if (takes(c, '-')) x = primary(c), x.v = (int64_t)(0 - (uint64_t)x.v);
  else if (takes(c, '(')) {
    x = expression(c, 0);
    c->wrong |= !takes(c, ')');
  } else {
    const fl_ktok *t = c->at++;
    if (t->kind == FL_TOK_INT || t->kind == FL_TOK_CHAR) x = literal(t);
    else if (t->kind == FL_TOK_NAME) x.v = fl_ktok_is(t, "true");
    else c->wrong = 1;
  }
  c->depth--;
  return x;
}

/* x op y, wrapped to 64 bits. */
static number apply(cond *c, int op, number x, number y) {
  const int shift = op == FL_KO_SHL || op == FL_KO_SHR,
            division = op == FL_KO_DIV || op == FL_KO_REM,
            type = !shift && y.type == FL_KT_U64 ? y.type : x.type;
  const int no_value = (shift && (uint64_t)y.v > 63) || (division && !y.v);
  fl_kvalue v = { .i = 0 };
  c->wrong |= no_value && !c->dead;
  if (!no_value) fl_kfold_binary(op, type, (fl_kvalue){ .i = x.v }, (fl_kvalue){ .i = y.v }, &v);
  const int truth = (op >= FL_KO_LT && op <= FL_KO_NE) || op == FL_KO_LAND || op == FL_KO_LOR;
  return (number){ v.i, truth ? FL_KT_I64 : type };
}

/* The rest of "x ? yes : no" after the '?'. */
static number choice(cond *c, number x) {
  c->dead += !x.v;
  const number yes = expression(c, 0);
  c->dead += !!x.v - !x.v;
  c->wrong |= !takes(c, ':');
  const number no = expression(c, 1);
  c->dead -= !!x.v;
  const int is_unsigned = yes.type == FL_KT_U64 || no.type == FL_KT_U64;
  return (number){ x.v ? yes.v : no.v, is_unsigned ? FL_KT_U64 : FL_KT_I64 };
}

/* The value of the expression at c->at. level 0: all of it; 1: up to a comma; level k + 2: up to
** the first operator whose precedence is not higher than k. */
static number expression(cond *c, int level) {
  if (++c->depth > MAX_DEPTH) return c->wrong = 1, (number){ 0, FL_KT_I64 };
  number x = primary(c);
  while (c->at < c->end) {
    int own;
    const int op = fl_operator_of(fl_ktok_punct(c->at), &own);
    if (own <= level - 2 || !own) break;
    c->at++;
    const int skips = (op == FL_KO_LAND && !x.v) || (op == FL_KO_LOR && x.v);
    c->dead += skips;
    const number y = expression(c, own + 2);
    c->dead -= skips;
    x = apply(c, op, x, y);
  }
  if (level < 2 && takes(c, '?')) x = choice(c, x);
  if (!level && takes(c, ',')) x = expression(c, 0);
  c->depth--;
  return x;
}

int fl_kcondition(const fl_ktok *at, const fl_ktok *end) {
  cond c = { at, end, 0, 0, 0 };
  const int64_t v = expression(&c, 0).v;
  return c.wrong || c.at < end ? -1 : v != 0;
}

int fl_kcondition_attribute(const fl_ktok *t) {
  static const struct { const char *name; int since; } known[] = {
    { "nodiscard", 201603 }, { "maybe_unused", 201603 }, { "fallthrough", 201603 },
    { "deprecated", 201309 }, { "noreturn", 200809 }, { "likely", 201803 }, { "unlikely", 201803 },
    { "always_inline", 1 }, { "noinline", 1 }, { "unused", 1 }, { "aligned", 1 }, { "packed", 1 } };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (fl_ktok_is(t, known[i].name)) return known[i].since;
  return -1;
}
