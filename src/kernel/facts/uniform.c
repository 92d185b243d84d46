/* Equality of threads (uniform.h). */
#include "kernel/facts/uniform.h"
#include "kernel/facts/defs.h"

static int worse(int a, int b) { return a > b ? a : b; }

/* Does array var have the same contents for all threads, since the kernel does not write it or
** since the caller says so ('shared')? */
static int is_steady(const fl_kuniform *u, int32_t var) {
  const fl_kvar *v = &u->f->vars[var];
  switch (v->kind) {
    case FL_KV_TABLE: return 1;
    case FL_KV_POINTER: return v->is_const;
    case FL_KV_ARRAY: return v->param >= 0 && u->level[var] == FL_KEQUAL_GRID;
    default: return v->kind == FL_KV_SHARED && u->shared;
  }
}

int fl_kuniform_level(const fl_kuniform *u, const fl_kexpr *x) {
  int l = u->lost ? FL_KEQUAL_NONE : FL_KEQUAL_GRID;
  if (x->kind == FL_KX_SPECIAL)
    return worse(l, x->op <= FL_KSPECIAL_TID_Z ? FL_KEQUAL_NONE
                  : x->op <= FL_KSPECIAL_BID_Z ? FL_KEQUAL_BLOCK : FL_KEQUAL_GRID);
  if (x->kind == FL_KX_VAR) return worse(l, u->level[x->var]);
  if (x->kind == FL_KX_LOAD && !is_steady(u, x->var)) return FL_KEQUAL_NONE;
  for (int i = 0; i < x->n; i++) l = worse(l, fl_kuniform_level(u, x->x[i]));
  return l;
}

/* ---- the way to a statement -------------------------------------------------------------- */

/* A construct around a statement. enter, leave: the places of itself and of the last statement in
** it (leave is 0 if no 'place' is given). jump: the lowest level of the conditions of jumps in it,
** if it can be left. all: the lowest of 'jump', the level of its condition, and 'all' of the
** constructs around it. */
typedef struct way {
  const struct way *up;
  const fl_kstmt *s;
  int32_t enter, leave;
  int jump, all;
} way;

/* The lowest level of a condition in the block that decides whether a BREAK, CONTINUE or LEAVE is
** reached. */
static int jump_level(const fl_kuniform *u, fl_kblock b) {
  int l = FL_KEQUAL_GRID;
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    if (s->x[0] && (s->kind == FL_KS_IF || s->kind == FL_KS_LOOP) &&
        (fl_kjumps(s->body) || fl_kjumps(s->other)))
      l = worse(l, fl_kuniform_level(u, s->x[0]));
    l = worse(l, worse(jump_level(u, s->body), jump_level(u, s->other)));
  }
  return l;
}

static int condition_level(const fl_kuniform *u, const fl_kstmt *s) {
  const int asks = (s->kind == FL_KS_IF || s->kind == FL_KS_LOOP) && s->x[0];
  return asks ? fl_kuniform_level(u, s->x[0]) : FL_KEQUAL_GRID;
}

static int is_around(const way *w, int32_t order) { return order > w->enter && order <= w->leave; }

/* For an assignment in construct w (NULL: none) to a variable declared at 'decl': the level of the
** conditions that decide whether all threads at u->place have run it. *again: there is a loop
** around the assignment that is not around the declaration. */
static int way_level(const fl_kuniform *u, const way *w, int32_t decl, int *again) {
  if (!w) return FL_KEQUAL_GRID;
  int l = way_level(u, w->up, decl, again);
  const int together = is_around(w, u->place), outside = is_around(w, decl);
  if (!together || (*again && !outside)) l = worse(l, condition_level(u, w->s));
  *again |= w->s->kind == FL_KS_LOOP && !outside;
  return worse(l, w->jump);
}

/* ---- the fixed point --------------------------------------------------------------------- */

static void lower(fl_kuniform *u, int32_t var, int level) {
  if (var < 0 || u->level[var] >= level) return;
  u->level[var] = (uint8_t)level;
  u->changed = 1;
}

static void assign(fl_kuniform *u, const fl_kstmt *s, const way *w) {
  int again = 0;
  const int l = u->place ? way_level(u, w, u->decl[s->var], &again) : w ? w->all : FL_KEQUAL_GRID;
  lower(u, s->var, worse(l, fl_kuniform_level(u, s->x[0])));
}

static void spread(fl_kuniform *u, fl_kblock b, const way *up) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    u->order++;
    if (s->kind == FL_KS_ASSIGN) assign(u, s, up);
    if (s->result >= 0) lower(u, s->result, FL_KEQUAL_NONE);
    if (s->kind == FL_KS_STORE && u->f->vars[s->var].kind == FL_KV_ARRAY)
      lower(u, s->var, FL_KEQUAL_NONE);
    if (!s->body.first && !s->other.first) continue;
    way w = { .up = up, .s = s, .enter = u->order, .jump = FL_KEQUAL_GRID };
    if (u->place) w.leave = u->order + fl_kblock_length(s->body) + fl_kblock_length(s->other);
    if (s->kind == FL_KS_LOOP || s->kind == FL_KS_BLOCK) w.jump = jump_level(u, s->body);
    w.all = worse(up ? up->all : FL_KEQUAL_GRID, worse(w.jump, condition_level(u, s)));
    spread(u, s->body, &w);
    spread(u, s->other, &w);
  }
}

/* Sets u->place and u->decl to the numbers of the statement 'place' and of the declarations.
** Statements are numbered in the order of the text, as 'spread' numbers them too. */
static void number(fl_kuniform *u, fl_kblock b, const fl_kstmt *place) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    u->order++;
    if (s == place) u->place = u->order;
    if (s->kind == FL_KS_DECL && !u->decl[s->var]) u->decl[s->var] = u->order;
    number(u, s->body, place);
    number(u, s->other, place);
  }
}

fl_kuniform *fl_kuniform_new(fl_karena *a, const fl_kfunc *f, fl_kblock body,
                             const fl_kstmt *place, int shared) {
  fl_kuniform *u = fl_karena_new(a, sizeof *u);
  if (!u) return NULL;
  *u = (fl_kuniform){ .f = f, .shared = (uint8_t)shared };
  u->level = fl_karena_new(a, (size_t)f->n_vars + 1);
  u->decl = fl_karena_new(a, ((size_t)f->n_vars + 1) * sizeof *u->decl);
  if (!u->level || !u->decl) return NULL;
  if (place) number(u, body, place);
  u->lost = place && !u->place;
  do {
    u->changed = 0;
    u->order = 0;
    spread(u, body, NULL);
  } while (u->changed);
  return u;
}
