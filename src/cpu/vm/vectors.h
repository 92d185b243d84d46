/* Vectors of one instruction set, for the tiles of products and convolutions: types, broadcast, and
** multiply-add, which without FMA rounds product and sum separately. */
#ifndef FL_CPU_VECTORS_H
#define FL_CPU_VECTORS_H
#include "base/isa.h"
#if defined(__AVX512F__)
#include <immintrin.h>
#define V32 __m512
#define V64 __m512d
#define ONE32(x) _mm512_set1_ps(x)
#define ONE64(x) _mm512_set1_pd(x)
#define FMA32(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FMA64(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif defined(__AVX2__)
#include <immintrin.h>
#define V32 __m256
#define V64 __m256d
#define ONE32(x) _mm256_set1_ps(x)
#define ONE64(x) _mm256_set1_pd(x)
#define FMA32(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FMA64(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
typedef float v32 __attribute__((vector_size(16)));
typedef double v64 __attribute__((vector_size(16)));
#define V32 v32
#define V64 v64
#define ONE32(x) ((v32){ (x), (x), (x), (x) })
#define ONE64(x) ((v64){ (x), (x) })
#define FMA32(a, b, c) ((a) * (b) + (c))
#define FMA64(a, b, c) ((a) * (b) + (c))
#endif
#endif
