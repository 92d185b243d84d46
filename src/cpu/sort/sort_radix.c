/*
** Radix sort and selection of one row on one worker (sort_keys.h), for elements of one and of
** two words. sort_radix.h has the text.
*/
#include "cpu/sort/sort_keys.h"

enum { INSERTION = 40 };

#define E fl_slim
#define KEY(e) ((e) >> 32)
#define AT(e) ((e) & 0xFFFFFFFFu)
#define MAKE(k, i) ((k) << 32 | (i))
#define NAME(f) fl_slim_##f
#define C uint32_t
#include "cpu/sort/sort_radix.h"

#define E fl_wide
#define KEY(e) ((e).key)
#define AT(e) ((e).at)
#define MAKE(k, i) ((fl_wide){ (k), (i) })
#define NAME(f) fl_wide_##f
#define C int64_t
#include "cpu/sort/sort_radix.h"
