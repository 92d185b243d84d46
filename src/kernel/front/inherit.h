/* What a struct has from its bases (inherit.c). */
#ifndef FL_KERNEL_INHERIT_H
#define FL_KERNEL_INHERIT_H
#include "kernel/front/front.h"

/* "using V::name;" in a struct, where V is a base that has a field or functions of that name. */
typedef struct fl_kuse {
  const char *name;
  int32_t n;
  const fl_ctype *base;
  struct fl_kuse *next;
} fl_kuse;

/* After the n bases 'fields' were read: inherits their types and constants, and adds a symbol of
** kind FL_SYM_WRONG for each name that two of them have. */
void fl_inherit_bases(fl_front *p, const fl_cfield *fields, int n);
/* Takes "using V::x, …;" among members, where V is one of these bases. Types and constants become
** symbols, other members are added to *uses. 0: it is something else, nothing is taken. */
int fl_inherit_using(fl_front *p, const fl_cfield *fields, int n, fl_kuse **uses);
/* After the functions of struct t were listed, whose symbols begin at 'mark': adds those of 'uses',
** and those of its bases that no name of t hides. */
void fl_inherit_functions(fl_front *p, const fl_ctype *t, const fl_kuse *uses, int64_t mark);
/* Drops those of the n symbols that fields of t, or its 'uses', hide. Returns how many stay. */
int64_t fl_inherit_hidden(const fl_ctype *t, const fl_kuse *uses, fl_symbol *list, int64_t n);
/* Binds the names of t->uses to the fields of 'self' that they name. base: as in fl_cfield. */
void fl_inherit_open(fl_front *p, const fl_ctype *t, const fl_cvalue *self, int base, int32_t line);
/* Has t, or a base or an unnamed member of it, a field 'name'? */
int fl_inherit_has_field(const fl_ctype *t, const char *name, int32_t n);
/* The first name that two fields of t, its bases and its members have, so that a script could not
** name both; NULL: there is none. */
const char *fl_inherit_same(const fl_ctype *t);
/* Makes the object 'place' by constructor d, which may be one of a base: all but that base is then
** made by default. c: the call. */
void fl_inherit_make(fl_front *p, fl_cvalue place, fl_kdevice *d, const fl_kcall *c);
/* How many symbols at the start of m->inner are no members; m may be NULL. */
static inline int fl_inherit_arguments(const fl_kmembers *m) { return m ? m->n_args : 0; }
#endif
