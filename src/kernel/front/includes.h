/*
** Which files a kernel's text may read. The text that goes to a device's compiler is rewritten so
** that a directive in it can name only a header of the toolkit, as <name>, or, if the caller named
** folders for includes, a relative path. All others are dropped, however they are spelled: as
** "%:include", with a backslash and newline or a comment inside, in trigraphs, by a macro. Comments
** and literals are rewritten too, since a compiler may disagree with us about where they end.
*/
#ifndef FL_KERNEL_INCLUDES_H
#define FL_KERNEL_INCLUDES_H
#include "base/text.h"

/* Adds the rewritten text to t; lines keep their numbers. folders: the caller named folders for
** includes, so relative names of files are allowed. */
void fl_kincludes_put(fl_text *t, const char *text, int folders);
/* Is <name> a header of the toolkit, which a text may always include? */
int fl_kincludes_known(const char *name, size_t n);
/* Is it a relative path whose parts are plain names (not "." or ".."), as a folder may have? */
int fl_kincludes_plain(const char *name, size_t n);
/* Could a macro (of the text or of a header) paste __has_include, or a similar word that asks for a
** file, from words of the text (as written by fl_kincludes_put) and the options? Called before the
** text goes to a device's compiler. */
int fl_kincludes_pasted(const char *text, const char *const *option, int n);
#endif
