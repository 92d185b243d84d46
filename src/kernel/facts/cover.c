/*
** Stores that surely happen (cover.h): one walk in program order over all statements that every
** thread reaches. Integers are followed as polynomials in facts of the launch (form.h), conditions
** as lists of inequalities; all else is unknown. A store under known conditions is kept with them;
** one under an unknown condition counts only if the other branch stores to the same element. After
** a jump nothing is sure until the end of the outermost construct that it, or a later jump, leaves;
** after a return under a known condition the opposite of the condition guards all that follows.
*/
#include "kernel/facts/access.h"
#include "kernel/facts/cover_form.h"
#include "kernel/facts/defs.h"
#include <stdlib.h>
#include <string.h>

typedef fl_kpoly poly;
typedef struct guards { int n; fl_kc_guard at[FL_KC_GUARDS]; } guards;
/* A BOOL: under which guards it is false ([0]) and true ([1]), where that is known. */
typedef struct cond { uint8_t known[2]; guards when[2]; } cond;
typedef struct value { const poly *p; const cond *c; } value;         /* both NULL: unknown */

/* Constructs are loops and blocks around the statement that is walked, counted from the outermost,
** 1; 0 is the function. NOWHERE: no jump. */
enum { NOWHERE = 1 << 20, MAX_CONSTRUCTS = 64 };

typedef struct walk {
  fl_karena *a;
  const fl_kfunc *f;
  fl_kcover *out;
  const uint8_t *fit;        /* by variable: an output that is only stored to, and read where the
                             ** thread has stored (find_fit) */
  value *env;                /* by variable: its value now */
  guards now;                /* which all threads pass that reach this statement */
  fl_kc_store *list;         /* newest first */
  int32_t label[MAX_CONSTRUCTS];   /* by construct: its label */
  uint8_t is_loop[MAX_CONSTRUCTS];
  int depth;                 /* the innermost construct */
  int branches;              /* branches and loops around */
  int off;                   /* not 0 inside a loop whose iterations are not known */
  int32_t n_loops;           /* counters given so far */
} walk;

/* ---- forms --------------------------------------------------------------------------- */

/* A copy of p that stays; NULL: p is unknown or 'unsure', or memory is out. */
static const poly *kept(walk *w, const poly *p) {
  if (p->bad || p->unsure) return NULL;
  poly *r = fl_karena_new(w->a, sizeof *r);
  if (r) *r = *p;
  return r;
}

static const poly *symbol(walk *w, int32_t s) {
  const poly p = fl_kpoly_symbol(s);
  return kept(w, &p);
}

static int is_index_type(int type) {
  return type == FL_KT_I32 || type == FL_KT_U32 || type == FL_KT_I64 || type == FL_KT_U64;
}

/* The polynomial of a variable: that of the value assigned to it last. */
static poly of_variable(const fl_kreader *r, int32_t var, int depth) {
  const walk *w = r->arg;
  (void)depth;
  return w->env[var].p ? *w->env[var].p : (poly){ .bad = 1 };
}

/* The polynomial of x; NULL: unknown. */
static const poly *poly_of(walk *w, const fl_kexpr *x) {
  const fl_kreader r = { .var = of_variable, .arg = w };
  if (!x || !is_index_type(x->type)) return NULL;
  const poly p = fl_kform_read(&r, x, 0);
  return kept(w, &p);
}

/* ---- conditions ---------------------------------------------------------------------- */

static int add_guard(guards *g, const poly *a, const poly *b) {
  if (!a || !b || g->n == FL_KC_GUARDS) return 0;
  g->at[g->n++] = (fl_kc_guard){ a, b };
  return 1;
}

static int add_guards(guards *g, const guards *more) {
  if (g->n + more->n > FL_KC_GUARDS) return 0;
  memcpy(g->at + g->n, more->at, (size_t)more->n * sizeof more->at[0]);
  g->n += more->n;
  return 1;
}

/* p + 1 as an exact sum (see FL_KC_ROOM); NULL: p is NULL or a constant of it is too large. */
static const poly *next_of(walk *w, const poly *p) {
  if (!p) return NULL;
  poly r = *p;
  for (int i = 0; i < r.n; i++)
    if (!r.t[i].n && (r.t[i].c < -FL_KC_ROOM || r.t[i].c > INT64_MAX / 4)) return NULL;
  fl_kpoly_add(&r, (fl_kterm){ .c = 1 });
  r.unsure = 0;
  return kept(w, &r);
}

