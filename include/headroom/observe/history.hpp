#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/report.hpp>
#include <headroom/state/fields.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// One step of a History.
struct StepRecord {
  std::int64_t step = 0;
  float loss_scale = 1.0F;  ///< during the step
  GradientReport report{};
  SkipReason reason = SkipReason::none;
  std::optional<bool> loss_finite{};  ///< whether the loss was finite; empty if none was recorded
  NonFinite nonfinite{};              ///< counts of 0 and an empty path if unknown
  [[nodiscard]] bool skipped() const noexcept { return reason != SkipReason::none; }
  [[nodiscard]] bool has_place() const noexcept { return nonfinite.nan_count + nonfinite.inf_count > 0; }
};

/// Totals of the whole run, not only of the kept steps.
struct HistoryTotals {
  std::int64_t steps = 0;
  std::int64_t skipped = 0;           ///< for any reason
  std::int64_t not_finite = 0;        ///< skipped because of Inf or NaN
  std::int64_t skipped_in_a_row = 0;  ///< the last steps in a row that were skipped
  std::int64_t longest_run = 0;       ///< the most steps in a row that were skipped
};

/// The verdict of a History on the training: the first of these that holds.
enum class Verdict {
  /// The loss recorded with the last step is Inf or NaN.
  loss_is_not_finite,
  /// The last step ran at `min_scale` or below, and two or more of the last 64 steps were not finite there.
  at_floor,
  /// The run has had fewer than `warm_up` steps.
  warming_up,
  /// More than `skip_tolerance` of the kept steps after the warm-up were not finite. Fewer than 100 count as 100.
  too_many_skips,
  /// Of 64 or more kept finite steps, more than half have a largest gradient times the scale that is below `lowest_peak`.
  underflowing,
  healthy  ///< none of these
};

[[nodiscard]] constexpr const char* to_string(Verdict verdict) noexcept {
  constexpr const char* names[] = {"loss_is_not_finite", "at_floor", "warming_up", "too_many_skips", "underflowing", "healthy"};
  const auto i = static_cast<std::size_t>(verdict);
  return i < sizeof names / sizeof *names ? names[i] : "unknown";  // of no enumerator
}

/// The limits of a History's verdicts.
struct HistoryConfig {
  std::size_t capacity = 1024;  ///< the number of steps kept for the verdict; in [1, 2^24]
  /// The floor of your policy, LossScaleConfig::min_scale. Without one: the scale that you consider too low.
  float min_scale = 1.0F;
  /// The number of first steps in which a scale that starts too high comes down; 0 or more.
  std::int64_t warm_up = 100;
  /// The share of steps that may not be finite; in [0, 1]. A rule that doubles the scale after n finite steps skips at most
  /// about one in n + 1 steps once the scale has settled.
  double skip_tolerance = 0.05;
  /// The largest gradient times the scale should reach this; above 0. The default is 16 octaves above the smallest half.
  double lowest_peak = 0x1p-8;

  /// The defaults for gradients of dtype T. `lowest_peak` is 16 octaves above the smallest number of T, or in the middle of its
  /// octaves if it has fewer than 32. If T has the range of float, `min_scale` is smallest_loss_scale, because a loss scale of
  /// 1 is not too low.
  template <class T>
  [[nodiscard]] static constexpr HistoryConfig for_dtype() noexcept {
    using Format = detail::format_of<T>;
    constexpr int octaves = static_cast<int>(Format::largest_finite_bits >> Format::mantissa_bits) + Format::mantissa_bits;
    constexpr std::uint64_t up = octaves < 32 ? octaves / 2 : 16;
    constexpr double lowest_peak = detail::bit_cast<double>(detail::convert_bits<Format, binary64>(1)) *
                                   detail::bit_cast<double>((binary64::bias + up) << binary64::mantissa_bits);
    HistoryConfig config;
    config.lowest_peak = lowest_peak;
    if (octaves >= 252) config.min_scale = smallest_loss_scale;  // the octaves of loss scales
    return config;
  }

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    using Config = HistoryConfig;
    visit("capacity", &Config::capacity, 1, 1 << 24, "in [1, 2^24]");
    visit("min_scale", &Config::min_scale, smallest_loss_scale, largest_loss_scale, "in [2^-126, 2^126]");
    visit("warm_up", &Config::warm_up, 0, std::numeric_limits<std::int64_t>::max(), "0 or more");
    visit("skip_tolerance", &Config::skip_tolerance, 0.0, 1.0, "in [0, 1]");
    visit("lowest_peak", &Config::lowest_peak, detail::smallest_double, detail::largest_double, "above 0 and finite");
  }
};

