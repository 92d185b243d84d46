/* The files of kernels/ as text. */
#include "cuda/text/embedded.h"
#include <string.h>
#ifdef FL_HAVE_ZLIB
#include <zlib.h>
#endif

static void put_inflated(fl_text *out, const struct fl_embedded *e) {
#ifdef FL_HAVE_ZLIB
  char *p = fl_alloc(out->mem, e->inflated);
  uLongf n = (uLongf)e->inflated;
  if (p && uncompress((Bytef *)p, &n, (const Bytef *)e->text, (uLong)e->size) == Z_OK)
    fl_text_add(out, p, n);
  else out->failed = 1;
  fl_free(out->mem, p, e->inflated);
#else
  (void)e;
  out->failed = 1;                      /* (without zlib tools/embed.c has not deflated any text) */
#endif
}

int fl_embedded_put(fl_text *out, const char *name) {
  const struct fl_embedded *e = fl_embedded_kernels;
  while (e->name && strcmp(e->name, name) != 0) e++;
  if (!e->name) return 0;
  if (e->inflated) put_inflated(out, e);
  else fl_text_add(out, e->text, e->size);
  return 1;
}
