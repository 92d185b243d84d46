/*
** Shuffles, there and back: all lanes that took this lane's value give their derivative to it.
** A lane is asked only if it is there: named in the mask and not gone, as a ballot says.
**
** Where all lanes shift by the same, the lane that took this one's value is known: one shuffle.
** Where all read one lane, the sum of the group goes to it. Else each lane asks all others
** which lane they took.
*/
#include "kernel/ad/ad_state.h"

typedef struct back {
  fl_kad_state *d;
  fl_kblock *b;
  const fl_kstmt *s;
  fl_kexpr *seed, *zero;
  fl_kexpr *here;                /* U32: who is there */
  fl_kexpr *self, *lane, *base;  /* I32: in the warp, in the group of 'width', its begin */
  fl_kexpr *by;                  /* I32: x[2] */
  int width;
} back;

static fl_kexpr *cast_i32(fl_kad_state *d, fl_kexpr *x) {
  return fl_kexpr_cast(d->a, FL_KT_I32, x);
}

static fl_kexpr *i32(fl_kad_state *d, int64_t i) { return fl_kexpr_int(d->a, FL_KT_I32, i); }

/* ---- the same in all lanes? ------------------------------------------------------------- */

enum { MOST_AROUND = 64 };

/* IFs and LOOPs around a statement, outermost first. */
typedef struct around { const fl_kstmt *at[MOST_AROUND]; int n; } around;

typedef struct equal {
  const fl_kad_state *d;
  around shuffle;
  uint8_t *asked;                /* by variable: taken for equal from now on */
  int shared;                    /* elements of shared memory are equal, too */
} equal;

static int find_around(const fl_kblock *b, const fl_kstmt *s, around *a) {
  for (const fl_kstmt *t = b->first; t; t = t->next) {
    if (t == s) return 1;
    if (!t->body.first && !t->other.first) continue;
    if (a->n == MOST_AROUND) return 0;
    a->at[a->n++] = t;
    if (find_around(&t->body, s, a) || find_around(&t->other, s, a)) return 1;
    a->n--;
  }
  return 0;
}

static int is_around(const around *a, const fl_kstmt *t) {
  for (int i = 0; i < a->n; i++)
    if (a->at[i] == t) return 1;
  return 0;
}

static int is_equal(equal *e, const fl_kexpr *x);

/* An assignment inside 'way': lanes must agree to come by. What is around the shuffle too is
** passed by all that shuffle, but a variable from outside a loop may bring along how often. */
static int same_way(equal *e, const around *way, const around *born) {
  int again = 0;                 /* a loop around this and not around the declaration */
  for (int i = 0; i < way->n; i++) {
    const fl_kstmt *t = way->at[i];
    const int shared = is_around(&e->shuffle, t), outside = is_around(born, t);
    if ((!shared || (again && !outside)) && t->x[0] && !is_equal(e, t->x[0])) return 0;
    again |= t->kind == FL_KS_LOOP && !outside;
  }
  return 1;
}

static int declared(const fl_kblock *b, int var, around *a) {
  for (const fl_kstmt *t = b->first; t; t = t->next) {
    if (t->kind == FL_KS_DECL && t->var == var) return 1;
    if (!t->body.first && !t->other.first) continue;
    if (a->n == MOST_AROUND) return 0;
    a->at[a->n++] = t;
    if (declared(&t->body, var, a) || declared(&t->other, var, a)) return 1;
    a->n--;
  }
  return 0;
}

static int assignments_equal(equal *e, const fl_kblock *b, int var, around *way,
                             const around *born) {
  for (const fl_kstmt *t = b->first; t; t = t->next) {
    if (t->result == var) return 0;
    if (t->kind == FL_KS_ASSIGN && t->var == var
        && (!is_equal(e, t->x[0]) || !same_way(e, way, born))) return 0;
    if (!t->body.first && !t->other.first) continue;
    if (way->n == MOST_AROUND) return 0;
    way->at[way->n++] = t;
    const int ok = assignments_equal(e, &t->body, var, way, born)
                && assignments_equal(e, &t->other, var, way, born);
    way->n--;
    if (!ok) return 0;
  }
  return 1;
}

static int variable_equal(equal *e, int var) {
  around born = {.n = 0}, way = {.n = 0};
  if (e->asked[var]) return 1;
  e->asked[var] = 1;
  if (!declared(&e->d->body, var, &born)) born.n = 0;
  return assignments_equal(e, &e->d->body, var, &way, &born);
}