static int add_comparison(walk *w, const fl_kexpr *x, int truth, guards *g) {
  const int op = truth ? x->op : fl_kop_negated(x->op);
  const poly *a = poly_of(w, x->x[0]), *b = poly_of(w, x->x[1]);
  switch (op) {
    case FL_KO_LT: return add_guard(g, a, b);
    case FL_KO_LE: return add_guard(g, a, next_of(w, b));
    case FL_KO_GT: return add_guard(g, b, a);
    case FL_KO_GE: return add_guard(g, b, next_of(w, a));
    case FL_KO_EQ:                                                         /* a == 0: a < 1 */
      if (!a || !b || b->n || fl_kpoly_has_negative(a)) return 0;
      return add_guard(g, a, next_of(w, b));
    default: return 0;
  }
}

/* Adds to *g guards (inequalities a < b) under which x is true (is false, if 'truth' is 0). Returns
** 0 if they are not known; *g may then hold some of them. */
static int guards_of(walk *w, const fl_kexpr *x, int truth, guards *g) {
  if (!x || x->type != FL_KT_BOOL) return 0;
  switch (x->kind) {
    case FL_KX_CONST: return (x->value.i != 0) == truth;
    case FL_KX_VAR: {
      const cond *c = w->env[x->var].c;
      return c && c->known[truth] && add_guards(g, &c->when[truth]);
    }
    case FL_KX_UNARY: return x->op == FL_KO_NOT && guards_of(w, x->x[0], !truth, g);
    case FL_KX_BINARY:
      if (x->op == (truth ? FL_KO_LAND : FL_KO_LOR))
        return guards_of(w, x->x[0], truth, g) && guards_of(w, x->x[1], truth, g);
      return x->op >= FL_KO_LT && x->op <= FL_KO_NE && add_comparison(w, x, truth, g);
    default: return 0;
  }
}

static const cond *cond_of(walk *w, const fl_kexpr *x) {
  cond *c = fl_karena_new(w->a, sizeof *c);
  for (int t = 0; c && t < 2; t++) c->known[t] = (uint8_t)guards_of(w, x, t, &c->when[t]);
  return c;
}

/* ---- what is forgotten --------------------------------------------------------------- */

static int forget_stmt(void *arg, fl_kstmt *s) {
  walk *w = arg;
  if (s->kind == FL_KS_ASSIGN || s->kind == FL_KS_DECL) w->env[s->var] = (value){ NULL, NULL };
  if (s->result >= 0) w->env[s->result] = (value){ NULL, NULL };
  return 1;
}

/* Forgets the values of all variables that statements from s on assign. */
static void forget(walk *w, fl_kstmt *s) {
  const fl_kvisitor v = { forget_stmt, NULL, w };
  for (; s; s = s->next) fl_kwalk_stmt(&v, s);
}

/* ---- statements: functions that walk them return the outermost construct that a jump in them
** leaves; NOWHERE: none; -1: as for either() ---- */

static int block(walk *w, fl_kstmt *s);

static void add_store(walk *w, int32_t var, const poly *at, const guards *g) {
  if (!at || w->off || !w->fit[var]) return;
  fl_kc_store *s = fl_karena_new(w->a, sizeof *s);
  if (!s) return;
  *s = (fl_kc_store){ .var = var, .n_guards = g->n, .at = at, .next = w->list };
  memcpy(s->guard, g->at, (size_t)g->n * sizeof g->at[0]);
  w->list = s;
}

/* Joins stores a and b of the two branches to one element: they happen whatever the branches'
** condition is. The guards that each has inside its branch, from 'na' and 'nb' on, must be the
** same. */
static void join(walk *w, const fl_kc_store *a, const fl_kc_store *b, int na, int nb) {
  if (a->var != b->var || a->n_guards - na != b->n_guards - nb || !fl_kpoly_same(a->at, b->at))
    return;
  guards g = w->now;
  for (int i = 0; na + i < a->n_guards; i++) {
    const fl_kc_guard *x = &a->guard[na + i], *y = &b->guard[nb + i];
    if (!fl_kpoly_same(x->a, y->a) || !fl_kpoly_same(x->b, y->b)) return;
    if (!add_guard(&g, x->a, x->b)) return;
  }
  add_store(w, a->var, a->at, &g);
}

