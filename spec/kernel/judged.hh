/*
** What a kernel's text needs to be a C++ program with one thread at a time (kernel_judged.lua).
** Without C++17's special functions, whose templates are half of what g++ would read.
*/
#include <cstdio>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <cmath>
#include <limits>
#include <type_traits>
#define __global__ static
#define __device__
static struct { int x, y, z; } threadIdx, blockIdx, blockDim = { 32, 1, 1 };
