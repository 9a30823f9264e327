#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/policy/magnitude.hpp>
#include <headroom/report.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

inline void check_share(const char* field, const double& share) {
  if (!is_zero(share)) check_in(field, share, smallest_double, 1.0, "in [0, 1]");
}
/// Of the numbers of a format above 0, the largest over the smallest.
template <class Format>
[[nodiscard]] constexpr double dynamic_range() noexcept {
  constexpr double smallest = bit_cast<double>(convert_bits<Format, binary64>(1));
  constexpr double largest = bit_cast<double>(convert_bits<Format, binary64>(Format::largest_finite_bits));
  return largest < largest_double * smallest ? largest / smallest : largest_double;
}
template <class Format>
[[nodiscard]] constexpr double lowest_peak() noexcept {
  constexpr int octaves = (Format::largest_finite_bits >> Format::mantissa_bits) + Format::mantissa_bits;  // of highest digits
  constexpr std::uint64_t up = octaves < 32 ? octaves / 2 : 16;
  return bit_cast<double>(convert_bits<Format, binary64>(1)) *
         bit_cast<double>((binary64::bias + up) << binary64::mantissa_bits);
}
/// Whether numbers of a dtype span more than loss scales do, as those of 8 exponent bits: no loss scale is needed.
[[nodiscard]] constexpr bool is_as_wide_as_float(double dynamic_range) noexcept {
  return dynamic_range >= static_cast<double>(largest_loss_scale) / static_cast<double>(smallest_loss_scale);
}

}  // namespace detail

/// What a History keeps of a step.
struct StepRecord {
  std::int64_t step = 0;
  float loss_scale = 1.0F;  ///< that the step ran with
  GradientReport report{};
  SkipReason reason = SkipReason::none;
  std::optional<bool> loss_finite{};  ///< whether the recorded loss was; nothing if none was recorded
  NonFinite nonfinite{};              ///< with counts of 0 and no path if nobody has looked
  [[nodiscard]] bool skipped() const noexcept { return reason != SkipReason::none; }
  [[nodiscard]] bool has_place() const noexcept { return nonfinite.nan_count + nonfinite.inf_count > 0; }
};

/// What the largest gradient in this dtype should not be below: 16 octaves above the smallest number that the dtype has, 2^-8
/// for half; in the middle of its octaves where it has fewer than 32, 1 for float8_e4m3. A rule of thumb.
template <class T>
inline constexpr double lowest_peak_v = detail::lowest_peak<detail::format_of<T>>();

/// The largest number of this dtype over the smallest above 0: 65504 / 2^-24, nearly 2^40, for half. For double, where that is
/// beyond double, the largest one.
template <class T>
inline constexpr double dynamic_range_v = detail::dynamic_range<detail::format_of<T>>();

/// When a History gives which verdict.
struct HistoryConfig {
  std::size_t capacity = 1024;  ///< steps that are kept, from which the verdict is taken; in [2, 2^24]
  /// The floor of your policy, LossScaleConfig::min_scale, or else the scale at which you want to hear that it is low.
  float min_scale = 1.0F;
  /// In so many steps, from the first of the run, a scale that starts too high comes down; in [0, 2^62].
  std::int64_t warm_up = 100;
  /// The share of steps with gradients that may be skipped; in [0, 1]. A rule that doubles the scale after n good steps skips
  /// at most about one in n + 1 once the scale has settled.
  double skip_tolerance = 0.05;
  /// The largest gradient times the scale should not be below this: lowest_peak_v of the dtype of the gradients. Above 0.
  double lowest_peak = 0x1p-8;
  /// By how much gradients may have grown since the last finite step before the loss is blamed: dynamic_range_v of their dtype.
  /// 1 or more.
  double dynamic_range = 65504.0 * 0x1p24;
  /// The share of gradients that may become zero, if set_underflow_share says how many do; in [0, 1].
  double underflow_tolerance = 0.05;
  double spike_sigmas = 6.0;  ///< in [2^-149, 2^128)

