/*
** What a planner (it turns recorded ops into kernels and copies) may get wrong, one small program
** each: the order of a write and of readers of the old value, copies for snapshots, results that
** are also intermediates, scalars that are not part of a plan's key, addresses of intermediates,
** index ranges that are part of the key. Each program must be right, and must be found wrong when
** it runs with the planted bug (FL_PLANT_*) of its kind.
*/
#include "base/hooks.h"
#include "engine/engine.h"
#include "tensor/build.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int passed, failed;
static const char *now = "";

#define CHECK(x) check((x) != 0, #x, __LINE__)
static void check(int ok, const char *text, int line) {
  if (ok) passed++; else failed++;
  if (!ok) printf("test_plan.c:%d: %s: %s\n", line, now, text);
}

enum { N = 6 };

static flame_context *open_with(int bug) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu"));
  if (c) {
    c->planted = (uint8_t)bug;
    c->budget = 1 << 20;
  }
  return c;
}

static flame_tensor *count(flame_context *c) {                  /* 1, 2, … N */
  float v[N];
  for (int i = 0; i < N; i++) v[i] = (float)(i + 1);
  return flame_from_data(c, FLAME_F32, 1, (int64_t[]){ N }, v);
}

static flame_tensor *free_first(flame_tensor *y, flame_tensor *x) {
  flame_free(x);
  return y;
}

static flame_tensor *times(flame_tensor *x, double k) {
  flame_tensor *n = flame_number(flame_context_of(x), k);
  return free_first(flame_mul(x, n), n);
}

static flame_tensor *plus(flame_tensor *x, double k) {
  flame_tensor *n = flame_number(flame_context_of(x), k);
  return free_first(flame_add(x, n), n);
}

/* 1 if x has the n values 'want'; evaluates and frees x. */
static int is(flame_tensor *x, const float *want, int n) {
  float got[64];
  if (!x || n > 64 || flame_numel(x) != n) return 0;
  const flame_status s = flame_read(x, got, sizeof got[0] * (size_t)n);
  int ok = s == FLAME_OK;
  for (int i = 0; ok && i < n; i++) ok = fabsf(got[i] - want[i]) < 1e-4f;
  flame_free(x);
  return ok;
}

/* r reads x's old value backwards and waits for a sum of it. The write to x must come after r. */
static int order_of_writes(flame_context *c) {
  flame_tensor *x = count(c), *back = flame_slice(x, 0, N - 1, N, -1), *sum = flame_sum_all(x);
  flame_tensor *r = flame_mul(back, sum), *w = plus(x, 10);
  flame_write(x, w);
  flame_tensor *all[] = { back, sum, w };
  for (int i = 0; i < 3; i++) flame_free(all[i]);
  const int ok = is(r, (float[]){ 126, 105, 84, 63, 42, 21 }, N);
  return is(x, (float[]){ 11, 12, 13, 14, 15, 16 }, N) && ok;
}

static int snapshots(flame_context *c) {
  flame_tensor *x = count(c), *old = flame_detach(x), *w = plus(x, 10);
  flame_write(x, w);
  flame_free(w);
  const int now_right = is(x, (float[]){ 11, 12, 13, 14, 15, 16 }, N);
  return is(old, (float[]){ 1, 2, 3, 4, 5, 6 }, N) && now_right;
}

/* y is held and z is computed from it: one evaluation must give both values. */
static int kept_values(flame_context *c) {
  flame_tensor *x = count(c), *y = times(x, 2), *z = plus(y, 1);
  int ok = flame_eval(c) == FLAME_OK && c->win.live == 0;
  ok = is(z, (float[]){ 3, 5, 7, 9, 11, 13 }, N) && ok;
  ok = is(y, (float[]){ 2, 4, 6, 8, 10, 12 }, N) && ok;
  flame_free(x);
  return ok;
}

