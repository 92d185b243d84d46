/*
** Shuffles and votes, forward and reverse. In the adjoint of a shuffle a lane receives the
** cotangents of all lanes that read its value (a vote has no adjoint). A lane is asked only if it
** is active: named in the mask and not returned, as a ballot tells. A group is 'width' lanes of the
** warp, within which a shuffle stays (but see 'taken').
**
** If all lanes shift by the same distance, each lane knows which lane read its value, and one
** shuffle is enough. If all read one lane, that lane receives the sum over the group. Otherwise
** each lane finds out from all others which lane they read.
*/
#include "kernel/ad/ad_state.h"
#include "kernel/facts/uniform.h"

/* The adjoint of shuffle s, made in b. */
typedef struct back {
  fl_kad_state *d;
  fl_kblock *b;
  const fl_kstmt *s;
  fl_kexpr *seed, *zero;         /* the cotangent of this lane's result; 0 */
  fl_kexpr *here;                /* U32: a bit for each lane of the warp that is active */
  fl_kexpr *self, *lane, *base;  /* I32: index of this lane in the warp; index in its group of
                                 ** 'width' lanes; first lane of the group */
  fl_kexpr *by;                  /* I32: x[2], the lane or distance (of UP and DOWN: modulo 32) */
  int width, last;               /* last: the width that s has, - 1 */
} back;

static fl_kexpr *cast_i32(fl_kad_state *d, fl_kexpr *x) {
  return fl_kexpr_cast(d->a, FL_KT_I32, x);
}

static fl_kexpr *i32(fl_kad_state *d, int64_t i) { return fl_kexpr_int(d->a, FL_KT_I32, i); }

/* ---- the same in all lanes? ------------------------------------------------------------- */

int fl_kad_equal_in_block(const fl_kad_state *d, const fl_kstmt *s, const fl_kexpr *x,
                          int shared) {
  const fl_kuniform *u = fl_kuniform_new(d->a, d->f, d->body, s, shared);
  return u && fl_kuniform_level(u, x) <= FL_KEQUAL_BLOCK;
}

/* ---- asking other lanes ----------------------------------------------------------------- */

/* The index of this lane in its group of 'width' lanes. */
static fl_kexpr *lane_of(fl_kad_state *d, int width) {
  fl_kexpr *t = fl_kexpr_number(d->a, FL_KT_U32, FL_KSPECIAL_TID_X, FL_KSPECIAL_BDIM_X);
  return kx_op(d, FL_KO_AND, cast_i32(d, t), i32(d, width - 1));
}

static fl_kexpr *ballot(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s) {
  const int v = fl_ktemp(d->f, FL_KT_U32);
  fl_kstmt *r = fl_kstmt_new(d->a, b, FL_KS_VOTE, s->line);
  if (!r || v < 0) return NULL;
  r->op = FL_KVOTE_BALLOT;
  r->result = v;
  r->x[0] = s->x[0];
  r->x[1] = kx_bool(d, 1);
  return kx_var(d, v);
}

/* Is lane 'lane' of the warp active, and does 'also' hold (NULL: true)? */
static fl_kexpr *is_there(back *w, fl_kblock *b, fl_kexpr *lane, fl_kexpr *also) {
  fl_kad_state *d = w->d;
  fl_kexpr *bit = kx_op(d, FL_KO_AND, kx_op(d, FL_KO_SHR, w->here, lane),
                        fl_kexpr_int(d->a, FL_KT_U32, 1));
  fl_kexpr *in = kx_op(d, FL_KO_NE, bit, fl_kexpr_int(d->a, FL_KT_U32, 0));
  return fl_kad_atom(d, b, kx_both(d, also, in));
}

/* The value that x has in lane 'lane' or, where 'valid' is false, in this lane. */
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

/* Is lane + by (up: lane - by) in the group? */
static fl_kexpr *is_in_group(back *w, int up) {
  fl_kad_state *d = w->d;
  return up ? kx_op(d, FL_KO_GE, w->lane, w->by)
            : kx_op(d, FL_KO_LT, w->lane, kx_op(d, FL_KO_SUB, i32(d, w->width), w->by));
}

/* The adjoint of a shift up or down: a shift in the other direction. Lanes at the edge kept their
** own value, so they also keep its derivative. */
static fl_kexpr *shifted_back(back *w) {
  fl_kad_state *d = w->d;
  const int up = w->s->op == FL_KSH_UP;
  fl_kexpr *from = kx_op(d, up ? FL_KO_ADD : FL_KO_SUB, w->self, w->by);
  fl_kexpr *given = seed_of(w, w->b, w->seed, from, is_in_group(w, !up));
  fl_kexpr *own = fl_kexpr_select(d->a, is_in_group(w, up), w->zero, w->seed);
  return kx_op(d, FL_KO_ADD, given, own);
}