  /// The defaults for gradients of dtype T. Where that has the range of float, a loss scale of 1 is no floor: min_scale is
  /// smallest_loss_scale.
  template <class T>
  [[nodiscard]] static constexpr HistoryConfig for_dtype() noexcept {
    HistoryConfig config;
    config.lowest_peak = lowest_peak_v<T>;
    config.dynamic_range = dynamic_range_v<T>;
    if (detail::is_as_wide_as_float(config.dynamic_range)) config.min_scale = smallest_loss_scale;
    return config;
  }

  /// Throws std::invalid_argument naming the first field that is out of range, and its value.
  void check() const {
    constexpr std::size_t most = std::size_t{1} << 24U;  // so that no sum of squares overflows
    if (capacity < 2 || capacity > most) detail::throw_bad_value("capacity", static_cast<double>(capacity), "in [2, 2^24]");
    detail::check_loss_scale("min_scale", min_scale);
    if (warm_up < 0 || warm_up > detail::largest_counter) detail::throw_bad_value("warm_up", warm_up, "in [0, 2^62]");
    detail::check_share("skip_tolerance", skip_tolerance);
    detail::check_in("lowest_peak", lowest_peak, detail::smallest_double, detail::largest_double, "above 0 and finite");
    detail::check_in("dynamic_range", dynamic_range, 1.0, detail::largest_double, "finite and 1 or more");
    detail::check_share("underflow_tolerance", underflow_tolerance);
    detail::check_in("spike_sigmas", spike_sigmas, detail::smallest_float, detail::largest_float, "in [2^-149, 2^128)");
  }
};

/// What a history says about the training. The first of these that holds, from the top:
enum class Verdict {
  /// No scale helps. The loss recorded with the last step is Inf or NaN (History::record_loss). Or no loss was recorded with
  /// it, the last 8 steps or more were not finite, and
  ///   - the scale is by now at most 1 / `dynamic_range` of that of the last finite step, since when the weights have changed
  ///   once at most: what has grown from the smallest number of fp16 to the largest, 2^40 times, fits again after 40 halvings;
  ///   or
  ///   - it is at_floor, as below, or `dynamic_range` is that of float, and in each of the last 8 steps NaN was counted and no
  ///   Inf. A loss that is NaN makes nothing else. Gradients that are too large make Inf, and NaN alone only where Infs of both
  ///   signs meet in every sum; which is over before the scale has come down to where they fit.
  /// Gradients alone cannot tell a loss that is not finite from weights that are not.
  loss_is_not_finite,
  /// The last step ran at min_scale or below, and two or more of the kept steps were not finite there, the last of them at most
  /// 64 steps ago.
  at_floor,
  /// The run has had fewer than `warm_up` steps.
  warming_up,
  /// Of the kept steps with gradients that are not of the warm-up, a share of more than `skip_tolerance` was skipped, as not
  /// finite or as spikes; and more than one, unless none is tolerated. Until there are `warm_up` steps since the warm-up, or
  /// `capacity` if that is less, those to come count as taken.
  too_many_skips,
  /// By History::set_underflow_share, more than `underflow_tolerance` of the gradients become zero. Or, if that has not been
  /// called: in more than half of the kept steps with finite gradients, 64 or half of `capacity` at least, max_abs times the
  /// scale was below `lowest_peak`, or 0.
  underflowing,
  /// The last step was skipped as a spike. Or its max_abs is further above the mean of those of the other kept steps, 64 or
  /// half of `capacity`, than `spike_sigmas` standard deviations, all in octaves; the deviation counts as half an octave or
  /// more.
  spike,
  healthy  ///< none of these
};

[[nodiscard]] constexpr const char* to_string(Verdict verdict) noexcept {
  constexpr const char* names[] = {"loss_is_not_finite", "at_floor", "warming_up", "too_many_skips",
                                   "underflowing",       "spike",    "healthy"};
  const auto i = static_cast<std::size_t>(verdict);
  return i < sizeof names / sizeof *names ? names[i] : "unknown";  // of no enumerator
}

/// Of the whole run, not only of the steps that are kept.
struct HistoryTotals {
  std::int64_t steps = 0;
  std::int64_t not_finite = 0, no_gradients = 0, spikes = 0;  ///< steps skipped, by reason
  std::int64_t run = 0;                                       ///< steps skipped in a row, up to the last
  std::int64_t longest_run = 0;
  [[nodiscard]] std::int64_t skipped() const noexcept { return not_finite + no_gradients + spikes; }
};

