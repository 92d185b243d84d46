/*
** Statements, forward and reverse. For each one: 'forward' code, which redoes what the derivative
** needs and keeps values about to be lost, and 'reverse' code, which runs in the opposite order
** and finds the state as it was before the statement.
**
** 'keep' holds the variables whose value at this point the reverse code of earlier statements
** will read: an assignment to one of them, or to a variable that its adjoint reads, saves the old
** value in a fresh variable, and the reverse code puts it back. No other assignment saves a value.
** DECLs are dropped: saved state must live from the forward to the reverse code.
*/
#include "kernel/ad/ad_loop.h"

fl_kstmt *fl_kad_copy(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s) {
  fl_kstmt *r = fl_kstmt_new(d->a, b, s->kind, s->line);
  if (!r) return NULL;
  fl_kstmt *const next = r->next;
  *r = *s;
  r->next = next;
  r->note = NULL;
  r->body.first = r->body.last = r->other.first = r->other.last = NULL;
  fl_kad_see_bits(d, r);
  return r;
}

void fl_kad_primal(fl_kad_state *d, const fl_kblock *b, fl_kblock *out) {
  for (const fl_kstmt *s = b->first; s && !d->a->failed; s = s->next) {
    if (!(fl_kad_marks(s) & FL_KN_FORWARD)) continue;
    fl_kad_list_uses(d, out, s);
    fl_kstmt *r = fl_kad_is_drawn(d, s) ? NULL : fl_kad_copy(d, out, s);
    fl_kexpr *condition = s->kind == FL_KS_LOOP ? s->x[0] : NULL;
    if (!r) return;
    fl_kad_next_phase(d, out, s);
    if (!s->post) fl_kad_list_loads(d, &r->body, condition, s->line);
    fl_kad_primal(d, &s->body, &r->body);
    fl_kad_primal(d, &s->other, &r->other);
    fl_kad_list_loads(d, s->post ? &r->other : out, condition, s->line);
  }
}

int fl_kad_redo(fl_kad_state *d, const fl_kstmt *s, int v, fl_kset keep, fl_kblock *f,
                fl_kblock *r) {
  fl_kset reads = fl_kset_new(d);
  if (!reads) return 0;
  fl_kad_reads(d, reads, s);
  if (fl_kad_marks(s) & FL_KN_FORWARD) {
    if (fl_kset_has(reads, v) || fl_kset_has(keep, v)) {
      const int old = fl_kad_local(d, d->f->vars[v].type, fl_kad_name(d, "old_", v));
      kx_set(d, f, old, kx_var(d, v));
      kx_set(d, r, v, kx_var(d, old));
    }
    fl_kset_del(keep, v);
    fl_kad_copy(d, f, s);
    fl_kset_del(reads, v);
  }
  fl_kset_join(d, keep, reads);
  return fl_kad_marks(s) & FL_KN_REVERSE && d->shadow[v] >= 0;
}

fl_kexpr *fl_kad_take(fl_kad_state *d, int v, fl_kblock *r) {
  const int dv = d->shadow[v], t = fl_ktemp(d->f, d->f->vars[dv].type);
  if (t < 0) return NULL;
  kx_set(d, r, t, kx_var(d, dv));
  kx_set(d, r, dv, fl_kexpr_zero(d->a, d->f->vars[dv].type));
  return kx_var(d, t);
}

/* Adds to r the adjoint of x, the value that is assigned or stored to v, with the cotangent 'seed'.
** result: where the value is found; NULL: nowhere. If v is a strong_var, 0 times a slope is 0
** there. */
static void value(fl_kad_state *d, int v, const fl_kexpr *x, fl_kexpr *result, fl_kexpr *seed,
                  fl_kblock *r) {
  d->strong = d->strong_var[v];
  fl_kad_expr_of(d, r, x, result, seed);
  d->strong = 0;
}

static void assign(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  const int v = s->var;
  if (!fl_kad_redo(d, s, v, keep, f, r)) return;
  const fl_kexpr *added = fl_kad_added(d, s);
  if (added) value(d, v, added, NULL, kx_var(d, d->shadow[v]), r);
  else if (fl_kad_flows(d->active, s->x[0])) value(d, v, s->x[0], NULL, fl_kad_take(d, v, r), r);
  else kx_set(d, r, d->shadow[v], fl_kexpr_zero(d->a, d->f->vars[d->shadow[v]].type));
}

static int meets(const fl_kad_state *d, const fl_kstmt *s) {
  if (s->kind != FL_KS_STORE || d->f->vars[s->var].kind == FL_KV_ARRAY) return 0;
  return fl_kad_meets_of(d, s->site);
}

/* May several threads take the cotangent of an element that s writes at the same time? In shared
** memory the reverse code has a barrier wherever the source has one. */
static int meets_in_reverse(const fl_kad_state *d, const fl_kstmt *s) {
  const int shared = d->f->vars[s->var].kind == FL_KV_SHARED;
  return (meets(d, s) & (shared ? FL_KAD_MEETS_AT_ONCE : FL_KAD_MEETS)) != 0;
}

