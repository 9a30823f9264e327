#pragma once

#include <headroom/policy/deepspeed.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/tolerance.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

// The arguments of presets are checked before they are rounded or combined, so that errors name the preset's own parameter and
// the value that the caller wrote.

/// A floor. 0 and any other value below 2^-126 mean none.
[[nodiscard]] constexpr float floor_argument(const char* name, const double& value) {
  if (is_zero(value) || is_within(value, smallest_double, smallest_normal_float)) return smallest_loss_scale;
  return scale_argument(name, value, "in [0, 2^126]");
}
/// A growth factor whose inverse is the backoff factor. The inverse must be normal, because -ffast-math flushes others to 0.
[[nodiscard]] constexpr double factor_argument(const char* name, const double& value) {
  check_in(name, value, just_above_1, 1.0 / std::numeric_limits<double>::min(), "above 1 and at most 2^1022");
  return value;
}
/// A growth factor that the system rounds to float, or a backoff factor.
[[nodiscard]] constexpr double float_factor_argument(const char* name, const double& value, bool grows = true) {
  const double low = grows ? just_above_1 : smallest_normal_float, high = grows ? largest_float : just_below_1;
  if (!is_within(value, low, high) || rounded_to_float(value) == 1.0F) {
    throw_bad_value(name, value, grows ? "above 1 and finite as a float" : "at least 2^-126 and below 1 as a float");
  }
  return static_cast<double>(rounded_to_float(value));
}

/// A policy that may start below its floor, as some systems allow. The first backoff raises it to the floor.
template <class Policy, class Config>
[[nodiscard]] constexpr Policy starting_anywhere(Config config) {
  LossScaleConfig& common = detail::loss_scale_config(config);
  const float start = common.initial_scale;
  common.initial_scale = std::max(start, common.min_scale);
  return Policy(config).with_loss_scale(start);
}

/// An argument of Cerebras' scaler, in which 0 and None select the default.
[[nodiscard]] constexpr double or_default(const double& value, const double& otherwise) noexcept {
  return is_zero(value) ? otherwise : value;
}

}  // namespace detail

/// Paddle's rule: every `hysteresis` overflows in a row back off once, because finite steps and backoffs refill the hysteresis.
struct RefillOnCleanStepAndBackoff : detail::RefillOn<true, true> {
  static constexpr const char* name = "hysteresis_refill_on_clean_step_and_backoff";
};
using PaddleLossScale = BasicHysteresisScale<RefillOnCleanStepAndBackoff>;