namespace detail {

inline constexpr std::int64_t long_run = 8, recent = 64;  // steps in a row; steps ago

/// From how many steps something is concluded. In a small window half of it, for not every step is measured.
[[nodiscard]] inline std::int64_t enough_measured(const HistoryConfig& config) noexcept {
  return static_cast<std::int64_t>(std::min(config.capacity / 2, std::size_t{64}));
}

/// log2 in 256ths, within 0.09 of an octave. Sums of whole numbers can be kept up to date over a window without an error.
/// `value` is above 0.
[[nodiscard]] inline std::int64_t octave_level(const double& value) noexcept { return log2_below(value) >> 12; }
/// Whether max_abs is a number above 0.
[[nodiscard]] inline bool is_measured(const StepRecord& record) noexcept {
  return record.report.finite && positive_in(record.report.max_abs, smallest_double, largest_double);
}
[[nodiscard]] inline bool is_nonfinite_at_floor(const StepRecord& record, const HistoryConfig& config) noexcept {
  return !record.report.finite && record.loss_scale <= config.min_scale;
}

/// Sums over the kept steps: a step is added when it is recorded and subtracted when it is overwritten.
struct KeptSteps {
  std::int64_t steps = 0, not_finite = 0, spikes = 0;  // with gradients, and not of the warm-up; those of them skipped
  std::int64_t without_gradients = 0;                  // and not of the warm-up
  std::int64_t at_floor = 0;                           // not finite at min_scale or below
  std::int64_t with_peak = 0, low = 0;                 // finite gradients of known size; those below lowest_peak
  std::int64_t measured = 0, levels = 0, squares = 0;  // octave levels of those above 0

  /// `sign` is 1 or -1.
  void add(const StepRecord& record, bool is_of_warm_up, const HistoryConfig& config, std::int64_t sign) noexcept {
    if (!is_of_warm_up) {
      (record.reason == SkipReason::no_gradients ? without_gradients : steps) += sign;
      if (record.reason == SkipReason::not_finite) not_finite += sign;
      if (record.reason == SkipReason::spike) spikes += sign;
    }
    if (!record.report.finite) {
      if (is_nonfinite_at_floor(record, config)) at_floor += sign;
    } else if (is_measured(record)) {
      const std::int64_t level = octave_level(record.report.max_abs);
      measured += sign;
      levels += sign * level;
      squares += sign * level * level;
      with_peak += sign;
      // Not as a product, which may overflow.
      if (record.report.max_abs < config.lowest_peak / static_cast<double>(record.loss_scale)) low += sign;
    } else if (is_zero(record.report.max_abs) && record.reason != SkipReason::no_gradients) {
      with_peak += sign;
      low += sign;
    }
  }
};

/// All that a verdict is taken from, besides the last step.
struct HistoryFacts {
  HistoryTotals totals;
  KeptSteps kept;
  std::int64_t since_floor = 0;                 // steps since the last of kept.at_floor
  std::int64_t nonfinite_run = 0, nan_run = 0;  // steps in a row, up to the last: not finite; and with NaN counted and no Inf
  float last_finite_scale = 0.0F;               // of the last step that was finite; 0 if there was none
  std::optional<double> underflow_share;

