/*
** Arrays in in_thread, whose elements several threads may write at once: the reverse code of a
** thread must not restore an old element while others still read the new one. So each thread keeps
** what it reads: t = s[e], and t replaces the load. The reverse code then does not read the array.
*/
#include "kernel/ad/ad_state.h"

typedef struct hold { fl_kad_state *d; fl_kblock *out; } hold;

static int is_held(const void *in_thread, const fl_kexpr *x) {
  return x->kind == FL_KX_LOAD && ((const uint8_t *)in_thread)[x->var];
}

/* The condition under which operand i of x is evaluated, where x itself is evaluated if 'when'
** holds (NULL: always). first: x's operand 0, with its loads replaced. */
static fl_kexpr *asked(fl_kad_state *d, fl_kexpr *when, const fl_kexpr *x, int i, fl_kexpr *first) {
  if (!fl_kis_lazy(x, i)) return when;
  const int if_true = x->kind == FL_KX_SELECT ? i == 1 : x->op == FL_KO_LAND;
  return kx_both(d, when, if_true ? first : fl_kexpr_unary(d->a, FL_KO_NOT, first));
}

/* x with its loads of arrays in d->in_thread replaced by variables, which are set before the
** statement (h->out). when: the condition under which x is evaluated, else the variables are 0;
** NULL: always. */
static fl_kexpr *held(hold *h, fl_kexpr *x, fl_kexpr *when) {
  fl_kad_state *d = h->d;
  if (!fl_kexpr_any(x, is_held, d->in_thread)) return x;
  fl_kexpr *k[FL_K_MAX_ARGS] = {NULL};
  for (int i = 0; i < x->n; i++) k[i] = held(h, x->x[i], asked(d, when, x, i, k[0]));
  fl_kexpr *e = fl_kexpr_over(d->a, x, k);
  if (!e) return x;
  if (e->kind != FL_KX_LOAD || !d->in_thread[e->var]) return e;
  const int t = fl_ktemp(d->f, e->type);
  kx_set(d, h->out, t, when ? fl_kexpr_select(d->a, when, e, fl_kexpr_zero(d->a, e->type)) : e);
  return kx_var(d, t);
}

static fl_kblock walk(fl_kad_state *d, fl_kblock b) {
  fl_kblock out = {NULL, NULL};
  hold h = {d, &out};
  for (fl_kstmt *s; !d->a->failed && (s = fl_kblock_take(&b));) {
    /* conditions of control flow are not changed */
    const int control = s->kind == FL_KS_IF || s->kind == FL_KS_LOOP;
    for (int i = 0; i < 4 && !control; i++) s->x[i] = held(&h, s->x[i], NULL);
    s->body = walk(d, s->body);
    s->other = walk(d, s->other);
    fl_kblock_put(&out, s);
  }
  return out;
}

void fl_kad_hold_loads(fl_kad_state *d) {
  if (d->in_thread) d->body = walk(d, d->body);
}
