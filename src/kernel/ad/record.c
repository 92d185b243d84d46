/* Kernels that record, or replay, the results of atomics. See record.h. */
#include "kernel/ad/record.h"
#include "kernel/tree/verify.h"

static const char NAME[] = "recorded";

typedef struct recording {
  fl_karena *a;
  fl_kfunc *f;
  int replay, var, n;
} recording;

static int is_recorded(const fl_kfunc *f, const fl_kstmt *s) {
  return s->kind == FL_KS_ATOMIC && s->result >= 0 && fl_kt_is_int(f->vars[s->var].type) &&
         (!s->as || fl_kt_is_int(s->as));
}

static int count(const fl_kfunc *f, const fl_kblock *b) {
  int n = 0;
  for (const fl_kstmt *s = b->first; s; s = s->next) {
    n += is_recorded(f, s);
    if (s->kind != FL_KS_LOOP) n += count(f, &s->body) + count(f, &s->other);
  }
  return n;
}

int fl_krecord_count(const fl_kfunc *f) { return f->has_body ? count(f, &f->body) : 0; }

static fl_kexpr *op(const recording *r, int what, fl_kexpr *x, fl_kexpr *y) {
  return fl_kexpr_binary(r->a, what, x, y);
}

/* place * threads + thread */
static fl_kexpr *index_of(const recording *r, int place) {
  enum { INT = FL_KT_I64, THREADS = FL_KSPECIAL_BDIM_X, BLOCKS = FL_KSPECIAL_GDIM_X };
  fl_kexpr *size = fl_kexpr_volume(r->a, INT, THREADS);
  fl_kexpr *all = op(r, FL_KO_MUL, size, fl_kexpr_volume(r->a, INT, BLOCKS));
  fl_kexpr *block = fl_kexpr_number(r->a, INT, FL_KSPECIAL_BID_X, BLOCKS);
  fl_kexpr *thread = op(r, FL_KO_ADD, op(r, FL_KO_MUL, block, size),
                        fl_kexpr_number(r->a, INT, FL_KSPECIAL_TID_X, THREADS));
  return op(r, FL_KO_ADD, op(r, FL_KO_MUL, fl_kexpr_int(r->a, INT, place), all), thread);
}

/* Returns the fl_kblock with the atomic s, which is alone in 'one', and code after it that records
** its result or, in a replay, code before it that sets the result to the recorded one. */
static fl_kblock recorded(recording *r, fl_kstmt *s, fl_kblock one) {
  const int type = r->f->vars[s->result].type;
  fl_kexpr *at = index_of(r, r->n++);
  if (!r->replay) {
    fl_kexpr *old = fl_kexpr_cast(r->a, FL_KT_I64, fl_kexpr_var(r->f, s->result));
    fl_kstmt_store(r->f, &one, r->var, at, old);
    return one;
  }
  fl_kblock out = {NULL, NULL};
  fl_kstmt_assign(r->f, &out, s->result,
                  fl_kexpr_cast(r->a, type, fl_kexpr_load(r->f, r->var, at)));
  s->result = -1;
  fl_kblock_append(&out, one);
  return out;
}

static fl_kblock walk(recording *r, fl_kblock b) {
  fl_kblock out = {NULL, NULL};
  for (fl_kstmt *s; !r->a->failed && (s = fl_kblock_take(&b));) {
    fl_kblock one = {s, s};
    if (is_recorded(r->f, s)) {
      one = recorded(r, s, one);
    } else if (s->kind != FL_KS_LOOP) {
      s->body = walk(r, s->body);
      s->other = walk(r, s->other);
    }
    fl_kblock_append(&out, one);
  }
  return out;
}

int fl_krecord_is(const void *f, const fl_kexpr *x) {
  const fl_kfunc *of = f;
  return x->kind == FL_KX_LOAD && of->vars[x->var].param >= 0 && x->type == FL_KT_I64 &&
         !strcmp(of->vars[x->var].name, NAME);
}

fl_kfunc *fl_krecord_make(fl_karena *a, const fl_kfunc *f, int replay) {
  recording r = {.a = a, .f = fl_kfunc_clone(a, f), .replay = replay};
  if (!r.f) return NULL;
  r.var = fl_kparam_add(r.f, NAME, FL_KT_I64, 1, replay);
  if (r.var < 0) return NULL;
  r.f->body = walk(&r, r.f->body);
  r.f->replays = (uint8_t)replay;
  if (a->failed) return NULL;
  fl_kpass_done("recording", r.f, r.f->body);
  return r.f;
}
