/* A training loop in C99. It also compiles as C++. */
#include <headroom.h>
#include <stdio.h>
#include <string.h>

/* What a program writes that was compiled with a shorter headroom_step, as of an older header. */
struct older_step {
  uint32_t struct_size;
  int32_t skipped, reason;
};

#define CHECK(condition) \
  if (!(condition))      \
  return printf("line %d: %s; %s\n", __LINE__, #condition, headroom_last_error()), 1

int main(void) {
  float weights[2] = {1.0F, 2.0F}, grads[2];
  int64_t shape[2] = {2, 1};
  headroom_tensor tensor = {NULL, 0, HEADROOM_FLOAT32, 2, NULL, NULL};
  headroom_grad_scaler* scaler = NULL;
  headroom_loss_scale* policy = NULL;
  int step, taken = 0;
  CHECK(headroom_abi() == HEADROOM_ABI);
  tensor.data = grads;
  tensor.shape = shape;

  CHECK(headroom_loss_scale_make("dynamic", "initial_scale = 1024.0\ngrowth_interval = 2",
                                 &policy) == HEADROOM_OK);
  CHECK(headroom_grad_scaler_make(policy, &scaler) == HEADROOM_OK);
  headroom_loss_scale_free(policy);
  for (step = 0; step < 6; ++step) {
    double seed = 0.0;
    struct {
      struct older_step step;
      unsigned char after[200];
    } out;
    memset(&out, 0x5A, sizeof out);
    out.step.struct_size = sizeof out.step;
    CHECK(headroom_grad_scaler_scale(scaler, 1.0, &seed) == HEADROOM_OK);
    grads[0] = (float)seed * 0.5F;
    grads[1] = step == 3 ? (float)(seed * 1e300) : 0.0F; /* Inf */
    CHECK(headroom_grad_scaler_step(scaler, 7, &tensor, 1, (headroom_step*)(void*)&out.step) ==
          HEADROOM_OK);
    CHECK(out.step.struct_size == sizeof out.step);
    CHECK(out.step.skipped == (step == 3) &&
          out.step.reason == (step == 3 ? HEADROOM_SKIP_NOT_FINITE : HEADROOM_SKIP_NONE));
    CHECK(out.after[0] == 0x5A && memcmp(out.after, out.after + 1, sizeof out.after - 1) == 0);
    if (!out.step.skipped) {
      weights[0] -= 0.1F * grads[0];
      ++taken;
    }
    CHECK(headroom_grad_scaler_update(scaler) == HEADROOM_OK);
  }
  headroom_grad_scaler_free(scaler);
  CHECK(taken == 5 && weights[0] > 0.74F && weights[0] < 0.76F);
  puts("right");
  return 0;
}
