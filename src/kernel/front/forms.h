/* Unions, operators of structs, printf, lists of arrays, textures: the functions of union.c,
** operator.c, printf.c and texture.c, with some of parameter.c, value.c and turn.c. */
#ifndef FL_KERNEL_FORMS_H
#define FL_KERNEL_FORMS_H
#include "kernel/front/front.h"

#define FL_UNNAMED "struct"                  /* the name of a struct or union without a name */
const fl_ctype *fl_union_of(fl_front *p, const fl_ctype *parts, int32_t line);
/* fl_union_part: the member 'name' of a union, as an lvalue in the union's bytes. fl_union_open:
** adds the names of all members of t to the scope. */
fl_cvalue fl_union_part(fl_front *p, fl_cvalue v, const char *name, int32_t n, int32_t line);
void fl_union_open(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line);

fl_cvalue fl_operator_call(fl_front *p, int op, const fl_cvalue *args, int n, int32_t line);
/* a += b for structs: operator+= if there is one, else operator+ and an assignment */
fl_cvalue fl_operator_update(fl_front *p, int op, fl_cvalue to, fl_cvalue from, int32_t line);

/* parameter.c: reads the parameters of kernel f, from after its '(' to its ')'. *types: the type of
** each; NULL: unknown. */
void fl_front_parameters(fl_front *p, fl_kfunc *f, const fl_ctype ***types);
/* Fills the members of 'out' that describe the parameter's type, which is t. */
void fl_front_describe(fl_front *p, fl_kparam *out, const fl_ctype *t);
/* source.c: notes that the body of f is outside the language, with the reason for which p refused
** it. */
void fl_refuse_body(fl_front *p, fl_kfunc *f);
/* Adds a statement that stops a thread for which 'is' is false. */
fl_kstmt *fl_val_must(fl_front *p, fl_kexpr *is, const char *what, int32_t line);
/* Pointer number 'at' of a list of n arrays, of which 'first' points to the first. */
fl_cvalue fl_turn_list(fl_front *p, fl_cvalue first, int n, fl_kexpr *at, int32_t line);

int fl_texture_is(const fl_ctype *t);        /* is it cudaTextureObject_t? */
/* If the name at the tokens is a function that reads textures, reads the call, sets *out to its
** value (FL_V_NONE if it was refused) and returns 1; else 0. */
int fl_texture_call(fl_front *p, fl_cvalue *out);
int fl_texture_old(fl_front *p);             /* at "texture<": refuses it, 1 */

void fl_call_printf(fl_front *p, const fl_ktok *name);
/* Takes "name = "text";" at the '=' after "const char *name", and makes 'name' stand for the
** literal. 0: it is not such a declaration. */
int fl_decl_text(fl_front *p, const fl_ctype *t, const char *name);
#endif