/* Returns the cotangent of the element that s writes; NULL: what s writes carries no derivative, or
** no memory. With 'clear' (s overwrites the element) the cotangent is then cleared, in the same
** atomic operation if other threads may take it too. */
static fl_kexpr *take_element(fl_kad_state *d, const fl_kstmt *s, fl_kblock *r, int clear) {
  const int to = d->shadow[s->var];
  fl_kexpr *at = fl_kad_at(d, s->var, s->x[0]), *seed = NULL;
  const int flows = fl_kad_flows(d->active, s->x[1]);
  if (clear && meets_in_reverse(d, s)) {
    const int type = d->f->vars[to].type, old = flows ? fl_ktemp(d->f, type) : -1;
    if (!d->res->taken_line) d->res->taken_line = s->line ? s->line : 1;
    if (!fl_kstmt_atomic(d->f, r, FL_KA_EXCH, FL_KM_FREE, to, at, fl_kexpr_zero(d->a, type), old) ||
        old < 0)
      return NULL;
    return fl_kexpr_cast(d->a, fl_kad_type(type), kx_var(d, old));
  }
  if (flows)
    seed = fl_kad_atom(d, r, fl_kexpr_cast(d->a, fl_kad_type(d->f->vars[to].type),
                                           fl_kexpr_load(d->f, to, at)));
  if (clear) fl_kstmt_store(d->f, r, to, at, fl_kexpr_zero(d->a, d->f->vars[to].type));
  return fl_kad_take_carries(d, s, seed, r);
}

/* May each thread that wrote an element by s restore its old value in the reverse code? It may if
** no other thread writes the element without a barrier in between. Otherwise other threads may
** still read the new value, so the kernel is derived again with the array in in_thread: then
** threads keep in registers what they have read. If the array is in in_thread already, the kernel
** is refused, with two exceptions: f claims the element (ad_list.c); or only stores with another
** index expression may write the element, where different index expressions are taken to be
** different elements (in global memory, and where iterations are undone). */
static int is_own_to_restore(fl_kad_state *d, const fl_kstmt *s, fl_kblock *f) {
  const int how = meets(d, s), parts = d->f->vars[s->var].kind == FL_KV_POINTER
                                       || (d->taken_back && fl_kset_has(d->taken_back, s->var));
  if (!(how & FL_KAD_MEETS_AT_ONCE) || (d->listed && fl_kset_has(d->listed, s->var)) ||
      fl_kad_claim(d, f, s)) return 1;
  if (!d->in_thread || !d->in_thread[s->var]) d->again = s->var + 1;
  else if (parts && !(how & FL_KAD_MEETS_ALIKE)) return 1;
  else
    fl_kad_refuse(d, s->line,
                  "an element of '%s' that several threads may write and whose old value is needed "
                  "(let one thread write it)", d->f->vars[s->var].source);
  return 0;
}

/* The element that s writes, if it holds the value of s after the launch and is read from there;
** else NULL. */
static fl_kexpr *lasting_element(fl_kad_state *d, const fl_kstmt *s) {
  const int lasts = d->lasting[s->var] && fl_kfact_of(d->facts, s->site)->lasts;
  return lasts && s->x[1]->type == d->f->vars[s->var].type ? fl_kexpr_load(d->f, s->var, s->x[0])
                                                           : NULL;
}

/* The index of store s, for code before and after it: in a variable, which f sets, if the index
** reads the array, as in l[l[i]] = 5. */
static fl_kexpr *index_of(fl_kad_state *d, const fl_kstmt *s, fl_kblock *f) {
  if (!fl_kreads(s->x[0], s->var)) return s->x[0];
  const int at = fl_kad_local(d, s->x[0]->type, fl_kad_name(d, "at_", s->var));
  kx_set(d, f, at, s->x[0]);
  return kx_var(d, at);
}

static void store(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  fl_kset reads = fl_kset_new(d);
  const int marks = fl_kad_marks(s), v = s->var;
  if (!reads) return;
  fl_kad_reads(d, reads, s);
  if (marks & FL_KN_FORWARD) {
    const int wished = d->wished && fl_kset_has(d->wished, v) &&
                       !(meets(d, s) & FL_KAD_MEETS_AT_ONCE);
    if (wished || fl_kset_has(reads, v) || fl_kset_has(keep, v)) {
      if (!is_own_to_restore(d, s, f)) return;
      const int old = fl_kad_local(d, d->f->vars[v].type, fl_kad_name(d, "old_", v));
      fl_kexpr *at = index_of(d, s, f);
      kx_set(d, f, old, fl_kexpr_load(d->f, v, at));
      fl_kstmt_store(d->f, r, v, at, kx_var(d, old));
      fl_kad_values(reads, s->x[0]);
    }
    fl_kad_copy(d, f, s);
  }
  fl_kset_join(d, keep, reads);
  if (!(marks & FL_KN_REVERSE) || d->shadow[v] < 0) return;
  fl_kexpr *seed = take_element(d, s, r, !s->accumulate && d->zeroes[v]);
  value(d, v, s->x[1], lasting_element(d, s), seed, r);
}

