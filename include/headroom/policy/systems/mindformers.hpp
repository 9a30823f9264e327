#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/systems/system.hpp>

#include <algorithm>
#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The settings of a scale whose windows adapt. The growth interval is the window to begin with, if it is one of the list, or
/// else the smallest of the list is.
struct AdaptiveWindowConfig {
  LossScaleConfig scale;
  std::int32_t max_scale_window = 1000;  ///< steps
  std::int32_t min_scale_window = 20;    ///< steps; at least 1, and at most the other

  constexpr void check() const {
    detail::check_count("min_scale_window", min_scale_window);
    detail::check_count("max_scale_window", max_scale_window);
    detail::check_order("min_scale_window", std::int64_t{min_scale_window}, "max_scale_window", max_scale_window);
  }
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("max_scale_window", self.max_scale_window);
    visit("min_scale_window", self.min_scale_window);
  }
  friend constexpr bool operator==(const AdaptiveWindowConfig& a, const AdaptiveWindowConfig& b) noexcept {
    return a.scale == b.scale && a.max_scale_window == b.max_scale_window && a.min_scale_window == b.min_scale_window;
  }
  friend constexpr bool operator!=(const AdaptiveWindowConfig& a, const AdaptiveWindowConfig& b) noexcept { return !(a == b); }
};

namespace detail {

/// MindFormers' list of windows: from the largest down to the first that is no larger than the smallest, by half in hundreds
/// down to 100, to 50, then in steps of half the smallest. With 1000 and 20: 1000, 500, 200, 100, 50, 40, 30, 20.
class AdaptiveWindows {
 public:
  /// A policy is made before its settings are checked, and a smallest window of 0 would have no end.
  constexpr explicit AdaptiveWindows(const AdaptiveWindowConfig& config) noexcept
      : largest_(config.max_scale_window), smallest_(std::max(config.min_scale_window, 1)) {}

  /// At most 124: 23 halvings of 2^31, and 50 in halves.
  [[nodiscard]] constexpr std::int32_t size() const noexcept {
    std::int32_t size = 1;
    for (double window = largest_; window > smallest_; window = below(window)) ++size;
    return size;
  }
  /// From the smallest, 1, to the largest, size().
  [[nodiscard]] constexpr std::int32_t at(std::int32_t level) const noexcept {
    double window = largest_;
    for (std::int32_t down = size() - level; down > 0; --down) window = below(window);
    return static_cast<std::int32_t>(window);
  }
  /// That of the window, or 1 if there is none.
  [[nodiscard]] constexpr std::int32_t level_of(std::int64_t window) const noexcept {
    for (std::int32_t level = 1; level <= size(); ++level) {
      if (at(level) == window) return level;
    }
    return 1;
  }

 private:
  [[nodiscard]] constexpr double below(double window) const noexcept {
    if (window > 100.0) return static_cast<double>(static_cast<std::int32_t>(window) / 200 * 100);
    return window == 100.0 ? 50.0 : window - smallest_ / 2.0;
  }

  double largest_, smallest_;
};

}  // namespace detail

/// Grows after a window of finite steps since the last change or overflow, and each third growth goes on to the next larger
/// window of the list. Three overflows without a growth between them, above the smallest window, set the window to 1, from
/// where it goes up the list again. MindFormers' rule.
class GrowAfterAdaptiveWindow : public detail::StepCounter {
 public:
  using Config = AdaptiveWindowConfig;
  static constexpr const char* name = "adaptive_window";
  constexpr explicit GrowAfterAdaptiveWindow(const Config& config) noexcept
      : level_(detail::AdaptiveWindows(config).level_of(config.scale.growth_interval)) {}

  /// In steps.
  [[nodiscard]] constexpr std::int32_t window(const Config& config) const noexcept {
    const detail::AdaptiveWindows windows(config);
    return level_ == 0 ? 1 : windows.at(std::min(level_, windows.size()));
  }
  /// Which window of the list it is, from 1; 0 is the window of 1.
  [[nodiscard]] constexpr std::int32_t level() const noexcept { return level_; }

