/*
** What a kernel's text may read besides itself. The text that goes to a device's compiler is
** written again so that no directive in it names a file, however it is spelled: as "%:include",
** with a backslash and newline or a comment inside, in trigraphs, by a macro. <name> of a header of
** the toolkit's stays; so does what lies in folders that the caller named. Whether a place is in a
** comment or a literal does not count, for two readers may differ on it.
*/
#ifndef FL_KERNEL_INCLUDES_H
#define FL_KERNEL_INCLUDES_H
#include "base/text.h"

/* folders: the caller named some, so relative names of any file pass. Lines keep their numbers. */
void fl_kincludes_put(fl_text *t, const char *text, int folders);
/* Could a macro, of the text or of a header, paste a name that asks for files, of words in the text
** (as it was put) and the options? A device's compiler would answer. */
int fl_kincludes_pasted(const char *text, const char *const *option, int n);
/* Is it <name> of a header that a kernel may include? n bytes. */
int fl_kincludes_known(const char *name, size_t n);
#endif
