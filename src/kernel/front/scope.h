/*
** Names with a prefix, "a::b::c", and namespaces (scope.c). All functions of the source are in one
** list for each name, whatever namespace they are defined in; so it is asked here which of them a
** call means. A type, template or constant that several namespaces define is a symbol of kind WRONG
** with the 'choice' among them, of which a use picks one. Private to kernel/front.
*/
#ifndef FL_KERNEL_SCOPE_H
#define FL_KERNEL_SCOPE_H
#include "kernel/front/front.h"

typedef struct fl_kspace { const fl_ktok *name; const struct fl_kspace *up; } fl_kspace;
/* The innermost namespace around token 'at'; NULL: none with a name, or std. */
const fl_kspace *fl_scope_at(fl_front *p, int64_t at);
/* LATE_MEMBER: of a base that depends on an argument of a template: it hides no name around the
** template. */
typedef enum { FL_LATE_NO, FL_LATE_MEMBER, FL_LATE_ARGUMENT } fl_klate;

/* What s means where token t (NULL: the one at the tokens) names it, if it is a choice; else s. */
const fl_symbol *fl_scope_pick(fl_front *p, const fl_symbol *s, const fl_ktok *t);
/* The symbol that t names if it is declared in the namespace at the tokens; NULL: there is none. */
fl_symbol *fl_scope_own(fl_front *p, const fl_ktok *t);
/* Sets *inner to the *n names of file scope, an array that is valid until a name is added. */
void fl_scope_file(fl_front *p, const fl_symbol **inner, int64_t *n);
/* Is s (or NULL) a class or alias template, or the name of a struct that is an instance of one? */
int fl_scope_is_template(const fl_symbol *s);
int fl_scope_is_space(fl_front *p, const fl_ktok *t);
void fl_scope_rename(fl_front *p);                         /* takes "a = b::c;" after 'namespace' */
/* Notes the namespace of the symbols from number 'from' on, and makes ambiguous names WRONG. */
void fl_scope_tell_apart(fl_front *p, int64_t from);
/* Takes the prefix "a::b::" of a name, and sets *inner to the *n names in b. 0: there is none. */
int fl_scope_prefix(fl_front *p, const fl_symbol **inner, int64_t *n);

/* fl_scope_depends: does the base that is read from token 'from' to here depend on an argument of a
** template? fl_scope_inherit: adds the members of a base. late: the base depends on such an
** argument. */
int fl_scope_depends(fl_front *p, int64_t from);
void fl_scope_inherit(fl_front *p, const fl_symbol *list, int64_t n, int late);

/* Are a and b, no members, defined in different namespaces? */
int fl_scope_differ(fl_front *p, const fl_kdevice *a, const fl_kdevice *b);
/* ---- calls ----------------------------------------------------------------------------------- */

/* The symbol that a call names, or NULL; "::f" and "std::f" are no members or local variables. */
const fl_symbol *fl_scope_called(fl_front *p, const fl_ktok *name);
int fl_scope_is_of_file(const fl_front *p, const fl_ktok *t);     /* is it "::t" or "std::t"? */
/* fl_scope_nearest: how deep is the innermost namespace around the call that has one of the
** functions of the call's name (a list from 'first' on)? With a prefix: 0 if the prefix leads to
** one. -1: there is none. fl_scope_means: may the call, whose c->depth is the result of
** fl_scope_nearest, mean function d? */
int fl_scope_nearest(fl_front *p, fl_kdevice *first, const fl_ktok *name);
int fl_scope_means(fl_front *p, const fl_kcall *c, fl_kdevice *d);
/* Does d, of a namespace, hide a built-in function of its name from a call? */
int fl_scope_hides(fl_front *p, const fl_kcall *c, const fl_kdevice *d);
#endif
