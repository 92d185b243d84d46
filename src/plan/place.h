/*
** Placement, shared by its files: place.c (groups, what joins one, all cells), pieces.c (what is
** joined along an axis), place_step.c (steps that are not expressions).
**
** Functions that place a cell return 1 when it is done, 0 when the cell in *first must be placed
** before it, and -1 when memory is out.
*/
#ifndef FL_PLAN_PLACE_H
#define FL_PLAN_PLACE_H
#include "plan/planner.h"

/* The state of a group before an expression is emitted into it, to which fl_place_cut returns after
** a refusal. */
typedef struct fl_place_was {
  int64_t instr, access, scalar, deps, fault;
  uint8_t faulty, full, kind;
  uint32_t red;
} fl_place_was;
fl_place_was fl_place_mark(const fl_planner *P, const fl_group *G);
void fl_place_cut(fl_planner *P, fl_group *G, const fl_place_was *was);

/* The sizes of 's' that are not 1, as dims of a group. Returns how many. */
int fl_place_space(const fl_layout *s, int64_t size[FL_MAX_AXES]);
/* Where the newest group is of those whose space may be this one. */
int32_t *fl_place_bin(fl_planner *P, int nd, const int64_t *size);
/* Makes an empty group. It is not among the groups of its space (fl_place_bin) before fl_place_own
** enters it. -1: no memory. */
int32_t fl_place_group(fl_planner *P, int kind, int nd, const int64_t *size);
/* Removes the newest group, and the fault sites that its expression added. */
void fl_place_drop(fl_planner *P, const fl_place_was *was);
/* Sets the group's stage; groups that it reads from may not move to that stage or later. */
void fl_place_commit(fl_planner *P, int32_t g, int32_t stage);
int fl_place_store(fl_planner *P, int32_t g, fl_ref ref, int dtype, int value, const fl_map *m);
/* Can the group store at each point (level 1) or once per row (level 0)? */
int fl_place_takes(const fl_planner *P, const fl_group *G, int level);

/* fl_place_own places cell t, or its piece 'piece' (-1: the cell), in a new group. fl_place_try
** places it in group g if the two share a load or a value and g's stage allows it: then 1, else 0.
** n: number of pieces from 'piece' on, all or none are placed; 1 for a cell. */
int fl_place_own(fl_planner *P, int32_t t, int piece, const fl_layout *space, int32_t *first);
int fl_place_try(fl_planner *P, int32_t g, int32_t t, int piece, int n);
/* Like fl_place_try, but fl_place_near in one of the k groups near[], and fl_place_beside in one of
** the newest groups of the cell's space. */
int fl_place_near(fl_planner *P, int32_t t, int piece, int n, const int32_t *near, int k);
int fl_place_beside(fl_planner *P, int32_t t, int piece, int n, const fl_layout *space);

/* The dims of group G that reduction n reduces, if G's space is that of the input 'in', perhaps
** divided into dims in another way; 0: it is not. */
uint32_t fl_place_reduced_here(const fl_group *G, const fl_node *n, const fl_layout *in);
/* The map of the results of a reduction over 'red': row-major over the kept dims. */
fl_map fl_place_results_of(const fl_group *G, uint32_t red);
/* Reads the input of reduction n at each point of the group's space, through map m; for rows of no
** elements it reads nothing. */
int fl_place_pull_row(fl_planner *P, int32_t g, const fl_node *n, const fl_map *m);
/* Would the cell make the group too large? */
int fl_place_crowds(const fl_group *G, const fl_place_was *was, int reduces);

/* across.c. Places cell t, a sum over the rows of a group that has what it needs: 1; 0: there is no
** such group; -1: no memory. */
int fl_place_across(fl_planner *P, int32_t t);
/* Is the group still small enough for the sums over its rows, if it has any? */
int fl_place_across_fits(const fl_group *G);

/* raise.c. Enters g into the lists of readers of the groups that it reads from. */
void fl_raise_note(fl_planner *P, int32_t g);
/* Can g move to 'stage', if the groups that read from it move to later stages? If so, moves them
** all. */
int fl_raise(fl_planner *P, int32_t g, int32_t stage);

/* pieces.c. Emits a piece as an expression of group g: an instruction id or a refusal
** (FL_EMIT_*). */
int fl_piece_join(fl_planner *P, int32_t g, int32_t t, int piece);
int fl_place_pieces(fl_planner *P, int32_t t, int32_t *first);

/* place_step.c */
int fl_place_matmul(fl_planner *P, int32_t t, int32_t *first);
int fl_place_call(fl_planner *P, int32_t t, int32_t *first);
int fl_place_setslice(fl_planner *P, int32_t t, int32_t *first);
int fl_place_scatter(fl_planner *P, int32_t t, int32_t *first);
#endif
