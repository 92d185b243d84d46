/* Definitions and counters (defs.h). */
#include "kernel/facts/defs.h"

/* ---- what a piece assigns --------------------------------------------------------------- */

int fl_kassigned(const fl_kblock *b, int32_t var, const fl_kstmt **last) {
  int n = 0;
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    if (s->kind == FL_KS_ASSIGN && s->var == var) {
      n++;
      if (last) *last = s;
    }
    n += s->result == var;
    n += fl_kassigned(&s->body, var, last) + fl_kassigned(&s->other, var, last);
  }
  return n;
}

void fl_kassigned_by(const fl_kstmt *s, uint8_t *set) {
  if (s->kind == FL_KS_ASSIGN || s->kind == FL_KS_DECL) set[s->var] = 1;
  if (s->result >= 0) set[s->result] = 1;
  for (const fl_kstmt *t = s->body.first; t; t = t->next) fl_kassigned_by(t, set);
  for (const fl_kstmt *t = s->other.first; t; t = t->next) fl_kassigned_by(t, set);
}

static int is_of_var(const void *var, const fl_kexpr *x) { return x->var == *(const int32_t *)var; }

int fl_kreads(const fl_kexpr *x, int32_t var) { return fl_kexpr_any(x, is_of_var, &var); }

static int is_of_set(const void *set, const fl_kexpr *x) {
  return x->kind == FL_KX_LOAD || (set && x->var >= 0 && ((const uint8_t *)set)[x->var]);
}

int fl_kreads_of(const fl_kexpr *x, const uint8_t *set) { return fl_kexpr_any(x, is_of_set, set); }

int fl_kstmt_any(const fl_kstmt *s, int (*is)(const void *arg, const fl_kstmt *s),
                 const void *arg) {
  return is(arg, s) || fl_kblock_any(s->body, is, arg) || fl_kblock_any(s->other, is, arg);
}

static int is_jump(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_BREAK || s->kind == FL_KS_CONTINUE || s->kind == FL_KS_LEAVE;
}

int fl_kis_barrier(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_BARRIER && s->op == FL_KBAR_BLOCK;
}

int fl_kwaits(fl_kblock b) {
  for (const fl_kstmt *s = b.first; s; s = s->next)
    if (fl_kis_barrier(NULL, s)) return 1;
  return 0;
}

int fl_kis_exit(const fl_kstmt *s) { return is_jump(NULL, s) || s->kind == FL_KS_RETURN; }

int fl_kjumps(fl_kblock b) { return fl_kblock_any(b, is_jump, NULL); }

/* ---- definitions ------------------------------------------------------------------------ */

typedef struct finder { fl_kdefs *d; int32_t order; int changed; } finder;

/* Sets fl_kdef.until, the last place (statement number) at which a variable that is assigned once,
** in b, surely has that value. Inside a loop that is 'end', the last statement of b: the next
** iteration may begin after it. An assignment in a labelled block inside b holds up to 'end' too,
** unless a jump before it may skip it. Outside of loops it holds to the kernel's end. nested: b is
** the body of such a block. */
static void extend(fl_kdefs *d, fl_kblock b, int32_t end, int nested) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    fl_kdef *v = s->kind == FL_KS_ASSIGN ? &d->var[s->var] : NULL;
    if (v && v->value == s->x[0]) v->until = end;
    if (s->kind == FL_KS_BLOCK) extend(d, s->body, end, 1);
    if (nested && fl_kstmt_any(s, is_jump, NULL)) return;
  }
}

/* Records in the table that s defines 'var'. loop: the loop whose step s is in; -1: none. */
static void define(finder *x, const fl_kstmt *s, int32_t var, int32_t loop, int depth) {
  fl_kdef *v = var >= 0 ? &x->d->var[var] : NULL;
  if (!v) return;
  const fl_kexpr *value = s->kind == FL_KS_ASSIGN ? s->x[0] : NULL;
  v->count++;
  v->in_loop |= depth > 0;
  if (v->count == 1) v->value = value, v->order = x->order;
  if (v->count == 2 && v->value && value && loop >= 0) v->step = value, v->step_loop = loop;
}

static void find(finder *x, fl_kblock b, int32_t loop, int depth) {
  fl_kdefs *d = x->d;
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    const int gives = s->kind == FL_KS_ASSIGN || fl_kwrites(s),
              in = depth + (s->kind == FL_KS_LOOP);
    x->order++;
    define(x, s, gives ? s->var : -1, loop, depth);
    define(x, s, s->result, loop, depth);
    if (s->kind == FL_KS_LOOP && s->label >= 0 && s->label < d->f->n_loops)
      d->loop_order[s->label] = x->order;
    find(x, s->body, -1, in);
    find(x, s->other, s->kind == FL_KS_LOOP && !s->post ? s->label : -1, in);
  }
  extend(d, b, depth ? x->order : INT32_MAX, 0);
}

