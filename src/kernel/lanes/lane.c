/*
** Statements to lane code, and the life of fl_lane_code. Control flow: a construct in which lanes
** diverge (lane_shape.c) saves the mask at its start and restores it at its end; lanes that leave
** it (BREAK, CONTINUE, LEAVE, RETURN) are removed from the saved masks of all constructs that they
** leave, and where no lane is left the code continues at the next place that restores a mask (the
** 'restore' of the construct). Other constructs are plain jumps.
**
** Masks of a masked IF: m (all), m + 1 (else). LOOP: m (at entry), m + 1 (this iteration). BLOCK:
** m.
*/
#include "kernel/lanes/lane_build.h"
#include "base/hash.h"
#include "kernel/facts/guess.h"
#include "kernel/tree/verify.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct fl_lane_place_ctx {
  struct fl_lane_place_ctx *outer;
  const fl_kstmt *stmt;
  int flags, mask;                  /* FL_SHAPE_…; the first of its masks, -1: it has none */
  int32_t restore, exit, next;      /* lists of jumps whose targets are not known yet, linked
                                    ** through ins.x up to -1: to where a mask is restored, to the
                                    ** end of the construct, to the loop's step */
} around;

static void block(fl_lane_builder *b, const fl_kblock *body);

/* ---- jumps --------------------------------------------------------------------------- */

static int64_t here(const fl_lane_builder *b) { return b->code->ins.n; }

/* Emits a jump that is added to a list; land() lets those of the list jump to here. */
static fl_lane_ins *jump(fl_lane_builder *b, int op, int32_t *chain) {
  fl_lane_ins *p = fl_lane_emit(b, op);
  p->x = *chain;
  *chain = (int32_t)here(b) - 1;
  return p;
}

static void land(fl_lane_builder *b, int32_t *chain) {
  for (int32_t at = *chain; at >= 0 && !b->failed;) {
    const int32_t next = b->code->ins.at[at].x;
    b->code->ins.at[at].x = (int32_t)here(b);
    at = next;
  }
  *chain = -1;
}

/* The list of jumps to where the nearest construct restores a mask, or to the end of the code. */
static int32_t *restore_of(around *a) {
  while (a->outer && !(a->flags & (FL_SHAPE_MASKED | FL_SHAPE_CONTINUE))) a = a->outer;
  return &a->restore;
}

/* Restores a mask; if it is empty, it is a jump of the list. */
static void back(fl_lane_builder *b, int mask, int32_t *chain) {
  jump(b, FL_LI_BACK, chain)->m = mask;
}

static void with_mask(fl_lane_builder *b, int op, int mask) { fl_lane_emit(b, op)->m = mask; }

/* Removes the current lanes from all masks from the innermost construct up to 'end' (exclusive). */
static void remove_lanes(fl_lane_builder *b, const around *end) {
  for (around *a = b->around; a != end; a = a->outer) {
    if (!a->stmt || !(a->flags & (FL_SHAPE_MASKED | FL_SHAPE_CONTINUE))) continue;
    if (a->flags & FL_SHAPE_MASKED) with_mask(b, FL_LI_REMOVE, a->mask);
    if (a->stmt->kind == FL_KS_LOOP) with_mask(b, FL_LI_REMOVE, a->mask + 1);
  }
}

/* ---- what statements change ---------------------------------------------------------- */

/* The contents of var may have changed, and those of arrays that may overlap it. */
static void touch(fl_lane_builder *b, int var) {
  const fl_kvar *v = b->f->vars;
  for (int k = 0; k < b->f->n_vars; k++)
    if (k == var || (v[var].kind != FL_KV_ARRAY && v[k].kind == v[var].kind))
      b->var_memory[k] = ++b->clock;
}

static void touch_all(fl_lane_builder *b) {
  for (int k = 0; k < b->f->n_vars; k++)
    if (b->f->vars[k].kind == FL_KV_SHARED || b->f->vars[k].kind == FL_KV_POINTER)
      b->var_memory[k] = ++b->clock;
}

