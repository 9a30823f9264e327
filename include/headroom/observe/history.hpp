#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/csv.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/observe/explain.hpp>
#include <headroom/observe/verdict.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/state/state_dict.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// The shortest number that is read back as this one, whatever the locale; nothing for Inf and NaN.
template <class Float>
void append_number(std::string& csv, const Float& value) {
  const auto magnitude = bit_cast<std::uint64_t>(static_cast<double>(value)) & binary64::abs_mask;
  char text[32];
  if (magnitude < binary64::infinity_bits) csv.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

template <class Result>
using step_result_t = std::enable_if_t<std::is_convertible_v<decltype(std::declval<const Result&>().report), GradientReport> &&
                                       std::is_convertible_v<decltype(std::declval<const Result&>().skipped), bool>>;
template <class Result>
using own_scale_t = std::enable_if_t<std::is_convertible_v<decltype(std::declval<const Result&>().loss_scale), float>>;
template <class Result>
using reason_t = std::enable_if_t<std::is_convertible_v<decltype(std::declval<const Result&>().reason), SkipReason>>;
template <class Result>
using nonfinite_t = std::enable_if_t<
    std::is_convertible_v<decltype((std::declval<const Result&>().nonfinite)), const std::optional<NonFinite>&>>;

}  // namespace detail

/// What happened to the loss scale, step by step, and what that says about the training:
///
///     headroom::History history;
///     history.set_on_verdict([](const headroom::History& h) { log(h.explanation()); });
///     for (…) {
///       history.record_loss(loss);                                 // optional
///       history.record(scaler.step(optimizer));                    // or record(scale, report) beside a policy alone
///       scaler.update();
///     }
///
/// The last `capacity` steps are kept, and the verdict is taken from them; totals are of the whole run. Memory is allocated at
/// construction, and afterwards only for paths longer than a slot has room for (15 characters at first), after an overflow. Of
/// several optimizers record one, or each in a history of its own; of a disabled scaler, nothing. With an AsyncGradScaler: the
/// result from the future of its submit. A copy calls the same callback; nothing is moved, so that no history is left without
/// its memory.
///
/// The defaults are for gradients in fp16; else say `History history(HistoryConfig::for_dtype<bfloat16>());`. Whether gradients
/// were too large or NaN cannot be told from a report alone: record results, or what find_nonfinite found.
class History {
 public:
  History() : History(HistoryConfig()) {}
  explicit History(std::size_t capacity) : History(HistoryConfig{capacity}) {}
  /// Throws std::invalid_argument naming the field if one is out of range.
  explicit History(const HistoryConfig& config) : config_(config) {
    config_.check();
    ring_.resize(config_.capacity);
  }
  History(const History&) = default;
  History& operator=(const History&) = default;
  ~History() = default;

  [[nodiscard]] const HistoryConfig& config() const noexcept { return config_; }

  /// Records a step that GradScaler::step took or skipped, from its result: anything that has `report`, `skipped` and
  /// `loss_scale`; `reason` and `nonfinite` are taken as well where there are any. Throws std::invalid_argument if the scale is
  /// not in [2^-126, 2^126], before anything is recorded, and what the callback throws, after.
  template <class Result, class = detail::step_result_t<Result>, class = detail::own_scale_t<Result>>
  void record(const Result& result) {
    record(static_cast<float>(result.loss_scale), result);
  }
  /// The same of a result that has no `loss_scale`, which is that of its gradients.
  template <class Result, class = detail::step_result_t<Result>>
  void record(const float& loss_scale, const Result& result) {
    SkipReason reason = reason_of(result.report, result.skipped);
    if constexpr (detail::is_detected_v<detail::reason_t, Result>) {
      if (result.skipped && result.reason != SkipReason::none) reason = result.reason;
    }
    if constexpr (detail::is_detected_v<detail::nonfinite_t, Result>) {
      add(loss_scale, result.report, reason, result.nonfinite);
    } else {
      add(loss_scale, result.report, reason, std::nullopt);
    }
  }
  /// The same without a GradScaler. A finite step that is skipped counts as a spike. `nonfinite`: where, if somebody has looked
  /// by find_nonfinite. A max_abs of NaN in a finite report says that it is not known.
  void record(const float& loss_scale, const GradientReport& report, bool skipped,
              const std::optional<NonFinite>& nonfinite = std::nullopt) {
    add(loss_scale, report, reason_of(report, skipped), nonfinite);
  }
  /// The same for a step that is taken if the report is finite.
  void record(const float& loss_scale, const GradientReport& report) { record(loss_scale, report, !report.finite); }

