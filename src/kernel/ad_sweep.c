/*
** Statements, there and back. For each one: 'forward' code, which redoes what the derivative
** needs and keeps values about to be lost, and 'reverse' code, which runs in the opposite order
** and finds the state as it was before the statement.
**
** 'keep' holds the variables whose value at this point the reverse code of earlier statements
** will read: an assignment to one of them saves the old value in a fresh variable, and the
** reverse code puts it back. Nothing else is saved. DECLs are dropped: saved state must live
** from the forward to the reverse code.
*/
#include "kernel/ad_state.h"

void fl_kad_prepend(fl_kblock *b, fl_kblock first) {
  fl_kblock_append(&first, *b);
  if (first.first) *b = first;
}

/* A copy of one statement without its parts. */
static fl_kstmt *copy(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s) {
  fl_kstmt *r = fl_kstmt_new(d->a, b, s->kind, s->line);
  if (!r) return NULL;
  fl_kstmt *const next = r->next;
  *r = *s;
  r->next = next;
  r->note = NULL;
  r->body.first = r->body.last = r->other.first = r->other.last = NULL;
  return r;
}

void fl_kad_primal(fl_kad_state *d, const fl_kblock *b, fl_kblock *out) {
  for (const fl_kstmt *s = b->first; s && !d->a->failed; s = s->next) {
    if (!(fl_kad_marks(s) & FL_KN_FORWARD)) continue;
    fl_kstmt *r = copy(d, out, s);
    if (!r) return;
    fl_kad_primal(d, &s->body, &r->body);
    fl_kad_primal(d, &s->other, &r->other);
  }
}

/* The old value of v is kept in *f and put back at the begin of *r, where it will be read. */
static void save_variable(fl_kad_state *d, int v, int read, fl_kset keep, fl_kblock *f,
                          fl_kblock *r) {
  if (read || fl_kset_has(keep, v)) {
    const int old = fl_kad_local(d, d->f->vars[v].type, fl_kad_name(d, "old_", v));
    kx_set(d, f, old, kx_var(d, v));
    kx_set(d, r, v, kx_var(d, old));
  }
  fl_kset_del(keep, v);
}

static void assign(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kset reads = fl_kset_new(d);
  const int marks = fl_kad_marks(s), v = s->var;
  if (!reads) return;
  fl_kad_reads(d, reads, s);
  if (marks & FL_KN_FORWARD) {
    save_variable(d, v, fl_kset_has(reads, v), keep, f, r);
    copy(d, f, s);
    fl_kset_del(reads, v);
  }
  fl_kset_join(d, keep, reads);
  if (!(marks & FL_KN_REVERSE) || d->shadow[v] < 0) return;
  const int dv = d->shadow[v];
  fl_kexpr *added = fl_kad_added(d, s), *seed = kx_var(d, dv);
  if (added) {
    fl_kad_expr(d, r, added, seed);
    return;
  }
  if (fl_kad_flows(d->active, s->x[0])) {
    const int t = fl_ktemp(d->f, d->f->vars[dv].type);
    if (t < 0) return;
    kx_set(d, r, t, seed);
    seed = kx_var(d, t);
  }
  kx_set(d, r, dv, fl_kexpr_zero(d->a, d->f->vars[dv].type));
  fl_kad_expr(d, r, s->x[0], seed);
}

/* The cotangent of the element that s writes, in a variable; cleared where s overwrites it. */
static fl_kexpr *take_element(fl_kad_state *d, const fl_kstmt *s, fl_kblock *r, int clear) {
  const int to = d->shadow[s->var];
  fl_kexpr *at = fl_kad_at(d, s->var, s->x[0]), *seed = NULL;
  if (fl_kad_flows(d->active, s->x[1]))
    seed = fl_kad_atom(d, r, fl_kexpr_cast(d->a, fl_kad_type(d->f->vars[to].type),
                                           fl_kexpr_load(d->f, to, at)));
  if (clear) fl_kstmt_store(d->f, r, to, at, fl_kexpr_zero(d->a, d->f->vars[to].type));
  return seed;
}

