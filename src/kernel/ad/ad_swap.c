/*
** Loops around atomicCAS that do what an atomic operation does (ad_swap.h):
**   old = bits(y[i]);
**   do { assumed = old; old = atomicCAS(&y[i] as bits, assumed, bits(real(assumed) + v)); }
**   while (assumed != old);                              becomes   atomicAdd(&y[i], v);
** The same with - v; and with fmaxf and fminf, if nothing else accesses the array. The loop makes
** another round only if another thread has changed the element since it was read, so the last round
** alone has an effect. What the element was before must not be used; v and i are variables.
*/
#include "kernel/ad/ad_swap.h"
#include "kernel/ad/ad_state.h"

/* By variable: how often it is read and, as an array, written to. sums: maxima and minima stay;
** found: a loop was replaced. */
typedef struct swaps {
  fl_kfunc *f;
  int32_t *reads, *writes;
  int sums, found;
} swaps;

/* A loop: the statements in it, and the one before it. */
typedef struct swap { const fl_kstmt *first, *assume, *cas, *take; } swap;

static int is_var(fl_kexpr *x, int32_t var) {
  x = fl_kad_stripped(x);
  return x->kind == FL_KX_VAR && x->var == var;
}

static int assigns(const fl_kstmt *s, int32_t var, int32_t from) {
  return s && s->kind == FL_KS_ASSIGN && s->var == var && is_var(s->x[0], from);
}

/* The statement at s or after it that is no DECL. */
static const fl_kstmt *next_act(const fl_kstmt *s) {
  while (s && s->kind == FL_KS_DECL) s = s->next;
  return s;
}

/* Is x a comparison of the two variables with !=? */
static int is_differ(const fl_kexpr *x, int32_t a, int32_t b) {
  return x && x->kind == FL_KX_BINARY && x->op == FL_KO_NE &&
         ((is_var(x->x[0], a) && is_var(x->x[1], b)) || (is_var(x->x[0], b) && is_var(x->x[1], a)));
}

/* Are 'loop' and the statement 'first' before it a loop around atomicCAS of this form? */
static int is_swap(const fl_kstmt *first, const fl_kstmt *loop, swap *out) {
  const int is = first && first->kind == FL_KS_ASSIGN;
  const fl_kexpr *load = is ? fl_kad_real_of_bits(first->x[0]) : NULL;
  if (!load || load->kind != FL_KX_LOAD || loop->kind != FL_KS_LOOP || !loop->post ||
      loop->other.first) return 0;
  const fl_kstmt *assume = next_act(loop->body.first),
                 *cas = assume ? next_act(assume->next) : NULL,
                 *take = cas ? next_act(cas->next) : NULL;
  if (!take || next_act(take->next) || assume->kind != FL_KS_ASSIGN) return 0;
  *out = (swap){ first, assume, cas, take };
  return assigns(assume, assume->var, first->var) && cas->kind == FL_KS_ATOMIC &&
         cas->op == FL_KA_CAS && cas->var == load->var && cas->as && fl_kt_is_int(cas->as) &&
         (load->type == FL_KT_F32 || load->type == FL_KT_F64) &&
         fl_kexpr_same(cas->x[0], load->x[0]) && !fl_kreads_of(load->x[0], NULL) &&
         is_var(cas->x[2], assume->var) && cas->result >= 0 &&
         assigns(take, first->var, cas->result) &&
         is_differ(loop->x[0], assume->var, first->var);
}

/* Is x made of other variables alone? */
static int is_free(const fl_kexpr *x, const swap *s) {
  const int32_t own[] = { s->first->var, s->assume->var, s->cas->result };
  for (int i = 0; i < 3; i++)
    if (fl_kreads(x, own[i])) return 0;
  return !fl_kreads_of(x, NULL);
}

static int is_element(fl_kexpr *x, const swap *s) {
  fl_kexpr *of = fl_kad_bits_of(x);
  return of && is_var(of, s->assume->var);
}

