/*
** What user kernels may include although NVRTC has no system headers: those named in
** fl_header_names. The C headers all have one short text; those of C++ another, which includes it.
** Headers of the toolkit (cuda_fp16.h, …) are looked for where it is installed.
*/
#ifndef FL_CUDA_HEADERS_H
#define FL_CUDA_HEADERS_H

enum { FL_HEADERS = 26, FL_INCLUDE_PATHS = 4 };
extern const char *const fl_header_names[FL_HEADERS], *const fl_header_texts[FL_HEADERS];
/* "--include-path=…" for the existing folders of the toolkit; returns how many. The texts are
** static, except for those made from CUDA_HOME, or else CUDA_PATH, which are in buf. */
int fl_include_options(const char *option[FL_INCLUDE_PATHS], char buf[1024]);
/* The text of each C header: typedefs of <stdint.h>, limits, constants. */
extern const char fl_header_text[];
#endif