static int is_zero(const fl_kdefs *d, const fl_kexpr *x) {
  while (x->kind == FL_KX_CAST && fl_kt_is_int(x->type)) x = x->x[0];
  if (x->kind == FL_KX_CONST) return x->value.i == 0 && fl_kt_is_int(x->type);
  return x->kind == FL_KX_VAR && d->var[x->var].zero;
}

static int see_nonzero(void *arg, fl_kstmt *s) {
  finder *x = arg;
  const int32_t v = s->kind == FL_KS_ASSIGN && !is_zero(x->d, s->x[0]) ? s->var : s->result;
  if (v >= 0 && x->d->var[v].zero) x->d->var[v].zero = 0, x->changed = 1;
  return 1;
}

/* Finds variables that are assigned only 0 or one another (fl_kdef.zero), such as the indices of
** pointers that are exchanged. */
static void find_zeros(finder *x) {
  const fl_kvisitor see = { see_nonzero, NULL, x };
  const fl_kvar *of = x->d->f->vars;
  for (int i = 0; i < x->d->n_vars; i++) {
    fl_kdef *v = &x->d->var[i];
    v->zero = of[i].kind == FL_KV_LOCAL && fl_kt_is_int(of[i].type) && !v->param && v->count;
  }
  do {
    x->changed = 0;
    fl_kwalk_block(&see, x->d->body);
  } while (x->changed);
}

fl_kdefs *fl_kdefs_new(fl_karena *a, const fl_kfunc *f, fl_kblock body) {
  fl_kdefs *d = fl_karena_new(a, sizeof *d);
  if (!d) return NULL;
  *d = (fl_kdefs){ .f = f, .body = body, .n_vars = f->n_vars };
  d->var = fl_karena_new(a, ((size_t)f->n_vars + 1) * sizeof *d->var);
  d->loop_order = fl_karena_new(a, ((size_t)f->n_loops + 1) * sizeof *d->loop_order);
  if (!d->var || !d->loop_order) return NULL;
  for (int i = 0; i < f->n_vars; i++) d->var[i].param = f->vars[i].param >= 0;
  finder x = { .d = d };
  find(&x, body, -1, 0);
  find_zeros(&x);
  return d;
}

int fl_kdef_gives(const fl_kdefs *d, const fl_kexpr *x, int32_t v) {
  if (x->kind == FL_KX_SPECIAL || x->kind == FL_KX_LOAD) return 0;
  if (x->var >= 0 && x->var != v && !fl_kdef_is_given(d, x->var)) return 0;
  for (int i = 0; i < x->n; i++)
    if (!fl_kdef_gives(d, x->x[i], v)) return 0;
  return 1;
}

int fl_kdef_is_counter(const fl_kdefs *d, int32_t var) {
  const fl_kdef *v = &d->var[var];
  return v->count == 2 && v->step && !v->param && v->order < d->loop_order[v->step_loop];
}

/* ---- counting --------------------------------------------------------------------------- */

static int is_wide(int type) { return type >= FL_KT_I32 && type <= FL_KT_U64; }

/* x without its outer conversions to integers of 32 bits and more. *exact: set to 0 if they lose
** bits of a number of 'type'. */
static const fl_kexpr *uncast(const fl_kexpr *x, int type, int *exact) {
  for (; x->kind == FL_KX_CAST && is_wide(x->type); x = x->x[0])
    *exact &= fl_kt_size(x->type) >= fl_kt_size(type);
  *exact &= is_wide(x->type) && fl_kt_size(x->type) >= fl_kt_size(type);
  return x;
}

int fl_kstep_of(const fl_kfunc *f, const fl_kstmt *s, fl_kstep *out) {
  if (s->kind != FL_KS_ASSIGN || !is_wide(f->vars[s->var].type)) return 0;
  const int type = f->vars[s->var].type;
  int exact = 1;
  const fl_kexpr *x = uncast(s->x[0], type, &exact);
  if (x->kind != FL_KX_BINARY || (x->op != FL_KO_ADD && x->op != FL_KO_SUB)) return 0;
  for (int i = 0; i < 1 + (x->op == FL_KO_ADD); i++) {
    int same = exact;
    const fl_kexpr *v = uncast(x->x[i], type, &same);
    if (v->kind != FL_KX_VAR || v->var != s->var) continue;
    *out = (fl_kstep){ s->var, x->op, x->x[!i], same };
    return 1;
  }
  return 0;
}

