/* Which steps of a graph wait for which: see waits.h. */
#include "cuda/waits.h"
#include "base/hooks.h"
#include "cuda/library/small.h"
#include <string.h>

/* MOST: steps of a graph that is not simply a queue. UNIT: the arena's values are counted in units
** of this many bytes. LARGE: a convolution of so many operations runs alone (waits.h). */
enum { MOST = 4096, UNIT = 256, LARGE = 500000000 };

/* Kinds of memory. SCRATCH: the scratch and counters of all launches; LIBRARY: the workspace of
** cuBLASLt and what else libraries keep; FAULT: the record of index checks. */
enum { IN_ARENA, IN_OUT, IN_HOME, IN_SCRATCH, IN_LIBRARY, IN_FAULT };
/* ADD: a change whose order among others of its kind does not matter. */
enum { READ, ADD, WRITE };

/* What a step does with a part of memory: from, to: units of the arena, or a number (the index of a
** result or of a home) and that number plus 1. */
typedef struct use { uint8_t memory, how; int64_t from, to; } use;

struct fl_waits {
  flame_context *ctx;
  fl_mem *mem;
  const fl_plan *p;
  int32_t from, n;
  struct { use *at; int64_t n, cap; } uses;
  struct { int32_t *at; int64_t n, cap; } waits;
  int32_t *use, *wait;            /* n + 1 each: where a step's part of 'uses', of 'waits' begins */
  uint64_t *before;               /* n rows of bits: the steps for which a step waits, also through
                                  ** others */
  int64_t words;                  /* of a row */
};

/* ---- what a step uses ------------------------------------------------------------------------ */

static int add(fl_waits *o, int memory, int how, int64_t from, int64_t to) {
  use *u = FL_PUSH(o->mem, &o->uses);
  if (u) *u = (use){ (uint8_t)memory, (uint8_t)how, from, to };
  return u != NULL;
}

static int add_shared(fl_waits *o, int memory, int how) { return add(o, memory, how, 0, 1); }

/* No step waits because of an input that the plan writes nowhere. */
static int add_place(fl_waits *o, const fl_place *at, int how) {
  if (at->where == FL_AT_ARENA)
    return add(o, IN_ARENA, how, at->byte / UNIT, at->byte / UNIT + at->index);
  const int32_t home = at->where == FL_AT_EXT ? o->p->ext[at->index].home
                                              : o->p->out[at->index].home;
  if (home >= 0) return add(o, IN_HOME, how, home, home + 1);
  return at->where == FL_AT_EXT || add(o, IN_OUT, how, at->index, at->index + 1);
}

static int add_kernels(fl_cuda *s, fl_waits *o, const fl_step *t) {
  const fl_prepared *r = t->prepared;
  int ok = 1;
  for (int32_t j = 0; j < t->count; j++)
    for (int i = 0; i < t->kernel[j].noperand; i++) {
      const fl_operand *x = &t->kernel[j].operand[i];
      ok &= add_place(o, &x->place, x->writes ? WRITE : READ);
    }
  for (int32_t j = 0; j < r->ngroup; j++)
    if (r->group[j].scratch || r->group[j].counters) ok &= add_shared(o, IN_SCRATCH, WRITE);
  if (fl_step_checks(t)) ok &= add_shared(o, IN_FAULT, ADD);
  if (fl_step_guarded(s, t)) ok &= add_shared(o, IN_FAULT, READ);
  return ok;
}

static int add_matmul(fl_cuda *s, fl_waits *o, const fl_step *t) {
  const fl_matmul *m = t->matmul;
  const fl_prepared *r = t->prepared;
  int ok = add_place(o, &m->at, READ) && add_place(o, &m->bt, READ) &&
           add_place(o, &m->ct, WRITE) && (!m->biased || add_place(o, &m->bias, READ));
  if (ok && r->scratch) ok = add_shared(o, IN_SCRATCH, WRITE);
  return ok && (!r->library || fl_small_takes(s, m) || add_shared(o, IN_LIBRARY, WRITE));
}

static int add_scatter(fl_waits *o, const fl_scatter *t) {
  return add_place(o, &t->dst.place, WRITE) && add_place(o, &t->idx.place, READ) &&
         add_place(o, &t->src.place, READ) && add_shared(o, IN_SCRATCH, WRITE) &&
         (t->fault < 0 || add_shared(o, IN_FAULT, ADD));
}

static int add_call(fl_waits *o, const fl_call_step *t) {
  int ok = add_place(o, &t->out, WRITE) && add_shared(o, IN_SCRATCH, WRITE) &&
           add_shared(o, IN_LIBRARY, WRITE);
  for (int i = 0; i < t->call.nin; i++) ok &= add_place(o, &t->in[i], READ);
  return ok;
}

