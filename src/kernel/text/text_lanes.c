/* Writes what concerns the lanes of a warp: shuffles, votes, barriers, sums of lanes that add to
** one element (ad_lanes.c; the terms of fl_kstmt are used here: sums 'joined', which one call makes
** together; 'held', kept in lanes until a loop ends; 'in step', made by all threads of a block
** together). */
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

/* The number of sums that are made together with s by one call (fl_kstmt.joined), s included; *all:
** this number rounded up to a power of two. */
static int n_joined(const fl_kstmt *s, int *all) {
  int n = 1;
  for (; follows(s, s->next); s = s->next) n++;
  for (*all = 1; *all < n;) *all *= 2;
  return n;
}

/* Is s a sum in step (fl_kstmt.in_step) that is written here for warps with all their lanes? */
static int is_step(const fl_kwriter *w, const fl_kstmt *s) {
  return s->in_step && w->warps != FL_KPUT_PARTS;
}

/* Do lanes hold s, and those made with it, until the end of the loop? */
static int is_held(const fl_kwriter *w, const fl_kstmt *s) {
  return s->held && (!s->in_step || w->warps == FL_KPUT_WHOLE);
}

/* Of how many rounds are sums in step made at once? */
static int n_rounds(const fl_kwriter *w, const fl_kstmt *s, int all) {
  return !is_held(w, s) ? 1 : all == 1 ? 4 : 8 / all;
}

/* Declares what lanes keep of s, and of those made with it. */
static void put_keeper(fl_kwriter *w, const fl_kstmt *s) {
  int all;
  n_joined(s, &all);
  fl_text_printf(w->t, "%s<%s, %d", is_step(w, s) ? "fl_steps" : "fl_held",
                 fl_kput_value_type(s->x[1]->type), all);
  if (is_step(w, s)) fl_text_printf(w->t, ", %d", n_rounds(w, s, all));
  fl_text_printf(w->t, "> fl_h%d = ", is_held(w, s) ? s->held : 0);
}

/* Calls 'see' for each sum in b that lanes hold (is_held), except those in loops inside b. Returns
** the greatest number of rounds of which sums in step are added at once (n_rounds); at least 1. */
static int each_held(fl_kwriter *w, fl_kblock b, fl_kput *see) {
  int most = 1, all;
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    int n = 1;
    if (fl_kput_is_joint(s) && is_held(w, s)) {
      see(w, s);
      n_joined(s, &all);
      n = is_step(w, s) ? n_rounds(w, s, all) : 1;
    }
    most = n > most ? n : most;
    if (s->kind == FL_KS_LOOP) continue;
    n = each_held(w, s->body, see);
    most = n > most ? n : most;
    n = each_held(w, s->other, see);
    most = n > most ? n : most;
  }
  return most;
}

static void put_declared(fl_kwriter *w, const fl_kstmt *s) {
  put_keeper(w, s);
  fl_text_puts(w->t, "{};\n");
}

/* Writes how far the elements of the sums made with s are from that of s. */
static void put_distances(fl_kwriter *w, const fl_kstmt *s, int n, int all) {
  const fl_kstmt *x = s;
  fl_text_puts(w->t, "{ 0");
  for (int i = 1; i < all; i++) {
    x = i < n ? x->next : s;
    fl_text_puts(w->t, ", ");
    if (x->var != s->var) {
      fl_text_puts(w->t, "(int)(");
      fl_kput_var(w, x->var);
      fl_text_puts(w->t, " - ");
      fl_kput_var(w, s->var);
      fl_text_puts(w->t, ") + ");
    }
    fl_text_printf(w->t, "%d", (int)x->apart);
  }
  fl_text_puts(w->t, " }");
}

static void put_begun(fl_kwriter *w, const fl_kstmt *s) {
  if (!is_step(w, s)) fl_text_printf(w->t, "fl_warp_begin(fl_h%d);\n", s->held);
}

/* Writes the call that adds s and the sums made with it, from the variable fl_h<held>, in which
** lanes hold them; held 0: they are not held, and the variable is declared where they are made. */
static void put_adds(fl_kwriter *w, const fl_kstmt *s, int held) {
  int all;
  const int n = n_joined(s, &all);
  const int shared = w->f->vars[s->var].kind == FL_KV_SHARED;
  fl_text_printf(w->t, "fl_warp_adds<%s, %s>(%d, ", shared ? "int" : "long long",
                 held ? "true" : "false", ++w->calls);
  fl_kput_var(w, s->var);
  fl_text_puts(w->t, ", ");
  put_distances(w, s, n, all);
  fl_text_printf(w->t, ", fl_h%d);", held);
}

static void put_late(fl_kwriter *w, const fl_kstmt *s) {
  if (is_step(w, s)) return;
  put_adds(w, s, s->held);
  fl_text_puts(w->t, "\n");
}

static void put_ended(fl_kwriter *w, const fl_kstmt *s) {
  fl_text_printf(w->t, "%s(fl_h%d);\n", is_step(w, s) ? "fl_step_end" : "fl_warp_end", s->held);
}

