/*
** Loops that rewrite elements of global or shared memory of which nothing is known but that one
** thread writes them: indices from memory, elements that are rewritten in each round, kernels whose
** launch does not say which thread has which element. (Shared arrays that the block can copy do not
** need it.) Each thread lists the elements that it writes in the
** loop, when it first does so, as a chain: next[e] is 2 + the element before e, 1 ends the chain, 0
** means that e is not in it. For each element there is room for its value in each snapshot of the
** loop and for that before the loop; the first write sets all of them to the value that it finds.
** So a snapshot is a walk over the chain, and so is its way back.
**
** Where it is not proven that no other thread writes the element, a thread leaves a note at it, and
** an assertion fails the derivative if it finds that of another one: between two threads the old
** value would depend on their order. Between barriers an element may change hands within a block.
** In a kernel without barriers no other thread may read it, either. A loop is tried this way if the
** kernel is refused without (fl_kad_state.lists): a list takes about 14 times the memory of the
** array, and more in loops inside loops.
*/
#include "kernel/ad/ad_loop.h"

enum { LISTED_SLOTS = 8 };

/* A new parameter with n elements for each of the array; -1: there is no room. */
static int32_t kept(fl_kad_state *d, int v, const char *prefix, int type, int64_t n) {
  const int32_t x = fl_kad_kept(d, v, prefix, type, n);
  if (x < 0) fl_kad_refuse(d, d->f->vars[v].line, "a kernel that rewrites so many arrays in loops");
  return x;
}

/* ---- claims -------------------------------------------------------------------------------- */

/* A note is phase << PHASE | 1 + the number of the thread in the launch; 0: no thread. The phase is
** the number of barriers of the block that the thread has gone through. */
enum { PHASE = 36 };

static fl_kexpr *volume(fl_kad_state *d) {
  return fl_kexpr_volume(d->a, FL_KT_I64, FL_KSPECIAL_BDIM_X);
}

static int is_barrier(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_BARRIER && s->op != FL_KBAR_FENCE;
}

void fl_kad_number_thread(fl_kad_state *d, fl_kblock *b) {
  if (!d->lists || (d->self = fl_kad_local(d, FL_KT_I64, "self")) < 0) return;
  if ((d->block = fl_kad_local(d, FL_KT_I64, "block")) < 0) return;
  fl_kexpr *in = fl_kexpr_number(d->a, FL_KT_I64, FL_KSPECIAL_TID_X, FL_KSPECIAL_BDIM_X);
  fl_kexpr *n = kx_op(d, FL_KO_ADD, kx_op(d, FL_KO_MUL, kx_var(d, d->block), volume(d)), in);
  kx_set(d, b, d->block,
         fl_kexpr_number(d->a, FL_KT_I64, FL_KSPECIAL_BID_X, FL_KSPECIAL_GDIM_X));
  kx_set(d, b, d->self, kx_op(d, FL_KO_ADD, n, kx_int(d, 1)));
}

void fl_kad_next_phase(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s) {
  if (d->lists && d->self >= 0 && s->kind == FL_KS_BARRIER && s->op == FL_KBAR_BLOCK)
    kx_set(d, b, d->self, kx_op(d, FL_KO_ADD, kx_var(d, d->self), kx_int(d, (int64_t)1 << PHASE)));
}

/* May elements of v be listed and claimed? */
static int is_array(const fl_kad_state *d, int v) {
  const fl_kvar *x = &d->f->vars[v];
  if (!d->lists) return 0;
  if (x->kind == FL_KV_SHARED) return 1;
  if (x->kind != FL_KV_POINTER || x->param < 0) return 0;
  return !d->f->params[x->param].is_struct || d->f->params[x->param].is_pointer;
}

/* The place of element 'at' of v in arrays that have one for each element: those of a shared array
** have one for each block. */
static fl_kexpr *spot(fl_kad_state *d, int v, fl_kexpr *at) {
  if (d->f->vars[v].kind != FL_KV_SHARED) return at;
  return kx_op(d, FL_KO_ADD, kx_op(d, FL_KO_MUL, kx_var(d, d->block), fl_kad_shared_count(d, v)),
               fl_kexpr_cast(d->a, FL_KT_I64, at));
}

