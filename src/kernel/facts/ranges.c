/* Ranges of the integers of a kernel in one launch (ranges.h): interval arithmetic, conditions that
** narrow intervals, and the walk over the body. */
#include "kernel/facts/ranges.h"
#include "kernel/facts/defs.h"
#include "kernel/tree/builtins.h"
#include <string.h>

typedef fl_kinterval range;
static const range none = { 1, 0 }, any = { INT64_MIN, INT64_MAX };

/* WIDE: from this pass on an interval that still grows gets the bounds of its type. NARROW: so many
** passes may then take back what that has added. MOST_STEPS: expressions evaluated at most. */
enum { WIDE = 4, NARROW = 6, MOST_ORDERS = 16, MOST_STEPS = 20000000 };

/* The interval of a slot before a change of 'now', and the time of the change (walk.time). */
typedef struct saved { int32_t slot; range old; int64_t time; } saved;
/* a >= b + strict, as a condition around says: so a is at least 'least', and b at most 'most'.
** time: when it was met. */
typedef struct order {
  const fl_kexpr *a, *b;
  int64_t strict, least, most, time;
} order;

/* A slot is a variable, n_vars + an fl_kspecial, or contents_of a view. */
typedef struct walk {
  const fl_kfunc *f;
  fl_karena *a;
  range *begin;              /* by slot: what it has when the kernel begins */
  range *all, *next;         /* all that is assigned: as the last pass found it, and this one */
  range *now;                /* what it may have at the statement that is looked at */
  int64_t *set, time;        /* when it was last assigned to; the time counts changes of 'now' */
  const fl_kexpr **is;       /* the condition that a BOOL has the value of; NULL: not known */
  saved *log;
  int32_t n_log, cap_log;
  order orders[MOST_ORDERS];
  int n_orders, wide, noting;    /* wide: see WIDE; noting: 'see' is called */
  int64_t left;              /* of MOST_STEPS */
  fl_kranges_see *see;
  void *arg;
} walk;

/* ---- intervals ---- */

static int is_none(range r) { return r.lo > r.hi; }
static int is_one(range r) { return r.lo == r.hi; }
static int is_known(range r) { return r.lo > INT64_MIN && r.hi < INT64_MAX; }
static int is_bitwise(int op) { return op == FL_KO_AND || op == FL_KO_OR || op == FL_KO_XOR; }
static range meet(range a, range b) {
  return (range){ a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi };
}
static range join(range a, range b) {
  if (is_none(a) || is_none(b)) return is_none(a) ? b : a;
  return (range){ a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi };
}

/* The values of a type. Of 64 bits those below 0 also stand for unsigned ones from 2^63 on. */
static range of_type(int type) {
  const int bits = 8 * fl_kt_size(type);
  if (type == FL_KT_BOOL) return (range){ 0, 1 };
  if (!fl_kt_is_int(type) || bits == 64) return any;
  const int64_t top = INT64_C(1) << (bits - fl_ktypes[type].is_signed);
  return (range){ fl_ktypes[type].is_signed ? -top : 0, top - 1 };
}

/* Are all values of r numbers of the type? (Values below 0 of U64 are not: see of_type.) */
static int fits(int type, range r) {
  const range t = of_type(type);
  return fl_kt_is_int(type) && r.lo >= (type == FL_KT_U64 ? 0 : t.lo) && r.hi <= t.hi;
}
static range wrapped(int type, range r) { return is_none(r) || fits(type, r) ? r : of_type(type); }

/* The exact sum, difference and product; 'any' where they overflow. */
static range plus(range a, range b) {
  range r;
  return __builtin_add_overflow(a.lo, b.lo, &r.lo) || __builtin_add_overflow(a.hi, b.hi, &r.hi)
       ? any : r;
}
static range minus(range a, range b) {
  range r;
  return __builtin_sub_overflow(a.lo, b.hi, &r.lo) || __builtin_sub_overflow(a.hi, b.lo, &r.hi)
       ? any : r;
}
static range times(range a, range b) {
  const int64_t x[4] = { a.lo, a.lo, a.hi, a.hi }, y[4] = { b.lo, b.hi, b.lo, b.hi };
  range r = none;
  for (int i = 0; i < 4; i++) {
    int64_t v;
    if (__builtin_mul_overflow(x[i], y[i], &v)) return any;
    r = join(r, (range){ v, v });
  }
  return r;
}