static int is_equal(equal *e, const fl_kexpr *x) {
  if (x->kind == FL_KX_SPECIAL && x->op <= FL_KSPECIAL_TID_Z) return 0;
  if (x->kind == FL_KX_VAR && !variable_equal(e, x->var)) return 0;
  if (x->kind == FL_KX_LOAD) {
    const fl_kvar *v = &e->d->f->vars[x->var];
    if (v->kind != FL_KV_TABLE && (v->kind != FL_KV_POINTER || !v->is_const)
        && !(e->shared && v->kind == FL_KV_SHARED)) return 0;
  }
  for (int i = 0; i < x->n; i++)
    if (!is_equal(e, x->x[i])) return 0;
  return 1;
}

/* Do all lanes of a warp that come to s have the same x? */
static int equal_in_lanes(const fl_kad_state *d, const fl_kstmt *s, const fl_kexpr *x) {
  equal e = {.d = d, .asked = fl_karena_new(d->a, (size_t)d->f->n_vars + 1)};
  return e.asked && find_around(&d->body, s, &e.shuffle) && is_equal(&e, x);
}

int fl_kad_equal_in_block(const fl_kad_state *d, const fl_kstmt *s, const fl_kexpr *x) {
  equal e = {.d = d, .asked = fl_karena_new(d->a, (size_t)d->f->n_vars + 1), .shared = 1};
  return e.asked && find_around(&d->body, s, &e.shuffle) && is_equal(&e, x);
}

/* ---- asking other lanes ----------------------------------------------------------------- */

/* The number of this lane in groups of 'width' lanes. */
static fl_kexpr *lane_of(fl_kad_state *d, int width) {
  fl_karena *a = d->a;
  fl_kexpr *row = kx_op(d, FL_KO_ADD, fl_kexpr_special(a, FL_KSPECIAL_TID_Y),
                        kx_op(d, FL_KO_MUL, fl_kexpr_special(a, FL_KSPECIAL_BDIM_Y),
                              fl_kexpr_special(a, FL_KSPECIAL_TID_Z)));
  fl_kexpr *t = kx_op(d, FL_KO_ADD, fl_kexpr_special(a, FL_KSPECIAL_TID_X),
                      kx_op(d, FL_KO_MUL, fl_kexpr_special(a, FL_KSPECIAL_BDIM_X), row));
  return kx_op(d, FL_KO_AND, cast_i32(d, t), i32(d, width - 1));
}

static fl_kexpr *ballot(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s) {
  const int v = fl_ktemp(d->f, FL_KT_U32);
  fl_kstmt *r = fl_kstmt_new(d->a, b, FL_KS_VOTE, s->line);
  if (!r || v < 0) return NULL;
  r->op = FL_KVOTE_BALLOT;
  r->result = v;
  r->x[0] = s->x[0];
  r->x[1] = fl_kexpr_int(d->a, FL_KT_BOOL, 1);
  return kx_var(d, v);
}

/* Is lane 'lane' of the warp there, and 'also' (NULL: true)? */
static fl_kexpr *is_there(back *w, fl_kblock *b, fl_kexpr *lane, fl_kexpr *also) {
  fl_kad_state *d = w->d;
  fl_kexpr *bit = kx_op(d, FL_KO_AND, kx_op(d, FL_KO_SHR, w->here, lane),
                        fl_kexpr_int(d->a, FL_KT_U32, 1));
  fl_kexpr *in = kx_op(d, FL_KO_NE, bit, fl_kexpr_int(d->a, FL_KT_U32, 0));
  return fl_kad_atom(d, b, also ? kx_op(d, FL_KO_LAND, also, in) : in);
}

/* x as it is in the lane, if 'valid'. */
static fl_kexpr *ask(back *w, fl_kblock *b, fl_kexpr *x, fl_kexpr *lane, fl_kexpr *valid) {
  fl_kad_state *d = w->d;
  const int t = x ? fl_ktemp(d->f, x->type) : -1;
  fl_kstmt *r = t >= 0 ? fl_kstmt_new(d->a, b, FL_KS_SHUFFLE, w->s->line) : NULL;
  if (!r) return NULL;
  r->op = FL_KSH_IDX;
  r->result = t;
  r->x[0] = w->s->x[0];
  r->x[1] = x;
  r->x[2] = fl_kexpr_select(d->a, valid, lane, w->self);
  r->x[3] = i32(d, 32);
  return kx_var(d, t);
}

static fl_kexpr *seed_of(back *w, fl_kblock *b, fl_kexpr *seed, fl_kexpr *lane, fl_kexpr *also) {
  fl_kexpr *valid = is_there(w, b, lane, also);
  fl_kexpr *given = ask(w, b, seed, lane, valid);
  return fl_kexpr_select(w->d->a, valid, given, w->zero);
}

/* ---- the ways back ---------------------------------------------------------------------- */

