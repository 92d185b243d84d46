/*
** The adjoint keeps copies of a shared array in a loop, and needs barriers of the block for that.
** Where all threads of a block go through a loop together, its __syncwarp() may become such a
** barrier. This is tried for kernels that are refused as they are written.
*/
#include "kernel/ad/ad_state.h"

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