static void change(fl_lane_builder *b, int var) {
  const int32_t reg = b->var_reg[var];
  if (reg >= 0) b->version.at[reg] = ++b->clock;
}

/* Forgets values that a statement changes. Run over a loop's body before it and after it, and over
** blocks that lanes may have left. */
static int change_stmt(void *arg, fl_kstmt *s) {
  fl_lane_builder *b = arg;
  if (s->kind == FL_KS_ASSIGN) change(b, s->var);
  if (s->result >= 0) change(b, s->result);
  if (fl_kwrites(s)) touch(b, s->var);
  if (s->kind == FL_KS_DECL && b->f->vars[s->var].kind == FL_KV_ARRAY) touch(b, s->var);
  if (s->kind == FL_KS_BARRIER) touch_all(b);
  return 1;
}
static void change_in(fl_lane_builder *b, const fl_kblock *body) {
  const fl_kvisitor v = { change_stmt, NULL, b };
  fl_kwalk_block(&v, *body);
}

static void is_set(fl_lane_builder *b, int var) {
  if (b->var_track[var] >= 0) with_mask(b, FL_LI_SET, b->var_track[var]);
}

/* ---- plain statements ---------------------------------------------------------------- */

static void assign(fl_lane_builder *b, const fl_kstmt *s, int flags) {
  const int64_t start = here(b);
  const int32_t reg = fl_lane_expr(b, s->x[0]);
  if (b->failed) return;
  fl_lane_assign(b, b->var_reg[s->var], reg, (flags & FL_SHAPE_BLEND) != 0, start);
  is_set(b, s->var);
}

static void store(fl_lane_builder *b, const fl_kstmt *s) {
  int32_t info;
  const fl_kvar *v = &b->f->vars[s->var];
  const int32_t index = fl_lane_index(b, s->x[0], &info);
  int32_t value;
  if (s->accumulate) {
    const int type = s->x[1]->type;
    const int32_t old = fl_lane_load(b, s->var, index, info, s->line, -1);
    const int32_t more = fl_lane_expr(b, s->x[1]);
    if (b->failed) return;
    value = fl_lane_binary(b, FL_KO_ADD, type, fl_lane_cast(b, old, v->type, type), more);
    value = fl_lane_cast(b, value, type, v->type);
  } else {
    value = fl_lane_expr(b, s->x[1]);
  }
  const int uniform = info < 0 && v->kind != FL_KV_ARRAY && !b->failed && fl_lane_uniform(b, value);
  if (!uniform) value = fl_lane_splat(b, value);
  fl_lane_ins *p = fl_lane_emit_on(b, FL_LI_STORE, -1, index, value, -1);
  p->x = info;
  p->var = s->var;
  p->type = v->type;
  p->once = (uint8_t)uniform;
  touch(b, s->var);
}

/* Copies the result of an atomic, shuffle or vote from register reg to its variable. */
static void result(fl_lane_builder *b, const fl_kstmt *s, int flags, int32_t reg) {
  if (s->result < 0 || b->failed) return;
  fl_lane_assign(b, b->var_reg[s->result], reg, (flags & FL_SHAPE_BLEND) != 0, here(b));
  is_set(b, s->result);
}

static void atomic(fl_lane_builder *b, const fl_kstmt *s, int flags) {
  const fl_kvar *v = &b->f->vars[s->var];
  int32_t info;
  const int32_t index = fl_lane_index(b, s->x[0], &info);
  const int32_t value = fl_lane_vector(b, s->x[1]);
  const int32_t other = s->op == FL_KA_CAS ? fl_lane_vector(b, s->x[2]) : -1;
  const int type = s->as ? s->as : v->type, wide = fl_lane_wide(fl_lane_class_of(type));
  const int32_t out = s->result >= 0 ? fl_lane_reg_new(b, 0, wide, 1) : -1;
  fl_lane_ins *p = fl_lane_emit_on(b, FL_LI_ATOMIC, out, index, value, other);
  p->x = info;
  p->sub = s->op;
  p->var = s->var;
  p->type = (uint8_t)type;
  p->wide = (uint8_t)wide;
  touch(b, s->var);
  result(b, s, flags, out);
}

