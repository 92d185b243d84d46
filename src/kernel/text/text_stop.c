/* Assertions of kernels on a GPU, as text (text_stop.h). */
#include "kernel/text/text_stop.h"
#include "kernel/text/text_check.h"

/* where: 2^10 times the number of the block, plus that of the thread, in the 40 bits that the
** record has for it. */
static const char text[] =
  "static __device__ __noinline__ void fl_stop(unsigned long long *record,"
  " unsigned long long site, unsigned z, unsigned which) {\n"
  "  const unsigned long long most = (1ull << 30) - 1;\n"
  "  unsigned long long at = blockIdx.x + (unsigned long long)gridDim.x *"
  " (blockIdx.y + (unsigned long long)gridDim.y * z);\n"
  "  at = (at < most ? at : most) << 10 |"
  " ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);\n"
  "  for (int b = 0; b < 8; b++)\n"
  "    atomicMin(record + b, site | at << 8 | (b < 4 ? which >> 8 * b & 255u : 0u));\n"
  "}\n";

void fl_ktext_stop(fl_text *t) { fl_text_puts(t, text); }

/* ---- which kernels --------------------------------------------------------------------------- */

static int is_assert(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_ASSERT && !s->x[1];
}

static int is_fence(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_BARRIER && s->op == FL_KBAR_FENCE;
}

static int is_atomic(const void *op, const fl_kstmt *s) {
  return s->kind == FL_KS_ATOMIC && s->op == *(const int *)op;
}

/* Has f what a lock, or a flag that a loop waits for, is made of? */
static int may_wait(const fl_kfunc *f) {
  const int cas = FL_KA_CAS, exch = FL_KA_EXCH;
  return fl_kblock_any(f->body, is_fence, NULL) ||
         (fl_kblock_any(f->body, is_atomic, &cas) && fl_kblock_any(f->body, is_atomic, &exch));
}

int fl_ktext_stops(const fl_kfunc *f, int derived) {
  return f->has_body && !f->uses_grid && fl_kblock_any(f->body, is_assert, NULL) &&
         (derived || !may_wait(f));
}

typedef struct nth { int64_t n; const fl_kstmt *s; } nth;
static int see_assert(void *arg, fl_kstmt *s) {
  nth *x = arg;
  if (s->kind == FL_KS_ASSERT && x->n-- == 0) x->s = s;
  return 1;
}

const fl_kstmt *fl_kassert_of(const fl_kfunc *f, int64_t n) {
  nth x = { n, NULL };
  const fl_kvisitor v = { see_assert, NULL, &x };
  if (n >= 0) fl_kwalk_block(&v, f->body);
  return x.s;
}

/* The number of s among all ASSERTs. */
static int number_of(const fl_kfunc *f, const fl_kstmt *s) {
  int n = 0;
  while (fl_kassert_of(f, n) != s) n++;
  return n;
}

/* ---- statements ------------------------------------------------------------------------------ */

static int meets(const void *none, const fl_kstmt *s) {
  (void)none;
  return (s->kind == FL_KS_BARRIER && s->op != FL_KBAR_FENCE) || s->kind == FL_KS_SHUFFLE ||
         s->kind == FL_KS_VOTE;
}

void fl_kstop_open(fl_kwriter *w) {
  const int room = w->f->moves_shared || w->f->shared_bytes + 16 <= FL_K_MAX_SHARED;
  if (w->stops && room && fl_kblock_any(w->f->body, meets, NULL)) w->stops = 2;
}

void fl_kstop_begin(fl_kwriter *w) {
  if (w->stops < 2) return;
  fl_text_puts(w->t, "  __shared__ int fl_stopped;\n"
                     "  if (!(threadIdx.x | threadIdx.y | threadIdx.z)) fl_stopped = 0;\n"
                     "  __syncthreads();\n");
}

void fl_kput_assert(fl_kwriter *w, const fl_kstmt *s) {
  if (w->check) { fl_kcheck_assertion(w, s); return; }
  if (s->x[1]) return;
  fl_text_puts(w->t, "if (!");
  fl_kput_expr(w, s->x[0]);
  if (!w->stops) { fl_text_puts(w->t, ") __trap()"); return; }
  fl_text_printf(w->t, ") { fl_stop(fl_record, fl_site, %s, %d); ",
                 w->batch ? "blockIdx.z % fl_b.blocks" : "blockIdx.z", number_of(w->f, s));
  if (w->stops > 1) fl_text_puts(w->t, "*(volatile int *)&fl_stopped = 1; __threadfence_block(); ");
  fl_text_puts(w->t, "return; }");
}

void fl_kstop_met(fl_kwriter *w) {
  if (w->stops > 1) fl_text_puts(w->t, "; if (*(volatile int *)&fl_stopped) return");
}
