#include <headroom/headroom.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <map>
#include <string>
#include <vector>

// case: factor_unsaid
// expect: headroom: this step takes a GradientFactor
struct Optimizer {
#ifdef HEADROOM_CONTROL
  static constexpr bool takes_gradient_factor = true;
#endif
  std::vector<float> grads;
  std::vector<float>& gradients() { return grads; }
  void step(headroom::GradientFactor, float) {}
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { scaler.step(optimizer, 0.1F); }

// case: fp16_gradients
// expect: headroom: fp16 and 8-bit gradients that are unscaled in place become 0
struct Optimizer {
#ifdef HEADROOM_CONTROL
  static constexpr bool allow_fp16_gradients = true;
#endif
  std::map<std::string, std::vector<headroom::half>> grads;
  auto& gradients() { return grads; }
  void step() {}
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { scaler.step(optimizer); }

// case: gradients_by_value
// expect: headroom: the gradients of this optimizer come as a copy
struct Optimizer {
#ifdef HEADROOM_CONTROL
  std::vector<float>& gradients() { return grads; }
#else
  std::vector<float> gradients() { return grads; }
#endif
  void step() {}
  std::vector<float> grads;
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { (void)scaler.step(optimizer); }

// case: gradients_by_value_in_struct
// expect: headroom: the gradients of this optimizer come as a copy
struct Gradients {
#ifdef HEADROOM_CONTROL
  std::vector<float>& weight;
#else
  std::vector<float> weight;
#endif
  HEADROOM_TREE(Gradients, weight)
};
struct Optimizer {
  Gradients gradients() { return {grads}; }
  void step() {}
  std::vector<float> grads;
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { (void)scaler.step(optimizer); }

// case: integers_scaled_in_training
// expect: headroom: there is no floating-point number in this type
#ifdef HEADROOM_CONTROL
constexpr float one = 1.0F;
#else
constexpr int one = 1;
#endif

float scale(headroom::GradScaler<>& scaler) { return scaler.scale(one); }

// case: no_optimizer
// expect: headroom: this is no optimizer
struct Optimizer {
#ifdef HEADROOM_CONTROL
  std::vector<float>& gradients() { return grads; }
#endif
  void step() {}
  std::vector<float> grads;
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) { (void)scaler.step(optimizer); }

// case: scalers_of_another_policy
// expect: write GradScaler(policy), without <>
// expect: write AsyncGradScaler(policy), without <>
// errors: 3
void train(const char* name) {
#ifdef HEADROOM_CONTROL
  headroom::GradScaler any(headroom::make_loss_scale(name));
  headroom::GradScaler constant(headroom::ConstantLossScale(2.0F), false);
  headroom::AsyncGradScaler async(headroom::make_loss_scale(name));
  headroom::GradScaler<headroom::AnyLossScale> holds(headroom::DynamicLossScale{});
  headroom::AsyncGradScaler<headroom::AnyLossScale> too(headroom::ConstantLossScale(2.0F));
#else
  headroom::GradScaler<> any(headroom::make_loss_scale(name));
  headroom::GradScaler<> constant(headroom::ConstantLossScale(2.0F), false);
  headroom::AsyncGradScaler<> async(headroom::make_loss_scale(name));
#endif
}

// case: step_gradients_of_half
// expect: headroom: step_gradients calls f(gradients) with a reference to the unscaled tree
#ifdef HEADROOM_CONTROL
using Element = float;
#else
using Element = headroom::half;
#endif

void train(headroom::GradScaler<>& scaler, const std::vector<headroom::half>& gradients) {
  (void)scaler.step_gradients(gradients, [](const std::vector<Element>&) {});
}

// case: step_gradients_without_argument
// expect: headroom: step_gradients calls f(gradients) with a reference to the unscaled tree
void train(headroom::GradScaler<>& scaler, std::vector<float>& gradients) {
#ifdef HEADROOM_CONTROL
  (void)scaler.step_gradients(gradients, [](auto&) {});
#else
  (void)scaler.step_gradients(gradients, [] {});
#endif
}

// case: step_of_other_arguments
// expect: headroom: this optimizer has no public step that takes these arguments
struct Optimizer {
  std::vector<float> grads;
  std::vector<float>& gradients() { return grads; }
  void step(double) {}
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) {
#ifdef HEADROOM_CONTROL
  (void)scaler.step(optimizer, 0.1);
#else
  (void)scaler.step(optimizer);
#endif
}

// case: unscale_deferred
// expect: headroom: gradients of an optimizer that takes a GradientFactor stay scaled
struct Optimizer {
  static constexpr bool takes_gradient_factor = true;
  std::vector<float> grads;
  std::vector<float>& gradients() { return grads; }
  void step(headroom::GradientFactor) {}
};

void train(headroom::GradScaler<>& scaler, Optimizer& optimizer) {
#ifdef HEADROOM_CONTROL
  scaler.unscale_and_clip_(optimizer, 1.0);
#else
  scaler.unscale_(optimizer);
#endif
}
