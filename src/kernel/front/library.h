/*
** Functions of CUDA that are written in the language itself: those that give results through
** pointers, pairs of halves, votes and sums of a block or a warp, cooperative groups, CUB, wmma.
** On a GPU a kernel as the user wrote it calls CUDA's own functions (except for groups and CUB,
** which come from here); on the CPU, and in derived kernels (gradients), those of this library are
** inlined.
*/
#ifndef FL_KERNEL_LIBRARY_H
#define FL_KERNEL_LIBRARY_H
#include "kernel/front/lexer.h"

/* Puts the library before the tokens of a source that uses anything of it, as line 0. Names of the
** namespaces cooperative_groups, cub, glm, torch, at and wmma become the library's. 0: no
** memory. */
int fl_klibrary_add(fl_karena *a, fl_ktoks *toks);

/* ptx.c: replaces asm statements by calls of functions of ptx.cu. 1: there were some. */
int fl_kptx_replace(fl_karena *a, fl_ktoks *toks);
#endif
