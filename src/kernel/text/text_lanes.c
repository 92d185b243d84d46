/* Writes what concerns the lanes of a warp: shuffles, votes, barriers, sums of lanes that add to
** one element (ad_lanes.c). */
#include "kernel/text/text.h"
#include "kernel/text/text_check.h"
#include "kernel/text/text_write.h"

void fl_kput_warp(fl_kwriter *w, const fl_kstmt *s) {
  static const char *const shuffles[] = { "__shfl_sync", "__shfl_up_sync",
                                          "__shfl_down_sync", "__shfl_xor_sync" };
  static const char *const votes[] = { "__ballot_sync", "__any_sync", "__all_sync",
                                       "__activemask" };
  if (w->check) { fl_kcheck_warp(w, s); return; }
  fl_kput_var(w, s->result);
  fl_text_printf(w->t, " = %s(",
                 s->kind == FL_KS_SHUFFLE ? shuffles[s->op] : votes[s->op]);
  int n = 0;
  while (n < 4 && s->x[n]) n++;
  fl_kput_list(w, s->x, n);
}

void fl_kput_barrier(fl_kwriter *w, const fl_kstmt *s) {
  if (w->check && s->op != FL_KBAR_FENCE) fl_kcheck_barrier(w, s);
  else if (s->op == FL_KBAR_BLOCK)
    fl_text_puts(w->t, s->mode ? "fl_sync_grid()" : "__syncthreads()");
  else if (s->op == FL_KBAR_FENCE) fl_text_puts(w->t, "__threadfence()");
  else if (s->op == FL_KBAR_HERE) fl_text_puts(w->t, "__syncwarp(__activemask())");
  else {
    fl_text_puts(w->t, "__syncwarp(");
    fl_kput_list(w, s->x, s->x[0] != NULL);
  }
}

/* Is b the next of the sums that may be made together with a? */
static int follows(const fl_kstmt *a, const fl_kstmt *b) {
  return a->joined && b && b->kind == FL_KS_ATOMIC && b->mode == FL_KM_WARP &&
         b->joined == a->joined - 1;
}

int fl_kput_is_joint(const fl_kstmt *s) { return s->kind == FL_KS_ATOMIC && s->mode == FL_KM_WARP; }

/* Calls 'see' for each sum in b, outside of loops in b, that lanes hold (fl_kstmt.held). */
static void each_held(fl_kwriter *w, fl_kblock b, void (*see)(fl_kwriter *, const fl_kstmt *)) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    if (fl_kput_is_joint(s) && s->held) see(w, s);
    if (s->kind == FL_KS_LOOP) continue;
    each_held(w, s->body, see);
    each_held(w, s->other, see);
  }
}

static void put_declared(fl_kwriter *w, const fl_kstmt *s) {
  fl_text_printf(w->t, "fl_held<%s> fl_h%d = {};\n", fl_kput_value_type(s->x[1]->type), s->held);
}

static void put_added(fl_kwriter *w, const fl_kstmt *s) {
  fl_text_printf(w->t, "fl_warp_end(fl_h%d);\n", s->held);
}

void fl_kput_held(fl_kwriter *w, const fl_kstmt *loop, int after) {
  if (!w->check && !w->saved) each_held(w, loop->body, after ? put_added : put_declared);
}

static void put_pointer(fl_kwriter *w, const fl_kstmt *s) {
  fl_text_puts(w->t, "&");
  fl_kput_element(w, s);
}

const fl_kstmt *fl_kput_joined(fl_kwriter *w, const fl_kstmt *s) {
  int n = 1, all = 1;
  const fl_kstmt *last = s;
  for (; follows(last, last->next); last = last->next) n++;
  while (all < n) all *= 2;                      /* a power of two; the others are sums of 0 */
  fl_text_printf(w->t, "{ %s *const fl_p[%d] = { ", fl_kput_memory_type(s->x[1]->type), all);
  const fl_kstmt *x = s;
  for (int i = 0; i < n; i++, x = x->next) {
    fl_text_puts(w->t, i ? ", " : "");
    put_pointer(w, x);
  }
  for (int i = n; i < all; i++) {
    fl_text_puts(w->t, ", ");
    put_pointer(w, s);
  }
  fl_text_printf(w->t, " }; %s fl_v[%d] = { ", fl_kput_value_type(s->x[1]->type), all);
  x = s;
  for (int i = 0; i < n; i++, x = x->next) {
    fl_text_puts(w->t, i ? ", " : "");
    fl_kput_expr(w, x->x[1]);
  }
  if (s->held) fl_text_printf(w->t, " }; fl_warp_adds<true>(fl_p, fl_v, fl_h%d); }\n", s->held);
  else
    fl_text_printf(w->t, " }; fl_held<%s> fl_h = {}; fl_warp_adds<false>(fl_p, fl_v, fl_h); }\n",
                   fl_kput_value_type(s->x[1]->type));
  return last;
}
