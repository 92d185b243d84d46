/*
** Text of ROW kernels that also sum over their rows (fl_store.across): the gradients of a norm's
** gain and bias beside that of its input. A warp, or a block for rows of more than FL_WARP_ROW,
** does the rows of one lane of one chunk of these sums (text.h), so it adds them in the order in
** which a COL kernel does; it keeps the sum of each of its elements in registers (z<t>), and stores
** them as a partial result, after it has joined those of a block's four warps, whose lanes are 4
** apart. A COL kernel joins the partial results (fl_kernel.partial). What moves from row to row is
** requested ahead: each lane copies its elements of the next rows into shared memory, from which it
** alone reads them, so no barrier is needed. Each operand is read once.
**
** Names: first, end: the lane's rows, COL_LANES apart; slot: where the current row is, of
** f->slots per warp or block; ahead: a row that is requested.
*/
#include "cuda/text/text_row.h"
#include <stdio.h>

/* SHARED: bytes of shared memory of a multiprocessor; RESERVED: what a block has besides its rows;
** EVERY: what a block of every GPU may have */
enum { SHARED = 227 << 10, RESERVED = 4096, EVERY = 48 << 10 };

/* Is v a load of which each row has other elements? */
static int moves(const text_form *f, int v) {
  if (!fl_text_packed(f, v)) return 0;
  const int kept = (1 << f->k->nkept) - 1;
  return (f->zero[f->k->instr[v].arg] & kept) != kept;
}

void fl_row_across_early(row_writer *r) {
  for (int v = 0; v < r->w->f->k->ninstr; v++) r->early[v] = r->all[v] && moves(r->w->f, v);
}

int fl_row_is_asked(const row_writer *r, int v) {
  const text_form *f = r->w->f;
  return f->slots && r->early[v] && f->in[f->k->instr[v].arg] == 1;
}

/* Bytes of a row's requested elements of the values before value 'before'. */
static int row_bytes(const row_writer *r, int before) {
  int bytes = 0;
  for (int v = 0; v < before; v++)
    if (fl_row_is_asked(r, v)) bytes += fl_dtype_size(fl_row_instr(r->w, v)->dtype);
  return bytes * fl_row_room(r->w->f);
}

/* Plans the kernel. Where a warp computes a row, two rows are requested ahead, since a
** multiprocessor has few such warps; where a block does, one. Fewer if they do not fit into shared
** memory. */
void fl_row_across_plan(text_form *f) {
  text_writer w = { .f = f };
  row_writer r;
  f->persist = 1;
  f->threads = f->lanes > 32 ? f->lanes : ACROSS_THREADS;
  f->blocks = f->lanes > 256 ? 1 : 2;
  f->slots = f->lanes > 32 ? 1 : 2;
  fl_row_begin(&r, &w);
  int most = SHARED / f->blocks - RESERVED;
  const int room = (int)(f->k->room ? f->k->room : EVERY) - RESERVED;
  if (most > room) most = room;
  while (f->slots && fl_row_across_bytes(f) > most) f->slots--;
}

int fl_row_across_bytes(text_form *f) {
  text_writer w = { .f = f };
  row_writer r;
  int sum = 0;
  fl_row_begin(&r, &w);
  const int rows = f->threads / f->lanes, ahead = rows * f->slots * row_bytes(&r, f->k->ninstr);
  for (int t = 0; rows > 1 && t < f->k->nstore; t++) {
    const int size = fl_dtype_size(f->k->operand[f->k->store[t].operand].dtype);
    if (f->k->store[t].across && size > sum) sum = size;
  }
  return rows * sum * fl_row_room(f) > ahead ? rows * sum * fl_row_room(f) : ahead;
}

void fl_row_put_asked(const row_writer *r, int v) {
  const text_form *f = r->w->f;
  fl_text_printf(r->w->out, "l%d[j] = load<%d>((const %s *)(mine + slot * %d + %d) + e);\n", v,
                 f->vector, fl_text_storage(f->k->instr[v].dtype), row_bytes(r, f->k->ninstr),
                 row_bytes(r, v));
}