  [[nodiscard]] constexpr bool grows(bool grads_finite, const Config& config) noexcept {
    counter_ = grads_finite ? detail::one_more(counter_) : 0;
    if (!grads_finite || counter_ < window(config)) return false;
    counter_ = downs_ = 0;
    if (level_ < detail::AdaptiveWindows(config).size() && ++ups_ == changes_of_scale) {
      ++level_;
      ups_ = 0;
    }
    return true;
  }
  constexpr void back_off(const Config&) noexcept {
    counter_ = 0;
    if (level_ > 1 && ++downs_ == changes_of_scale) level_ = ups_ = downs_ = 0;
  }

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    StepCounter::visit_fields(self, visit);
    visit("window_level", self.level_, 0, 127);
    visit("window_ups", self.ups_, 0, changes_of_scale - 1);
    visit("window_downs", self.downs_, 0, changes_of_scale - 1);
  }
  friend constexpr bool operator==(const GrowAfterAdaptiveWindow& a, const GrowAfterAdaptiveWindow& b) noexcept {
    return a.counter_ == b.counter_ && a.level_ == b.level_ && a.ups_ == b.ups_ && a.downs_ == b.downs_;
  }

  /// As many change the window.
  static constexpr std::int32_t changes_of_scale = 3;

 private:
  std::int32_t level_, ups_ = 0, downs_ = 0;  // MindFormers counts on where the counts cannot matter; these stay as they are
};

/// MindFormers' rule: presets::mindformers_adaptive.
using MindFormersLossScale = BasicDynamicLossScale<GrowAfterAdaptiveWindow, BackOffAtOnce>;

namespace presets {

/// MindFormers' AdaptiveLossScaleUpdateCell. Backoff multiplies by 1 / `scale_factor` rounded to float, as there. The first
/// three arguments have no defaults there: these are the scale and the factor of MindFormers' TrainingArguments, and the
/// smallest window.
[[nodiscard]] constexpr MindFormersLossScale mindformers_adaptive(const double& loss_scale_value = 0x1p16,
                                                                  const double& scale_factor = 2.0,
                                                                  std::int64_t scale_window = 20,
                                                                  std::int32_t max_scale_window = 1000,
                                                                  std::int32_t min_scale_window = 20) {
  detail::check_count("scale_window", scale_window);
  const double factor = detail::float_factor_argument("scale_factor", scale_factor);
  const double inverse = detail::float_inverse_argument("scale_factor", scale_factor);
  return detail::starting_anywhere<MindFormersLossScale>(
      AdaptiveWindowConfig{LossScaleConfig{1.0F, scale_window, factor, inverse, 1.0F}, max_scale_window, min_scale_window},
      detail::scale_argument("loss_scale_value", loss_scale_value));
}

}  // namespace presets

namespace detail::systems {

struct MindFormersAdaptive : System {
  static constexpr const char* name = "mindformers_adaptive";
  [[nodiscard]] static constexpr MindFormersLossScale preset() { return presets::mindformers_adaptive(); }

  /// Its settings are not part of its state, but the window has to be what they make of the place in the list.
  static void import_state(StateImport& state) {
    state.scale("scale_sense");
    const std::int64_t steps = state.integer("current_iterator_step", 1);
    state.ours().set("counter", steps - 1 - state.integer("last_overflow_iterator_step", 0, steps - 1));
    const AdaptiveWindowConfig config{LossScaleConfig(), static_cast<std::int32_t>(state.setting("max_scale_window")),
                                      static_cast<std::int32_t>(state.setting("min_scale_window"))};
    const AdaptiveWindows windows(config);
    const std::int64_t level = state.integer("list_index", -1, windows.size() - 1) + 1;
    const std::int64_t window = level == 0 ? 1 : windows.at(static_cast<std::int32_t>(level));
    (void)state.integer("scale_window", window, window);
    const std::int64_t ups = state.integer("scale_window_up_count", 0, 3),
                       downs = state.integer("scale_window_down_count", 0, 3);
    state.ours().set("window_level", level);
    state.ours().set("window_ups", level < windows.size() ? ups % 3 : std::int64_t{0});
    state.ours().set("window_downs", level > 1 ? downs % 3 : std::int64_t{0});
  }
};

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