/* a / b and a % b, for b > 0. */
static range over(range a, range b) {
  return (range){ a.lo / (a.lo < 0 ? b.lo : b.hi), a.hi / (a.hi < 0 ? b.hi : b.lo) };
}
static range rest(range a, range b) {
  if (a.lo >= 0 && a.hi < b.lo) return a;
  return (range){ a.lo >= 0 ? 0 : a.lo > 1 - b.hi ? a.lo : 1 - b.hi,
                  a.hi <= 0 ? 0 : a.hi < b.hi - 1 ? a.hi : b.hi - 1 };
}

/* a shifted by b bits, 0 <= b < 63. */
static range shifted(int op, range a, range b) {
  if (op == FL_KO_SHL) return times(a, (range){ INT64_C(1) << b.lo, INT64_C(1) << b.hi });
  return (range){ a.lo >> (a.lo < 0 ? b.lo : b.hi), a.hi >> (a.hi < 0 ? b.hi : b.lo) };
}

static range bits(int op, int type, range a, range b) {
  if (is_one(a) && is_one(b)) {
    const int64_t v = op == FL_KO_AND ? a.lo & b.lo : op == FL_KO_OR ? a.lo | b.lo : a.lo ^ b.lo;
    return (range){ v, v };
  }
  if (op != FL_KO_AND) {
    int64_t top = 1;
    while (top <= (a.hi | b.hi) / 2) top *= 2;
    return a.lo < 0 || b.lo < 0 ? of_type(type) : (range){ 0, top - 1 + top };
  }
  if (is_one(a)) { const range t = a; a = b; b = t; }
  const int64_t off = (fl_kt_size(type) < 8 && !fl_ktypes[type].is_signed ? of_type(type).hi : -1)
                    ^ b.lo;
  if (is_one(b) && off >= 0 && !(off & (off + 1)))        /* a multiple of off + 1, below or at a */
    return (range){ a.lo & ~off, a.hi & ~off };
  if (a.lo < 0 && b.lo < 0) return of_type(type);
  return (range){ 0, a.lo < 0 ? b.hi : b.lo < 0 || a.hi < b.hi ? a.hi : b.hi };
}

/* Of two integers: {1, 1}: a op b holds, {0, 0}: it does not, {0, 1}: either. */
static range compared(int op, range a, range b) {
  switch (op) {
    case FL_KO_GT: case FL_KO_GE: return compared(op == FL_KO_GT ? FL_KO_LT : FL_KO_LE, b, a);
    case FL_KO_LT: return (range){ a.hi < b.lo, a.lo < b.hi };
    case FL_KO_LE: return (range){ a.hi <= b.lo, a.lo <= b.hi };
    case FL_KO_EQ: return (range){ is_one(a) && is_one(b) && a.lo == b.lo, !is_none(meet(a, b)) };
    default: return (range){ is_none(meet(a, b)), !(is_one(a) && is_one(b) && a.lo == b.lo) };
  }
}

/* ---- slots ---- */

static void change(walk *w, int32_t slot, range r) {
  saved *log = fl_karena_room(w->a, w->log, w->n_log, &w->cap_log, sizeof *log);
  if (!log) return;
  w->log = log;
  log[w->n_log++] = (saved){ slot, w->now[slot], ++w->time };
  w->now[slot] = r;
}

/* The slot of what is stored in array v. Views of dynamic shared memory of one type have the same
** bytes, so they share one. */
static int32_t contents_of(const walk *w, int32_t v) {
  const fl_kvar *x = &w->f->vars[v];
  return x->dynamic ? w->f->n_vars + FL_KSPECIAL_COUNT + x->type : v;
}

/* Adds r to what is assigned to the slot. var: a variable of the slot's type. */
static void grow(walk *w, int32_t slot, int32_t var, range r) {
  const range old = w->next[slot], type = of_type(w->f->vars[var].type);
  range more = join(old, r);
  if (w->wide && !is_none(old)) {
    if (more.lo < old.lo) more.lo = type.lo;
    if (more.hi > old.hi) more.hi = type.hi;
  }
  w->next[slot] = more;
}