static void shuffle(fl_lane_builder *b, const fl_kstmt *s, int flags) {
  const int wide = fl_lane_wide(fl_lane_class_of(s->x[1]->type));
  const int32_t mask = fl_lane_vector(b, s->x[0]), value = fl_lane_vector(b, s->x[1]);
  const int32_t lane = fl_lane_vector(b, s->x[2]), width = fl_lane_vector(b, s->x[3]);
  const int32_t out = fl_lane_reg_new(b, 0, wide, 1);
  fl_lane_ins *p = fl_lane_emit_on(b, FL_LI_SHUFFLE, out, mask, value, lane);
  p->m = width;
  p->sub = s->op;
  p->wide = (uint8_t)wide;
  result(b, s, flags, out);
}

static void vote(fl_lane_builder *b, const fl_kstmt *s, int flags) {
  const int32_t mask = s->x[0] ? fl_lane_vector(b, s->x[0]) : -1;
  const int32_t value = s->x[1] ? fl_lane_vector(b, s->x[1]) : -1;
  const int32_t out = fl_lane_reg_new(b, 0, 0, 1);
  fl_lane_emit_on(b, FL_LI_VOTE, out, mask, value, -1)->sub = s->op;
  result(b, s, flags, out);
}

static void barrier(fl_lane_builder *b, const fl_kstmt *s) {
  const int32_t mask = s->x[0] ? fl_lane_vector(b, s->x[0]) : -1;
  if (s->op == FL_KBAR_FENCE) { b->code->fences = 1; return; }
  fl_lane_ins *p = fl_lane_emit(b, s->mode ? FL_LI_GRID : FL_LI_BARRIER);
  p->sub = s->op == FL_KBAR_HERE ? FL_KBAR_WARP : s->op;
  p->a = mask;
  touch_all(b);
}

static int32_t text(fl_lane_builder *b, const fl_kstmt *s) {
  const fl_kstmt **t = FL_PUSH(b->mem, &b->code->texts);
  if (!t) return b->failed = 1, 0;
  *t = s;
  return (int32_t)b->code->texts.n - 1;
}

static void print(fl_lane_builder *b, const fl_kstmt *s) {
  int32_t regs[64];
  const int n = s->n_args < 64 ? s->n_args : 64;
  for (int k = 0; k < n; k++) regs[k] = fl_lane_expr(b, s->args[k]);
  fl_lane_ins *p = fl_lane_emit(b, FL_LI_PRINTF);
  p->m = (int32_t)b->code->operands.n;
  p->a = -1 - n;                                       /* how many: not a register */
  p->x = text(b, s);
  for (int k = 0; k < n; k++) {
    int32_t *o = FL_PUSH(b->mem, &b->code->operands);
    if (o) *o = regs[k];
    else b->failed = 1;
  }
}

static void check_true(fl_lane_builder *b, const fl_kstmt *s) {
  const int32_t reg = fl_lane_vector(b, s->x[0]),
                byte = s->x[1] ? fl_lane_vector(b, s->x[1]) : -1;
  fl_lane_emit_on(b, FL_LI_ASSERT, -1, reg, byte, -1)->x = text(b, s);
}

/* ---- control flow -------------------------------------------------------------------- */

static void enter(fl_lane_builder *b, around *a, const fl_kstmt *s, int flags) {
  const int masked = flags & (FL_SHAPE_MASKED | FL_SHAPE_CONTINUE);
  *a = (around){ .outer = b->around, .stmt = s, .flags = flags, .restore = -1, .exit = -1,
                 .next = -1 };
  a->mask = masked ? fl_lane_masks_new(b) : -1;
  b->around = a;
}