static int scalars(flame_context *c) {
  flame_tensor *x = count(c);
  int ok = 1;
  for (int k = 1; k <= 3; k++) {
    flame_tensor *y = times(x, k);
    ok = is(y, (float[]){ 1.f * k, 2.f * k, 3.f * k, 4.f * k, 5.f * k, 6.f * k }, N) && ok;
  }
  flame_free(x);
  return ok && c->stats.plans == 1 && c->stats.hits == 2;
}

/* Two intermediates, the operands of a product, are in memory at once and must not overlap. */
static int addresses(flame_context *c) {
  flame_tensor *x = count(c), *p = plus(x, 1), *q = times(x, -1);
  flame_tensor *m = flame_reshape(p, 2, (int64_t[]){ 2, 3 }),
               *n = flame_reshape(q, 2, (int64_t[]){ 3, 2 });
  flame_tensor *y = flame_matmul(m, n);
  flame_tensor *all[] = { x, p, q, m, n };
  for (int i = 0; i < 5; i++) flame_free(all[i]);
  return is(y, (float[]){ -31, -40, -58, -76 }, 4);
}

/* Programs with the same ops and shapes that slice at another place are different plans. */
static int indexing(flame_context *c) {
  flame_tensor *x = count(c);
  int ok = 1;
  for (int k = 0; k < 3; k++) {
    flame_tensor *y = times(x, 2), *part = flame_slice(y, 0, k, 2, 1);
    flame_tensor *z = plus(part, 1);
    flame_free(y);
    flame_free(part);
    ok = is(z, (float[]){ 2.f * (float)k + 3, 2.f * (float)k + 5 }, 2) && ok;
  }
  flame_free(x);
  return ok;
}

/* Elements of x at the indices 'at', which are checked, times k. */
static flame_tensor *taken(flame_tensor *x, const flame_tensor *at, double k) {
  flame_context *c = flame_context_of(x);
  FL_ENTER(c);
  flame_tensor *y = fl_tensor_new(c, n_take_axis(x->node, 0, n_index(at->node, N, 0, "take")));
  FL_LEAVE(c);
  return free_first(times(y, k), y);
}

/* Index checks (FL_I_INDEX) of a plan must have higher numbers in later steps. Returns how many
** there are, or -1 if they do not. */
static int reports_ascend(const fl_plan *p) {
  int n = 0, last = -1;
  for (int32_t i = 0; i < p->nstep; i++) {
    int most = last;
    for (int32_t j = 0; p->step[i].kind == FL_S_KERNEL && j < p->step[i].count; j++) {
      const fl_kernel *k = &p->step[i].kernel[j];
      for (int v = 0; v < k->ninstr; v++) {
        if (k->instr[v].code != FL_I_INDEX) continue;
        if (k->instr[v].arg <= last) return -1;
        if (k->instr[v].arg > most) most = k->instr[v].arg;
        n++;
      }
    }
    last = most;
  }
  return n;
}

/* If several indices are wrong, the one that is checked in the earliest step must be reported, as
** on the CPU. Here the second take waits for a product, and the third joins the kernel of the
** first. */
static void reports_are_numbered_by_step(void) {
  flame_context *c = open_with(FL_PLANT_NONE);
  now = "reports are numbered in the order of the steps";
  const int64_t at[N] = { 1, 2, 3, 4, 5, 6 };
  flame_tensor *x = count(c), *ids = flame_from_data(c, FLAME_I64, 1, (int64_t[]){ N }, at);
  flame_tensor *a = taken(x, ids, 2), *square = flame_reshape(a, 2, (int64_t[]){ 1, N });
  flame_tensor *back = flame_reshape(a, 2, (int64_t[]){ N, 1 }), *m = flame_matmul(back, square);
  flame_tensor *row = flame_slice(m, 0, 0, 1, 1), *flat = flame_reshape(row, 1, (int64_t[]){ N });
  flame_tensor *few = flame_slice(ids, 0, 0, N / 2, 1);
  flame_tensor *second = taken(flat, few, 3), *third = taken(x, ids, 4);
  fl_program p = { 0 };
  CHECK(third && fl_program_make(c, 0, NULL, 0, &p) == FLAME_OK);
  fl_plan *plan = fl_plan_make(c, &p);
  CHECK(plan && reports_ascend(plan) >= 3);
  fl_plan_free(plan);
  fl_program_free(&p);
  flame_tensor *all[] = { x, ids, a, square, back, m, row, flat, few, second, third };
  for (int i = 0; i < 11; i++) flame_free(all[i]);
  flame_close(c);
}