static void assign(walk *w, int32_t slot, range r, const fl_kexpr *is) {
  change(w, slot, r);
  w->set[slot] = w->time;
  w->is[slot] = is;
  grow(w, slot, slot, r);
}

/* Leaves a construct. mark: the length of the log when it began. Narrower intervals end; a variable
** that was assigned in the construct may now have any value that is ever assigned to it. */
static void leave(walk *w, int32_t mark) {
  while (w->n_log > mark) {
    const saved *s = &w->log[--w->n_log];
    const int assigned = w->set[s->slot] >= s->time;
    w->now[s->slot] = assigned ? w->all[s->slot] : s->old;
    if (assigned) w->is[s->slot] = NULL;
  }
}

static int forget_stmt(void *arg, fl_kstmt *s) {
  walk *w = arg;
  const int32_t slot[2] = { s->kind == FL_KS_ASSIGN || s->kind == FL_KS_DECL ? s->var : -1,
                            s->result };
  for (int i = 0; i < 2; i++) {
    if (slot[i] < 0) continue;
    change(w, slot[i], w->all[slot[i]]);
    w->set[slot[i]] = w->time;
    w->is[slot[i]] = NULL;
  }
  return 1;
}

typedef struct since { const walk *w; int64_t time; } since;

static int is_later(const void *of, const fl_kexpr *x) {
  const since *s = of;
  return x->kind == FL_KX_VAR && s->w->set[x->var] >= s->time;
}

/* Is no variable of x assigned to at 'time' or later? */
static int is_still(const walk *w, const fl_kexpr *x, int64_t time) {
  const since s = { w, time };
  return !fl_kexpr_any(x, is_later, &s);
}

/* ---- expressions ---- */

static void suppose(walk *w, const fl_kexpr *c, int truth);
static range eval(walk *w, const fl_kexpr *x);

static void note(walk *w, int32_t var, int32_t line, range index) {
  if (w->noting && !is_none(index)) w->see(w->arg, var, line, index);
}

static range load(walk *w, const fl_kexpr *x) {
  const fl_kvar *v = &w->f->vars[x->var];
  note(w, x->var, x->line, eval(w, x->x[0]));
  const int stored = v->kind == FL_KV_ARRAY || v->kind == FL_KV_SHARED;
  return stored && v->param < 0 && fl_kt_is_int(v->type) ? w->all[contents_of(w, x->var)]
                                                         : of_type(v->type);
}

/* Evaluates x where the condition c is true (is false, if 'truth' is 0). */
static range where(walk *w, const fl_kexpr *c, int truth, const fl_kexpr *x) {
  const int32_t mark = w->n_log;
  const int orders = w->n_orders;
  suppose(w, c, truth);
  const range r = eval(w, x);
  leave(w, mark);
  w->n_orders = orders;
  return r;
}

static range lazy(walk *w, const fl_kexpr *x) {
  const range c = eval(w, x->x[0]);
  const int all = x->op == FL_KO_LAND;
  if (x->kind == FL_KX_SELECT)
    return join(c.hi ? where(w, x->x[0], 1, x->x[1]) : none,
                c.lo ? none : where(w, x->x[0], 0, x->x[2]));
  if (all ? !c.hi : c.lo) return c;
  const range d = where(w, x->x[0], all, x->x[1]);
  return all ? (range){ c.lo & d.lo, c.hi & d.hi } : (range){ c.lo | d.lo, c.hi | d.hi };
}

/* x without conversions that keep its value. */
static const fl_kexpr *bare(const fl_kexpr *x) {
  while (x->kind == FL_KX_CAST && fl_kt_is_int(x->x[0]->type) && x->x[0]->type != FL_KT_BOOL &&
         fits(x->type, of_type(x->x[0]->type))) x = x->x[0];
  return x;
}