int fl_kop_mirrored(int op) {
  return op == FL_KO_LT ? FL_KO_GT : op == FL_KO_GT ? FL_KO_LT : op == FL_KO_LE ? FL_KO_GE
       : op == FL_KO_GE ? FL_KO_LE : op;
}

int fl_kop_negated(int op) {
  static const uint8_t other[FL_KO_COUNT] = {
    [FL_KO_LT] = FL_KO_GE, [FL_KO_GE] = FL_KO_LT, [FL_KO_LE] = FL_KO_GT, [FL_KO_GT] = FL_KO_LE,
    [FL_KO_EQ] = FL_KO_NE, [FL_KO_NE] = FL_KO_EQ };
  return other[op];
}

/* fl_kcount_of, with c as the condition. */
static int count_by(const fl_kfunc *f, const fl_kstmt *loop, const fl_kexpr *c, fl_kcount *out) {
  const fl_kstmt *step = loop->other.first;
  if (loop->post || !c || !step || step->next || !fl_kstep_of(f, step, &out->step)) return 0;
  if (c->kind != FL_KX_BINARY || c->op < FL_KO_LT || c->op > FL_KO_NE) return 0;
  for (int i = 0; i < 2; i++) {
    int exact = 1;
    const fl_kexpr *v = uncast(c->x[i], FL_KT_I32, &exact);
    if (v->kind != FL_KX_VAR || v->var != out->step.var) continue;
    out->op = i ? fl_kop_mirrored(c->op) : c->op;
    out->direct = v == c->x[i];
    out->bound = c->x[!i];
    return 1;
  }
  return 0;
}

int fl_kcount_of(const fl_kfunc *f, const fl_kstmt *loop, fl_kcount *out) {
  return count_by(f, loop, loop->x[0], out);
}

static int count_most(const fl_kfunc *f, const fl_kstmt *loop, const fl_kexpr *c, fl_kcount *out) {
  if (c && c->kind == FL_KX_BINARY && c->op == FL_KO_LAND)
    return count_most(f, loop, c->x[0], out) || count_most(f, loop, c->x[1], out);
  return count_by(f, loop, c, out);
}

int fl_kcount_most(const fl_kfunc *f, const fl_kstmt *loop, fl_kcount *out) {
  return count_most(f, loop, loop->x[0], out);
}

/* ---- numbers of rounds ---------------------------------------------------------------------- */

int fl_kexpr_is_int(const fl_kexpr *x) { return x->kind == FL_KX_CONST && fl_kt_is_int(x->type); }

static int goes_on(const fl_krange *c, int64_t v) {
  switch (c->op) {
  case FL_KO_LT: return v < c->bound;
  case FL_KO_LE: return v <= c->bound;
  case FL_KO_GT: return v > c->bound;
  case FL_KO_GE: return v >= c->bound;
  case FL_KO_NE: return v != c->bound;
  default: return v == c->bound;
  }
}

static int rounds(const fl_krange *c, int most, int is_signed) {
  int64_t v = c->first;
  if (c->step > INT32_MAX || c->step < INT32_MIN) return -1;
  for (int n = 0; n <= most; n++, v += c->step) {
    if (v > INT32_MAX || v < (is_signed ? INT32_MIN : 0)) return -1;
    if (!goes_on(c, v)) return n;
  }
  return -1;
}

int fl_krange_of(const fl_kfunc *f, const fl_kstmt *before, const fl_kstmt *s, int most,
                 fl_krange *out) {
  fl_kcount n;
  if (s->kind != FL_KS_LOOP || !before || before->kind != FL_KS_ASSIGN ||
      !fl_kexpr_is_int(before->x[0]) || !fl_kcount_of(f, s, &n) || n.step.var != before->var ||
      !n.step.exact || !n.direct || !fl_kexpr_is_int(n.bound) || !fl_kexpr_is_int(n.step.by) ||
      fl_kassigned(&s->body, n.step.var, NULL))
    return -1;
  const int64_t by = n.step.by->value.i;
  *out = (fl_krange){ n.step.var, before->x[0]->value.i, n.bound->value.i,
                      n.step.op == FL_KO_ADD ? by : -by, n.op };
  return rounds(out, most, fl_ktypes[f->vars[out->var].type].is_signed);
}