static void leave(fl_lane_builder *b, around *a, int depth, int64_t known) {
  b->around = a->outer;
  b->mask_depth = depth;
  if (b->known.n > known) b->known.n = known;
}

static void branch(fl_lane_builder *b, const fl_kstmt *s, int flags) {
  const int32_t cond = fl_lane_expr(b, s->x[0]);
  const int depth = b->mask_depth, has_else = s->other.first != NULL;
  const int64_t known = b->known.n;
  around a;
  enter(b, &a, s, flags);
  if (flags & FL_SHAPE_MASKED) {
    fl_lane_ins *p = jump(b, FL_LI_IF, &a.restore);
    p->a = cond;
    p->m = a.mask;
    p->sub = (uint8_t)has_else;
    block(b, &s->body);
    land(b, &a.restore);
    b->known.n = known;
    if (has_else) {
      back(b, a.mask + 1, &a.restore);
      block(b, &s->other);
      land(b, &a.restore);
    }
    leave(b, &a, depth, known);
    back(b, a.mask, restore_of(b->around));
  } else {
    jump(b, FL_LI_UNLESS, &a.next)->a = cond;
    block(b, &s->body);
    b->known.n = known;
    if (has_else) jump(b, FL_LI_JUMP, &a.exit);
    land(b, &a.next);
    block(b, &s->other);
    land(b, &a.exit);
    leave(b, &a, depth, known);
  }
}

/* Emits the test of a loop: lanes for which the condition holds continue; if there are none, it
** jumps to the loop's end. */
static void loop_test(fl_lane_builder *b, around *a, const fl_kstmt *s) {
  if (!s->x[0]) return;
  const int32_t cond = fl_lane_expr(b, s->x[0]);
  if (b->failed) return;
  jump(b, fl_lane_uniform(b, cond) ? FL_LI_UNLESS : FL_LI_AND, &a->exit)->a = cond;
}

static void loop(fl_lane_builder *b, const fl_kstmt *s, int flags) {
  const int depth = b->mask_depth, masked = flags & FL_SHAPE_MASKED;
  const int rounds = flags & (FL_SHAPE_MASKED | FL_SHAPE_CONTINUE);
  around a;
  enter(b, &a, s, flags);
  if (masked) with_mask(b, FL_LI_SAVE, a.mask);
  change_in(b, &s->body);
  change_in(b, &s->other);
  const int64_t known = b->known.n, head = here(b);
  const int line = b->line;
  if (!s->post) loop_test(b, &a, s);
  if (rounds) with_mask(b, FL_LI_SAVE, a.mask + 1);
  block(b, &s->body);
  land(b, &a.restore);
  land(b, &a.next);
  b->known.n = known;
  change_in(b, &s->body);
  /* when no lane is left in an iteration, lanes that left the loop continue at its end; if the loop
  ** has no separate mask, all lanes have returned */
  if (rounds) back(b, a.mask + 1, masked ? &a.exit : restore_of(a.outer));
  block(b, &s->other);
  b->line = line;
  if (s->post) loop_test(b, &a, s);
  fl_lane_emit(b, FL_LI_LOOP)->x = (int32_t)head;
  land(b, &a.restore);
  land(b, &a.exit);
  leave(b, &a, depth, known);
  change_in(b, &s->body);
  change_in(b, &s->other);
  if (masked) back(b, a.mask, restore_of(b->around));
}

static void labelled(fl_lane_builder *b, const fl_kstmt *s, int flags) {
  const int depth = b->mask_depth;
  const int64_t known = b->known.n;
  around a;
  enter(b, &a, s, flags);
  if (flags & FL_SHAPE_MASKED) with_mask(b, FL_LI_SAVE, a.mask);
  block(b, &s->body);
  land(b, &a.restore);
  land(b, &a.exit);
  leave(b, &a, depth, known);
  change_in(b, &s->body);
  if (flags & FL_SHAPE_MASKED) back(b, a.mask, restore_of(b->around));
}

