/* More functions of the front end (front.h): for pointers and references to one of several objects,
** pointers in objects, unions, operators of structs, the parameters of kernels, addresses in shared
** memory, textures and printf. */
#ifndef FL_KERNEL_FORMS_H
#define FL_KERNEL_FORMS_H
#include "kernel/front/front.h"

/* ---- turn.c: pointers into one of several arrays -------------------------------------------- */

/* The turn (a pointer into one of several arrays) that 'var' stands for; NULL: var is an ordinary
** variable. */
fl_kturn *fl_turn_of(const fl_front *p, int32_t var);
/* May a pointer to 'of' that points to v at first (NULL: nowhere yet) become a turn? It may if 'of'
** is a number, or a struct of numbers of one type, and the memory of v has elements of that
** type. */
int fl_turn_fits(const fl_front *p, const fl_ctype *of, const fl_cvalue *v);
/* Called if one pointer is to point where x does and where y does, into two arrays. 1: it can, as
** the body is read with turns (p->turning). 0: it can not; if turns would help, sets
** p->turn_wanted, so that the body is read again with them. */
int fl_turn_wanted(fl_front *p, const fl_cvalue *x, const fl_cvalue *y);
/* With p->turning: is pointer 'name' assigned, or an argument by itself, between token 'at' and the
** end of its block? depth: 1 if 'at' is inside that block, 0 if it is its '{'. Without p->turning:
** 0. */
int fl_turn_later(const fl_front *p, int64_t at, int depth, const char *name);
/* Is pointer 'name' assigned between token 'at' and the end of its block (depth as for
** fl_turn_later), or changed by ++ or +=? With 'passed' and p->turning it counts too if it is an
** argument by itself. */
int fl_turn_moves(const fl_front *p, int64_t at, int depth, const char *name, int passed);
/* Do x and y, of which one at least is a turn, point into one array? */
fl_kexpr *fl_turn_same(fl_front *p, fl_cvalue x, fl_cvalue y);
/* Makes a turn. from: where it points at first, or NULL. */
fl_cvalue fl_turn_new(fl_front *p, const fl_ctype *of, int is_const, const char *name,
                      const fl_cvalue *from, int32_t line);
/* Makes t point into the array of 'from'; the caller sets the index. */
void fl_turn_set(fl_front *p, fl_kturn *t, fl_cvalue from, int32_t line);
/* The value of "c ? x : y". */
fl_cvalue fl_turn_choose(fl_front *p, fl_kexpr *c, fl_cvalue x, fl_cvalue y, int32_t line);
void fl_turn_lower(fl_front *p);       /* after the body was read: replaces accesses to turns */

/* ---- held.c: pointers that are members of objects -------------------------------------------- */

void fl_held_new(fl_front *p, int32_t var);        /* var: a LOCAL that holds the pointer's index */
int fl_held_alone(const fl_front *p, const fl_cvalue *v);      /* v points to a single variable */
int fl_held_is(const fl_front *p, const fl_cvalue *v);       /* v is the place of such a member */
fl_cvalue fl_held_read(fl_front *p, fl_cvalue place, int32_t line);
void fl_held_assign(fl_front *p, fl_cvalue place, fl_cvalue from, int32_t line);
/* For arrays of pointers in a struct that is spread (spread.c). fl_held_row: makes the list v row
** 'row' of the member with variable 'var'. fl_held_list: v is the place of an array of pointers;
** returns the list of that row. */
void fl_held_row(fl_front *p, int32_t var, int64_t row, fl_cvalue v);
fl_cvalue fl_held_list(fl_front *p, fl_cvalue v, int32_t line);
/* Copies the rows of 'from', a member that is an array of pointers, to the member 'to'. */
void fl_held_copy(fl_front *p, fl_cvalue to, fl_cvalue from, int32_t line);

/* ---- choose.c: "c ? x : y" as an lvalue ------------------------------------------------------ */

