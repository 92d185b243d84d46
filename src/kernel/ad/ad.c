/*
** The adjoint of a kernel from end to end: parameters, shadows (variables that hold derivatives),
** the sweep (forward and reverse code), and the role of each parameter, for the launcher. The
** contract is in ad.h; ad_sweep.c reverses statements, ad_loop.c loops.
*/
#include "kernel/ad/ad_copies.h"
#include "kernel/ad/ad_state.h"
#include "kernel/ad/ad_swap.h"
#include "kernel/ad/unroll.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- small things ----------------------------------------------------------------------- */

void fl_kad_refuse(fl_kad_state *d, int line, const char *fmt, ...) {
  char what[256];
  va_list list;
  if (d->res->refusal || d->a->failed) return;
  if (line < 1) line = d->f->line;
  va_start(list, fmt);
  vsnprintf(what, sizeof what, fmt, list);
  va_end(list);
  d->res->refusal_line = line;
  d->res->refusal = fl_karena_printf(d->a, "kernel '%s', line %d: %s cannot be differentiated"
                                     FL_DO "; %sgive vjp = ... or mark the argument nodiff",
                                     d->f->name, line, what, d->f->uses_grid
                                     ? "make a launch of each part between the barriers of the grid, "
                                     : "");
}

fl_kset fl_kset_new(fl_kad_state *d) {
  return fl_karena_new(d->a, (size_t)d->words * sizeof(uint64_t));
}

fl_kset fl_kset_copy(fl_kad_state *d, fl_kset s) {
  fl_kset r = fl_kset_new(d);
  if (r) memcpy(r, s, (size_t)d->words * sizeof *r);
  return r;
}

fl_kad_note *fl_kad_note_of(fl_kad_state *d, fl_kstmt *s) {
  if (!s->note) s->note = fl_karena_new(d->a, sizeof(fl_kad_note));
  return s->note;
}

int fl_kad_var(fl_kad_state *d, int kind, int type, const char *name, int64_t count) {
  return name ? fl_kvar_add(d->f, (fl_kvkind)kind, type, name, count) : -1;
}

fl_kblock *fl_kad_for(fl_kad_state *d, fl_kblock *b, int v, fl_kexpr *first, fl_kexpr *count,
                      fl_kexpr *by) {
  kx_set(d, b, v, first);
  fl_kstmt *s = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_LT, kx_var(d, v), count));
  if (!s || d->a->failed) return NULL;
  kx_set(d, &s->other, v, kx_op(d, FL_KO_ADD, kx_var(d, v), by));
  return &s->body;
}

const char *fl_kad_name(fl_kad_state *d, const char *prefix, int var) {
  return fl_karena_printf(d->a, "%s%s", prefix, d->f->vars[var].name);
}

/* The index of the struct member (leaf) that variable v is, within its parameter; -1: v is not a
** member. */
static int leaf_of(const fl_kfunc *f, int v) {
  if (f->vars[v].param < 0) return -1;
  const fl_kparam *p = &f->params[f->vars[v].param];
  return p->is_struct && !p->is_pointer ? v - p->first_var : -1;
}

int fl_kad_param_new(fl_kad_state *d, int role, int source, const char *prefix, int type,
                     int is_pointer, int is_const) {
  const char *name = source < 0 ? prefix : fl_kad_name(d, prefix, source);
  const int v = name ? fl_kparam_add(d->f, name, type, is_pointer, is_const) : -1;
  if (v < 0 || d->f->n_params > d->n_cap) return -1;
  fl_kad_param *p = &d->res->params[d->f->n_params - 1];
  p->role = (uint8_t)role;
  p->type = (uint8_t)type;
  p->param = source < 0 ? -1 : d->f->vars[source].param;
  p->leaf = source < 0 ? -1 : leaf_of(d->f, source);
  return v;
}

/* ---- set up ----------------------------------------------------------------------------- */