/* The parameter, of those in 'of', that has a note for each element of v. */
static int32_t noted(fl_kad_state *d, int32_t *of, int v, const char *prefix) {
  if (!of[v]) of[v] = 1 + kept(d, v, prefix, FL_KT_I64, 1);
  return of[v] - 1;
}

/* Is note x of no thread or of this one or, in an earlier phase, of one of this block? */
static fl_kexpr *is_free(fl_kad_state *d, fl_kexpr *x) {
  fl_kexpr *self = kx_var(d, d->self), *one = kx_int(d, 1), *at = kx_int(d, PHASE);
  fl_kexpr *low = kx_int(d, ((int64_t)1 << PHASE) - 1);
  fl_kexpr *its = kx_op(d, FL_KO_AND, x, low), *mine = kx_op(d, FL_KO_AND, self, low);
  fl_kexpr *free = kx_op(d, FL_KO_LOR, kx_op(d, FL_KO_EQ, x, kx_int(d, 0)),
                         kx_op(d, FL_KO_EQ, its, mine));
  if (!fl_kad_has_barrier(&d->body)) return free;
  its = kx_op(d, FL_KO_DIV, kx_op(d, FL_KO_SUB, its, one), volume(d));
  mine = kx_op(d, FL_KO_DIV, kx_op(d, FL_KO_SUB, mine, one), volume(d));
  fl_kexpr *before = kx_op(d, FL_KO_LT, kx_op(d, FL_KO_SHR, x, at), kx_op(d, FL_KO_SHR, self, at));
  return kx_op(d, FL_KO_LOR, free, kx_op(d, FL_KO_LAND, kx_op(d, FL_KO_EQ, its, mine), before));
}

/* Adds an assertion that x, the note of an element of v, is free. */
static void demand(fl_kad_state *d, fl_kblock *b, int v, fl_kexpr *x, int line) {
  fl_kstmt *s = x ? fl_kstmt_new(d->a, b, FL_KS_ASSERT, line) : NULL;
  if (!s) return;
  s->x[0] = is_free(d, x);
  s->text = fl_karena_printf(d->a, "an element of '%s' that a loop rewrites is of one thread (its "
                             "gradient needs the old value)", d->f->vars[v].source);
}

/* Adds an atomic operation on the note of element 'at'; returns the old note. */
static fl_kexpr *note(fl_kad_state *d, fl_kblock *b, int op, int32_t of, fl_kexpr *at,
                      fl_kexpr *x) {
  const int old = fl_ktemp(d->f, FL_KT_I64);
  if (old < 0 || !fl_kstmt_atomic(d->f, b, op, FL_KM_FREE, of, at, x, old)) return NULL;
  return kx_var(d, old);
}

/* This thread writes element 'at' of v: adds code that fails if another thread writes the element
** too or, with 'watched', reads it. A writer leaves its note before it looks for a reader's note,
** and a reader its own before it looks for a writer's; the condition between the two keeps this
** order on a GPU. */
static void claim(fl_kad_state *d, fl_kblock *b, int v, fl_kexpr *at, int watched, int line) {
  const int32_t owner = noted(d, d->claims, v, "owner_");
  const int32_t reader = watched ? noted(d, d->readers, v, "reader_") : 0;
  if (owner < 0 || reader < 0) return;
  at = fl_kad_atom(d, b, spot(d, v, at));
  demand(d, b, v, note(d, b, FL_KA_EXCH, owner, at, kx_var(d, d->self)), line);
  if (watched) demand(d, b, v, note(d, b, FL_KA_OR, reader, at, kx_int(d, 0)), line);
}