/// Records the loss scale and the reports of a training, step by step, and gives a verdict. docs/troubleshooting.md has a loop.
///
/// Keeps the last `capacity` steps; totals are of the whole run. Allocates memory at construction. Later only long paths after
/// an overflow and a copy of the callback need memory. If there are several optimizers, record one, or use a history for each.
/// Do not record a disabled scaler. With an AsyncGradScaler, record the result from the future of its submit.
///
/// The defaults are for gradients in fp16. For others write `History history(HistoryConfig::for_dtype<bfloat16>());`.
class History {
 public:
  History() : History(HistoryConfig()) {}
  explicit History(std::size_t capacity) : History(HistoryConfig{capacity}) {}
  /// Throws std::invalid_argument naming the field if one is out of range.
  explicit History(const HistoryConfig& config) : config_(config) {
    detail::check_fields(config_);
    ring_.resize(config_.capacity);
  }

  [[nodiscard]] const HistoryConfig& config() const noexcept { return config_; }

  /// Records a StepResult of GradScaler::step. Throws std::invalid_argument, before anything is recorded, if the scale is not
  /// in [2^-126, 2^126]. Passes on what the callback throws, after the step is recorded.
  template <class Result>
  auto record(const Result& result) -> decltype(void(result.reason), void(result.loss_scale)) {
    add(result.loss_scale, result.report, result.reason, result.nonfinite);
  }
  /// The same without a GradScaler. The step counts as taken if the report is finite. Pass the result of find_nonfinite as
  /// `nonfinite` if you have one.
  void record(const float& loss_scale, const GradientReport& report, const std::optional<NonFinite>& nonfinite = std::nullopt) {
    add(loss_scale, report, report.finite ? SkipReason::none : SkipReason::not_finite, nonfinite);
  }

  /// An unscaled loss of the step that is recorded next. Call it for each loss. Only whether it is finite is kept.
  void record_loss(const double& loss) noexcept {
    next_loss_finite_ =
        detail::is_within(loss, -detail::largest_double, detail::largest_double) && next_loss_finite_.value_or(true);
  }
  /// Calls `on_verdict` after each `record` that changes the verdict, which is warming_up at first. The callback may throw.
  void set_on_verdict(std::function<void(const History&)> on_verdict) {
    on_verdict_ = std::move(on_verdict);
    reported_verdict_ = verdict();
  }

