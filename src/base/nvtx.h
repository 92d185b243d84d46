/*
** Ranges for NVIDIA's profilers (NVTX 3). A tool that starts this process names its library in
** NVTX_INJECTION64_PATH; that is opened at the first use, and gives the functions. Without a tool
** nothing is opened and nothing is done.
*/
#ifndef FL_BASE_NVTX_H
#define FL_BASE_NVTX_H
/* Does a tool listen? */
int fl_nvtx_on(void);
/* A range of this thread begins, or the one that began last ends. */
void fl_nvtx_push(const char *name);
void fl_nvtx_pop(void);
#endif