/* Emits BREAK, CONTINUE and LEAVE: a jump if all lanes of the construct do the same; otherwise the
** active lanes are removed from the masks. */
static void part(fl_lane_builder *b, const fl_kstmt *s) {
  around *a = b->around;
  while (a->stmt && !(s->kind == FL_KS_LEAVE
                      ? a->stmt->kind == FL_KS_BLOCK && a->stmt->label == s->label
                      : a->stmt->kind == FL_KS_LOOP)) a = a->outer;
  if (!a->stmt) return;
  const int mask = FL_SHAPE_MASKED | (s->kind == FL_KS_CONTINUE ? FL_SHAPE_CONTINUE : 0);
  if (!(a->flags & mask)) {
    jump(b, FL_LI_JUMP, s->kind == FL_KS_CONTINUE ? &a->next : &a->exit);
    return;
  }
  remove_lanes(b, a);
  if (s->kind == FL_KS_BREAK) with_mask(b, FL_LI_REMOVE, a->mask + 1);
  jump(b, FL_LI_JUMP, restore_of(b->around));
}

static void done(fl_lane_builder *b) {
  remove_lanes(b, NULL);
  jump(b, FL_LI_RETURN, restore_of(b->around));
}

static void declare(fl_lane_builder *b, const fl_kstmt *s, int flags) {
  const int kind = b->f->vars[s->var].kind;
  if (kind == FL_KV_LOCAL && (flags & FL_SHAPE_TRACK)) {
    if (b->var_track[s->var] < 0) b->var_track[s->var] = b->code->n_tracks++;
  } else if (kind != FL_KV_ARRAY) {
    is_set(b, s->var);           /* another DECL may have given the variable flags that tell whether
                                 ** it is set; it counts as set from here on */
    return;
  }
  fl_lane_ins *p = fl_lane_emit(b, FL_LI_BEGIN);
  p->var = s->var;
  p->m = b->var_track[s->var];
}

static void statement(fl_lane_builder *b, const fl_kstmt *s) {
  if (b->failed) return;
  const int flags = b->shape.flags[b->stmt++];
  if (s->line) b->line = s->line;
  switch (s->kind) {
    case FL_KS_DECL: declare(b, s, flags); break;
    case FL_KS_ASSIGN: assign(b, s, flags); break;
    case FL_KS_STORE: store(b, s); break;
    case FL_KS_ATOMIC: atomic(b, s, flags); break;
    case FL_KS_IF: branch(b, s, flags); break;
    case FL_KS_LOOP: loop(b, s, flags); break;
    case FL_KS_BREAK: case FL_KS_CONTINUE: case FL_KS_LEAVE: part(b, s); break;
    case FL_KS_BLOCK: labelled(b, s, flags); break;
    case FL_KS_RETURN: done(b); break;
    case FL_KS_BARRIER: barrier(b, s); break;
    case FL_KS_SHUFFLE: shuffle(b, s, flags); break;
    case FL_KS_VOTE: vote(b, s, flags); break;
    case FL_KS_PRINTF: print(b, s); break;
    case FL_KS_ASSERT: check_true(b, s); break;
    default: break;
  }
}

static void block(fl_lane_builder *b, const fl_kblock *body) {
  for (const fl_kstmt *s = body->first; s && !b->failed; s = s->next) statement(b, s);
}

/* ---- the whole ----------------------------------------------------------------------- */

static void add_init(fl_lane_builder *b, int32_t reg, const fl_kvar *v) {
  fl_lane_init *i = FL_PUSH(b->mem, &b->code->inits);
  if (!i) { b->failed = 1; return; }
  *i = (fl_lane_init){ .reg = reg, .special = -1, .param = v->param, .type = v->type,
                       .offset = v->offset };
}

void fl_lane_slot(void *out, int type, fl_kvalue v) {
  const float f = (float)(fl_kt_is_float(type) ? v.d : 0);
  const int32_t i = (int32_t)(uint32_t)(uint64_t)v.i;
  if (fl_lane_wide(fl_lane_class_of(type))) memcpy(out, &v, 8);
  else if (fl_kt_is_float(type)) memcpy(out, &f, 4);
  else memcpy(out, &i, 4);
}

