/*
** Adjoints whose arrays do not fit the shared memory of a block: some of them move to global
** memory, where each block has a slice. These are arrays of the adjoint alone (gradients of shared
** arrays, and old contents that loops keep), never those of the kernel: a static array of it or, of
** dynamic memory, the regions with old contents, then those with gradients too.
**
** The finished adjoint is rewritten, so all that was proven of an array in shared memory holds for
** the slice: the same threads access it, and __syncthreads() orders global memory for the threads
** of a block as well. An array becomes a parameter of role KEPT, and d_tile[i] becomes
** global_d_tile[of_d_tile + i], where of_d_tile is the block's number times the length of a slice.
** In dynamic memory an access is known by its index: the parameter of role SHARED is a part of it
** where it is beyond the kernel's own data.
*/
#include "kernel/ad/ad_state.h"

/* What moves: as many static arrays as 'arrays', the largest first, and of dynamic memory: */
enum { NOTHING, COPIES, ALL_BEYOND, LEVELS };

/* ---- what moves ---- */

static int64_t bytes_of(const fl_kvar *v) {
  return (v->count * fl_kt_size(v->type) + 15) / 16 * 16;
}

static int is_own(const fl_kvar *v) {
  return v->kind == FL_KV_SHARED && !v->dynamic && v->temporary;
}

/* The static array that moves after n others; -1: there is none. */
static int32_t largest(const fl_kfunc *f, int n) {
  int32_t best = -1, last = -1;
  for (int k = 0; k <= n; k++, last = best) {
    best = -1;
    for (int32_t v = 0; v < f->n_vars; v++) {
      if (!is_own(&f->vars[v])) continue;
      const int64_t size = bytes_of(&f->vars[v]);
      if (last >= 0 && (size > bytes_of(&f->vars[last]) ||
                        (size == bytes_of(&f->vars[last]) && v <= last)))
        continue;
      if (best < 0 || size > bytes_of(&f->vars[best])) best = v;
    }
    if (best < 0) return -1;
  }
  return best;
}

static fl_kad_param *beyond_of(const fl_kad *ad) {
  for (int i = 0; i < ad->n_params; i++)
    if (ad->params[i].role == FL_KAD_SHARED) return &ad->params[i];
  return NULL;
}

int64_t fl_kad_shared(const fl_kad *ad, int64_t dynamic) {
  const fl_kad_param *q = beyond_of(ad);
  return ad->func->shared_bytes + (q ? q->count : 1) * dynamic;
}

int32_t fl_kad_excess(const fl_kad *ad, int64_t dynamic, int64_t room) {
  const fl_kad_param *q = beyond_of(ad);
  const int64_t copies = q ? (q->count - 1 - ad->gradients) * dynamic : 0;
  int64_t need = fl_kad_shared(ad, dynamic) + (ad->n_block ? FL_KAD_SUM_SHARED : 0);
  int32_t arrays = 0, level = q && dynamic ? NOTHING : ALL_BEYOND;
  if (level == NOTHING && !copies) level = COPIES;
  const int32_t from = level;
  while (need > room) {
    const int32_t v = largest(ad->func, arrays);
    const int64_t size = v < 0 ? 0 : bytes_of(&ad->func->vars[v]);
    const int64_t all = ad->gradients * dynamic;
    const int64_t region = level == NOTHING ? copies : level == COPIES ? all : 0;
    if (!size && !region) break;
    need -= size > region ? size : region;
    if (size > region) arrays++;
    else level++;
  }
  return arrays * LEVELS + (level == from ? NOTHING : level);
}

/* ---- moving ---- */

typedef struct spill {
  fl_karena *a;
  fl_kad *ad;                    /* the result */
  fl_kfunc *f;
  int32_t beyond, block, level;  /* variables; the dynamic memory that moves */
  int64_t first;                 /* the first region that moves */
  int32_t n0, *to, *at;          /* by variable of the n0 before: the parameter's that has its
                                 ** elements, the one with the start of the slice there; -1: none */
} spill;