/* A branch. list: its stores; known: whether its condition is known as guards; n: how many guards
** held at its start; left: what the walk through it returned. */
typedef struct arm { fl_kc_store *list; int known, n, left; } arm;

/* Walks one branch, where c is true (is false, if 'truth' is 0); its stores are in the result and
** not in w->list. */
static arm branch(walk *w, const fl_kexpr *c, int truth, fl_kstmt *first) {
  const guards before = w->now;
  fl_kc_store *const list = w->list;
  guards more = { 0 };
  arm r = { .known = guards_of(w, c, truth, &more) };
  if (r.known) r.known = add_guards(&w->now, &more);
  r.n = w->now.n;
  w->list = NULL;
  w->branches++;
  r.left = block(w, first);
  w->branches--;
  r.list = w->list;
  w->list = list;
  w->now = before;
  return r;
}

/* Keeps the stores of a branch whose condition is known. */
static void keep_known(walk *w, const arm *r) {
  if (!r->known) return;
  for (const fl_kc_store *s = r->list; s; s = s->next) {
    guards g = { .n = s->n_guards };
    memcpy(g.at, s->guard, (size_t)g.n * sizeof g.at[0]);
    add_store(w, s->var, s->at, &g);
  }
}

/* Walks both branches; the second may be the code that follows a return. Returns the outermost
** construct that one of them leaves. Where some threads return and it is known which, w->now gets
** the guards that hold for the others, and the result is NOWHERE, or -1 inside a branch or loop. */
static int either(walk *w, const fl_kexpr *c, fl_kstmt *body, fl_kstmt *other) {
  const size_t bytes = (size_t)w->f->n_vars * sizeof *w->env;
  value *const env = fl_karena_new(w->a, bytes);
  if (!env) return 0;
  memcpy(env, w->env, bytes);
  const arm a = branch(w, c, 1, body);
  memcpy(w->env, env, bytes);
  const arm b = branch(w, c, 0, other);
  memcpy(w->env, env, bytes);
  forget(w, body);
  forget(w, other);
  for (const fl_kc_store *x = a.list; x; x = x->next)
    for (const fl_kc_store *y = b.list; y; y = y->next) join(w, x, y, a.n, b.n);
  keep_known(w, &a);
  keep_known(w, &b);
  if (a.left == NOWHERE && b.left == NOWHERE) return NOWHERE;
  /* it is known which threads return: the opposite guards hold for the others */
  guards stay = { 0 };
  const int left = a.left < b.left ? a.left : b.left;
  if (left == 0 && (a.left == NOWHERE || b.left == NOWHERE) &&
      guards_of(w, c, b.left == 0, &stay) && add_guards(&w->now, &stay))
    return w->branches ? -1 : NOWHERE;
  return left;
}

static int labelled(walk *w, fl_kstmt *s) {
  if (w->depth + 1 == MAX_CONSTRUCTS) return 0;
  const int me = ++w->depth;
  w->label[me] = s->label;
  w->is_loop[me] = s->kind == FL_KS_LOOP;
  const int left = block(w, s->body.first);
  w->depth--;
  return left;
}

static int is_no_counter(const void *none, int32_t s) { return (void)none, s < FL_KSYM_COUNTER; }

static int is_size(const void *none, int32_t s) {
  return s > FL_KSPECIAL_BID_Z && is_no_counter(none, s);
}

/* Is p made of sizes of the launch and parameters? NULL: no. */
static int is_uniform(const poly *p) { return p && fl_kpoly_all(p, is_size, NULL); }

/* The counter v of the loop for (v = …; v < to; v += by), and the loop in *l; -1: it has another
** form. before: the values before the loop. The start may not depend on the counter of another
** loop, since v would then take different values in each iteration of that loop. */
static int32_t counter_of(walk *w, const fl_kstmt *s, const value *before, fl_kc_loop *l) {
  fl_kcount c;
  if (!fl_kcount_of(w->f, s, &c) || c.step.op != FL_KO_ADD || c.op != FL_KO_LT) return -1;
  *l = (fl_kc_loop){ before[c.step.var].p, poly_of(w, c.step.by), poly_of(w, c.bound) };
  return l->from && fl_kpoly_all(l->from, is_no_counter, NULL) && is_uniform(l->by) &&
         is_uniform(l->to) && !fl_kassigned(&s->body, c.step.var, NULL) ? c.step.var : -1;
}

