/*
** plugin: a learner, a small net with an optimiser, for a host program that need not know flame.
** The host opens it by dlopen (host.c). It is linked with libflame-full, which has Lua inside but
** exports none of its names: the host may have a Lua, too, of any version.
**
**   cc -std=c11 -O2 -fPIC -shared -fvisibility=hidden plugin.c \
**      $(pkg-config --cflags --libs flame-full) -o plugin.so
*/
#define _GNU_SOURCE
#include "plugin.h"
#include <flame.h>
#include <math.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))
#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

struct plugin { flame_context *c; flame_object *net, *adam; int in; };

EXPORTED plugin_open_f plugin_open;
EXPORTED plugin_learn_f plugin_learn;
EXPORTED plugin_error_f plugin_error;
EXPORTED plugin_close_f plugin_close;

/* The object that flame.name(arg[0], …) makes, say "nn.Linear", or NULL after an error, which the
** context keeps. */
static flame_object *make(flame_context *c, const char *name, int n, const flame_value *arg) {
  flame_value made;
  return flame_call(c, name, n, arg, 1, &made) == FLAME_OK ? made.as.o : NULL;
}

/* nn.Sequential(nn.Linear(in, 16), nn.Tanh(), nn.Linear(16, 1)), or NULL. */
static flame_object *net_of(flame_context *c, int in) {
  const flame_value wide[] = { { .kind = FLAME_INTEGER, .as.i = in },
                               { .kind = FLAME_INTEGER, .as.i = 16 } };
  const flame_value narrow[] = { { .kind = FLAME_INTEGER, .as.i = 16 },
                                 { .kind = FLAME_INTEGER, .as.i = 1 } };
  flame_value part[3] = { { .kind = FLAME_OBJECT }, { .kind = FLAME_OBJECT },
                          { .kind = FLAME_OBJECT } };
  part[0].as.o = make(c, "nn.Linear", COUNT(wide), wide);
  part[1].as.o = make(c, "nn.Tanh", 0, NULL);
  part[2].as.o = make(c, "nn.Linear", COUNT(narrow), narrow);
  flame_object *net = make(c, "nn.Sequential", COUNT(part), part);
  flame_values_free(COUNT(part), part);
  return net;
}

/* optim.Adam(net:parameters(), {lr = 0.02}), or NULL. */
static flame_object *adam_of(flame_context *c, flame_object *net) {
  flame_value arg[2] = { { .kind = FLAME_NIL },
                         { .name = "lr", .kind = FLAME_NUMBER, .as.n = 0.02 } };
  if (!net || flame_method(net, "parameters", 0, NULL, 1, arg) != FLAME_OK) return NULL;
  flame_object *adam = make(c, "optim.Adam", COUNT(arg), arg);
  flame_values_free(1, arg);
  return adam;
}

plugin *plugin_open(int in, unsigned long long seed) {
  plugin *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->in = in;
  p->c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1));
  flame_seed(p->c, seed);
  p->net = net_of(p->c, in);
  p->adam = adam_of(p->c, p->net);
  if (p->adam) return p;
  plugin_close(p);
  return NULL;
}

/* In Lua: loss = mse_loss(net(x), y) adam:zero_grad() loss:backward() adam:step(). After an error
** the remaining calls are left out. */
double plugin_learn(plugin *p, const float *x, float y) {
  double loss = NAN;
  flame_value in = { .kind = FLAME_TENSOR }, pair[2], out = { .kind = FLAME_NIL };
  in.as.t = flame_from_data(p->c, FLAME_F32, 2, (int64_t[]){ 1, p->in }, x);
  pair[1] = in;
  pair[1].as.t = flame_from_data(p->c, FLAME_F32, 2, (int64_t[]){ 1, 1 }, &y);
  flame_status e = flame_method(p->net, NULL, 1, &in, 1, pair);
  if (e == FLAME_OK) e = flame_call(p->c, "mse_loss", 2, pair, 1, &out);
  if (e == FLAME_OK) e = flame_method(p->adam, "zero_grad", 0, NULL, 0, NULL);
  if (e == FLAME_OK) e = flame_backward(out.as.t, NULL);
  if (e == FLAME_OK) e = flame_method(p->adam, "step", 0, NULL, 0, NULL);
  if (e == FLAME_OK) e = flame_item(out.as.t, &loss);
  flame_values_free(1, &out);
  flame_values_free(2, pair);
  flame_values_free(1, &in);
  return e == FLAME_OK ? loss : NAN;
}

const char *plugin_error(plugin *p) { return flame_error(p->c); }

void plugin_close(plugin *p) {
  flame_object_free(p->adam);
  flame_object_free(p->net);
  flame_close(p->c);
  free(p);
}