static fl_kexpr *var(const spill *m, int32_t v) { return fl_kexpr_var(m->f, v); }
static fl_kexpr *number(const spill *m, int64_t i) { return fl_kexpr_int(m->a, FL_KT_I64, i); }
static fl_kexpr *op(const spill *m, int o, fl_kexpr *x, fl_kexpr *y) {
  return fl_kexpr_binary(m->a, o, x, y);
}

/* Adds a parameter with 'count' elements of v's type for each block (part 0), or for each 'part'
** bytes of dynamic memory. */
static int32_t add_param(spill *m, int32_t v, int64_t count, int part) {
  const fl_kvar x = m->f->vars[v];
  const char *name = fl_karena_printf(m->a, "global_%s", x.name);
  const int32_t to = name ? fl_kparam_add(m->f, name, x.type, 1, 0) : -1;
  const int n = m->f->n_params;
  fl_kad_param *all = to < 0 ? NULL : fl_karena_new(m->a, (size_t)n * sizeof *all);
  if (!all) return -1;
  memcpy(all, m->ad->params, (size_t)(n - 1) * sizeof *all);
  all[n - 1] = (fl_kad_param){.role = FL_KAD_KEPT, .type = x.type, .part = (uint8_t)part,
                              .fresh = 1, .param = -1, .leaf = -1, .count = count};
  m->ad->params = all;
  m->ad->n_params = n;
  return to;
}

/* The bytes of a region of dynamic memory, counted in elements of v's type. */
static fl_kexpr *region(const spill *m, int32_t v) {
  return op(m, FL_KO_DIV, var(m, m->beyond), number(m, fl_kt_size(m->f->vars[v].type)));
}

/* Adds a parameter for v, and code that computes where the block's slice begins there. */
static void move(spill *m, int32_t v, fl_kblock *b) {
  const fl_kvar x = m->f->vars[v];
  const int64_t regions = x.dynamic ? beyond_of(m->ad)->count - m->first : 0;
  for (int32_t i = 0; i < v && x.dynamic; i++) {          /* one for all of a type */
    if (m->to[i] < 0 || !m->f->vars[i].dynamic || m->f->vars[i].type != x.type) continue;
    m->to[v] = m->to[i];
    m->at[v] = m->at[i];
    return;
  }
  m->to[v] = add_param(m, v, x.dynamic ? regions : x.count, x.dynamic ? fl_kt_size(x.type) : 0);
  const char *name = fl_karena_printf(m->a, "of_%s", x.name);
  m->at[v] = name ? fl_kvar_add(m->f, FL_KV_LOCAL, FL_KT_I64, name, 1) : -1;
  if (m->to[v] < 0 || m->at[v] < 0) return;
  fl_kexpr *at = op(m, FL_KO_MUL, var(m, m->block), number(m, x.dynamic ? regions : x.count));
  if (x.dynamic) at = op(m, FL_KO_MUL, op(m, FL_KO_SUB, at, number(m, m->first)), region(m, v));
  fl_kstmt_assign(m->f, b, m->at[v], at);
}

/* ---- which accesses ---- */

/* Does the product x say that an index is in a region after those of gradients? */
static int is_later(const void *of, const fl_kexpr *x) {
  const spill *m = of;
  if (x->kind != FL_KX_BINARY || x->op != FL_KO_MUL) return 0;
  for (int i = 0; i < 2; i++) {
    const fl_kexpr *k = x->x[i];
    if (fl_kreads(x->x[1 - i], m->beyond) &&
        (k->kind != FL_KX_CONST || k->value.i > m->ad->gradients))
      return 1;
  }
  return 0;
}

/* Does the access of v at this index move? */
static int moves(const spill *m, int32_t v, const fl_kexpr *index) {
  if (v >= m->n0 || m->to[v] < 0) return 0;
  if (!m->f->vars[v].dynamic) return 1;
  if (m->beyond < 0 || !fl_kreads(index, m->beyond)) return 0;
  return m->level == ALL_BEYOND || fl_kexpr_any(index, is_later, m);
}

static fl_kexpr *shifted(const spill *m, int32_t v, fl_kexpr *index) {
  return op(m, FL_KO_ADD, var(m, m->at[v]), index);
}