/* Writes the request of row 'ahead' into its slot. */
static void put_ask(row_writer *r, const char *ahead, const char *slot) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  if (!f->slots) return;
  fl_text_printf(w->out, "{\nconst long long ahead = %s;\nif (vector && ahead < end) {\n", ahead);
  fl_text_coords(w, 0, f->k->nkept, "ahead");
  fl_text_printf(w->out, "#pragma unroll\nfor (int j = 0; j < %d; j++) {\n"
                 "const int e = (j * %d + lane) * %d;\n%s{\n", f->steps, f->lanes, f->vector,
                 f->full ? "" : "if (e < n) ");
  fl_text_coords(w, f->k->nkept, f->ndim, "e");
  for (int v = 0; v < f->k->ninstr; v++) {
    if (!fl_row_is_asked(r, v)) continue;
    const int o = f->k->instr[v].arg, size = fl_dtype_size(f->k->instr[v].dtype);
    fl_text_printf(w->out, "ask<%d>(mine + %s * %d + %d + e * %d, p%d + ", size * f->vector, slot,
                   row_bytes(r, f->k->ninstr), row_bytes(r, v), size, o);
    fl_text_offset(w, o);
    fl_text_puts(w->out, ");\n");
  }
  fl_text_puts(w->out, "}\n}\n}\nend_ask();\n}\n");
}

void fl_row_put_ahead(row_writer *r) {
  char ahead[32];
  snprintf(ahead, sizeof ahead, "row + %d", COL_LANES * r->w->f->slots);
  put_ask(r, ahead, "slot");
}

/* Writes the stores of a lane's sums of store t: by whole vectors, or element by element. */
static void put_sums(row_writer *r, int t, int whole) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int o = f->k->store[t].operand;
  const char *type = fl_text_storage(f->k->operand[o].dtype);
  const char *how = fl_text_suffix(fl_dtype_reg(f->k->operand[o].dtype));
  fl_text_printf(w->out, "#pragma unroll\nfor (int j = 0; j < %d; j++) {\n"
                 "const int e = (j * %d + lane) * %d;\n", f->steps, f->lanes, f->vector);
  if (whole) fl_text_printf(w->out, "pack<%s, %d> o = {};\nif (e < n) {\n", type, f->vector);
  fl_text_printf(w->out, "#pragma unroll\nfor (int q = 0; q < %d; q++) %s{\n", f->vector,
                 whole ? "" : "if (e + q < n) ");
  if (whole) fl_text_printf(w->out, "o.put(q, out_%s(z%d[j * %d + q]));\n}\n", how, t, f->vector);
  fl_text_coords(w, f->k->nkept, f->ndim, whole ? "e" : "e + q");
  fl_text_printf(w->out, whole ? "store(p%d + block * n + " : "p%d[block * n + ", o);
  fl_text_offset(w, o);
  if (whole) fl_text_puts(w->out, ", o);\n}\n}\n");
  else fl_text_printf(w->out, "] = out_%s(z%d[j * %d + q]);\n}\n}\n", how, t, f->vector);
}

/* The same for the four lanes of a block, which are 4 apart: joins them, those 8 apart first. */
static void put_joined(row_writer *r, int t) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int o = f->k->store[t].operand, room = fl_row_room(f);
  const int reg = fl_dtype_reg(f->k->operand[o].dtype);
  const char *type = fl_text_ctype(reg), *add = fl_text_suffix(reg);
  fl_text_printf(w->out, "{\n%s *const sums = (%s *)held;\n__syncthreads();\n#pragma unroll\n"
                 "for (int j = 0; j < %d; j++) {\n#pragma unroll\n"
                 "for (int q = 0; q < %d; q++) sums[threadIdx.x / %d * %d + (j * %d + lane) * %d + q] "
                 "= z%d[j * %d + q];\n}\n__syncthreads();\n"
                 "for (int e = threadIdx.x; e < n; e += %d) {\n", type, type, f->steps, f->vector,
                 f->lanes, room, f->lanes, f->vector, t, f->vector, f->threads);
  fl_text_coords(w, f->k->nkept, f->ndim, "e");
  fl_text_printf(w->out, "p%d[block * n + ", o);
  fl_text_offset(w, o);
  fl_text_printf(w->out, "] = out_%s(fl_add_%s(fl_add_%s(sums[e], sums[%d + e]), "
                 "fl_add_%s(sums[%d + e], sums[%d + e])));\n}\n}\n", add, add, add, 2 * room, add,
                 room, 3 * room);
}

