/* Rows before and after a product (rows.h): kernels/pitch.cu and kernels/bias.cu. */
#include "cuda/library/rows.h"
#include "base/num.h"
#include "cuda/compile/module.h"

static const char *half(int dtype) {
  return dtype == FLAME_BF16 ? "#define BF16 1\n" : "#define BF16 0\n";
}

int fl_rows_want_copy(fl_cuda *s) { return fl_cuda_want_file(s, "pitch.cu", "", 0); }
int fl_rows_want_bias(fl_cuda *s, int dtype) {
  return fl_cuda_want_file(s, "bias.cu", half(dtype), 0);
}

static flame_status start(fl_cuda *s, fl_cu_function f, int64_t blocks, void *args) {
  void *params[] = { args };
  return fl_cuda_launch(s, f, (const unsigned[]){ (unsigned)fl_min(blocks, INT32_MAX), 1, 1 },
                        (const unsigned[]){ 256, 1, 1 }, 0, params);
}

flame_status fl_rows_run_copy(fl_cuda *s, fl_rows_copy a) {
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, "pitch.cu", "", 0, "pitch", &f);
  return e == FLAME_OK ? start(s, f, a.to_rows * fl_ceil_div(a.to_cols, 2048), &a) : e;
}

flame_status fl_rows_run_bias(fl_cuda *s, int dtype, fl_rows_bias a) {
  fl_cu_function f;
  const flame_status e = fl_cuda_file_entry(s, "bias.cu", half(dtype), 0, "bias", &f);
  return e == FLAME_OK ? start(s, f, fl_ceil_div(a.rows * a.cols, 256), &a) : e;
}