/* Keeps the stores inside the loop (w->list down to 'end') whose index moves with the counter;
** others are dropped, since a loop may have no iterations. */
static void keep_moving(walk *w, fl_kc_store *end, int32_t counter) {
  fl_kc_store **at = &w->list;
  while (*at != end) {
    const poly *p = (*at)->at;
    int moves = 0;
    for (int i = 0; i < p->n; i++)
      moves |= fl_kterm_holds(&p->t[i], counter);
    if (moves) at = &(*at)->next;
    else *at = (*at)->next;
  }
}

static int loop(walk *w, fl_kstmt *s) {
  const size_t bytes = (size_t)w->f->n_vars * sizeof *w->env;
  value *const before = fl_karena_new(w->a, bytes);
  fl_kc_loop l;
  if (!before) return 0;
  memcpy(before, w->env, bytes);
  forget(w, s->body.first);
  forget(w, s->other.first);
  const int32_t v = counter_of(w, s, before, &l);
  fl_kc_store *const list = w->list;
  const guards now = w->now;
  const int32_t counter = FL_KSYM_COUNTER + w->n_loops;
  w->off += v < 0;
  if (v >= 0) {
    w->out->loops[w->n_loops++] = l;
    w->env[v] = (value){ symbol(w, counter), NULL };
  }
  w->branches++;
  const int left = labelled(w, s);
  w->branches--;
  w->off -= v < 0;
  if (left != NOWHERE) w->list = list, w->now = now;     /* later rounds are not sure */
  keep_moving(w, list, counter);
  forget(w, s->body.first);
  forget(w, s->other.first);
  return left > w->depth ? NOWHERE : left;
}

/* The construct that jump s leaves or continues; 0: it is not around the statement being walked. */
static int construct(const walk *w, const fl_kstmt *s) {
  for (int d = w->depth; d > 0; d--)
    if (s->kind == FL_KS_LEAVE ? !w->is_loop[d] && w->label[d] == s->label : w->is_loop[d])
      return d;
  return 0;
}

static int statement(walk *w, fl_kstmt *s) {
  switch (s->kind) {
    case FL_KS_ASSIGN: {
      const int type = w->f->vars[s->var].type;
      w->env[s->var] = (value){ is_index_type(type) ? poly_of(w, s->x[0]) : NULL,
                                type == FL_KT_BOOL ? cond_of(w, s->x[0]) : NULL };
      return NOWHERE;
    }
    case FL_KS_STORE:
      if (!s->accumulate) add_store(w, s->var, poly_of(w, s->x[0]), &w->now);
      return NOWHERE;
    case FL_KS_IF: return either(w, s->x[0], s->body.first, s->other.first);
    case FL_KS_LOOP: return loop(w, s);
    case FL_KS_BLOCK: {
      const int left = labelled(w, s);
      if (left != NOWHERE) forget(w, s->body.first);
      return left > w->depth ? NOWHERE : left;
    }
    case FL_KS_RETURN: return 0;
    case FL_KS_BREAK: case FL_KS_CONTINUE: case FL_KS_LEAVE: return construct(w, s);
    default: forget_stmt(w, s); return NOWHERE;
  }
}

typedef struct reach { const walk *w; int left; } reach;
static int see_jump(void *arg, fl_kstmt *s) {
  reach *r = arg;
  int d = NOWHERE;
  if (s->kind == FL_KS_RETURN) d = 0;
  else if (s->kind == FL_KS_BREAK || s->kind == FL_KS_CONTINUE || s->kind == FL_KS_LEAVE) {
    d = construct(r->w, s);
    if (d == 0) d = NOWHERE;             /* the jump stays inside these statements */
  }
  if (d < r->left) r->left = d;
  return 1;
}

/* The outermost construct that a thread may leave in the statements from s on, or 'left' if that is
** further out. */
static int outermost_jump(const walk *w, fl_kstmt *s, int left) {
  reach r = { w, left };
  const fl_kvisitor see = { see_jump, NULL, &r };
  for (; s; s = s->next) fl_kwalk_stmt(&see, s);
  return r.left;
}

/* Is s "if (…) { …; return; }", outside of all constructs and branches? Then the rest of the kernel
** counts as the other branch of s. */
static int ends_in_return(const walk *w, const fl_kstmt *s) {
  return s->kind == FL_KS_IF && !s->other.first && s->body.last && s->body.first != s->body.last &&
         s->body.last->kind == FL_KS_RETURN && !w->depth && !w->branches;
}

