/*
** Which iterations of a loop share elements (facts.h).
** - Loops in which each iteration accesses several elements of an array in global memory, but none
** that another iteration accesses: a pair of neighbours, two halves of a row that are exchanged.
** Only for arrays that the loop writes and whose accesses are directly in it, not in an inner loop.
** - Loops that write an array in global or shared memory and read it, but never read an element
** before they write it: y[j] = f(y[j - 1]). Each read finds what the element holds after the loop,
** so the reverse code needs no older values of it. Only for loops without barriers whose accesses
** of the array are directly in them.
*/
#include "kernel/facts/facts.h"

/* ---- elements of one round -------------------------------------------------------------- */

enum { MOST_ACCESSES = 24 };

typedef struct rounds {
  const fl_kstmt *loop, *s;
  fl_kaccess_at at[MOST_ACCESSES];
  int32_t var;
  int n, writes, bad;
} rounds;

static void add(rounds *r, const fl_kstmt *s, const fl_kexpr *index) {
  for (int i = 0; i < r->n; i++)
    if (r->at[i].s == s && fl_kexpr_same(r->at[i].index, index)) return;
  if (r->n == MOST_ACCESSES) r->bad = 1;
  else r->at[r->n++] = (fl_kaccess_at){s, index};
}

static int see_element(void *arg, fl_kexpr *x) {
  rounds *r = arg;
  if (x->kind == FL_KX_LOAD && x->var == r->var) add(r, r->s, x->x[0]);
  return 1;
}

static void look(rounds *r, const fl_kblock *b) {
  const fl_kvisitor loads = {NULL, see_element, r};
  for (const fl_kstmt *s = b->first; s && !r->bad; s = s->next) {
    r->s = s;                                         /* for an access in an inner loop
                                                      ** fl_kindex_in_one_round says no */
    for (int i = 0; i < 4; i++) fl_kwalk_expr(&loads, s->x[i]);
    if (s->kind == FL_KS_STORE && s->var == r->var) add(r, s, s->x[0]), r->writes = 1;
    if (s->kind == FL_KS_ATOMIC && s->var == r->var) r->bad = 1;
    look(r, &s->body);
    look(r, &s->other);
  }
}

static int is_one_round(rounds *r, const fl_kindices *k) {
  look(r, &r->loop->body);
  look(r, &r->loop->other);
  int ok = r->writes && !r->bad;
  for (int i = 0; ok && i < r->n; i++)
    for (int j = 0; ok && j < i; j++)
      ok = fl_kindex_in_one_round(k, &r->at[i], &r->at[j], r->loop->label);
  return ok;
}

static void walk(fl_kfacts *x, const fl_kindices *k, const fl_kblock *b) {
  const fl_kfunc *f = x->f;
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    for (int v = 0; s->kind == FL_KS_LOOP && s->label >= 0 && s->label < 64 && v < f->n_vars; v++) {
      rounds r = {.loop = s, .var = v};
      if (f->vars[v].kind == FL_KV_POINTER && !f->vars[v].is_const && is_one_round(&r, k))
        x->var_rounds[v] |= (uint64_t)1 << s->label;
    }
    walk(x, k, &s->body);
    walk(x, k, &s->other);
  }
}

/* ---- final values ----------------------------------------------------------------------- */

typedef struct behind {
  fl_kfacts *x;
  const fl_kindices *k;
  const fl_kstmt *loop, *s, *around;         /* around: the first statement of the block that the
                                             ** loop is in */
  fl_kaccess_at write[16];
  int n_writes, var, bad;
} behind;

static int see_write(void *arg, fl_kstmt *s) {
  behind *b = arg;
  if (s->kind == FL_KS_BARRIER) b->bad = 1;
  if (!fl_kwrites(s)) return 1;
  const fl_kvar *x = &b->x->f->vars[s->var], *y = &b->x->f->vars[b->var];
  /* dynamic arrays of one type are one (views.h) */
  if (s->var != b->var && !(x->dynamic && x->dynamic == y->dynamic && x->type == y->type)) return 1;
  if (s->kind == FL_KS_ATOMIC || s->accumulate || b->n_writes == 16) b->bad = 1;
  else b->write[b->n_writes++] = (fl_kaccess_at){s, s->x[0]};
  return 1;
}

/* 1 + site of the store before the loop, in its block, whose element the loop reads in the first
** round; 0: none is known. */
static int32_t first_of(const behind *b, const fl_kaccess_at *read) {
  for (const fl_kstmt *s = b->around; s != b->loop; s = s->next) {
    const fl_kaccess_at write = { s, s->x[0] };
    if (s->kind == FL_KS_STORE && s->var == b->var && !s->accumulate &&
        fl_kindex_is_first(b->k, read, &write, b->loop->label)) return 1 + s->site;
  }
  return 0;
}

static int see_read(void *arg, fl_kexpr *x) {
  behind *b = arg;
  if (x->kind != FL_KX_LOAD) return 1;
  const fl_kvar *of = &b->x->f->vars[x->var];
  if ((of->kind != FL_KV_POINTER && of->kind != FL_KV_SHARED) || of->is_const) return 1;
  if (x->site < 0 || x->site >= b->x->n) return 1;
  const fl_kvisitor writes = {see_write, NULL, b};
  const fl_kaccess_at read = {b->s, x->x[0]};
  b->var = x->var;
  b->n_writes = b->bad = 0;
  fl_kwalk_block(&writes, b->loop->body);
  fl_kwalk_block(&writes, b->loop->other);
  for (int i = 0; i < b->n_writes && !b->bad; i++) {
    b->bad = !fl_kindex_is_behind(b->k, &read, &b->write[i], b->loop->label);
    if (!b->bad && fl_kindex_is_next(b->k, &read, &b->write[i], b->loop->label))
      b->x->at[x->site].next = 1 + b->write[i].s->site;
  }
  if (b->x->at[x->site].next) b->x->at[x->site].first = first_of(b, &read);
  if (b->n_writes && !b->bad) b->x->at[x->site].final |= (uint64_t)1 << b->loop->label;
  return 1;
}

static void walk_reads(behind *b, fl_kblock body) {
  const fl_kvisitor reads = {NULL, see_read, b};
  const fl_kstmt *const loop = b->loop, *const around = b->around;
  for (fl_kstmt *s = body.first; s; s = s->next) {
    b->s = s;
    for (int i = 0; loop && s->kind != FL_KS_LOOP && i < 4; i++) fl_kwalk_expr(&reads, s->x[i]);
    if (s->kind == FL_KS_LOOP) b->loop = s->label >= 0 && s->label < 64 ? s : NULL;
    if (s->kind == FL_KS_LOOP) b->around = body.first;
    walk_reads(b, s->body);
    walk_reads(b, s->other);
    b->loop = loop;
    b->around = around;
  }
}

void fl_kfacts_rounds(fl_kfacts *x, const fl_kindices *k) {
  behind b = {.x = x, .k = k};
  walk(x, k, &x->f->body);
  walk_reads(&b, x->f->body);
}
