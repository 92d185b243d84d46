/*
** game: a game loop, without a screen, in which a creature learns while it plays.
**
**   cc -std=c11 -O2 game.c $(pkg-config --cflags --libs flame) -lm -o game && ./game 1500
**
** The argument is the number of frames. The creature sees where food is (a direction and a
** distance, as three numbers) and has two muscles, which pull in directions that it does not know.
** In each frame it moves, remembers what it saw, did and reached, and then learns until its share
** of the frame's time is used: one net predicts the result of a move; a second net chooses moves,
** and is trained by the gradient through the first. The memory of its context is limited, so the
** game knows what the creature costs.
*/
#define _GNU_SOURCE
#include <flame.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SEEN = 3, DONE = 2, HIDDEN = 24, BATCH = 32, REMEMBERED = 512, LAYERS = 2 };
static const double budget_ms = 4, rate = 0.03;         /* time of a frame; learning rate */

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Random numbers from 0 to 1, by xorshift. Learning has a separate state: how many numbers it draws
** depends on the time, and the world must be the same in every run. */
static uint32_t world_dice = 1, learning_dice = 2;
static double roll(uint32_t *dice) {
  *dice ^= *dice << 13, *dice ^= *dice >> 17, *dice ^= *dice << 5;
  return (double)*dice / 4294967296.0;
}

/* ---- nets ---------------------------------------------------------------------------------- */

typedef struct net { flame_tensor *w[LAYERS], *b[LAYERS]; } net;       /* weights and biases */

/* A parameter of normally distributed numbers, which gets gradients; cols = 0: a vector. */
static flame_tensor *leaf(flame_context *c, int rows, int cols, double deviation) {
  const int64_t shape[] = { rows, cols };
  flame_tensor *x = flame_normal(c, FLAME_F32, cols ? 2 : 1, shape, 0, deviation);
  flame_requires_grad(x, 1);
  return x;
}

/* A net of two layers with random weights. The caller frees it with net_close. */
static net net_open(flame_context *c, int in, int out) {
  return (net){ { leaf(c, HIDDEN, in, 1 / sqrt(in)), leaf(c, out, HIDDEN, 1 / sqrt(HIDDEN)) },
                { leaf(c, HIDDEN, 0, 0), leaf(c, out, 0, 0) } };
}

/* The results of a net for a batch x, a row each; the caller frees them. Nothing is checked here:
** after an error functions get NULL and give NULL, and the context keeps the first error. */
static flame_tensor *net_run(const net *n, flame_tensor *x) {
  flame_tensor *h = flame_linear(x, n->w[0], n->b[0]), *t = flame_tanh(h);
  flame_tensor *y = flame_linear(t, n->w[1], n->b[1]);
  flame_free(h), flame_free(t);
  return y;
}

static void net_close(net *n) {
  for (int k = 0; k < LAYERS; k++) flame_free(n->w[k]), flame_free(n->b[k]);
}

/* One step of gradient descent for a parameter, with each element of the gradient limited to -1 to
** 1. Clears the gradient. */
static void descend(flame_context *c, flame_tensor *w) {
  flame_tensor *g = flame_grad_of(w), *low = flame_number(c, -1), *high = flame_number(c, 1);
  flame_tensor *r = flame_number(c, rate), *k = flame_clamp(g, low, high), *s = flame_mul(k, r);
  flame_tensor *next = flame_sub(w, s);
  flame_write(w, next);
  flame_zero_grad(w);
  flame_tensor *all[] = { g, low, high, r, k, s, next };
  for (int i = 0; i < 7; i++) flame_free(all[i]);
}

/* A step for all parameters of a net, which itself must not be recorded for gradients. */
static void net_descend(flame_context *c, const net *n) {
  const int mode = flame_grad_mode(c, 0);
  for (int k = 0; k < LAYERS; k++) descend(c, n->w[k]), descend(c, n->b[k]);
  flame_grad_mode(c, mode);
}

/* Clears a net's gradients without a step. */
static void net_forget(const net *n) {
  for (int k = 0; k < LAYERS; k++) flame_zero_grad(n->w[k]), flame_zero_grad(n->b[k]);
}

/* ---- the world ----------------------------------------------------------------------------- */

typedef struct world { double x, y, food_x, food_y; int meals; } world;
typedef struct moment { float seen[SEEN], done[DONE], moved[2]; } moment;    /* one frame */

static void put_food(world *w) {
  w->food_x = 2 * roll(&world_dice) - 1;
  w->food_y = 2 * roll(&world_dice) - 1;
}

/* What the creature sees: the direction to the food, a vector of length 1, and the distance. */
static void look(const world *w, float seen[SEEN]) {
  const double dx = w->food_x - w->x, dy = w->food_y - w->y, d = hypot(dx, dy) + 1e-6;
  seen[0] = (float)(dx / d), seen[1] = (float)(dy / d), seen[2] = (float)d;
}

/* Moves the creature by what its two muscles did (m->done), each in a fixed direction, writes
** m->moved, and lets it eat what it reaches. Outside of the field it is put back in the middle. */
static void move(world *w, moment *m) {
  const double a = tanh(m->done[0]), b = tanh(m->done[1]);
  const double dx = 0.05 * (0.6 * a - 0.9 * b), dy = 0.05 * (0.8 * a + 0.5 * b);
  w->x += dx, w->y += dy;
  m->moved[0] = (float)dx * 20, m->moved[1] = (float)dy * 20;
  if (fabs(w->x) > 1.5 || fabs(w->y) > 1.5) w->x = w->y = 0;
  if (hypot(w->food_x - w->x, w->food_y - w->y) > 0.08) return;
  w->meals++;
  put_food(w);
}

