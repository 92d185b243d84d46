/*
** What exec.c (runs a section, which is a list of operations, on one tile) and units.c
** (which tiles, in which order) share. Register kinds and modes: see program.h.
*/
#ifndef FL_CPU_EXEC_H
#define FL_CPU_EXEC_H
#include "cpu/program/program.h"

typedef struct fl_tile {
  const fl_prog *g;
  void **reg, **line_at;          /* line_at (mode COL): what 'reg' was at the chunk's start */
  char *full, *row, *line, *state;       /* memory of FULL, ROW and LINE registers; of reductions */
  int64_t *pos;
  int64_t n1, n0, n2;             /* elements in this tile of FULL registers (one per point), of ROW
                                  ** ones (one per row) and of LINE ones (one per reduced index) */
  int64_t pt1, pt0, pt2;          /* first point in tile order, first kept index, first reduced
                                  ** index */
  int64_t rows, cols;             /* size of a tile: FULL = rows x cols */
  int64_t first;                  /* position in the row of the tile's first element */
  char *into;                     /* modes LONG, COL: the state of reductions that is computed */
  int64_t corner[FL_MAX_AXES];    /* mode MAP in boxes: coordinates of the first point */
  fl_walk box;
  fl_vm_fault *fault;
} fl_tile;

/* How a tile walks over an operand. at: the first point of the walk w; shift: elements from the
** operand's first element to the walk's origin. */
typedef struct fl_view { const fl_walk *w; int64_t at, shift; } fl_view;

void *fl_tile_own(const fl_tile *t, uint16_t v);        /* a register's own place */
fl_view fl_tile_view(fl_tile *t, int operand, int level);
char *fl_tile_origin(const fl_tile *t, int operand, const fl_view *v);
void fl_tile_run(fl_tile *t, const fl_section *s);
/* Writes the values of a reduction's states as a ROW register (one element per row): positions
** become 1-based, half types are rounded. */
void fl_tile_finish(const fl_prog *g, const fl_red *r, void *out, const void *val,
                    const int64_t *pos, int64_t n);
#endif
