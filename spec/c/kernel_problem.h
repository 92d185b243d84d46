/*
** A kernel with its arguments, run on the CPU, and the checks of its derivatives: reverse
** against forward mode (<Jv, u> = <v, J'u>) and both against central differences in f64.
** The arguments of a derived kernel follow from the role of each of its parameters (fl_kad_param).
** A derived kernel can be made a problem and checked again.
*/
#ifndef KERNEL_PROBLEM_H
#define KERNEL_PROBLEM_H
#include "kernel/ad/ad.h"
#include "kernel/facts/access.h"
#include "kernel/lanes/lane.h"
#include "kernel/front/source.h"
#include "tensor/dtype.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 96 };

/* One argument: an array of n elements, or a scalar (n = 1) or struct (n bytes, type VOID). */
typedef struct argument { int type, pointer, want; int64_t n; unsigned char *at; } argument;

typedef struct problem {
  const fl_kfunc *f;
  argument arg[MAX_ARGS];
  int n;
  uint32_t grid[3], block[3];
  int64_t shared;
  int deterministic, slot_bytes;
  /* not 0: central differences are not compared, and reverse and forward mode may differ by this */
  double loose;
  int races;                     /* run with the race check: a plain += must be no race */
  int gathered;                  /* atomic sums that became gathers, in all checks so far */
  fl_mem *mem;
  fl_karena *arena;
  char why[400];                 /* what went wrong last */
} problem;

static inline int64_t size_of(int type) { return type == FL_KT_VOID ? 1 : fl_kt_size(type); }

static inline double get(int type, const unsigned char *p) {
  double d; float f; int32_t i; int64_t l;
  switch (type) {
  case FL_KT_F64: memcpy(&d, p, 8); return d;
  case FL_KT_F32: memcpy(&f, p, 4); return (double)f;
  case FL_KT_F16: { uint16_t h; memcpy(&h, p, 2); return (double)fl_f16_to_f32(h); }
  case FL_KT_I32: memcpy(&i, p, 4); return i;
  case FL_KT_I64: memcpy(&l, p, 8); return (double)l;
  default: return 0;
  }
}

static inline void put(int type, unsigned char *p, double x) {
  const float f = (float)x; const int32_t i = (int32_t)x; const int64_t l = (int64_t)x;
  switch (type) {
  case FL_KT_F64: memcpy(p, &x, 8); break;
  case FL_KT_F32: memcpy(p, &f, 4); break;
  case FL_KT_F16: { const uint16_t h = fl_f32_to_f16(f); memcpy(p, &h, 2); break; }
  case FL_KT_I32: memcpy(p, &i, 4); break;
  case FL_KT_I64: memcpy(p, &l, 8); break;
  default: break;
  }
}

static inline unsigned char *fresh(int64_t bytes) {
  return calloc(1, (size_t)(bytes > 0 ? bytes : 1));
}

/* ---- running ------------------------------------------------------------------------------- */

static inline int run_args(problem *p, const fl_kfunc *f, argument *arg, int n, int64_t shared) {
  fl_error e = {0};
  fl_lane_code *code = fl_lane_compile(p->mem, f, &e);
  if (!code) return snprintf(p->why, sizeof p->why, "compile: %.300s", e.message), 0;
  fl_lane_arg a[MAX_ARGS] = {{0}};
  fl_lane_memory m[MAX_ARGS] = {{0}};
  for (int i = 0; i < n; i++) {
    m[i].data = arg[i].at;
    m[i].bytes = arg[i].n * size_of(arg[i].type);
    a[i].value = arg[i].at;
    a[i].memory = &m[i];
  }
  fl_lane_launch l = {.args = a, .n_args = n, .shared_bytes = shared,
                      .checks = FL_LANE_BOUNDS, .max_steps = 400000000};
  memcpy(l.grid, p->grid, sizeof l.grid);
  memcpy(l.block, p->block, sizeof l.block);
  if (p->races) l.checks |= FL_LANE_RACE;
  fl_lane_report report = {0};
  const int ok = fl_lane_run(p->mem, code, &l, &report, &e);
  if (!ok) {
    fl_text t;
    fl_text_init(&t, p->mem);
    fl_lane_message(&report, &t);
    const char *text = fl_text_str(&t);
    snprintf(p->why, sizeof p->why, "run: %.200s %.150s", text ? text : "", e.message);
    fl_text_free(&t);
  }
  fl_lane_free(code);
  return ok;
}

