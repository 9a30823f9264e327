#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/report.hpp>

#include <optional>
#include <string>
#include <string_view>

HEADROOM_DETAIL_BEGIN_NAMESPACE
/// One step of a History.
struct StepRecord {
  std::int64_t step = 0;                 ///< from 0, the first of the training
  float loss_scale = 1.0F;               ///< during the step
  GradientReport report{};               ///< of the unscaled gradients
  SkipReason reason = SkipReason::none;  ///< none if the step was taken
  std::optional<bool> loss_finite{};     ///< empty if no loss was recorded
  /// Counts are 0 if unknown. A path may still be known, as from a GPU's first_overflow
  NonFinite nonfinite{};
  [[nodiscard]] bool skipped() const noexcept { return reason != SkipReason::none; }
  [[nodiscard]] bool has_counts() const noexcept {
    return nonfinite.nan_count + nonfinite.inf_count > 0;
  }
  [[nodiscard]] bool has_place() const noexcept { return has_counts() || !nonfinite.path.empty(); }
};

/// The verdict of a History on the training: the first of these that holds.
enum class Verdict {
  loss_is_not_finite,  ///< the loss recorded with the last step is Inf or NaN
  /// The last step, and two or more not finite ones of the last 64, ran at `min_scale` or below
  at_floor,
  warming_up,  ///< the training has had fewer than `warm_up` steps
  /// More than `skip_tolerance` of the kept steps after the warm-up (at least 100) were not finite
  too_many_skips,
  /// In more than half of 64 or more finite steps max_abs times the scale is below `lowest_max_abs`
  underflowing,
  healthy  ///< none of these
};

[[nodiscard]] constexpr const char* to_string(Verdict verdict) noexcept {  ///< its name
  constexpr const char* names[] = {"loss_is_not_finite", "at_floor",     "warming_up",
                                   "too_many_skips",     "underflowing", "healthy"};
  return names[static_cast<std::size_t>(verdict)];
}

namespace detail {
// What a History says of its `steps`, which have size() and operator[].

template <class Steps>
[[nodiscard]] std::string place_text(const Steps& steps, const StepRecord& step) {
  const NonFinite& place = step.nonfinite;
  std::size_t same = 0;  // the last steps in a row with an Inf or NaN at this place
  for (; same < steps.size(); ++same) {
    const StepRecord& other = steps[steps.size() - 1 - same];
    if (!other.has_place() || other.nonfinite.path != place.path ||
        other.nonfinite.index != place.index)
      break;
  }
  if (!step.has_counts())
    return concat({"; at step ", std::to_string(step.step), " ", place.path, " had an Inf or NaN"});
  return concat({"; at step ", std::to_string(step.step), " ",
                 place.path.empty() ? "the tree" : place.path, " had ",
                 place.kind == NonFiniteKind::nan ? "a NaN" : "an Inf", " at index ",
                 std::to_string(place.index), ", of ", std::to_string(place.nan_count), " NaN and ",
                 std::to_string(place.inf_count), " Inf in all",
                 same < 10 ? ""
                           : ", as in the 9 steps before: see whether gradients are "
                             "cleared after a skipped step"});
}
/// A field of CSV by RFC 4180.
[[nodiscard]] inline std::string csv_field(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
  std::string text(1, '"');
  for (const char c : field) text.append(c == '"' ? 2 : 1, c);
  return text + '"';
}
template <class Steps>
[[nodiscard]] std::string explanation(const Steps& steps, Verdict verdict) {
  constexpr const char* advice[] = {
      "; no loss scale helps: see whether the loss and the weights are finite, and look at this "
      "batch",
      ", min_scale or below: see whether the loss is finite, lower the learning rate, or clip "
      "the gradients",
      "; that is usual while the loss scale comes down",
      "; let the loss scale grow less often or not so high, or lower the learning rate",
      "; gradients may become zero: let the loss scale start higher or grow sooner",
      ""};
  if (steps.size() == 0) return "no step has been recorded";
  const StepRecord& last = steps[steps.size() - 1];
  const StepRecord* placed = nullptr;  // the last step whose place is known
  std::size_t skips = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    skips += steps[i].report.finite ? 0U : 1U;
    if (steps[i].has_place()) placed = &steps[i];
  }
  std::string text = concat({"step ", std::to_string(last.step), ", ", to_string(verdict), ": "});
  if (skips > 0)
    text += concat({std::to_string(skips), " of the last ", std::to_string(steps.size()),
                    " steps were not finite, and "});
  text += concat({"the loss scale is ", to_text(static_cast<double>(last.loss_scale))});
  if (verdict == Verdict::warming_up && skips == 0) return text;
  if (verdict == Verdict::healthy || verdict == Verdict::underflowing) placed = nullptr;
  const bool is_nan_alone = placed != nullptr && placed->has_counts() &&
                            placed->nonfinite.inf_count == 0 &&
                            verdict != Verdict::loss_is_not_finite;
  text += is_nan_alone ? "; NaN without Inf: look at the loss and the weights"
                       : advice[static_cast<int>(verdict)];
  if (placed != nullptr) text += detail::place_text(steps, *placed);
  return text;
}
template <class Steps>
[[nodiscard]] std::string csv_of(const Steps& steps) {
  std::string csv =
      "step,loss_scale,finite,max_abs,skipped,reason,loss_finite,path,index,is_nan,nan_count,inf_"
      "count\n";
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepRecord& step = steps[i];
    const NonFinite& place = step.nonfinite;
    const auto flag = [](bool is_set) { return is_set ? ",1," : ",0,"; };
    csv += concat({std::to_string(step.step), ",", to_text(static_cast<double>(step.loss_scale)),
                   flag(step.report.finite), step.report.finite ? to_text(step.report.max_abs) : "",
                   flag(step.skipped()), to_string(step.reason),
                   step.loss_finite ? flag(*step.loss_finite) : ",,"});
    csv += csv_field(place.path);
    csv +=
        step.has_counts()
            ? concat({",", std::to_string(place.index), flag(place.kind == NonFiniteKind::nan),
                      std::to_string(place.nan_count), ",", std::to_string(place.inf_count), "\n"})
            : ",,,,\n";
  }
  return csv;
}
}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