static void store(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kset reads = fl_kset_new(d);
  const int marks = fl_kad_marks(s), v = s->var;
  if (!reads) return;
  fl_kad_reads(d, reads, s);
  if (marks & FL_KN_FORWARD) {
    if (fl_kset_has(reads, v) || fl_kset_has(keep, v)) {
      const int old = fl_kad_local(d, d->f->vars[v].type, fl_kad_name(d, "old_", v));
      kx_set(d, f, old, fl_kexpr_load(d->f, v, s->x[0]));
      fl_kstmt_store(d->f, r, v, s->x[0], kx_var(d, old));
      fl_kad_values(reads, s->x[0]);
    }
    copy(d, f, s);
  }
  fl_kset_join(d, keep, reads);
  if (!(marks & FL_KN_REVERSE) || d->shadow[v] < 0) return;
  fl_kexpr *seed = take_element(d, s, r, !s->accumulate && d->zeroes[v]);
  if (seed) fl_kad_expr(d, r, s->x[1], seed);
}

static void atomic(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  const int marks = fl_kad_marks(s), v = s->var;
  const int used = s->result >= 0 && (marks & FL_KN_FORWARD || d->active[s->result]);
  fl_kset reads = fl_kset_new(d);
  if (!reads) return;
  if (used) {
    fl_kad_refuse(d, s->line, "the result of an atomic operation on '%s' (it depends on the "
                  "order of the threads)", d->f->vars[v].source);
    return;
  }
  if (marks & FL_KN_FORWARD) {
    if (d->f->vars[v].kind != FL_KV_SHARED || fl_kset_has(keep, v)) {
      fl_kad_refuse(d, s->line, "an atomic operation on '%s', whose values are read again,",
                    d->f->vars[v].source);
      return;
    }
    copy(d, f, s);
  }
  fl_kad_reads(d, reads, s);
  fl_kset_join(d, keep, reads);
  if (!(marks & FL_KN_REVERSE) || d->shadow[v] < 0) return;
  if (s->op != FL_KA_ADD && s->op != FL_KA_SUB) {
    static const char *const names[] = {"Add", "Sub", "Max", "Min", "And", "Or", "Xor", "Exch",
                                        "CAS", "Inc", "Dec"};
    fl_kad_refuse(d, s->line, "atomic%s on '%s'", names[s->op], d->f->vars[v].source);
    return;
  }
  fl_kexpr *seed = take_element(d, s, r, 0);
  if (!seed) return;
  fl_kad_expr(d, r, s->x[1], s->op == FL_KA_ADD ? seed : fl_kexpr_unary(d->a, FL_KO_NEG, seed));
}

/* ---- warps ------------------------------------------------------------------------------ */

static fl_kexpr *cast_i32(fl_kad_state *d, fl_kexpr *x) {
  return fl_kexpr_cast(d->a, FL_KT_I32, x);
}

/* The number of this lane in its group of 'width' lanes (1-D numbering of the block). */
static fl_kexpr *lane_of(fl_kad_state *d, fl_kexpr *width) {
  fl_karena *a = d->a;
  fl_kexpr *row = kx_op(d, FL_KO_ADD, fl_kexpr_special(a, FL_KP_TID_Y),
                        kx_op(d, FL_KO_MUL, fl_kexpr_special(a, FL_KP_BDIM_Y),
                              fl_kexpr_special(a, FL_KP_TID_Z)));
  fl_kexpr *t = kx_op(d, FL_KO_ADD, fl_kexpr_special(a, FL_KP_TID_X),
                      kx_op(d, FL_KO_MUL, fl_kexpr_special(a, FL_KP_BDIM_X), row));
  return kx_op(d, FL_KO_AND, cast_i32(d, t),
               kx_op(d, FL_KO_SUB, width, fl_kexpr_int(a, FL_KT_I32, 1)));
}

