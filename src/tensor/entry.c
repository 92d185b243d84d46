/*
** Entries of the tape keep for the backward walk only what the op's rule needs. Which values a
** gradient reads is found in its text in ops.def (x, x1, x2, x3, y as whole words), by input,
** once per context; an entry keeps only what the gradients with respect to its tracked inputs
** read. So  h * 2  keeps nothing, and  w * x  with constant x keeps x but
** not w. The rows of structural ops list what their rules read.
*/
#include "tensor/lost.h"
#include "tensor/call.h"
#include "tensor/tensor.h"
#include <stdio.h>
#include <string.h>

enum { READS_RESULT = 0x80, EVERY_INPUT = 0xff };

/* ---- what rules read --------------------------------------------------------------- */

static const char *const rule_text[FL_OP_COUNT][3] = {
#define UNARY(name, kind, value, grad, domain, doc) {#grad, NULL, NULL},
#define BINARY(name, kind, value, g1, g2, domain, doc) {#g1, #g2, NULL},
#define TERNARY(name, kind, value, g1, g2, g3, domain, doc) {#g1, #g2, #g3},
#define REDUCE(name, kind, init, value, grad, doc) {#grad, NULL, NULL},
#define SPECIAL(name, nin, fusion, memory, reads, words, made, doc) {reads, NULL, NULL},
#include "tensor/ops.def"
};

static int word_char(char ch) {
  return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
         (ch >= '0' && ch <= '9') || ch == '_';
}

static uint8_t meaning(const char *w, size_t n) {
  if (n == 1 && w[0] == 'y') return READS_RESULT;
  if (n == 1 && w[0] == 'x') return 1;
  if (n != 2 || w[0] != 'x' || w[1] < '1' || w[1] > '3') return 0;
  return (uint8_t)(1u << (w[1] - '1'));
}

/* Skips "fl_grad_spread(y" at s, if it is there: this function uses only the shape of y. */
static const char *skip_shape_use(const char *s) {
  static const char use[] = "fl_grad_spread(y";
  return strncmp(s, use, sizeof use - 1) == 0 ? s + sizeof use - 1 : s;
}

static uint8_t values_in(const char *s) {
  uint8_t reads = 0;
  while (*s) {
    if (!word_char(*s)) {
      s++;
      continue;
    }
    s = skip_shape_use(s);
    const char *w = s;
    while (word_char(*s)) s++;
    reads |= meaning(w, (size_t)(s - w));
  }
  return reads;
}

static int no_gradient(const char *s) {
  return !s || !strcmp(s, "NULL") || !strcmp(s, "NOGRAD");
}

/* What the gradient of a structural op reads, from its row's text: a semicolon ends each input. */
static fl_rule_needs structural(const char *s) {
  fl_rule_needs needs = { 0 };
  if (*s == '*') needs.has = EVERY_INPUT;
  for (int i = 0; i < 3 && s && *s != '*'; i++) {
    char text[16];
    const size_t n = strcspn(s, ";");
    snprintf(text, sizeof text, "%.*s", (int)n, s);
    needs.has |= (uint8_t)((strchr(text, '-') == NULL) << i);
    needs.reads[i] = values_in(text);
    s = s[n] ? s + n + 1 : NULL;
  }
  return needs;
}

void fl_rules_fill(fl_rule_needs *rules) {
  memset(rules, 0, FL_OP_COUNT * sizeof *rules);
  for (int op = 0; op < FL_OP_COUNT; op++) {
    if (fl_ops[op].form == FL_FORM_SPECIAL) rules[op] = structural(rule_text[op][0]);
    for (int i = 0; i < 3 && fl_ops[op].form != FL_FORM_SPECIAL; i++) {
      const char *s = rule_text[op][i];
      if (no_gradient(s)) continue;
      rules[op].has |= (uint8_t)(1u << i);
      rules[op].reads[i] = values_in(s);
    }
  }
}

uint8_t fl_rule_reads(int op) {
  fl_rule_needs all[FL_OP_COUNT];
  fl_rules_fill(all);
  return all[op].reads[0] | all[op].reads[1] | all[op].reads[2];
}

/* ---- entries ----------------------------------------------------------------------- */

static fl_entry *entry_new(flame_context *c) {
  fl_entry *e = fl_slab_zeroed(&c->entries);
  if (!e) {
    FL_FAIL(c, FLAME_NO_MEMORY, "memory", "no host memory for a gradient entry");
    return NULL;
  }
  e->refs = 1;
  e->sequence = c->sequence++;
  e->site = c->site;
  return e;
}

static uint32_t tracked_inputs(const fl_node *n, uint8_t has) {
  uint32_t tracked = 0;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && n->in[i]->entry && (has == EVERY_INPUT || has & (1u << i)))
      tracked |= 1u << (i < 31 ? i : 31);
  return tracked;
}

/* n stays untracked although the grad mode is on. If an input is tracked, notes that n's op is the
** reason. */
static int lose(fl_node *n) {
  const int call = n->op == FL_OP_call && n->attr && n->attr->call;
  const int op = call ? FL_OP_COUNT + n->attr->call->kind : n->op;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && n->in[i]->entry) n->lost = fl_lost_from(n->in[i], op, FL_LOST_OP);
  return 1;
}

