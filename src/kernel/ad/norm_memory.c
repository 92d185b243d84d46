/*
** Elements of global memory that a loop reads and writes at an index that the loop does not change
** are kept in registers: r = y[e] at the first access, y[e] = r after the loop. For the reverse
** code they are then local variables, which can be saved; elements at varying indices cannot.
** 'held' says that r has the element, 'changed' that it must be written back: an element that the
** source does not access is not accessed here either. Several elements of one array (v[3 * i],
** v[3 * i + 1]) have separate registers.
*/
#include "kernel/ad/ad_state.h"

enum { MOST_PLACES = 8 };

/* May elements of the array be held? With 'lists' those of shared memory, too: while a loop without
** barriers runs, only one thread accesses an element that it writes. */
static int is_memory(const fl_kfunc *f, int lists, int v) {
  const int kind = f->vars[v].kind;
  return kind == FL_KV_POINTER || (lists && kind == FL_KV_SHARED);
}

typedef struct place {
  fl_kad_state *d;
  int var;
  const fl_kexpr *index;
  int32_t reg, held, changed;    /* variables */
  int32_t seen;                  /* site of the first access */
  int32_t site, line;            /* of the first store */
  uint8_t meets;                 /* site_meets of all its stores */
  int writes;
} place;

/* The elements ("places") of one array that one loop accesses. */
typedef struct places {
  fl_kad_state *d;
  place at[MOST_PLACES];
  int var, n, writes, bad, guarded;    /* guarded: > 0 inside operands that are evaluated under a
                                       ** condition */
} places;

/* May the place be held that an access of the loop refers to? In shared memory no other thread may
** have it: lanes of a warp may exchange elements without a barrier. */
static int is_own(const places *p, int32_t site) {
  return p->d->f->vars[p->var].kind != FL_KV_SHARED || fl_kfact_of(p->d->facts, site)->own;
}

/* The place that an access with this index and site refers to, a new one if needed; NULL: it may
** overlap another place, or there are too many ('bad' is set). */
static place *place_of(places *p, const fl_kexpr *index, int32_t site) {
  for (int i = 0; i < p->n; i++)
    if (fl_kexpr_same(p->at[i].index, index)) return &p->at[i];
  int ok = p->n < MOST_PLACES;
  for (int i = 0; ok && i < p->n; i++)     /* try_array checks that the loop changes no index */
    ok = fl_kfact_differs(fl_kfact_of(p->d->facts, p->at[i].seen), fl_kfact_of(p->d->facts, site));
  if (!ok) {
    p->bad = 1;
    return NULL;
  }
  p->at[p->n] = (place){.d = p->d, .var = p->var, .index = index, .seen = site};
  return &p->at[p->n++];
}

static void look_expr(places *p, const fl_kexpr *x) {
  if (!x) return;
  if (x->kind == FL_KX_LOAD && x->var == p->var) {
    p->bad |= p->guarded || !is_own(p, x->site);
    (void)place_of(p, x->x[0], x->site);
  }
  for (int i = 0; i < x->n; i++) {
    p->guarded += fl_kis_lazy(x, i);
    look_expr(p, x->x[i]);
    p->guarded -= fl_kis_lazy(x, i);
  }
}

static void look_store(place *p, const fl_kstmt *s) {
  p->meets |= p->writes ? FL_KAD_MEETS_JOINED : 0;
  if (!p->writes) p->site = s->site, p->line = s->line;
  if (s->site >= 0 && s->site < p->d->n_sites0) p->meets |= p->d->site_meets[s->site];
  p->writes = 1;
}

static int look_stmt(void *arg, fl_kstmt *s) {
  places *p = arg;
  const int mine = fl_kwrites_to(s, p->var);
  place *to = mine && s->kind == FL_KS_STORE ? place_of(p, s->x[0], s->site) : NULL;
  if (to) look_store(to, s), p->writes = 1;
  if (mine && (s->kind == FL_KS_ATOMIC || !is_own(p, s->site))) p->bad = 1;
  if (s->kind == FL_KS_BARRIER) p->bad = 1;              /* other threads may access the memory */
  for (int i = 0; i < 4; i++) look_expr(p, s->x[i]);
  return !p->bad;
}

