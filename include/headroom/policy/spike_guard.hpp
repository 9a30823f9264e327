#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Whose rule a SpikeGuard follows. Under both a spike is more than `sigmas` standard deviations above the mean, never below,
/// and enters the window like any other value.
enum class SpikeRule {
  /// allenai/OLMo-core 2.5, SkipStepOptimizer: mean and deviation (with n - 1) of up to `window` values before this one, once
  /// this one is at least the (window / 2)th.
  olmo_core,
  /// karpathy/llm.c at f1e2ace, outlier_detector.h: mean and deviation (with n) of the last `window` values including this one,
  /// once there have been `window` before. No z-score is then above sqrt(window - 1), which `sigmas` has to be below.
  llm_c
};

/// Notices a value far above those of the last steps: the norm of the gradients, where a GradScaler is given one
/// (set_spike_guard), or the loss, if you ask it yourself:
///
///     const bool is_spike = guard.is_spike(loss);
///     guard = std::move(guard).adjust(loss);      // each step, spike or not; without the move the window is copied
///
/// Mean and deviation are computed anew from the window, as deviations from the value in question, so nothing drifts and
/// nothing cancels, whatever the magnitude; in double, where OLMo-core has floats. A value that is Inf or NaN is a spike from
/// the first step on, and never enters the window. (OLMo-core's window stays spoilt until it has left; llm.c's for good.) Equal
/// values have no deviation: after 64 of them, in the default window, one that is an ulp larger is a spike.
class SpikeGuard {
 public:
  /// Throws std::invalid_argument if `window` is not in [8, 65536], or `sigmas` not above 0 and at most 10^6 (llm_c: below
  /// sqrt(window - 1)), or `rule` is no SpikeRule. The defaults are OLMo-core's; llm.c's window is 128, and its runs used 7
  /// sigmas.
  explicit SpikeGuard(std::int64_t window = 128, const double& sigmas = 6.0, SpikeRule rule = SpikeRule::olmo_core)
      : window_(window), sigmas_(sigmas), rule_(rule) {
    check();
  }
  /// A window is a whole number; what is not may be `sigmas`, which come after it.
  template <class T, std::enable_if_t<std::is_floating_point_v<T> || std::is_same_v<T, bool>, int> = 0>
  explicit SpikeGuard(T window, const double& sigmas = 6.0, SpikeRule rule = SpikeRule::olmo_core) = delete;

  [[nodiscard]] std::int64_t window() const noexcept { return window_; }
  [[nodiscard]] double sigmas() const noexcept { return sigmas_; }
  [[nodiscard]] SpikeRule rule() const noexcept { return rule_; }
  /// The values in the window, the oldest first.
  [[nodiscard]] std::vector<double> values() const { return std::vector<double>(values_.begin(), values_.end()); }

  /// Whether the step of this value should be skipped. Takes some four nanoseconds for each value in the window.
  [[nodiscard]] bool is_spike(const double& value) const noexcept {
    if (!is_number(value)) return true;
    const auto count = static_cast<std::int64_t>(values_.size());
    if (rule_ == SpikeRule::olmo_core) return count + 1 >= window_ / 2 && is_above(value, 0, count, count - 1);
    return count == window_ && is_above(value, 1, window_, window_);  // in place of the oldest
  }
  /// The guard after a step with this value.
  [[nodiscard]] SpikeGuard adjust(const double& value) const& { return SpikeGuard(*this).adjust(value); }
  [[nodiscard]] SpikeGuard adjust(const double& value) && {
    if (is_number(value)) {
      if (static_cast<std::int64_t>(values_.size()) == window_) drop_oldest();
      add(value);
    }
    return std::move(*this);
  }
  /// The same settings, and nothing in the window.
  [[nodiscard]] SpikeGuard emptied() const { return SpikeGuard(window_, sigmas_, rule_); }

  /// Settings and window, each value by its bits.
  [[nodiscard]] StateDict state_dict() const {
    detail::StateWriter writer(name);
    writer("rule", std::string(rule_ == SpikeRule::llm_c ? "llm_c" : "olmo_core"));
    writer("window", window_);
    writer("sigmas", sigmas_);
    writer("values", values_);
    return writer.take();
  }
  /// Throws std::invalid_argument naming key and value if one is missing, unknown, of another type or out of range. All keys
  /// start with `prefix`.
  [[nodiscard]] static SpikeGuard from_state_dict(const StateDict& dict, const std::string& prefix = std::string()) {
    StateDict own;
    for (const auto& [key, value] : dict) {
      if (std::string_view(key).substr(0, prefix.size()) == prefix) own.add(key.substr(prefix.size()), value);
    }
    detail::StateReader reader(own, name);
    SpikeGuard guard;
    std::string rule;
    std::vector<double> values;
    reader("rule", rule);
    reader("window", guard.window_);
    reader("sigmas", guard.sigmas_);
    reader("values", values);
    reader.finish();
    if (rule != "olmo_core" && rule != "llm_c") {
      detail::throw_invalid_argument({"rule is ", detail::quoted(rule), "; it must be 'olmo_core' or 'llm_c'"});
    }
    guard.rule_ = rule == "llm_c" ? SpikeRule::llm_c : SpikeRule::olmo_core;
    guard.check(prefix);
    if (values.size() > static_cast<std::size_t>(guard.window_))
      detail::throw_invalid_argument({"values: more than the window"});
    for (const double& value : values) {
      if (!is_number(value)) detail::throw_bad_value("values", value, "finite");
      guard.add(value);
    }
    return guard;
  }
  /// Equal for guards that are equal: see `digest`.
  [[nodiscard]] std::uint64_t state_digest() const noexcept {
    std::uint64_t digest = detail::digest_with(detail::first_digest, static_cast<std::uint64_t>(window_));
    digest = detail::digest_with(digest, detail::bit_cast<std::uint64_t>(sigmas_));
    digest = detail::digest_with(digest, static_cast<std::uint64_t>(rule_));
    for (const double& value : values_) digest = detail::digest_with(digest, detail::bit_cast<std::uint64_t>(value));
    return detail::digest_with(digest, values_.size());
  }

