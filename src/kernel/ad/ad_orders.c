/*
** Gradients in which an order of threads shows in any case. The adjoint of
**   tile[t] = x[i]; __syncthreads(); for (int j = 0; j < n; j++) s += f(tile[j], x[i]);
** sums the gradient of tile[j] by atomics, since this launch reads it again, and adds it to that of
** x[i]. A fixed order of the sums into the gradient of x would cost a second launch for nothing. So
** where what is summed comes from sums in any order, all sums into that array are in any order.
** Dynamic shared memory holds the kernel's data and, at indices in which the parameter of role
** FL_KAD_SHARED is a part, their gradients: these are told apart.
*/
#include "kernel/ad/ad_state.h"

typedef struct orders {
  const fl_kfunc *f;
  uint8_t *any;                  /* by variable: its value, or elements of it, come from sums in any
                                 ** order; GRADIENTS: not so the data in this dynamic memory */
  int32_t beyond;                /* the variable in indices of gradients in dynamic memory; -1: none */
  uint8_t *free;                 /* by variable: sums into this array need no order */
  int changed;
} orders;

enum { ALL = 1, GRADIENTS = 2 };

static int is_beyond(const void *of, const fl_kexpr *x) {
  return x->kind == FL_KX_VAR && x->var == ((const orders *)of)->beyond;
}

static int is_any(const void *of, const fl_kexpr *x) {
  const orders *o = of;
  if (x->var < 0 || !o->any[x->var]) return 0;
  return o->any[x->var] & ALL || fl_kexpr_any(x->x[0], is_beyond, o);
}

static int is_free_sum(const fl_kstmt *s) {
  return s->kind == FL_KS_ATOMIC && s->op == FL_KA_ADD && s->mode == FL_KM_FREE;
}

static void mark(orders *o, int32_t var, int how) {
  o->changed |= (o->any[var] | how) != o->any[var];
  o->any[var] |= (uint8_t)how;
}

/* Which part of the variable s writes. */
static int part_of(const orders *o, const fl_kstmt *s) {
  const int gradient = o->f->vars[s->var].dynamic && fl_kexpr_any(s->x[0], is_beyond, o);
  return gradient ? GRADIENTS : ALL;
}

static int see(void *arg, fl_kstmt *s) {
  orders *o = arg;
  const fl_kexpr *value = fl_kad_value_of(s);
  const int real = s->var >= 0 && fl_kt_is_float(o->f->vars[s->var].type);
  const int any = value && fl_kexpr_any(value, is_any, o);
  if ((real && is_free_sum(s)) || (any && (s->kind == FL_KS_ASSIGN || fl_kwrites(s))))
    mark(o, s->var, part_of(o, s));
  if (s->result >= 0 && (any || (s->kind == FL_KS_ATOMIC && o->any[s->var])))
    mark(o, s->result, ALL);
  if (any && s->kind == FL_KS_ATOMIC && s->mode > FL_KM_FREE) o->free[s->var] = 1;
  return 1;
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
  orders o = { .f = d->f, .any = fl_karena_new(d->a, n), .free = fl_karena_new(d->a, n),
               .beyond = fl_kad_beyond(d) };
  const fl_kvisitor look = { see, NULL, &o }, free = { set_free, NULL, &o };
  if (!d->r->deterministic || !o.any || !o.free) return;
  do {
    o.changed = 0;
    fl_kwalk_block(&look, d->f->body);
  } while (o.changed);
  fl_kwalk_block(&free, d->f->body);
}