void fl_kput_held(fl_kwriter *w, const fl_kstmt *loop, fl_kput_when when) {
  fl_kput *const see[] = { put_declared, put_begun, put_late, put_ended };
  if (w->check || w->saved) return;
  const int rounds = each_held(w, loop->body, see[when]);
  if (when == FL_KPUT_BEFORE && rounds > 1) fl_text_printf(w->t, "#pragma unroll %d\n", rounds);
}

static void put_index(fl_kwriter *w, const fl_kstmt *s) {
  fl_text_puts(w->t, "(long long)(");
  fl_kput_expr(w, s->x[0]);
  fl_text_puts(w->t, ")");
}

static void put_values(fl_kwriter *w, const fl_kstmt *s, int n) {
  fl_text_puts(w->t, "{ ");
  for (int i = 0; i < n; i++, s = s->next) {
    fl_text_puts(w->t, i ? ", " : "");
    fl_kput_expr(w, s->x[1]);
  }
  fl_text_puts(w->t, " }");
}

/* Writes sums in step: one call, at their place. Where lanes do not hold them the state of the call
** is local, and added to memory at once. */
static void put_in_step(fl_kwriter *w, const fl_kstmt *s, int n, int all) {
  const int held = is_held(w, s) ? s->held : 0;
  fl_text_printf(w->t, "{ %s fl_v[%d] = ", fl_kput_value_type(s->x[1]->type), all);
  put_values(w, s, n);
  fl_text_puts(w->t, "; ");
  if (!held) {
    put_keeper(w, s);
    fl_text_puts(w->t, "{}; ");
  }
  fl_text_puts(w->t, "fl_step_adds(&");
  fl_kput_element(w, s);
  fl_text_puts(w->t, ", ");
  put_distances(w, s, n, all);
  fl_text_printf(w->t, ", fl_v, fl_h%d);%s }\n", held, held ? "" : " fl_step_end(fl_h0);");
}

/* Writes sums that are added at once, by the lanes that are active together. */
static void put_once(fl_kwriter *w, const fl_kstmt *s, int n) {
  fl_text_puts(w->t, "{ ");
  put_keeper(w, s);
  fl_text_puts(w->t, "{ ");
  put_index(w, s);
  fl_text_puts(w->t, ", ");
  put_values(w, s, n);
  fl_text_puts(w->t, " }; ");
  put_adds(w, s, 0);
  fl_text_puts(w->t, " }\n");
}

/* Writes the target and the values of held sums into their variable: put_late adds them at the end
** of the round. */
static void put_noted(fl_kwriter *w, const fl_kstmt *s, int n) {
  const int held = s->held;
  fl_text_printf(w->t, "fl_h%d.to = ", held);
  put_index(w, s);
  fl_text_puts(w->t, ";");
  for (int i = 0; i < n; i++, s = s->next) {
    fl_text_printf(w->t, " fl_h%d.v[%d] = ", held, i);
    fl_kput_expr(w, s->x[1]);
    fl_text_puts(w->t, ";");
  }
  fl_text_puts(w->t, "\n");
}

/* Calls 'put' twice: for warps that have all their lanes, and for others. */
static void put_both(fl_kwriter *w, const fl_kstmt *s, fl_kput *put) {
  fl_text_puts(w->t, "if (fl_step_whole()) {\n");
  w->warps = FL_KPUT_WHOLE;
  put(w, s);
  fl_text_puts(w->t, "} else {\n");
  w->warps = FL_KPUT_PARTS;
  put(w, s);
  fl_text_puts(w->t, "}\n");
  w->warps = FL_KPUT_ANY;
}

static void put_sum(fl_kwriter *w, const fl_kstmt *s) {
  int all;
  const int n = n_joined(s, &all);
  if (is_step(w, s)) put_in_step(w, s, n, all);
  else if (is_held(w, s)) put_noted(w, s, n);
  else put_once(w, s, n);
}

/* Is a sum in step held in b, outside of loops in it? */
static int holds_steps(fl_kblock b) {
  for (const fl_kstmt *s = b.first; s; s = s->next) {
    if (fl_kput_is_joint(s) && s->in_step && s->held) return 1;
    if (s->kind != FL_KS_LOOP && (holds_steps(s->body) || holds_steps(s->other))) return 1;
  }
  return 0;
}

int fl_kput_twice(fl_kwriter *w, const fl_kstmt *loop, fl_kput *put) {
  if (w->check || w->saved || w->warps || !holds_steps(loop->body)) return 0;
  put_both(w, loop, put);
  return 1;
}

const fl_kstmt *fl_kput_joined(fl_kwriter *w, const fl_kstmt *s) {
  int all;
  const int n = n_joined(s, &all);
  if (s->in_step && !w->warps) put_both(w, s, put_sum);
  else put_sum(w, s);
  for (int i = 1; i < n; i++) s = s->next;
  return s;
}