/* (After its operands, which hold indices as well.) */
static fl_kexpr *rewritten(void *arg, fl_kexpr *x) {
  spill *m = arg;
  x = fl_kexpr_mapped(m->a, x, rewritten, m);
  if (!x || x->kind != FL_KX_LOAD || !moves(m, x->var, x->x[0])) return x;
  fl_kexpr *at = shifted(m, x->var, x->x[0]);
  fl_kexpr *y = at ? fl_kexpr_over(m->a, x, &at) : NULL;
  if (!y) return NULL;
  y->var = m->to[x->var];
  return y;
}

static void rewrite_all(spill *m, fl_kblock b) {
  for (fl_kstmt *s = b.first; s && !m->a->failed; s = s->next) {
    for (int i = 0; i < 4; i++)
      if (s->x[i]) s->x[i] = rewritten(m, s->x[i]);
    for (int i = 0; i < s->n_args; i++) s->args[i] = rewritten(m, s->args[i]);
    if (fl_kwrites(s) && moves(m, s->var, s->x[0])) {
      s->x[0] = shifted(m, s->var, s->x[0]);
      s->var = m->to[s->var];
    }
    rewrite_all(m, s->body);
    rewrite_all(m, s->other);
  }
}

/* Is a variable that 'made' marks a part of the value x, beside indices? */
static int is_made_of(const uint8_t *made, const fl_kexpr *x) {
  if (!x || x->kind == FL_KX_LOAD) return 0;
  if (x->kind == FL_KX_VAR && made[x->var]) return 1;
  for (int i = 0; i < x->n; i++)
    if (is_made_of(made, x->x[i])) return 1;
  return 0;
}

/* Variables whose values are made of the parameter of role SHARED ('made'), and whether one is a
** part of an index of dynamic memory, which could not be told from others. */
typedef struct hidden { const fl_kfunc *f; uint8_t *made; int more, is; } hidden;

static int see_made(void *arg, fl_kstmt *s) {
  hidden *h = arg;
  if (s->kind == FL_KS_ASSIGN && !h->made[s->var] && is_made_of(h->made, s->x[0]))
    h->made[s->var] = (uint8_t)(h->more = 1);
  return 1;
}

static void look(hidden *h, int32_t v, const fl_kexpr *index) {
  h->is |= h->f->vars[v].dynamic && is_made_of(h->made, index);
}

static int see_index(void *arg, fl_kstmt *s) {
  if (fl_kwrites(s)) look(arg, s->var, s->x[0]);
  return 1;
}

static int see_load(void *arg, fl_kexpr *x) {
  if (x->kind == FL_KX_LOAD) look(arg, x->var, x->x[0]);
  return 1;
}

static int hides(const spill *m) {
  hidden h = {.f = m->f, .made = fl_karena_new(m->a, (size_t)m->n0 + 1), .more = 1};
  const fl_kvisitor making = {see_made, NULL, &h}, using = {see_index, see_load, &h};
  if (!h.made) return 1;
  h.made[m->beyond] = 1;
  while (h.more) {
    h.more = 0;
    fl_kwalk_block(&making, m->f->body);
  }
  h.made[m->beyond] = 0;                         /* (itself it is seen) */
  fl_kwalk_block(&using, m->f->body);
  return h.is;
}

/* ---- the whole ---- */

/* Adds a loop that clears the block's slice of gradients in the parameter of dynamic array v. */
static void clear(const spill *m, int32_t v, fl_kblock *b) {
  const int32_t e = fl_kvar_add(m->f, FL_KV_LOCAL, FL_KT_I64, "e", 1);
  if (e < 0) return;
  fl_kexpr *end = op(m, FL_KO_MUL, region(m, v), number(m, 1 + m->ad->gradients));
  fl_kexpr *by = fl_kexpr_volume(m->a, FL_KT_I64, FL_KSPECIAL_BDIM_X);
  fl_kexpr *first = fl_kexpr_number(m->a, FL_KT_I64, FL_KSPECIAL_TID_X, FL_KSPECIAL_BDIM_X);
  fl_kstmt_assign(m->f, b, e, op(m, FL_KO_ADD, first, region(m, v)));
  fl_kstmt *s = fl_kstmt_loop(m->f, b, op(m, FL_KO_LT, var(m, e), end));
  if (!s) return;
  fl_kstmt_assign(m->f, &s->other, e, op(m, FL_KO_ADD, var(m, e), by));
  fl_kstmt_store(m->f, &s->body, m->to[v], shifted(m, v, var(m, e)),
                 fl_kexpr_zero(m->a, m->f->vars[v].type));
}

