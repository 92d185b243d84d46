/* Views of dynamic shared memory (views.h): which bytes each access reaches, and which two meet. */
#include "kernel/facts/views.h"
#include "kernel/facts/ranges.h"
#include <stdlib.h>
#include <string.h>

#define FAR (INT64_C(1) << 40)           /* an element outside of any memory */

typedef struct views {
  const fl_kfunc *f;
  fl_karena a;
  fl_kviewed *at;
  int32_t n, cap;
} views;

static int64_t near(int64_t e) { return e < -FAR ? -FAR : e > FAR ? FAR : e; }

static void see(void *arg, int32_t var, int32_t line, fl_kinterval index) {
  views *v = arg;
  const fl_kvar *x = &v->f->vars[var];
  const int64_t size = fl_kt_size(x->type);
  if (x->dynamic != 1) return;
  fl_kviewed *to = fl_karena_room(&v->a, v->at, v->n, &v->cap, sizeof *to);
  if (!to) return;
  v->at = to;
  to[v->n++] = (fl_kviewed){ .first = near(index.lo) * size,
                             .last = near(index.hi) * size + size - 1, .type = x->type,
                             .line = line ? line : x->line };
}

static int by_first(const void *x, const void *y) {
  const fl_kviewed *a = x, *b = y;
  return (a->first > b->first) - (a->first < b->first);
}

/* In the order of their first bytes each access is compared, for each other type, with the one
** before it that reaches furthest. */
static int are_apart(const views *v, fl_kviewed met[2]) {
  const fl_kviewed *furthest[FL_KT_COUNT] = { NULL };
  for (int32_t i = 0; i < v->n; i++) {
    const fl_kviewed *x = &v->at[i];
    for (int t = 0; t < FL_KT_COUNT; t++) {
      if (t == x->type || !furthest[t] || furthest[t]->last < x->first) continue;
      met[0] = *furthest[t];
      met[1] = *x;
      return 0;
    }
    if (!furthest[x->type] || furthest[x->type]->last < x->last) furthest[x->type] = x;
  }
  return 1;
}

int fl_kviews_apart(fl_mem *m, const fl_kfunc *f, const fl_kcover_launch *l, fl_kviewed met[2]) {
  views v = { .f = f };
  fl_karena_init(&v.a, m);
  const int seen = fl_kranges(m, f, l, see, &v) && !v.a.failed;
  if (v.n) qsort(v.at, (size_t)v.n, sizeof *v.at, by_first);
  const int apart = seen ? are_apart(&v, met) : -1;
  fl_karena_close(&v.a);
  return apart;
}
