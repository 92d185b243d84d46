/*
** Functions of CUDA that are written in the language itself: those that give results through
** pointers, pairs of halves, votes and sums of a block or a warp, cooperative groups, CUB. On a GPU
** a kernel as given uses CUDA's own functions (for groups and CUB: these); the CPU and derived
** kernels inline these.
*/
#ifndef FL_KERNEL_LIBRARY_H
#define FL_KERNEL_LIBRARY_H
#include "kernel/front/lexer.h"

/* Puts the library before the tokens of a source that uses anything of it, as line 0. Names of the
** namespaces cooperative_groups and cub become the library's. 0: no memory. */
int fl_klibrary_add(fl_karena *a, fl_ktoks *toks);

/* ptx.c: replaces asm statements by calls of functions of ptx.cu. 1: there were some. */
int fl_kptx_replace(fl_karena *a, fl_ktoks *toks);
#endif