/* Makes the tables by variable, for the variables that exist now, and describes the parameters of
** the source. */
void fl_kad_variables(fl_kad_state *d) {
  const fl_kfunc *f = d->source;
  d->n0 = d->f->n_vars;
  d->words = d->n0 / 64 + 1;
  uint8_t *bytes = fl_karena_new(d->a, 5 * ((size_t)d->n0 + 1));
  d->shadow = fl_karena_new(d->a, ((size_t)d->n0 + 1) * sizeof *d->shadow);
  d->defs = fl_kdefs_new(d->a, d->f, d->body);
  d->claims = fl_karena_new(d->a, 2 * ((size_t)d->n0 + 1) * sizeof *d->claims);
  d->readers = d->claims ? d->claims + d->n0 : NULL;
  if (!bytes || !d->claims || !d->shadow || !d->defs || d->a->failed) return;
  uint8_t **const at[] = {&d->varied, &d->useful, &d->active, &d->zeroes, &d->adds};
  for (int i = 0; i < 5; i++) *at[i] = bytes + (size_t)i * (size_t)(d->n0 + 1);
  for (int i = 0; i < d->n0; i++) d->shadow[i] = -1;
  for (int p = 0; p < f->n_params; p++) {
    fl_kad_param *x = &d->res->params[p];
    const fl_kparam *of = &f->params[p];
    x->param = p;
    x->leaf = -1;
    x->type = of->is_struct && !of->is_pointer ? FL_KT_VOID : of->type;
  }
}

/* MOST_STATEMENTS, MOST_ACCESSES: kernels with more are refused; each access of memory is compared
** with the others that may be of the same element. MUCH_KEPT: bytes per thread in snapshots from
** which on short loops may be written out, up to MOST_WRITTEN statements. LOOP_WEIGHT: an adjoint
** is weighed as if each loop made so many rounds. */
enum { MUCH_KEPT = 1024, MOST_WRITTEN = 1000, MOST_STATEMENTS = 100000, MOST_ACCESSES = 10000,
       LOOP_WEIGHT = 16, MOST_WEIGHT = 1 << 24 };

/* 0: f is refused, or memory is out (see finish). */
static int set_up(fl_kad_state *d, const fl_kfunc *f) {
  fl_karena *a = d->a;
  d->source = f;
  d->n_cap = f->n_params + f->n_vars + FL_KAD_KEPT_MOST + 1;
  d->res = fl_karena_new(a, sizeof *d->res);
  d->f = fl_kfunc_clone(a, f);
  if (!d->res || !d->f) return 0;
  d->res->params = fl_karena_new(a, (size_t)d->n_cap * sizeof *d->res->params);
  d->n_sites0 = f->n_sites;
  d->site_add = fl_karena_new(a, (size_t)f->n_sites + 1);
  d->site_meets = fl_karena_new(a, (size_t)f->n_sites + 1);
  d->shared_offset = d->words_view = -1;
  if (!d->res->params || !d->site_add || !d->site_meets) return 0;
  if (!f->has_body) {
    fl_kad_refuse(d, f->refusal_line, "%s: this",
                  f->refusal ? f->refusal : "a kernel without body");
    return 0;
  }
  fl_kad_unify_views(d->f);
  d->body = d->f->body;
  return 1;
}

/* Runs the passes one after the other until one fails (fl_kad_dead). */
static void run(fl_kad_state *d, const fl_kad_pass *pass, int n) {
  for (int i = 0; i < n && !fl_kad_dead(d); i++) {
    pass[i].run(d);
    if (pass[i].makes && !fl_kad_dead(d)) fl_kpass_done(pass[i].name, d->f, d->body);
  }
}

/* Finds the facts about the kernel's accesses to memory. Marks in site_meets the stores by which
** several threads may write one element: those not proven to write elements of one thread each. */
static void find_facts(fl_kad_state *d) {
  d->facts = fl_kfacts_new(d->a, d->source, d->r->geometry, d->r->launched, &d->res->limits);
  for (int i = 0; d->facts && i < d->n_sites0; i++)
    if (d->facts->at[i].stored && !d->facts->at[i].owned)
      d->site_meets[i] = FL_KAD_MEETS | FL_KAD_MEETS_AT_ONCE | FL_KAD_MEETS_ALIKE;
}

static void canonicalise(fl_kad_state *d) {
  fl_kad_find_winners(d);
  fl_kad_twin_bits(d);
  fl_kad_normalise(d);
  fl_kad_hold_elements(d);
  fl_kad_hold_loads(d);
  fl_kad_read_once(d);
}

