/*
** Splits kernels of full reductions. Reductions that have nothing in common, like the squares of
** many gradients, may share a group because each joined another's loop; on a GPU a kernel of one
** row is one block (or a few), which would go through them one after the other. As separate kernels
** those of equal structure are instances of one launch, side by side (finish.c).
*/
#include "plan/planner.h"
#include <string.h>

typedef struct parts {
  const fl_kernel *k;
  uint16_t of[FL_MAX_INSTR];         /* by instruction: the first of its part */
  uint16_t reader[FL_MAX_OPERANDS];  /* by operand: the first instruction that reads it, + 1 */
} parts;

static uint16_t first_of(const parts *p, uint16_t v) {
  while (p->of[v] != v) v = p->of[v];
  return v;
}

static void unite(parts *p, uint16_t v, uint16_t x) {
  const uint16_t a = first_of(p, v), b = first_of(p, x);
  if (a < b) p->of[b] = a;
  else p->of[a] = b;
}

static void find_parts(parts *p) {
  const fl_kernel *k = p->k;
  for (uint16_t v = 0; v < k->ninstr; v++) {
    uint16_t in[3];
    p->of[v] = v;
    for (int i = fl_instr_inputs(&k->instr[v], in) - 1; i >= 0; i--) unite(p, v, in[i]);
    if (!fl_instr_accesses(&k->instr[v])) continue;
    uint16_t *reader = &p->reader[k->instr[v].arg];
    if (*reader) unite(p, v, (uint16_t)(*reader - 1));
    else *reader = (uint16_t)(v + 1);
  }
  for (uint16_t v = 0; v < k->ninstr; v++) p->of[v] = first_of(p, v);
}

/* Does a part begin at instruction v: its first, which leads to a stored value? */
static int begins(const parts *p, uint16_t v) {
  for (int s = 0; s < p->k->nstore; s++) if (p->of[p->k->store[s].value] == v) return 1;
  return 0;
}

static void *room(fl_mem *m, size_t n, size_t size, int *ok) {
  void *at = fl_zalloc(m, n * size);
  if (!at) *ok = 0;
  return at;
}

/* The instructions, operands and scalars of the part that begins at 'first'; a draw has two
** scalars. */
static void fill(const parts *p, uint16_t first, fl_kernel *out) {
  const fl_kernel *k = p->k;
  uint16_t to[FL_MAX_INSTR] = { 0 }, operand[FL_MAX_OPERANDS] = { 0 };      /* + 1 */
  for (uint16_t v = 0; v < k->ninstr; v++) {
    if (p->of[v] != first) continue;
    fl_instr x = k->instr[v];
    if (fl_instr_accesses(&x)) {
      if (!operand[x.arg]) {
        out->operand[out->noperand++] = k->operand[x.arg];
        operand[x.arg] = out->noperand;
      }
      x.arg = (uint16_t)(operand[x.arg] - 1);
    }
    const int n = x.code == FL_I_SCALAR ? 1 : x.code == FL_I_RANDOM ? 2 : 0;
    for (int i = 0; i < n; i++) out->scalar[out->nscalar + i] = k->scalar[x.arg + i];
    if (n) x.arg = out->nscalar;
    out->nscalar = (uint16_t)(out->nscalar + n);
    x.a = to[x.a]; x.b = to[x.b]; x.c = to[x.c];
    to[v] = out->ninstr;
    out->instr[out->ninstr++] = x;
  }
  for (int s = 0; s < k->nstore; s++) {
    if (p->of[k->store[s].value] != first) continue;
    out->operand[out->noperand] = k->operand[k->store[s].operand];
    out->store[out->nstore++] = (fl_store){ to[k->store[s].value], out->noperand++ };
  }
}

/* The part as a kernel; its lists are exactly as long as necessary. 0: no memory. */
static int make_part(fl_planner *P, const parts *p, uint16_t first, fl_kernel *out) {
  const fl_kernel *k = p->k;
  fl_instr instr[FL_MAX_INSTR];
  fl_operand operand[FL_MAX_OPERANDS];
  fl_store store[FL_MAX_OPERANDS];
  uint32_t scalar[FL_MAX_SCALARS];
  int ok = 1;
  *out = *k;
  out->instr = instr, out->operand = operand, out->store = store, out->scalar = scalar;
  out->ninstr = out->noperand = out->nstore = out->nscalar = 0;
  fill(p, first, out);
  out->instr = room(P->mem, out->ninstr, sizeof *instr, &ok);
  out->operand = room(P->mem, out->noperand, sizeof *operand, &ok);
  out->store = room(P->mem, out->nstore, sizeof *store, &ok);
  out->scalar = room(P->mem, out->nscalar, sizeof *scalar, &ok);
  if (ok) {
    memcpy(out->instr, instr, sizeof *instr * out->ninstr);
    memcpy(out->operand, operand, sizeof *operand * out->noperand);
    memcpy(out->store, store, sizeof *store * out->nstore);
    if (out->nscalar) memcpy(out->scalar, scalar, sizeof *scalar * out->nscalar);
    fl_kernel_measure(P, out);
    out->key = fl_kernel_key(out);
  } else fl_kernel_free(P->mem, out);
  return ok;
}

int fl_plan_split(fl_planner *P, const fl_kernel *k, fl_kernel *out) {
  parts p = { .k = k };
  int n = 0;
  if (!P->p->device || k->kind != FL_K_ROW || k->nkept || k->nstore < 2) return 0;
  find_parts(&p);
  for (uint16_t v = 0; v < k->ninstr; v++) {
    if (!begins(&p, v)) continue;
    if (n == 0 && p.of[k->store[0].value] == v) {               /* is there another? */
      int same = 1;
      for (int s = 1; s < k->nstore; s++) same &= p.of[k->store[s].value] == v;
      if (same) return 0;
    }
    if (!make_part(P, &p, v, &out[n])) {
      while (n--) fl_kernel_free(P->mem, &out[n]);
      return -1;
    }
    n++;
  }
  return n;
}