static int block(walk *w, fl_kstmt *s) {
  int left = NOWHERE;
  for (; s; s = s->next) {
    if (ends_in_return(w, s)) {
      either(w, s->x[0], s->body.first, s->next);
      return 0;
    }
    const int l = statement(w, s);
    if (l == -1) left = 0;           /* some threads returned; w->now is of the others */
    else if (l != NOWHERE) {
      forget(w, s->next);
      return outermost_jump(w, s->next, l < left ? l : left);
    }
  }
  return left;
}

/* ---- which parameters matter --------------------------------------------------------- */

static void use(fl_kcover *c, const poly *p) {
  for (int i = 0; p && i < p->n; i++)
    for (int k = 0; k < p->t[i].n; k++) {
      const int32_t s = p->t[i].s[k], var = s - FL_KSYM_VAR;
      int known = s < FL_KSYM_VAR || s >= FL_KSYM_COUNTER || c->n_used > FL_KC_USED;
      for (int j = 0; j < c->n_used && !known; j++) known = c->used[j] == var;
      if (known) continue;
      if (c->n_used < FL_KC_USED) c->used[c->n_used] = var;
      c->n_used++;
    }
}

static void find_used(fl_kcover *c, int32_t n_loops) {
  for (const fl_kc_store *s = c->stores; s; s = s->next) {
    use(c, s->at);
    for (int g = 0; g < s->n_guards; g++) use(c, s->guard[g].a), use(c, s->guard[g].b);
  }
  for (int32_t i = 0; i < n_loops; i++)
    use(c, c->loops[i].from), use(c, c->loops[i].by), use(c, c->loops[i].to);
}

/* ---- the whole ----------------------------------------------------------------------- */

/* Marks the outputs that are written by plain stores alone and of which a thread reads only what it
** has stored. Returns whether there are any; 0 also if memory is out. */
static int find_fit(fl_mem *m, const fl_kfunc *f, uint8_t *fit) {
  const size_t bytes = ((size_t)f->n_vars + 1) * sizeof(fl_kaccess);
  fl_kaccess *access = fl_zalloc(m, bytes);
  int any = 0;
  if (access && fl_kaccess_find(m, f, access))
    for (int i = 0; i < f->n_vars; i++) {
      const fl_kvar *v = &f->vars[i];
      const fl_kaccess *x = &access[i];
      fit[i] = v->kind == FL_KV_POINTER && v->param >= 0 && f->params[v->param].is_pointer &&
               f->params[v->param].n_vars == 1 && x->writes && !x->accumulates &&
               !x->other_atomics && !x->reads_unwritten;
      any |= fit[i];
    }
  if (access) fl_free(m, access, bytes);
  return any;
}

static void run(walk *w) {
  const fl_kfunc *f = w->f;
  for (int i = 0; i < f->n_vars; i++) {
    const fl_kvar *v = &f->vars[i];
    if (v->kind == FL_KV_LOCAL && v->param >= 0 && is_index_type(v->type))
      w->env[i].p = symbol(w, FL_KSYM_VAR + i);
  }
  block(w, f->body.first);
  w->out->stores = w->list;
  find_used(w->out, w->n_loops);
}

fl_kcover *fl_kcover_new(fl_mem *m, const fl_kfunc *f) {
  if (!f->has_body || f->n_vars < 1) return NULL;
  uint8_t *fit = fl_zalloc(m, (size_t)f->n_vars);
  fl_kcover *c = fit && find_fit(m, f, fit) ? fl_zalloc(m, sizeof *c) : NULL;
  if (c) {
    fl_karena_init(&c->arena, m);
    c->f = f;
    c->loops = fl_karena_new(&c->arena, ((size_t)f->n_loops + 1) * sizeof *c->loops);
    walk w = { .a = &c->arena, .f = f, .out = c, .fit = fit };
    w.env = fl_karena_new(&c->arena, (size_t)f->n_vars * sizeof *w.env);
    if (c->loops && w.env) run(&w);
    if (c->arena.failed || !c->stores) {
      fl_kcover_free(c);
      c = NULL;
    }
  }
  if (fit) fl_free(m, fit, (size_t)f->n_vars);
  return c;
}

void fl_kcover_free(fl_kcover *c) {
  if (!c) return;
  fl_mem *m = c->arena.mem;
  fl_karena_close(&c->arena);
  fl_free(m, c, sizeof *c);
}
