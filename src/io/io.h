/*
** Files of tensors: safetensors, IDX, npy and npz, and the files beneath them.
**
** The promise: reading a file never runs code, never reads outside the file and allocates at
** most in proportion to its size. So every size is checked, with overflow, against the bytes
** that can be there before anything is allocated; errors name the file, the field and the
** offset. Writing goes to a temporary file that replaces the old one when it is complete and on the
** disk: readers see the old file or the new one.
*/
#ifndef FL_IO_IO_H
#define FL_IO_IO_H
#include "engine/engine.h"

enum {
  /* bytes of a safetensors header, the format's own limit */
  FL_IO_MAX_HEADER = 100 * 1000 * 1000,
  FL_IO_MAX_NAME = 64 * 1024,
  FL_IO_MAX_DEPTH = 64                      /* of nested JSON */
};

typedef struct fl_span { const char *at; size_t n; } fl_span;      /* bytes, not NUL-terminated */

/* ---- reading a file, gzip or not (file.c) -------------------------------------------------- */
typedef struct fl_reader {
  flame_context *c;
  const char *op, *path;        /* for messages; owned by the caller while this is open */
  int fd;
  const char *mapped;           /* the file's bytes, if it is in a bundle (then fd is -1) */
  int64_t raw;                  /* number of bytes of 'mapped' that have been read */
  int64_t size;                 /* of the file on the disk */
  int64_t at;                   /* bytes returned so far; for gzip, decompressed ones */
  struct fl_unzip *unzip;       /* NULL: plain */
  int member;                   /* 1: what is read is a member of a zip file */
  int64_t packed_left;          /* packed bytes of the member still to be read */
  int64_t whole;                /* the member's size, unpacked */
  uint32_t crc;                 /* of the bytes returned so far */
} fl_reader;
/* Opens a regular file. The caller closes the reader, also after a failure. */
flame_status fl_reader_open(fl_reader *f, flame_context *c, const char *op, const char *path);
/* Reads exactly n bytes; fewer are an error that names the offset. */
flame_status fl_reader_read(fl_reader *f, void *p, size_t n);
/* Reads up to n bytes, *got of them: fewer than n only at the end. */
flame_status fl_reader_some(fl_reader *f, void *p, size_t n, size_t *got);
/* Upper bound of the bytes that can still come: a limit for what a header may claim. */
int64_t fl_reader_most(const fl_reader *f);
/* Reads exactly n bytes at the offset; the position does not change. Plain files (at.c). */
flame_status fl_reader_at(fl_reader *f, int64_t offset, void *p, size_t n);
flame_status fl_reader_seek(fl_reader *f, int64_t at);                 /* plain files */
/* Decompresses n bytes of zlib data, which the caller has read, to exactly 'bytes' bytes. */
flame_status fl_reader_inflate(fl_reader *f, const void *packed, size_t n, void *out, size_t bytes);
/* Continues inside a member of a zip file: 'bytes' at 'at', deflated or not, 'whole' when
** decompressed. */
flame_status fl_reader_member(fl_reader *f, int64_t at, int64_t bytes, int deflated, int64_t whole);
/* Ends the reading of a member: checks that all of it was read, and its checksum. */
flame_status fl_reader_member_end(fl_reader *f, uint32_t crc);
void fl_reader_close(fl_reader *f);
/* Fails with "path: message". */
flame_status fl_reader_fail(fl_reader *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- writing a file as a whole (file.c) ------------------------------------------------------ */
typedef struct fl_writer {
  flame_context *c;
  const char *op;
  int fd;
  int parent;    /* for a context with a folder: the folder in which the file is created; else -1 */
  int64_t at;                   /* bytes written so far */
  char *path, *temp;            /* final and temporary name */
  char *buffer;
  size_t fill;
} fl_writer;
flame_status fl_writer_open(fl_writer *o, flame_context *c, const char *op, const char *path);
flame_status fl_writer_write(fl_writer *o, const void *p, size_t n);
flame_status fl_writer_poll(fl_writer *o);              /* fails after an interrupt */
/* Writes, syncs and renames; on failure the old file stays. */
flame_status fl_writer_commit(fl_writer *o);
/* Ends the writer in any state; without a commit the temporary file is removed. */
void fl_writer_close(fl_writer *o);

/* ---- temporary files (stale.c) --------------------------------------------------------------- */
enum { FL_IO_TEMP = sizeof ".flame-0123456789abcdef.tmp" };
void fl_temp_name(char name[FL_IO_TEMP], uint64_t number);
/* Locks a new temporary file for its writer; 0: another save has removed it as the file of a dead
** process. */
int fl_temp_lock(int fd);
/* Called now and then: removes temporary files whose writer is gone. */
void fl_temp_sweep(flame_context *c, const char *folder);

/* ---- DLPack (dlpack.c) ----------------------------------------------------------------------- */
void fl_dlpack_delete(void *managed);           /* deletes what flame_to_dlpack returned, or what
                                                ** another library made */

/* ---- opening (open.c) ------------------------------------------------------------------------ */
/* Like open(2), for regular files, (O_DIRECTORY) folders and, to write in a context without a
** folder, character devices, as c's permissions allow. -1 with errno (text: fl_file_error). */
int fl_file_open(flame_context *c, const char *path, int flags, unsigned mode);
const char *fl_file_error(int e);
/* Opens the folder in which the path's last part, *name, is to be made, for calls like openat; -1
** with errno. */
int fl_file_parent(flame_context *c, const char *path, const char **name);
int fl_file_remove(flame_context *c, const char *path);            /* 0 with errno */
int fl_file_make_folder(flame_context *c, const char *path);

/* ---- folders (file.c) ------------------------------------------------------------------------ */
void *fl_folder_open(flame_context *c, const char *path);      /* NULL with errno */
/* The next name, valid until the next call, in no particular order; *kind: 'f' file, 'd' folder,
** 'l' link, 'o' other. NULL: the end, or with errno set a failure. */
const char *fl_folder_next(void *folder, char *kind);
void fl_folder_close(void *folder);                     /* NULL is fine */

/* ---- values (value.c) ------------------------------------------------------------------------ */
/* A node with a value, whose bytes 'fill' provides: row-major, little-endian. Borrowed, or NULL. */
typedef flame_status (*fl_fill)(void *arg, void *p, size_t bytes);
fl_node *fl_io_node(flame_context *c, int device, int dtype, int rank, const int64_t *size,
                    fl_fill fill, void *arg);
/* Bytes of a shape, or -1 when that overflows. */
int64_t fl_io_bytes(int dtype, int rank, const int64_t *size);
uint32_t fl_io_crc(uint32_t crc, const void *p, size_t n);   /* of zip; 0 at first */
void fl_io_swap(void *p, size_t bytes, int element);         /* reverse the bytes of each element */
/* The node's bytes in a block of fl_alloc ('bytes' long), NULL with an error. */
void *fl_io_bytes_of(flame_context *c, fl_node *n, size_t *bytes);
/* Unsigned integers that flame does not have are read as signed ones: u16 as i32, u32 and u64 as
** i64, if they fit. packed: bytes of such an integer in the file, 0: elements have the same size
** there. bytes: how many are at p. */
flame_status fl_io_unsigned(fl_reader *f, void *p, size_t bytes, int dtype, int packed, int swap);
/* The bytes in the file of an array whose elements have 'packed' bytes (0: the dtype's size); -1:
** too many. */
int64_t fl_io_packed_bytes(int dtype, int packed, int rank, const int64_t *size);

/* ---- safetensors ----------------------------------------------------------------------------- */
typedef struct fl_saved {       /* a tensor in a file */
  fl_span name;
  int dtype, rank;
  int packed;                   /* as in fl_io_unsigned */
  int64_t size[FL_MAX_AXES];
  int64_t begin, bytes;         /* in the file's data */
} fl_saved;
typedef struct fl_pair { fl_span key, value; } fl_pair;
typedef struct fl_archive {
  fl_reader in;
  char *header;                 /* names and metadata point into it */
  size_t header_bytes;
  int64_t data;                 /* offset of the data in the file */
  struct { fl_saved *at; int64_t n, cap; } tensors;     /* by place in the file */
  struct { fl_pair *at; int64_t n, cap; } meta;
} fl_archive;
/* Reads and checks the header. The caller closes the archive, also after a failure. */
flame_status fl_safetensors_open(fl_archive *a, flame_context *c, const char *path);
fl_node *fl_safetensors_read(fl_archive *a, const fl_saved *t, int device);
void fl_safetensors_close(fl_archive *a);

/* The index of a model that is saved in several safetensors files. In 'files' a key is a tensor's
** name and the value its file; sorted by key, none twice. The spans point into 'text'. The caller
** closes it, also after a failure. */
typedef struct fl_parts {
  fl_reader in;
  struct { char *at; int64_t n, cap; } text;
  struct { fl_pair *at; int64_t n, cap; } files;
} fl_parts;
flame_status fl_parts_open(fl_parts *p, flame_context *c, const char *path);
void fl_parts_close(fl_parts *p);

typedef struct fl_to_save { fl_span name; fl_node *node; } fl_to_save;
/* Saves n tensors, after evaluating their nodes; in the file they are ordered by element size, then
** by name. */
flame_status fl_safetensors_save(flame_context *c, const char *path, int64_t n, fl_to_save *tensors,
                                 int64_t nmeta, const fl_pair *meta);

/* ---- IDX (the format of MNIST), gzip or not -------------------------------------------------- */
fl_node *fl_idx_read(flame_context *c, const char *path, int device);

/* ---- npy; npz is a zip file of them ---------------------------------------------------------- */
fl_node *fl_npy_read(flame_context *c, const char *path, int device);
flame_status fl_npy_save(flame_context *c, const char *path, fl_node *n);

typedef struct fl_member {      /* of a zip file */
  fl_span name;
  int packed;                   /* 0 stored, 8 deflate */
  uint32_t crc;
  int64_t at, bytes, unpacked;  /* at: of its local header */
} fl_member;
typedef struct fl_zip {
  fl_reader in;
  char *directory;
  size_t directory_bytes;
  struct { fl_member *at; int64_t n, cap; } members;
} fl_zip;
flame_status fl_zip_open(fl_zip *z, flame_context *c, const char *path);
fl_node *fl_npz_read(fl_zip *z, const fl_member *m, int device);     /* the member is a npy file */
void fl_zip_close(fl_zip *z);
/* Names are without ".npy"; two equal ones are refused. */
flame_status fl_npz_save(flame_context *c, const char *path, int64_t n, const fl_to_save *tensors);

/* ---- deflate (deflate.c) --------------------------------------------------------------------- */
enum { FL_DEFLATE_WORK = 65536 };               /* number of values in its working memory */
/* Packs n bytes into at most 'most' bytes at 'to'. row: length of a row (at least 1), as rows
** resemble those before them. work: FL_DEFLATE_WORK values. Returns the number of packed bytes; 0
** if they do not fit, or n is 2^32 - 1 or more. */
size_t fl_deflate(const unsigned char *raw, size_t n, size_t row, unsigned char *to, size_t most,
                  uint32_t *work);

/* ---- png (png.c, png_read.c) ----------------------------------------------------------------- */
/* An image n is u8, or i32 from 0 to 65535 (16 bits per channel), of shape (h, w) or (channels, h,
** w), channels 1 to 4: grey, grey with alpha, colour, colour with alpha. */
/* The bytes of a PNG file: n of them, in a block of 'held' bytes. */
typedef struct fl_png { unsigned char *at; size_t n, held; } fl_png;
/* Makes the file of image n in memory; 'name' is for messages. The caller drops *to; after a
** failure it is empty. */
flame_status fl_png_pack(flame_context *c, const char *name, fl_node *n, fl_png *to);
void fl_png_drop(flame_context *c, fl_png *p);
flame_status fl_png_save(flame_context *c, const char *path, fl_node *n);
/* Reads an image: what was saved is read unchanged, except that (1, h, w) becomes (h, w). */
fl_node *fl_png_read(flame_context *c, const char *path, int device);

/* ---- csv, written only (csv.c) --------------------------------------------------------------- */
/* n: two axes, none empty. Numbers are written so that the same numbers are read again. */
flame_status fl_csv_save(flame_context *c, const char *path, fl_node *n);
#endif