/* Prepares v, an arm of "c ? x : y" with the effects 'side', to be used as an lvalue after the
** choice: puts its index in a temporary that is declared before the choice. 0: it can not be used
** so, for instance if it is in a variable from number 'first' on, which an arm has declared. */
int fl_choose_pin(fl_front *p, fl_cvalue *v, fl_kblock *side, int32_t first);
/* Notes in v, the value of "c ? x : y", that it is one of the lvalues x and y (fl_cvalue.either).
** Notes nothing if x or y is no lvalue or their types differ. c NULL: as in fl_keither. */
void fl_choose_note(fl_front *p, fl_cvalue *v, fl_kexpr *c, const fl_cvalue *x,
                    const fl_cvalue *y);
/* Declares the const variable 'name', whose value is the constant e. */
void fl_choose_name(fl_front *p, const char *name, const fl_kexpr *e);
/* Turns the value v of a choice of two lvalues, or of a const variable, into the lvalue; any other
** v stays. */
void fl_choose_place(fl_front *p, fl_cvalue *v, int32_t line);
/* Requests that variables to which x and y point become arrays, so that one pointer can point to
** either. 1: the body is read again with these arrays. */
int fl_choose_arrays(fl_front *p, const fl_cvalue *x, const fl_cvalue *y);
/* Turns v into what the reference 'name' is bound to: an lvalue that stays where it is when a
** pointer into one of several arrays, through which it was found, is assigned. If the reference is
** to const (is_const), a const variable stays a value, and so does a choice of two lvalues that
** nothing changes: const ones, and local scalars if the called function takes copies ('pure'). */
void fl_choose_bound(fl_front *p, fl_cvalue *v, int is_const, int pure, const char *name,
                     int32_t line);

/* ---- more of view.c, stmt.c, object.c, call.c, writes.c, union.c, order.c, operator.c -------- */

/* Requests an array of its elements for the object of variable 'var', if they are of one type.
** Returns 1 if it becomes one, for which the body is then read again. */
int fl_view_array(fl_front *p, int32_t var);
/* stmt.c. Adds the statement var = e; NULL: none. */
void fl_emit_assign(fl_front *p, int32_t var, fl_kexpr *e, int32_t line);
/* declare.c. Does a declaration begin at token t? "T(…" and "T{…" are expressions; a declaration
** "T(name);" is refused. */
int fl_decl_begins(fl_front *p, const fl_ktok *t);
/* return.c. Reads a statement of a constexpr function. Returns 1 if it returned (with *result) or
** was refused. */
int fl_fold_statement(fl_front *p, fl_kexpr **result);
int fl_decl_is_range(fl_front *p);    /* object.c. After '(' of a for: is it "for (T v : a)"? */
/* object.c. The list of "for (int v : {1, 2, 3})" as an array of type 'of'. */
fl_cvalue fl_decl_listed(fl_front *p, const fl_ctype *of, int32_t line);
/* object.c. A variable for a leaf of an object; -1: no memory. */
int fl_decl_leaf(fl_front *p, const fl_kfield *f, fl_kvkind kind, int type, int32_t line);
/* call.c. Reads arguments up to and with 'close', which is ')' or '}'; the opening token was taken.
** Those in braces are evaluated in order. Returns their number, at most 'max'; p->failed is set if
** the text was refused. what: what they are, for messages. */
int fl_parse_list(fl_front *p, fl_cvalue *args, int max, int close, const char *what);
/* writes.c. fl_call_takes_copies: can d get copies of what it takes by reference to const and of
** its object, since it writes nothing that its caller has and returns nothing that refers to it?
** fl_call_object: self as the object of calls of the functions from d up to 'end' (excluded) in a
** list: the lvalue that a choice gives, unless all of them take copies; a new object if self is not
** stored. */
int fl_call_takes_copies(fl_front *p, const fl_kdevice *d);
fl_cvalue fl_call_object(fl_front *p, fl_cvalue self, const fl_kdevice *d, const fl_kdevice *end,
                         int32_t line);