static inline void copy_args(const problem *p, argument *to) {
  for (int i = 0; i < p->n; i++) {
    to[i] = p->arg[i];
    const int64_t bytes = to[i].n * size_of(to[i].type);
    to[i].at = fresh(bytes);
    memcpy(to[i].at, p->arg[i].at, (size_t)bytes);
  }
}

static inline void free_args(argument *a, int n) {
  for (int i = 0; i < n; i++) free(a[i].at);
}

/* ---- inputs and outputs as vectors ----------------------------------------------------------- */

typedef struct slot { int arg, leaf, type; int64_t offset, n; } slot;   /* bytes, elements */
typedef struct slots { slot at[4 * MAX_ARGS]; int n; int64_t total; } slots;

static inline void slot_add(slots *s, int arg, int leaf, int type, int64_t offset, int64_t n) {
  if (!fl_kt_is_float(type)) return;
  s->at[s->n++] = (slot){arg, leaf, type, offset, n};
  s->total += n;
}

static inline slots find_slots(const problem *p, int flag) {
  slots s = {.n = 0};
  for (int i = 0; i < p->n; i++) {
    const argument *a = &p->arg[i];
    const fl_kparam *q = &p->f->params[i];
    if (!(a->want & flag)) continue;
    if (a->type != FL_KT_VOID) slot_add(&s, i, -1, a->type, 0, a->n);
    else
      for (int k = 0; k < q->n_fields; k++)
        if (!q->fields[k].is_pointer)
          slot_add(&s, i, k, q->fields[k].type, q->fields[k].offset, q->fields[k].count);
  }
  return s;
}

static inline void read_slots(const slots *s, const argument *arg, double *x) {
  for (int i = 0; i < s->n; i++)
    for (int64_t e = 0; e < s->at[i].n; e++)
      *x++ = get(s->at[i].type,
                 arg[s->at[i].arg].at + s->at[i].offset + e * fl_kt_size(s->at[i].type));
}

static inline void write_slots(const slots *s, argument *arg, const double *x) {
  for (int i = 0; i < s->n; i++)
    for (int64_t e = 0; e < s->at[i].n; e++)
      put(s->at[i].type, arg[s->at[i].arg].at + s->at[i].offset + e * fl_kt_size(s->at[i].type),
          *x++);
}

/* Where the values of field 'leaf' of argument 'arg' (leaf -1: of the whole argument) begin in a
** vector of all slots (arguments and fields of floats) in order; -1 if it has no slot. */
static inline int64_t slot_at(const slots *s, int arg, int leaf) {
  int64_t at = 0;
  for (int i = 0; i < s->n; at += s->at[i].n, i++)
    if (s->at[i].arg == arg && s->at[i].leaf == leaf) return at;
  return -1;
}

/* ---- binding --------------------------------------------------------------------------------- */

static inline fl_kad_request request_of(const problem *p, uint8_t *want) {
  for (int i = 0; i < p->n; i++) want[i] = (uint8_t)p->arg[i].want;
  const int flat = (p->block[1] == 1 ? FL_KONE_BLOCK_Y : 0) |
                   (p->block[2] == 1 ? FL_KONE_BLOCK_Z : 0)
                 | (p->grid[1] == 1 ? FL_KONE_GRID_Y : 0) | (p->grid[2] == 1 ? FL_KONE_GRID_Z : 0);
  static fl_klaunched launched;
  static int64_t value[MAX_ARGS];
  static uint8_t known[MAX_ARGS];
  launched = (fl_klaunched){.value = value, .known = known, .n_values = p->n};
  for (int i = 0; i < 3; i++) {
    launched.extent[i] = p->block[i];
    launched.extent[3 + i] = p->grid[i];
    launched.extent[6 + i] = (int64_t)p->block[i] * p->grid[i];
  }
  launched.extent[FL_KEXTENT_BLOCKS] = (int64_t)p->grid[0] * p->grid[1] * p->grid[2];
  for (int i = 0; i < p->n; i++) {
    known[i] = !p->arg[i].pointer && (p->arg[i].type == FL_KT_I32 || p->arg[i].type == FL_KT_I64);
    value[i] = known[i] ? (int64_t)get(p->arg[i].type, p->arg[i].at) : 0;
  }
  return (fl_kad_request){.launched = &launched, .want = want, .deterministic = p->deterministic,
                          .slot_bytes = p->slot_bytes, .geometry = flat};
}

