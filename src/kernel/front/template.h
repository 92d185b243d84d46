/* What template.c and pattern.c share: parameters of a template that are found one by one. */
#ifndef FL_KERNEL_TEMPLATE_H
#define FL_KERNEL_TEMPLATE_H
#include "kernel/front/front.h"

/* env[i].name NULL: not yet */
typedef struct fl_kdeduction { const fl_ktparam *t; int n; fl_symbol *env; } fl_kdeduction;

/* Parameter t is 'from'; a pack's elements are, all types or constants as t says. */
void fl_template_give(fl_symbol *to, const fl_ktparam *t, const fl_symbol *from);
void fl_template_give_pack(fl_front *p, fl_symbol *to, const fl_ktparam *t, const fl_symbol *from,
                           int n);
/* What the arguments of c, and what f is to return, tell of the parameters. */
void fl_template_deduce(fl_front *p, const fl_kdeduction *d, const fl_kdevice *f,
                        const fl_kcall *c);
/* The type that T is where the argument v meets "T", "T *" (pointer) or "T (&)[N]", T being the
** array. NULL: it cannot be. */
const fl_ctype *fl_deduce_meet(fl_front *p, const fl_cvalue *v, int pointer, int array, int ref);
/* of the parameter of that name, -1 */
int fl_deduce_index(const fl_kdeduction *d, const fl_ktok *t);
void fl_deduce_type(const fl_kdeduction *d, int i, const fl_ctype *type);
void fl_deduce_value(fl_front *p, const fl_kdeduction *d, int i, int64_t value);
/* "Vec<T, N>" at token i, against the struct that the argument is. */
void fl_deduce_struct(fl_front *p, const fl_kdeduction *d, const fl_ktemplate *of, int64_t i,
                      const fl_ctype *type);
#define FL_K_NAME_TEMPLATE "a kernel that is a template is named with its arguments, " \
                           "as in entry = \"name<float, 16>\""
int fl_template_same(const fl_symbol *a, const fl_symbol *b, int n);

/* "struct name<pattern> { … };" of template t, at '<'. */
void fl_pattern_add(fl_front *p, fl_ktemplate *t, fl_ktparam *params, int n);
/* The pattern of t that fits the arguments, with the values of its
** parameters in *env; NULL: none. */
const fl_kpattern *fl_pattern_find(fl_front *p, const fl_ktemplate *t, const fl_symbol *args,
                                   fl_symbol **env, int32_t line);
/* Of "struct alignas(N * sizeof(T)) name" with these arguments. */
int64_t fl_template_alignment(fl_front *p, const fl_ktemplate *t, const fl_symbol *args);
/* Takes "typename std::enable_if<…>::type" of a constant without meaning: its first
** token; 0: it is none. */
int64_t fl_pattern_condition(fl_front *p);
/* Forgets a refusal in tokens from … that ask enable_if for a type. 1: so it is. */
int fl_pattern_drops(fl_front *p, int64_t from);
#endif