/* ---- shadows ---------------------------------------------------------------------------- */

static void shadow_pointer(fl_kad_state *d, int v) {
  const fl_kvar x = d->f->vars[v];
  const int want = d->r->want[x.param], output = (want & FL_KAD_OUTPUT) && !x.is_const;
  const int type = fl_kad_type(x.type);
  int role = FL_KAD_WORK;
  if (!fl_kad_written(d, v) && !output) role = FL_KAD_GRAD;
  else if (fl_kad_written(d, v) && !d->zeroes[v] && !d->adds[v]) role = FL_KAD_COTANGENT;
  d->shadow[v] = fl_kad_param_new(d, role, v, "grad_", role == FL_KAD_COTANGENT ? x.type : type, 1,
                                  role == FL_KAD_COTANGENT);
  if (d->shadow[v] < 0) return;
  fl_kad_param *p = &d->res->params[d->f->n_params - 1];
  p->seeded = (uint8_t)output;
  p->through = role == FL_KAD_COTANGENT;
}

static void barrier(fl_kad_state *d, fl_kblock *b) {
  fl_kstmt *s = fl_kstmt_new(d->a, b, FL_KS_BARRIER, 0);
  if (s) s->op = FL_KBAR_BLOCK;
  if (s) fl_kad_next_phase(d, b, s);
}

/* Adds code that clears the shadow of v: array[e] = 0 for e = first, first + by, … below count. */
static void clear(fl_kad_state *d, fl_kblock *b, int v, fl_kexpr *first, fl_kexpr *count,
                  fl_kexpr *by) {
  const int array = d->shadow[v];
  const int e = fl_kad_local(d, FL_KT_I64, "e");
  fl_kblock *in = fl_kad_for(d, b, e, first, count, by);
  if (in)
    fl_kstmt_store(d->f, in, array, fl_kad_at(d, v, kx_var(d, e)),
                   fl_kexpr_zero(d->a, d->f->vars[array].type));
}

/* The linear index of the thread in its block, and the number of threads in the block. */
static fl_kexpr *thread_number(fl_kad_state *d) {
  return fl_kexpr_number(d->a, FL_KT_I64, FL_KSPECIAL_TID_X, FL_KSPECIAL_BDIM_X);
}
static fl_kexpr *thread_count(fl_kad_state *d) {
  return fl_kexpr_volume(d->a, FL_KT_I64, FL_KSPECIAL_BDIM_X);
}

int fl_kad_shared_bytes(fl_kad_state *d) {
  if (d->shared_offset < 0)
    d->shared_offset = fl_kad_param_new(d, FL_KAD_SHARED, -1, "shared_bytes", FL_KT_I64, 0, 0);
  return d->shared_offset;
}

fl_kexpr *fl_kad_shared_count(fl_kad_state *d, int var) {
  const fl_kvar x = d->f->vars[var];
  if (!x.dynamic) return kx_int(d, x.count);
  const int bytes = fl_kad_shared_bytes(d);
  return bytes < 0 ? NULL : kx_op(d, FL_KO_DIV, kx_var(d, bytes), kx_int(d, fl_kt_size(x.type)));
}

/* A view of dynamic shared memory as words, by which its bytes are copied whatever they are. */
static int words_of_memory(fl_kad_state *d) {
  if (d->words_view >= 0) return d->words_view;
  d->words_view = fl_kad_var(d, FL_KV_SHARED, FL_KT_U32, "words", 0);
  if (d->words_view >= 0) d->f->vars[d->words_view].dynamic = 1;
  return d->words_view;
}

/* The element 'at' of an array whose elements have 'size' bytes, counted in words. */
static fl_kexpr *in_words(fl_kad_state *d, fl_kexpr *at, int size) {
  return kx_op(d, FL_KO_DIV, kx_op(d, FL_KO_MUL, at, kx_int(d, size)), kx_int(d, 4));
}