  [[nodiscard]] const HistoryTotals& totals() const noexcept { return totals_; }
  /// The number of kept steps, and the steps: 0 is the oldest, size() - 1 the last.
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(std::min(totals_.steps, static_cast<std::int64_t>(ring_.size())));
  }
  [[nodiscard]] const StepRecord& operator[](std::size_t i) const noexcept {
    return ring_[(static_cast<std::size_t>(totals_.steps) - size() + i) % ring_.size()];
  }

  [[nodiscard]] Verdict verdict() const noexcept {
    if (totals_.steps == 0) return Verdict::warming_up;
    const StepRecord& last = (*this)[size() - 1];
    if (!last.loss_finite.value_or(true)) return Verdict::loss_is_not_finite;
    std::size_t at_floor = 0, warm = 0, skips = 0, finite = 0, low = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      const StepRecord& step = (*this)[i];
      if (i + 64 >= size() && !step.report.finite && step.loss_scale <= config_.min_scale) ++at_floor;
      if (step.reason == SkipReason::no_gradients) continue;
      if (step.step >= config_.warm_up) {
        ++warm;
        skips += step.reason == SkipReason::not_finite ? 1U : 0U;
      }
      if (!step.report.finite) continue;
      ++finite;
      // Not as a product, which may overflow.
      low += step.report.max_abs < config_.lowest_peak / static_cast<double>(step.loss_scale) ? 1U : 0U;
    }
    if (last.loss_scale <= config_.min_scale && at_floor >= 2) return Verdict::at_floor;
    if (totals_.steps < config_.warm_up) return Verdict::warming_up;
    const double most = config_.skip_tolerance * std::max<double>(static_cast<double>(warm), 100.0);
    if (static_cast<double>(skips) > most) return Verdict::too_many_skips;
    return finite >= 64 && 2 * low > finite ? Verdict::underflowing : Verdict::healthy;
  }

  /// A sentence for a log: the verdict, what to do, and the place of the last Inf or NaN, if it is known.
  [[nodiscard]] std::string explanation() const {
    constexpr const char* advice[] = {
        "; no loss scale helps: see whether the loss and the weights are finite, and look at this batch",
        ", min_scale or below: see whether the loss is finite, lower the learning rate, or clip the gradients",
        "; that is usual while the loss scale comes down",
        "; let the loss scale grow less often or not so high, or lower the learning rate",
        "; gradients may become zero: let the loss scale start higher or grow sooner",
        ""};
    if (totals_.steps == 0) return "no step has been recorded";
    const Verdict found = verdict();
    const StepRecord& last = (*this)[size() - 1];
    std::size_t skips = 0;
    for (std::size_t i = 0; i < size(); ++i) skips += (*this)[i].report.finite ? 0U : 1U;
    std::string text =
        detail::concat({"step ", std::to_string(last.step), ", ", to_string(found), ": ", std::to_string(skips),
                        " of the last ", std::to_string(size()), " steps were not finite, and the loss scale is ",
                        detail::to_text(static_cast<double>(last.loss_scale)), advice[static_cast<int>(found)]});
    const bool asks_where = found != Verdict::healthy && found != Verdict::underflowing;
    for (std::size_t i = asks_where ? size() : 0; i-- > 0;) {
      const StepRecord& step = (*this)[i];
      if (!step.has_place()) continue;
      const NonFinite& place = step.nonfinite;
      return text + detail::concat({"; at step ", std::to_string(step.step), " ", place.path.empty() ? "the tree" : place.path,
                                    " had ", place.kind == NonFiniteKind::nan ? "a NaN" : "an Inf", " at index ",
                                    std::to_string(place.index), ", of ", std::to_string(place.nan_count), " NaN and ",
                                    std::to_string(place.inf_count), " Inf in all"});
    }
    return text;
  }

  /// The kept steps as CSV, the oldest first, after a line of names. Unknown values are empty, and so is the max_abs of
  /// gradients that are not finite. `path`, `index` and `is_nan` are those of the first Inf or NaN.
  [[nodiscard]] std::string csv() const {
    std::string csv = "step,loss_scale,finite,max_abs,skipped,reason,loss_finite,path,index,is_nan,nan_count,inf_count\n";
    for (std::size_t i = 0; i < size(); ++i) {
      const StepRecord& step = (*this)[i];
      const NonFinite& place = step.nonfinite;
      const auto flag = [](bool is_set) { return is_set ? ",1," : ",0,"; };
      csv += detail::concat({std::to_string(step.step), ",", detail::to_text(static_cast<double>(step.loss_scale)),
                             flag(step.report.finite), step.report.finite ? detail::to_text(step.report.max_abs) : "",
                             flag(step.skipped()), to_string(step.reason), step.loss_finite ? flag(*step.loss_finite) : ",,"});
      csv += !step.has_place()
                 ? ",,,,"
                 : detail::concat({quoted(place.path), ",", std::to_string(place.index), flag(place.kind == NonFiniteKind::nan),
                                   std::to_string(place.nan_count), ",", std::to_string(place.inf_count)});
      csv += '\n';
    }
    return csv;
  }

 private:
  /// A field of CSV by RFC 4180.
  [[nodiscard]] static std::string quoted(std::string_view field) {
    if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
    std::string text(1, '"');
    for (const char c : field) text.append(c == '"' ? 2 : 1, c);
    return text + '"';
  }

  void add(const float& loss_scale, const GradientReport& report, SkipReason reason,
           const std::optional<NonFinite>& nonfinite) {
    detail::check_loss_scale("loss_scale", loss_scale);
    StepRecord& step = ring_[static_cast<std::size_t>(totals_.steps) % ring_.size()];
    const NonFinite nowhere{};
    // First, because it can throw. Copied, not moved, so that the path reuses the memory of an earlier one.
    step.nonfinite = nonfinite ? *nonfinite : nowhere;
    step.step = totals_.steps++;
    step.loss_scale = loss_scale;
    step.report = report;
    step.reason = reason;
    step.loss_finite = std::exchange(next_loss_finite_, std::nullopt);
    totals_.skipped += step.skipped() ? 1 : 0;
    totals_.not_finite += reason == SkipReason::not_finite ? 1 : 0;
    totals_.skipped_in_a_row = step.skipped() ? totals_.skipped_in_a_row + 1 : 0;
    totals_.longest_run = std::max(totals_.longest_run, totals_.skipped_in_a_row);
    if (!on_verdict_ || verdict() == reported_verdict_) return;
    reported_verdict_ = verdict();
    const std::function<void(const History&)> called = on_verdict_;  // a copy, because the callback may replace itself
    called(*this);
  }

  HistoryConfig config_;
  std::vector<StepRecord> ring_;  // step n is at n modulo its size
  HistoryTotals totals_;
  std::optional<bool> next_loss_finite_;
  Verdict reported_verdict_ = Verdict::warming_up;
  std::function<void(const History&)> on_verdict_;
};

HEADROOM_DETAIL_END_NAMESPACE