/* The interval of x, if r is that of its exact value: narrowed by the conditions around, and
** wrapped to its type. A condition may compare the operands of a difference (if (t >= d) s[t - d])
** or, after the wrap, x itself (if (t + d < n) s[t + d]). */
static range ordered(const walk *w, const fl_kexpr *x, range r) {
  for (int apart = 1; apart >= 0; apart--) {
    for (int i = 0; i < w->n_orders; i++) {
      const order *o = &w->orders[i];
      range to = any;
      if (apart && x->op == FL_KO_SUB && fl_kexpr_same(o->a, bare(x->x[0])) &&
          fl_kexpr_same(o->b, bare(x->x[1]))) to.lo = o->strict;
      if (!apart && fl_kexpr_same(o->a, x)) to.lo = o->least;
      if (!apart && fl_kexpr_same(o->b, x)) to.hi = o->most;
      if ((to.lo > r.lo || to.hi < r.hi) && is_still(w, o->a, o->time) &&
          is_still(w, o->b, o->time)) r = meet(r, to);
    }
    r = wrapped(x->x[0]->type, r);
  }
  return r;
}

static range binary(walk *w, const fl_kexpr *x) {
  const range a = eval(w, x->x[0]), b = eval(w, x->x[1]);
  const int type = x->x[0]->type, asks = x->op >= FL_KO_LT && x->op <= FL_KO_NE,
            huge = type == FL_KT_U64 && (a.lo < 0 || b.lo < 0) && !is_bitwise(x->op);
  if (is_none(a) || is_none(b)) return none;
  if (!fl_kt_is_int(type) || huge) return of_type(x->type);
  if (asks) return compared(x->op, a, b);
  range r = of_type(type);
  switch (x->op) {
    case FL_KO_ADD: r = plus(a, b); break;
    case FL_KO_SUB: r = minus(a, b); break;
    case FL_KO_MUL: r = times(a, b); break;
    case FL_KO_DIV: if (b.lo > 0) r = over(a, b); break;
    case FL_KO_REM: if (b.lo > 0) r = rest(a, b); break;
    case FL_KO_SHL: case FL_KO_SHR:
      if (b.lo >= 0 && b.hi < 8 * fl_kt_size(type) - 1) r = shifted(x->op, a, b);
      break;
    default: r = bits(x->op, type, a, b);
  }
  return is_known(r) ? ordered(w, x, r) : wrapped(type, r);
}

static range call(walk *w, const fl_kexpr *x) {
  range r[FL_K_MAX_ARGS] = { { 0 } };
  for (int i = 0; i < x->n; i++) r[i] = eval(w, x->x[i]);
  if ((x->op != FL_KB_IMIN && x->op != FL_KB_IMAX) || is_none(r[0]) || is_none(r[1]) ||
      (x->type == FL_KT_U64 && (r[0].lo < 0 || r[1].lo < 0))) return of_type(x->type);
  const int min = x->op == FL_KB_IMIN;
  return (range){ min == (r[0].lo < r[1].lo) ? r[0].lo : r[1].lo,
                  min == (r[0].hi < r[1].hi) ? r[0].hi : r[1].hi };
}

static range unary(walk *w, const fl_kexpr *x) {
  const range a = eval(w, x->x[0]);
  if (x->op == FL_KO_NOT) return (range){ !a.hi, !a.lo };
  if (!fl_kt_is_int(x->type) || is_none(a)) return is_none(a) ? none : any;
  if (x->op == FL_KO_NEG) return wrapped(x->type, minus((range){ 0, 0 }, a));
  return fl_ktypes[x->type].is_signed ? (range){ ~a.hi, ~a.lo } : of_type(x->type);
}

static range cast(walk *w, const fl_kexpr *x) {
  const range a = eval(w, x->x[0]);
  const int from = x->x[0]->type;
  if (!fl_kt_is_int(from) || !fl_kt_is_int(x->type) || is_none(a))
    return is_none(a) ? none : of_type(x->type);
  if (x->type == FL_KT_BOOL)
    return (range){ a.lo > 0 || a.hi < 0, a.lo != 0 || a.hi != 0 };
  if (from == FL_KT_U64 && a.lo < 0) return of_type(x->type);
  return wrapped(x->type, a);
}