static int is_load(const void *of, const fl_kexpr *x) {
  const place *p = of;
  return x->kind == FL_KX_LOAD && x->var == p->var && fl_kexpr_same(x->x[0], p->index);
}

/* x with the element replaced by its register. */
static fl_kexpr *replaced(void *of, fl_kexpr *x) {
  place *p = of;
  if (!x || is_load(p, x)) return x ? kx_var(p->d, p->reg) : NULL;
  fl_kexpr *e = fl_kexpr_mapped(p->d->a, x, replaced, p);
  return e ? e : x;
}

static int is_store(const place *p, const fl_kstmt *s) {
  return s->kind == FL_KS_STORE && s->var == p->var && fl_kexpr_same(s->x[0], p->index);
}

static int reads_element(const place *p, const fl_kstmt *s) {
  int any = is_store(p, s) && s->accumulate;
  for (int i = 0; i < 4 && !any; i++) any = fl_kexpr_any(s->x[i], is_load, p);
  return any;
}

static void hold(place *p, fl_kblock *out) {
  fl_kexpr *at = (fl_kexpr *)(uintptr_t)p->index;
  fl_kstmt *c = fl_kstmt_if(p->d->f, out,
                            fl_kexpr_unary(p->d->a, FL_KO_NOT, kx_var(p->d, p->held)));
  if (!c) return;
  kx_set(p->d, &c->body, p->reg, fl_kexpr_load(p->d->f, p->var, at));
  kx_set(p->d, &c->body, p->held, kx_bool(p->d, 1));
}

static void store_in_register(place *p, fl_kblock *out, const fl_kstmt *s) {
  fl_kexpr *v = s->x[1];
  if (s->accumulate)
    v = kx_op(p->d, FL_KO_ADD, fl_kexpr_cast(p->d->a, v->type, kx_var(p->d, p->reg)), v);
  kx_set(p->d, out, p->reg, fl_kexpr_cast(p->d->a, p->d->f->vars[p->reg].type, v));
  kx_set(p->d, out, p->held, kx_bool(p->d, 1));
  kx_set(p->d, out, p->changed, kx_bool(p->d, 1));
}

static fl_kblock rewritten(place *p, fl_kblock b) {
  fl_kblock out = {NULL, NULL};
  for (fl_kstmt *s; !p->d->a->failed && (s = fl_kblock_take(&b));) {
    if (reads_element(p, s)) hold(p, &out);
    for (int i = 0; i < 4; i++) s->x[i] = replaced(p, s->x[i]);
    s->body = rewritten(p, s->body);
    s->other = rewritten(p, s->other);
    if (is_store(p, s)) store_in_register(p, &out, s);
    else fl_kblock_put(&out, s);
  }
  return out;
}

/* Holds the element in a register in the loop s; adds code for before the loop to *before and code
** for after it to *after. */
static void hold_place(place *p, fl_kstmt *s, fl_kblock *before, fl_kblock *after) {
  fl_kad_state *d = p->d;
  p->reg = fl_kad_local(d, d->f->vars[p->var].type, fl_kad_name(d, "held_", p->var));
  p->held = fl_kad_local(d, FL_KT_BOOL, "held");
  p->changed = fl_kad_local(d, FL_KT_BOOL, "changed");
  if (p->changed < 0 || p->held < 0 || p->reg < 0) return;
  kx_set(d, before, p->reg, fl_kexpr_zero(d->a, d->f->vars[p->var].type));
  kx_set(d, before, p->held, kx_bool(d, 0));
  kx_set(d, before, p->changed, kx_bool(d, 0));
  if (reads_element(p, s)) hold(p, before);
  s->x[0] = replaced(p, s->x[0]);
  s->body = rewritten(p, s->body);
  s->other = rewritten(p, s->other);
  if (!p->writes) return;
  fl_kstmt *c = fl_kstmt_if(d->f, after, kx_var(d, p->changed));
  fl_kstmt *back = c ? fl_kstmt_store(d->f, &c->body, p->var, (fl_kexpr *)(uintptr_t)p->index,
                                      kx_var(d, p->reg)) : NULL;
  if (back) back->line = p->line;
  if (!back || p->site < 0 || p->site >= d->n_sites0) return;
  back->site = p->site;
  d->site_meets[p->site] |= p->meets;
}