/* Adds the contents of a table, in the format of registers; its offset counts cells of 8 bytes. */
static void add_table(fl_lane_builder *b, fl_lane_array *a, const fl_kvar *v) {
  const int64_t size = a->wide ? 8 : 4, cells = (v->count * size + 7) / 8;
  a->offset = b->code->tables.n;
  if (!FL_RESERVE(b->mem, &b->code->tables, a->offset + cells)) { b->failed = 1; return; }
  b->code->tables.n += cells;
  char *to = (char *)(b->code->tables.at + a->offset);
  for (int64_t k = 0; k < v->count; k++) fl_lane_slot(to + k * size, a->type, v->data[k]);
}

/* Adds an array. The pointers of a parameter are numbered in the order of its variables
** ('leaf'). */
static void add_array(fl_lane_builder *b, int var, int32_t *leaf) {
  const fl_kvar *v = &b->f->vars[var];
  fl_lane_code *c = b->code;
  fl_lane_array *a = &c->arrays[var];
  const int wide = fl_lane_wide(fl_lane_class_of(v->type)), size = fl_kt_size(v->type);
  *a = (fl_lane_array){ .var = var, .kind = v->kind, .type = v->type,
                        .wide = (uint8_t)wide, .dynamic = v->dynamic, .param = v->param,
                        .leaf = -1, .count = v->count };
  switch (v->kind) {
    case FL_KV_POINTER: a->leaf = v->param >= 0 ? leaf[v->param]++ : 0; break;
    case FL_KV_TABLE: add_table(b, a, v); break;
    case FL_KV_ARRAY: {
      int64_t *n = wide ? &c->local8 : &c->local4;
      a->offset = *n;
      *n += v->count;
      break;
    }
    case FL_KV_SHARED:
      if (v->dynamic) break;
      a->offset = (c->shared_bytes + 15) / 16 * 16;
      c->shared_bytes = a->offset + v->count * size;
      break;
    default: break;
  }
}

static void variables(fl_lane_builder *b) {
  const fl_kfunc *f = b->f;
  const size_t bytes = (size_t)f->n_params * sizeof(int32_t);
  int32_t *leaf = fl_zalloc(b->mem, bytes);
  if (!leaf) { b->failed = 1; return; }
  for (int k = 0; k < f->n_vars && !b->failed; k++) {
    const fl_kvar *v = &f->vars[k];
    b->var_reg[k] = b->var_track[k] = -1;
    if (v->kind != FL_KV_LOCAL) { add_array(b, k, leaf); continue; }
    const int wide = fl_lane_wide(fl_lane_class_of(v->type));
    b->var_reg[k] = fl_lane_reg_new(b, !b->shape.varying[k], wide, 0);
    if (!b->failed) b->version.at[b->var_reg[k]] = ++b->clock;
    if (v->param >= 0) add_init(b, b->var_reg[k], v);
  }
  fl_free(b->mem, leaf, bytes);
}

/* ---- the code --------------------------------------------------------------------------- */

static void note_use(fl_lane_code *c, const fl_lane_ins *p) {
  const int use = p->op == FL_LI_LOAD ? (p->sub ? FL_LANE_GUESS : FL_LANE_READ)
                : p->op == FL_LI_STORE ? FL_LANE_WRITE
                : p->op == FL_LI_ATOMIC ? FL_LANE_ATOMIC : 0;
  if (use) c->arrays[p->var].uses |= (uint8_t)use;
}

