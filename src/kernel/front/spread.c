/*
** Structs that hold pointers as parameters of kernels, by value. Such a parameter is spread: each
** pointer of it, and each other member as a whole, is a parameter of the kernel in the tree, in the
** order of the declaration, named as the text names it:
**
**   struct Params { const float *x; float *at[8]; Box box; };      __global__ void k(Params p)
**   k(p.x, p.at[0], p.at[1], …, p.box)
**
** So a pointer in a struct is an array of the launch like any other, with a role, a gradient and
** checks. The body gets a local object p: a member that holds no pointer is the parameter's
** variable itself, a pointer is a held one (held.c) that begins at its array. A row of an array of
** pointers is a list (a T **, parameter.c), whose length a call tells; for the member itself the
** object has a variable that no statement names.
**
** An accessor of torch.cu is spread as well: its array has the name of the accessor ("x"), its
** lengths are "x.size(0)", …. The script gives a tensor for it, which has these lengths. A text
** with accessors has many lengths that are equal in practice, and what an index is proven to do
** depends on it: "if (c < gates.size(2)) h[n][c] = …" writes separate elements if h.size(1) is no
** less. So a call uses the kernel in which lengths that are equal in this call are one
** (fl_kparam.same), and the text is read once for each such set of equations
** (lua/kernel_parts.c).
**
** A pointer of a spread struct through which the body never writes is const, whatever its type
** says: structs rarely say it, accessors never. A device runs the text that is printed from the
** tree, since the source has other parameters; without a tree the kernel is refused
** (rule/program.c).
*/
#include "kernel/front/forms.h"
#include "kernel/front/template.h"
#include <string.h>

#define ACCESSOR "fl_torch_view"                                    /* in torch.cu */

static int has_pointer(const fl_ctype *t) {
  t = fl_ctype_innermost(t);
  int has = t->kind == FL_C_POINTER;
  for (int i = 0; t->kind == FL_C_STRUCT && i < t->s->n_fields && !has; i++)
    has = has_pointer(t->s->fields[i].type);
  return has;
}

int fl_spread_is(const fl_ctype *t) { return t->kind == FL_C_STRUCT && has_pointer(t); }

/* How many axes the accessor of type t has; 0: t is no accessor. */
static int axes_of(const fl_ctype *t) {
  const fl_kmembers *m = t->s->members;
  return m && m->of && !strcmp(m->of->name, ACCESSOR) ? t->s->n_fields - 1 : 0;
}

/* ---- the parameters -------------------------------------------------------------------------- */

typedef struct spread {
  fl_front *p;
  fl_kfunc *f;
  fl_kptypes *types;
  fl_kparam like;                /* what all parts have in common */
  int64_t *at;
} spread;

/* Adds the part 'name' of type t as a parameter, or if 'list', where t is an array of pointers, as
** a list of arrays. */
static void add(spread *x, const fl_ctype *t, const char *name, int list) {
  fl_front *p = x->p;
  if (!name || !fl_front_room(p, x->f->n_params, FL_K_MAX_PARAMETERS, "parameters of a kernel"))
    return;
  const fl_ctype *one = list ? t->of : t;
  fl_kparam *q = &x->f->params[x->f->n_params];
  *q = x->like;
  q->name = name;
  fl_front_describe(p, q, one);
  if (one->kind == FL_C_POINTER && (one->of->kind == FL_C_POINTER || fl_texture_is(one)))
    fl_refuse(p, q->line, "'%s' is a pointer to pointers or a texture in a struct" FL_DO
              ": make it a parameter", name);
  if (list) q->list_of = name;
  x->types->at[x->f->n_params] = t;
  fl_front_place(p, x->f, x->types->at, list ? t->count : 0, x->at);
}

/* Adds the rows of t, an array of pointers with any number of dimensions, each as a list. */
static void add_rows(spread *x, const fl_ctype *t, const char *name) {
  if (t->of->kind != FL_C_ARRAY) add(x, t, name, 1);
  else
    for (int i = 0; i < t->count && !x->p->failed && name; i++)
      add_rows(x, t->of, fl_karena_printf(x->p->a, "%s[%d]", name, i));
}

/* Adds the parts of the struct t, which is called 'name'. */
static void add_parts(spread *x, const fl_ctype *t, const char *name) {
  const int axes = axes_of(t);
  for (int i = 0; i < t->s->n_fields && !x->p->failed && name; i++) {
    const fl_cfield *m = &t->s->fields[i];
    const fl_ctype *of = fl_ctype_innermost(m->type);
    x->like.axes = (uint8_t)axes;
    x->like.axis = (int8_t)(i - 1);
    const char *part = m->base || (axes && !i) ? name
                       : axes ? fl_karena_printf(x->p->a, "%s.size(%d)", name, i - 1)
                              : fl_karena_printf(x->p->a, "%s.%s", name, m->name);
    if (!has_pointer(of)) {
      if (fl_ctype_leaves(of)) add(x, m->type, part, 0);
    } else if (m->type->kind == FL_C_STRUCT) {
      add_parts(x, m->type, part);
    } else if (m->type->kind == FL_C_POINTER) {
      add(x, m->type, part, 0);
    } else if (of->kind == FL_C_POINTER) {
      add_rows(x, m->type, part);
    } else {
      fl_refuse(x->p, x->like.line, "'%s' is an array of structs that hold pointers" FL_DO
                ": write a struct of arrays of pointers", part);
    }
  }
}

