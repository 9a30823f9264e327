#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// DeepSpeed's rule: presets::deepspeed and presets::deepspeed_config.
using DeepSpeedLossScale = BasicDynamicLossScale<GrowEveryIntervalSinceOverflow, BackOffAfterDelayedShift>;
/// The rule of older DeepSpeeds: presets::deepspeed_0_16.
using DelayedShiftLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAfterDelayedShift>;
/// Cerebras' rule: presets::cerebras_fp16 and presets::cerebras_cbfloat16.
using CerebrasLossScale = BasicDynamicLossScale<GrowAfterAllSteps, BackOffWhenShareExceedsTolerance>;
/// fairseq's rule: presets::fairseq.
using FairseqLossScale = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffWhenShareReachesTolerance>;
/// metaseq's rule: presets::metaseq.
using MetaseqLossScale = BasicDynamicLossScale<GrowEveryScaledWindowSinceOverflow, BackOffWhenShareReachesTolerance>;

namespace detail {

/// An argument of a preset as a scale. Throws std::invalid_argument naming it where it is none.
[[nodiscard]] constexpr float scale_argument(const char* name, const double& value) {
  if (!positive_in(value, static_cast<double>(smallest_loss_scale), static_cast<double>(largest_loss_scale))) {
    throw_bad_value(name, value, "in [2^-126, 2^126]");
  }
  return rounded_to_float(value);
}
/// The same for a floor, where 0 is none and anything else too small for us as good as none.
[[nodiscard]] constexpr float floor_argument(const char* name, const double& value) {
  const bool is_small = bit_cast<std::uint64_t>(value) << 1U < bit_cast<std::uint64_t>(smallest_normal_float) << 1U;
  const bool is_negative = (bit_cast<std::uint64_t>(value) & binary64::sign_mask) != 0;
  return is_small && !is_negative ? smallest_loss_scale : scale_argument(name, value);
}
/// An argument as the system rounds it, to float. Throws std::invalid_argument naming it where it is none.
[[nodiscard]] constexpr double float_argument(const char* name, const double& value) {
  if (!positive_in(value, smallest_float, largest_float)) throw_bad_value(name, value, "a positive float");
  return static_cast<double>(rounded_to_float(value));
}
/// A factor that growth multiplies by and backoff divides by.
[[nodiscard]] constexpr double factor_argument(const char* name, const double& value) {
  if (!positive_in(value, just_above_1, largest_double)) throw_bad_value(name, value, "above 1 and finite");
  return value;
}
/// The same as the system rounds it, to float.
[[nodiscard]] constexpr double float_factor_argument(const char* name, const double& value) {
  const double rounded = float_argument(name, value);
  if (rounded <= 1.0) throw_bad_value(name, value, "above 1 as a float");
  return rounded;
}

/// A policy that may start below its floor, which some systems allow: the first overflow brings it there.
template <class Policy, class Config>
[[nodiscard]] constexpr Policy starting_anywhere(Config config, float initial_scale) {
  LossScaleConfig& common = loss_scale_config(config);
  common.initial_scale = initial_scale < common.min_scale ? common.min_scale : initial_scale;
  return Policy(config).with_loss_scale(initial_scale);
}

[[nodiscard]] constexpr LossScaleConfig preset_config(float initial_scale, std::int64_t growth_interval, double growth_factor,
                                                      double backoff_factor, float min_scale,
                                                      float max_scale = largest_loss_scale) {
  LossScaleConfig config;
  config.initial_scale = initial_scale;
  config.growth_interval = growth_interval;
  config.growth_factor = growth_factor;
  config.backoff_factor = backoff_factor;
  config.min_scale = min_scale;
  config.max_scale = max_scale;
  return config;
}

/// The same for a system that checks what growth would give.
[[nodiscard]] constexpr LossScaleConfig refusing_infinity(LossScaleConfig config) {
  config.refuse_infinite_growth = true;
  return config;
}

/// Cerebras' scale for the half dtype whose largest scale is `largest`.
[[nodiscard]] constexpr CerebrasLossScale cerebras(const double& largest, const double& init_scale,
                                                   std::int64_t steps_per_increase, const double& min_loss_scale,
                                                   const double& max_loss_scale, const double& overflow_tolerance) {
  constexpr double default_min = 0x1p-14;
  const auto or_default = [](const double& value, double otherwise) {
    return (bit_cast<std::uint64_t>(value) & binary64::abs_mask) == 0 ? otherwise : value;
  };
  const float least = scale_argument("min_loss_scale", or_default(min_loss_scale, default_min));
  if (least < static_cast<float>(default_min)) {
    throw_bad_value("min_loss_scale", min_loss_scale, "at least 2^-14");
  }
  const float most = scale_argument("max_loss_scale", or_default(max_loss_scale, largest));
  float start = scale_argument("init_scale", or_default(init_scale, largest));
  start = start < most ? start : most;
  start = start < least ? least : start;
  const std::int64_t interval = steps_per_increase == 0 ? 2000 : steps_per_increase;
  return CerebrasLossScale(ToleranceConfig{preset_config(start, interval, 2.0, 0.5, least, most), overflow_tolerance});
}

/// What DeepSpeed's scales of all versions have in common.
template <class Policy>
[[nodiscard]] constexpr Policy delayed_shift(const double& init_scale, const double& scale_factor, std::int64_t scale_window,
                                             const double& min_scale, std::int32_t delayed_shift, bool consecutive_hysteresis) {
  const double factor = factor_argument("scale_factor", scale_factor);
  const LossScaleConfig scale = preset_config(1.0F, scale_window, factor, 1.0 / factor, floor_argument("min_scale", min_scale));
  return starting_anywhere<Policy>(DelayedShiftConfig{scale, delayed_shift, consecutive_hysteresis},
                                   scale_argument("init_scale", init_scale));
}

/// What fairseq's scale and metaseq's have in common.
template <class Policy>
[[nodiscard]] constexpr Policy with_tolerance(const double& init_scale, const double& scale_factor, std::int64_t scale_window,
                                              double tolerance, const double& threshold, const double& min_loss_scale) {
  const float bound = floor_argument("threshold", threshold);
  const float least = floor_argument("min_loss_scale", min_loss_scale);
  const double factor = factor_argument("scale_factor", scale_factor);
  const LossScaleConfig scale = preset_config(1.0F, scale_window, factor, 1.0 / factor, bound < least ? least : bound);
  return starting_anywhere<Policy>(ToleranceConfig{scale, tolerance}, scale_argument("init_scale", init_scale));
}

}  // namespace detail

