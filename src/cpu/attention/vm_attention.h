/* The loops of attention_loops.h for each float dtype, compiled for each
** instruction set (base/isa.h). */
#include "cpu/attention/attention.h"
#define TURN_SHORT
#include "cpu/vm/vm_turn.h"
#include "base/isa.h"
#include "tensor/math.h"
#include <math.h>
#include <string.h>

#define PLAIN(x) (x)
#define T double
#define S double
#define I int64_t
#define FROM(x) PLAIN(x)
#define OUT(x) PLAIN(x)
#define EXP(x) fl_exp_f64(x)
#define LOG(x) fl_log_f64(x)
#define LEAST -708.0
#define TURN turn_8_bytes
#define NAME(x) x##_f64
#include "cpu/attention/attention_loops.h"
#define T float
#define S float
#define I int32_t
#define FROM(x) PLAIN(x)
#define OUT(x) PLAIN(x)
#define EXP(x) fl_exp_f32(x)
#define LOG(x) fl_log_f32(x)
#define LEAST -87.0f
#define TURN turn_4_bytes
#define NAME(x) x##_f32
#include "cpu/attention/attention_loops.h"
#define T float
#define S uint16_t
#define I int32_t
#define FROM(x) fl_f16_value(x)
#define OUT(x) fl_f16_bits(x)
#define EXP(x) fl_exp_f32(x)
#define LOG(x) fl_log_f32(x)
#define LEAST -87.0f
#define TURN turn_4_bytes
#define NAME(x) x##_f16
#include "cpu/attention/attention_loops.h"
#define T float
#define S uint16_t
#define I int32_t
#define FROM(x) fl_bf16_value(x)
#define OUT(x) fl_bf16_bits(x)
#define EXP(x) fl_exp_f32(x)
#define LOG(x) fl_log_f32(x)
#define LEAST -87.0f
#define TURN turn_4_bytes
#define NAME(x) x##_bf16
#include "cpu/attention/attention_loops.h"

const fl_attention_loops FL_ISA_NAME(fl_attention) = { .of = {
#define ALL(t) \
  { score_##t, weigh_##t, drop_##t, fade_##t, put_##t, finish_##t, dot_##t, slope_##t, turn_##t, \
    rows_##t }
  [FLAME_F64] = ALL(f64), [FLAME_F32] = ALL(f32), [FLAME_F16] = ALL(f16), [FLAME_BF16] = ALL(bf16),
} };