/* The interval of x, whose accesses are noted. Real numbers have 'any'. */
static range eval(walk *w, const fl_kexpr *x) {
  if (--w->left < 0) return of_type(x->type);
  switch (x->kind) {
    case FL_KX_CONST:
      return fl_kt_is_int(x->type) ? (range){ x->value.i, x->value.i } : any;
    case FL_KX_VAR: return fl_kt_is_int(x->type) ? w->now[x->var] : any;
    case FL_KX_SPECIAL: return w->now[w->f->n_vars + x->op];
    case FL_KX_LOAD: return load(w, x);
    case FL_KX_UNARY: return unary(w, x);
    case FL_KX_CAST: return cast(w, x);
    case FL_KX_CALL: return call(w, x);
    case FL_KX_SELECT: return lazy(w, x);
    default: return x->op == FL_KO_LAND || x->op == FL_KO_LOR ? lazy(w, x) : binary(w, x);
  }
}

/* ---- conditions ---- */

/* Takes for granted that x is in r. */
static void bound(walk *w, const fl_kexpr *x, range r) {
  if (x->kind == FL_KX_VAR || x->kind == FL_KX_SPECIAL) {
    const int32_t slot = x->kind == FL_KX_VAR ? x->var : w->f->n_vars + x->op;
    const range old = w->now[slot], new = meet(old, r);
    if (new.lo != old.lo || new.hi != old.hi) change(w, slot, new);
    return;
  }
  if (x->kind == FL_KX_CAST && fl_kt_is_int(x->x[0]->type)) {
    if (x->type != FL_KT_BOOL && fits(x->type, eval(w, x->x[0]))) bound(w, x->x[0], r);
    return;
  }
  if (x->kind != FL_KX_BINARY || x->op > FL_KO_DIV) return;
  const range a = eval(w, x->x[0]), b = eval(w, x->x[1]);
  const int sum = x->op == FL_KO_ADD, difference = x->op == FL_KO_SUB;
  if (is_none(a) || is_none(b) || (x->type == FL_KT_U64 && (a.lo < 0 || b.lo < 0))) return;
  if (sum || difference) {
    const range exact = sum ? plus(a, b) : minus(a, b);
    if (!is_known(exact) || !fits(x->type, exact) || !is_known(r)) return;
    bound(w, x->x[0], sum ? minus(r, b) : plus(r, b));
    bound(w, x->x[1], sum ? minus(r, a) : minus(a, r));
  } else if (is_one(b) && b.lo > 0 && r.hi >= 0 && r.hi < INT64_MAX / 2 / b.lo &&
             fits(x->type, x->op == FL_KO_MUL ? times(a, b) : a)) {
    const int64_t top = x->op == FL_KO_MUL ? r.hi / b.lo : r.hi * b.lo + b.lo - 1;
    bound(w, x->x[0], (range){ INT64_MIN, top });
  }
}

/* Takes for granted that a op b. */
static void compare(walk *w, int op, const fl_kexpr *a, const fl_kexpr *b) {
  if (op == FL_KO_LT || op == FL_KO_LE) {
    compare(w, fl_kop_mirrored(op), b, a);
    return;
  }
  const range x = eval(w, a), y = eval(w, b);
  if (is_none(x) || is_none(y) || (a->type == FL_KT_U64 && (x.lo < 0 || y.lo < 0))) return;
  const int strict = op == FL_KO_GT;
  if (op == FL_KO_EQ) {
    bound(w, a, y);
    bound(w, b, x);
  } else if (op == FL_KO_NE) {
    if (is_one(y) && y.lo == x.lo) bound(w, a, (range){ x.lo + 1, x.hi });
    if (is_one(y) && y.lo == x.hi) bound(w, a, (range){ x.lo, x.hi - 1 });
  } else {
    if (y.lo == INT64_MAX || x.hi == INT64_MIN) return;
    bound(w, a, (range){ y.lo + strict, x.hi });
    bound(w, b, (range){ y.lo, x.hi - strict });
    w->time++;
    if (w->n_orders < MOST_ORDERS && !fl_kreads_of(a, NULL) && !fl_kreads_of(b, NULL))
      w->orders[w->n_orders++] = (order){ bare(a), bare(b), strict, y.lo + strict, x.hi - strict,
                                          w->time };
  }
}

