/*
** The kind of machine, on which the advice about a missing driver depends: Linux itself, WSL2 or a
** container, recognised by files that these have. Checked only when something is missing.
*/
#include "base/machine.h"
#include "base/hooks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *fl_machine_path(const char *path, char *out, size_t size) {
  const char *root = FL_HOOKS ? getenv("FLAME_TEST_MACHINE") : NULL;
  if (!root || !*root) return path;
  const char *name = strstr(path, ".so") ? strrchr(path, '/') : NULL;    /* libraries lie flat */
  snprintf(out, size, "%s/%s", root, name ? name + 1 : path);
  return out;
}

int fl_machine_has(const char *path) {
  char at[512];
  return access(fl_machine_path(path, at, sizeof at), F_OK) == 0;
}

fl_machine fl_machine_kind(void) {
  char at[512], text[200] = "";
  FILE *f = fopen(fl_machine_path("/proc/sys/kernel/osrelease", at, sizeof at), "re");
  if (f && !fgets(text, sizeof text, f)) text[0] = 0;
  if (f) fclose(f);
  if (strstr(text, "microsoft") || strstr(text, "Microsoft")) return FL_MACHINE_WSL;
  return fl_machine_has("/.dockerenv") || fl_machine_has("/run/.containerenv")
         ? FL_MACHINE_CONTAINER : FL_MACHINE_PLAIN;
}
