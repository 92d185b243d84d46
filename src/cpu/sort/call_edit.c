/*
** Distances of rows of ids in insertions, deletions and substitutions (Levenshtein): for each pair,
** one row of the table of distances is kept and replaced row by row. A pair is one unit.
*/
#include "cpu/state/state.h"
#include <stdio.h>

typedef struct pairs {
  const int64_t *x, *y, *x_length, *y_length;
  int64_t *out, *row, n, m;       /* row: m + 1 numbers per worker */
  const atomic_int *stop;
} pairs;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Replaces a row of the table by the next one, for element v of x. */
static void next_row(int64_t *row, int64_t v, const int64_t *y, int64_t m) {
  int64_t before = row[0]++;
  for (int64_t j = 0; j < m; j++) {
    const int64_t above = row[j + 1], changed = before + (v != y[j]);
    row[j + 1] = least(changed, least(above, row[j]) + 1);
    before = above;
  }
}

static void pair_unit(void *arg, int64_t unit, int worker) {
  const pairs *p = arg;
  const int64_t *x = p->x + unit * p->n, m = p->y_length[unit];
  int64_t *row = p->row + worker * (p->m + 1);
  for (int64_t j = 0; j <= m; j++) row[j] = j;
  for (int64_t i = 0; i < p->x_length[unit] && !atomic_load(p->stop); i++)
    next_row(row, x[i], p->y + unit * p->m, m);
  p->out[unit] = row[m];
}

int64_t fl_cpu_scratch_edit_distance(const fl_call *call, int workers) {
  return (int64_t)sizeof(int64_t) * workers * (call->p[2] + 1);
}

/* The index of the first element of length[] that is no length of a row (0 … most); 'rows' if there
** is none. */
static int64_t first_wrong(const int64_t *length, int64_t rows, int64_t most) {
  int64_t i = 0;
  while (i < rows && length[i] >= 0 && length[i] <= most) i++;
  return i;
}

flame_status fl_cpu_call_edit_distance(fl_device *d, const fl_call_run *r) {
  fl_cpu *cpu = d->state;
  const int64_t *size = r->call->p;
  pairs p = { r->in[0], r->in[1], r->in[2], r->in[3], r->out, r->scratch, size[1], size[2],
              cpu->stop };
  for (int side = 0; side < 2; side++) {
    const int64_t *length = side ? p.y_length : p.x_length;
    const int64_t at = first_wrong(length, size[0], size[1 + side]);
    if (at == size[0]) continue;
    snprintf(r->fault, 200, "%s_lengths[%lld] is %lld, need 0 to %lld", side ? "y" : "x",
             (long long)at + 1, (long long)length[at], (long long)size[1 + side]);
    return FLAME_OK;
  }
  fl_threads_run(cpu->pool, size[0], pair_unit, &p, cpu->stop);
  return FLAME_OK;
}
