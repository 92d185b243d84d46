/*
** Saved programs: what a function of the script recorded, as text in a safetensors file, and
** loaded again (docs/programs.md has the format).
**
** Writing (export.c, leaves.c, write.c, save.c). While an export is open the context only records:
** it evaluates only values that depend on neither inputs nor random numbers. The roots are the
** values that f returned and those that it wrote into older tensors; the nodes that these need are
** written one per line, in recorded order. Three kinds of stored values are at the leaves:
**   inputs     placeholders, each in a separate buffer, by which it is known
**   states     tensors older than f that f wrote to. They are found by the first trace, moved to
**              separate buffers, and recognised by these from the second trace on
**   constants  everything else: weights. By content, so that each is saved once
** At the end all older handles name the nodes that they named before.
**
** Reading (parse.c, build.c, callee.c, program.c). A program is a list of terms for each line. A
** run records its nodes by the builders of tensor/build.h: every rule on shapes and dtypes is
** checked by the function that a script's op calls. Loading records each graph once, without
** evaluating.
**
** Owners. A program belongs to one context, and is emptied when the context is closed before it; it
** holds handles of its states and constants. It is used by the thread that is inside the context.
*/
#ifndef FL_GRAPH_GRAPH_H
#define FL_GRAPH_GRAPH_H
#include "base/text.h"
#include "io/io.h"
#include "kernel/function.h"
#include "tensor/build.h"

enum {
  FL_GRAPH_PORTS = 255,                 /* inputs, outputs */
  FL_GRAPH_NAME = 64,                   /* bytes of the name of an input or output, with the NUL */
  FL_GRAPH_LINES = 1 << 20,             /* of a program */
  FL_GRAPH_TEXT = 1 << 28               /* bytes of its text */
};

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct fl_older {               /* a handle that existed before f */
  flame_tensor *t;                      /* a reference, as is grad */
  fl_node *node;                        /* held */
  flame_tensor *grad;
} fl_older;

typedef struct fl_constant {
  fl_node *node;                        /* STORED, contiguous, held */
  uint64_t hash;                        /* of its bytes */
} fl_constant;

typedef struct fl_export {
  flame_context *c;
  fl_rng rng;                           /* when f was called */
  uint8_t open;                         /* f runs */
  uint8_t found;                       /* the last trace found new states, so it must be repeated */
  uint32_t (*line)(void *arg);          /* the script line that reads a value; NULL: c->site */
  void *arg;
  struct { fl_older *at; int64_t n, cap; } older;
  struct { flame_tensor **at; int64_t n, cap; } input;         /* placeholders */
  struct { flame_tensor **at; int64_t n, cap; } state;         /* the handles that f writes to */
  struct { flame_tensor **at; int64_t n, cap; } after;  /* the results of f: outputs, then states */
  struct { fl_constant *at; int64_t n, cap; } constant;
  struct { fl_kfunction **at; int64_t n, cap; } kernel;        /* a reference each */
  /* stored values that f has read: a reference to the buffer, and the script's line */
  struct { struct fl_seen { fl_buffer *b; uint32_t site; } *at; int64_t n, cap; } seen;
  struct { uint32_t *at; int64_t n, cap; } site;           /* script line of each text line */
} fl_export;

fl_export *fl_export_new(flame_context *c);           /* NULL with the error */
void fl_export_free(fl_export *x);
/* Evaluates what is recorded, then begins a trace of f. in[]: nin example values; x->input gets a
** placeholder for each. */
flame_status fl_export_begin(fl_export *x, int nin, flame_tensor *const *in);
/* Ends the trace after f and makes its graph as text. If states were found the text is empty: trace
** again. names: of the outputs; inputs: names of the inputs. The trace ends in any case. */
flame_status fl_export_end(fl_export *x, int nout, flame_tensor *const *out,
                           const char *const *names, const char *const *inputs, fl_text *text);
void fl_export_cancel(fl_export *x);                  /* f failed */
flame_status fl_export_save(fl_export *x, const char *path, const char *text, size_t n);
/* FLAME_INTERNAL: program p does not give the bits that f gave in the last trace, or not the same
** states afterwards. */
flame_status fl_export_same(fl_export *x, struct flame_program *p);