#define FL_UNNAMED "struct"                  /* the name of a struct or union without a name */
/* The union whose members are the fields of the struct 'parts'; NULL: refused, or no memory. */
const fl_ctype *fl_union_of(fl_front *p, const fl_ctype *parts, int32_t line);
/* fl_union_part: the member 'name' of a union, as an lvalue in the union's bytes. fl_union_open:
** adds the names of all members of t to the scope. */
fl_cvalue fl_union_part(fl_front *p, fl_cvalue v, const char *name, int32_t n, int32_t line);
/* Reads the initialiser of constructor d of a union; 'self' is the union. */
void fl_union_inits(fl_front *p, const fl_kdevice *d, fl_cvalue self);
/* member.c. Takes "= e", "{…}" or "(…)" at the tokens, which initialises 'to'. */
void fl_member_initialise(fl_front *p, fl_cvalue to, int32_t line);
void fl_union_open(fl_front *p, const fl_ctype *t, fl_cvalue v, int32_t line);

/* order.c. fl_order_before for the arguments of a function. One that is changed becomes 'torn': a
** formal that is not a reference gets the value that it had before the statements added since m.
** fl_order_value: that value of a torn object v; fl_order_now: v as those statements leave it. */
void fl_order_passed(fl_front *p, fl_cvalue *args, int n, const fl_kmark *m, int32_t line);
fl_cvalue fl_order_value(fl_front *p, fl_cvalue v, int32_t line);
fl_cvalue fl_order_now(fl_front *p, fl_cvalue v, int32_t line);

int fl_operator_of(int punct, int *level);      /* expr.c: FL_KO_* of a binary operator, or NONE */
/* Calls the operator of that name for these operands: a member of the first, a friend in the struct
** of either, or a free function. 0: there is none; 1 also if the text was refused. */
int fl_operator(fl_front *p, const char *name, const fl_cvalue *args, int n, fl_cvalue *out,
                int32_t line);
/* Calls the operator, named by op and 'more', that the text defines for these operands, of which at
** least one must be a struct or an enumeration. 0: there is none. */
int fl_operator_found(fl_front *p, const char *op, const char *more, const fl_cvalue *args, int n,
                      fl_cvalue *out, int32_t line);
/* Refuses && or || ('name': "operator&&", …) whose left operand x is an enumeration, where the text
** has such a function: it would be called with both operands. */
void fl_operator_logic(fl_front *p, const char *name, const fl_cvalue *x, int32_t line);
/* x op y for structs that convert to numbers or pointers */
fl_cvalue fl_operator_plain(fl_front *p, int op, fl_cvalue x, fl_cvalue y, int32_t line);
/* a += b for structs: operator+= if there is one, else operator+ and an assignment */
fl_cvalue fl_operator_update(fl_front *p, int op, fl_cvalue to, fl_cvalue from, int32_t line);

/* qualified.c. fl_qualified: the value of the name at the tokens, after a prefix with these names.
** fl_qualified_part: if a prefix is at the tokens ("v.V::x"), *v becomes the member, or the result
** of its call, and 1 is returned. fl_qualified_call: at '(': the call of a function whose name is
** in brackets, as in "(f)(x)"; 0: there is none. fl_qualified_address: refuses "&V::x", a pointer
** to a member, whose operand began at token 'first'. */
fl_cvalue fl_qualified(fl_front *p, const fl_symbol *inner, int64_t n);
int fl_qualified_part(fl_front *p, fl_cvalue *v, int32_t line);
int fl_qualified_call(fl_front *p, fl_cvalue *out);
void fl_qualified_address(fl_front *p, int64_t first);
fl_cvalue fl_parse_named(fl_front *p, const fl_ktok *t);      /* unary.c: the value of name t */

/* ---- parameter.c, spread.c: the parameters of kernels ---------------------------------------- */