int fl_entry_attach(fl_node *n) {
  flame_context *c = n->ctx;
  const fl_rule_needs *rule = &c->rules[n->op];
  if (!c->grad_mode || n->entry) return 1;
  if (!rule->has || !fl_is_float(n->dtype)) return lose(n);
  const uint32_t tracked = tracked_inputs(n, rule->has);
  if (!tracked) return lose(n);
  fl_entry *e = entry_new(c);
  if (!e) return 0;
  n->lost = 0;
  uint8_t reads = 0;
  for (int i = 0; i < 3; i++)
    if (tracked & (1u << i)) reads |= rule->reads[i];
  e->tracked = tracked;
  e->reads_out = (reads & READS_RESULT) != 0;
  for (int i = 0; i < n->nin; i++) {
    fl_node *m = n->in[i];
    if (!m) continue;
    m->grefs++;                    /* for every input, since a rule may need its shape */
    if (i < 3 && reads & (1u << i)) {
      e->saved |= (uint8_t)(1u << i);
      m->held++;
    }
  }
  n->entry = e;
  return 1;
}

void fl_custom_drop(flame_context *c, fl_custom *f) {
  if (!f || --f->refs > 0) return;
  if (f->release) f->release(f->arg);
  fl_free(&c->mem, f, sizeof *f);
}

/* Releases what 'e' keeps of the inputs of n. Afterwards e does not refer to them. */
static void release_inputs(fl_node *n, fl_entry *e) {
  const uint8_t saved = e->saved;
  e->saved = e->reads_out = 0;
  e->tracked = 0;
  if (e->leaf || e->spent) return;
  for (int i = 0; i < n->nin; i++) {
    fl_node *m = n->in[i];
    if (!m) continue;
    if (i < 3 && saved & (1u << i)) m->held--;
    m->grefs--;
    if (!fl_node_needed(m)) fl_node_settle(m);
  }
  if (n->state == FL_PENDING && !n->base) return;          /* it is computed from them */
  fl_node_forget_inputs(n);
  if (!n->base) return;
  n->in[0] = n->base;            /* a view: its parent, in[0], was kept for e alone */
  n->nin = 1;
}

/* Drops what came from the script: the function with its own rule, and the hooks. */
static void drop_functions(flame_context *c, fl_entry *e) {
  fl_custom_drop(c, e->custom);
  if (e->hooks && c->drop_hooks) c->drop_hooks(c, e->hooks);
  e->custom = NULL;
  e->hooks = NULL;
}

static void entry_free(flame_context *c, fl_entry *e) {
  drop_functions(c, e);
  fl_slab_free(&c->entries, e);
}

void fl_entry_detach(fl_node *n) {
  fl_entry *e = n->entry;
  release_inputs(n, e);
  n->entry = NULL;
  if (--e->refs == 0) entry_free(n->ctx, e);
}

void fl_entry_drop(fl_node *n) {
  if (!n->entry) return;
  n->held++;              /* n must outlive the release of its inputs */
  fl_entry_detach(n);
  n->held--;
  fl_node_settle(n);
}

void fl_entry_spend(fl_node *n) {
  fl_entry *e = n->entry;
  if (!e || e->leaf || e->spent) return;
  n->held++;
  release_inputs(n, e);
  e->spent = 1;
  drop_functions(n->ctx, e);
  n->held--;
  fl_node_settle(n);
}

typedef struct node_list { fl_node **at; int64_t n, cap; } node_list;

/* Adds n to 'made' if its entry was made by an op (it is not a leaf). n is held, since freeing an
** entry may close handles. */
static int note_made(flame_context *c, node_list *made, fl_node *n) {
  if (!n || !n->entry || n->entry->leaf) return 1;
  fl_node **slot = FL_PUSH(&c->mem, made);
  if (slot) fl_node_hold(*slot = n);
  return slot != NULL;
}

flame_status fl_entries_forget(flame_context *c) {
  node_list made = { 0 };
  int ok = 1;
  for (const flame_tensor *t = c->handles; ok && t; t = t->next) ok = note_made(c, &made, t->node);
  for (int64_t i = 0; ok && i < c->win.nodes.n; i++) ok = note_made(c, &made, c->win.nodes.at[i]);
  for (int64_t i = 0; i < made.n; i++) {
    if (ok) made.at[i]->lost = fl_lost(FL_LOST_RESET, c->site, 0);
    if (ok) fl_entry_drop(made.at[i]);
    fl_node_drop(made.at[i]);
  }
  FL_DROP(&c->mem, &made);
  return ok ? FLAME_OK : FL_FAIL(c, FLAME_NO_MEMORY, "autograd.reset", "host memory is out");
}

void fl_entry_restart(fl_node *n, fl_node *b) {
  fl_entry *e = n->entry;
  if (!e || e->leaf || e->spent) return;
  release_inputs(n, e);
  fl_custom_drop(n->ctx, e->custom);
  e->custom = NULL;
  e->tracked = b->entry != NULL;
  b->grefs++;
}

int fl_entry_leaf(fl_node *n, struct flame_tensor *handle) {
  fl_entry *e = entry_new(n->ctx);
  if (!e) return 0;
  if (n->entry) fl_entry_drop(n);
  e->leaf = 1;
  e->handle = handle;
  n->entry = e;
  return 1;
}

void fl_entry_share_leaf(fl_node *n, fl_node *old) {
  fl_entry *e = old->entry;
  e->refs++;
  if (n->entry) fl_entry_drop(n);
  n->entry = e;
}
