/* The machine around the process, as far as advice depends on it. */
#ifndef FL_BASE_MACHINE_H
#define FL_BASE_MACHINE_H
#include <stddef.h>

typedef enum { FL_MACHINE_PLAIN, FL_MACHINE_WSL, FL_MACHINE_CONTAINER } fl_machine;
fl_machine fl_machine_kind(void);
/* Where a file of the system, or a library by its name, is looked for: at 'path' itself. A build
** with test hooks has the whole machine below the folder FLAME_TEST_MACHINE, where that is set. */
const char *fl_machine_path(const char *path, char *out, size_t size);
int fl_machine_has(const char *path);
#endif