/* Adds a loop for (j = 0; j < width; ++j) and returns its body; *lane: the index in the warp of
** lane j of the group. */
static fl_kblock *each_lane(back *w, fl_kblock *b, fl_kexpr **lane) {
  fl_kad_state *d = w->d;
  const int j = fl_ktemp(d->f, FL_KT_I32);
  fl_kblock *in = fl_kad_for(d, b, j, i32(d, 0), i32(d, w->width), i32(d, 1));
  *lane = in ? kx_op(d, FL_KO_ADD, w->base, kx_var(d, j)) : NULL;
  return in;
}

/* All lanes read lane 'by' of their group, so lane 'by' receives the sum of the group. If the warp
** is complete, the sum is made by shuffles over width / 2, width / 4 … 1 lanes. */
static fl_kexpr *sum_back(back *w) {
  fl_kad_state *d = w->d;
  const int sum = fl_ktemp(d->f, w->seed->type);
  if (sum < 0) return NULL;
  kx_set(d, w->b, sum, w->seed);
  fl_kexpr *all = fl_kexpr_int(d->a, FL_KT_U32, UINT32_MAX), *lane;
  fl_kexpr *yes = kx_bool(d, 1);
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

/* The index, in the group, of the lane whose value this lane has received (of XOR: in the warp). */
static fl_kexpr *taken(back *w) {
  fl_kad_state *d = w->d;
  if (w->s->op == FL_KSH_IDX) return kx_op(d, FL_KO_AND, w->by, i32(d, w->width - 1));
  if (w->s->op == FL_KSH_XOR) {   /* a lane of an earlier group is read, one of a later is not */
    fl_kexpr *to = kx_op(d, FL_KO_XOR, w->self, kx_op(d, FL_KO_AND, w->by, i32(d, 31)));
    fl_kexpr *last = kx_op(d, FL_KO_OR, w->self, i32(d, w->last));
    return fl_kexpr_select(d->a, kx_op(d, FL_KO_LE, to, last), to, w->self);
  }
  const int up = w->s->op == FL_KSH_UP;
  fl_kexpr *to = kx_op(d, up ? FL_KO_SUB : FL_KO_ADD, w->lane, w->by);
  return fl_kexpr_select(d->a, is_in_group(w, up), to, w->lane);
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

/* The adjoint of a shuffle by XOR. XOR is its own inverse while it stays in the group of 'width'
** lanes; if the distance differs between lanes or may lead out of the group, the lanes that read
** this one are found by a search. */
static fl_kexpr *exchanged_back(back *w) {
  fl_kad_state *d = w->d;
  fl_kexpr *by = kx_op(d, FL_KO_AND, w->by, i32(d, 31)), *from = kx_op(d, FL_KO_XOR, w->self, by);
  const fl_kexpr *given = w->s->x[2];
  const int equal = fl_kad_equal_in_block(d, w->s, given, 0), width = w->width;
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

static fl_kexpr *shuffle_back(fl_kad_state *d, fl_kblock *b, const fl_kstmt *s, int width,
                              fl_kexpr *seed) {
  back w = {.d = d, .b = b, .s = s, .seed = seed, .width = width, .last = width - 1};
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
  if (!fl_kad_equal_in_block(d, s, s->x[2], 0)) return searched_back(&w);
  return s->op == FL_KSH_IDX ? sum_back(&w) : shifted_back(&w);
}

/* The width of shuffle s: a constant, warpSize, or variables that are always such a number (the
** parameters of a function). 0: it is not known, or none that a shuffle may have. */
static int width_of(const fl_kad_state *d, const fl_kstmt *s) {
  const fl_kexpr *x = s->x[0] ? s->x[3] : NULL;
  for (int depth = 0; x && depth < 16; depth++) {
    if (x->kind == FL_KX_CAST && fl_kt_is_int(x->x[0]->type)) x = x->x[0];
    else if (x->kind == FL_KX_VAR && x->var < d->n0) x = fl_kdef_only(d->defs, x->var);
    else break;
  }
  if (x && x->kind == FL_KX_SPECIAL && x->op == FL_KSPECIAL_WARP_SIZE) return 32;
  if (!x || x->kind != FL_KX_CONST) return 0;
  const int64_t width = x->value.i;
  return width >= 1 && width <= 32 && !(width & (width - 1)) ? (int)width : 0;
}

void fl_kad_warp(fl_kad_state *d, const fl_kstmt *s, fl_kset keep, fl_kblock *f, fl_kblock *r) {
  const int v = s->result;
  if (v < 0 || !fl_kad_redo(d, s, v, keep, f, r) || s->kind != FL_KS_SHUFFLE) return;
  const int width = width_of(d, s);
  if (!width) {
    fl_kad_refuse(d, s->line, "a shuffle whose width is not constant");
    return;
  }
  fl_kexpr *seed = fl_kad_take(d, v, r);
  fl_kexpr *back = fl_kad_atom(d, r, shuffle_back(d, r, s, width, seed));
  if (back) fl_kad_expr(d, r, s->x[1], back);
}