  /// The loss, or one of several, of the step that is recorded next, not scaled: all that is kept is whether it is finite.
  void record_loss(const double& loss) noexcept {
    const bool is_finite = (detail::bit_cast<std::uint64_t>(loss) & binary64::abs_mask) < binary64::infinity_bits;
    next_loss_finite_ = is_finite && next_loss_finite_.value_or(true);
  }
  /// The share of gradients that become zero in their format, as `shares<half>(scale).underflow_share()` of an
  /// ExponentHistogram of gradients in float says. It holds until the next call. Throws std::invalid_argument if it is not in
  /// [0, 1].
  void set_underflow_share(const double& share) {
    detail::check_share("share", share);
    facts_.underflow_share = share;
  }
  /// The number of the next step; steps are counted from 0. Throws std::invalid_argument if it is negative or above 2^62.
  void set_next_step(std::int64_t step) {
    if (step < 0 || step > detail::largest_counter) detail::throw_bad_value("step", step, "in [0, 2^62]");
    next_step_ = step;
  }
  /// Called at the end of a `record` whose verdict is not that of the one before, or for the first one not warming_up. What it
  /// throws goes to the caller of `record`; the step has been recorded.
  void set_on_verdict(std::function<void(const History&)> on_verdict) { on_verdict_ = std::move(on_verdict); }

  [[nodiscard]] const HistoryTotals& totals() const noexcept { return facts_.totals; }
  /// How many steps are kept, and those: 0 is the oldest, size() - 1 the last.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const StepRecord& operator[](std::size_t i) const noexcept { return ring_[position(i)]; }
  /// The share of the last `steps` steps, or of as many as are kept, that was skipped for whatever reason. 0 of no steps.
  [[nodiscard]] double skipped_share(std::size_t steps) const noexcept {
    const std::size_t count = std::min(steps, size_);
    std::size_t skipped = 0;
    for (std::size_t i = size_ - count; i < size_; ++i) skipped += (*this)[i].skipped() ? 1U : 0U;
    return count == 0 ? 0.0 : static_cast<double>(skipped) / static_cast<double>(count);
  }

  [[nodiscard]] Verdict verdict() const noexcept { return detail::verdict_of(facts_, last(), config_); }
  /// The verdict as a sentence for a log, with the step, the figures and, where one is to blame, the tensor. Where no step is
  /// kept, at first and after a load_state_dict, with the totals.
  [[nodiscard]] std::string explanation() const {
    const Verdict found = verdict();
    const std::string name = std::string(", ") + to_string(found) + ": ";
    if (size_ == 0) return "before step " + std::to_string(next_step_) + name + detail::totals_text(found, facts_);
    return "step " + std::to_string(last().step) + name +
           detail::explanation_of(found, facts_, last(), detail::places_of(*this, facts_, config_), config_);
  }

  /// The kept steps, the oldest first, as CSV with a line of names. What is not known is empty, and so is the max_abs of
  /// gradients that are not finite. `path`, `index` and `is_nan` are those of the first element that is not finite.
  [[nodiscard]] std::string csv() const {
    std::string csv = "step,loss_scale,finite,max_abs,skipped,reason,loss_finite,path,index,is_nan,nan_count,inf_count\n";
    for (std::size_t i = 0; i < size_; ++i) append_line(csv, (*this)[i]);
    return csv;
  }

  /// The totals and the number of the next step, for a checkpoint. The kept steps are not in it.
  [[nodiscard]] StateDict state_dict() const {
    detail::StateWriter write(state_name);
    visit_state(*this, write);
    return write.take();
  }
  /// Goes on from such totals, with no steps kept. Throws std::invalid_argument naming key and value if one is missing, unknown
  /// or out of range, and then changes nothing.
  void load_state_dict(const StateDict& dict) {
    detail::StateReader read(dict, std::string(state_name));
    History loaded(config_);
    visit_state(loaded, read);
    read.finish();
    loaded.on_verdict_ = on_verdict_;
    loaded.facts_.underflow_share = facts_.underflow_share;
    loaded.told_ = loaded.verdict();
    *this = loaded;
  }

