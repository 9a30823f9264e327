#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The rule of a SpikeGuard. By both rules a value is a spike if it is more than `sigmas` standard deviations above the mean.
/// Finite spikes enter the window, too.
enum class SpikeRule {
  /// allenai/OLMo-core 2.5, SkipStepOptimizer: mean and deviation (with n - 1) of up to `window` values before this one. The
  /// first value that can be a spike is the (window / 2)th.
  olmo_core,
  /// karpathy/llm.c at f1e2ace, outlier_detector.h: mean and deviation (with n) of the last `window` values including this one.
  /// The first `window` values are no spikes. No z-score exceeds sqrt(window - 1), so choose a smaller `sigmas`.
  llm_c
};

/// Tells whether a gradient norm or a loss is far above those of the last steps. An immutable value, as policies are. Call
/// `adjust` after each step, spike or not. docs/recipes.md has a loop.
///
/// Inf and NaN are spikes, also on the first step, and never enter the window. Magnitudes must be 0 or in [1e-150, 1e150],
/// because deviations are squared.
class SpikeGuard {
 public:
  /// The defaults are OLMo-core's. llm.c's window is 128, and its runs used 7 sigmas. Throws std::invalid_argument if `window`
  /// is not in [8, 65536], or `sigmas` is not above 0 and at most 1e6.
  explicit SpikeGuard(std::int64_t window = 128, const double& sigmas = 6.0, SpikeRule rule = SpikeRule::olmo_core)
      : window_(window), sigmas_(sigmas), is_llm_c_(rule == SpikeRule::llm_c) {
    detail::check_fields(*this);
  }

  [[nodiscard]] std::int64_t window() const noexcept { return window_; }
  [[nodiscard]] double sigmas() const noexcept { return sigmas_; }
  [[nodiscard]] SpikeRule rule() const noexcept { return is_llm_c_ ? SpikeRule::llm_c : SpikeRule::olmo_core; }
  /// The values in the window, the oldest first.
  [[nodiscard]] const std::vector<double>& values() const noexcept { return values_; }

  /// Whether the step of this value should be skipped.
  [[nodiscard]] bool is_spike(const double& value) const noexcept {
    if (!detail::is_within(value, -detail::largest_double, detail::largest_double)) return true;
    const auto seen = static_cast<std::int64_t>(values_.size());
    if (seen < (is_llm_c_ ? window_ : window_ / 2 - 1)) return false;
    const std::size_t first = is_llm_c_ ? 1 : 0;  // in llm.c this value replaces the oldest
    const auto count = static_cast<double>(seen);
    double sum = 0.0;  // of differences from this value: exactly 0 for equal values
    for (std::size_t i = first; i < values_.size(); ++i) sum += value - values_[i];
    const double above = sum / count;
    double squares = is_llm_c_ ? above * above : 0.0;
    for (std::size_t i = first; i < values_.size(); ++i) {
      const double from_mean = value - values_[i] - above;
      squares += from_mean * from_mean;
    }
    return above > 0.0 && above * above * (is_llm_c_ ? count : count - 1.0) > sigmas_ * sigmas_ * squares;
  }

  /// The guard after a step with this value.
  [[nodiscard]] SpikeGuard adjust(const double& value) const {
    SpikeGuard next = *this;
    if (!detail::is_within(value, -detail::largest_double, detail::largest_double)) return next;
    if (static_cast<std::int64_t>(values_.size()) == window_) next.values_.erase(next.values_.begin());
    next.values_.push_back(value);
    return next;
  }

  /// Settings and window.
  [[nodiscard]] StateDict state_dict() const {
    StateDict state = detail::new_state("spike_guard");
    detail::write_fields(state, *this);
    return state;
  }
  /// Throws std::invalid_argument naming key and value if one is missing, unknown, of another type or out of range.
  [[nodiscard]] static SpikeGuard from_state_dict(const StateDict& dict) {
    detail::StateReader read(dict, "spike_guard");
    SpikeGuard guard;
    read.read(guard);
    read.finish();
    if (static_cast<std::int64_t>(guard.values_.size()) > guard.window_) {
      detail::throw_invalid_argument({"values has more than the ", detail::to_text(guard.window_), " numbers of the window"});
    }
    return guard;
  }

  friend bool operator==(const SpikeGuard& a, const SpikeGuard& b) noexcept { return detail::same_fields(a, b); }
  friend bool operator!=(const SpikeGuard& a, const SpikeGuard& b) noexcept { return !(a == b); }

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("window", &SpikeGuard::window_, 8, 65536);
    visit("sigmas", &SpikeGuard::sigmas_, detail::smallest_double, 1e6, "above 0 and at most 1e6");
    visit("llm_c", &SpikeGuard::is_llm_c_);
    visit("values", &SpikeGuard::values_, -detail::largest_double, detail::largest_double, "finite");
  }

 private:
  std::int64_t window_;
  double sigmas_;
  bool is_llm_c_;
  std::vector<double> values_;
};

HEADROOM_DETAIL_END_NAMESPACE
