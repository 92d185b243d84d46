/*
** Splits kernels whose stored values have nothing in common; place.c has put them into one loop. As
** separate kernels those of equal structure are instances of one launch, side by side (finish.c).
** On a GPU that pays for
** - full reductions, like the squares of many gradients: a kernel of one row is one block (or a
**   few), which would go through them one after the other;
** - elementwise kernels of many arrays, like an optimiser's step over parameters of one shape: the
**   loads of all of them would take most registers.
*/
#include "plan/planner.h"
#include <string.h>

/* MANY: an elementwise kernel with this many operands is split. LARGE: with this many points
** several launches cost no more than one. */
enum { MANY = 16, LARGE = 1 << 18 };

typedef struct parts {
  const fl_kernel *k;
  uint16_t of[FL_MAX_INSTR];         /* per instruction: the first of its part */
  uint8_t uniform[FL_MAX_INSTR];     /* of a MAP: the value is made from scalars alone, so each part
                                     ** computes it itself */
  uint16_t user[FL_MAX_OPERANDS];    /* per operand: 1 + an instruction that reads or makes it; 0:
                                     ** none */
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

static void use(parts *p, uint16_t operand, uint16_t v) {
  uint16_t *user = &p->user[operand];
  if (*user) unite(p, v, (uint16_t)(*user - 1));
  else *user = (uint16_t)(v + 1);
}

/* The memory of an operand: a buffer, a place of the arena or a new result. */
static const void *memory_of(const fl_planner *P, const fl_place *at) {
  if (at->where == FL_AT_EXT) return P->p->ext.at[at->index]->buffer;
  if (at->where == FL_AT_ARENA) return (const void *)(uintptr_t)(2 * at->byte + 1);
  const fl_out *o = &P->plan->out[at->index];
  return o->home >= 0 ? (const void *)P->p->homes.at[o->home] : (const void *)o;
}

/* Instructions that use the same memory stay in one part: a value may take the memory of one that
** is read at the same point, and slices of one array are read while they are in a cache. */
static void unite_by_memory(const fl_planner *P, parts *p) {
  const fl_kernel *k = p->k;
  const void *memory[FL_MAX_OPERANDS];
  for (int s = 0; s < k->nstore; s++) use(p, k->store[s].operand, k->store[s].value);
  for (int o = 0; o < k->noperand; o++) {
    const int user = p->user[o] - 1;
    memory[o] = user < 0 || k->instr[user].code == FL_I_IOTA
                ? NULL : memory_of(P, &k->operand[o].place);
  }
  for (int o = 0; o < k->noperand; o++)
    for (int q = 0; q < o; q++)
      if (memory[o] && memory[o] == memory[q])
        unite(p, (uint16_t)(p->user[o] - 1), (uint16_t)(p->user[q] - 1));
}

static void find_parts(const fl_planner *P, parts *p) {
  const fl_kernel *k = p->k;
  for (uint16_t v = 0; v < k->ninstr; v++) {
    const fl_instr *x = &k->instr[v];
    uint16_t in[3];
    const int n = fl_instr_inputs(x, in);
    p->of[v] = v;
    p->uniform[v] = k->kind == FL_K_MAP &&
                    (x->code == FL_I_SCALAR || x->code == FL_I_OP || x->code == FL_I_CAST);
    for (int i = 0; i < n; i++) p->uniform[v] &= p->uniform[in[i]];
    for (int i = 0; i < n && !p->uniform[v]; i++) if (!p->uniform[in[i]]) unite(p, v, in[i]);
    if (fl_instr_accesses(x)) use(p, x->arg, v);
  }
  if (k->kind == FL_K_MAP) unite_by_memory(P, p);
  for (uint16_t v = 0; v < k->ninstr; v++) p->of[v] = first_of(p, v);
}

/* Does a part begin at instruction v? It does if v is the first instruction of its part, and leads
** to a stored value. */
static int begins(const parts *p, uint16_t v) {
  for (int s = 0; s < p->k->nstore; s++) if (p->of[p->k->store[s].value] == v) return 1;
  return 0;
}

static void *room(fl_mem *m, size_t n, size_t size, int *ok) {
  void *at = fl_zalloc(m, n * size);
  if (!at) *ok = 0;
  return at;
}

/* Marks the instructions of the part that begins at 'first', and the uniform ones (made from
** scalars alone) that they read. */
static void need_of(const parts *p, uint16_t first, uint8_t *need) {
  for (int v = p->k->ninstr - 1; v >= 0; v--) {
    uint16_t in[3];
    need[v] |= p->of[v] == first;
    for (int i = need[v] ? fl_instr_inputs(&p->k->instr[v], in) - 1 : -1; i >= 0; i--)
      need[in[i]] = 1;
  }
}

/* The index in 'out' of operand o of k, which is added there at its first use. to[o]: 1 + that
** index; 0: not added yet. */
static uint16_t operand_in(const fl_kernel *k, uint16_t o, fl_kernel *out, uint16_t *to) {
  if (!to[o]) {
    out->operand[out->noperand++] = k->operand[o];
    to[o] = out->noperand;
  }
  return (uint16_t)(to[o] - 1);
}

/* Copies the instructions, operands and scalars of the part that begins at 'first'. An FL_I_RANDOM
** has two scalars. */
static void fill(const parts *p, uint16_t first, fl_kernel *out) {
  const fl_kernel *k = p->k;
  uint16_t to[FL_MAX_INSTR] = { 0 }, operand[FL_MAX_OPERANDS] = { 0 };      /* + 1 */
  uint8_t need[FL_MAX_INSTR] = { 0 };
  need_of(p, first, need);
  for (uint16_t v = 0; v < k->ninstr; v++) {
    if (!need[v]) continue;
    fl_instr x = k->instr[v];
    if (fl_instr_accesses(&x)) x.arg = operand_in(k, x.arg, out, operand);
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
    const uint16_t o = operand_in(k, k->store[s].operand, out, operand);
    out->store[out->nstore++] = (fl_store){ to[k->store[s].value], o, 0 };
  }
}

/* Makes a kernel of the part that begins at 'first'; its lists are exactly as long as necessary. 0:
** no memory. */
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

static int is_whole(const parts *p) {
  for (int s = 1; s < p->k->nstore; s++)
    if (p->of[p->k->store[s].value] != p->of[p->k->store[0].value]) return 0;
  return 1;
}

static void drop(fl_planner *P, fl_kernel *out, int n) {
  while (n--) fl_kernel_free(P->mem, &out[n]);
}

int fl_plan_may_split(const fl_planner *P, int kind, int whole, int64_t n) {
  return P->p->device && (kind == FL_K_MAP ? n > MANY : kind == FL_K_ROW && whole);
}

int fl_plan_split(fl_planner *P, const fl_kernel *k, fl_kernel *out) {
  parts p = { .k = k };
  int n = 0, alike = 1;
  if (k->nstore < 2 || !fl_plan_may_split(P, k->kind, !k->nkept, k->noperand)) return 0;
  find_parts(P, &p);
  if (is_whole(&p)) return 0;
  for (uint16_t v = 0; v < k->ninstr; v++) {
    if (!begins(&p, v)) continue;
    if (!make_part(P, &p, v, &out[n])) {
      drop(P, out, n);
      return -1;
    }
    alike &= fl_kernel_same_structure(&out[0], &out[n]);
    n++;
  }
  if (k->kind == FL_K_ROW || alike || k->points >= LARGE) return n;
  drop(P, out, n);
  return 0;
}
