/* Kernels that are refused (get no derivative) before any code is made for one: those that use bits
** of real numbers, results of atomics as real numbers or, beside results of atomics, elements that
** other threads may have written. What only the code of a statement shows is refused where that
** code is made. Dynamic shared memory of several types is refused launch by launch
** (fl_kad.views). */
#include "kernel/ad/ad_state.h"

static int see_atomic(void *arg, fl_kstmt *s) {
  fl_kad_state *d = arg;
  if (s->kind == FL_KS_ATOMIC && s->result >= 0 && d->active[s->result])
    fl_kad_refuse(d, s->line, "the result of an atomic operation on '%s' (it depends on the "
                  "order of the threads)", d->f->vars[s->var].source);
  return 1;
}

/* Counts the regions of dynamic shared memory that shadows need. Sets 'views', also where none has
** a derivative: a store to one may overwrite another, which the derivative does not track. */
static void find_regions(fl_kad_state *d) {
  int n = 0, whole = 0;
  uint8_t *used = fl_karena_new(d->a, (size_t)d->n0 + 1);
  if (!used) return;
  fl_kaccessed(d->body, used, used);
  for (int i = 0; i < d->n0; i++) {
    const fl_kvar *x = &d->f->vars[i];
    n += x->dynamic == 1 && used[i];
    if (!x->dynamic || !d->active[i]) continue;
    d->halves |= fl_kt_is_half(x->type);
    whole |= !fl_kt_is_half(x->type);
  }
  d->regions = d->halves ? 3 + whole : 2;
  d->res->gradients = (uint8_t)(d->regions - 1);
  d->res->views = n > 1;
}

/* ---- kernels whose blocks may wait for one another --------------------------------------- */

static int writes_to(const void *var, const fl_kstmt *s) {
  return fl_kwrites_to(s, *(const int32_t *)var);
}

/* Is x the same in all rounds of the loop, as far as this thread is concerned? *memory: it reads
** elements that the kernel writes. */
static int is_steady(const fl_kad_state *d, const fl_kstmt *loop, const fl_kexpr *x, int *memory,
                     int depth) {
  const fl_kstmt *one = NULL;
  if (x->kind == FL_KX_LOAD) {
    *memory |= d->f->vars[x->var].kind == FL_KV_POINTER && fl_kad_written(d, x->var);
    if (fl_kstmt_any(loop, writes_to, &x->var)) return 0;
  } else if (x->kind == FL_KX_VAR) {
    const int n = fl_kassigned(&loop->body, x->var, &one);
    if (fl_kassigned(&loop->other, x->var, NULL) || n > 1 || depth > 20) return 0;
    if (n && (!one || one->kind != FL_KS_ASSIGN)) return 0;        /* the result of a vote */
    if (n) return is_steady(d, loop, one->x[0], memory, depth + 1);
  }
  for (int i = 0; i < x->n; i++) if (!is_steady(d, loop, x->x[i], memory, depth)) return 0;
  return 1;
}

static int uses_result(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_ATOMIC && s->result >= 0;
}

/* Is s a loop that may wait until another thread has written? */
static int spins(const void *of, const fl_kstmt *s) {
  int memory = 0;
  if (s->kind != FL_KS_LOOP) return 0;
  return fl_kblock_any(s->body, uses_result, NULL) ||
         (is_steady(of, s, s->x[0], &memory, 0) && memory);
}

static int is_fence(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_BARRIER && s->op == FL_KBAR_FENCE;
}

/* spin: a loop of the kernel may wait; ordered: it does, or the kernel has a fence. Without either,
** threads that write to one element race. */
typedef struct foreign { fl_kad_state *d; const fl_kstmt *s; int spin, ordered; } foreign;

/* Does no other thread have the index of this access? */
static int is_own(const foreign *w, int32_t site) { return fl_kfact_of(w->d->facts, site)->own; }

static int is_swap(const void *var, const fl_kstmt *s) {
  return s->kind == FL_KS_ATOMIC && s->op == FL_KA_CAS && s->var == *(const int32_t *)var;
}

/* In a kernel whose blocks may wait for one another, as by a counter (record.h), refuses loads of
** elements that another thread may write with no barrier of the grid in between
** (fl_kad_meet_grid): the reverse code would not wait. So it is with a store where another thread
** may write: the cotangent of the element is that of the last one. (A tangent waits as the kernel
** does, but for what is recorded.) */
static int see_foreign(void *arg, fl_kexpr *x) {
  foreign *w = arg;
  fl_kad_state *d = w->d;
  if (x->kind == FL_KX_LOAD && d->f->vars[x->var].kind == FL_KV_POINTER
      && fl_kad_written(d, x->var) && (w->ordered || !is_own(w, x->site))
      && fl_kad_apart_in_time(d, w->s, x) != FL_KAD_GRID)
    fl_kad_refuse(d, x->line, fl_kblock_any(d->body, is_swap, &x->var)
                  ? "'%s', which a loop around atomicCAS changes (use atomicAdd, or atomicMax of bits)"
                  : "'%s', which is read where another thread may have written, in a kernel whose "
                    "threads may wait for one another in memory (use grid.sync()),",
                  d->f->vars[x->var].source);
  return 1;
}

static int see_statement(void *arg, fl_kstmt *s) {
  foreign *w = arg;
  fl_kad_state *d = w->d;
  w->s = s;
  fl_kwalk_operands(&(fl_kvisitor){NULL, see_foreign, w}, s);
  if (!w->ordered || s->kind != FL_KS_STORE || d->f->vars[s->var].kind != FL_KV_POINTER
      || !d->active[s->var]) return 1;
  if ((w->spin && !is_own(w, s->site)) || fl_kad_apart_in_time(d, s, NULL) != FL_KAD_GRID)
    fl_kad_refuse(d, s->line, "'%s', to which another thread may write as well, in a kernel whose "
                  "threads may wait for one another in memory (use grid.sync()),",
                  d->f->vars[s->var].source);
  return 1;
}

static void refuse_foreign(fl_kad_state *d) {
  foreign w = {d, NULL, d->facts && fl_kblock_any(d->body, spins, d), 0};
  w.ordered = w.spin || (d->facts && fl_kblock_any(d->body, is_fence, NULL));
  if (d->f->replays || w.ordered)
    fl_kwalk_block(&(fl_kvisitor){see_statement, NULL, &w}, d->body);
}

void fl_kad_refuse_early(fl_kad_state *d) {
  const fl_kvisitor v = {see_atomic, NULL, d};
  refuse_foreign(d);
  fl_kad_refuse_bits(d);
  find_regions(d);
  fl_kwalk_block(&v, d->body);
  fl_kad_find_blocks(d);
}