void fl_kad_copy_between(fl_kad_state *d, fl_kblock *b, int v, int to, fl_kexpr *to_at, int from,
                 fl_kexpr *from_at) {
  const int shared = d->f->vars[v].kind == FL_KV_SHARED, size = fl_kt_size(d->f->vars[v].type);
  if (d->f->vars[v].dynamic && d->res->views) {         /* the whole memory, with all its views */
    if ((v = to = from = words_of_memory(d)) < 0) return;
    to_at = in_words(d, to_at, size);
    from_at = in_words(d, from_at, size);
  }
  fl_kexpr *zero = kx_int(d, 0), *one = kx_int(d, 1), *count = fl_kad_shared_count(d, v);
  const int e = shared ? fl_kad_local(d, FL_KT_I64, "e") : fl_ktemp(d->f, FL_KT_I64);
  if (shared) barrier(d, b);
  /* the threads share the work; if some may have returned ('leave'), each other one does all */
  const int part = shared && !d->leave;
  fl_kblock *in = fl_kad_for(d, b, e, part ? thread_number(d) : zero, count,
                             part ? thread_count(d) : one);
  if (!in) return;
  fl_kexpr *x = fl_kexpr_load(d->f, from, kx_op(d, FL_KO_ADD, from_at, kx_var(d, e)));
  fl_kstmt_store(d->f, in, to, kx_op(d, FL_KO_ADD, to_at, kx_var(d, e)), x);
  if (shared) barrier(d, b);
}

void fl_kad_move(fl_kad_state *d, fl_kblock *b, int v, int kept, fl_kexpr *at, int back) {
  if (back) fl_kad_copy_between(d, b, v, v, kx_int(d, 0), kept, at);
  else fl_kad_copy_between(d, b, v, kept, at, v, kx_int(d, 0));
}

int fl_kad_shadow(fl_kad_state *d, int v, const char *prefix) {
  const fl_kvar x = d->f->vars[v];
  const int type = fl_kad_type(x.type);
  if (x.dynamic && fl_kad_shared_bytes(d) < 0) return -1;
  if (x.dynamic && type == x.type) return v;
  const int to = fl_kad_var(d, x.kind, type, fl_kad_name(d, prefix, v), x.count);
  if (to >= 0 && x.dynamic) d->f->vars[to].dynamic = x.type == FL_KT_BF16 ? 3 : 2;
  return to;
}

static void make_shadows(fl_kad_state *d, fl_kblock *b) {
  int shared = 0, cleared[2] = { 0 };
  for (int v = 0; v < d->n0 && !fl_kad_dead(d); v++) {
    const int kind = d->f->vars[v].kind;
    if (!d->active[v]) continue;
    if (kind == FL_KV_POINTER) {
      shadow_pointer(d, v);
      continue;
    }
    const int to = d->shadow[v] = fl_kad_shadow(d, v, "d_");
    if (to < 0) return;
    shared |= kind == FL_KV_SHARED;
    fl_kexpr *count = fl_kad_shared_count(d, v);
    int *whole = d->f->vars[v].dynamic ? &cleared[fl_kt_is_half(d->f->vars[v].type)] : NULL;
    if (whole && (*whole)++) continue;           /* all views have their shadows in one region */
    if (kind == FL_KV_SHARED) clear(d, b, v, thread_number(d), count, thread_count(d));
    else if (kind == FL_KV_ARRAY) clear(d, b, v, kx_int(d, 0), count, kx_int(d, 1));
    else kx_set(d, b, to, fl_kexpr_zero(d->a, d->f->vars[to].type));
  }
  if (shared) barrier(d, b);
}

/* Adds the derivatives of parameters that are passed by value to their gradients, once per thread
** at the end. */
static void add_scalars(fl_kad_state *d, fl_kblock *b) {
  const int mode = !d->returns ? FL_KM_BLOCK : d->r->deterministic ? FL_KM_ORDERED : FL_KM_FREE;
  for (int v = 0; v < d->n0 && !fl_kad_dead(d); v++) {
    const fl_kvar x = d->f->vars[v];
    if (!d->active[v] || x.param < 0 || x.kind == FL_KV_POINTER) continue;
    if (!(d->r->want[x.param] & FL_KAD_INPUT)) continue;
    const int to = fl_kad_param_new(d, FL_KAD_GRAD_SCALAR, v, "grad_", fl_kad_type(x.type), 1, 0);
    if (to < 0) return;
    d->res->params[d->f->n_params - 1].count = x.count;
    for (int64_t e = 0; e < x.count; e++) {
      fl_kexpr *g = x.kind == FL_KV_LOCAL ? kx_var(d, d->shadow[v])
                                          : fl_kexpr_load(d->f, d->shadow[v], kx_int(d, e));
      fl_kstmt_atomic(d->f, b, FL_KA_ADD, mode, to, kx_int(d, e), g, -1);
      d->res->n_block += mode == FL_KM_BLOCK;
      d->res->n_atomic += mode != FL_KM_BLOCK;
    }
  }
}

