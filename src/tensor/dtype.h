/*
** Dtypes, and the four register types that kernels compute in. A value of dtype D lives
** in a register of fl_dtype_reg(D) and is rounded (f16, bf16), wrapped (i16, i8, u8) or
** normalised to 0/1 (bool) to D after every recorded op, on every device: docs/design.md 1.8.
** The enum order of flame_dtype is that of dtype.def.
*/
#ifndef FL_TENSOR_DTYPE_H
#define FL_TENSOR_DTYPE_H
#include "flame.h"
#include <stdint.h>

typedef enum { FL_REG_F64, FL_REG_F32, FL_REG_I64, FL_REG_I32, FL_REG_COUNT } fl_reg;
typedef enum { FL_CLASS_BOOLEAN, FL_CLASS_INTEGER, FL_CLASS_FLOAT } fl_class;

typedef struct fl_dtype_info {
  const char *name, *kernel;         /* kernel: name of the type in the text of kernels */
  uint8_t size, reg, cls, bits;
  int16_t least;
} fl_dtype_info;
extern const fl_dtype_info fl_dtypes[FLAME_DTYPE_COUNT];

static inline int fl_dtype_size(int d) { return fl_dtypes[d].size; }
static inline int fl_dtype_reg(int d) { return fl_dtypes[d].reg; }
static inline const char *fl_dtype_name(int d) { return fl_dtypes[d].name; }
static inline int fl_is_float(int d) { return fl_dtypes[d].cls == FL_CLASS_FLOAT; }
static inline int fl_is_integer(int d) { return fl_dtypes[d].cls == FL_CLASS_INTEGER; }
int fl_dtype_of_name(const char *name);        /* -1: no such dtype */
/* docs/contract.md 1: bool < integers < floats, the wider wins; f16 with bf16 gives f32; u8 with i8
** gives i16. */
int fl_promote(int a, int b);

/* A number from a script: data of the recorded ops, never part of the key of a plan. The dtype with
** which it is used determines the member: i for integers and bool, d for floats. */
typedef union fl_scalar { double d; int64_t i; } fl_scalar;

/* Scalar conversions, the definition that every device follows (round to nearest even;
** float to integer truncates, saturates, NaN gives 0; integers wrap). */
float fl_f16_to_f32(uint16_t h);
uint16_t fl_f32_to_f16(float f);
float fl_bf16_to_f32(uint16_t h);
uint16_t fl_f32_to_bf16(float f);
fl_scalar fl_scalar_load(const void *p, int dtype);          /* one element */
void fl_scalar_store(void *p, int dtype, fl_scalar v);       /* v: the member of dtype's class */
fl_scalar fl_scalar_cast(fl_scalar v, int from, int to);     /* rounded to 'to' */
fl_scalar fl_dtype_lowest(int dtype);          /* -inf, the least integer, or false */
#endif
