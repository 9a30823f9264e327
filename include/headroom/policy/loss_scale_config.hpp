#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/state/fields.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The settings of a loss scale that adapts: the fields of eformer's LossScaleConfig, with separate factors as in torch.
/// The presets fill them in this order.
struct LossScaleConfig {
  float initial_scale = 32768.0F;       ///< 2^15; in [2^-126, 2^126], like the other two scales
  std::int64_t growth_interval = 2000;  ///< finite steps before growth; at least 1
  double growth_factor = 2.0;           ///< above 1
  double backoff_factor = 0.5;          ///< in (0, 1)
  /// Backoff stops here. Must not be above initial_scale, except for the default of 1: a scale that starts below 1, or is later
  /// set below its floor, is raised to the floor by the next backoff, as in jmp, Emily and DeepSpeed. To keep a scale below 1,
  /// set this as well.
  float min_scale = 1.0F;
  float max_scale = 0x1p126F;  ///< growth stops here
  /// What happens if growth would exceed the largest float: true keeps the scale, as torch and jmp do; false goes to max_scale.
  bool refuse_infinite_growth = false;

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    using Config = LossScaleConfig;
    constexpr const char* scale = "in [2^-126, 2^126]";
    visit("initial_scale", &Config::initial_scale, smallest_loss_scale, largest_loss_scale, scale);
    visit("growth_interval", &Config::growth_interval, 1, std::numeric_limits<std::int64_t>::max(), "at least 1");
    visit("growth_factor", &Config::growth_factor, detail::just_above_1, detail::largest_double, "above 1 and finite");
    visit("backoff_factor", &Config::backoff_factor, detail::smallest_double, detail::just_below_1, "above 0 and below 1");
    visit("min_scale", &Config::min_scale, smallest_loss_scale, largest_loss_scale, scale);
    visit("max_scale", &Config::max_scale, smallest_loss_scale, largest_loss_scale, scale);
    visit("refuse_infinite_growth", &Config::refuse_infinite_growth);
  }
};

namespace detail {

struct AnyVisit {
  template <class... Args>
  constexpr void operator()(const Args&...) const {}
};
template <class Config>
using if_settings_t = decltype(Config::fields(AnyVisit()));

/// Counters stop here, so that none overflows. At one step per nanosecond that takes 146 years.
inline constexpr std::int64_t largest_counter = std::int64_t{1} << 62;
inline constexpr std::int64_t largest_hysteresis = std::numeric_limits<std::int32_t>::max();
[[nodiscard]] constexpr std::int64_t one_more(std::int64_t counter) noexcept {
  return counter < largest_counter ? counter + 1 : counter;
}

/// A policy's configuration is a LossScaleConfig, or has a member `scale` that is one.
[[nodiscard]] constexpr const LossScaleConfig& loss_scale_config(const LossScaleConfig& config) noexcept { return config; }
[[nodiscard]] constexpr LossScaleConfig& loss_scale_config(LossScaleConfig& config) noexcept { return config; }
template <class Config>
[[nodiscard]] constexpr auto loss_scale_config(Config&& config) noexcept -> decltype((config.scale)) {
  return config.scale;
}

/// Throws std::invalid_argument naming both if `value`, which is a number, is above `bound`.
template <class Number>
constexpr void check_order(const char* field, const Number& value, const char* other, const std::common_type_t<Number>& bound) {
  if (value <= bound) return;
  throw_invalid_argument({field, " is ", to_text(value), ", above ", other, ", which is ", to_text(bound)});
}

/// Throws std::invalid_argument naming a number of steps or of overflows if it is below 1.
constexpr void check_count(const char* field, std::int64_t value) {
  if (value < 1) throw_bad_value(field, value, "at least 1");
}

/// Calls use(part) for the settings that all policies share, and for those that a configuration adds to them.
template <class Config, class Use>
constexpr void for_each_part(Config& config, Use use) {
  use(detail::loss_scale_config(config));
  if constexpr (!std::is_same_v<std::remove_const_t<Config>, LossScaleConfig>) use(config);
}

/// Throws std::invalid_argument naming the first field of a configuration that is out of range, and its value.
template <class Config>
constexpr void check(const Config& config) {
  detail::for_each_part(config, [](const auto& part) { detail::check_fields(part); });
  const LossScaleConfig& common = detail::loss_scale_config(config);
  check_order("initial_scale", common.initial_scale, "max_scale", common.max_scale);
  // The default floor of 1 need not have been asked for, so a scale may start below it, as in Emily.
  if (common.min_scale != 1.0F) check_order("min_scale", common.min_scale, "initial_scale", common.initial_scale);
  check_order("min_scale", common.min_scale, "max_scale", common.max_scale);
}

/// Whether a scale times a growth factor is Inf in float.
[[nodiscard]] constexpr bool grows_to_infinity(float scale, double growth_factor) noexcept {
  // Factors that overflow even the smallest scale are never multiplied by: under -ffast-math no product may exceed double.
  return growth_factor >= rounds_to_infinity / static_cast<double>(smallest_loss_scale) ||
         static_cast<double>(scale) * growth_factor >= rounds_to_infinity;
}

/// `scale` times the growth factor, not above the maximum. Compared before it is multiplied: under -ffast-math a test of the
/// product for Inf would be folded away. The product is formed in double and rounded once.
[[nodiscard]] constexpr float grown(float scale, const LossScaleConfig& config) noexcept {
  if (config.refuse_infinite_growth && grows_to_infinity(scale, config.growth_factor)) return scale;
  const auto now = static_cast<double>(scale), most = static_cast<double>(config.max_scale);
  if (now > most / config.growth_factor) return config.max_scale;
  const float product = rounded_to_float(now * config.growth_factor);
  return product < config.max_scale ? product : config.max_scale;
}

/// `scale` times the backoff factor, not below the minimum.
[[nodiscard]] constexpr float backed_off(float scale, const LossScaleConfig& config) noexcept {
  const double product = static_cast<double>(scale) * config.backoff_factor;
  return product > static_cast<double>(config.min_scale) ? rounded_to_float(product) : config.min_scale;
}

}  // namespace detail

/// Configurations are compared by the fields that they list.
template <class Config, class = detail::if_settings_t<Config>>
[[nodiscard]] constexpr bool operator==(const Config& a, const Config& b) noexcept {
  if constexpr (!std::is_same_v<Config, LossScaleConfig>) {
    if (!detail::same_fields(detail::loss_scale_config(a), detail::loss_scale_config(b))) return false;
  }
  return detail::same_fields(a, b);
}
template <class Config, class = detail::if_settings_t<Config>>
[[nodiscard]] constexpr bool operator!=(const Config& a, const Config& b) noexcept {
  return !(a == b);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