/* This thread reads element 'at' of v: no other one may write it. MANY: several threads read it. */
static void note_read(fl_kad_state *d, fl_kblock *b, int v, fl_kexpr *at, int line) {
  enum { MANY = -1 };
  const int32_t owner = noted(d, d->claims, v, "owner_");
  const int32_t reader = noted(d, d->readers, v, "reader_");
  if (owner < 0 || reader < 0) return;
  at = fl_kad_atom(d, b, spot(d, v, at));
  fl_kexpr *old = note(d, b, FL_KA_EXCH, reader, at, kx_var(d, d->self));
  fl_kexpr *other = old ? fl_kexpr_unary(d->a, FL_KO_NOT, is_free(d, old)) : NULL;
  fl_kstmt *more = fl_kstmt_if(d->f, b, other);
  if (more) (void)note(d, &more->body, FL_KA_EXCH, reader, at, kx_int(d, MANY));
  demand(d, b, v, note(d, b, FL_KA_OR, owner, at, kx_int(d, 0)), line);
}

/* This thread accesses element 'at' of v: no thread of another block may do so. */
static void claim_for_block(fl_kad_state *d, fl_kblock *b, int v, fl_kexpr *at, int line) {
  if (d->blocks[v] < 0) d->blocks[v] = 1 + kept(d, v, "block_", FL_KT_I64, 1);
  fl_kexpr *its = kx_op(d, FL_KO_ADD, kx_var(d, d->block), kx_int(d, 1));
  fl_kexpr *old = d->blocks[v] > 0 ? note(d, b, FL_KA_EXCH, d->blocks[v] - 1, at, its) : NULL;
  fl_kstmt *s = old ? fl_kstmt_new(d->a, b, FL_KS_ASSERT, line) : NULL;
  if (!s) return;
  s->x[0] = kx_op(d, FL_KO_LOR, kx_op(d, FL_KO_EQ, old, kx_int(d, 0)),
                  kx_op(d, FL_KO_EQ, old, its));
  s->text = fl_karena_printf(d->a, "an element of '%s' that atomic operations change, and that is "
                             "read again, is of one block", d->f->vars[v].source);
}

static int see_again(void *arg, fl_kstmt *s) {
  fl_kad_state *d = arg;
  if (s->kind != FL_KS_ATOMIC || d->f->vars[s->var].kind != FL_KV_POINTER || !is_array(d, s->var))
    return 1;
  if (fl_kad_apart_in_time(d, s, NULL) != FL_KAD_BLOCK) return 1;
  if (!d->blocks) d->blocks = fl_karena_new(d->a, ((size_t)d->n0 + 1) * sizeof *d->blocks);
  if (d->blocks) d->blocks[s->var] = -1;
  return 1;
}

void fl_kad_find_blocks(fl_kad_state *d) {
  if (d->lists && !d->f->uses_grid) fl_kwalk_block(&(fl_kvisitor){see_again, NULL, d}, d->body);
}

/* Does x follow from the number of the thread, arguments and constant factors? Then who has an
** element is known before the launch: where it is not proven that one thread has it, several have,
** as of y[i / 2], and no claim is needed. *given: x depends on arguments; depth: how many variables
** were entered so far. */
static int is_decided(const fl_kad_state *d, const fl_kexpr *x, int depth, int *given) {
  int of[FL_K_MAX_ARGS] = {0};
  if (x->kind == FL_KX_LOAD || depth > 20) return 0;
  if (x->kind == FL_KX_VAR && !fl_kdef_is_given(d->defs, x->var)) {
    const fl_kexpr *value = fl_kdef_only(d->defs, x->var);
    return value && is_decided(d, value, depth + 1, given);
  }
  *given |= x->kind == FL_KX_VAR;
  for (int i = 0; i < x->n; i++) {
    if (!is_decided(d, x->x[i], depth, &of[i])) return 0;
    *given |= of[i];
  }
  const int product = x->kind == FL_KX_BINARY && x->op == FL_KO_MUL;
  return !product || x->x[0]->kind == FL_KX_CONST || x->x[1]->kind == FL_KX_CONST || !*given;
}

static int is_known(const fl_kad_state *d, const fl_kexpr *x) {
  int given = 0;
  return is_decided(d, x, 0, &given);
}

int fl_kad_claim(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s) {
  if (d->f->uses_grid || !is_array(d, s->var) || is_known(d, s->x[0])) return 0;
  claim(d, b, s->var, fl_kad_atom(d, b, s->x[0]), 0, s->line);
  return 1;
}

/* ---- which loops --------------------------------------------------------------------------- */