static void try_array(fl_kad_state *d, fl_kstmt *s, int v, const uint8_t *assigned,
                      fl_kblock *before, fl_kblock *after) {
  places p = {.d = d, .var = v};
  const fl_kvisitor see = {look_stmt, NULL, &p};
  fl_kwalk_stmt(&see, s);
  int ok = !p.bad && p.writes;
  for (int i = 0; ok && i < p.n; i++) ok = !fl_kreads_of(p.at[i].index, assigned);
  for (int i = 0; ok && i < p.n; i++) hold_place(&p.at[i], s, before, after);
}

/* ---- indices that are copies ---- */

typedef struct copies {
  const fl_kdefs *defs;
  const fl_kfunc *f;
  const uint8_t *assigned;
  int lists;
} copies;

/* The variable of which 'var' is always a copy, as is a parameter "int i" of a function that a loop
** calls, and which has one value in the whole kernel; -1: there is none. */
static int32_t original(const fl_kdefs *defs, int32_t var) {
  for (int depth = 0; depth < 64 && var < defs->n_vars; depth++) {
    const fl_kexpr *x = fl_kdef_only(defs, var);
    if (!x || x->kind != FL_KX_VAR || x->var >= defs->n_vars) return -1;
    var = x->var;
    const fl_kdef *v = &defs->var[var];
    if (fl_kdef_is_given(defs, var) || (v->count == 1 && !v->param && !v->in_loop)) return var;
  }
  return -1;
}

static int rename_copy(void *arg, fl_kexpr *x) {
  const copies *c = arg;
  const int32_t of = x->kind == FL_KX_VAR && c->assigned[x->var] ? original(c->defs, x->var) : -1;
  if (of >= 0) x->var = of;
  return 1;
}

static int see_access(void *arg, fl_kexpr *x) {
  const copies *c = arg;
  const fl_kvisitor v = {NULL, rename_copy, arg};
  if (x->kind == FL_KX_LOAD && is_memory(c->f, c->lists, x->var)) fl_kwalk_expr(&v, x->x[0]);
  return 1;
}

static int see_store(void *arg, fl_kstmt *s) {
  const copies *c = arg;
  const fl_kvisitor v = {NULL, rename_copy, arg};
  if (s->kind == FL_KS_STORE && is_memory(c->f, c->lists, s->var))
    fl_kwalk_expr(&v, s->x[0]);
  return 1;
}

/* Walks block b and tries to hold elements of arrays in registers in its loops. loaded: by
** variable: an array that the kernel reads. */
static fl_kblock walk(fl_kad_state *d, fl_kblock b, const uint8_t *loaded, const fl_kdefs *defs) {
  const int n_vars = defs->n_vars;
  fl_kblock out = {NULL, NULL};
  for (fl_kstmt *s; !d->a->failed && (s = fl_kblock_take(&b));) {
    fl_kblock after = {NULL, NULL};
    uint8_t *assigned = s->kind == FL_KS_LOOP ? fl_karena_new(d->a, (size_t)d->f->n_vars + 1)
                                              : NULL;
    copies c = {defs, d->f, assigned, d->lists};
    if (assigned) {
      fl_kassigned_by(s, assigned);
      fl_kwalk_stmt(&(fl_kvisitor){see_store, see_access, &c}, s);
    }
    for (int v = 0; assigned && v < n_vars; v++)
      if (is_memory(d->f, d->lists, v) && !d->f->vars[v].is_const && loaded[v])
        try_array(d, s, v, assigned, &out, &after);
    s->body = walk(d, s->body, loaded, defs);
    s->other = walk(d, s->other, loaded, defs);
    fl_kblock_put(&out, s);
    fl_kblock_append(&out, after);
  }
  return out;
}

void fl_kad_hold_elements(fl_kad_state *d) {
  const fl_kdefs *defs = fl_kdefs_new(d->a, d->f, d->body);
  uint8_t *loaded = fl_karena_new(d->a, (size_t)d->f->n_vars + 1);
  if (!loaded || !defs) return;
  fl_kaccessed(d->body, loaded, NULL);
  d->body = walk(d, d->body, loaded, defs);
}