static void build(fl_lane_builder *b) {
  around top = { .restore = -1, .exit = -1, .next = -1 };
  if (!FL_RESERVE(b->mem, &b->code->ins, 64)) { b->failed = 1; return; }
  b->around = &top;
  memset(b->code->ins.at, 0, sizeof *b->code->ins.at);
  for (int k = 0; k < FL_KSPECIAL_COUNT; k++) b->special[k] = -1;
  variables(b);
  block(b, &b->f->body);
  land(b, &top.restore);
  b->around = NULL;
  fl_lane_emit(b, FL_LI_END);
  if (!b->failed && !(fl_lane_fuse(b->code) && fl_lane_find_linear(b->code) &&
                      fl_lane_find_hoisted(b->code) && fl_lane_give_slots(b))) b->failed = 1;
  const int serial = fl_lane_is_serial(b->mem, b->f, b->code->arrays);
  if (serial < 0) b->failed = 1;
  b->code->serial = serial > 0;
  for (int64_t k = 0; k < b->code->ins.n && !b->failed; k++) note_use(b->code, &b->code->ins.at[k]);
}

static fl_lane_code *no_memory(const fl_kfunc *f, fl_error *e) {
  fl_fail(e, FLAME_NO_MEMORY, "kernel", "no memory to compile '%s'", f->name);
  return NULL;
}

static void tell(const fl_lane_builder *b) {
  char text[100];
  if (!fl_kpass_is_told()) return;
  const uint64_t flags = fl_hash64(b->shape.flags, (size_t)b->shape.n_stmts, 0),
                 varying = fl_hash64(b->shape.varying, (size_t)b->shape.n_vars, 0);
  snprintf(text, sizeof text, "lanes %016" PRIx64 " %016" PRIx64 "%s", flags, varying,
           b->code->serial ? ", in order" : "");
  fl_kpass_tell(b->f, text);
}

fl_lane_code *fl_lane_compile(fl_mem *m, const fl_kfunc *f, fl_error *e) {
  if (!f->has_body) {
    fl_fail(e, FLAME_NOT_SUPPORTED, "kernel", "kernel '%s', line %d: %s", f->name,
            (int)f->refusal_line, f->refusal ? f->refusal : "it has no body");
    return NULL;
  }
  fl_lane_code *c = fl_zalloc(m, sizeof *c);
  if (!c) return no_memory(f, e);
  const size_t n = (size_t)f->n_vars;
  c->mem = m;
  c->func = f;
  c->n_vars = f->n_vars;
  c->table = fl_lane_choose();
  c->arrays = fl_zalloc(m, n * sizeof *c->arrays);
  fl_lane_builder b = { .mem = m, .f = f, .code = c };
  b.var_reg = fl_zalloc(m, n * sizeof *b.var_reg);
  b.var_track = fl_zalloc(m, n * sizeof *b.var_track);
  b.var_memory = fl_zalloc(m, n * sizeof *b.var_memory);
  b.guess = fl_kguess_find(m, f);
  b.failed = !c->arrays || !b.guess || !b.var_reg || !b.var_track || !b.var_memory ||
             !fl_lane_shape_make(m, f, &b.shape);
  if (!b.failed) build(&b);
  if (!b.failed) tell(&b);
  fl_lane_shape_free(m, &b.shape);
  fl_kguess_free(m, f, b.guess);
  fl_free(m, b.var_reg, n * sizeof *b.var_reg);
  fl_free(m, b.var_track, n * sizeof *b.var_track);
  fl_free(m, b.var_memory, n * sizeof *b.var_memory);
  FL_DROP(m, &b.known);
  FL_DROP(m, &b.version);
  FL_DROP(m, &b.info);
  if (!b.failed) return c;
  fl_lane_free(c);
  return no_memory(f, e);
}

void fl_lane_free(fl_lane_code *c) {
  if (!c) return;
  fl_mem *m = c->mem;
  FL_DROP(m, &c->ins);
  FL_DROP(m, &c->regs);
  FL_DROP(m, &c->inits);
  FL_DROP(m, &c->texts);
  FL_DROP(m, &c->operands);
  FL_DROP(m, &c->tables);
  fl_free(m, c->arrays, (size_t)c->n_vars * sizeof *c->arrays);
  fl_free(m, c, sizeof *c);
}