/* Takes for granted that c is true (is false, if 'truth' is 0). */
static void suppose(walk *w, const fl_kexpr *c, int truth) {
  const int noting = w->noting;
  if (--w->left < 0) return;
  w->noting = 0;
  if (c->kind == FL_KX_VAR && c->type == FL_KT_BOOL) {
    const fl_kexpr *is = w->is[c->var];
    if (is && is_still(w, is, w->set[c->var])) suppose(w, is, truth);
    bound(w, c, (range){ truth, truth });
  } else if (c->kind == FL_KX_UNARY && c->op == FL_KO_NOT) {
    suppose(w, c->x[0], !truth);
  } else if (c->kind == FL_KX_BINARY && c->op == (truth ? FL_KO_LAND : FL_KO_LOR)) {
    suppose(w, c->x[0], truth);
    suppose(w, c->x[1], truth);
  } else if (c->kind == FL_KX_BINARY && c->op >= FL_KO_LT && c->op <= FL_KO_NE &&
             fl_kt_is_int(c->x[0]->type)) {
    compare(w, truth ? c->op : fl_kop_negated(c->op), c->x[0], c->x[1]);
  }
  w->noting = noting;
}

/* ---- statements ---- */

static void block(walk *w, fl_kblock b);

static void part(walk *w, const fl_kexpr *c, int truth, fl_kblock b) {
  const int32_t mark = w->n_log;
  const int orders = w->n_orders;
  if (c) suppose(w, c, truth);
  block(w, b);
  leave(w, mark);
  w->n_orders = orders;
}

static int ends(fl_kblock b) { return b.last && fl_kis_exit(b.last); }

static void either(walk *w, const fl_kstmt *s) {
  const range c = eval(w, s->x[0]);
  if (c.hi) part(w, s->x[0], 1, s->body);
  if (!c.lo) part(w, s->x[0], 0, s->other);
  if (ends(s->body) && !s->other.first) suppose(w, s->x[0], 0);
  else if (ends(s->other) && !s->body.first) suppose(w, s->x[0], 1);
}

static void loop(walk *w, fl_kstmt *s) {
  const fl_kvisitor forget = { forget_stmt, NULL, w };
  const int orders = w->n_orders, first = s->x[0] && !s->post;
  fl_kwalk_stmt(&forget, s);
  const int32_t mark = w->n_log;
  const range c = first ? eval(w, s->x[0]) : (range){ 0, 1 };
  if (!c.hi) return;
  if (first) suppose(w, s->x[0], 1);
  block(w, s->body);
  block(w, s->other);
  if (s->x[0] && s->post) eval(w, s->x[0]);
  leave(w, mark);
  w->n_orders = orders;
}

static void write_to(walk *w, const fl_kstmt *s) {
  const range at = eval(w, s->x[0]), value = eval(w, s->x[1]);
  const int type = w->f->vars[s->var].type, atomic = s->kind == FL_KS_ATOMIC;
  if (s->x[2]) eval(w, s->x[2]);
  note(w, s->var, s->line, at);
  grow(w, contents_of(w, s->var), s->var, atomic || s->accumulate ? of_type(type) : value);
}

static void statement(walk *w, fl_kstmt *s) {
  switch (s->kind) {
    case FL_KS_DECL: break;
    case FL_KS_ASSIGN:
      assign(w, s->var, eval(w, s->x[0]),
             s->x[0]->type == FL_KT_BOOL && w->f->vars[s->var].type == FL_KT_BOOL ? s->x[0] : NULL);
      return;
    case FL_KS_STORE: case FL_KS_ATOMIC: write_to(w, s); break;
    case FL_KS_IF: either(w, s); return;
    case FL_KS_LOOP: loop(w, s); return;
    case FL_KS_BLOCK: part(w, NULL, 1, s->body); return;
    default:
      for (int i = 0; i < 4; i++) if (s->x[i]) eval(w, s->x[i]);
      for (int i = 0; i < s->n_args; i++) eval(w, s->args[i]);
  }
  if (s->result >= 0) assign(w, s->result, of_type(w->f->vars[s->result].type), NULL);
}

static void block(walk *w, fl_kblock b) {
  const int32_t mark = w->n_log;
  const int orders = w->n_orders;
  for (fl_kstmt *s = b.first; s && !w->a->failed; s = s->next) statement(w, s);
  leave(w, mark);
  w->n_orders = orders;
}

