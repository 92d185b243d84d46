/*
** Which atomic additions are kept in registers until the end of the kernel (text_near.h): those in
** any order (FL_KM_FREE) to a global array that this kernel only adds to, by atomics, at two or
** three of base - 1, base and base + 1, where base has one value in a thread (its variables are
** assigned once, outside loops) and grows by one from lane to lane. A kernel with a RETURN has no
** such sums, since all threads must reach its end.
**
** Whether lanes are neighbours is decided when the kernel runs: if the bases of two lanes differ by
** one, the lane that owns an element adds the other lane's sum for it; otherwise the other lane
** adds its sum itself. A zero sum is not added, since its index may be out of range (a thread that
** contributed nothing has base 0).
*/
#include "kernel/text/text_near.h"
#include "kernel/facts/poly.h"
#include "kernel/text/text.h"
#include <string.h>

enum { MAX_GROUPS = 9, MAX_SEEN = 32, MAX_CHAIN = 32 };

/* An index, base + constant. type: the type in which this sum is computed, I32, U32 or I64. U32
** wraps, the others are exact. */
typedef struct place { uint8_t type; int64_t constant; fl_kpoly base; } place;

/* The sums into one array at one base. type: that of the variable with the base (fl_at_0);
** offsets: bit c + 1 is set if there is a sum at base + c. */
typedef struct group { int32_t pointer; uint8_t type, offsets; place base; } group;

struct fl_knear {
  fl_mem *m;
  const fl_kfunc *f;
  fl_kindices *k;
  uint8_t *used;             /* by variable: read, or written other than by atomic additions */
  int n;
  group at[MAX_SEEN];
};

/* ---- what the kernel does ---------------------------------------------------------- */

static int is_sum(const fl_kfunc *f, const fl_kstmt *s) {
  if (s->kind != FL_KS_ATOMIC || s->op != FL_KA_ADD || s->result >= 0 || s->as) return 0;
  const fl_kvar *v = &f->vars[s->var];
  return v->kind == FL_KV_POINTER && (v->type == FL_KT_F32 || v->type == FL_KT_F64) &&
         v->type == s->x[1]->type;
}

static int see_load(void *arg, fl_kexpr *x) {
  fl_knear *k = arg;
  if (x->kind == FL_KX_LOAD) k->used[x->var] = 1;
  return 1;
}

static int see(void *arg, fl_kstmt *s) {
  fl_knear *k = arg;
  if (fl_kwrites(s) && !is_sum(k->f, s)) k->used[s->var] = 1;
  return 1;
}

static int is_free_sum(const void *f, const fl_kstmt *s) {
  return is_sum(f, s) && s->mode == FL_KM_FREE;
}

static int is_return(const void *none, const fl_kstmt *s) {
  return (void)none, s->kind == FL_KS_RETURN;
}

/* ---- indices ----------------------------------------------------------------------- */

/* Does x have the same value in lanes that differ only in threadIdx.x? 0: no, or not known. */
static int is_still(const fl_knear *k, const fl_kexpr *x, int chain) {
  if (x->kind == FL_KX_LOAD || !fl_kt_is_int(x->type) || chain > MAX_CHAIN) return 0;
  if (x->kind == FL_KX_SPECIAL) return x->op != FL_KSPECIAL_TID_X;
  if (x->kind == FL_KX_VAR && !fl_kdef_is_given(k->k->defs, x->var)) {
    const fl_kexpr *value = fl_kdef_only(k->k->defs, x->var);
    return value && !k->k->defs->var[x->var].in_loop && is_still(k, value, chain + 1);
  }
  for (int i = 0; i < x->n; i++)
    if (!is_still(k, x->x[i], chain)) return 0;
  return 1;
}

static int is_still_symbol(const fl_knear *k, int32_t s) {
  if (s == FL_KSYM_GLOBAL || s == FL_KSPECIAL_TID_X) return 0;
  if (s < FL_KSYM_VAR) return 1;
  if (s < FL_KSYM_UNKNOWN) return fl_kdef_is_given(k->k->defs, s - FL_KSYM_VAR);
  const fl_kunknown *u = *k->k->unknown;
  while (u->symbol != s) u = u->next;
  return is_still(k, u->x, 0);
}

/* Is one term the thread's index along x, and are the others equal in neighbouring threads? */
static int steps_by_one(const fl_knear *k, const fl_kpoly *p) {
  int ones = 0;
  for (int i = 0; i < p->n; i++) {
    const fl_kterm *t = &p->t[i];
    const int one = t->c == 1 && t->n == 1 &&
                    (t->s[0] == FL_KSYM_GLOBAL || t->s[0] == FL_KSPECIAL_TID_X);
    ones += one;
    for (int j = 0; j < t->n && !one; j++)
      if (!is_still_symbol(k, t->s[j])) return 0;
  }
  return ones == 1;
}

static int find_place(const fl_knear *k, const fl_kstmt *s, place *p) {
  const fl_kexpr *x = s->x[0], *value;
  fl_kplace at = { 0 };
  for (int i = 0; i < MAX_CHAIN && x->kind == FL_KX_VAR; i++) {
    if (!(value = fl_kdef_only(k->k->defs, x->var))) break;
    x = value;
  }
  const int from = x->kind == FL_KX_CAST ? x->x[0]->type : FL_KT_I64;
  p->type = from == FL_KT_I32 || from == FL_KT_U32 ? (uint8_t)from : FL_KT_I64;
  if (!fl_kindex_place(k->k, s, &at)) return 0;
  p->base = fl_kpoly_guess(k->k, &at, s->x[0]);
  if (p->base.bad) return 0;
  p->constant = fl_kpoly_take_constant(&p->base);
  return p->constant >= -1 && p->constant <= 1 && steps_by_one(k, &p->base);
}

