/* Facts about the machine that advice in messages depends on. */
#ifndef FL_BASE_MACHINE_H
#define FL_BASE_MACHINE_H
#include <stddef.h>

typedef enum { FL_MACHINE_PLAIN, FL_MACHINE_WSL, FL_MACHINE_CONTAINER } fl_machine;
fl_machine fl_machine_kind(void);
/* The path at which a system file, or a library by name, is searched: 'path' itself. Only in a
** build with test hooks, if FLAME_TEST_MACHINE names a folder, a path in that folder, written to
** 'out'. */
const char *fl_machine_path(const char *path, char *out, size_t size);
int fl_machine_has(const char *path);
#endif