static inline int64_t elements_of(const problem *p, const fl_kad_param *q) {
  if (q->role == FL_KAD_LAUNCH || q->role == FL_KAD_SIZE) return 1;
  if (q->role == FL_KAD_KEPT && q->param < 0)
    return q->count * (q->part ? (p->shared + 15) / 16 * 16 / q->part : 1) * p->grid[0] *
           p->grid[1] * p->grid[2];
  if (q->role == FL_KAD_KEPT) return q->count * p->arg[q->param].n;
  if (q->count) return q->count;
  return q->param >= 0 && p->arg[q->param].pointer ? p->arg[q->param].n : 1;
}

/* FL_KAD_LAUNCH */
static inline double launch_number(const problem *p, int which) {
  const int axis = which % 3;
  const double block = p->block[axis], grid = p->grid[axis];
  return which < 3 ? block : which < 6 ? grid : block * grid;
}

/* Copies to 'to' what argument i of the kernel p->f holds after a launch. */
static inline int bind_final(const problem *p, int i, unsigned char *to) {
  argument arg[MAX_ARGS] = {{0}};
  problem q = *p;
  copy_args(p, arg);
  const int ok = run_args(&q, p->f, arg, p->n, p->shared);
  if (ok) memcpy(to, arg[i].at, (size_t)(arg[i].n * size_of(arg[i].type)));
  free_args(arg, p->n);
  return ok;
}

/* Makes the arguments of the derived kernel k. 'x' has the tangents of all inputs or the cotangents
** of all outputs, in the order of the slots s. */
static inline int bind_args(const problem *p, const fl_kad *k, const slots *s, const double *x,
                            argument *to) {
  if (k->n_params > MAX_ARGS) return 0;
  for (int i = 0; i < k->n_params; i++) {
    const fl_kad_param *q = &k->params[i];
    const fl_kparam *made = &k->func->params[i];
    const argument *from = q->param >= 0 ? &p->arg[q->param] : NULL;
    argument *a = &to[i];
    *a = (argument){.type = q->type, .pointer = made->is_pointer, .n = elements_of(p, q)};
    if (i < p->n) a->n = from->n, a->type = from->type;
    if (q->role == FL_KAD_UNUSED) a->n = 0;
    a->at = fresh(a->n * size_of(a->type));
    const int64_t at = q->param >= 0 ? slot_at(s, q->param, q->leaf) : -1;
    switch (q->role) {
    case FL_KAD_ORIGINAL: case FL_KAD_SCRATCH: case FL_KAD_RESULT:
      memcpy(a->at, from->at, (size_t)(a->n * size_of(a->type)));
      break;
    case FL_KAD_FINAL:
      if (!bind_final(p, q->param, a->at)) return free_args(to, i + 1), 0;
      break;
    case FL_KAD_COTANGENT: case FL_KAD_WORK: case FL_KAD_TANGENT: case FL_KAD_TANGENT_SCALAR:
    case FL_KAD_TANGENT_ARRAY: case FL_KAD_TANGENT_RESULT:
      for (int64_t e = 0; at >= 0 && e < a->n; e++)
        put(a->type, a->at + e * size_of(a->type), x[at + e]);
      break;
    case FL_KAD_LAUNCH: put(FL_KT_I32, a->at, launch_number(p, (int)q->count)); break;
    case FL_KAD_SIZE: put(FL_KT_I32, a->at, (double)from->n); break;
    case FL_KAD_GRAD:
      if (k->n_gather) memset(a->at, 0xff, (size_t)(a->n * size_of(a->type)));
      break;
    case FL_KAD_SHARED: put(FL_KT_I64, a->at, (double)((p->shared + 15) / 16 * 16)); break;
    case FL_KAD_KEPT:
      if (q->fresh) memset(a->at, 0xff, (size_t)(a->n * size_of(a->type)));
      break;
    default: break;
    }
  }
  return 1;
}

static inline int64_t derived_shared(const problem *p, const fl_kad *k) {
  for (int i = 0; i < k->n_params; i++)
    if (k->params[i].role == FL_KAD_SHARED)
      return k->params[i].count * ((p->shared + 15) / 16 * 16);
  return p->shared;
}

static inline int run_derived(problem *p, const fl_kad *k, argument *arg) {
  problem q = *p;
  if (k->n_gather) {
    int64_t most = 1;
    for (int i = 0; i < k->n_params; i++)
      if (k->params[i].role == FL_KAD_SIZE && p->arg[k->params[i].param].n > most)
        most = p->arg[k->params[i].param].n;
    q.grid[0] = (uint32_t)((most + FL_KAD_GATHER_BLOCK - 1) / FL_KAD_GATHER_BLOCK);
    q.block[0] = FL_KAD_GATHER_BLOCK;
    q.grid[1] = q.grid[2] = q.block[1] = q.block[2] = 1;
  }
  const int ok = run_args(&q, k->func, arg, k->n_params, derived_shared(p, k));
  memcpy(p->why, q.why, sizeof p->why);
  return ok;
}

