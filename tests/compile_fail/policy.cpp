#include <headroom/headroom.hpp>

#include <array>
#include <tuple>
#include <vector>

// case: discarded_adjust
// expect: adjust
// expect: nodiscard
#pragma GCC diagnostic error "-Wunused-result"

void step(headroom::DynamicLossScale& policy, bool grads_finite) {
#ifdef HEADROOM_CONTROL
  policy = policy.adjust(grads_finite);
#else
  policy.adjust(grads_finite);
#endif
}

// case: discarded_report
// expect: nodiscard
#pragma GCC diagnostic error "-Wunused-result"

void step(const headroom::DynamicLossScale& policy, std::vector<float>& grads) {
#ifdef HEADROOM_CONTROL
  if (policy.unscale_in_place(grads)) policy.scale_in_place(grads);
#else
  policy.unscale_in_place(grads);
#endif
}

// case: fp16_in_place
// expect: headroom: fp16 and 8-bit gradients that are unscaled in place become 0
// expect: unscale_in_place<headroom::allow_fp16_gradients>
bool unscale(const headroom::DynamicLossScale& loss_scale,
             std::tuple<float, std::vector<headroom::half>>& gradients) {
#ifdef HEADROOM_CONTROL
  return loss_scale.unscale_in_place<headroom::allow_fp16_gradients>(gradients).finite;
#else
  return loss_scale.unscale_in_place(gradients).finite;
#endif
}

// case: integers_scaled
// expect: headroom: there is no floating-point number in this type
// expect: For a 1 write 1.0f
#ifdef HEADROOM_CONTROL
constexpr float one = 1.0F;
#else
constexpr int one = 1;
#endif

float scale(const headroom::DynamicLossScale& scaler) { return scaler.scale(one); }

// case: integers_scaled_by_nothing
// expect: headroom: there is no floating-point number in this type
#ifdef HEADROOM_CONTROL
constexpr float one = 1.0F;
#else
constexpr int one = 1;
#endif

float scale(const headroom::NoOpLossScale& scaler) { return scaler.scale(one); }

// case: loss_scale_said_twice
// expect: Executor
// expect: (void)scaler.scale(tree<1>
// expect: (void)scaler.unscale<float>(tree<2>
// expect: (void)scaler.unscale_in_place(tree<3>
// expect: (void)scaler.unscale_into(tree<4>
// expect: (void)scaler.accumulate_into(tree<5>
// expect: (void)scaler.unscale_and_clip_in_place(tree<6>
// expect: (void)noop.scale(tree<7>
// errors: 7
// A compiler shows the line of each error.
template <std::size_t N>
std::array<float, N> tree;

void verbs(const headroom::DynamicLossScale& scaler, const headroom::NoOpLossScale& noop) {
#ifdef HEADROOM_CONTROL
  (void)scaler.scale(tree<1>);
  (void)scaler.unscale<float>(tree<2>);
  (void)scaler.unscale_in_place(tree<3>);
  (void)scaler.unscale_into(tree<4>, tree<4>);
  (void)scaler.accumulate_into(tree<5>, tree<5>);
  (void)scaler.unscale_and_clip_in_place(tree<6>, 1.0);
  (void)noop.scale(tree<7>);
#else
  (void)scaler.scale(tree<1>, scaler.loss_scale());
  (void)scaler.unscale<float>(tree<2>, scaler.loss_scale());
  (void)scaler.unscale_in_place(tree<3>, scaler.loss_scale());
  (void)scaler.unscale_into(tree<4>, tree<4>, scaler.loss_scale());
  (void)scaler.accumulate_into(tree<5>, tree<5>, scaler.loss_scale());
  (void)scaler.unscale_and_clip_in_place(tree<6>, scaler.loss_scale(), 1.0);
  (void)noop.scale(tree<7>, noop.loss_scale());
#endif
}

// case: policy_of_a_number
// expect: or LossScaleConfig{scale}
#ifdef HEADROOM_CONTROL
headroom::DynamicLossScale policy(headroom::LossScaleConfig{65536.0F}), braces({65536.0F});
#else
headroom::DynamicLossScale policy(65536.0F);
#endif

// case: policy_without_adjust
// expect: P adjust(bool) const and P adjust(const headroom::GradientReport&) const
struct Mine : headroom::LossScaleVerbs<Mine> {
  float loss_scale() const { return 1.0F; }
#ifdef HEADROOM_CONTROL
  Mine adjust(bool) const { return *this; }
#endif
  Mine adjust(const headroom::GradientReport&) const { return *this; }
};

void train(headroom::GradScaler<Mine>& scaler) { scaler.update(); }

// case: policy_without_state
// expect: from_state_dict
struct Mine {
  float loss_scale() const { return 1.0F; }
  Mine adjust(bool) const { return *this; }
  Mine adjust(const headroom::GradientReport&) const { return *this; }
#ifdef HEADROOM_CONTROL
  static Mine from_state_dict(const headroom::StateDict&) { return {}; }
#endif
};

void load(headroom::GradScaler<Mine>& scaler, const headroom::StateDict& state) {
  scaler.load_state_dict(state);
}

// case: rules_with_settings
// expect: both rules have settings of their own
struct Growth : headroom::GrowAfterFiniteSteps {
#ifdef HEADROOM_CONTROL
  using Config = headroom::HysteresisConfig;
#else
  using Config = headroom::ToleranceConfig;
#endif
  using headroom::GrowAfterFiniteSteps::GrowAfterFiniteSteps;
};

using Config = headroom::BasicDynamicLossScale<Growth, headroom::BackOffAfterHysteresis<>>::Config;

int main() { return sizeof(Config) == 0 ? 1 : 0; }

// case: settings_of_noop
// expect: headroom: this needs a policy whose config() is or has a LossScaleConfig
#ifdef HEADROOM_CONTROL
using Policy = headroom::DynamicLossScale;
#else
using Policy = headroom::NoOpLossScale;
#endif

void configure(headroom::GradScaler<Policy>& scaler) { scaler.set_growth_interval(500); }
