/* Facts about the machine that advice in messages depends on. */
#ifndef FL_BASE_MACHINE_H
#define FL_BASE_MACHINE_H
#include <stddef.h>

typedef enum { FL_MACHINE_PLAIN, FL_MACHINE_WSL, FL_MACHINE_CONTAINER } fl_machine;
fl_machine fl_machine_kind(void);
/* Where a system file, or a library by name, is searched: at 'path' itself. In a build with test
** hooks the whole machine is below the folder FLAME_TEST_MACHINE, if that is set. */
const char *fl_machine_path(const char *path, char *out, size_t size);
int fl_machine_has(const char *path);
#endif
