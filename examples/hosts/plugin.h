/* plugin.h: the interface of the plug-in: four functions, found by dlsym, without types of flame or
** Lua. */
#ifndef PLUGIN_H
#define PLUGIN_H

typedef struct plugin plugin;

/* A net with 'in' inputs; NULL: it can not be made. Only one thread at a time may use a plugin. */
typedef plugin *plugin_open_f(int in, unsigned long long seed);
/* Learn one example; gives the loss before, NaN where it fails: plugin_error says why. */
typedef double plugin_learn_f(plugin *p, const float *x, float y);
typedef const char *plugin_error_f(plugin *p);
typedef void plugin_close_f(plugin *p);
#endif