/* ---- the creature -------------------------------------------------------------------------- */

typedef struct creature {
  flame_context *c;
  net body, mind;                /* body predicts moved from done; mind gives done from seen */
  moment past[REMEMBERED];       /* the last moments, in a ring */
  int n;                         /* all moments so far */
  double curious;                /* size of the random part of a move */
  } creature;

/* A batch of rows as a tensor, which has a copy of the data. */
static flame_tensor *rows(flame_context *c, int width, const float *data) {
  return flame_from_data(c, FLAME_F32, 2, (int64_t[]){ BATCH, width }, data);
}

/* The mean squared difference of two tensors. */
static flame_tensor *distance(flame_tensor *x, flame_tensor *y) {
  flame_tensor *d = flame_sub(x, y), *s = flame_square(d), *m = flame_mean_all(s);
  flame_free(d), flame_free(s);
  return m;
}

/* Trains both nets with random moments of the past: the body to predict moves, and the mind to
** move, as the body predicts it, in the direction of the food. */
static flame_status learn(creature *k) {
  float seen[BATCH * SEEN], toward[BATCH * 2], done[BATCH * DONE], moved[BATCH * 2];
  for (int i = 0; i < BATCH; i++) {
    const int known = k->n < REMEMBERED ? k->n : REMEMBERED;
    const moment *m = &k->past[(int)(roll(&learning_dice) * known)];
    for (int j = 0; j < SEEN; j++) seen[i * SEEN + j] = m->seen[j];
    for (int j = 0; j < 2; j++) {
      toward[i * 2 + j] = m->seen[j];
      done[i * DONE + j] = m->done[j];
      moved[i * 2 + j] = m->moved[j];
    }
  }
  flame_context *c = k->c;
  flame_tensor *d = rows(c, DONE, done), *m = rows(c, 2, moved), *s = rows(c, SEEN, seen);
  flame_tensor *t = rows(c, 2, toward), *guess = net_run(&k->body, d), *off = distance(guess, m);
  flame_status e = flame_backward(off, NULL);
  net_descend(c, &k->body);
  flame_tensor *plan = net_run(&k->mind, s), *led = net_run(&k->body, plan);
  flame_tensor *far = distance(led, t);
  if (e == FLAME_OK) e = flame_backward(far, NULL);
  net_descend(c, &k->mind);
  net_forget(&k->body);
  flame_tensor *all[] = { d, m, s, t, guess, off, plan, led, far };
  for (int i = 0; i < 9; i++) flame_free(all[i]);
  return e == FLAME_OK ? flame_eval(c) : e;
}

/* Writes what the creature does about m->seen into m->done: what its mind says, and chance. */
static flame_status act(creature *k, moment *m) {
  const int mode = flame_grad_mode(k->c, 0);
  flame_tensor *s = flame_from_data(k->c, FLAME_F32, 2, (int64_t[]){ 1, SEEN }, m->seen);
  flame_tensor *y = net_run(&k->mind, s);
  const flame_status e = flame_read(y, m->done, sizeof m->done);
  for (int j = 0; j < DONE; j++) {
    if (k->curious > 1) m->done[j] = 0;             /* at first chance alone */
    m->done[j] += (float)(k->curious * (2 * roll(&world_dice) - 1));
  }
  flame_free(s), flame_free(y);
  flame_grad_mode(k->c, mode);
  return e;
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* Counts of frames that took too long and of steps of learning; the longest frame in ms. */
typedef struct frames { int late, steps; double worst; } frames;

/* Plays 'count' frames and adds to the counts in f. Stops at the first error and returns it. */
static flame_status play(creature *k, world *w, int count, frames *f) {
  flame_status e = FLAME_OK;
  for (int i = 0; i < count && e == FLAME_OK; i++) {
    const double start = now_ms();
    moment m;
    look(w, m.seen);
    e = act(k, &m);
    move(w, &m);
    k->past[k->n++ % REMEMBERED] = m;
    do {                                               /* at least one step */
      if (e != FLAME_OK || k->n < BATCH) break;
      e = learn(k);
      f->steps++;
    } while (now_ms() - start < budget_ms / 2);
    const double took = now_ms() - start;
    f->late += took > budget_ms;
    if (took > f->worst) f->worst = took;
  }
  return e;
}

int main(int argc, char **argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 1500;
  creature *k = calloc(1, sizeof *k);
  world w = { 0 };
  if (!k || count < 5) return 1;
  k->c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1,
                                  .limit[FLAME_HOST_BYTES] = 64 << 20));
  if (!k->c) return 1;
  flame_seed(k->c, 1);
  k->body = net_open(k->c, DONE, 2);
  k->mind = net_open(k->c, SEEN, DONE);
  put_food(&w);
  flame_status e = FLAME_OK;
  for (int part = 0; part < 5 && e == FLAME_OK; part++) {
    frames f = { 0 };
    const int before = w.meals;
    k->curious = part == 0 ? 1.5 : 0.2;
    e = play(k, &w, count / 5, &f);
    printf("frames %d to %d: %d meals, %d steps, %d of %d frames late, the worst %.1f ms\n",
           part * (count / 5) + 1, (part + 1) * (count / 5), w.meals - before, f.steps, f.late,
           count / 5, f.worst);
  }
  if (e != FLAME_OK) fprintf(stderr, "game: %s\n", flame_error(k->c));
  net_close(&k->body), net_close(&k->mind);
  flame_close(k->c);
  free(k);
  return e != FLAME_OK;
}
