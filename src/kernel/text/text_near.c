/*
** Which atomic additions are kept in registers until the end of the kernel (text_near.h):
** those to a global array that this kernel does nothing else with but add, at base - 1,
** base and base + 1, where base has one value in a thread (its variables are assigned
** once, outside loops) and grows by one from lane to lane. A kernel with a RETURN has none:
** all threads must reach the end.
**
** That lanes are neighbours is only guessed here and decided when the kernel runs: a lane
** takes over what another one has for its element if their bases differ by one, else the
** other adds it itself. Nothing is added where the sum is zero, as the index may then be
** out of range (a thread that contributed nothing has base 0).
*/
#include "kernel/text/text_near.h"
#include "kernel/facts/defs.h"
#include "kernel/text/text.h"
#include <string.h>

enum { MAX_GROUPS = 9, MAX_SEEN = 32, MAX_TERMS = 8, MAX_CHAIN = 32,
       MAX_VISITS = 64 };
enum { STEP_NONE, STEP_ONE, STEP_OTHER };  /* what an expression does from lane to lane */

/* terms + constant; sums of I32 and I64 are taken as exact, others wrap in their type. */
typedef struct place {
  uint8_t type;              /* I32, U32 or I64: what the sum is made in */
  int n, visits;
  int64_t constant;
  struct { int sign; const fl_kexpr *x; } term[MAX_TERMS];
} place;

typedef struct group { int32_t pointer; uint8_t type, offsets; place base; } group;

struct fl_knear {
  fl_mem *m;
  const fl_kfunc *f;
  fl_karena arena;           /* of what follows */
  fl_kdefs *defs;
  uint8_t *step;             /* of each variable: 1 + what it does from lane to lane; 0: not
                             ** asked yet */
  uint8_t *used;             /* of each variable: read or written otherwise */
  int returns, n;
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
  if (s->kind == FL_KS_RETURN) k->returns = 1;
  if (s->kind == FL_KS_STORE || (s->kind == FL_KS_ATOMIC && !is_sum(k->f, s))) k->used[s->var] = 1;
  return 1;
}

/* ---- indices ----------------------------------------------------------------------- */

static int step_of(const fl_knear *k, const fl_kexpr *x, int chain);

static int step_of_var(const fl_knear *k, int32_t var, int chain) {
  const fl_kexpr *value = fl_kdef_only(k->defs, var);
  if (fl_kdef_is_given(k->defs, var)) return STEP_NONE;
  if (!value || k->defs->var[var].in_loop || chain > MAX_CHAIN) return STEP_OTHER;
  if (!k->step[var]) k->step[var] = (uint8_t)(1 + step_of(k, value, chain + 1));
  return k->step[var] - 1;
}

static int step_of(const fl_knear *k, const fl_kexpr *x, int chain) {
  int s[FL_K_MAX_ARGS] = { 0 }, any = 0;
  if (x->kind == FL_KX_VAR) return step_of_var(k, x->var, chain);
  if (x->kind == FL_KX_SPECIAL) return x->op == FL_KSPECIAL_TID_X ? STEP_ONE : STEP_NONE;
  if (x->kind == FL_KX_LOAD || !fl_kt_is_int(x->type)) return STEP_OTHER;
  for (int i = 0; i < x->n; i++) any |= s[i] = step_of(k, x->x[i], chain);
  if (!any) return STEP_NONE;
  if (x->kind == FL_KX_CAST && fl_kt_size(x->type) >= 4) return s[0];
  if (x->kind != FL_KX_BINARY) return STEP_OTHER;
  if (x->op == FL_KO_ADD && (!s[0] || !s[1])) return s[0] + s[1];
  return x->op == FL_KO_SUB && !s[1] ? s[0] : STEP_OTHER;
}

static int is_sum_of_two(const fl_kexpr *x) {
  return x->kind == FL_KX_BINARY && (x->op == FL_KO_ADD || x->op == FL_KO_SUB);
}

/* What a variable like left = i - 1 stands for. It may be assigned in a loop: its terms
** are looked at, and they have one value each. */
static const fl_kexpr *look_through(const fl_knear *k, const fl_kexpr *x) {
  for (int i = 0; i < MAX_CHAIN && x->kind == FL_KX_VAR; i++) {
    const fl_kexpr *v = fl_kdef_only(k->defs, x->var);
    if (!v || !(v->kind == FL_KX_VAR || v->kind == FL_KX_CAST || is_sum_of_two(v))) break;
    x = v;
  }
  return x;
}

static int is_exact_cast(const fl_kexpr *x) {
  const int from = x->kind == FL_KX_CAST ? x->x[0]->type : FL_KT_VOID;
  return (x->type == FL_KT_I64 || x->type == FL_KT_U64) &&
         (from == FL_KT_I32 || from == FL_KT_I64 || from == FL_KT_U64);
}

