/* Pages of small blocks: see pool.h. */
#include "lua/pool.h"
#include <stdlib.h>

/* malloc uses this many bytes before a block; pages that are smaller by this amount are adjacent in
** memory. */
enum { BEFORE = 16 };

static fl_pool_page none;               /* a full page, to which no block belongs */

static void link_page(fl_pool *p, fl_pool_page *page) {
  page->prev = NULL;
  page->next = p->others[page->kind];
  if (page->next) page->next->prev = page;
  p->others[page->kind] = page;
}

static void unlink_page(fl_pool *p, fl_pool_page *page) {
  if (page->next) page->next->prev = page->prev;
  if (page->prev) page->prev->next = page->next;
  else p->others[page->kind] = page->next;
}

/* Puts the page's blocks on its free list, in the order of their addresses. */
static void fill(fl_pool_page *page, int kind) {
  const size_t size = (size_t)(kind + 1) * FL_POOL_STEP;
  const size_t head = (sizeof *page + FL_POOL_STEP - 1) / FL_POOL_STEP * FL_POOL_STEP;
  char *const first = (char *)page + head;
  const size_t n = (size_t)((char *)page + FL_POOL_PAGE - BEFORE - first) / size;
  page->used = 0;
  page->kind = kind;
  page->free = first;
  for (size_t i = 0; i < n; i++)
    *(void **)(first + i * size) = i + 1 < n ? first + (i + 1) * size : NULL;
}

void fl_pool_init(fl_pool *p) {
  *p = (fl_pool){ .spare = NULL };
  for (int k = 0; k < FL_POOL_KINDS; k++) p->now[k] = &none;
}

int fl_pool_turn(fl_pool *p, int kind) {
  fl_pool_page *page = p->others[kind];
  if (page) unlink_page(p, page);
  else if ((page = p->spare) != NULL) {
    p->spare = NULL;
    fill(page, kind);
  }
  if (page) p->now[kind] = page;
  return page != NULL;
}

int fl_pool_grow(fl_pool *p, int kind) {
  void *page;
  if (posix_memalign(&page, FL_POOL_PAGE, FL_POOL_PAGE - BEFORE)) return 0;
  fill((fl_pool_page *)page, kind);
  p->now[kind] = (fl_pool_page *)page;
  return 1;
}

void fl_pool_shut(fl_pool *p) {
  for (int k = 0; k < FL_POOL_KINDS; k++) {
    if (p->now[k]->free) link_page(p, p->now[k]);
    p->now[k] = &none;
  }
}

void fl_pool_close(fl_pool *p) {
  fl_pool_shut(p);
  fl_pool_trim(p);
  for (int k = 0; k < FL_POOL_KINDS; k++)
    for (fl_pool_page *page = p->others[k], *next; page; page = next) {
      next = page->next;
      free(page);
    }
}

int fl_pool_trim(fl_pool *p) {
  int pages = p->spare != NULL;
  free(p->spare);
  p->spare = NULL;
  for (int k = 0; k < FL_POOL_KINDS; k++) {
    if (p->now[k] == &none || p->now[k]->used > 0) continue;
    free(p->now[k]);
    p->now[k] = &none;
    pages++;
  }
  return pages;
}

int fl_pool_settle(fl_pool *p, fl_pool_page *page, int was_full) {
  if (page == p->now[page->kind]) return 0;
  if (was_full) link_page(p, page);
  if (page->used > 0) return 0;
  unlink_page(p, page);
  if (p->spare == NULL) {
    p->spare = page;
    return 0;
  }
  free(page);
  return 1;
}