static void put_all_sums(row_writer *r) {
  const text_form *f = r->w->f;
  for (int t = 0; f->lanes <= 32 && t < f->k->nstore; t++)
    if (f->k->store[t].across) put_joined(r, t);
  if (f->lanes <= 32) return;
  for (int whole = 1; whole >= 0; whole--) {
    fl_text_puts(r->w->out, whole ? "if (vector) {\n" : "} else {\n");
    for (int t = 0; t < f->k->nstore; t++) if (f->k->store[t].across) put_sums(r, t, whole);
  }
  fl_text_puts(r->w->out, "}\n");
}

static void put_lane(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  const int parts = COL_LANES * f->lanes / f->threads;
  fl_text_printf(w->out, "const long long chunk = block / %d * w[%d];\n"
                 "const long long first = chunk + block %% %d + threadIdx.x / %d * %d;\n"
                 "const long long end = chunk + w[%d] < w[%d] ? chunk + w[%d] : w[%d];\n"
                 "const bool on = true;\nconst int base = 0;\n", parts, W_SPAN, parts, f->lanes,
                 parts, W_SPAN, W_ROWS, W_SPAN, W_ROWS);
  for (int t = 0; t < f->k->nstore; t++)
    if (f->k->store[t].across)
      fl_text_printf(w->out, "%s z%d[%d] = {};\n",
                     fl_text_ctype(fl_dtype_reg(f->k->operand[f->k->store[t].operand].dtype)), t,
                     f->steps * f->vector);
}

void fl_row_put_across(row_writer *r) {
  text_writer *w = r->w;
  const text_form *f = w->f;
  char count[16];
  put_lane(r);
  if (f->slots || f->lanes <= 32)
    fl_text_puts(w->out, "extern __shared__ __align__(16) s4 held[];\n");
  if (f->slots) {
    fl_text_printf(w->out, "char *const mine = (char *)held + threadIdx.x / %d * %d;\nint slot = 0;\n",
                   f->lanes, f->slots * row_bytes(r, f->k->ninstr));
    for (int i = 0; i < f->slots; i++) {
      char ahead[32];
      snprintf(ahead, sizeof ahead, "first + %d", i * COL_LANES);
      snprintf(count, sizeof count, "%d", i);
      put_ask(r, ahead, count);
    }
  }
  fl_text_printf(w->out, "#pragma unroll 1\nfor (long long row = first; row < end; row += %d) {\n",
                 COL_LANES);
  fl_text_coords(w, 0, f->k->nkept, "row");
  snprintf(count, sizeof count, "%d", f->steps);
  fl_text_packs(w, r->early, f->vector, count);
  if (f->slots) fl_text_printf(w->out, "wait_ask<%d>();\n", f->slots - 1);
  fl_row_put_loads(r, r->early, f->steps);
  fl_row_put_kept(r, 0);
  fl_row_put_sweeps(r, fl_row_sweeps(f));
  fl_row_put_kept_stores(r);
  /* with several joins per row, each is after a barrier of another: see put_once */
  if (f->lanes > 32 && f->nred < 2) fl_text_puts(w->out, "__syncthreads();\n");
  if (f->slots > 1) fl_text_printf(w->out, "slot = (slot + 1) %% %d;\n", f->slots);
  fl_text_puts(w->out, "}\n");
  put_all_sums(r);
}
