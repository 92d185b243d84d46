/*
** FLAME_CHECK=nan: each step that computes floats is followed by one step for each array of floats
** that it writes, which looks for a NaN there before the memory is reused. It is an ordinary
** kernel, any(isnan(x)) into a byte of the arena, so every device has it and it is replayed with
** the plan; the engine reads the bytes after the run (engine/scan.c). Copies of buffers are not
** looked at.
*/
#include "plan/planner.h"
#include <string.h>

/* An array in memory: its dims and their strides. */
typedef struct area {
  fl_place place;
  uint8_t dtype;
  int64_t offset, size[FL_MAX_AXES], stride[FL_MAX_AXES];
  int rank;
} area;

/* Removes dims of stride 0 and joins neighbours where possible. Returns the number of elements. */
static int64_t tidy(area *a) {
  int n = 0;
  int64_t numel = 1;
  for (int d = 0; d < a->rank; d++) {
    const int64_t size = a->size[d], stride = a->stride[d];
    if (size == 0) return 0;
    if (size == 1 || stride == 0) continue;
    numel *= size;
    if (n > 0 && a->stride[n - 1] == stride * size) {
      a->size[n - 1] *= size;
      a->stride[n - 1] = stride;
      continue;
    }
    a->size[n] = size;
    a->stride[n++] = stride;
  }
  if (n == 0) {
    a->size[0] = 1;
    a->stride[n++] = 0;
  }
  a->rank = n;
  return numel;
}

static area flat(fl_place place, int dtype, int64_t numel) {
  return (area){ .place = place, .dtype = (uint8_t)dtype, .size = { numel }, .stride = { 1 },
                 .rank = 1 };
}

static area of_store(const fl_kernel *k, int i) {
  const fl_operand *o = &k->operand[k->store[i].operand];
  if (k->store[i].across) return flat(o->place, o->dtype, fl_row_partials(k->rows, k->n) * k->n);
  area a = { .place = o->place, .dtype = o->dtype, .offset = o->offset,
             .rank = k->nkept + k->nred };
  memcpy(a.size, k->size, sizeof a.size);
  memcpy(a.stride, o->stride, sizeof a.stride);
  return a;
}

static area of_matmul(const fl_matmul *m) {
  area a = { .place = m->ct, .dtype = m->dtype, .offset = m->coff, .rank = m->nbatch };
  memcpy(a.size, m->batch, sizeof m->batch);
  memcpy(a.stride, m->cbatch, sizeof m->cbatch);
  a.size[a.rank] = m->m;
  a.stride[a.rank++] = m->n + m->cpad;
  a.size[a.rank] = m->n;
  a.stride[a.rank++] = 1;
  return a;
}

/* The i-th array that the step writes; 0: there are no more. */
static int written(const fl_step *s, int i, area *a) {
  if (s->kind == FL_S_KERNEL) {
    const int n = s->kernel->nstore;
    if (i >= s->count * n) return 0;
    *a = of_store(&s->kernel[i / n], i % n);
    return 1;
  }
  if (i > 0 || s->kind == FL_S_COPY) return 0;
  if (s->kind == FL_S_MATMUL) *a = of_matmul(s->matmul);
  else if (s->kind == FL_S_SCATTER)
    *a = flat(s->scatter->dst.place, s->scatter->dtype, s->scatter->dst_numel);
  else *a = flat(s->call->out, s->call->call.dtype, s->call->call.numel);
  return 1;
}

static int fill(fl_mem *m, const area *a, int64_t numel, int64_t byte, fl_kernel *k) {
  const uint8_t b = FLAME_BOOL;
  *k = (fl_kernel){ .kind = FL_K_ROW, .nred = (uint8_t)a->rank, .passes = 1, .rows = 1,
                    .ninstr = 3, .noperand = 2, .nstore = 1 };
  k->points = k->n = 1;
  for (int d = 0; d < a->rank; d++) k->n *= k->size[d] = a->size[d];
  k->points = k->n;
  k->bytes = numel * fl_dtype_size(a->dtype);
  k->instr = fl_zalloc(m, 3 * sizeof *k->instr);
  k->operand = fl_zalloc(m, 2 * sizeof *k->operand);
  k->store = fl_zalloc(m, sizeof *k->store);
  if (!k->instr || !k->operand || !k->store) return 0;
  k->instr[0] = (fl_instr){ .code = FL_I_LOAD, .dtype = a->dtype, .from = a->dtype, .level = 1 };
  k->instr[1] = (fl_instr){ .code = FL_I_OP, .dtype = b, .from = a->dtype, .level = 1,
                            .op = FL_OP_isnan };
  k->instr[2] = (fl_instr){ .code = FL_I_REDUCE, .dtype = b, .from = b, .pass = 1,
                            .op = FL_OP_any, .a = 1 };
  k->operand[0] = (fl_operand){ .place = a->place, .dtype = a->dtype, .reads = 1,
                                .offset = a->offset };
  memcpy(k->operand[0].stride, a->stride, sizeof a->stride);
  k->operand[1] = (fl_operand){ .place = { FL_AT_ARENA, 0, byte }, .dtype = b, .writes = 1 };
  k->store[0] = (fl_store){ 2, 1, 0 };
  k->key = fl_kernel_key(k);
  return 1;
}

