/*
** Kernels with stronger barriers, which are tried where a kernel is refused as it is written.
**
** The adjoint keeps copies of a shared array in a loop, and needs barriers of the block for that.
** Where all threads of a block go through a loop together, its __syncwarp() may become such a
** barrier.
**
** A kernel may count its blocks, so that the last one sums what all have written:
**   if (t == 0) { part[blockIdx.x] = s[0]; __threadfence(); last = atomicInc(count, …) == …; }
**   __syncthreads(); if (last) …
** The reverse code of the last block must come before that of the others. With the count recorded
** (record.h), the barrier after it may be one of the grid: then no order of the blocks is needed.
*/
#include "kernel/ad/ad_state.h"
#include "kernel/ad/record.h"

typedef struct widen { fl_kfunc *f; const fl_kindices *k; int dry, changed; } widen;

/* Do all threads of a block that reach the start of b also reach its end, or leave it together?
** 'together': all threads of the block reach the start together. Unless w->dry, barriers of warps
** that they reach together inside loops become barriers of the block. */
static int block(widen *w, fl_kblock b, int together, int in_loop);

static int one(widen *w, fl_kstmt *s, int together, int in_loop) {
  const int same = together && (!s->x[0] || fl_kuniform_in_block(w->k, s->x[0]));
  const int dry = w->dry;
  switch (s->kind) {
  case FL_KS_IF: return block(w, s->body, same, in_loop) & block(w, s->other, same, in_loop);
  case FL_KS_BLOCK: return block(w, s->body, together, in_loop);
  case FL_KS_LOOP: {
    w->dry = 1;
    const int stays = same && block(w, s->body, 1, 1);
    w->dry = dry;
    return block(w, s->body, stays, 1) & block(w, s->other, stays, 1);
  }
  case FL_KS_BREAK: case FL_KS_CONTINUE: case FL_KS_LEAVE: case FL_KS_RETURN: return together;
  case FL_KS_BARRIER:
    if (!dry && together && in_loop && (s->op == FL_KBAR_WARP || s->op == FL_KBAR_HERE)) {
      s->op = FL_KBAR_BLOCK;
      s->x[0] = NULL;
      w->f->uses_barrier = w->changed = 1;
    }
    return 1;
  default: return 1;
  }
}

static int block(widen *w, fl_kblock b, int together, int in_loop) {
  int all = 1;
  for (fl_kstmt *s = b.first; s; s = s->next) all &= one(w, s, together && all, in_loop);
  return all;
}

fl_kfunc *fl_kad_widen(fl_karena *a, const fl_kfunc *f, const fl_kad_request *r) {
  fl_kfunc *g = f->uses_warp && f->has_body ? fl_kfunc_clone(a, f) : NULL;
  fl_kindices *k = g ? fl_kindices_new(a->mem, g, r->geometry) : NULL;
  widen w = { .f = g, .k = k };
  if (k) block(&w, g->body, 1, 0);
  if (g && !fl_kindices_free(k) && !a->failed) a->failed = FL_KARENA_MEMORY;
  if (w.changed && !a->failed) fl_kpass_done("widening", g, g->body);
  return w.changed ? g : NULL;
}

static int is_return(const void *none, const fl_kstmt *s) {
  (void)none;
  return s->kind == FL_KS_RETURN;
}

static int is_recorded(const void *f, const fl_kstmt *s) {
  for (int i = 0; i < 4; i++)
    if (s->x[i] && fl_kexpr_any(s->x[i], fl_krecord_is, f)) return 1;
  return 0;
}

static int cut(fl_kfunc *f, fl_kblock b, fl_kblock *before, fl_kblock *after);

/* Makes two of the IF s, with one condition: the first is s. */
static int cut_if(fl_kfunc *f, fl_kstmt *s, fl_kblock *before, fl_kblock *after) {
  const int c = fl_kvar_add(f, FL_KV_LOCAL, FL_KT_BOOL, "branch", 1);
  fl_kblock first = {0}, rest = {0};
  if (c < 0 || fl_kblock_any(s->other, is_recorded, f) || !cut(f, s->body, &first, &rest)) return 0;
  fl_kstmt_assign(f, before, c, s->x[0]);
  s->x[0] = fl_kexpr_var(f, c);
  s->body = first;
  fl_kstmt *more = fl_kstmt_if(f, after, fl_kexpr_var(f, c));
  if (more) more->body = rest;
  return 1;
}

/* Moves the statements of b up to the first that reads a recorded result, and an atomic after it,
** to the end of *before, the others to that of *after. 0: that statement is neither an assignment
** nor an IF, or only other statements contain it. */
static int cut(fl_kfunc *f, fl_kblock b, fl_kblock *before, fl_kblock *after) {
  fl_kstmt *s = fl_kblock_take(&b);
  for (; s && !fl_kstmt_any(s, is_recorded, f); s = fl_kblock_take(&b))
    fl_kblock_append(before, (fl_kblock){s, s});
  if (!s || (s->kind != FL_KS_IF && s->kind != FL_KS_ASSIGN)) return 0;
  if (s->kind == FL_KS_IF && !cut_if(f, s, before, after)) return 0;
  fl_kblock_append(before, (fl_kblock){s, s});
  if (s->kind == FL_KS_ASSIGN && b.first && b.first->kind == FL_KS_ATOMIC) {
    s = fl_kblock_take(&b);
    fl_kblock_append(before, (fl_kblock){s, s});
  }
  fl_kblock_append(after, b);
  return 1;
}

static void add_barrier(fl_kfunc *f, fl_kblock *b) {
  fl_kstmt *s = fl_kstmt_new(f->arena, b, FL_KS_BARRIER, 0);
  if (!s) return;
  s->op = FL_KBAR_BLOCK;
  s->mode = 1;
  f->uses_grid = f->uses_barrier = 1;
}

/* Makes the first barrier of the block after each recorded result one of the grid. */
static int raise(fl_kfunc *f) {
  int recorded = 0, changed = 0;
  for (fl_kstmt *s = f->body.first; s; s = s->next) {
    recorded |= fl_kstmt_any(s, is_recorded, f);
    if (!recorded || !fl_kis_barrier(NULL, s)) continue;
    f->uses_grid |= !s->mode;
    s->mode = 1;
    recorded = 0;
    changed = 1;
  }
  return changed;
}

fl_kfunc *fl_kad_meet_grid(fl_karena *a, const fl_kfunc *f, int between) {
  const int may = f->replays && f->has_body && !fl_kblock_any(f->body, is_return, NULL);
  fl_kfunc *g = may ? fl_kfunc_clone(a, f) : NULL;
  fl_kblock before = {0}, after = {0};
  int changed = g && !between && raise(g);
  if (g && between && cut(g, g->body, &before, &after)) {
    add_barrier(g, &before);
    fl_kblock_append(&before, after);
    g->body = before;
    changed = 1;
  }
  if (changed && !a->failed) fl_kpass_done("meeting", g, g->body);
  return changed && !a->failed ? g : NULL;
}