  friend bool operator==(const SpikeGuard& a, const SpikeGuard& b) noexcept {
    bool same = a.window_ == b.window_ && a.sigmas_ == b.sigmas_ && a.rule_ == b.rule_ && a.values_.size() == b.values_.size();
    for (std::size_t i = 0; same && i < a.values_.size(); ++i) same = a.values_[i].number == b.values_[i].number;
    return same;
  }
  friend bool operator!=(const SpikeGuard& a, const SpikeGuard& b) noexcept { return !(a == b); }

 private:
  /// A type of this unit's own, for std::vector<double> has one code for units of unlike flags: see shared.hpp.
  struct Value {
    double number;
    operator const double&() const noexcept { return number; }
  };
  static constexpr const char* name = "spike_guard";

  [[nodiscard]] static bool is_number(const double& value) noexcept { return magnitude(value) < binary64::infinity_bits; }
  [[nodiscard]] static std::uint64_t magnitude(const double& value) noexcept {
    return detail::bit_cast<std::uint64_t>(value) & binary64::abs_mask;
  }
  void drop_oldest() noexcept {
    for (std::size_t i = 1; i < values_.size(); ++i) values_[i - 1] = values_[i];
    values_.pop_back();
  }
  void add(const double& value) {
    values_.reserve(static_cast<std::size_t>(window_));        // at once, and copies have less
    values_.push_back({magnitude(value) == 0 ? 0.0 : value});  // without the sign of a zero, which == does not see
  }

  void check(const std::string& prefix = std::string()) const {
    constexpr double most_sigmas = 1e6;
    if (rule_ != SpikeRule::olmo_core && rule_ != SpikeRule::llm_c) {
      detail::throw_bad_value("rule", static_cast<std::int64_t>(rule_), "SpikeRule::olmo_core or SpikeRule::llm_c");
    }
    if (window_ < 8 || window_ > 65536)
      detail::throw_bad_value(detail::concat({prefix, "window"}).c_str(), window_, "in [8, 65536]");
    if (!detail::is_within(sigmas_, detail::smallest_double, most_sigmas)) {
      detail::throw_bad_value(detail::concat({prefix, "sigmas"}).c_str(), sigmas_, "above 0 and at most 1e6");
    }
    if (rule_ == SpikeRule::llm_c && sigmas_ * sigmas_ >= static_cast<double>(window_ - 1)) {
      detail::throw_bad_value(detail::concat({prefix, "sigmas"}).c_str(), sigmas_,
                              "below sqrt(window - 1), which no z-score of llm.c's exceeds");
    }
  }

  /// Whether `value` is more than sigmas_ standard deviations above the mean of `count` values: those in the window from
  /// `first` on, and, as the last of that many, itself. `freedom`: what the sum of squares is divided by.
  ///
  /// z-scores do not change with the unit, so the largest magnitude is made about 1, and nothing overflows. Deviations are from
  /// `value`, so those of equal values are exactly 0.
  [[nodiscard]] bool is_above(const double& value, std::size_t first, std::int64_t count, std::int64_t freedom) const noexcept {
    std::uint64_t largest = magnitude(value);
    for (std::size_t i = first; i < values_.size(); ++i) {
      if (magnitude(values_[i].number) > largest) largest = magnitude(values_[i].number);
    }
    const std::uint64_t field = largest >> binary64::mantissa_bits;
    const auto unit = detail::bit_cast<double>((field < 2045 ? 2045 - field : 1) << binary64::mantissa_bits);
    const auto deviation = [&, here = value * unit](std::size_t i) { return here - values_[i].number * unit; };

    double sum = 0.0;
    for (std::size_t i = first; i < values_.size(); ++i) sum += deviation(i);
    const double above = sum / static_cast<double>(count);  // by how much `value` exceeds the mean
    double squares = rule_ == SpikeRule::llm_c ? above * above : 0.0;
    for (std::size_t i = first; i < values_.size(); ++i) {
      const double from_mean = deviation(i) - above;
      squares += from_mean * from_mean;
    }
    return above > 0.0 && above * above * static_cast<double>(freedom) > sigmas_ * sigmas_ * squares;
  }

  std::int64_t window_;
  double sigmas_;
  SpikeRule rule_;
  std::vector<Value> values_;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