/* ---- roles ------------------------------------------------------------------------------ */

int fl_kad_find_touched(fl_kad_state *d, fl_kad_touched *t) {
  *t = (fl_kad_touched){fl_karena_new(d->a, (size_t)d->f->n_vars + 1),
                        fl_karena_new(d->a, (size_t)d->f->n_vars + 1)};
  if (!t->read || !t->written) return 0;
  fl_kaccessed(d->f->body, t->read, t->written);
  return 1;
}

void fl_kad_roles(fl_kad_state *d, int n_params, int tangent) {
  fl_kad_touched t;
  if (!fl_kad_find_touched(d, &t)) return;
  for (int i = 0; i < d->f->n_vars; i++) {
    const fl_kvar *x = &d->f->vars[i];
    if (x->kind != FL_KV_POINTER || x->param >= n_params) continue;
    const fl_kparam *p = &d->f->params[x->param];
    const int leaf = p->is_struct && !p->is_pointer;
    if (t.read[i] && d->res->params[x->param].role == FL_KAD_FINAL) continue;
    const int role = t.written[i] ? (tangent ? FL_KAD_RESULT : FL_KAD_SCRATCH)
                   : t.read[i] ? FL_KAD_ORIGINAL : FL_KAD_UNUSED;
    if (!leaf) d->res->params[x->param].role = (uint8_t)role;
    else if (role == FL_KAD_SCRATCH)
      fl_kad_refuse(d, x->line, "'%s', which is read and written inside a struct (pass it as a "
                    "separate parameter),", x->source);
  }
}

static fl_kad *finish(fl_kad_state *d) {
  if (!d->res) return NULL;
  if (d->res->refusal) {
    d->res->func = NULL;
    return d->res;
  }
  if (d->a->failed) {
    d->a->most = 0;                                       /* no limit: room for the message */
    if ((d->a->failed == FL_KARENA_DEEP || d->a->failed == FL_KARENA_LARGE) && d->f)
      d->res->refusal = fl_karena_printf(d->a, "kernel '%s', line %d: it is too large to be "
                                         "differentiated"
                                         FL_DO "; give vjp = ... or mark the argument "
                                         "nodiff", d->f->name, d->f->line);
    return d->res->refusal ? d->res : NULL;
  }
  fl_kad_place_shared(d->f);
  d->res->func = d->f;
  d->res->n_params = d->f->n_params;
  for (int i = 0; i < d->res->n_params; i++)
    if (d->res->params[i].role == FL_KAD_SHARED) d->res->params[i].count = d->regions;
  return d->res;
}

fl_kad *fl_kad_derive(fl_kad_state *d, const fl_kfunc *f, const fl_kad_pass *pass, int n,
                      const char *ending) {
  if (!set_up(d, f)) return finish(d);
  run(d, pass, n);
  if (!fl_kad_dead(d)) d->f->name = fl_karena_printf(d->a, "%s_%s", f->name, ending);
  return finish(d);
}

static int count_load(void *n, fl_kexpr *x) {
  *(int *)n += x->kind == FL_KX_LOAD;
  return 1;
}

static int count_write(void *n, fl_kstmt *s) {
  *(int *)n += fl_kwrites(s);
  return 1;
}

static void refuse_long(fl_kad_state *d) {
  int n = 0;
  const fl_kvisitor v = { count_write, count_load, &n };
  fl_kwalk_block(&v, d->source->body);
  if (fl_kblock_length(d->source->body) > MOST_STATEMENTS)
    fl_kad_refuse(d, d->source->line, "a kernel of more than %d statements (functions are inlined)",
                  MOST_STATEMENTS);
  else if (n > MOST_ACCESSES)
    fl_kad_refuse(d, d->source->line, "a kernel that reads and writes elements at more than %d "
                  "places (functions are inlined)", MOST_ACCESSES);
}

