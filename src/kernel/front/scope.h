/*
** Names with a prefix, "a::b::c", and namespaces (scope.c). All functions of the source are in one
** list for each name, whatever namespace they are defined in; so for a name that CUDA or the
** library has too, it is asked here which of them a call means. Private to kernel/front.
*/
#ifndef FL_KERNEL_SCOPE_H
#define FL_KERNEL_SCOPE_H
#include "kernel/front/front.h"

/* Sets *inner to the *n names of file scope, an array that is valid until a name is added. */
void fl_scope_file(fl_front *p, const fl_symbol **inner, int64_t *n);
/* Is s (or NULL) a class or alias template, or the name of a struct that is an instance of one? */
int fl_scope_is_template(const fl_symbol *s);
int fl_scope_is_space(fl_front *p, const fl_ktok *t);
void fl_scope_rename(fl_front *p);                         /* takes "a = b::c;" after 'namespace' */
void fl_scope_tell_apart(fl_front *p, int64_t from);     /* makes ambiguous names FL_SYM_WRONG */
/* Takes the prefix "a::b::" of a name, and sets *inner to the *n names in b. 0: there is none. */
int fl_scope_prefix(fl_front *p, const fl_symbol **inner, int64_t *n);

/* ---- calls ----------------------------------------------------------------------------------- */

/* The symbol that a call names, or NULL; "::f" and "std::f" are no members or local variables. */
const fl_symbol *fl_scope_called(fl_front *p, const fl_ktok *name);
int fl_scope_is_of_file(const fl_front *p, const fl_ktok *t);     /* is it "::t" or "std::t"? */
/* May a call mean function d, which has the name of one that is built in or of the library? */
int fl_scope_means(const fl_front *p, const fl_kcall *c, const fl_kdevice *d);
/* Does d, of a namespace, hide a built-in function of its name from a call? */
int fl_scope_hides(const fl_front *p, const fl_kcall *c, const fl_kdevice *d);
#endif