/* ---- the whole ---- */

/* The value that the launch gives a scalar parameter or a member of one. */
static range given(const fl_kvar *v, const fl_kcover_launch *l) {
  const char *at = l->argument(l->arg, v->param);
  const int size = fl_kt_size(v->type);
  int64_t x = 0;
  if (!at || !fl_kt_is_int(v->type)) return of_type(v->type);
  memcpy(&x, at + v->offset, (size_t)size);
  const int shift = 64 - 8 * size;
  if (fl_ktypes[v->type].is_signed) x = (int64_t)((uint64_t)x << shift) >> shift;
  return meet((range){ x, x }, of_type(v->type));
}

static void set_begin(walk *w, const fl_kcover_launch *l) {
  const int32_t n = w->f->n_vars;
  for (int32_t i = 0; i < n; i++) {
    const fl_kvar *v = &w->f->vars[i];
    w->begin[i] = v->kind == FL_KV_LOCAL && v->param >= 0 ? given(v, l) : none;
  }
  for (int i = 0; i < FL_KT_COUNT; i++) w->begin[n + FL_KSPECIAL_COUNT + i] = none;
  for (int i = 0; i < FL_KSPECIAL_COUNT; i++) {
    const int64_t b = l->block[i % 3], g = l->grid[i % 3];
    w->begin[n + i] = i < FL_KSPECIAL_BID_X ? (range){ 0, b - 1 }
                    : i < FL_KSPECIAL_BDIM_X ? (range){ 0, g - 1 }
                    : i < FL_KSPECIAL_GDIM_X ? (range){ b, b }
                    : i < FL_KSPECIAL_WARP_SIZE ? (range){ g, g } : (range){ 32, 32 };
  }
}

static size_t bytes_of(const walk *w) {
  return (size_t)(w->f->n_vars + FL_KSPECIAL_COUNT + FL_KT_COUNT) * sizeof(range);
}

/* Walks the body once. up: the intervals that are assigned are joined to those in 'all'; else they
** replace them. Returns whether 'all' has changed. */
static int pass(walk *w, int up) {
  memcpy(w->now, w->begin, bytes_of(w));
  memcpy(w->next, up ? w->all : w->begin, bytes_of(w));
  memset(w->set, 0, bytes_of(w) / 2);
  memset(w->is, 0, bytes_of(w) / sizeof(range) * sizeof *w->is);
  w->time = w->n_log = w->n_orders = 0;
  block(w, w->f->body);
  const int changed = memcmp(w->all, w->next, bytes_of(w)) != 0;
  memcpy(w->all, w->next, bytes_of(w));
  return changed;
}

/* Walks the body until no variable is assigned what was not known before. */
static void settle(walk *w) {
  w->wide = 0;
  for (int i = 0; pass(w, 1) && !w->a->failed && w->left >= 0; i++) w->wide = i >= WIDE;
}

int fl_kranges(fl_mem *m, const fl_kfunc *f, const fl_kcover_launch *l, fl_kranges_see *see,
               void *arg) {
  fl_karena a;
  fl_karena_init(&a, m);
  walk w = { .f = f, .a = &a, .see = see, .arg = arg };
  w.begin = fl_karena_new(&a, bytes_of(&w));
  w.all = fl_karena_new(&a, bytes_of(&w));
  w.next = fl_karena_new(&a, bytes_of(&w));
  w.now = fl_karena_new(&a, bytes_of(&w));
  w.set = fl_karena_new(&a, bytes_of(&w));
  w.is = fl_karena_new(&a, bytes_of(&w));
  if (!a.failed) {
    w.left = MOST_STEPS;
    set_begin(&w, l);
    memcpy(w.all, w.begin, bytes_of(&w));
    settle(&w);
    for (int i = 0; i < NARROW && pass(&w, 0); i++) continue;
    w.noting = 1;
    settle(&w);
    for (int32_t i = 0; i < f->n_vars && w.left < 0; i++) note(&w, i, f->line, any);
  }
  const int ok = !a.failed;
  fl_karena_close(&a);
  return ok;
}