static void synthesise(fl_kad_state *d) {
  fl_kblock first = {0}, forward = {0}, reverse = {0};
  fl_kset keep = fl_kset_new(d);
  if (!keep) return;
  fl_kad_number_thread(d, &first);
  make_shadows(d, &first);
  fl_kad_carries(d, &first);
  d->top = !d->returns;
  fl_kad_sweep(d, &d->body, keep, &forward, &reverse);
  fl_kblock_append(&first, forward);
  fl_kblock_append(&first, reverse);
  add_scalars(d, &first);
  if (fl_kad_dead(d)) return;
  d->body = d->f->body = first;
  fl_kfunc_number_loops(d->f);
  fl_kad_sum_loops(d);
  fl_kad_tell_strategy(d);
}

static void tidy(fl_kad_state *d) {
  fl_kad_last_values(d);
  fl_kad_tidy(d);
  fl_kad_last_cotangents(d);
  fl_kad_roles(d, d->source->n_params, 0);
  if (fl_kad_dead(d)) return;
  fl_kad_phases(d);
  fl_kad_free_orders(d);
  fl_kad_sum_lanes(d->a, d->f, fl_kad_beyond(d));
  d->body = d->f->body;
}

/* Derives f: runs each pass once. in_thread: by variable: 1: an array of which each thread keeps in
** registers what it has read. *again: 1 + the variable of a further array that has to be marked in
** in_thread before f is derived again; 0: none. */
static fl_kad *adjoint(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r, int lists,
                       const uint8_t *in_thread, int32_t *again) {
  static const fl_kad_pass passes[] = {
    { "length", refuse_long, 0 },              /* is it short enough to be analysed? */
    { "facts", find_facts, 0 },     /* which thread owns which elements, in the kernel as written */
    { "canonical form", canonicalise, 1 },     /* no jumps; elements held in registers */
    { "variables", fl_kad_variables, 0 },      /* tables by variable; definitions (defs.h) */
    { "activity", fl_kad_activity, 0 },        /* what carries a derivative */
    { "last values", fl_kad_last, 0 },         /* which arrays are read as the launch leaves them */
    { "refusals", fl_kad_refuse_early, 0 },
    { "marks", fl_kad_need, 0 },        /* values of the forward code that the reverse code reads */
    { "sums", fl_kad_modes, 0 },   /* how gradients are added up, and which of them are cleared */
    { "zeros", fl_kad_strong, 0 },             /* where 0 times infinity is 0 */
    { "synthesis", synthesise, 1 },   /* makes the code, with a strategy for each loop */
    { "tidying", tidy, 1 },
  };
  fl_kad_state d = {.a = a, .r = r, .in_thread = in_thread, .lists = (uint8_t)lists};
  fl_kad *res = fl_kad_derive(&d, f, passes, (int)(sizeof passes / sizeof *passes), "vjp");
  *again = d.again;
  return res;
}

/* Derives f. As long as the result asks for it ('again'), marks one more array in in_thread (what
** threads read of it they keep in registers) and derives f again. lists: see fl_kad_state. */
static fl_kad *settled(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r, int lists) {
  int32_t again = 0;
  fl_kad *res = adjoint(a, f, r, lists, NULL, &again);
  uint8_t *in_thread = again ? fl_karena_new(a, (size_t)f->n_vars + 1) : NULL;
  while (again) {
    if (!in_thread) return NULL;
    in_thread[again - 1] = 1;
    again = 0;
    res = adjoint(a, f, r, lists, in_thread, &again);
  }
  return res;
}

/* The bytes per thread that the adjoint's loops keep. */
static int64_t kept_bytes(const fl_kad *ad) {
  int64_t n = 0;
  for (int i = 0; i < ad->n_kept; i++) n += ad->kept[i].bytes;
  return n;
}

