/*
** server: answers HTTP requests with the results of a net. It has a few workers, threads with a
** context of flame each. The web server is civetweb (MIT).
**
**   cc -std=c11 -O2 server.c $(pkg-config --cflags --libs flame) -lcivetweb -lpthread -lm -o server
**   ./server model.safetensors 8080 4      and      curl -d '0.5 1 -2' localhost:8080/predict
**
** The arguments are a file, a port and the number of workers. The file holds w1 b1 w2 b2 of a net
** of two layers (server --make FILE writes one). The numbers of a request are the rows of a batch,
** so their count must be a multiple of the net's inputs. Contexts have a limit of memory and of
** time for a call, so that a request that is too large is refused and does not disturb the others.
*/
#define _GNU_SOURCE
#include <civetweb.h>
#include <flame.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, MOST_WORKERS = 32, MOST_NUMBERS = 1 << 16 };

/* A request. It is on the stack of the thread of the web server that waits for it. */
typedef struct job {
  int64_t n, count;              /* numbers in x, in y; count -1: failed, 'error' says why */
  const float *x;
  float *y;
  char error[600];
  int done;
  struct job *next;
} job;

typedef struct pool {
  const char *path;              /* the file with the net */
  int n, ending, failed;         /* workers; the server ends; a worker could not start */
  int64_t in, out;               /* of the net; 0 until a worker has read it */
  job *first, **last;            /* the queue of requests, and where the next one is added */
  pthread_mutex_t lock;          /* for all fields */
  pthread_cond_t queued, done;   /* a request is queued; one is done, or a worker is ready */
  pthread_t thread[MOST_WORKERS];
  } pool;

/* A worker: a context with the weights and biases of the net. It runs in a separate thread, because
** threads of civetweb have stacks of 100 KB, and flame needs 1 MB. */
typedef struct worker {
  flame_context *c;
  flame_tensor *w[LAYERS], *b[LAYERS];
} worker;

/* ---- the net ------------------------------------------------------------------------------- */

/* Opens a context and reads the net. Returns 0 if it fails, after a message. */
static int worker_open(worker *k, const char *path) {
  k->c = flame_open(FLAME_OPTIONS(.device = "cpu", .threads = 1,
                                  .limit[FLAME_HOST_BYTES] = 64 << 20,
                                  .limit[FLAME_CALL_NS] = 2000000000));
  if (!k->c) return 0;
  flame_grad_mode(k->c, 0);
  for (int i = 0; i < LAYERS; i++) {
    char name[3] = { 'w', (char)('1' + i), 0 };
    k->w[i] = flame_load(k->c, path, name);
    name[0] = 'b';
    k->b[i] = flame_load(k->c, path, name);
  }
  if (flame_error_code(k->c) == FLAME_OK) return 1;
  fprintf(stderr, "server: %s\n", flame_error(k->c));
  return 0;
}

static void worker_close(worker *k) {
  for (int i = 0; i < LAYERS; i++) flame_free(k->w[i]), flame_free(k->b[i]);
  flame_close(k->c);
}

/* Writes the probabilities of the classes for n numbers, n / in rows, into out. Returns how many
** they are, or -1: an error, or there are more than 'room'. */
static int64_t predict(worker *k, int64_t n, const float *x, float *out, int64_t room) {
  const int64_t in = flame_size(k->w[0], 1), rows = n / in;
  flame_tensor *t = flame_from_data(k->c, FLAME_F32, 2, (int64_t[]){ rows, in }, x);
  flame_tensor *h = flame_linear(t, k->w[0], k->b[0]), *a = flame_relu(h);
  flame_tensor *y = flame_linear(a, k->w[1], k->b[1]), *p = flame_softmax(y, 1);
  const int64_t count = flame_numel(p);
  const int ok = count <= room && flame_read(p, out, (size_t)count * sizeof *out) == FLAME_OK;
  flame_tensor *all[] = { t, h, a, y, p };
  for (int i = 0; i < 5; i++) flame_free(all[i]);
  return ok ? count : -1;
}