/// Policies that follow other systems step by step, as long as the system's own scale stays in [2^-126, 2^126]. Beyond that
/// range headroom's scale stays at the bound, while the system's reaches 0 or Inf. Arguments, their order and their defaults
/// are the system's own. A floor of 0 means none. All throw std::invalid_argument naming the argument and its value if one is
/// out of range. Emily, DeepSpeed and fairseq keep their scale as a double; headroom rounds it to float after each change,
/// which makes no difference with factors of 2. docs/systems.md has all rules, its notes the versions.
namespace presets {

/// torch.amp.GradScaler (torch/amp/grad_scaler.py, _amp_update_scale_ of ATen), and RoundPipe's when it is synchronous. Grows
/// after `growth_interval` finite steps in a row, refuses growth to Inf, and backs off on every overflow. There is no floor.
[[nodiscard]] constexpr DynamicLossScale torch(const double& init_scale = 65536.0, const double& growth_factor = 2.0,
                                               const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000) {
  return DynamicLossScale(detail::torch_config("init_scale", init_scale, growth_factor, backoff_factor, growth_interval));
}

/// apex's update_scale_hysteresis kernel (csrc/update_scale_hysteresis.cu): torch's rule with hysteresis. The `hysteresis`th
/// overflow in a row backs off, and so does every further one until a finite step. apex has no defaults. These are torch's,
/// with a hysteresis of 2.
[[nodiscard]] constexpr HysteresisScale apex(const double& scale = 65536.0, const double& growth_factor = 2.0,
                                             const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                                             std::int32_t hysteresis = 2) {
  return HysteresisScale({detail::torch_config("scale", scale, growth_factor, backoff_factor, growth_interval), hysteresis});
}

/// Megatron-core's DynamicGradScaler (megatron/core/optimizer/grad_scaler.py), with the defaults of Megatron's command line.
/// Only growth refills the hysteresis; its documentation says otherwise. Factors are rounded to float, as there.
[[nodiscard]] constexpr BasicHysteresisScale<RefillOnGrowth> megatron(
    const double& initial_scale = 0x1p32, const double& min_scale = 1.0, const double& growth_factor = 2.0,
    const double& backoff_factor = 0.5, std::int64_t growth_interval = 1000, std::int32_t hysteresis = 2) {
  const LossScaleConfig scale{detail::scale_argument("initial_scale", initial_scale), growth_interval,
                              detail::float_factor_argument("growth_factor", growth_factor),
                              detail::float_factor_argument("backoff_factor", backoff_factor, /*grows=*/false),
                              detail::floor_argument("min_scale", min_scale)};
  if (scale.min_scale != 1.0F) detail::check_order("min_scale", min_scale, "initial_scale", initial_scale);  // unrounded
  return BasicHysteresisScale<RefillOnGrowth>(HysteresisConfig{scale, hysteresis});
}

/// DeepSpeed's DynamicLossScaler since 0.17.1, and its FP16 optimizers before that (deepspeed/runtime/fp16/loss_scaler.py).
/// Grows on finite step `scale_window` + 1 since the last overflow, and then every `scale_window` steps. The defaults are the
/// scaler's up to 0.17.0; later versions have none. docs/notes/systems.md has those of an "fp16" section. At the floor
/// DeepSpeed can end the training (raise_error_at_min_scale); this policy continues.
[[nodiscard]] constexpr DeepSpeedLossScale deepspeed(const double& init_scale = 0x1p32, const double& scale_factor = 2.0,
                                                     std::int64_t scale_window = 1000, const double& min_scale = 1.0,
                                                     std::int32_t delayed_shift = 1, bool consecutive_hysteresis = false) {
  const double factor = detail::factor_argument("scale_factor", scale_factor);
  detail::check_count("scale_window", scale_window);
  const LossScaleConfig scale{detail::scale_argument("init_scale", init_scale), scale_window, factor, 1.0 / factor,
                              detail::floor_argument("min_scale", min_scale)};
  return detail::starting_anywhere<DeepSpeedLossScale>(DelayedShiftConfig{scale, delayed_shift, consecutive_hysteresis});
}

/// cerebras.pytorch.amp.GradScaler with loss_scale="dynamic" (cerebras/pytorch/amp/grad_scaler.py), for fp16. Starts at 2^15
/// and stays in [2^-14, 2^15]. Backs off by the share of overflows, see tolerance.hpp. 0 selects the default, as None and 0 do
/// in Cerebras. An `init_scale` outside [min_loss_scale, max_loss_scale] becomes the bound, as after Cerebras' first step.
[[nodiscard]] constexpr CerebrasLossScale cerebras_fp16(const double& init_scale = 0.0, std::int64_t steps_per_increase = 0,
                                                        const double& min_loss_scale = 0.0, const double& max_loss_scale = 0.0,
                                                        const double& overflow_tolerance = 0.0) {
  constexpr double default_min = 0x1p-14, largest = 0x1p15;
  constexpr const char *range = "0 or in [2^-126, 2^126]", *range_of_min = "0 or in [2^-14, 2^126]";
  if (steps_per_increase < 0) detail::throw_bad_value("steps_per_increase", steps_per_increase, "0 or more");
  const double low = detail::or_default(min_loss_scale, default_min), high = detail::or_default(max_loss_scale, largest);
  const float least = detail::scale_argument("min_loss_scale", low, range_of_min);
  if (least < static_cast<float>(default_min)) detail::throw_bad_value("min_loss_scale", min_loss_scale, range_of_min);
  const float most = detail::scale_argument("max_loss_scale", high, range);
  detail::check_order("min_loss_scale", low, "max_loss_scale", high);
  const float start = detail::scale_argument("init_scale", detail::or_default(init_scale, largest), range);
  const std::int64_t interval = steps_per_increase == 0 ? 2000 : steps_per_increase;
  const LossScaleConfig scale{std::max(least, std::min(start, most)), interval, 2.0, 0.5, least, most};
  return CerebrasLossScale(ToleranceConfig{scale, overflow_tolerance});
}
/// The same for cbfloat16: starts at 2^31 and stays in [2^-14, 2^31].
[[nodiscard]] constexpr CerebrasLossScale cerebras_cbfloat16(const double& init_scale = 0.0,
                                                             std::int64_t steps_per_increase = 0,
                                                             const double& min_loss_scale = 0.0,
                                                             const double& max_loss_scale = 0.0,
                                                             const double& overflow_tolerance = 0.0) {
  return cerebras_fp16(detail::or_default(init_scale, 0x1p31), steps_per_increase, min_loss_scale,
                       detail::or_default(max_loss_scale, 0x1p31), overflow_tolerance);
}

/// fairseq's DynamicLossScaler (fairseq/optim/dynamic_loss_scaler.py): backs off by the share of overflows, see tolerance.hpp.
/// A `threshold` of 0 is fairseq's None. The floor is the larger of `threshold` and `min_loss_scale`. At min_loss_scale fairseq
/// ends the training; this policy continues.
[[nodiscard]] constexpr FairseqLossScale fairseq(const double& init_scale = 32768.0, const double& scale_factor = 2.0,
                                                 std::int64_t scale_window = 2000, const double& tolerance = 0.0,
                                                 const double& threshold = 0.0, const double& min_loss_scale = 1e-4) {
  const float bound = detail::floor_argument("threshold", threshold);
  const float least = detail::floor_argument("min_loss_scale", min_loss_scale);
  const double factor = detail::factor_argument("scale_factor", scale_factor);
  detail::check_count("scale_window", scale_window);
  detail::check_in("tolerance", tolerance, 0.0, detail::largest_double, "0 or more and finite");
  const LossScaleConfig scale{detail::scale_argument("init_scale", init_scale), scale_window, factor, 1.0 / factor,
                              bound < least ? least : bound};
  return detail::starting_anywhere<FairseqLossScale>(ToleranceConfig{scale, tolerance});
}

/// jmp.DynamicLossScale (jmp/_src/loss_scale.py). Grows after `period` finite steps in a row and refuses growth to Inf.
/// `factor` multiplies on growth and divides on overflow; it is rounded to float, as in jmp. Under jax.jit, jmp and eformer
/// multiply by 1 / factor rounded to float. This policy divides, as they do without jax.jit, so the last bit can differ unless
/// the factor is a power of two.
[[nodiscard]] constexpr DynamicLossScale jmp(const double& loss_scale = 32768.0, std::int64_t period = 2000,
                                             const double& factor = 2.0, const double& min_loss_scale = 1.0) {
  detail::check_count("period", period);
  const double rounded = detail::float_factor_argument("factor", factor);
  return detail::starting_anywhere<DynamicLossScale>(
      LossScaleConfig{detail::scale_argument("loss_scale", loss_scale), period, rounded, 1.0 / rounded,
                      detail::floor_argument("min_loss_scale", min_loss_scale), largest_loss_scale, true});
}
/// eformer's DynamicLossScale, from its LossScaleConfig (eformer/mpric/loss_scaling/loss_scaler.py): jmp's rule.
[[nodiscard]] constexpr DynamicLossScale eformer(const double& initial_scale = 32768.0, std::int64_t growth_interval = 2000,
                                                 const double& scale_factor = 2.0, const double& min_scale = 1.0) {
  detail::check_count("growth_interval", growth_interval);
  return jmp(static_cast<double>(detail::scale_argument("initial_scale", initial_scale)), growth_interval,
             detail::float_factor_argument("scale_factor", scale_factor),
             static_cast<double>(detail::floor_argument("min_scale", min_scale)));
}

/// Emily.MixedPrecision.LossScaler (lib/emily/mixed_precision.ex): DynamicLossScale's rule.
[[nodiscard]] constexpr DynamicLossScale emily(const double& scale = 65536.0, const double& growth_factor = 2.0,
                                               const double& backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                                               const double& min_scale = 1.0) {
  return detail::starting_anywhere<DynamicLossScale>(LossScaleConfig{detail::scale_argument("scale", scale), growth_interval,
                                                                     growth_factor, backoff_factor,
                                                                     detail::floor_argument("min_scale", min_scale)});
}

/// flax.training.dynamic_scale.DynamicScale. It grows on the step after `growth_interval` finite ones, so config() has an
/// interval one longer. Factors and scale are rounded to float, as in flax under jax.jit; without it, flax forms the product of
/// the first step in double. A `minimum_scale` of 0 is flax's None. The largest scale is 2^126; flax's is the largest float.
[[nodiscard]] constexpr DynamicLossScale flax(const double& growth_factor = 2.0, const double& backoff_factor = 0.5,
                                              std::int64_t growth_interval = 2000, const double& scale = 65536.0,
                                              const double& minimum_scale = 0x1p-126) {
  if (growth_interval < 0 || growth_interval >= detail::largest_counter) {
    detail::throw_bad_value("growth_interval", growth_interval, "at least 0 and below 2^62");
  }
  return detail::starting_anywhere<DynamicLossScale>(
      LossScaleConfig{detail::scale_argument("scale", scale), growth_interval + 1,
                      detail::float_factor_argument("growth_factor", growth_factor),
                      detail::float_factor_argument("backoff_factor", backoff_factor, /*grows=*/false),
                      detail::floor_argument("minimum_scale", minimum_scale)});
}

/// keras.optimizers.LossScaleOptimizer of Keras 3 (keras/src/optimizers/loss_scale_optimizer.py), on all its backends. Doubles
/// after `dynamic_growth_steps` finite steps in a row and halves on every overflow. There is no floor and no ceiling.
[[nodiscard]] constexpr DynamicLossScale keras(const double& initial_scale = 0x1p15, std::int64_t dynamic_growth_steps = 2000) {
  detail::check_count("dynamic_growth_steps", dynamic_growth_steps);
  return DynamicLossScale(LossScaleConfig{detail::scale_argument("initial_scale", initial_scale), dynamic_growth_steps, 2.0,
                                          0.5, smallest_loss_scale});
}

/// paddle.amp.GradScaler since 2.5, in dynamic graphs (python/paddle/amp/grad_scaler.py), without its first argument, `enable`.
/// Every `decr_every_n_nan_or_inf` overflows in a row back off once. Factors are rounded to float. It has no floor or ceiling.
[[nodiscard]] constexpr PaddleLossScale paddle(const double& init_loss_scaling = 0x1p16, const double& incr_ratio = 2.0,
                                               const double& decr_ratio = 0.5, std::int64_t incr_every_n_steps = 2000,
                                               std::int32_t decr_every_n_nan_or_inf = 1) {
  detail::check_count("incr_every_n_steps", incr_every_n_steps);
  detail::check_count("decr_every_n_nan_or_inf", decr_every_n_nan_or_inf);
  const LossScaleConfig scale{detail::scale_argument("init_loss_scaling", init_loss_scaling), incr_every_n_steps,
                              detail::float_factor_argument("incr_ratio", incr_ratio),
                              detail::float_factor_argument("decr_ratio", decr_ratio, /*grows=*/false), smallest_loss_scale};
  return PaddleLossScale(HysteresisConfig{scale, decr_every_n_nan_or_inf});
}

}  // namespace presets

HEADROOM_DETAIL_END_NAMESPACE
