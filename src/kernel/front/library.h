/*
** Functions and types that are written in the language itself: those of CUDA that give results
** through pointers, pairs of halves, votes and sums of a block or a warp, asm statements, complex
** numbers, wmma, cooperative groups, and parts of std, CUB, GLM and PyTorch. The CPU and derived
** kernels (gradients) get these, inlined. A GPU gets a kernel as the user wrote it, which calls
** CUDA's own, or the printed tree with these inlined (fl_kfunction_given), as for groups and CUB.
*/
#ifndef FL_KERNEL_LIBRARY_H
#define FL_KERNEL_LIBRARY_H
#include "kernel/front/lexer.h"

/* Puts the parts of the library that a source uses before its tokens, with line number 0. Names of
** the namespaces cooperative_groups, cub, glm, torch, at and wmma become the library's. 0: no
** memory. */
int fl_klibrary_add(fl_karena *a, fl_ktoks *toks);

/* ptx.c: replaces asm statements by calls of functions of ptx.cu. 1: there were some. */
int fl_kptx_replace(fl_karena *a, fl_ktoks *toks);
#endif