/* Makes the step that looks for a NaN in 'a', which is not empty. */
static int look_step(fl_mem *m, const area *a, int64_t numel, int64_t byte, fl_step *s) {
  *s = (fl_step){ .kind = FL_S_KERNEL, .looks = 1, .count = 1, .node = -1,
                  .kernel = fl_zalloc(m, sizeof *s->kernel) };
  if (!s->kernel) return 0;
  s->moved = numel * fl_dtype_size(a->dtype);
  if (fill(m, a, numel, byte, s->kernel)) return 1;
  fl_kernel_free(m, s->kernel);
  fl_free(m, s->kernel, sizeof *s->kernel);
  s->kernel = NULL;
  return 0;
}

static int32_t count(const fl_plan *p) {
  int32_t n = 0;
  area a;
  for (int32_t i = 0; i < p->nstep; i++)
    for (int k = 0; written(&p->step[i], k, &a); k++) n += fl_is_float(a.dtype) && tidy(&a) > 0;
  return n;
}

/* Makes the n steps that look for NaN, and notes for each the step whose result it looks at. */
static int make_looks(fl_plan *p, fl_step *look, int32_t *site) {
  int32_t k = 0;
  area a;
  for (int32_t i = 0; i < p->nstep; i++)
    for (int j = 0; written(&p->step[i], j, &a); j++) {
      const int64_t numel = fl_is_float(a.dtype) ? tidy(&a) : 0;
      if (numel == 0) continue;
      if (!look_step(p->mem, &a, numel, p->scan_at + k, &look[k])) return 0;
      site[k++] = i;
    }
  return 1;
}

/* Inserts each of the n steps that look right after the step that it looks at. 'site' then has
** indices among all steps. */
static void weave(const fl_plan *p, const fl_step *look, int32_t *site, int32_t n, fl_step *out) {
  int32_t at = 0, k = 0;
  for (int32_t i = 0; i < p->nstep; i++) {
    const int32_t made = at;
    out[at++] = p->step[i];
    for (; k < n && site[k] == i; k++) {
      out[at++] = look[k];
      site[k] = made;
    }
  }
}

static void free_looks(fl_mem *m, fl_step *look, int32_t n) {
  for (int32_t k = 0; look && k < n; k++) {
    if (!look[k].kernel) continue;
    fl_kernel_free(m, look[k].kernel);
    fl_free(m, look[k].kernel, sizeof *look[k].kernel);
  }
}

int fl_plan_scan(fl_plan *p) {
  fl_mem *m = p->mem;
  const int32_t n = count(p), all = p->nstep + n;
  if (n == 0) return 1;
  int32_t *site = fl_zalloc(m, sizeof *site * (size_t)n);
  fl_step *look = fl_zalloc(m, sizeof *look * (size_t)n),
          *step = fl_zalloc(m, sizeof *step * (size_t)all);
  p->scan_at = (p->arena_bytes + 255) / 256 * 256;
  const int ok = site && look && step && make_looks(p, look, site);
  if (!ok) {
    free_looks(m, look, n);
    fl_free(m, site, sizeof *site * (size_t)n);
    fl_free(m, step, sizeof *step * (size_t)all);
  } else {
    weave(p, look, site, n, step);
    fl_free(m, p->step, sizeof *step * (size_t)p->step_cap);
    p->step = step;
    p->nstep = p->step_cap = all;
    p->scan = site;
    p->nscan = n;
    p->arena_bytes = p->scan_at + n;
  }
  fl_free(m, look, sizeof *look * (size_t)n);
  return ok;
}