/* Gradients in dynamic memory of several types are one region there, which the kernel clears once;
** here each type has its own. */
static void clear_all(const spill *m, fl_kblock *b) {
  int n = 0;
  for (int32_t v = 0; v < m->n0; v++) {
    if (m->to[v] < 0 || !m->f->vars[v].dynamic || !fl_kt_is_float(m->f->vars[v].type)) continue;
    clear(m, v, b);
    n++;
  }
  fl_kstmt *s = n ? fl_kstmt_new(m->a, b, FL_KS_BARRIER, 0) : NULL;
  if (s) s->op = FL_KBAR_BLOCK, m->f->uses_barrier = 1;
}

/* Removes the static arrays that have moved: what stays of one is a local that is not used. */
static void remove_moved(const spill *m) {
  fl_kfunc *f = m->f;
  f->shared_bytes = 0;
  for (int32_t v = 0; v < m->n0; v++) {
    fl_kvar *x = &f->vars[v];
    if (m->to[v] >= 0 && !x->dynamic) x->kind = FL_KV_LOCAL, x->count = 1;
    if (x->kind == FL_KV_SHARED && !x->dynamic) f->shared_bytes += bytes_of(x);
  }
  fl_kad_place_shared(f);
}

static void move_all(spill *m, int arrays) {
  fl_kblock first = {0};
  m->block = fl_kvar_add(m->f, FL_KV_LOCAL, FL_KT_I64, "block", 1);
  if (m->block < 0) return;
  fl_kstmt_assign(m->f, &first, m->block,
                  fl_kexpr_number(m->a, FL_KT_I64, FL_KSPECIAL_BID_X, FL_KSPECIAL_GDIM_X));
  for (int32_t v = 0; v < m->n0 && m->level && !m->a->failed; v++)
    if (m->f->vars[v].kind == FL_KV_SHARED && m->f->vars[v].dynamic) move(m, v, &first);
  for (int k = 0; k < arrays && !m->a->failed; k++) move(m, largest(m->f, k), &first);
  if (m->a->failed) return;
  rewrite_all(m, m->f->body);
  if (m->level == ALL_BEYOND) clear_all(m, &first);
  fl_kblock_append(&first, m->f->body);
  m->f->body = first;
  remove_moved(m);
}

/* Leaves so many regions of dynamic memory. */
static void keep_regions(const spill *m) {
  for (int i = 0; i < m->ad->n_params && m->level; i++)
    if (m->ad->params[i].role == FL_KAD_SHARED) m->ad->params[i].count = m->first;
}

fl_kad *fl_kad_spill(fl_karena *a, const fl_kad *ad, int32_t excess) {
  spill m = {.a = a, .beyond = -1, .level = excess % LEVELS};
  m.ad = fl_karena_new(a, sizeof *m.ad);
  m.f = fl_kfunc_clone(a, ad->func);
  if (!m.ad || !m.f) return NULL;
  *m.ad = *ad;
  m.ad->func = m.f;
  m.n0 = m.f->n_vars;
  m.to = fl_karena_new(a, 2 * (size_t)m.n0 * sizeof *m.to + 1);
  if (!m.to) return NULL;
  m.at = m.to + m.n0;
  for (int32_t v = 0; v < 2 * m.n0; v++) m.to[v] = -1;
  for (int i = 0; i < ad->n_params; i++)
    if (ad->params[i].role == FL_KAD_SHARED) m.beyond = m.f->params[i].first_var;
  m.first = m.level == COPIES ? 1 + ad->gradients : 1;
  if (m.level && hides(&m)) return NULL;
  move_all(&m, excess / LEVELS);
  if (a->failed) return NULL;
  keep_regions(&m);
  fl_kad_sum_lanes(a, m.f, m.beyond);
  if (a->failed) return NULL;
  fl_kpass_done("moving arrays to global memory", m.f, m.f->body);
  return m.ad;
}