/* The operation that the loop does, and its operand *v; -1: it is none of them. */
static int operation(const swaps *w, const swap *s, fl_kexpr **v) {
  const fl_kexpr *x = fl_kad_real_of_bits(s->cas->x[1]);
  if (!x || x->n != 2) return -1;
  const int second = is_element(x->x[0], s);          /* the operand beside the element */
  if (!is_element(x->x[1 - second], s) || !is_free(x->x[second], s)) return -1;
  *v = x->x[second];
  if (x->kind == FL_KX_BINARY && x->op == FL_KO_ADD) return FL_KA_ADD;
  if (x->kind == FL_KX_BINARY && x->op == FL_KO_SUB) return second ? FL_KA_SUB : -1;
  const int32_t to = s->cas->var;
  if (x->kind != FL_KX_CALL || w->sums || w->f->vars[to].kind != FL_KV_POINTER ||
      w->reads[to] != 1 || w->writes[to] != 1) return -1;
  return x->op == FL_KB_FMAX ? FL_KA_MAX : x->op == FL_KB_FMIN ? FL_KA_MIN : -1;
}

/* Does s assign the variable, as a number, to one that nothing reads? */
static int is_idle(const swaps *w, const fl_kstmt *s, int32_t var) {
  const int idle = s && s->kind == FL_KS_ASSIGN && !w->reads[s->var];
  fl_kexpr *x = idle ? fl_kad_bits_of(s->x[0]) : NULL;
  return x && is_var(x, var);
}

/* Does the rest of the kernel not use what the element was? idle: the statement after the loop. */
static int is_unused(const swaps *w, const swap *s, const fl_kstmt *idle) {
  const int more = is_idle(w, idle, s->first->var);
  /* old: by assume and the condition; assumed: by the value, the comparison and the condition */
  return w->reads[s->first->var] == 2 + more && w->reads[s->assume->var] == 3 &&
         w->reads[s->cas->result] == 1;
}

static void clear(const swaps *w, fl_kstmt *s) {
  s->x[0] = fl_kexpr_zero(w->f->arena, w->f->vars[s->var].type);
}

/* Makes the loop the atomic operation, if it does what one does. first, last: the statements before
** and after it; NULL: there are none. */
static void replace(swaps *w, fl_kstmt *loop, fl_kstmt *first, fl_kstmt *last) {
  swap x;
  fl_kexpr *v = NULL;
  const int op = is_swap(first, loop, &x) ? operation(w, &x, &v) : -1;
  if (op < 0 || !first || !is_unused(w, &x, last)) return;
  if (is_idle(w, last, first->var)) clear(w, last);
  clear(w, first);
  fl_kstmt *const next = loop->next;
  *loop = *x.cas;
  loop->next = next;
  loop->op = (uint8_t)op;
  loop->as = FL_KT_VOID;
  loop->result = -1;
  loop->x[1] = v;
  loop->x[2] = NULL;
  w->found = 1;
}

static void replace_in(swaps *w, fl_kblock b) {
  fl_kstmt *first = NULL;
  for (fl_kstmt *s = b.first; s; s = s->next) {
    if (s->kind == FL_KS_DECL) continue;
    replace(w, s, first, (fl_kstmt *)(uintptr_t)next_act(s->next));
    replace_in(w, s->body);
    replace_in(w, s->other);
    first = s;
  }
}

static int count_read(void *arg, fl_kexpr *x) {
  if (x->var >= 0) ((swaps *)arg)->reads[x->var]++;
  return 1;
}

static int count_write(void *arg, fl_kstmt *s) {
  if (fl_kwrites(s)) ((swaps *)arg)->writes[s->var]++;
  return 1;
}

static int is_cas(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_ATOMIC && s->op == FL_KA_CAS && s->as;
}

fl_kfunc *fl_kad_without_swaps(fl_karena *a, const fl_kfunc *f, int sums) {
  swaps w = { .f = (fl_kfunc *)(uintptr_t)f, .sums = sums };
  if (!f->has_body || !fl_kblock_any(f->body, is_cas, NULL)) return w.f;
  const size_t n = (size_t)f->n_vars + 1;
  w.f = fl_kfunc_clone(a, f);
  w.reads = fl_karena_new(a, 2 * n * sizeof *w.reads);
  if (!w.f || !w.reads) return NULL;
  w.writes = w.reads + n;
  fl_kwalk_block(&(fl_kvisitor){ count_write, count_read, &w }, w.f->body);
  replace_in(&w, w.f->body);
  if (a->failed) return NULL;
  return w.found ? w.f : (fl_kfunc *)(uintptr_t)f;
}