/* Up and down are each other's opposites, with the lanes at the edge, which kept their own
** value, apart. */
static fl_kexpr *shifted_back(back *w) {
  fl_kad_state *d = w->d;
  fl_kexpr *before = kx_op(d, FL_KO_GE, w->lane, w->by);           /* lane - by is in the group */
  fl_kexpr *behind = kx_op(d, FL_KO_LT, w->lane,
                           kx_op(d, FL_KO_SUB, i32(d, w->width), w->by));
  const int down = w->s->op == FL_KSH_DOWN;
  fl_kexpr *from = kx_op(d, down ? FL_KO_SUB : FL_KO_ADD, w->self, w->by);
  fl_kexpr *given = seed_of(w, w->b, w->seed, from, down ? before : behind);
  fl_kexpr *own = fl_kexpr_select(d->a, down ? behind : before, w->zero, w->seed);
  return kx_op(d, FL_KO_ADD, given, own);
}

/* for (j = 0; j < width; ++j): its body; *lane is lane j of the group, in the warp. */
static fl_kblock *each_lane(back *w, fl_kblock *b, fl_kexpr **lane) {
  fl_kad_state *d = w->d;
  const int j = fl_ktemp(d->f, FL_KT_I32);
  if (j < 0) return NULL;
  kx_set(d, b, j, i32(d, 0));
  fl_kstmt *loop = fl_kstmt_loop(d->f, b, kx_op(d, FL_KO_LT, kx_var(d, j), i32(d, w->width)));
  if (!loop) return NULL;
  kx_set(d, &loop->other, j, kx_op(d, FL_KO_ADD, kx_var(d, j), i32(d, 1)));
  *lane = kx_op(d, FL_KO_ADD, w->base, kx_var(d, j));
  return &loop->body;
}

/* All read lane 'by' of their group, which gets the sum: by halves where the warp is whole. */
static fl_kexpr *sum_back(back *w) {
  fl_kad_state *d = w->d;
  const int sum = fl_ktemp(d->f, w->seed->type);
  if (sum < 0) return NULL;
  kx_set(d, w->b, sum, w->seed);
  fl_kexpr *all = fl_kexpr_int(d->a, FL_KT_U32, UINT32_MAX), *lane;
  fl_kexpr *yes = fl_kexpr_int(d->a, FL_KT_BOOL, 1);
  fl_kstmt *whole = fl_kstmt_if(d->f, w->b, kx_op(d, FL_KO_EQ, w->here, all));
  if (!whole) return NULL;
  for (int k = w->width / 2; k > 0; k /= 2) {
    fl_kexpr *from = kx_op(d, FL_KO_XOR, w->self, i32(d, k));
    fl_kexpr *other = ask(w, &whole->body, kx_var(d, sum), from, yes);
    kx_set(d, &whole->body, sum, kx_op(d, FL_KO_ADD, kx_var(d, sum), other));
  }
  kx_set(d, &whole->other, sum, w->zero);
  fl_kblock *b = each_lane(w, &whole->other, &lane);
  if (!b) return NULL;
  kx_set(d, b, sum, kx_op(d, FL_KO_ADD, kx_var(d, sum), seed_of(w, b, w->seed, lane, NULL)));
  fl_kexpr *read = kx_op(d, FL_KO_AND, w->by, i32(d, w->width - 1));
  return fl_kexpr_select(d->a, kx_op(d, FL_KO_EQ, w->lane, read), kx_var(d, sum), w->zero);
}

/* The lane of the group that this lane took. */
static fl_kexpr *taken(back *w) {
  fl_kad_state *d = w->d;
  fl_kexpr *to = NULL, *in = NULL;
  switch (w->s->op) {
  case FL_KSH_IDX: return kx_op(d, FL_KO_AND, w->by, i32(d, w->width - 1));
  case FL_KSH_XOR:                                  /* of the warp; a group behind is not reached */
    to = kx_op(d, FL_KO_XOR, w->self, kx_op(d, FL_KO_AND, w->by, i32(d, 31)));
    in = kx_op(d, FL_KO_LE, to, kx_op(d, FL_KO_OR, w->self, i32(d, (int)w->s->x[3]->value.i - 1)));
    return fl_kexpr_select(d->a, in, to, w->self);
  case FL_KSH_UP:
    to = kx_op(d, FL_KO_SUB, w->lane, w->by);
    in = kx_op(d, FL_KO_GE, w->lane, w->by);
    break;
  default:
    to = kx_op(d, FL_KO_ADD, w->lane, w->by);
    in = kx_op(d, FL_KO_LT, w->lane, kx_op(d, FL_KO_SUB, i32(d, w->width), w->by));
  }
  return fl_kexpr_select(d->a, in, to, w->lane);
}

