/* Learns a linear model with fp16 gradients. A corrupt sample overflows in one step, which is
 * skipped. Half-way, the state of the scaler is saved and loaded, as if the program had been
 * stopped. */
#include <headroom.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { n_features = 16, n_steps = 600, corrupt_step = 7 };

/* The loss is a mean over so many outputs that its gradients are 0 in fp16, unless the loss is
 * scaled. */
static const float n_outputs = 4e8F;

typedef struct {
  float weight[n_features], bias[1];
} Model;
typedef struct {
  uint16_t weight[n_features], bias[1];
} Model16;
static const char* const names[] = {"weight", "bias"};

static void check(headroom_status status) {
  if (status == HEADROOM_OK) return;
  fprintf(stderr, "%s\n", headroom_last_error());
  exit(1);
}

static float true_weight(int i) { return (float)(i - 8) / 8.0F; }

static float sample(int step, float x[n_features]) {
  float label = 0.5F;
  for (int i = 0; i < n_features; ++i) {
    const double k = n_features * step + i;
    x[i] = (float)sin(0.37 * k * k);
    label += true_weight(i) * x[i];
  }
  if (step == corrupt_step) x[13] = 1e30F;
  return label;
}

/* The gradients of scale * Huber loss / n_outputs. */
static Model backward(const Model* model, int step, float scale) {
  float x[n_features];
  float error = model->bias[0] - sample(step, x);
  for (int i = 0; i < n_features; ++i) error += model->weight[i] * x[i];
  const float factor = scale * fminf(fmaxf(error, -1.0F), 1.0F) / n_outputs;
  Model grads = {.bias = {factor}};
  for (int i = 0; i < n_features; ++i) grads.weight[i] = factor * x[i];
  return grads;
}

static void descend(Model* model, const Model* grads) {
  const float rate = 0.1F * n_outputs;
  for (int i = 0; i < n_features; ++i) model->weight[i] -= rate * grads->weight[i];
  model->bias[0] -= rate * grads->bias[0];
}

static headroom_grad_scaler* make_scaler(void) {
  headroom_loss_scale* policy = NULL;
  headroom_grad_scaler* scaler = NULL;
  check(headroom_loss_scale_make("torch", "growth_interval = 50", &policy));
  check(headroom_grad_scaler_make(policy, &scaler)); /* copies the policy */
  headroom_loss_scale_free(policy);
  return scaler;
}

/* The text that headroom_grad_scaler_load reads. The caller frees it. */
static char* saved(const headroom_grad_scaler* scaler) {
  size_t size = 0;
  check(headroom_grad_scaler_save(scaler, NULL, &size)); /* asks for the size */
  char* text = malloc(size);
  if (text == NULL) exit(1);
  check(headroom_grad_scaler_save(scaler, text, &size));
  return text;
}

int main(void) {
  if (headroom_abi() != HEADROOM_ABI)
    return fprintf(stderr, "headroom.h does not fit headroom %s\n", headroom_version());
  Model model = {.bias = {0.0F}}, grads;
  Model16 grads16;
  const headroom_tensor floats[] = {
      {.data = grads.weight, .size = n_features, .dtype = HEADROOM_FLOAT32},
      {.data = grads.bias, .size = 1, .dtype = HEADROOM_FLOAT32}};
  const headroom_tensor halves[] = {
      {.data = grads16.weight, .size = n_features, .dtype = HEADROOM_FLOAT16},
      {.data = grads16.bias, .size = 1, .dtype = HEADROOM_FLOAT16}};
  headroom_grad_scaler* scaler = make_scaler();
  int n_skipped = 0;
  for (int step = 0; step < n_steps; ++step) {
    double scale = 0.0;
    check(headroom_grad_scaler_scale(scaler, 1.0, &scale));
    grads = backward(&model, step, (float)scale);
    /* a network in fp16 computes such gradients itself */
    check(headroom_cast(floats, halves, 2, 0, 1));

    headroom_step result = {.struct_size = sizeof result};
    check(headroom_grad_scaler_step_into(scaler, 0, halves, floats, 2, &result));
    if (!result.skipped) {
      descend(&model, &grads);
    } else {
      const headroom_place* place = &result.nonfinite;
      printf("step %d skipped: %s in \"%s\"[%u]\n", step, place->is_nan ? "NaN" : "inf",
             names[place->tensor], (unsigned)place->index);
      ++n_skipped;
    }
    check(headroom_grad_scaler_update(scaler));

    if (step == n_steps / 2) {
      char* text = saved(scaler);
      headroom_grad_scaler_free(scaler);
      scaler = make_scaler();
      check(headroom_grad_scaler_load(scaler, text));
      free(text);
    }
  }
  const double scale = (double)headroom_grad_scaler_get_scale(scaler);
  headroom_grad_scaler_free(scaler);

  float error = fabsf(model.bias[0] - 0.5F);
  for (int i = 0; i < n_features; ++i)
    error = fmaxf(error, fabsf(model.weight[i] - true_weight(i)));
  printf("%d of %d steps skipped, last scale %g, largest error of a weight %g\n", n_skipped,
         n_steps, scale, (double)error);
  return n_skipped == 1 && scale == 65536.0 / 2 * 2048 && error < 0.001F ? 0 : 1;
}
