/* Environment switches: one list, env.def. Values are read when a context or a device is opened,
** but for FLAME_CHECK=grad, which is read with the library's Lua, and where settings are told. */
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
/* Has the variable a value that env.def does not allow? Then 'why' names it,
** its value and what it takes. */
int fl_env_refuse(int which, char *why, size_t size);
int fl_env_int(int which);            /* leading decimal integer, 0 if none */
#endif
