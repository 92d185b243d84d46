/*
** What follows from a kernel's structure for its text and parameters: class, lanes, which values
** vary where, and the word of each run-time number. The writer of the text and the function that
** fills the parameters both compute it here, so that they cannot disagree. Private to cuda/text/.
**
** Space dims are those of the kernel. The innermost dim is the one along which neighbouring threads
** are: the last one of MAP and ROW, the last kept one of COL.
*/
#ifndef FL_CUDA_TEXT_FORM_H
#define FL_CUDA_TEXT_FORM_H
#include "cuda/text/text.h"
#include "tensor/node.h"

typedef enum { C_MAP, C_GROUP, C_BLOCK, C_CHUNKS, C_COL } text_class;
/* C_MAP, C_COL: kernels of the kinds MAP and COL. A ROW is one of three: C_GROUP: several rows per
** block, lanes <= 32; C_BLOCK: one block per row, at most 32768 elements (more if it is read
** 'once'); C_CHUNKS: longer rows, and reductions of everything. */

/* With what a value changes: with nothing, with the kept index, with the vector, with the element.
** In a MAP no value is KEPT, in a ROW none is UNIFORM. The vector of a COL is two or four columns:
** KEPT values change with the column, UNIFORM ones with the reduced index only. */
typedef enum { V_CONST, V_KEPT, V_UNIFORM, V_ELEMENT } text_vary;

/* The first words of a launch's parameters (fl_text_params). F_VECTOR, a bit of W_FLAGS: vectors
** are aligned and whole. N: elements of a row, of a column; MAP: points. ROWS: rows; COL: tiles.
** SPAN: MAP: points of a block; COL, and ROW that sums over its rows: indices of a chunk. CHUNKS:
** chunks of a row, of a column. TILES: COL: tiles side by side. FAULT, SCRATCH, COUNTER: the
** addresses of fl_text_aux. From FIRST on: what assign_words (text_form.c) lists. */
enum { W_FLAGS, W_N, W_ROWS, W_SPAN, W_CHUNKS, W_TILES, W_FAULT, W_SCRATCH, W_COUNTER, W_FIRST };
enum { F_VECTOR = 1 };
/* ROW_CHUNK: elements of a chunk of a long row. FEW_: rows of two chunks (few, once). ONCE_: most
** vectors of a lane, and blocks, for rows that are read once. HELD_BYTES: what a thread of a MAP
** may hold of one vector. COL_WIDTH: columns of a tile. SLOT_BYTES: room for an accumulator in
** scratch. */
enum { MAP_THREADS = 256, ROW_VECTOR = 4, ROW_CHUNK = 32768, CHUNK_THREADS = 512,
       FEW_THREADS = 1024, FEW_VECTOR = 2,
       ONCE_STEPS = 28, ONCE_BLOCKS = 132,
       HELD_BYTES = 640, COL_LANES = FL_COLUMN_LANES, COL_WIDTH = 64, COL_THREADS = 256,
       SLOT_BYTES = 16, ACROSS_THREADS = 128 };
/* COSTLY: the weight from which an op counts as costly. MOST_WRITTEN: the most weight of costly ops
** that a text writes out; with more they are calls of functions, since NVRTC takes about 0.3 ms for
** each unit of weight, and can not be interrupted. */
enum { COSTLY = 8, MOST_WRITTEN = 5000 };

typedef struct text_form {
  const fl_kernel *k;
  uint8_t cls;                              /* text_class */
  uint8_t ndim;                             /* of the space: kept and reduced dims */
  uint8_t flat;                             /* no index is divided into coordinates */
  uint8_t wide;                             /* points are counted in 64 bits */
  uint8_t multi;                            /* the launch has several instances (text.h) */
  int8_t inner;                             /* innermost dim, -1: none */
  /* vector: elements of a vector (MAP, ROW), columns of a thread (COL); unroll: vectors in flight
  ** (MAP) or, once planned, rows in flight (COL) */
  int vector, unroll;
  int runs;              /* MAP, flag: what does not change along the innermost dim is computed once
                         ** for all vectors of a thread whose outer coordinates are the same */
  int lanes, steps, persist;  /* ROW: threads of a row; vectors of each; rows stay in registers */
  int threads;                              /* ROW, COL: threads per block, once planned */
  int blocks;                          /* blocks that a multiprocessor should hold; 0: any number */
  /* ROW: no vector that a lane takes ends beyond the row, so no bounds check is needed. If rows are
  ** read once, only the last vector of all may */
  int full;
  int calls;          /* once planned: costly functions are called, not written out at each use */
  int split;                                /* C_CHUNKS: one block per chunk; else per row */
  int once;           /* C_BLOCK: a block reads row after row, each once (text_row.c) */
  int across;         /* ROW: the number of stores that are sums over the rows (text_across.c) */
  int slots;          /* across, once planned: rows requested ahead by each warp or block */
  int few;            /* C_CHUNKS: there are two chunks, and a sweep reads a costly value of an
                      ** earlier sweep */
  uint8_t zero[FL_MAX_OPERANDS];            /* bit d: stride of dim d is 0 */
  uint8_t in[FL_MAX_OPERANDS];              /* innermost stride: 0, 1 or 2 (other) */
  uint8_t memory[FL_MAX_OPERANDS];  /* the operand has memory (one of an IOTA is only strides) */
  uint8_t kept[FL_MAX_OPERANDS];            /* only its strides along kept dims count */
  uint8_t quad[FL_MAX_OPERANDS];            /* gives the indices of a draw: a vector takes all four
                                            ** numbers of a generator block */
  int rounds;                               /* of reductions */
  int nred;                                 /* number of REDUCE instructions */
  uint16_t size[FL_MAX_AXES], magic[FL_MAX_AXES];              /* words */
  uint16_t ptr[FL_MAX_OPERANDS], stride[FL_MAX_OPERANDS][FL_MAX_AXES], gather[FL_MAX_OPERANDS];
  int words, faults;
  /* By instruction. Only as many entries as the kernel has instructions are set, since each run
  ** makes this struct again to fill the parameters. */
  uint8_t vary[FL_MAX_INSTR];
  uint8_t round[FL_MAX_INSTR];              /* how many rounds of reductions it needs */
  uint8_t used[FL_MAX_INSTR];               /* another value is computed from it */
  uint8_t costly[FL_MAX_INSTR];             /* it is costly to compute at each element, or it is
                                            ** made of such a value */
  uint16_t scalar[FL_MAX_INSTR], site[FL_MAX_INSTR];           /* words */
  uint16_t red[FL_MAX_INSTR];               /* the REDUCE instructions, nred */
} text_form;

