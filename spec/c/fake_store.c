/*
** Images that the fake GPU's compiler made (fake_compute.c), for all processes of a run of the
** suite, in the folder FAKE_CUDA_IMAGES, which tools/test makes and removes; without that variable
** each text is compiled. An image's name is the SHA-256 of all that it is made from: this library
** (it holds the rewriting and g++'s options), the headers beside it, the g++ that is called, the
** text with its headers, and the options that reach g++. A text that reads other files is not kept.
** Each request adds a byte to the file "uses" there: '+' if the image was there, else '-'.
*/
#include "base/hash.h"
#include <dirent.h>

static char *fake_read_file(const char *folder, const char *name, size_t *n) {
  char path[512];
  snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", name);
  FILE *f = fopen(path, "rb");
  char *p = NULL;
  *n = 0;
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  const long size = ftell(f);
  rewind(f);
  if (size >= 0) p = malloc((size_t)size + 1);
  if (p) p[*n = fread(p, 1, (size_t)size, f)] = 0;
  fclose(f);
  return p;
}

static void fake_write_file(const char *folder, const char *name, const char *text, size_t n) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  for (char *c = path + strlen(folder) + 1; (c = strchr(c, '/')) != NULL; c++) {
    *c = 0;
    mkdir(path, 0700);
    *c = '/';
  }
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(text, 1, n, f) != n) abort();
  fclose(f);
}

static void fake_add_file(fake_out *o, const char *folder, const char *name) {
  size_t n;
  char *text = fake_read_file(folder, name, &n);
  if (!text) abort();
  fake_add_text(o, text, n);
  free(text);
}

/* The first g++ on the path: where, how large and from when. */
static void fake_add_compiler(fake_out *o) {
  char name[512];
  struct stat st;
  for (const char *path = getenv("PATH"); path && *path; path += *path == ':') {
    const int n = (int)strcspn(path, ":");
    snprintf(name, sizeof name, "%.*s/g++", n, path);
    path += n;
    if (stat(name, &st) != 0) continue;
    fake_add_text(o, name, strlen(name) + 1);
    fake_add_text(o, (const char *)&st.st_size, sizeof st.st_size);
    fake_add_text(o, (const char *)&st.st_mtim, sizeof st.st_mtim);
    return;
  }
}

/* What is the same for all texts. */
static uint8_t fake_tools[32];
static void fake_hash_tools(void) {
  fake_out o = { .at = NULL };
  struct dirent **list;
  Dl_info own;
  if (!dladdr(fake_tools, &own)) abort();
  fake_add_file(&o, "", own.dli_fname);
  const int n = scandir(FAKE_FOLDER, &list, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    const char *dot = strrchr(list[i]->d_name, '.');
    if (dot && strcmp(dot, ".hh") == 0) {
      fake_add_text(&o, list[i]->d_name, strlen(list[i]->d_name) + 1);
      fake_add_file(&o, FAKE_FOLDER, list[i]->d_name);
    }
    free(list[i]);
  }
  if (n < 0) abort();
  free(list);
  fake_add_compiler(&o);
  fl_sha256(o.at, o.n, fake_tools);
  free(o.at);
}

/* The folder, or NULL if images are not kept. */
static const char *fake_images(void) {
  const char *folder = getenv("FAKE_CUDA_IMAGES");
  return folder && *folder ? folder : NULL;
}

/* The name of the image of a text (with its headers) that is compiled with n options. */
static void fake_name_image(char name[65], const fake_out *text, int n,
                            const char *const *options) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  fake_out o = { .at = NULL };
  uint8_t digest[32];
  pthread_once(&once, fake_hash_tools);
  fake_add_text(&o, (const char *)fake_tools, sizeof fake_tools);
  for (int i = 0; i < n; i++) fake_add_text(&o, options[i], strlen(options[i]) + 1);
  fake_add_text(&o, "", 1);
  fake_add_text(&o, text->at, text->n);
  fl_sha256(o.at, o.n, digest);
  free(o.at);
  for (int i = 0; i < 32; i++) snprintf(name + 2 * i, 3, "%02x", digest[i]);
}

static char *fake_find_image(const char *name, size_t *bytes) {
  char path[512];
  char *image = fake_read_file(fake_images(), name, bytes);
  snprintf(path, sizeof path, "%s/uses", fake_images());
  const int f = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (f < 0 || write(f, image ? "+" : "-", 1) != 1) abort();
  close(f);
  return image;
}

/* Other processes see the whole image or none. */
static void fake_keep_image(const char *name, const char *image, size_t bytes) {
  static int serial;
  char made[64], from[512], to[512];
  snprintf(made, sizeof made, "%d-%d", (int)getpid(), __atomic_fetch_add(&serial, 1, 5));
  fake_write_file(fake_images(), made, image, bytes);
  snprintf(from, sizeof from, "%s/%s", fake_images(), made);
  snprintf(to, sizeof to, "%s/%s", fake_images(), name);
  if (rename(from, to) != 0) abort();
}

/* Whether a preprocessed text came from files that are not in 'folder' or beside this library. */
static int fake_reads_elsewhere(const char *text, const char *folder) {
  const char *const known[] = { folder, FAKE_FOLDER };
  for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL) {
    const char *name = line[0] == '#' && line[1] == ' ' ? strpbrk(line, "\"\n") : NULL;
    int found = !name || name[0] == '\n' || name[1] != '/';
    for (int i = 0; i < 2 && !found; i++) {
      const size_t n = strlen(known[i]);
      found = strncmp(name + 1, known[i], n) == 0 && name[1 + n] == '/';
    }
    if (!found) return 1;
  }
  return 0;
}
