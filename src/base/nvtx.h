/*
** Ranges for NVIDIA's profilers (NVTX 3). A tool that starts this process names its library in
** NVTX_INJECTION64_PATH; it is opened at the first use and provides the functions. Without a tool
** nothing is opened, and these functions do nothing.
*/
#ifndef FL_BASE_NVTX_H
#define FL_BASE_NVTX_H
/* Does a tool listen? */
int fl_nvtx_on(void);
/* Begins a range of this thread, or ends the one that began last. */
void fl_nvtx_push(const char *name);
void fl_nvtx_pop(void);
#endif
