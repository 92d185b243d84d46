/* flame-lua from C: the value and the gradient of sum(exp(x)).  See docs/embedding.md. */
#include <flame.h>
#include <stdio.h>

int main(void) {
  flame_context *c = flame_open(NULL);
  if (!c) return 1;
  const float data[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 2.5f};
  flame_tensor *x = flame_from_data(c, FLAME_F32, 2, (int64_t[]){2, 3}, data);
  flame_requires_grad(x, 1);

  flame_tensor *y = flame_exp(x), *s = flame_sum_all(y);   /* recorded, not yet computed */
  double sum = 0;
  float grad[6];
  flame_status e = flame_item(s, &sum);                    /* computes */
  if (e == FLAME_OK) e = flame_backward(s, NULL);
  flame_tensor *g = flame_grad_of(x);
  if (e == FLAME_OK) e = flame_read(g, grad, sizeof grad);

  if (e == FLAME_OK) {
    printf("sum of exp(x) = %.4f\ngradient      =", sum);
    for (int i = 0; i < 6; i++) printf(" %.4f", (double)grad[i]);
    printf("\n");
  } else {
    fprintf(stderr, "%s\n", flame_error(c));
  }
  flame_tensor *owned[] = {x, y, s, g};
  for (int i = 0; i < 4; i++) flame_free(owned[i]);
  flame_close(c);
  return e == FLAME_OK ? 0 : 1;
}