static int is_other_write(const void *var, const fl_kstmt *s) {
  return fl_kwrites_to(s, *(const int *)var) && s->kind != FL_KS_STORE;
}

static int is_unproven(const void *of, const fl_kstmt *s) {
  const fl_kad_list *t = of;
  return fl_kwrites_to(s, t->var) && fl_kad_meets_of(t->d, s->site) & FL_KAD_MEETS_ALIKE;
}

/* The stores of a loop, and whether each load finds only elements that its thread writes, or none
** that the loop writes. */
typedef struct pairs { const fl_kad_list *t; const fl_kstmt *loop; const fl_kfact *load; int meets;
                     } pairs;

static int see_pair(void *arg, fl_kstmt *s) {
  pairs *p = arg;
  if (!fl_kwrites_to(s, p->t->var)) return 1;
  const fl_kfact *w = fl_kfact_of(p->t->d->facts, s->site);
  const int one = fl_kfact_is_one(p->load, w) && p->load->own && w->own;
  p->meets |= !one && !fl_kfact_is_apart(p->load, w) && !fl_kfact_is_one_strip(p->load, w);
  return 1;
}

static int see_load(void *arg, fl_kexpr *x) {
  pairs *p = arg;
  const fl_kvisitor see = {see_pair, NULL, p};
  if (x->kind != FL_KX_LOAD || x->var != p->t->var) return 1;
  p->load = fl_kfact_of(p->t->d->facts, x->site);
  fl_kwalk_stmt(&see, (fl_kstmt *)(uintptr_t)p->loop);
  return 1;
}

/* May a load of the loop find an element that another thread writes? */
static int may_meet(const fl_kad_list *t, fl_kstmt *loop) {
  pairs p = {.t = t, .loop = loop};
  const fl_kvisitor see = {NULL, see_load, &p};
  fl_kwalk_stmt(&see, loop);
  return p.meets;
}

/* With barriers, threads may read what others have written before one. */
static int is_watched_list(const fl_kloop *l, const fl_kad_list *t) {
  return !fl_kblock_any(t->d->body, is_barrier, NULL) && may_meet(t, l->s);
}

/* (A thread that fails an assertion would be missed at a barrier of the grid.) */
static int must_claim(const fl_kloop *l, const fl_kad_list *t) {
  return is_watched_list(l, t) || fl_kstmt_any(l->s, is_unproven, t);
}

typedef struct decided { const fl_kad_state *d; int var; } decided;

static int is_shared(const void *of, const fl_kstmt *s) {
  const decided *w = of;
  return fl_kwrites_to(s, w->var) && fl_kad_meets_of(w->d, s->site) & FL_KAD_MEETS_ALIKE &&
         is_known(w->d, s->x[0]);
}

int fl_kloop_can_list(fl_kloop *l, int v) {
  fl_kad_state *d = l->d;
  const decided w = {d, v};
  if (!is_array(d, v) || fl_kstmt_any(l->s, is_other_write, &v)) return 0;
  if (fl_kstmt_any(l->s, is_shared, &w)) return 0;
  if (l->of[v].list) return 1;
  fl_kad_list *t = fl_karena_new(d->a, sizeof *t);
  if (!t) return 0;
  *t = (fl_kad_list){.d = d, .var = v, .next = -1, .kept = -1,
                     .in_state = l->state && fl_kset_has(l->state, v)};
  if (d->f->uses_grid && must_claim(l, t)) return 0;
  l->of[v].list = t;
  l->of[v].final = 3;
  return 1;
}

int64_t fl_kloop_listed_slots(const fl_kloop *l) {
  for (int v = 0; v < l->d->n0; v++)
    if (l->of[v].list && l->of[v].list->in_state) return LISTED_SLOTS;
  return 0;
}

static void make(fl_kloop *l, fl_kad_list *t) {
  fl_kad_state *d = l->d;
  const int v = t->var;
  t->slots = l->slots;
  t->head = fl_kad_local(d, FL_KT_I64, fl_kad_name(d, "listed_", v));
  t->next = kept(d, v, "next_", FL_KT_I64, 1);
  t->kept = kept(d, v, "kept_", d->f->vars[v].type, t->slots + 1);
  t->watched = (uint8_t)is_watched_list(l, t);
  t->claimed = (uint8_t)must_claim(l, t);
}

