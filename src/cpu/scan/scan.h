/* The loops of the scans, one table per instruction set (vm_scan.h), all giving the same bits. */
#ifndef FL_CPU_SCAN_H
#define FL_CPU_SCAN_H
#include "tensor/dtype.h"

enum { FL_SCAN_COLUMNS = 128 };       /* most lanes of a walk across */
enum { FL_SCAN_SUM, FL_SCAN_PRODUCT, FL_SCAN_LSE, FL_SCAN_MAX, FL_SCAN_MIN, FL_SCAN_LINE,
       FL_SCAN_TAKE, FL_SCAN_KINDS };

/* State of a log-sum-exp: the sum so far is s times e to the power m. */
typedef struct fl_scan_lse { double m, s; } fl_scan_lse;

/* FL_SCAN_TAKE stores the elements of x at the positions x2 (i64), which are those of its running
** extremes. */
/* A walk along 'lanes' lanes, 'lane' elements apart, in n steps of 'step' elements; step < 0 walks
** backwards. across: lanes are neighbours. acc: a state for each lane, or (same) one for all lanes,
** which is not meaningful afterwards; MAX, MIN and TAKE need none and go forwards. */
typedef struct fl_scan_walk {
  const void *x, *x2;
  void *y;
  int64_t n, step, lanes, lane;
  int across, same;
  void *acc;
} fl_scan_walk;

typedef void (*fl_scan_fn)(const fl_scan_walk *w);
typedef struct fl_scan_loops {
  fl_scan_fn walk[FLAME_DTYPE_COUNT][FL_SCAN_KINDS];
  void (*block[FLAME_DTYPE_COUNT])(const void *x, int64_t n, void *sum);      /* a state of SUM */
} fl_scan_loops;

extern const fl_scan_loops fl_scan_base;
#if defined(__x86_64__)
extern const fl_scan_loops fl_scan_avx2, fl_scan_avx512;
#endif
#endif