/// Policies that follow other systems step by step, as long as the system's own scale stays in [2^-126, 2^126]; beyond, ours
/// stays at the bound where theirs reaches 0 or Inf. jmp, eformer, torch and apex refuse a growth to Inf. Where theirs is a
/// double (Emily, DeepSpeed, fairseq, metaseq) ours is rounded to float after each change, which with factors of 2 changes
/// nothing. Arguments and defaults are the system's own. All throw std::invalid_argument, naming argument or field and value,
/// where one is out of range.
namespace presets {

/// jmp.DynamicLossScale. `factor` multiplies on growth and divides on overflow; it is rounded to float, as in jmp. A floor of 0
/// is none. Compiled (jax.jit), jmp and eformer multiply by 1 / factor rounded to float, where this divides as they do without:
/// for a factor that is no power of two the last bit can differ.
[[nodiscard]] constexpr DynamicLossScale jmp(const double& loss_scale = 32768.0, std::int64_t period = 2000,
                                             const double& factor = 2.0, const double& min_loss_scale = 1.0) {
  const double rounded = detail::float_factor_argument("factor", factor);
  return detail::starting_anywhere<DynamicLossScale>(
      detail::refusing_infinity(detail::preset_config(1.0F, period, rounded, 1.0 / rounded,
                                                      detail::floor_argument("min_loss_scale", min_loss_scale))),
      detail::scale_argument("loss_scale", loss_scale));
}

/// eformer's DynamicLossScale, from its LossScaleConfig: jmp's rule.
[[nodiscard]] constexpr DynamicLossScale eformer(const double& initial_scale = 32768.0, std::int64_t growth_interval = 2000,
                                                 const double& scale_factor = 2.0, const double& min_scale = 1.0) {
  return jmp(initial_scale, growth_interval, scale_factor, min_scale);
}

/// Emily.MixedPrecision.LossScaler.
[[nodiscard]] constexpr DynamicLossScale emily(const double& scale = 65536.0, const double& growth_factor = 2.0,
                                               const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                                               const double& min_scale = 1.0) {
  return detail::starting_anywhere<DynamicLossScale>(detail::preset_config(1.0F, growth_interval, growth_factor, backoff_factor,
                                                                           detail::floor_argument("min_scale", min_scale)),
                                                     detail::scale_argument("scale", scale));
}

/// torch.amp.GradScaler, and RoundPipe's where it is synchronous. Has no floor.
[[nodiscard]] constexpr DynamicLossScale torch(const double& init_scale = 65536.0, const double& growth_factor = 2.0,
                                               const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000) {
  return DynamicLossScale(detail::refusing_infinity(detail::preset_config(
      detail::scale_argument("init_scale", init_scale), growth_interval, growth_factor, backoff_factor, smallest_loss_scale)));
}

/// Megatron-core's DynamicGradScaler, with the defaults of Megatron's command line. Factors are rounded to float, as there. Its
/// hysteresis is refilled by growth only, which is not what its documentation says.
[[nodiscard]] constexpr BasicHysteresisScale<RefillOnGrowth> megatron(
    const double& initial_scale = 0x1p32, const double& min_scale = 1.0, const double& growth_factor = 2.0,
    const double& backoff_factor = 0.5, std::int64_t growth_interval = 1000, std::int32_t hysteresis = 2) {
  const LossScaleConfig scale = detail::preset_config(detail::scale_argument("initial_scale", initial_scale), growth_interval,
                                                      detail::float_argument("growth_factor", growth_factor),
                                                      detail::float_argument("backoff_factor", backoff_factor),
                                                      detail::floor_argument("min_scale", min_scale));
  return BasicHysteresisScale<RefillOnGrowth>(HysteresisConfig{scale, hysteresis});
}

/// apex's update_scale_hysteresis kernel. It has no defaults: these are torch's, and a hysteresis of 2. Has no floor.
[[nodiscard]] constexpr HysteresisScale apex(const double& scale = 65536.0, const double& growth_factor = 2.0,
                                             const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                                             std::int32_t hysteresis = 2) {
  const LossScaleConfig config = detail::refusing_infinity(detail::preset_config(
      detail::scale_argument("scale", scale), growth_interval, growth_factor, backoff_factor, smallest_loss_scale));
  return HysteresisScale(HysteresisConfig{config, hysteresis});
}

/// DeepSpeed's DynamicLossScaler since 0.17.1, and its FP16 optimizers of before: growth comes on clean step `scale_window` +
/// 1, and then every `scale_window` steps. Defaults are those of the scaler up to 0.17.0, which has none since; a training that
/// is configured starts from others: deepspeed_config. At the floor DeepSpeed can end the training (raise_error_at_min_scale);
/// this goes on, as it does without.
[[nodiscard]] constexpr DeepSpeedLossScale deepspeed(const double& init_scale = 0x1p32, const double& scale_factor = 2.0,
                                                     std::int64_t scale_window = 1000, const double& min_scale = 1.0,
                                                     std::int32_t delayed_shift = 1, bool consecutive_hysteresis = false) {
  return detail::delayed_shift<DeepSpeedLossScale>(init_scale, scale_factor, scale_window, min_scale, delayed_shift,
                                                   consecutive_hysteresis);
}
/// DeepSpeed's DynamicLossScaler up to 0.17.0, which grows on clean step `scale_window` already.
[[nodiscard]] constexpr DelayedShiftLossScale deepspeed_0_16(const double& init_scale = 0x1p32,
                                                             const double& scale_factor = 2.0, std::int64_t scale_window = 1000,
                                                             const double& min_scale = 1.0, std::int32_t delayed_shift = 1,
                                                             bool consecutive_hysteresis = false) {
  return detail::delayed_shift<DelayedShiftLossScale>(init_scale, scale_factor, scale_window, min_scale, delayed_shift,
                                                      consecutive_hysteresis);
}
/// What "fp16" in DeepSpeed's configuration makes, with the names and defaults it has there: the scale of ZeRO since 0.17.1.
/// Its other FP16 optimizers have no hysteresis (1 is none), and the unfused one has by default a floor of 0.25.
[[nodiscard]] constexpr DeepSpeedLossScale deepspeed_config(int initial_scale_power = 16, std::int64_t loss_scale_window = 1000,
                                                            std::int32_t hysteresis = 2, bool consecutive_hysteresis = false,
                                                            const double& min_loss_scale = 1.0) {
  if (initial_scale_power < -126 || initial_scale_power > 126) {
    detail::throw_bad_value("initial_scale_power", std::int64_t{initial_scale_power}, "in [-126, 126]");
  }
  double scale = 1.0;
  for (int power = 0; power < initial_scale_power; ++power) scale *= 2.0;
  for (int power = 0; power > initial_scale_power; --power) scale /= 2.0;
  return deepspeed(scale, 2.0, loss_scale_window, min_loss_scale, hysteresis, consecutive_hysteresis);
}

/// cerebras.pytorch.amp.GradScaler with loss_scale="dynamic", for fp16: from 2^15, in [2^-14, 2^15]. 0 is the default, which
/// Cerebras' None and 0 mean alike. An `init_scale` outside [min_loss_scale, max_loss_scale] starts at the bound, which
/// Cerebras does after the first step.
[[nodiscard]] constexpr CerebrasLossScale cerebras_fp16(const double& init_scale = 0.0, std::int64_t steps_per_increase = 0,
                                                        const double& min_loss_scale = 0.0, const double& max_loss_scale = 0.0,
                                                        const double& overflow_tolerance = 0.0) {
  return detail::cerebras(0x1p15, init_scale, steps_per_increase, min_loss_scale, max_loss_scale, overflow_tolerance);
}
/// The same for cbfloat16: from 2^31, in [2^-14, 2^31].
[[nodiscard]] constexpr CerebrasLossScale cerebras_cbfloat16(const double& init_scale = 0.0,
                                                             std::int64_t steps_per_increase = 0,
                                                             const double& min_loss_scale = 0.0,
                                                             const double& max_loss_scale = 0.0,
                                                             const double& overflow_tolerance = 0.0) {
  return detail::cerebras(0x1p31, init_scale, steps_per_increase, min_loss_scale, max_loss_scale, overflow_tolerance);
}

/// fairseq's DynamicLossScaler. A `threshold` of 0 is its None. The floor is the larger of `threshold` and `min_loss_scale`;
/// at min_loss_scale fairseq ends the training, and this goes on.
[[nodiscard]] constexpr FairseqLossScale fairseq(const double& init_scale = 32768.0, const double& scale_factor = 2.0,
                                                 std::int64_t scale_window = 2000, const double& tolerance = 0.0,
                                                 const double& threshold = 0.0, const double& min_loss_scale = 1e-4) {
  return detail::with_tolerance<FairseqLossScale>(init_scale, scale_factor, scale_window, tolerance, threshold, min_loss_scale);
}
/// metaseq's DynamicLossScaler, whose window grows and shrinks with the scale. A backoff that would take its scale below
/// min_loss_scale leaves it where it is, and takes ours to min_loss_scale: the same where the scale meets that exactly on its
/// way down, as with the defaults.
[[nodiscard]] constexpr MetaseqLossScale metaseq(const double& init_scale = 4.0, const double& scale_factor = 2.0,
                                                 std::int64_t scale_window = 256, const double& tolerance = 0.0,
                                                 const double& threshold = 0.0, const double& min_loss_scale = 0x1p-5) {
  return detail::with_tolerance<MetaseqLossScale>(init_scale, scale_factor, scale_window, tolerance, threshold, min_loss_scale);
}

}  // namespace presets

}  // namespace HEADROOM_BUILD
}  // namespace headroom