static int shuffled(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s, int op, fl_kexpr *x,
                    fl_kexpr *lane) {
  fl_kstmt *r = copy(d, b, s);
  const int t = x ? fl_ktemp(d->f, x->type) : -1;
  if (!r || t < 0) return -1;
  r->op = (uint8_t)op;
  r->x[1] = x;
  r->x[2] = lane;
  r->result = t;
  return t;
}

/* All lanes that took this lane's value give their derivative back: up and down are each
** other's opposites, with the edge lanes, which kept their own value, apart. */
static fl_kexpr *shuffle_back(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s, fl_kexpr *seed) {
  fl_karena *a = d->a;
  if (!seed) return NULL;
  fl_kexpr *zero = fl_kexpr_zero(a, seed->type), *width = cast_i32(d, s->x[3]);
  fl_kexpr *by = fl_kad_atom(d, b, cast_i32(d, s->x[2]));
  fl_kexpr *lane = fl_kad_atom(d, b, lane_of(d, width));
  if (s->op == FL_KSH_XOR)
    return kx_var(d, shuffled(d, b, s, FL_KSH_XOR, seed, s->x[2]));
  if (s->op == FL_KSH_IDX) {
    const int sum = fl_ktemp(d->f, seed->type), j = fl_ktemp(d->f, FL_KT_I32);
    if (sum < 0 || j < 0) return NULL;
    kx_set(d, b, sum, zero);
    kx_set(d, b, j, fl_kexpr_int(a, FL_KT_I32, 0));
    fl_kstmt *loop = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_LT, kx_var(d, j), width));
    if (!loop) return NULL;
    fl_kexpr *from = kx_op(d, FL_KO_AND, by, kx_op(d, FL_KO_SUB, width,
                                                   fl_kexpr_int(a, FL_KT_I32, 1)));
    const int g = shuffled(d, &loop->body, s, FL_KSH_IDX, seed, kx_var(d, j));
    const int l = shuffled(d, &loop->body, s, FL_KSH_IDX, from, kx_var(d, j));
    if (g < 0 || l < 0) return NULL;
    fl_kexpr *mine = fl_kexpr_select(a, kx_op(d, FL_KO_EQ, kx_var(d, l), lane), kx_var(d, g), zero);
    kx_set(d, &loop->body, sum, kx_op(d, FL_KO_ADD, kx_var(d, sum), mine));
    kx_set(d, &loop->other, j, kx_op(d, FL_KO_ADD, kx_var(d, j), fl_kexpr_int(a, FL_KT_I32, 1)));
    return kx_var(d, sum);
  }
  const int down = s->op == FL_KSH_DOWN;
  const int t = shuffled(d, b, s, down ? FL_KSH_UP : FL_KSH_DOWN, seed, s->x[2]);
  fl_kexpr *before = kx_op(d, FL_KO_GE, lane, by);                 /* lane - by is in the group */
  fl_kexpr *behind = kx_op(d, FL_KO_LT, kx_op(d, FL_KO_ADD, lane, by), width);
  if (t < 0) return NULL;
  fl_kexpr *given = fl_kexpr_select(a, down ? before : behind, kx_var(d, t), zero);
  fl_kexpr *own = fl_kexpr_select(a, down ? behind : before, zero, seed);
  return kx_op(d, FL_KO_ADD, given, own);
}

static int full_mask(const fl_kstmt *s) {
  return s->x[0] && s->x[0]->kind == FL_KX_CONST && (uint32_t)s->x[0]->value.i == UINT32_MAX;
}

/* XOR must stay inside its group: a constant below a constant width. */
static int can_shuffle(const fl_kstmt *s) {
  if (!full_mask(s) || !s->x[3] || s->x[3]->kind != FL_KX_CONST) return 0;
  const int64_t width = s->x[3]->value.i;
  if (width < 1 || width > 32 || (width & (width - 1))) return 0;
  if (s->op != FL_KSH_XOR || width == 32) return 1;
  return s->x[2]->kind == FL_KX_CONST && s->x[2]->value.i >= 0 && s->x[2]->value.i < width;
}