void fl_spread_parameters(fl_front *p, fl_kfunc *f, fl_kptypes *types, const fl_ctype *t,
                          int64_t *at) {
  const fl_kparam *q = &f->params[f->n_params];
  /* a copy: its address tells the struct from others of the same name ("unnamed") */
  const char *name = fl_karena_str(p->a, q->name, strlen(q->name));
  spread x = { p, f, types, { .line = q->line, .part_of = name }, at };
  types->whole[f->n_params] = t;
  add_parts(&x, t, name);
}

/* ---- the local object ------------------------------------------------------------------------ */

typedef struct object {
  fl_front *p;
  fl_kfunc *f;
  const fl_kptypes *types;
  int next;                                  /* parameter of the next member */
  int32_t held[FL_K_MAX_PARAMETERS];         /* by parameter: the variable of the held pointer, or
                                             ** of a length that is the same as another; else -1 */
} object;

/* A pointer to the array of parameter i, of the pointer type t. */
static fl_cvalue array_of(const object *o, int i, const fl_ctype *t) {
  const fl_kparam *q = &o->f->params[i];
  fl_cvalue v = { .kind = FL_V_POINTER, .linear = 1, .is_const = q->is_const, .type = t->of,
                  .var = q->first_var };
  if (q->is_null) v.when = fl_kexpr_int(o->p->a, FL_KT_BOOL, 0);
  return v;
}

/* Makes each row of t, an array of pointers that is the member with variable var, a list. *row: the
** number of the next row. */
static void hold_rows(object *o, const fl_ctype *t, int32_t var, int64_t *row) {
  if (t->of->kind == FL_C_ARRAY) {
    for (int64_t i = 0; i < t->count; i++) hold_rows(o, t->of, var, row);
    return;
  }
  const fl_kparam *q = &o->f->params[o->next];
  const fl_cvalue v = { .kind = FL_V_POINTER, .linear = 1, .type = t->of,
                        .list = (uint8_t)q->lists, .var = q->first_var };
  fl_held_row(o->p, var, (*row)++, v);
  o->next += q->lists ? q->lists : 1;
}

/* Makes the variable of a member of type t that is a pointer, an array of pointers or a length that
** is the same as another one. */
static void hold(object *o, const fl_ctype *t) {
  const fl_kparam *q = &o->f->params[o->next];
  const int32_t var = fl_kvar_add(o->f, FL_KV_LOCAL, q->same ? q->type : FL_KT_I64, q->name, 1);
  int64_t row = 0;
  if (var < 0) return;
  o->f->vars[var].line = q->line;
  if (t->kind == FL_C_ARRAY) { hold_rows(o, t, var, &row); return; }
  if (!q->same) fl_held_new(o->p, var);
  o->held[o->next++] = var;
}

/* Makes the variables of the struct t, whose numbers follow each other. */
static void make(object *o, const fl_ctype *t) {
  for (int i = 0; i < t->s->n_fields && !o->p->failed; i++) {
    const fl_ctype *m = t->s->fields[i].type;
    const int held = has_pointer(m);
    if (held && m->kind == FL_C_STRUCT) make(o, m);
    else if (held || o->f->params[o->next].same) hold(o, m);
    else if (fl_ctype_leaves(m)) fl_front_variables(o->p, o->f, o->next++, m);
  }
}

/* Gives the held variable of parameter i its value: the array, or the length that is the same. */
static void begin(object *o, int i) {
  fl_front *p = o->p;
  const fl_kparam *q = &o->f->params[i];
  const int32_t var = o->held[i];
  const fl_ctype *t = o->types->at[i];
  fl_kstmt_decl(o->f, p->b, var);
  if (q->same)
    fl_kstmt_assign(o->f, p->b, var, fl_kexpr_var(o->f, o->f->params[q->same - 1].first_var));
  else
    fl_held_assign(p, (fl_cvalue){ .kind = FL_V_PLACE, .type = t, .var = var }, array_of(o, i, t),
                   q->line);
}

int fl_spread_bind(fl_front *p, fl_kfunc *f, int first, const fl_kptypes *types) {
  object o = { .p = p, .f = f, .types = types, .next = first };
  int end = first;
  for (; end < f->n_params && f->params[end].part_of == f->params[first].part_of; end++) {
    o.held[end] = -1;
    if (f->params[end].is_pointer || f->params[end].same)
      fl_front_variables(p, f, end, types->at[end]);
  }
  const fl_cvalue v = { .kind = FL_V_PLACE, .type = types->whole[first], .var = f->n_vars };
  if (!p->failed) make(&o, v.type);
  for (int i = first; i < end && !p->failed; i++) if (o.held[i] >= 0) begin(&o, i);
  fl_front_bind(p, f->params[first].part_of, FL_SYM_OBJECT, v);
  return end - first;
}
