/*
** atomicMax and atomicMin of real numbers, or of their bits: what an element holds after the launch
** came from one thread, so the cotangent goes to a thread whose value is what the element holds,
** and to the first one if there are several. If there is none, the element kept what it held
** before, and so does its cotangent. A global array is read as the launch leaves it if nothing else
** in the kernel accesses it (WON). Else, and in shared memory, the derivative makes the maxima
** again, and compares with what the element holds after them: the barrier before the first read is
** there in the reverse code, too. Integers in shared memory that only hold the bits of real numbers
** are real numbers here.
**
** A value is computed again for the comparison. As options of the script may let NVRTC round it in
** another way than the kernel did, a value counts as that of the element if it differs in the last
** bits alone: two threads so close are as good as equal.
*/
#include "kernel/ad/ad_state.h"

/* by variable. bad: an atomic is of another kind; used: it is loaded or stored to; op: 1 + that of
** the atomics, -1: they differ; as: the type that they see */
typedef struct winners { fl_kad_state *d; uint8_t *bad, *used, *as; int8_t *op; } winners;

/* Entries of fl_kad_state.won, by array. WON: nothing but these atomics accesses the array. From
** AGAIN on: it is also accessed in another way, and the atomics, which the derivative does again,
** see its elements as type won - AGAIN. */
enum { WON = 1, AGAIN };

/* The real number that s compares with the element; NULL: s is another kind of write. */
static fl_kexpr *candidate(const fl_kad_state *d, const fl_kstmt *s) {
  if (s->kind != FL_KS_ATOMIC || s->result >= 0 || (s->op != FL_KA_MAX && s->op != FL_KA_MIN))
    return NULL;
  const int type = d->f->vars[s->var].type;
  fl_kexpr *x = s->as ? fl_kad_real_of_bits(s->x[1]) : s->x[1];
  return x && x->type == type && !fl_kt_is_half(type) ? x : NULL;
}

static int see_write(void *arg, fl_kstmt *s) {
  winners *w = arg;
  if (!fl_kwrites(s)) return 1;
  int8_t *op = &w->op[s->var];
  w->used[s->var] |= s->kind != FL_KS_ATOMIC;
  w->bad[s->var] |= s->accumulate;
  if (s->kind != FL_KS_ATOMIC) return 1;
  w->bad[s->var] |= !candidate(w->d, s);
  *op = (int8_t)(*op && (*op != 1 + s->op || w->as[s->var] != s->as) ? -1 : 1 + s->op);
  w->as[s->var] = s->as;
  return 1;
}

static int see_load(void *arg, fl_kexpr *x) {
  winners *w = arg;
  if (x->kind == FL_KX_LOAD) w->used[x->var] = 1;
  return 1;
}

static int see_won(void *arg, fl_kstmt *s) {
  fl_kad_state *d = arg;
  if (s->kind != FL_KS_ATOMIC || !fl_kad_won(d, s->var)) return 1;
  s->x[1] = candidate(d, s);
  s->as = FL_KT_VOID;
  return 1;
}

/* Are maxima in x, of which w has seen all accesses, treated so? 0: no. */
static int how_won(const winners *w, int v) {
  const fl_kfunc *f = w->d->f;
  const fl_kvar *x = &f->vars[v];
  const int global = x->kind == FL_KV_POINTER, again = !global || w->used[v];
  if ((!global && x->kind != FL_KV_SHARED) || w->bad[v] || !w->op[v] || !fl_kt_is_float(x->type))
    return 0;
  if (global && f->params[x->param].is_struct && !f->params[x->param].is_pointer) return 0;
  return !again ? WON : w->op[v] > 0 && w->as[v] ? AGAIN + w->as[v] : 0;
}

void fl_kad_find_winners(fl_kad_state *d) {
  const size_t n = (size_t)d->f->n_vars + 1;
  winners w = {d, fl_karena_new(d->a, 3 * n), NULL, NULL, fl_karena_new(d->a, n)};
  const fl_kvisitor see = {see_write, see_load, &w}, rewrite = {see_won, NULL, d};
  d->won = fl_karena_new(d->a, n);
  if (!w.bad || !w.op || !d->won) return;
  d->n_won = d->f->n_vars;
  w.used = w.bad + n;
  w.as = w.used + n;
  fl_kad_real_arrays(d);
  fl_kwalk_block(&see, d->f->body);
  for (int v = 0; v < d->f->n_vars; v++) d->won[v] = (uint8_t)how_won(&w, v);
  fl_kwalk_block(&rewrite, d->f->body);
}

enum { MOST_MAXIMA = 8 };

/* The atomics on array var. met: a bit for each two of them, one after the other with no barrier in
** between. looped: a loop so far loads from it. */
typedef struct phase {
  int var, n, looped;
  uint64_t met;
  const fl_kstmt *at[MOST_MAXIMA];
} phase;