enum { FL_K_MAX_PARAMETERS = 256 };       /* of a kernel; a call takes fewer (FL_KP_MAX_ARGS) */
/* For each parameter: its type in the text (NULL: unknown), and, for the first one of a struct that
** is spread over several (spread.c), that struct; else 'whole' is NULL. */
typedef struct fl_kptypes { const fl_ctype **at, **whole; } fl_kptypes;
/* Reads the parameters of kernel f, from after its '(' to its ')'. */
void fl_front_parameters(fl_front *p, fl_kfunc *f, fl_kptypes *types);
/* Adds f->params[f->n_params], of which type and name are set, to the parameters, and sets its
** offset; a list (list_of) of n arrays becomes n parameters. most: how many arrays the list may
** have; 0: any number. *at: the end of the parameters so far in bytes. */
void fl_front_place(fl_front *p, fl_kfunc *f, const fl_ctype **types, int64_t most, int64_t *at);
/* Makes the variables of parameter i, of type t, one for each leaf (source.c). 0: refused, or no
** memory. */
int fl_front_variables(fl_front *p, fl_kfunc *f, int i, const fl_ctype *t);
/* decl.c. fl_decl_arrays for a member of a struct, where arrays of pointers are allowed. */
const fl_ctype *fl_decl_member_arrays(fl_front *p, const fl_ctype *t);
int fl_spread_is(const fl_ctype *t);             /* is it a struct that holds pointers? */
/* Adds the parameters for f->params[f->n_params], a struct of type t that is spread. */
void fl_spread_parameters(fl_front *p, fl_kfunc *f, fl_kptypes *types, const fl_ctype *t,
                          int64_t *at);
/* At the start of the body: declares the object of the struct whose parameters begin with number
** 'first'. Returns how many these are. */
int fl_spread_bind(fl_front *p, fl_kfunc *f, int first, const fl_kptypes *types);
/* Fills the members of 'out' that describe the parameter's type, which is t. */
void fl_front_describe(fl_front *p, fl_kparam *out, const fl_ctype *t);
/* source.c: notes that the body of f is outside the language, with the reason for which p refused
** it. */
void fl_refuse_body(fl_front *p, fl_kfunc *f);
/* Adds a statement that stops a thread for which 'is' is false. what: the condition in words. */
fl_kstmt *fl_val_must(fl_front *p, fl_kexpr *is, const char *what, int32_t line);
/* Pointer number 'at' of a list of n arrays ("T **xs"); 'first' points into array 0. */
fl_cvalue fl_turn_list(fl_front *p, fl_cvalue first, int n, fl_kexpr *at, int32_t line);

/* unary.c, shared.c. fl_cast_address: makes the pointer v an address in bytes (fl_cvalue.address).
** fl_shared_is: is v such an address, and t an integer type that can hold it? fl_shared_wrong:
** refuses to use such an address as any other number. fl_call_shared: 1: t is
** __cvta_generic_to_shared or an asynchronous copy; *out: its value. */
void fl_cast_address(fl_front *p, fl_cvalue *v, int32_t line);
int fl_shared_is(const fl_cvalue *v, const fl_ctype *t);
fl_kexpr *fl_shared_wrong(fl_front *p, int32_t line);
int fl_call_shared(fl_front *p, const fl_ktok *t, const fl_cvalue *args, int n, fl_cvalue *out);

int fl_texture_is(const fl_ctype *t);        /* is it cudaTextureObject_t? */
/* If the name at the tokens is a function that reads textures, reads the call, sets *out to its
** value (FL_V_NONE if it was refused) and returns 1; else 0. */
int fl_texture_call(fl_front *p, fl_cvalue *out);
int fl_texture_old(fl_front *p);             /* at "texture<": refuses it, 1 */

void fl_call_printf(fl_front *p, const fl_ktok *name);
/* Takes "= "text"" after "const char *name", and makes 'name' stand for the literal. 0: it is not
** such a declaration. */
int fl_decl_text(fl_front *p, const fl_ctype *t, const char *name);

/* lambda.c: is v a function as a value, or a lambda? */
int fl_function_is(const fl_cvalue *v);
#endif