/* Used by the files of graph/. Finds the leaf of a stored value: *kind 'x' (input), 's' (state) or
** 'c' (constant) and its number; *at: the value's offset in it, in elements. 0 with the error. */
int fl_export_leaf(fl_export *x, const fl_node *n, char *kind, int64_t *number, int64_t *at);
/* The node of that leaf; of a state as it was before f, NULL if it is not older than f. */
const fl_node *fl_export_base(const fl_export *x, char kind, int64_t number);
/* the kernel's number; -1 with the error */
int64_t fl_export_kernel(fl_export *x, fl_kfunction *k);
flame_status fl_export_write(fl_export *x, int nout, flame_tensor *const *out,
                             const char *const *names, const char *const *inputs, fl_text *text);

/* ---- reading --------------------------------------------------------------------------------- */

/* A term: one word of a line. INT, NUMBER (a script's integer) and REAL are a + b n, where n is the
** size that varies; INT is divided by d and rounded up if d is not 0: blocks of a launch.
** BITS: the bits of a double. VALUE: a, the number of a value, input, state, constant or kernel, as
** 'space' is '%', 'x', 's', 'c' or 'k'. */
typedef enum { FL_TERM_INT, FL_TERM_NUMBER, FL_TERM_REAL, FL_TERM_BITS, FL_TERM_VALUE, FL_TERM_WORD,
               FL_TERM_DTYPE } fl_term_kind;
typedef struct fl_term { uint8_t kind; char space; int64_t a, b, d; const char *word; } fl_term;

enum { FL_LINE_INPUT = FL_OP_COUNT, FL_LINE_OUTPUT, FL_LINE_WRITE, FL_LINE_DRAWS };
typedef struct fl_line {
  uint16_t op; uint8_t call;            /* call: fl_call_kind */
  int32_t n, number;                    /* number of terms; number of the line in the text */
  const fl_term *term;
} fl_line;

/* The n lines from line 'first' on, of which 'values' make a value. example: what the size that
** varies was in the example; 0: none varies. */
typedef struct fl_graph { int32_t first, n, values; int64_t example; } fl_graph;
/* An input or output. size -1: it varies. */
typedef struct fl_port { const char *name; int dtype, rank; int64_t size[FL_MAX_AXES]; } fl_port;

/* A state's handle, and its value when the file was loaded. */
typedef struct fl_program_state { flame_tensor *now; fl_node *first; } fl_program_state;

typedef struct flame_program {
  flame_context *c;                     /* NULL: the context was closed, and all is freed */
  struct flame_program *next, **link;   /* of c->programs */
  char *text;                           /* words point into it */
  size_t bytes;
  struct { fl_term *at; int64_t n, cap; } term;
  struct { fl_line *at; int64_t n, cap; } line;
  struct { fl_graph *at; int64_t n, cap; } graph;
  struct { fl_port *at; int64_t n, cap; } input, output;
  struct { fl_program_state *at; int64_t n, cap; } state;
  struct { fl_node **at; int64_t n, cap; } constant;            /* held */
  struct { fl_kfunction **at; int64_t n, cap; } kernel;
  struct { fl_node **at; int64_t n, cap; } value;               /* of a run, by line */
  fl_rng rng;                           /* its own stream */
  int bad;                              /* number of the line with an error; 0: none */
} flame_program;

/* A run of a graph: nodes of inputs and states, and where the results go. */
typedef struct fl_build {
  flame_program *p;
  const fl_graph *g;
  int64_t n;                            /* the size that varies */
  fl_node **input, **state, **output;
  int trial;                            /* at loading: nothing is written */
  fl_rng rng;
} fl_build;

/* Reads the terms and lines of p->text, which is changed. An error names the line. */
flame_status fl_graph_parse(flame_program *p);
flame_status fl_graph_fail(flame_program *p, int line, const char *fmt, ...)
  __attribute__((format(printf, 3, 4)));
/* Records the graph; outputs are borrowed nodes. If it fails, p->bad is the line. */
flame_status fl_graph_build(fl_build *b);
/* A call of a user kernel from a file: NULL with the error if its arguments do not fit it. */
fl_node *fl_graph_launch(flame_context *c, fl_kfunction *k, int device, int dtype, int rank,
                         const int64_t *size, int nin, fl_node *const *in, int np, int64_t *p,
                         int ns, const fl_scalar *scalar);
/* Appends a kernel to t as text; makes a kernel from such a text (NULL with the error). */
void fl_graph_put_kernel(fl_text *t, const fl_kfunction *k);
fl_kfunction *fl_graph_read_kernel(flame_context *c, fl_span text);
#endif