static void atomic(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  const int marks = fl_kad_marks(s), v = s->var;
  fl_kset reads = fl_kset_new(d);
  if (!reads || fl_kad_is_drawn(d, s)) return;
  if (marks & FL_KN_FORWARD) {
    const int held = d->in_thread && d->in_thread[v];
    if (fl_kset_has(keep, v) && !(held && fl_kad_is_one_phase(d, v))) {
      if (!held) d->again = v + 1;
      else
        fl_kad_refuse(d, s->line, "an atomic operation on '%s', whose old values are needed again "
                    "(use a second array),", d->f->vars[v].source);
      return;
    }
    fl_kad_copy(d, f, s);
  }
  fl_kad_reads(d, reads, s);
  fl_kset_join(d, keep, reads);
  if (!(marks & FL_KN_REVERSE) || d->shadow[v] < 0) return;
  if (fl_kad_won(d, v)) {
    fl_kad_winner(d, s, r);
    return;
  }
  if (s->op != FL_KA_ADD && s->op != FL_KA_SUB) {
    fl_kad_refuse(d, s->line, "%s on '%s'", fl_katomic_text[s->op], d->f->vars[v].source);
    return;
  }
  fl_kexpr *seed = take_element(d, s, r, 0);
  if (!seed) return;
  fl_kad_expr(d, r, s->x[1], s->op == FL_KA_ADD ? seed : fl_kexpr_unary(d->a, FL_KO_NEG, seed));
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
  if (d->blocks) fl_kad_list_uses(d, f, s);
  switch (s->kind) {
  case FL_KS_ASSIGN: assign(d, s, keep, f, r); return;
  case FL_KS_STORE: store(d, s, keep, f, r); return;
  case FL_KS_ATOMIC: atomic(d, s, keep, f, r); return;
  case FL_KS_SHUFFLE: case FL_KS_VOTE: fl_kad_warp(d, s, keep, f, r); return;
  case FL_KS_IF: branch(d, s, keep, f, r); return;
  case FL_KS_LOOP: fl_kad_loop(d, s, keep, f, r); return;
  case FL_KS_BARRIER:
    fl_kad_copy(d, f, s);
    fl_kad_next_phase(d, f, s);
    fl_kad_copy(d, r, s);
    fl_kad_next_phase(d, r, s);
    return;
  case FL_KS_RETURN: fl_kad_copy(d, f, s); return;
  default: return;
  }
}

/* ---- shared arrays kept whole ------------------------------------------------------------ */

typedef struct meeting { const fl_kad_state *d; int var; } meeting;

static int is_meeting(const void *of, const fl_kstmt *s) {
  const meeting *m = of;
  return s->var == m->var && fl_kad_marks(s) & FL_KN_FORWARD &&
         meets(m->d, s) & FL_KAD_MEETS_AT_ONCE;
}

/* Adds code to f that saves array v, and code to 'back' that restores it, by all threads of the
** block. */
static void keep_whole(fl_kad_state *d, int v, fl_kblock *f, fl_kblock *back) {
  int32_t region = -1;
  const int kept = fl_kloop_room(d, v, "kept_", 1, &region);
  if (kept < 0) return;
  fl_kexpr *at = fl_kloop_region(d, v, region < 0 ? NULL : kx_int(d, region));
  fl_kad_move(d, f, v, kept, at, 0);
  fl_kad_move(d, back, v, kept, at, 1);
}

/* Saves whole shared arrays before s, and restores them after its reverse code ('back'): those of
** which several threads may write an element whose old value is needed. All threads of the block
** reach s. Does nothing if s has a barrier; static arrays of more than FL_KLOOP_SHARED / 4 bytes
** are left out. */
static void keep_around(fl_kad_state *d, fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *back) {
  if (s->kind == FL_KS_BARRIER || fl_kad_has_barrier(&s->body) || fl_kad_has_barrier(&s->other))
    return;
  for (int v = 0; v < d->n0 && d->in_thread; v++) {
    const fl_kvar x = d->f->vars[v];
    const meeting m = {d, v};
    if (x.kind != FL_KV_SHARED || !d->in_thread[v] || !fl_kset_has(keep, v)) continue;
    if (!fl_kstmt_any(s, is_meeting, &m)) continue;
    keep_whole(d, v, f, back);
    fl_kset_del(keep, v);
  }
}

void fl_kad_sweep(fl_kad_state *d, const fl_kblock *b, fl_kset keep, fl_kblock *forward,
                  fl_kblock *reverse) {
  const int together = fl_kwaits(*b);          /* a barrier in b: all threads are there */
  for (fl_kstmt *s = b->first; s && !fl_kad_dead(d); s = s->next) {
    fl_kblock f = {NULL, NULL}, r = {NULL, NULL}, back = {NULL, NULL};
    if (!fl_kad_marks(s)) continue;
    if (together) keep_around(d, s, keep, &f, &back);
    one(d, s, keep, &f, &r);
    fl_kblock_append(&r, back);
    fl_kblock_append(forward, f);
    fl_kblock_append(&r, *reverse);
    *reverse = r;
  }
}