/* Adds the terms of x; 0: too many. */
static int take_apart(const fl_knear *k, place *p, const fl_kexpr *x, int sign) {
  x = look_through(k, x);
  if (++p->visits > MAX_VISITS) return 0;
  if (is_exact_cast(x)) return take_apart(k, p, x->x[0], sign);
  if (is_sum_of_two(x))
    return take_apart(k, p, x->x[0], sign) &&
           take_apart(k, p, x->x[1], x->op == FL_KO_ADD ? sign : -sign);
  if (x->kind == FL_KX_CONST) {
    const int64_t c =
        x->type == FL_KT_U32 ? (int32_t)(uint32_t)x->value.i : x->value.i;
    if (c < -8 || c > 8) return 0;
    p->constant += sign * c;
    return 1;
  }
  if (p->n == MAX_TERMS) return 0;
  p->term[p->n].sign = sign;
  p->term[p->n++].x = x;
  return 1;
}

static int steps_by_one(const fl_knear *k, const place *p) {
  int ones = 0;
  for (int i = 0; i < p->n; i++) {
    const int s = step_of(k, p->term[i].x, 0);
    if (s == STEP_OTHER || (s == STEP_ONE && p->term[i].sign < 0)) return 0;
    ones += s == STEP_ONE;
  }
  return ones == 1;
}

static int find_place(const fl_knear *k, const fl_kexpr *index, place *p) {
  const fl_kexpr *x = look_through(k, index);
  const int from = x->kind == FL_KX_CAST ? x->x[0]->type : FL_KT_I64;
  const int narrow = from == FL_KT_I32 || from == FL_KT_U32;
  *p = (place){ .type = narrow ? (uint8_t)from : FL_KT_I64 };
  return take_apart(k, p, from == FL_KT_U32 ? x->x[0] : x, 1) &&
         p->constant >= -1 && p->constant <= 1 && steps_by_one(k, p);
}

static int same_terms(const place *a, const place *b) {
  unsigned taken = 0;
  if (a->n != b->n || (a->type == FL_KT_U32) != (b->type == FL_KT_U32)) return 0;
  for (int i = 0; i < a->n; i++) {
    int j = 0;
    while (j < b->n && (taken >> j & 1 || a->term[i].sign != b->term[j].sign ||
                        !fl_kexpr_same(a->term[i].x, b->term[j].x)))
      j++;
    if (j == b->n) return 0;
    taken |= 1u << j;
  }
  return 1;
}

/* ---- groups ------------------------------------------------------------------------ */

static int group_of(const fl_knear *k, const fl_kstmt *s, place *p) {
  if (!is_sum(k->f, s) || s->mode != FL_KM_FREE || k->used[s->var]) return -1;
  if (!find_place(k, s->x[0], p)) return -1;
  int i = 0;
  while (i < k->n && (k->at[i].pointer != s->var || !same_terms(&k->at[i].base, p))) i++;
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

static int has_sum(void *arg, fl_kstmt *s) {
  const fl_kfunc *f = ((void **)arg)[0];
  if (is_sum(f, s) && s->mode == FL_KM_FREE) ((void **)arg)[1] = s;
  return 1;
}

fl_knear *fl_knear_new(fl_mem *m, const fl_kfunc *f) {
  void *sums[2] = { (void *)f, NULL };
  fl_kwalk_block(&(fl_kvisitor){ has_sum, NULL, sums }, f->body);
  fl_knear *k = sums[1] ? fl_zalloc(m, sizeof *k) : NULL;
  if (!k) return NULL;
  k->m = m;
  k->f = f;
  fl_karena_init(&k->arena, m);
  k->defs = fl_kdefs_new(&k->arena, f, f->body);
  k->step = fl_karena_new(&k->arena, (size_t)f->n_vars + 1);
  k->used = fl_karena_new(&k->arena, (size_t)f->n_vars + 1);
  if (!k->arena.failed) {
    fl_kwalk_block(&(fl_kvisitor){ see, see_load, k }, f->body);
    if (!k->returns) fl_kwalk_block(&(fl_kvisitor){ collect, NULL, k }, f->body);
    keep_worthwhile(k);
  }
  if (k->n) return k;
  fl_knear_free(k);
  return NULL;
}

void fl_knear_free(fl_knear *k) {
  if (!k) return;
  fl_karena_close(&k->arena);
  fl_free(k->m, k, sizeof *k);
}

/* ---- text -------------------------------------------------------------------------- */

/* All threads of the block come here, so a warp is its lanes that exist. */
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