  void add(const StepRecord& record, const HistoryConfig& config) noexcept {
    kept.add(record, totals.steps < config.warm_up, config, 1);
    totals.steps = one_more(totals.steps);
    if (record.reason == SkipReason::not_finite) totals.not_finite = one_more(totals.not_finite);
    if (record.reason == SkipReason::no_gradients) totals.no_gradients = one_more(totals.no_gradients);
    if (record.reason == SkipReason::spike) totals.spikes = one_more(totals.spikes);
    totals.run = record.skipped() ? one_more(totals.run) : 0;
    totals.longest_run = std::max(totals.longest_run, totals.run);
    since_floor = is_nonfinite_at_floor(record, config) ? 0 : one_more(since_floor);
    if (record.reason == SkipReason::no_gradients) return;  // which says nothing of a scale
    const bool is_nan = record.nonfinite.nan_count > 0 && record.nonfinite.inf_count == 0;
    nonfinite_run = record.report.finite ? 0 : one_more(nonfinite_run);
    nan_run = !record.report.finite && is_nan ? one_more(nan_run) : 0;
    if (record.report.finite) last_finite_scale = record.loss_scale;
  }
  /// The oldest of `size` kept steps.
  void forget(const StepRecord& record, std::size_t size, const HistoryConfig& config) noexcept {
    kept.add(record, totals.steps - static_cast<std::int64_t>(size) < config.warm_up, config, -1);
  }
};

[[nodiscard]] inline bool is_at_floor(const HistoryFacts& facts, const StepRecord& last, const HistoryConfig& config) {
  return last.loss_scale <= config.min_scale && facts.kept.at_floor >= 2 && facts.since_floor <= recent;
}
[[nodiscard]] inline bool no_scale_helps(const HistoryFacts& facts, const StepRecord& last, const HistoryConfig& config) {
  if (facts.nonfinite_run < long_run) return false;
  const double fall = static_cast<double>(facts.last_finite_scale) / static_cast<double>(last.loss_scale);
  if (fall >= config.dynamic_range) return true;
  return facts.nan_run >= long_run && (is_at_floor(facts, last, config) || is_as_wide_as_float(config.dynamic_range));
}
[[nodiscard]] inline bool are_too_many_skips(const KeptSteps& kept, const HistoryConfig& config) {
  const auto expected = std::min(config.warm_up, static_cast<std::int64_t>(config.capacity)) - kept.without_gradients;
  const auto tolerated = config.skip_tolerance * static_cast<double>(std::max(kept.steps, expected));
  const std::int64_t skipped = kept.not_finite + kept.spikes;
  return static_cast<double>(skipped) > tolerated && (skipped > 1 || is_zero(config.skip_tolerance));
}
[[nodiscard]] inline bool is_underflowing(const HistoryFacts& facts, const HistoryConfig& config) {
  if (facts.underflow_share) return *facts.underflow_share > config.underflow_tolerance;
  return facts.kept.with_peak >= enough_measured(config) && 2 * facts.kept.low > facts.kept.with_peak;
}
/// How far max_abs of a kept step is above the mean of the others in octaves; 0 if there are too few.
[[nodiscard]] inline double octaves_above_mean(const HistoryFacts& facts, const StepRecord& step, const HistoryConfig& config) {
  if (!is_measured(step) || facts.kept.measured <= enough_measured(config)) return 0.0;
  const std::int64_t level = octave_level(step.report.max_abs);
  const double mean = static_cast<double>(facts.kept.levels - level) / static_cast<double>(facts.kept.measured - 1);
  return (static_cast<double>(level) - mean) / 256.0;
}
/// The same of the last step; 0 if it is no spike.
[[nodiscard]] inline double octaves_of_spike(const HistoryFacts& facts, const StepRecord& last, const HistoryConfig& config) {
  const double above = octaves_above_mean(facts, last, config);
  if (!(above > 0.0)) return 0.0;
  const std::int64_t level = octave_level(last.report.max_abs);
  const double mean = static_cast<double>(level) - 256.0 * above;
  const double variance =
      static_cast<double>(facts.kept.squares - level * level) / static_cast<double>(facts.kept.measured - 1) - mean * mean;
  const double least = 128.0 * 128.0;  // of half an octave
  return 256.0 * above > config.spike_sigmas * __builtin_sqrt(std::max(variance, least)) ? above : 0.0;
}

[[nodiscard]] inline Verdict verdict_of(const HistoryFacts& facts, const StepRecord& last, const HistoryConfig& config) {
  if (!last.loss_finite.value_or(!no_scale_helps(facts, last, config))) return Verdict::loss_is_not_finite;
  if (is_at_floor(facts, last, config)) return Verdict::at_floor;
  if (facts.totals.steps < config.warm_up) return Verdict::warming_up;
  if (are_too_many_skips(facts.kept, config)) return Verdict::too_many_skips;
  if (is_underflowing(facts, config)) return Verdict::underflowing;
  if (last.reason == SkipReason::spike || octaves_of_spike(facts, last, config) > 0.0) return Verdict::spike;
  return Verdict::healthy;
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