/* Puts a plan of 100 bytes into the cache. When the cache is full, the least recently used plan is
** dropped, but never the newest or one that has just grown. */
static fl_plan *put_plan(fl_plans *t, uint64_t hash) {
  fl_plan *p = fl_zalloc(t->mem, sizeof *p);
  p->mem = t->mem;
  p->key = fl_zalloc(t->mem, p->key_bytes = 1);
  p->hash = hash;
  p->serial = (int64_t)hash;
  p->total_bytes = 100;
  fl_plans_put(t, p);
  return p;
}

static void the_plan_not_used_for_longest_goes(void) {
  flame_context *c = open_with(FL_PLANT_NONE);
  fl_plans t;
  fl_plan *p[6];
  now = "the cache of plans";
  CHECK(fl_plans_init(&t, &c->mem));
  t.limit = 400;
  for (int i = 0; i < 4; i++) p[i] = put_plan(&t, (uint64_t)i * 1024);     /* one chain */
  uint8_t key = 0;
  fl_program use = { .hash = 0, .key = { .at = (void *)&key, .n = 1 } };     /* p[0] */
  CHECK(fl_plans_find(&t, &use) == p[0]);
  p[4] = put_plan(&t, 4);
  CHECK(!fl_plans_has(&t, p[1], 1024) && fl_plans_has(&t, p[0], 0) && t.n == 4);
  p[2]->total_bytes = 200;                                   /* now the oldest, and it grows */
  fl_plans_resized(&t, p[2], 100);
  CHECK(fl_plans_has(&t, p[2], 2048) && !fl_plans_has(&t, p[3], 3072) && t.n == 3);
  p[5] = put_plan(&t, 5);
  CHECK(!fl_plans_has(&t, p[2], 2048) && fl_plans_has(&t, p[0], 0) && t.bytes == 300);
  t.limit = 50;
  p[1] = put_plan(&t, 6);
  CHECK(t.n == 1 && fl_plans_has(&t, p[1], 6));
  fl_plans_close(&t);
  flame_close(c);
}

typedef struct hazard { const char *name; int (*run)(flame_context *c); int bug; } hazard;
static const hazard hazards[] = {
  { "a write waits for readers of the old value", order_of_writes, FL_PLANT_ORDER },
  { "a snapshot is copied before the write", snapshots, FL_PLANT_COPY },
  { "a held value is kept", kept_values, FL_PLANT_DEAD },
  { "scalars are no part of the key", scalars, FL_PLANT_SCALAR },
  { "live intermediates have separate addresses", addresses, FL_PLANT_ADDRESS },
  { "indexing is part of the key", indexing, FL_PLANT_STALE }
};

int main(void) {
  for (size_t i = 0; i < sizeof hazards / sizeof *hazards; i++) {
    for (int planted = 0; planted <= 1; planted++) {
      flame_context *c = open_with(planted ? hazards[i].bug : FL_PLANT_NONE);
      now = hazards[i].name;
      if (planted) CHECK(!hazards[i].run(c));
      else CHECK(hazards[i].run(c));
      flame_close(c);
    }
  }
  reports_are_numbered_by_step();
  the_plan_not_used_for_longest_goes();
  printf("plan: %d passed, %d failed\n", passed, failed);
  return failed > 0;
}
