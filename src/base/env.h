/* Environment switches: one list, env.def. Most values are read when a context or a device is
** opened, those of libraries when the library is, FLAME_CHECK=grad when the library's Lua code is
** loaded; all are read again wherever settings are reported. */
#ifndef FL_BASE_ENV_H
#define FL_BASE_ENV_H
#include <stddef.h>
#define ENV(name, def, takes, doc) FL_ENV_##name,
enum {
#include "base/env.def"
  FL_ENV_COUNT
};
#undef ENV
/* The variable's text, or its default. The pointer is valid until the environment changes. */
const char *fl_env(int which);
int fl_env_lists(int which, const char *word);   /* is the word in its comma-separated list? */
/* Does the variable have a value that env.def does not allow? Then 'why' names it, its value and
** the allowed ones. */
int fl_env_refuse(int which, char *why, size_t size);
int fl_env_int(int which);            /* leading decimal integer; 0 if there is none */
#endif
