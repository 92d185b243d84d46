/*
** Gradients that depend on the order of the threads in any case. The adjoint of
**   tile[t] = x[i]; __syncthreads(); for (int j = 0; j < n; j++) s += f(tile[j], x[i]);
** sums the gradient of tile[j] by atomics, since this launch reads it again, and adds it to that of
** x[i]. A fixed order of the sums into the gradient of x would cost a second launch for nothing. So
** where what is summed comes from sums in any order, all sums into that array are in any order.
** Dynamic shared memory holds the kernel's data and, at indices in which the parameter of role
** FL_KAD_SHARED is a part, their gradients: these are told apart.
*/
#include "kernel/ad/ad_state.h"

typedef struct orders {
  fl_karena *a;
  const fl_kfunc *f;
  int32_t beyond;                /* the variable in indices of gradients in dynamic memory;
                                 ** -1: none */
  const uint8_t *any;            /* by variable, at the present statement: its value, or an
                                 ** element of it, may come from sums in any order: ALL, or in
                                 ** dynamic memory GRADIENTS alone */
  uint8_t *free;                 /* by variable: sums into this array need no order */
  uint8_t *room[FL_K_MAX_NEST + 1][2];      /* by depth, for the two ways through an IF or a LOOP */
  int64_t left;                  /* statements that may still be passed; 0 or less: nothing is
                                 ** proven */
} orders;

enum { ALL = 1, GRADIENTS = 2 };

/* Is the index one of a gradient in dynamic memory? */
static int is_gradient(const orders *o, const fl_kexpr *index) {
  return o->beyond >= 0 && fl_kreads(index, o->beyond);
}

static int is_any(const void *of, const fl_kexpr *x) {
  const orders *o = of;
  if (x->var < 0 || !o->any[x->var]) return 0;
  return o->any[x->var] & ALL || is_gradient(o, x->x[0]);
}

static int is_free_sum(const fl_kstmt *s) {
  return s->kind == FL_KS_ATOMIC && s->op == FL_KA_ADD && s->mode == FL_KM_FREE;
}

/* Which part of the variable s writes. */
static int part_of(const orders *o, const fl_kstmt *s) {
  const int gradient = o->f->vars[s->var].dynamic && is_gradient(o, s->x[0]);
  return gradient ? GRADIENTS : ALL;
}

/* Changes 'any' by statement s, which has no statements inside. */
static void pass(orders *o, uint8_t *any, const fl_kstmt *s) {
  const fl_kexpr *value = fl_kad_value_of(s);
  o->any = any;
  const int real = s->var >= 0 && fl_kt_is_float(o->f->vars[s->var].type);
  const int is = value && fl_kexpr_any(value, is_any, o);
  if (is && s->kind == FL_KS_ATOMIC && s->mode > FL_KM_FREE) o->free[s->var] = 1;
  if (s->result >= 0)
    any[s->result] = is || (s->kind == FL_KS_ATOMIC && any[s->var]) ? ALL : 0;
  if (s->kind == FL_KS_ASSIGN) any[s->var] = is ? ALL : 0;
  else if ((real && is_free_sum(s)) || (is && fl_kwrites(s))) any[s->var] |= (uint8_t)part_of(o, s);
}

/* Adds 'more' to 'any'; was there something new? */
static int add(const orders *o, uint8_t *any, const uint8_t *more) {
  int changed = 0;
  for (int v = 0; v < o->f->n_vars; v++) {
    changed |= (any[v] | more[v]) != any[v];
    any[v] |= more[v];
  }
  return changed;
}

static void walk(orders *o, fl_kblock b, uint8_t *any, int depth);

static void walk_parts(orders *o, const fl_kstmt *s, uint8_t *any, int depth) {
  const size_t n = (size_t)o->f->n_vars + 1;
  uint8_t **way = o->room[depth];
  for (int i = 0; i < 2; i++)
    if (!way[i] && !(way[i] = fl_karena_new(o->a, n))) return;
  if (s->kind == FL_KS_LOOP) {
    do {
      memcpy(way[0], any, n);
      walk(o, s->body, way[0], depth + 1);
      walk(o, s->other, way[0], depth + 1);
    } while (add(o, any, way[0]) && o->left > 0 && !o->a->failed);
    return;
  }
  memcpy(way[0], any, n);
  memcpy(way[1], any, n);
  walk(o, s->body, way[0], depth + 1);
  walk(o, s->other, way[1], depth + 1);
  memcpy(any, way[0], n);
  add(o, any, way[1]);
}

/* Goes through b; before and after it 'any' is what is known there. */
static void walk(orders *o, fl_kblock b, uint8_t *any, int depth) {
  if (depth > FL_K_MAX_NEST) o->left = -1;
  for (const fl_kstmt *s = b.first; s && --o->left > 0; s = s->next)
    if (s->body.first || s->other.first) walk_parts(o, s, any, depth);
    else pass(o, any, s);
}

static int set_free(void *arg, fl_kstmt *s) {
  const orders *o = arg;
  if (s->kind == FL_KS_ATOMIC && s->mode > FL_KM_FREE && o->free[s->var]) s->mode = FL_KM_FREE;
  return 1;
}

int32_t fl_kad_beyond(const fl_kad_state *d) {
  for (int v = 0; v < d->f->n_vars; v++) {
    const int param = d->f->vars[v].param;
    if (param >= 0 && d->res->params[param].role == FL_KAD_SHARED) return v;
  }
  return -1;
}

void fl_kad_free_orders(fl_kad_state *d) {
  const size_t n = (size_t)d->f->n_vars + 1;
  orders *o = fl_karena_new(d->a, sizeof *o);
  uint8_t *any = fl_karena_new(d->a, n);
  if (!d->r->deterministic || !o || !any || d->a->failed) return;
  *o = (orders){ .a = d->a, .f = d->f, .beyond = fl_kad_beyond(d), .free = fl_karena_new(d->a, n) };
  const fl_kvisitor free = { set_free, NULL, o };
  if (!o->free) return;
  o->left = 1000 + 100 * (int64_t)fl_kblock_length(d->f->body);
  walk(o, d->f->body, any, 0);
  if (o->left > 0 && !d->a->failed) fl_kwalk_block(&free, d->f->body);
}