/* Runs the derived kernel k: y = J'x (reverse = 1; x is over outputs, y over inputs) or y = Jx (x
** over inputs, y over outputs). Elements of y that k does not compute stay as they were. */
static inline int apply(problem *p, const fl_kad *k, int reverse, const double *x, double *y) {
  const slots in = find_slots(p, FL_KAD_INPUT), out = find_slots(p, FL_KAD_OUTPUT);
  const slots *from = reverse ? &out : &in, *to = reverse ? &in : &out;
  argument arg[MAX_ARGS] = {{0}};
  if (!bind_args(p, k, from, x, arg)) return 0;
  if (!run_derived(p, k, arg)) return free_args(arg, k->n_params), 0;
  for (int i = 0; i < k->n_params; i++) {
    const fl_kad_param *q = &k->params[i];
    const int result = reverse ? q->role == FL_KAD_GRAD || q->role == FL_KAD_GRAD_SCALAR
                                 || q->role == FL_KAD_WORK
                                 || (q->role == FL_KAD_COTANGENT && q->through)
                               : q->role == FL_KAD_TANGENT_RESULT;
    const int64_t at = result ? slot_at(to, q->param, q->leaf) : -1;
    for (int64_t e = 0; at >= 0 && e < arg[i].n; e++)
      y[at + e] = get(arg[i].type, arg[i].at + e * size_of(arg[i].type));
  }
  free_args(arg, k->n_params);
  return 1;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static inline double dot(const double *x, const double *y, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += x[i] * y[i];
  return s;
}

static inline uint64_t next_random(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  *s ^= *s << 17;
  return *s;
}
static inline double uniform(uint64_t *s) {
  return (double)(next_random(s) >> 11) / 9007199254740992.0 * 2 - 1;
}

/* Runs the kernel with its inputs at x + h v; y becomes the vector of all outputs. */
static inline int shifted(problem *p, const slots *in, const slots *out, const double *x,
                          const double *v, double h, double *y) {
  argument arg[MAX_ARGS];
  double *moved = calloc((size_t)in->total + 1, sizeof *moved);
  copy_args(p, arg);
  for (int64_t i = 0; i < in->total; i++) moved[i] = x[i] + h * v[i];
  write_slots(in, arg, moved);
  const int ok = run_args(p, p->f, arg, p->n, p->shared);
  read_slots(out, arg, y);
  free_args(arg, p->n);
  free(moved);
  return ok;
}

static inline int near(double a, double b, double scale, double tolerance) {
  return fabs(a - b) <= tolerance * (fabs(a) + fabs(b) + scale) || (isnan(a) && isnan(b));
}

/* Checks that the adjoint as two kernels (a gather, and the rest) computes the gradient g, which
** the adjoint as one kernel has computed; replaces g by the values of the two. */
static inline int check_parts(problem *p, const fl_kad *whole, const fl_kad_request *r,
                              const double *u, double *g, int64_t n) {
  const fl_kad_parts parts = fl_kad_gather(p->arena, p->f, whole, r);
  if (!parts.gather) return 1;
  for (int i = 0; parts.gather->positive && i < p->n; i++)
    if (parts.gather->positive[i] && get(p->arg[i].type, p->arg[i].at) <= 0) return 1;
  double *part = calloc((size_t)n + 1, sizeof *part), size = 0;
  int ok = apply(p, parts.gather, 1, u, part) && (!parts.rest || apply(p, parts.rest, 1, u, part));
  p->gathered += parts.gather->n_gather;
  for (int64_t i = 0; i < n; i++) size += isfinite(g[i]) ? fabs(g[i]) : 0;
  for (int64_t i = 0; i < n && ok; i++) {
    if (!near(g[i], part[i], size / (double)n, p->loose > 0 ? p->loose : 1e-11))
      ok = 0, snprintf(p->why, sizeof p->why, "gathered %lld: %.12g, by atomics %.12g",
                       (long long)i, part[i], g[i]);
    g[i] = part[i];
  }
  free(part);
  return ok;
}

/* The data of one direction of a check. in, out: where inputs and outputs lie in vectors. */
typedef struct probe {
  slots in, out;
  double *x, *v, *g;               /* over inputs: the point, the direction, J'u */
  double *u, *jv, *fd[2], *y[2];   /* over outputs: u, Jv, central differences with two steps,
                                   ** and the outputs at x + h v and x - h v */
} probe;

static inline int probe_open(probe *b, const problem *p) {
  *b = (probe){.in = find_slots(p, FL_KAD_INPUT), .out = find_slots(p, FL_KAD_OUTPUT)};
  double **over_in[] = {&b->x, &b->v, &b->g};
  double **over_out[] = {&b->u, &b->jv, &b->fd[0], &b->fd[1], &b->y[0], &b->y[1]};
  int ok = 1;
  for (int i = 0; i < 3; i++)
    ok &= (*over_in[i] = calloc((size_t)b->in.total + 1, sizeof(double))) != NULL;
  for (int i = 0; i < 6; i++)
    ok &= (*over_out[i] = calloc((size_t)b->out.total + 1, sizeof(double))) != NULL;
  if (ok) read_slots(&b->in, p->arg, b->x);
  return ok;
}

static inline void probe_close(probe *b) {
  double *all[] = {b->x, b->v, b->g, b->u, b->jv, b->fd[0], b->fd[1], b->y[0], b->y[1]};
  for (int i = 0; i < 9; i++) free(all[i]);
}

/* Central differences along v with a larger and a smaller step. The race check is off here: the
** kernel has passed it already. */
static inline int differences(problem *p, probe *b) {
  static const double step[2] = {1e-5, 2.5e-6};
  const int races = p->races;
  int ok = 1;
  p->races = 0;
  for (int k = 0; k < 2 && ok; k++) {
    const double h = step[k];
    ok = shifted(p, &b->in, &b->out, b->x, b->v, h, b->y[0]) &&
         shifted(p, &b->in, &b->out, b->x, b->v, -h, b->y[1]);
    for (int64_t i = 0; i < b->out.total; i++) b->fd[k][i] = (b->y[0][i] - b->y[1][i]) / (2 * h);
  }
  p->races = races;
  return ok;
}

/* 1 if <Jv, u> = <v, J'u>, and Jv equals the differences where these are reliable. *smooth is set
** to 0 where they are not: the differences of the two steps disagree. */
static inline int all_agree(problem *p, const probe *b, int *smooth) {
  const double *y = b->y[0], *near_step = b->fd[1];
  double size = 1e-3, terms = 0;
  for (int64_t i = 0; i < b->out.total; i++) size += fabs(b->jv[i] * b->u[i]) + 1e-4 * fabs(y[i]);
  for (int64_t i = 0; i < b->in.total; i++) terms += fabs(b->g[i] * b->v[i]);
  for (int64_t i = 0; i < b->out.total; i++)
    if (!near(b->fd[0][i], near_step[i], 1e-2 + 1e-2 * fabs(y[i]), 1e-4)) *smooth = 0;
  const double s = dot(b->jv, b->u, b->out.total), t = dot(b->g, b->v, b->in.total);
  if (!near(s, t, size + terms, p->loose > 0 ? p->loose : 1e-9))
    return snprintf(p->why, sizeof p->why, "<Jv,u> = %.12g, <v,J'u> = %.12g", s, t), 0;
  for (int64_t i = 0; i < b->out.total && *smooth && p->loose == 0; i++)
    if (!near(b->jv[i], near_step[i], 1e-2 + 1e-2 * fabs(y[i]) + 1e-6 * size, 1e-4))
      return snprintf(p->why, sizeof p->why, "output %lld: Jv = %.12g, differences %.12g",
                      (long long)i, b->jv[i], near_step[i]), 0;
  return 1;
}

/* Has the adjoint, with as much in global memory as can be there, or as half of its shared memory
** needs, the gradients g of the cotangents u as well? */
static inline int check_moved(problem *p, const fl_kad *vjp, const double *u, const double *g,
                              int64_t n) {
  const int64_t dynamic = (p->shared + 15) / 16 * 16;
  int ok = 1;
  for (int k = 0; k < 2 && ok; k++) {
    const int32_t excess = fl_kad_excess(vjp, dynamic, k * fl_kad_shared(vjp, dynamic) / 2);
    const fl_kad *moved = excess ? fl_kad_spill(p->arena, vjp, excess) : NULL;
    if (!moved) continue;
    double *y = calloc((size_t)n + 1, sizeof *y);
    ok = apply(p, moved, 1, u, y);
    for (int64_t i = 0; i < n && ok; i++)
      if (!near(y[i], g[i], 1, p->loose > 0 ? p->loose : 1e-9))
        ok = 0, snprintf(p->why, sizeof p->why, "input %lld: %.12g with arrays in global memory, "
                         "%.12g without", (long long)i, y[i], g[i]);
    free(y);
  }
  return ok;
}

/* Checks a kernel's derivatives. 1: all agree. 0: they do not, or a run failed; p->why says which.
** -1: the kernel is refused, for the reason p->why. -2: both modes agree, but differences of two
** step sizes disagree (not smooth here), so the derivatives could not be compared with them. */
static inline int check_derivatives(problem *p, int directions, uint64_t seed) {
  uint8_t want[MAX_ARGS];
  const fl_kad_request r = request_of(p, want);
  fl_kad *vjp = fl_kad_adjoint(p->arena, p->f, &r), *jvp = fl_kad_tangent(p->arena, p->f, &r);
  p->why[0] = 0;
  if (!vjp || !jvp) return snprintf(p->why, sizeof p->why, "no memory"), 0;
  if (!vjp->func) return snprintf(p->why, sizeof p->why, "%.380s", vjp->refusal), -1;
  if (!jvp->func) return snprintf(p->why, sizeof p->why, "%.380s", jvp->refusal), -1;
  probe b;
  int ok = probe_open(&b, p), smooth = 1;
  for (int t = 0; t < directions && ok; t++) {
    for (int64_t i = 0; i < b.in.total; i++) b.v[i] = uniform(&seed);
    for (int64_t i = 0; i < b.out.total; i++) b.u[i] = uniform(&seed);
    memset(b.g, 0, (size_t)(b.in.total + 1) * sizeof *b.g);
    ok = apply(p, vjp, 1, b.u, b.g) && apply(p, jvp, 0, b.v, b.jv) &&
         check_parts(p, vjp, &r, b.u, b.g, b.in.total)
         && check_moved(p, vjp, b.u, b.g, b.in.total)
         && differences(p, &b) && all_agree(p, &b, &smooth);
  }
  probe_close(&b);
  return ok && !smooth && p->loose == 0 ? -2 : ok;
}

/* Makes *to the problem of p's adjoint kernel (reverse = 1) or tangent kernel (reverse = 0). 0:
** there is none, for the reason p->why. */
static inline int derive_problem(problem *p, int reverse, uint64_t seed, problem *to) {
  uint8_t want[MAX_ARGS];
  const fl_kad_request r = request_of(p, want);
  fl_kad *k = reverse ? fl_kad_adjoint(p->arena, p->f, &r) : fl_kad_tangent(p->arena, p->f, &r);
  if (!k || !k->func)
    return snprintf(p->why, sizeof p->why, "%.380s", k ? k->refusal : "memory"), 0;
  const slots s = find_slots(p, reverse ? FL_KAD_OUTPUT : FL_KAD_INPUT);
  double *x = calloc((size_t)s.total + 1, sizeof *x);
  for (int64_t i = 0; i < s.total; i++) x[i] = uniform(&seed);
  *to = *p;
  to->f = k->func;
  to->n = k->n_params;
  to->shared = derived_shared(p, k);
  const int ok = bind_args(p, k, &s, x, to->arg);
  free(x);
  for (int i = 0; ok && i < to->n; i++) {
    const fl_kad_param *q = &k->params[i];
    const int input = q->param >= 0 ? p->arg[q->param].want & FL_KAD_INPUT : 0;
    switch (q->role) {
    case FL_KAD_ORIGINAL: case FL_KAD_SCRATCH: to->arg[i].want = input; break;
    case FL_KAD_RESULT: to->arg[i].want = input | FL_KAD_OUTPUT; break;
    case FL_KAD_TANGENT: case FL_KAD_TANGENT_SCALAR: case FL_KAD_TANGENT_ARRAY:
    case FL_KAD_COTANGENT: to->arg[i].want = FL_KAD_INPUT; break;
    case FL_KAD_GRAD:
      case FL_KAD_GRAD_SCALAR:
        to->arg[i].want = FL_KAD_OUTPUT | FL_KAD_FRESH;
        break;
    case FL_KAD_TANGENT_RESULT: case FL_KAD_WORK:
      to->arg[i].want = FL_KAD_INPUT | FL_KAD_OUTPUT;
      break;
    default: to->arg[i].want = 0;
    }
  }
  return ok;
}
#endif
