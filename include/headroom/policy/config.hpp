#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/state/fields.hpp>

#include <limits>

HEADROOM_DETAIL_BEGIN_NAMESPACE
/// The settings of eformer's LossScaleConfig, with two factors as in torch.
struct LossScaleConfig {
  float initial_scale = 32768.0F;       ///< 2^15; in [2^-126, 2^126], like the other two scales
  std::int64_t growth_interval = 2000;  ///< finite steps before growth; at least 1
  double growth_factor = 2.0;           ///< 1 or more; 1 switches growth off
  double backoff_factor = 0.5;          ///< in (0, 1)
  /// Backoff stops here; the next backoff raises a lower scale, such as a lower start
  float min_scale = 1.0F;
  /// Growth stops here, and at 2^126. The largest float, as in torch's preset, is no ceiling:
  /// growth to Inf keeps the scale.
  float max_scale = 0x1p126F;
  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    using Config = LossScaleConfig;
    visit("initial_scale", &Config::initial_scale, smallest_loss_scale, largest_loss_scale,
          detail::loss_scale_range);
    visit("growth_interval", &Config::growth_interval, 1, std::numeric_limits<std::int64_t>::max(),
          "at least 1");
    visit("growth_factor", &Config::growth_factor, 1.0, detail::largest_double,
          "at least 1 and finite");
    visit("backoff_factor", &Config::backoff_factor, detail::smallest_double, detail::just_below_1,
          "above 0 and below 1");
    visit("min_scale", &Config::min_scale, smallest_loss_scale, largest_loss_scale,
          detail::loss_scale_range);
    visit("max_scale", &Config::max_scale, smallest_loss_scale, detail::no_max_scale,
          detail::loss_scale_range);
  }
};

namespace detail {
/// A configuration is a LossScaleConfig, or has a member `common` that is one.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr const LossScaleConfig& loss_scale_config(
    const LossScaleConfig& config) noexcept {
  return config;
}
[[nodiscard]] HEADROOM_DETAIL_HD constexpr LossScaleConfig& loss_scale_config(
    LossScaleConfig& c) noexcept {
  return c;
}
template <class Config>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr auto loss_scale_config(Config&& config) noexcept
    -> decltype((config.common)) {
  return config.common;
}
template <class Config,
          class Found = decltype(detail::loss_scale_config(std::declval<const Config&>()))>
using if_config_t = std::enable_if_t<std::is_same_v<Found, const LossScaleConfig&>>;

/// Throws std::invalid_argument naming both if `value`, which is a number, is above `bound`.
template <class Number>
constexpr void check_order(const char* field, Number value, const char* other,
                           std::common_type_t<Number> bound) {
  if (value <= bound) return;
  throw_invalid_argument(
      {field, " is ", to_text(value), ", above ", other, ", which is ", to_text(bound)});
}

constexpr void check_count(const char* field, std::int64_t value) {
  if (value < 1) throw_bad_value(field, value, "at least 1");
}

/// Calls use(part) for the LossScaleConfig, and for the configuration if it has more settings.
template <class Config, class Use>
constexpr void for_each_part(Config& config, Use use) {
  use(detail::loss_scale_config(config));
  if constexpr (!std::is_same_v<std::remove_const_t<Config>, LossScaleConfig>) use(config);
}

/// Throws std::invalid_argument naming the first field that is out of range, and its value.
template <class Config>
constexpr void check(const Config& config) {
  detail::for_each_part(config, [](const auto& part) { detail::check_fields(part); });
  const LossScaleConfig& common = detail::loss_scale_config(config);
  if (common.max_scale != no_max_scale) check_loss_scale("max_scale", common.max_scale);
  check_order("initial_scale", common.initial_scale, "max_scale", common.max_scale);
  check_order("min_scale", common.min_scale, "max_scale", common.max_scale);
}

/// Throws std::invalid_argument with `expected` if the argument `name` is out of range.
[[nodiscard]] constexpr float scale_argument(
    const char* name, const double& value, const char* expected = loss_scale_range,
    double low = static_cast<double>(smallest_loss_scale)) {
  check_in(name, value, low, static_cast<double>(largest_loss_scale), expected);
  return rounded_to_float(value);
}
/// torch.amp.GradScaler's rule, which has no floor. `name` is that of the first argument.
[[nodiscard]] constexpr LossScaleConfig torch_config(const char* name, const double& scale,
                                                     const double& growth_factor,
                                                     const double& backoff_factor,
                                                     std::int64_t growth_interval) {
  return {scale_argument(name, scale), growth_interval, growth_factor, backoff_factor,
          smallest_loss_scale,         no_max_scale};
}
}  // namespace detail

template <class Config, class = detail::if_config_t<Config>>
[[nodiscard]] constexpr bool operator==(const Config& a, const Config& b) noexcept {
  return detail::same_fields(detail::loss_scale_config(a), detail::loss_scale_config(b)) &&
         detail::same_fields(a, b);
}
template <class Config, class = detail::if_config_t<Config>>
[[nodiscard]] constexpr bool operator!=(const Config& a, const Config& b) noexcept {
  return !(a == b);
}
HEADROOM_DETAIL_END_NAMESPACE
