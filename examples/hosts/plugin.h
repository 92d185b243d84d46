/* plugin.h: the interface of the plug-in: the types of four functions, which a host finds by dlsym
** under the names plugin_open, plugin_learn, plugin_error and plugin_close. It has no types of
** flame or Lua. */
#ifndef PLUGIN_H
#define PLUGIN_H

typedef struct plugin plugin;

/* Makes a learner with 'in' inputs, which plugin_close frees. Returns NULL if it cannot be made.
** Only one thread at a time may use a learner, but each thread may have one. */
typedef plugin *plugin_open_f(int in, unsigned long long seed);
/* Learns one example: y for the inputs x. Returns the loss before, or NaN if it fails: plugin_error
** then says why. */
typedef double plugin_learn_f(plugin *p, const float *x, float y);
/* The message of the last error, valid until the next call. */
typedef const char *plugin_error_f(plugin *p);
/* Frees the learner and all that it has. */
typedef void plugin_close_f(plugin *p);
#endif