/* ---- workers ------------------------------------------------------------------------------- */

/* Waits for a request and takes it out of the queue. NULL: the server ends, the queue is empty. */
static job *take(pool *p) {
  pthread_mutex_lock(&p->lock);
  while (!p->first && !p->ending) pthread_cond_wait(&p->queued, &p->lock);
  job *j = p->first;
  if (j && !(p->first = j->next)) p->last = &p->first;
  pthread_mutex_unlock(&p->lock);
  return j;
}

/* Marks a request as done and wakes the thread that waits for it. */
static void finish(pool *p, job *j) {
  pthread_mutex_lock(&p->lock);
  j->done = 1;
  pthread_cond_broadcast(&p->done);
  pthread_mutex_unlock(&p->lock);
}

/* A worker tells the pool the sizes of the net, or that it could not start. */
static void tell_sizes(pool *p, const worker *k, int ready) {
  pthread_mutex_lock(&p->lock);
  if (!ready) p->failed = 1;
  p->in = ready ? flame_size(k->w[0], 1) : 1;
  p->out = ready ? flame_size(k->w[1], 0) : 1;
  pthread_cond_broadcast(&p->done);
  pthread_mutex_unlock(&p->lock);
}

/* The thread of a worker. After each request it clears an error and what was used of the limits. */
static void *work(void *arg) {
  pool *p = (pool *)arg;
  worker k = { 0 };
  tell_sizes(p, &k, worker_open(&k, p->path));
  for (job *j; (j = take(p)) != NULL; finish(p, j)) {
    j->count = predict(&k, j->n, j->x, j->y, MOST_NUMBERS);
    if (j->count < 0) snprintf(j->error, sizeof j->error, "%s\n", flame_error(k.c));
    flame_clear_error(k.c);
    flame_limit_restart(k.c);
  }
  worker_close(&k);
  return NULL;
}

/* Queues a request and waits until a worker has done it. */
static void compute(pool *p, job *j) {
  pthread_mutex_lock(&p->lock);
  *p->last = j;
  p->last = &j->next;
  pthread_cond_signal(&p->queued);
  while (!j->done) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

/* Starts the workers and waits until one is ready. Returns 0 if any could not start so far. */
static int pool_open(pool *p) {
  pthread_attr_t a;
  pthread_attr_init(&a);
  pthread_attr_setstacksize(&a, 1 << 20);
  p->last = &p->first;
  for (int i = 0; i < p->n; i++)
    if (pthread_create(&p->thread[i], &a, work, p)) p->failed = 1, p->n = i;
  pthread_attr_destroy(&a);
  pthread_mutex_lock(&p->lock);
  while (p->n && !p->in) pthread_cond_wait(&p->done, &p->lock);
  const int ok = !p->failed;
  pthread_mutex_unlock(&p->lock);
  return ok;
}

/* Lets the workers end when the queue is empty, and waits for them. */
static void pool_close(pool *p) {
  pthread_mutex_lock(&p->lock);
  p->ending = 1;
  pthread_cond_broadcast(&p->queued);
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < p->n; i++) pthread_join(p->thread[i], NULL);
}

/* ---- requests ------------------------------------------------------------------------------ */

/* Sends an answer; returns its status, as civetweb wants it. */
static int answer(struct mg_connection *to, int status, const char *text) {
  mg_printf(to, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s", status,
            status == 200 ? "OK" : "Refused", strlen(text), text);
  return status;
}

/* Reads the body of a request as numbers into x, which has room for MOST_NUMBERS. Returns their
** count, or -1: the body is something else, or too long. */
static int64_t read_numbers(struct mg_connection *from, float *x) {
  static const int most = MOST_NUMBERS * 16;
  char *body = malloc((size_t)most + 1), *at = body;
  int size = 0, got = 1;
  int64_t n = 0;
  while (body && size < most && (got = mg_read(from, body + size, (size_t)(most - size))) > 0)
    size += got;
  if (!body || size == most) n = -1;
  else body[size] = 0;
  while (n >= 0) {
    char *end;
    at += strspn(at, " \t\r\n,");
    if (*at == 0) break;
    const float v = strtof(at, &end);
    if (end == at || n == MOST_NUMBERS) n = -1;
    else x[n++] = v;
    at = end;
  }
  free(body);
  return n;
}