void fl_text_form(const fl_kernel *k, int multi, text_form *f);
int fl_text_weight(int op);
/* the cost of instruction v, roughly in instructions */
int fl_text_value_weight(const text_form *f, int v);
int fl_text_kernel_weight(const text_form *f);
int fl_text_is_costly(const fl_instr *i);     /* a draw, or an op of weight COSTLY or more */
/* Decides f->calls, after all else is planned. */
void fl_text_plan_calls(text_form *f);

/* Writing: text_value.c. */
typedef struct text_writer {
  text_form *f;
  fl_text *out;
  const uint8_t *cached;        /* by value: it was computed before, and is in registers (k<v>[…])
                                ** or in pack k<v> (from shared memory, or of a COL's columns);
                                ** NULL: none was */
  const char *slot;             /* index of the current pack, "[u]", "[j]" or "[0]"; NULL: loads are
                                ** not from packs */
  const char *plus;             /* text added to the innermost coordinate, or NULL */
  int hits;                     /* the text has the t<v> of fl_text_target: use them */
} text_writer;
const char *fl_text_ctype(int reg);
const char *fl_text_suffix(int reg);
const char *fl_text_storage(int dtype);
/* Writes the helper functions and reduction structs that the kernel's instructions use. */
void fl_text_helpers(text_writer *w);
/* Writes "const T v5 = …;" for instruction v. Packs are read as l<v><slot>.get(q). */
void fl_text_value(text_writer *w, int v);
/* For reduction v these write the name of its struct, the element that it takes, and "const T v7 =
** …;", which is made from the combined accumulators. */
int fl_text_reduce_reg(const fl_instr *i);     /* type it accumulates in */
void fl_text_reducer(text_writer *w, int v);
void fl_text_reduce_input(text_writer *w, int v, const char *position);
void fl_text_reduce_result(text_writer *w, int v, const char *joined);
/* Does v compare each element's position in the row with one value that the row has? fl_text_target
** writes "t<v> = …;", the distance of that value from the lane's first element after 'base'; then
** each element needs one comparison with a constant. */
int fl_text_hit(const text_form *f, int v);
void fl_text_target(text_writer *w, int v);
/* Is v a value that is rounded to its half type only when it is stored? */
int fl_text_rounds_late(const text_form *f, int v);
/* Writes the values of 'need' with vary in [low, high], in order; reductions are omitted. */
void fl_text_values(text_writer *w, const uint8_t *need, int low, int high);
/* Does instruction v read a pack: is it a LOAD, or a GATHER with one position for the vector? */
int fl_text_packed(const text_form *f, int v);
/* Writes "out_f32(v5)": value v in the storage format of operand o. */
void fl_text_out(text_writer *w, int o, int v);
/* Writes the offset of operand o at the coordinates c0… and w->plus. */
void fl_text_offset(text_writer *w, int o);
/* Writes the coordinates of 'index' over dims [from, to), named c<d>. */
void fl_text_coords(text_writer *w, int from, int to, const char *index);
/* Declares the pointers "p<o>" of the operands and the arrays of packs "l<v>". */
void fl_text_pointers(text_writer *w);
void fl_text_packs(text_writer *w, const uint8_t *need, int vector, const char *count);
/* Marks in need[] the values that 'v' needs, itself included; a value that is marked in 'have'
** (NULL: none is) is marked, but not what it needs itself. */
void fl_text_need(const text_form *f, int v, const uint8_t *have, uint8_t *need);

void fl_text_map(text_writer *w);
void fl_text_row(text_writer *w);
/* The number of chunks, of 'chunk' elements each, into which a row of n elements is divided. */
static inline int64_t fl_text_count_chunks(int64_t n, int64_t chunk) {
  return n > chunk ? (n + chunk - 1) / chunk : 1;
}
/* Bytes of dynamic shared memory of a block that reads rows once: an f32 value of each element. */
static inline int64_t fl_text_once_bytes(int64_t steps) {
  return steps * FEW_THREADS * FEW_VECTOR * 4;
}
/* COL, and ROW that sums over its rows: the number of indices of a chunk of such a sum. */
int64_t fl_text_col_chunk(const fl_kernel *k);
/* o: the operand with the indices of a random draw. Does each vector of four elements begin where a
** block of the generator does, which gives four numbers? */
int fl_text_quads_fit(const text_form *f, int o);
/* Are there three sweeps over a row, which is loaded as 16 bits per element, and of which the third
** needs only one f32 value per element, which the second computed? */
int fl_row_reads_once(text_form *f);
void fl_text_row_plan(text_writer *w);       /* decides f->persist, threads, blocks, slots */
void fl_text_col_plan(text_writer *w);       /* decides f->threads, blocks, unroll */
void fl_text_col(text_writer *w);
#endif
