/*
** Rows (text_row.c): what each sweep over a row computes, and what it keeps for later ones
** (text_keep.c), and a sweep's text (text_sweep.c). Private to these.
*/
#ifndef FL_CUDA_TEXT_ROW_H
#define FL_CUDA_TEXT_ROW_H
#include "cuda/text/text_form.h"

typedef struct sweep {
  int round;                     /* the reductions of this round are combined; -1: none */
  int stores;                    /* values of each element are stored */
  uint8_t need[FL_MAX_INSTR];    /* values computed */
  uint8_t keep[FL_MAX_INSTR];    /* values kept in registers (of a row that stays there), or held in
                                 ** shared memory */
} sweep;

typedef struct row_writer {
  text_writer *w;
  uint8_t all[FL_MAX_INSTR];     /* values needed at all */
  uint8_t cached[FL_MAX_INSTR];  /* kept or held by an earlier sweep */
  uint8_t early[FL_MAX_INSTR];   /* persist, once, across: loads done before the first sweep */
  int batch;                     /* vectors loaded before any is used */
  int held;                      /* bytes per element that are held */
} row_writer;

void fl_row_begin(row_writer *r, text_writer *w);
int fl_row_sweeps(const text_form *f);
/* Sweep p of 'count', with the values that it needs. */
sweep fl_row_sweep(const row_writer *r, int p, int count);
void fl_row_need(const row_writer *r, sweep *s);
/* Chooses the values that the sweep keeps, and marks them in 'cached'. */
void fl_row_choose(row_writer *r, sweep *s, int p, int count);
int fl_row_in_round(const row_writer *r, int v, int round);
int fl_row_store_level(const text_form *f, int s);
/* Does store s write a value at each point? (One of the rows' sums does not.) */
static inline int fl_row_is_full(const text_form *f, int s) {
  return fl_row_store_level(f, s) == 1 && !f->k->store[s].across;
}
int fl_row_has_full_stores(const text_form *f);
/* Bytes per element that the loads among the values 'need' read. */
int fl_row_loads(const text_form *f, const uint8_t *need);
/* Marks in 'late' the loads of 'need' that a sweep does itself: all but the early ones. */
void fl_row_late_loads(const row_writer *r, const uint8_t *need, uint8_t *late);
/* How many vectors of late loads are in flight at once. */
int fl_row_late_batch(const text_form *f);
/* fl_row_room: the elements of a row, rounded up to whole vectors of all lanes. fl_row_size: the
** bytes that an element of value v takes where it is kept. */
int fl_row_room(const text_form *f);
int fl_row_size(const text_form *f, int v);

/* text_row.c. fl_row_put_kept writes the values of the whole row (the kept level) that can be
** computed after 'round' rounds; fl_row_put_kept_stores the stores of such values;
** fl_row_put_sweeps 'count' sweeps. */
void fl_row_put_kept(row_writer *r, int round);
void fl_row_put_sweeps(row_writer *r, int count);
void fl_row_put_kept_stores(row_writer *r);

/* text_across.c. fl_row_across_early chooses the loads that are done before a row's first sweep;
** fl_row_across_plan plans the kernel; fl_row_across_bytes is its shared memory in bytes. */
void fl_row_across_early(row_writer *r);
void fl_row_across_plan(text_form *f);
int fl_row_across_bytes(text_form *f);
/* For loads that are requested ahead. fl_row_is_asked: is value v such a load? fl_row_put_asked
** writes the load of v from shared memory; fl_row_put_ahead writes the request of the next row,
** after the current one was read into registers. */
int fl_row_is_asked(const row_writer *r, int v);
void fl_row_put_asked(const row_writer *r, int v);
void fl_row_put_ahead(row_writer *r);
void fl_row_put_across(row_writer *r);

/* text_sweep.c. The type of an element's index in the row. */
const char *fl_row_index_type(const text_form *f);
/* Declares the registers, or the shared memory, of a value that a sweep keeps. */
void fl_row_put_room(const row_writer *r, int v);
/* Writes the loads of 'need', and what the sweep computes, for 'count' vectors; count 0: for the
** batch from jb on. before: the values that earlier sweeps have kept. */
void fl_row_put_loads(row_writer *r, const uint8_t *need, int count);
void fl_row_put_compute(row_writer *r, const sweep *s, const uint8_t *before, int count);

static inline const fl_instr *fl_row_instr(const text_writer *w, int v) {
  return &w->f->k->instr[v];
}
#endif