/* The adjoint of f with its short loops unrolled, if that moves at most half as many bytes
** (fl_kad.moved) as 'first'; else 'first'. A loop that rewrites a private array keeps whole copies
** of it. Unrolled, its indices are constants, so only single elements are kept, in registers. */
static fl_kad *written_out(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r,
                           fl_kad *first) {
  const int64_t kept = kept_bytes(first);
  if (first->refusal || kept < MUCH_KEPT || a->failed) return first;
  const fl_kfunc *g = fl_kunroll(a, f, MOST_WRITTEN);
  fl_kad *second = g ? settled(a, g, r, 0) : NULL;
  if (a->failed == FL_KARENA_DEEP || a->failed == FL_KARENA_LARGE) a->failed = 0;
  const int better = second && second->func && second->moved * 2 <= first->moved;
  return better ? second : first;
}

/* The statements of b, those in a loop LOOP_WEIGHT times. */
static int64_t weight(fl_kblock b, int64_t each) {
  int64_t n = 0;
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    const int64_t inside = s->kind == FL_KS_LOOP && each < MOST_WEIGHT ? each * LOOP_WEIGHT : each;
    n += each + weight(s->body, inside) + weight(s->other, inside);
  }
  return n;
}

/* The adjoint of *f or, where that is refused or at least a third longer, that of a kernel that
** reads its results (fl_kad_read_results), which *f then is. */
static fl_kad *by_results(fl_karena *a, const fl_kfunc **f, const fl_kad_request *r) {
  fl_kad *first = settled(a, *f, r, 0);
  const fl_kfunc *g = first && !a->failed ? fl_kad_read_results(a, *f, r) : NULL;
  fl_kad *second = g ? settled(a, g, r, 0) : NULL;
  if (a->failed == FL_KARENA_DEEP || a->failed == FL_KARENA_LARGE) a->failed = 0;
  if (!second || !second->func) return first;
  if (first->func && weight(second->func->body, 1) * 4 > weight(first->func->body, 1) * 3)
    return first;
  *f = g;
  return second;
}

/* The adjoint of f, also where f must be rewritten for it (by_results, written_out,
** fl_kad_widen), or its loops must list what they write. */
static fl_kad *derived(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r) {
  fl_kad *first = by_results(a, &f, r);
  if (first && !first->refusal) return written_out(a, f, r, first);
  const fl_kfunc *g = first && !a->failed ? fl_kad_widen(a, f, r) : NULL;
  for (int lists = 0; lists < 2; lists++)
    for (int wide = !lists; wide < 2 && first && !a->failed; wide++) {
      fl_kad *next = !wide || g ? settled(a, wide ? g : f, r, lists) : NULL;
      if (next && !next->refusal) return next;
      if (a->failed == FL_KARENA_DEEP || a->failed == FL_KARENA_LARGE) a->failed = 0;
    }
  return first;
}

/* The adjoint of f or, where that is refused, of f with barriers of the grid (fl_kad_meet_grid). */
static fl_kad *met(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r) {
  fl_kad *first = derived(a, f, r);
  for (int between = 0; between < 2 && first && first->refusal && !a->failed; between++) {
    const fl_kfunc *g = fl_kad_meet_grid(a, f, between);
    fl_kad *next = g ? derived(a, g, r) : NULL;
    if (next && next->func) return next;
  }
  return first;
}

/* The adjoint of f. Where several threads may store to one element, the first of them that runs
** the reverse code takes the cotangent (an atomic exchange with 0). No fixed order of the sums is
** possible then: f is derived again with sums in any order. */
static fl_kad *ordered(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r) {
  fl_kad *res = met(a, f, r);
  if (!res || !res->func || !r->deterministic || !res->taken_line) return res;
  fl_kad_request free = *r;
  free.deterministic = 0;
  res = met(a, f, &free);
  if (res) res->unordered_line = res->taken_line;
  if (res) res->any_order = 1;
  return res;
}

fl_kad *fl_kad_adjoint(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r) {
  const fl_kfunc *h = fl_kad_without_swaps(a, f, 0), *g = h ? fl_kad_without_copies(a, h) : NULL;
  fl_kad *res = g ? ordered(a, g, r) : NULL;
  fl_kad_tell("adjoint", f, r, res);
  return res;
}