 private:
  static constexpr const char* state_name = "history";
  [[nodiscard]] static SkipReason reason_of(const GradientReport& report, bool skipped) noexcept {
    return !skipped ? SkipReason::none : report.finite ? SkipReason::spike : SkipReason::not_finite;
  }
  template <class Self, class Visit>
  static void visit_state(Self& self, Visit& visit) {
    auto& totals = self.facts_.totals;
    visit("next_step", self.next_step_, 0, detail::largest_counter);
    visit("steps", totals.steps, 0, detail::largest_counter);
    visit("not_finite", totals.not_finite, 0, totals.steps);
    visit("no_gradients", totals.no_gradients, 0, totals.steps - totals.not_finite);
    visit("spikes", totals.spikes, 0, totals.steps - totals.not_finite - totals.no_gradients);
    visit("longest_run", totals.longest_run, 0, totals.skipped());
    visit("run", totals.run, 0, totals.longest_run);
  }

  [[nodiscard]] std::size_t position(std::size_t i) const noexcept {
    const std::size_t from_begin = next_ + (ring_.size() - size_) + i;
    return from_begin < ring_.size() ? from_begin : from_begin - ring_.size();
  }
  /// Of no step if there is none.
  [[nodiscard]] const StepRecord& last() const noexcept { return ring_[next_ == 0 ? ring_.size() - 1 : next_ - 1]; }

  void add(const float& loss_scale, const GradientReport& report, SkipReason reason,
           const std::optional<NonFinite>& nonfinite) {
    detail::check_loss_scale("loss_scale", loss_scale);
    StepRecord& record = ring_[next_];
    const NonFinite nowhere{};
    // First, for it can throw; and copied, for a path has its memory already where it is not longer than others were.
    record.nonfinite = nonfinite ? *nonfinite : nowhere;
    if (size_ == ring_.size()) {
      facts_.forget(record, size_, config_);
    } else {
      ++size_;
    }
    record.step = next_step_;
    record.loss_scale = loss_scale;
    record.report = report;
    record.reason = reason;
    record.loss_finite = next_loss_finite_;
    facts_.add(record, config_);
    next_ = next_ + 1 < ring_.size() ? next_ + 1 : 0;
    next_step_ = detail::one_more(next_step_);
    next_loss_finite_.reset();
    tell();
  }
  void tell() {
    if (!on_verdict_) return;
    const Verdict now = verdict();
    if (now == told_) return;
    told_ = now;
    const std::function<void(const History&)> called = on_verdict_;  // it may set another, or load a state
    called(*this);
  }

  static void append_line(std::string& csv, const StepRecord& record) {
    const NonFinite& place = record.nonfinite;
    csv += std::to_string(record.step) + ',';
    detail::append_number(csv, record.loss_scale);
    csv += record.report.finite ? ",1," : ",0,";
    if (record.report.finite) detail::append_number(csv, record.report.max_abs);
    csv += record.skipped() ? ",1," : ",0,";
    csv += to_string(record.reason);
    csv += !record.loss_finite ? ",," : *record.loss_finite ? ",1," : ",0,";
    if (record.has_place()) {
      detail::append_csv_field(csv, place.path);
      csv += ',' + std::to_string(place.index) + (place.kind == NonFiniteKind::nan ? ",1," : ",0,") +
             std::to_string(place.nan_count) + ',' + std::to_string(place.inf_count) + '\n';
    } else {
      csv += ",,,,\n";
    }
  }

  HistoryConfig config_;
  std::vector<StepRecord> ring_;
  std::size_t size_ = 0, next_ = 0;  // how many are kept; where the next one goes
  detail::HistoryFacts facts_;
  std::int64_t next_step_ = 0;
  std::optional<bool> next_loss_finite_;
  Verdict told_ = Verdict::warming_up;
  std::function<void(const History&)> on_verdict_;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