/* Answers a request to /predict: rows of probabilities, or a message with status 400 or 503. */
static int on_predict(struct mg_connection *connection, void *arg) {
  pool *p = (pool *)arg;
  float *x = malloc(2 * MOST_NUMBERS * sizeof *x), *y = x + MOST_NUMBERS;
  char *text = malloc(MOST_NUMBERS * 16 + 1);
  if (!x || !text) return free(x), free(text), answer(connection, 503, "no memory\n");
  job j = { .n = read_numbers(connection, x), .x = x, .y = y };
  int status = 400;
  if (j.n < 1 || j.n % p->in) {
    sprintf(text, "expected a multiple of %lld numbers\n", (long long)p->in);
  } else {
    compute(p, &j);
    status = j.count < 0 ? 503 : 200;
    if (j.count < 0) sprintf(text, "%s", j.error);
    size_t at = 0;
    for (int64_t i = 0; i < j.count; i++)
      at += (size_t)sprintf(text + at, "%.6g%c", (double)y[i], (i + 1) % p->out ? ' ' : '\n');
  }
  answer(connection, status, text);
  free(x), free(text);
  return status;
}

/* ---- the program --------------------------------------------------------------------------- */

/* Writes a file with a random net of 3 inputs and 2 classes, to try the server with. Returns the
** exit status. */
static int make_model(const char *path) {
  flame_context *c = flame_open(FLAME_OPTIONS(.device = "cpu"));
  const char *const names[] = { "w1", "b1", "w2", "b2" };
  const int64_t sizes[4][2] = { { 8, 3 }, { 8 }, { 2, 8 }, { 2 } };
  flame_tensor *x[4];
  flame_seed(c, 1);
  for (int i = 0; i < 4; i++) x[i] = flame_normal(c, FLAME_F32, i % 2 ? 1 : 2, sizes[i], 0, 0.5);
  const flame_status e = flame_save(c, path, 4, names, x);
  if (e != FLAME_OK) fprintf(stderr, "server: %s\n", flame_error(c));
  for (int i = 0; i < 4; i++) flame_free(x[i]);
  flame_close(c);
  return e != FLAME_OK;
}

int main(int argc, char **argv) {
  static pool p = { .lock = PTHREAD_MUTEX_INITIALIZER, .queued = PTHREAD_COND_INITIALIZER,
                    .done = PTHREAD_COND_INITIALIZER };
  if (argc == 3 && !strcmp(argv[1], "--make")) return make_model(argv[2]);
  if (argc != 4 || (p.n = atoi(argv[3])) < 1 || p.n > MOST_WORKERS) {
    fprintf(stderr, "server MODEL PORT WORKERS (1 to %d)\nserver --make MODEL\n", MOST_WORKERS);
    return 1;
  }
  const char *options[] = { "listening_ports", argv[2], "num_threads", argv[3],
                            "request_timeout_ms", "5000", NULL };
  int signal_number;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT), sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);         /* before there are threads: all inherit it */
  p.path = argv[1];
  const int ok = pool_open(&p);
  struct mg_context *web = ok ? mg_start(NULL, NULL, options) : NULL;
  if (web) {
    mg_set_request_handler(web, "/predict$", on_predict, &p);
    struct mg_server_port port;
    mg_get_server_ports(web, 1, &port);
    printf("listening on %d with %d workers\n", port.port, p.n);
    fflush(stdout);
    sigwait(&ends, &signal_number);
    mg_stop(web);
  } else if (ok) {
    fprintf(stderr, "server: can not listen on %s\n", argv[2]);
  }
  pool_close(&p);
  return web == NULL;
}