void fl_kloop_make_lists(fl_kloop *l) {
  for (int v = 0; v < l->d->n0 && !fl_kad_dead(l->d); v++)
    if (l->of[v].list) make(l, l->of[v].list);
}

/* ---- in the forward code ------------------------------------------------------------------- */

static void begin(fl_kad_state *d, fl_kad_list *t, fl_kblock *b) {
  kx_set(d, b, t->head, kx_int(d, 1));
  t->up = d->listing;
  d->listing = t;
}

void fl_kloop_begin_lists(fl_kloop *l, fl_kblock *b) {
  for (int v = 0; v < l->d->n0 && !fl_kad_dead(l->d); v++)
    if (l->of[v].list) begin(l->d, l->of[v].list, b);
}

void fl_kloop_open_list(fl_kloop *l, int v, fl_kblock *b) {
  make(l, l->of[v].list);
  if (!fl_kad_dead(l->d)) begin(l->d, l->of[v].list, b);
}

void fl_kloop_end_lists(fl_kloop *l) {
  while (l->d->listing && l->of[l->d->listing->var].list == l->d->listing)
    l->d->listing = l->d->listing->up;
}

/* Element 'at' in slot k: those of one element are side by side. */
static fl_kexpr *place(const fl_kad_list *t, fl_kexpr *at, fl_kexpr *k) {
  fl_kad_state *d = t->d;
  return kx_op(d, FL_KO_ADD, kx_op(d, FL_KO_MUL, spot(d, t->var, at), kx_int(d, t->slots + 1)), k);
}

/* Adds code that lists the element 'at' if this is its first write. */
static void list(const fl_kad_list *t, fl_kblock *b, fl_kexpr *at, int line) {
  fl_kad_state *d = t->d;
  if (t->claimed) claim(d, b, t->var, at, t->watched, line);
  fl_kexpr *next = fl_kexpr_load(d->f, t->next, spot(d, t->var, at));
  fl_kstmt *c = fl_kstmt_if(d->f, b, kx_op(d, FL_KO_EQ, next, kx_int(d, 0)));
  if (!c) return;
  fl_kstmt_store(d->f, &c->body, t->next, spot(d, t->var, at), kx_var(d, t->head));
  kx_set(d, &c->body, t->head, kx_op(d, FL_KO_ADD, at, kx_int(d, 2)));
  fl_kexpr *old = fl_kad_atom(d, &c->body, fl_kexpr_load(d->f, t->var, at));
  const int k = fl_kad_local(d, FL_KT_I64, "slot");
  fl_kblock *in = fl_kad_for(d, &c->body, k, kx_int(d, 0), kx_int(d, t->slots + 1), kx_int(d, 1));
  if (in) fl_kstmt_store(d->f, in, t->kept, place(t, at, kx_var(d, k)), old);
}

static const fl_kad_list *list_of(const fl_kad_state *d, int32_t var) {
  const fl_kad_list *t = d->listing;
  while (t && t->var != var) t = t->up;
  return t;
}

static int is_of_block(const fl_kad_state *d, int32_t v) { return d->blocks && d->blocks[v]; }

static int loads_of_block(const void *of, const fl_kexpr *x) {
  return x->kind == FL_KX_LOAD && is_of_block(of, x->var);
}

int fl_kad_claims_loads(const fl_kad_state *d, const fl_kexpr *x) {
  return d->blocks && x && fl_kexpr_any(x, loads_of_block, d);
}

static int is_watched(const void *of, const fl_kexpr *x) {
  const fl_kad_list *t = x->kind == FL_KX_LOAD ? list_of(of, x->var) : NULL;
  return (t && t->watched) || (x->kind == FL_KX_LOAD && is_of_block(of, x->var));
}