/* What step i uses: also the record of checks, which is emptied before step 0, and sent after the
** last step that checks. */
static int add_step(fl_cuda *s, fl_waits *o, int32_t i) {
  const fl_step *t = &o->p->step[i];
  if (o->p->nfault && (i == 0 || fl_step_sends(o->p, i)) && !add_shared(o, IN_FAULT, WRITE))
    return 0;
  switch (t->kind) {
    case FL_S_KERNEL: return add_kernels(s, o, t);
    case FL_S_MATMUL: return add_matmul(s, o, t);
    case FL_S_SCATTER: return add_scatter(o, t->scatter);
    case FL_S_COPY: return add_place(o, &t->from, READ) && add_place(o, &t->to, WRITE);
    default:
      if (fl_step_checks(t) && !add_shared(o, IN_FAULT, ADD)) return 0;
      return add_call(o, t->call);
  }
}

/* ---- who waits ------------------------------------------------------------------------------- */

/* a: of the later step. */
static int meet(const fl_waits *o, const use *a, const use *b, int one_stage) {
  if (a->memory != b->memory || a->from >= b->to || b->from >= a->to) return 0;
  if (one_stage && a->memory <= IN_HOME) return 0;
  if (FL_PLANTED(o->ctx, FL_PLANT_WAITS) && a->how == WRITE && b->how == READ) return 0;
  return a->how != b->how || a->how == WRITE;
}

static int is_alone(const fl_step *t) {
  return t->kind == FL_S_CALL && fl_step_flops(t) >= LARGE;
}

/* Does the later one, i, of two steps of the graph (0-based) have to wait for the other? */
static int has_to_wait(const fl_waits *o, int32_t j, int32_t i) {
  const fl_step *t = o->p->step + o->from;
  if (is_alone(&t[i]) || is_alone(&t[j])) return 1;
  const int one_stage = t[i].stage == t[j].stage;
  for (int32_t a = o->use[i]; a < o->use[i + 1]; a++)
    for (int32_t b = o->use[j]; b < o->use[j + 1]; b++)
      if (meet(o, &o->uses.at[a], &o->uses.at[b], one_stage)) return 1;
  return 0;
}

static int note(fl_waits *o, int32_t j, int32_t i) {
  uint64_t *mine = o->before + i * o->words;
  const uint64_t *other = o->before + j * o->words;
  for (int64_t k = 0; k <= j / 64; k++) mine[k] |= other[k];
  mine[j / 64] |= UINT64_C(1) << j % 64;
  int32_t *at = FL_PUSH(o->mem, &o->waits);
  if (at) *at = j + o->from;
  return at != NULL;
}

static int find_waits(fl_cuda *s, fl_waits *o) {
  int ok = 1;
  for (int32_t i = 0; ok && i < o->n; i++) {
    o->use[i] = (int32_t)o->uses.n;
    ok = add_step(s, o, o->from + i);
    o->use[i + 1] = (int32_t)o->uses.n;
    o->wait[i] = (int32_t)o->waits.n;
    const uint64_t *before = o->before + i * o->words;
    for (int32_t j = i - 1; ok && j >= 0; j--)
      if (!(before[j / 64] >> j % 64 & 1) && has_to_wait(o, j, i)) ok = note(o, j, i);
    o->wait[i + 1] = (int32_t)o->waits.n;
  }
  return ok;
}

fl_waits *fl_waits_open(fl_cuda *s, const fl_plan *p, int32_t from, int32_t to) {
  const int32_t n = to - from;
  if (n > MOST || p->nscan || !s->cu->StreamCaptureDepend) return NULL;
  fl_waits *o = fl_zalloc(s->mem, sizeof *o);
  if (!o) return NULL;
  *o = (fl_waits){ .ctx = s->ctx, .mem = s->mem, .p = p, .from = from, .n = n,
                   .words = (n + 63) / 64 };
  o->use = fl_zalloc(s->mem, sizeof *o->use * (size_t)(n + 1));
  o->wait = fl_zalloc(s->mem, sizeof *o->wait * (size_t)(n + 1));
  o->before = fl_zalloc(s->mem, sizeof *o->before * (size_t)(n * o->words + 1));
  if (o->use && o->wait && o->before && find_waits(s, o)) return o;
  fl_waits_free(o);
  return NULL;
}

void fl_waits_free(fl_waits *o) {
  if (!o) return;
  fl_free(o->mem, o->use, sizeof *o->use * (size_t)(o->n + 1));
  fl_free(o->mem, o->wait, sizeof *o->wait * (size_t)(o->n + 1));
  fl_free(o->mem, o->before, sizeof *o->before * (size_t)(o->n * o->words + 1));
  FL_DROP(o->mem, &o->uses);
  FL_DROP(o->mem, &o->waits);
  fl_free(o->mem, o, sizeof *o);
}

int32_t fl_waits_of(const fl_waits *o, int32_t i, const int32_t **on) {
  const int32_t at = i - o->from;
  *on = o->waits.at + o->wait[at];
  return o->wait[at + 1] - o->wait[at];
}
