/*
** Joint ops: one node that is several operations at each point, as the step of an optimiser is.
** Each operation rounds as a separate node would, and kernels get the same instructions, so the
** bits are those of the nodes that tensor/update.c records where single operations are checked,
** saved or differentiated.
*/
#include "plan/planner.h"

/* Operands of a step: an input of the node, one of its scalars, or the result of a step before. A
** step of one operand names it twice. */
enum { X1, X2, X3, S0, S1, S2, STEPS };
#define R(i) (STEPS + (i))
enum { MOST_STEPS = 6 };
typedef struct step { uint8_t op, a, b; } step;
static const step mix[] = { { FL_OP_mul, X1, S0 }, { FL_OP_mul, X2, S1 },
                            { FL_OP_add, R(0), R(1) } };
static const step mix_square[] = { { FL_OP_mul, X1, S0 }, { FL_OP_mul, X2, X2 },
                                   { FL_OP_mul, R(1), S1 }, { FL_OP_add, R(0), R(2) } };
static const step adam[] = { { FL_OP_sqrt, X3, X3 }, { FL_OP_mul, R(0), S0 },
                             { FL_OP_add, R(1), S1 }, { FL_OP_div, X2, R(2) },
                             { FL_OP_mul, R(3), S2 }, { FL_OP_sub, X1, R(4) } };
#undef R

/* The steps of op and their number; 0: it is not a joint op. */
static int steps_of(int op, const step **at) {
  switch (op) {
    case FL_OP_mix: *at = mix; return sizeof mix / sizeof *mix;
    case FL_OP_mix_square: *at = mix_square; return sizeof mix_square / sizeof *mix_square;
    case FL_OP_adam: *at = adam; return sizeof adam / sizeof *adam;
    default: return 0;
  }
}

int fl_plan_joint_cost(int op) {
  const step *s;
  const int n = steps_of(op, &s);
  int cost = n;
  for (int i = 0; i < n; i++) cost += s[i].b >= S0 && s[i].b < STEPS;      /* scalars are second */
  return cost;
}

/* Emits operand 'which' of a step of cell t; v: what has been emitted of t, by operand, else -1. */
static int operand(fl_planner *P, int32_t g, int32_t t, int which, const fl_map *m, int depth,
                   int *v) {
  if (v[which] >= 0) return v[which];
  return v[which] = which < S0 ? fl_plan_read_input(P, g, t, which, m, depth)
                               : fl_plan_scalar(P, g, t, which - S0, P->cell.at[t].dtype);
}

int fl_plan_emit_joint(fl_planner *P, int32_t g, int32_t t, const fl_map *m, int depth) {
  const step *s;
  const int n = steps_of(P->cell.at[t].node->op, &s);
  const uint8_t dtype = P->cell.at[t].dtype;
  int v[STEPS + MOST_STEPS];
  for (int i = 0; i < STEPS + MOST_STEPS; i++) v[i] = -1;
  for (int i = 0; i < n; i++) {
    const int a = operand(P, g, t, s[i].a, m, depth, v),
              b = a < 0 ? a : operand(P, g, t, s[i].b, m, depth, v);
    if (b < 0) return b;
    const fl_instr x = { .code = FL_I_OP, .dtype = dtype, .from = dtype, .op = s[i].op,
                         .a = (uint16_t)a, .b = fl_ops[s[i].op].nin > 1 ? (uint16_t)b : 0 };
    v[STEPS + i] = i == n - 1 ? fl_plan_add(P, g, x, t, m)
                              : fl_plan_add(P, g, x, INT32_MIN, NULL);
    if (v[STEPS + i] < 0) return v[STEPS + i];
  }
  return v[STEPS + n - 1];
}