void fl_kad_list_loads(fl_kad_state *d, fl_kblock *b, fl_kexpr *x, int line) {
  if (!x || (!d->listing && !d->blocks) || !fl_kexpr_any(x, is_watched, d)) return;
  const int select = x->kind == FL_KX_SELECT;
  for (int i = 0; i < x->n; i++) {
    fl_kstmt *c = NULL;
    if (fl_kis_lazy(x, i)) {
      const int when = select ? i == 1 : x->op == FL_KO_LAND;
      if (!fl_kexpr_any(x->x[i], is_watched, d)) continue;
      c = fl_kstmt_if(d->f, b, when ? x->x[0] : fl_kexpr_unary(d->a, FL_KO_NOT, x->x[0]));
      if (!c) return;
    }
    fl_kad_list_loads(d, c ? &c->body : b, x->x[i], line);
  }
  if (!is_watched(d, x)) return;
  fl_kexpr *at = fl_kad_atom(d, b, x->x[0]);
  if (is_of_block(d, x->var)) claim_for_block(d, b, x->var, at, line);
  else note_read(d, b, x->var, at, line);
}

void fl_kad_list_uses(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s) {
  if ((!d->listing && !d->blocks) || s->kind == FL_KS_LOOP) return;
  for (int i = 0; i < 4; i++) fl_kad_list_loads(d, b, s->x[i], s->line);
  if (fl_kwrites(s) && is_of_block(d, s->var))
    claim_for_block(d, b, s->var, fl_kad_atom(d, b, s->x[0]), s->line);
  const fl_kad_list *t = s->kind == FL_KS_STORE ? list_of(d, s->var) : NULL;
  if (t) list(t, b, fl_kad_atom(d, b, fl_kexpr_cast(d->a, FL_KT_I64, s->x[0])), s->line);
}

/* ---- walks --------------------------------------------------------------------------------- */

/* Adds a loop over the list and returns its body; *at: the element. */
static fl_kblock *walk(const fl_kad_list *t, fl_kblock *b, fl_kexpr **at) {
  fl_kad_state *d = t->d;
  if (fl_kad_dead(d)) return NULL;
  const int p = fl_kad_local(d, FL_KT_I64, "link"), next = fl_kad_local(d, FL_KT_I64, "after");
  kx_set(d, b, p, kx_var(d, t->head));
  fl_kstmt *s = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_GT, kx_var(d, p), kx_int(d, 1)));
  if (!s || d->a->failed) return NULL;
  *at = fl_kad_atom(d, &s->body, kx_op(d, FL_KO_SUB, kx_var(d, p), kx_int(d, 2)));
  kx_set(d, &s->body, next, fl_kexpr_load(d->f, t->next, spot(d, t->var, *at)));
  kx_set(d, &s->other, p, kx_var(d, next));
  return &s->body;
}

void fl_kloop_move_list(const fl_kad_list *t, fl_kblock *b, fl_kexpr *k, int back) {
  fl_kad_state *d = t->d;
  fl_kexpr *at;
  b = walk(t, b, &at);
  if (!b) return;
  if (back) fl_kstmt_store(d->f, b, t->var, at, fl_kexpr_load(d->f, t->kept, place(t, at, k)));
  else fl_kstmt_store(d->f, b, t->kept, place(t, at, k), fl_kexpr_load(d->f, t->var, at));
}

void fl_kloop_move_listed_slot(const fl_kad_list *t, fl_kblock *b, fl_kexpr *to, fl_kexpr *from) {
  fl_kexpr *at;
  if ((b = walk(t, b, &at)))
    fl_kstmt_store(t->d->f, b, t->kept, place(t, at, to),
                   fl_kexpr_load(t->d->f, t->kept, place(t, at, from)));
}

void fl_kloop_put_list_back(const fl_kad_list *t, fl_kblock *b) {
  fl_kloop_move_list(t, b, kx_int(t->d, t->slots), 1);
}

void fl_kloop_close_lists(fl_kloop *l, fl_kblock *b) {
  for (int v = 0; v < l->d->n0 && !fl_kad_dead(l->d); v++) {
    const fl_kad_list *t = l->of[v].list;
    fl_kexpr *at;
    fl_kblock *in = t ? walk(t, b, &at) : NULL;
    if (in) fl_kstmt_store(l->d->f, in, t->next, spot(l->d, t->var, at), kx_int(l->d, 0));
  }
}