static void warp(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  const int marks = fl_kad_marks(s), v = s->result;
  fl_kset reads = fl_kset_new(d);
  if (!reads || v < 0) return;
  fl_kad_reads(d, reads, s);
  if (marks & FL_KN_FORWARD) {
    save_variable(d, v, fl_kset_has(reads, v), keep, f, r);
    copy(d, f, s);
    fl_kset_del(reads, v);
  }
  fl_kset_join(d, keep, reads);
  if (!(marks & FL_KN_REVERSE) || d->shadow[v] < 0 || s->kind != FL_KS_SHUFFLE) return;
  if (!can_shuffle(s)) {
    fl_kad_refuse(d, s->line, "a shuffle whose mask is not ~0u, or whose width is not constant,");
    return;
  }
  const int dv = d->shadow[v], t = fl_ktemp(d->f, d->f->vars[dv].type);
  if (t < 0) return;
  kx_set(d, r, t, kx_var(d, dv));
  kx_set(d, r, dv, fl_kexpr_zero(d->a, d->f->vars[dv].type));
  fl_kexpr *back = fl_kad_atom(d, r, shuffle_back(d, r, s, kx_var(d, t)));
  if (back) fl_kad_expr(d, r, s->x[1], back);
}

/* ---- blocks ----------------------------------------------------------------------------- */

static void branch(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kset other = fl_kset_copy(d, keep);
  const int top = d->top, c = fl_kad_local(d, FL_KT_BOOL, "branch");
  fl_kblock ft = {0}, fe = {0}, rt = {0}, re = {0};
  if (!other) return;
  d->top = 0;
  fl_kad_sweep(d, &s->body, keep, &ft, &rt);
  fl_kad_sweep(d, &s->other, other, &fe, &re);
  d->top = (uint8_t)top;
  fl_kset_join(d, keep, other);
  if (!ft.first && !fe.first && !rt.first && !re.first) return;
  kx_set(d, f, c, s->x[0]);
  fl_kstmt *fi = ft.first || fe.first ? fl_kstmt_if(d->f, f, kx_var(d, c)) : NULL;
  fl_kstmt *ri = rt.first || re.first ? fl_kstmt_if(d->f, r, kx_var(d, c)) : NULL;
  if (fi) fi->body = ft, fi->other = fe;
  if (ri) ri->body = rt, ri->other = re;
}

static void one(fl_kad_state *d, fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  switch (s->kind) {
  case FL_KS_ASSIGN: assign(d, s, keep, f, r); return;
  case FL_KS_STORE: store(d, s, keep, f, r); return;
  case FL_KS_ATOMIC: atomic(d, s, keep, f, r); return;
  case FL_KS_SHUFFLE: case FL_KS_VOTE: warp(d, s, keep, f, r); return;
  case FL_KS_IF: branch(d, s, keep, f, r); return;
  case FL_KS_LOOP: fl_kad_loop(d, s, keep, f, r); return;
  case FL_KS_BARRIER:
    copy(d, f, s);
    copy(d, r, s);
    return;
  case FL_KS_RETURN: copy(d, f, s); return;
  default: return;
  }
}

void fl_kad_sweep(fl_kad_state *d, const fl_kblock *b, fl_kset keep, fl_kblock *forward,
                  fl_kblock *reverse) {
  for (fl_kstmt *s = b->first; s && !fl_kad_dead(d); s = s->next) {
    fl_kblock f = {NULL, NULL}, r = {NULL, NULL};
    if (!fl_kad_marks(s)) continue;
    one(d, s, keep, &f, &r);
    fl_kblock_append(forward, f);
    fl_kad_prepend(reverse, r);
  }
}