static int is_on(const void *var, const fl_kstmt *s) {
  return s->kind == FL_KS_ATOMIC && s->var == *(const int *)var;
}

static int is_load(const void *var, const fl_kexpr *x) {
  return x->kind == FL_KX_LOAD && x->var == *(const int *)var;
}

static int loads(const void *var, const fl_kstmt *s) {
  for (int i = 0; i < 4; i++)
    if (fl_kexpr_any(s->x[i], is_load, var)) return 1;
  return 0;
}

/* What a loop before the atomics has loaded is not kept in registers: the reverse code of the loop
** loads it again, after them. */
static int see_maximum(void *arg, fl_kstmt *s) {
  phase *w = arg;
  const int loop = s->kind == FL_KS_LOOP, rounds = loop && fl_kad_has_barrier(&s->body);
  w->looped |= loop && fl_kstmt_any(s, loads, &w->var);
  if ((rounds && fl_kstmt_any(s, is_on, &w->var)) || (w->looped && is_on(&w->var, s)))
    w->n = MOST_MAXIMA;
  if (is_on(&w->var, s) && w->n < MOST_MAXIMA) w->at[w->n] = s;
  w->n += is_on(&w->var, s);
  return 1;
}

static void see_met(void *arg, int i, int k) {
  const int first = i < k ? i : k, second = i < k ? k : i;
  ((phase *)arg)->met |= (uint64_t)(first != second) << (first * MOST_MAXIMA + second);
}

int fl_kad_is_one_phase(const fl_kad_state *d, int v) {
  phase w = { .var = v };
  if (fl_kad_won(d, v) < AGAIN) return 0;
  fl_kwalk_block(&(fl_kvisitor){see_maximum, NULL, &w}, d->body);
  if (w.n >= MOST_MAXIMA) return 0;
  fl_kad_meetings(&(fl_kad_meeting){.a = d->a, .at = w.at, .n = w.n, .pair = see_met, .arg = &w},
                  &d->body);
  return __builtin_popcountll(w.met) == w.n * (w.n - 1) / 2;
}

void fl_kad_see_bits(const fl_kad_state *d, fl_kstmt *s) {
  if (!fl_kad_reads_won(d, s)) return;
  s->as = (uint8_t)(fl_kad_won(d, s->var) - AGAIN);
  s->x[1] = fl_kad_bits_of_real(d, s->as, s->x[1]);
}

static int is_replayed_sum(const void *of, const fl_kstmt *s) {
  const fl_kad_state *d = of;
  return s->kind == FL_KS_ATOMIC && fl_kad_marks(s) & FL_KN_FORWARD &&
         fl_kt_is_float(d->f->vars[s->var].type);
}

/* Is x the number y, but for the last bits? */
static fl_kexpr *is_near(fl_kad_state *d, fl_kexpr *x, fl_kexpr *y) {
  fl_kexpr *apart = kx_op(d, FL_KO_SUB, x, y), *size = y;
  fl_kexpr *most = fl_kexpr_float(d->a, y->type, y->type == FL_KT_F64 ? 0x1p-46 : 0x1p-20);
  apart = fl_kexpr_call(d->a, FL_KB_FABS, x->type, 1, &apart);
  size = fl_kexpr_call(d->a, FL_KB_FABS, y->type, 1, &size);
  return kx_op(d, FL_KO_LOR, kx_op(d, FL_KO_EQ, x, y),
               kx_op(d, FL_KO_LT, apart, kx_op(d, FL_KO_MUL, size, most)));
}

void fl_kad_winner(fl_kad_state *d, const fl_kstmt *s, fl_kblock *r) {
  const int v = s->var, to = d->shadow[v], type = d->f->vars[to].type;
  if (fl_kad_won(d, v) == WON && fl_kblock_any(d->body, is_replayed_sum, d)) {
    fl_kad_refuse(d, s->line, "%s of values in '%s' that depend on the order of the threads,",
                  fl_katomic_text[s->op], d->f->vars[v].source);
    return;
  }
  fl_kexpr *at = fl_kad_atom(d, r, s->x[0]), *x = fl_kad_atom(d, r, s->x[1]);
  fl_kexpr *y = fl_kad_atom(d, r, fl_kexpr_load(d->f, v, at));
  if (!x || !y) return;
  fl_kstmt *c = fl_kstmt_if(d->f, r, is_near(d, x, y));
  const int seed = fl_ktemp(d->f, type);
  if (!c || seed < 0) return;
  if (!d->res->taken_line) d->res->taken_line = s->line ? s->line : 1;
  fl_kstmt_atomic(d->f, &c->body, FL_KA_EXCH, FL_KM_FREE, to, at, fl_kexpr_zero(d->a, type), seed);
  fl_kad_expr(d, &c->body, s->x[1], kx_var(d, seed));
}
