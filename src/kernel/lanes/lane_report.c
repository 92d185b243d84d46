/* Reports of faults as messages. */
#include "kernel/lanes/lane_code.h"

typedef struct xyz { long long x, y, z; } xyz;

static xyz split(int64_t i, const uint32_t *size) {
  const int64_t r = i / size[0];
  return (xyz){ i % size[0], r % size[1], r / size[1] };
}

static void who(fl_text *t, const fl_lane_report *r, const fl_lane_place *p) {
  const xyz a = split(p->thread, r->block), b = split(p->block, r->grid);
  fl_text_printf(t, "thread (%lld, %lld, %lld) of block (%lld, %lld, %lld)", a.x, a.y, a.z, b.x,
                 b.y, b.z);
}

/* Writes "1024 of 'out' (1024 elements)" or "[3][40] of 'tile' (32 x 33)". If the flat index of an
** array of several dimensions is out of range, so is the first of its indices. */
static void element(fl_text *t, const fl_lane_report *r) {
  if (r->rank < 2) {
    fl_text_printf(t, "%lld of '%s' (%lld element%s)", (long long)r->index, r->name,
                   (long long)r->size, FL_S(r->size));
    return;
  }
  int64_t at[FL_K_MAX_RANK], rest = r->index;
  for (int k = r->rank - 1; k > 0; k--) {
    at[k] = rest % r->dims[k];
    rest /= r->dims[k];
    if (at[k] < 0) { at[k] += r->dims[k]; rest--; }
  }
  at[0] = rest;
  for (int k = 0; k < r->rank; k++) fl_text_printf(t, "[%lld]", (long long)at[k]);
  fl_text_printf(t, " of '%s' (", r->name);
  for (int k = 0; k < r->rank; k++)
    fl_text_printf(t, "%s%lld", k ? " x " : "", (long long)r->dims[k]);
  fl_text_puts(t, ")");
}

static const char *deed(const fl_lane_place *p, int past) {
  if (p->atomic) return past ? "changed it atomically" : "atomic change";
  if (p->write) return past ? "wrote it" : "write";
  return past ? "read it" : "read";
}

static void raced(fl_text *t, const fl_lane_report *r) {
  fl_text_printf(t, "race: %s of index ", deed(&r->at, 0));
  element(t, r);
  fl_text_puts(t, " by ");
  who(t, r, &r->at);
  fl_text_puts(t, ", but ");
  who(t, r, &r->other);
  fl_text_printf(t, " %s at line %d, with no barrier in between", deed(&r->other, 1),
                 (int)r->other.line);
}

static void lost_lane(fl_text *t, const fl_lane_report *r) {
  who(t, r, &r->at);
  if (r->other.thread == r->at.thread) fl_text_puts(t, " is not in the mask that it gives");
  else if (r->other.thread >= (int64_t)r->block[0] * r->block[1] * r->block[2])
    fl_text_puts(t, " wants the value of a lane beyond the end of the block");
  else {
    fl_text_puts(t, " needs ");
    who(t, r, &r->other);
    fl_text_puts(t, ", which is not there");
  }
}

void fl_lane_message(const fl_lane_report *r, fl_text *t) {
  if (!r->kind) return;
  fl_text_printf(t, "kernel '%s', line %d: ", r->kernel, (int)r->at.line);
  switch (r->kind) {
    case FL_LANE_INDEX: fl_text_puts(t, "index "); element(t, r); fl_text_puts(t, " by "); break;
    case FL_LANE_RACED: raced(t, r); return;
    case FL_LANE_UNSET:
      if (r->index < 0) fl_text_printf(t, "variable '%s' has no value yet, read by ", r->name);
      else {
        fl_text_puts(t, "uninitialised: index ");
        element(t, r);
        fl_text_puts(t, " is read before it is written, by ");
      }
      break;
    case FL_LANE_BARRIER:
      fl_text_printf(t, "%s is not reached by all threads: ",
                     r->name ? r->name : "__syncthreads()");
      who(t, r, &r->at);
      fl_text_puts(t, " is there, ");
      who(t, r, &r->other);
      fl_text_puts(t, " is not");
      return;
    case FL_LANE_DIVISION: fl_text_puts(t, "integer division by zero in "); break;
    case FL_LANE_ASSERT: fl_text_printf(t, "assert(%s) failed in ", r->name); break;
    case FL_LANE_ALIGN:
      fl_text_printf(t, "misaligned address: %s, this one at byte %lld, in ", r->name,
                     (long long)r->index);
      break;
    case FL_LANE_LANE: lost_lane(t, r); return;
    case FL_LANE_STEPS: fl_text_puts(t, "the step limit is reached in a loop by "); break;
    default: fl_text_puts(t, "stopped in "); break;
  }
  who(t, r, &r->at);
}