static int same_base(const place *a, const place *b) {
  return (a->type == FL_KT_U32) == (b->type == FL_KT_U32) && fl_kpoly_same(&a->base, &b->base);
}

/* ---- groups ------------------------------------------------------------------------ */

static int group_of(const fl_knear *k, const fl_kstmt *s, place *p) {
  if (!is_free_sum(k->f, s) || k->used[s->var] || !find_place(k, s, p)) return -1;
  int i = 0;
  while (i < k->n && (k->at[i].pointer != s->var || !same_base(&k->at[i].base, p))) i++;
  return i;
}

static int collect(void *arg, fl_kstmt *s) {
  fl_knear *k = arg;
  place p;
  const int i = group_of(k, s, &p);
  if (i < 0 || i == MAX_SEEN) return 1;
  if (i == k->n) k->at[k->n++] = (group){ .pointer = s->var, .type = p.type, .base = p };
  if (p.type == FL_KT_I64) k->at[i].type = FL_KT_I64;
  k->at[i].offsets |= (uint8_t)(1 << (p.constant + 1));
  return 1;
}

static void keep_worthwhile(fl_knear *k) {
  int n = 0;
  for (int i = 0; i < k->n && n < MAX_GROUPS; i++)
    if (k->at[i].offsets & (k->at[i].offsets - 1)) k->at[n++] = k->at[i];
  k->n = n;
}

fl_knear *fl_knear_new(fl_mem *m, const fl_kfunc *f) {
  if (!fl_kblock_any(f->body, is_free_sum, f) || fl_kblock_any(f->body, is_return, NULL))
    return NULL;
  fl_knear *k = fl_zalloc(m, sizeof *k);
  if (!k) return NULL;
  k->m = m;
  k->f = f;
  k->k = fl_kindices_new(m, f, 0);
  k->used = k->k ? fl_karena_new(&k->k->arena, (size_t)f->n_vars + 1) : NULL;
  if (k->used) {
    fl_kwalk_block(&(fl_kvisitor){ see, see_load, k }, f->body);
    fl_kwalk_block(&(fl_kvisitor){ collect, NULL, k }, f->body);
    keep_worthwhile(k);
  }
  if (k->n) return k;
  fl_knear_free(k);
  return NULL;
}

void fl_knear_free(fl_knear *k) {
  if (!k) return;
  fl_kindices_free(k->k);
  fl_free(k->m, k, sizeof *k);
}

/* ---- text -------------------------------------------------------------------------- */

/* All threads of the block reach this code, so all lanes of a warp that exist are active. */
static const char prelude[] =
  "#ifndef FL_NEAR\n"
  "#define FL_NEAR\n"
  "template <class T, class I>\n"
  "FL_FN void fl_add_near(T *p, I at, T before, T here, T after) {\n"
  "  const unsigned n = blockDim.x * blockDim.y * blockDim.z;\n"
  "  const unsigned i = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n"
  "  const unsigned lane = i % 32, left = n - (i - lane), live = left < 32 ? left : 32;\n"
  "  const unsigned mask = live == 32 ? ~0u : (1u << live) - 1;\n"
  "  const I low = __shfl_up_sync(mask, at, 1), high = __shfl_down_sync(mask, at, 1);\n"
  "  const T from_low = __shfl_up_sync(mask, after, 1);\n"
  "  const T from_high = __shfl_down_sync(mask, before, 1);\n"
  "  if (lane > 0 && (long long)low + 1 == (long long)at) here += from_low;\n"
  "  else if (before != 0) atomicAdd(p + (long long)(I)(at - 1), before);\n"
  "  if (lane + 1 < live && (long long)at + 1 == (long long)high) here += from_high;\n"
  "  else if (after != 0) atomicAdd(p + (long long)(I)(at + 1), after);\n"
  "  if (here != 0) atomicAdd(p + (long long)at, here);\n"
  "}\n"
  "#endif\n";

void fl_knear_prelude(fl_text *t) { fl_text_puts(t, prelude); }

static const char *const registers[] = { "before", "here", "after" };

void fl_knear_begin(const fl_knear *k, fl_text *t) {
  for (int i = 0; i < k->n; i++)
    fl_text_printf(t,
                   "  %s fl_at_%d = 0;\n"
                   "  %s fl_before_%d = 0, fl_here_%d = 0, fl_after_%d = 0;\n",
                   fl_ktypes[k->at[i].type].c, i,
                   fl_ktypes[k->f->vars[k->at[i].pointer].type].c, i, i, i);
}

int fl_knear_put(const fl_knear *k, fl_text *t, const fl_kstmt *s) {
  place p;
  const int i = k ? group_of(k, s, &p) : -1;
  if (i < 0 || i == k->n) return 0;
  fl_text_printf(t, "fl_at_%d = (%s)(", i, fl_ktypes[k->at[i].type].c);
  fl_ktext_expr(t, k->f, s->x[0]);
  if (p.constant) fl_text_printf(t, " %c 1", p.constant > 0 ? '-' : '+');
  fl_text_printf(t, "), fl_%s_%d += ", registers[p.constant + 1], i);
  fl_ktext_expr(t, k->f, s->x[1]);
  return 1;
}

void fl_knear_end(const fl_knear *k, fl_text *t) {
  for (int i = 0; i < k->n; i++) {
    const fl_kexpr p = { .kind = FL_KX_VAR, .var = k->at[i].pointer };
    fl_text_puts(t, "  fl_add_near(");
    fl_ktext_expr(t, k->f, &p);
    fl_text_printf(t, ", fl_at_%d, fl_before_%d, fl_here_%d, fl_after_%d);\n", i, i, i,
                   i);
  }
}