static fl_kexpr *searched_back(back *w) {
  fl_kad_state *d = w->d;
  const int sum = fl_ktemp(d->f, w->seed->type);
  fl_kexpr *mine = fl_kad_atom(d, w->b, taken(w)), *lane;
  if (sum < 0) return NULL;
  kx_set(d, w->b, sum, w->zero);
  fl_kblock *b = each_lane(w, w->b, &lane);
  if (!b) return NULL;
  fl_kexpr *valid = is_there(w, b, lane, NULL);
  fl_kexpr *given = ask(w, b, w->seed, lane, valid), *its = ask(w, b, mine, lane, valid);
  if (!given || !its) return NULL;
  valid = kx_op(d, FL_KO_LAND, valid, kx_op(d, FL_KO_EQ, its, w->lane));
  given = fl_kexpr_select(d->a, valid, given, w->zero);
  kx_set(d, b, sum, kx_op(d, FL_KO_ADD, kx_var(d, sum), given));
  return kx_var(d, sum);
}

/* XOR is its own opposite while it stays in the group; a distance that leaves
** it is searched for. */
static fl_kexpr *exchanged_back(back *w) {
  fl_kad_state *d = w->d;
  fl_kexpr *by = kx_op(d, FL_KO_AND, w->by, i32(d, 31)), *from = kx_op(d, FL_KO_XOR, w->self, by);
  const fl_kexpr *given = w->s->x[2];
  const int equal = equal_in_lanes(d, w->s, given), width = w->width;
  const int stays = width == 32 ||
                    (given->kind == FL_KX_CONST && given->value.i >= 0 && given->value.i < width);
  if (equal && stays) return seed_of(w, w->b, w->seed, from, NULL);
  w->width = 32;
  w->lane = w->self;
  w->base = i32(d, 0);
  if (!equal) return searched_back(w);
  const int r = fl_ktemp(d->f, w->seed->type);
  fl_kstmt *in = r < 0 ? NULL : fl_kstmt_if(d->f, w->b, kx_op(d, FL_KO_LT, by, i32(d, width)));
  if (!in) return NULL;
  kx_set(d, &in->body, r, seed_of(w, &in->body, w->seed, from, NULL));
  w->b = &in->other;
  kx_set(d, w->b, r, searched_back(w));
  return kx_var(d, r);
}

static fl_kexpr *shuffle_back(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s, fl_kexpr *seed) {
  back w = {.d = d, .b = b, .s = s, .seed = seed, .width = (int)s->x[3]->value.i};
  if (!seed) return NULL;
  w.zero = fl_kexpr_zero(d->a, seed->type);
  w.here = ballot(d, b, s);
  const int shift = s->op == FL_KSH_UP || s->op == FL_KSH_DOWN;
  fl_kexpr *by = cast_i32(d, s->x[2]);
  w.by = fl_kad_atom(d, b, shift ? kx_op(d, FL_KO_AND, by, i32(d, 31)) : by);
  w.self = fl_kad_atom(d, b, lane_of(d, 32));
  w.lane = w.width == 32 ? w.self : fl_kad_atom(d, b, lane_of(d, w.width));
  w.base = w.width == 32 ? i32(d, 0) : fl_kad_atom(d, b, kx_op(d, FL_KO_SUB, w.self, w.lane));
  if (!w.base || !w.here || !w.by) return NULL;
  if (s->op == FL_KSH_XOR) return exchanged_back(&w);
  if (!equal_in_lanes(d, s, s->x[2])) return searched_back(&w);
  return s->op == FL_KSH_IDX ? sum_back(&w) : shifted_back(&w);
}

static int can_shuffle(const fl_kstmt *s) {
  if (!s->x[0] || !s->x[3] || s->x[3]->kind != FL_KX_CONST) return 0;
  const int64_t width = s->x[3]->value.i;
  return width >= 1 && width <= 32 && !(width & (width - 1));
}

void fl_kad_warp(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  const int marks = fl_kad_marks(s), v = s->result;
  fl_kset reads = fl_kset_new(d);
  if (!reads || v < 0) return;
  fl_kad_reads(d, reads, s);
  if (marks & FL_KN_FORWARD) {
    fl_kad_save(d, v, fl_kset_has(reads, v), keep, f, r);
    fl_kad_copy(d, f, s);
    fl_kset_del(reads, v);
  }
  fl_kset_join(d, keep, reads);
  if (!(marks & FL_KN_REVERSE) || d->shadow[v] < 0 || s->kind != FL_KS_SHUFFLE) return;
  if (!can_shuffle(s)) {
    fl_kad_refuse(d, s->line, "a shuffle whose width is not constant");
    return;
  }
  const int dv = d->shadow[v], t = fl_ktemp(d->f, d->f->vars[dv].type);
  if (t < 0) return;
  kx_set(d, r, t, kx_var(d, dv));
  kx_set(d, r, dv, fl_kexpr_zero(d->a, d->f->vars[dv].type));
  fl_kexpr *back = fl_kad_atom(d, r, shuffle_back(d, r, s, kx_var(d, t)));
  if (back) fl_kad_expr(d, r, s->x[1], back);
}
