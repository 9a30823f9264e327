#pragma once

#include <headroom/config.hpp>
#include <headroom/observe/verdict.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// With six digits, whatever the locale.
[[nodiscard]] inline std::string rounded_text(const double& value) {
  const auto magnitude = bit_cast<std::uint64_t>(value) & binary64::abs_mask;
  if (magnitude >= binary64::infinity_bits) return magnitude == binary64::infinity_bits ? "Inf" : "NaN";
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, 6).ptr);
}
[[nodiscard]] inline std::string rounded_text(float value) { return rounded_text(static_cast<double>(value)); }

/// What the kept steps say besides their sums: `steps` has size() of them, and steps[i], the oldest first.
struct KeptPlaces {
  const StepRecord* last = nullptr;      // step of which it is known where its gradients were not finite
  const StepRecord* measured = nullptr;  // the last
  const StepRecord* failing = nullptr;   // the last that was not finite, if no finite one came after it
  // Of the steps skipped as not finite after the warm-up, those with NaN and no Inf, nor one in a step after them before the
  // next finite one: gradients that are far too large may be NaN alone at first.
  std::int64_t nan_alone = 0;
  const StepRecord* last_nan_alone = nullptr;
  // The smallest scale of those skipped steps, but for the ones of NaN alone.
  float overflow_scale = largest_loss_scale;
  // Of the steps that were not finite at min_scale or below:
  const StepRecord* first_at_floor = nullptr;  // of those of which it is known where
  std::int64_t at_floor = 0;                   // those
  std::int64_t nan_alone_there = 0;            // with no Inf
  std::int64_t inf_alone_there = 0;            // with no NaN, in the tensor of the first
};
template <class Steps>
[[nodiscard]] KeptPlaces places_of(const Steps& steps, const HistoryFacts& facts, const HistoryConfig& config) {
  KeptPlaces places;
  const std::int64_t of_warm_up = config.warm_up - (facts.totals.steps - static_cast<std::int64_t>(steps.size()));
  std::int64_t run = 0;  // of NaN alone
  const StepRecord* before_run = nullptr;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepRecord& step = steps[i];
    const NonFinite& found = step.nonfinite;
    if (is_measured(step)) places.measured = &step;
    if (step.reason != SkipReason::no_gradients) places.failing = step.report.finite ? nullptr : &step;
    if (places.failing == nullptr) run = 0;
    const bool is_skip = step.reason == SkipReason::not_finite && static_cast<std::int64_t>(i) >= of_warm_up;
    if (is_skip && (found.inf_count > 0 || !step.has_place()) && step.loss_scale < places.overflow_scale) {
      places.overflow_scale = step.loss_scale;
    }
    if (!step.has_place()) continue;
    places.last = &step;
    if (is_skip && found.inf_count == 0) {
      if (run++ == 0) before_run = places.last_nan_alone;
      ++places.nan_alone;
      places.last_nan_alone = &step;
    } else if (is_skip && run > 0) {
      places.nan_alone -= run;
      places.last_nan_alone = before_run;
      run = 0;
    }
    if (!is_nonfinite_at_floor(step, config)) continue;
    if (places.first_at_floor == nullptr) places.first_at_floor = &step;
    ++places.at_floor;
    if (found.inf_count == 0) ++places.nan_alone_there;
    if (found.nan_count == 0 && found.path == places.first_at_floor->nonfinite.path) ++places.inf_alone_there;
  }
  return places;
}

[[nodiscard]] inline std::string tensor_text(const NonFinite& place) { return place.path.empty() ? "the tree" : place.path; }
/// Where a step was not finite, as the end of a sentence.
[[nodiscard]] inline std::string place_text(const StepRecord* place) {
  if (place == nullptr) return "; no tensor has been named";
  const NonFinite& found = place->nonfinite;
  return "; at step " + std::to_string(place->step) + " " + tensor_text(found) + " had " +
         (found.kind == NonFiniteKind::nan ? "a NaN" : "an Inf") + " at index " + std::to_string(found.index) + ", of " +
         std::to_string(found.nan_count) + " NaN and " + std::to_string(found.inf_count) + " Inf in all";
}

[[nodiscard]] inline std::string loss_text(const HistoryFacts& facts, const StepRecord& last, const KeptPlaces& places) {
  if (last.loss_finite) {
    return "the loss is Inf or NaN, which no loss scale mends: look at this batch, for 0/0 or log 0 in the loss, and whether "
           "the weights are finite";
  }
  return "the last " + std::to_string(facts.nonfinite_run) + " steps were not finite, down to a loss scale of " +
         rounded_text(last.loss_scale) +
         "; no smaller one will help: see whether the unscaled loss and the weights are finite; if not, go back to a "
         "checkpoint and lower the learning rate" +
         place_text(places.last);
}
/// What the record shows of why it overflows at the floor, and what to do.
[[nodiscard]] inline std::string floor_advice(const HistoryFacts& facts, const StepRecord& last, const KeptPlaces& places,
                                              const HistoryConfig& config) {
  constexpr double much = 8.0;  // 3 octaves
  if (places.at_floor > 0 && places.nan_alone_there == places.at_floor) {
    return last.loss_finite ? "only NaN was counted there, though the loss is finite: see whether the weights are, and what "
                              "divides by 0"
                            : "only NaN was counted there, as from a loss or weights that are not finite: see whether they are";
  }
  const std::string loss = last.loss_finite ? "" : ", and see whether the unscaled loss is finite";
  const std::string advice = "lower the learning rate or clip the gradients" + loss;
  // All that backward computed fitted into the format at the scale of the last finite step. What is Inf now has grown by as
  // much as the scale has fallen since; of what is NaN that says nothing.
  const double fall = places.failing == nullptr
                          ? 0.0
                          : static_cast<double>(facts.last_finite_scale) / static_cast<double>(places.failing->loss_scale);
  const std::string grown = "grown more than " + rounded_text(fall) + "-fold since the last finite step";
  if (fall >= much && places.failing->has_place() && places.failing->nonfinite.nan_count == 0) {
    return "the gradients have " + grown + ": " + advice;
  }
  const double octaves = places.measured == nullptr ? 0.0 : octaves_above_mean(facts, *places.measured, config);
  if (octaves >= 3.0) {
    return "the largest gradient had grown to " + rounded_text(places.measured->report.max_abs) + ", " + rounded_text(octaves) +
           " octaves above the mean of the kept steps: " + advice;
  }
  const bool has_wider = !is_as_wide_as_float(config.dynamic_range);
  if (has_wider && places.at_floor >= 2 && places.inf_alone_there == places.at_floor) {
    return "only Inf was counted there, first in " + tensor_text(places.first_at_floor->nonfinite) +
           " each time: compute that layer in float or bfloat16" + loss;
  }
  if (places.at_floor == 0) {
    return "the gradients " + (fall >= much ? "have " + grown + ", or are NaN" : std::string("are too large or NaN")) +
           "; nobody has looked which (a recorded StepResult tells, on the rank that has them): " + advice;
  }
  return advice;
}
[[nodiscard]] inline std::string floor_text(const HistoryFacts& facts, const StepRecord& last, const KeptPlaces& places,
                                            const HistoryConfig& config) {
  return std::to_string(facts.kept.at_floor) + " of the kept steps were not finite at a loss scale of " +
         rounded_text(config.min_scale) + " or less: " + floor_advice(facts, last, places, config) + place_text(places.last);
}
[[nodiscard]] inline std::string skips_text(const HistoryFacts& facts, const StepRecord& last, const KeptPlaces& places,
                                            const HistoryConfig& config) {
  const KeptSteps& kept = facts.kept;
  const std::string figures = std::to_string(kept.not_finite + kept.spikes) + " of " + std::to_string(kept.steps) +
                              " steps with gradients were skipped (" + std::to_string(kept.not_finite) + " not finite, " +
                              std::to_string(kept.spikes) + " spikes): ";
  if (kept.spikes > kept.not_finite) {
    return figures + "look at their batches; if those are sound, give the SpikeGuard more sigmas";
  }
  if (2 * places.nan_alone > kept.not_finite) {
    return figures + "only NaN was counted in " + std::to_string(places.nan_alone) + ", which no loss scale mends: " +
           (places.last_nan_alone->loss_finite ? "" : "see whether the loss is finite, and ") +
           "look at the named tensor and at their batches for 0/0, log 0 or an overflow in the forward pass" +
           place_text(places.last_nan_alone);
  }
  if (is_as_wide_as_float(config.dynamic_range)) {
    return figures + "their dtype needs no loss scale: " + (last.loss_finite ? "" : "see whether the loss is finite, and ") +
           "lower the learning rate or clip the gradients" + place_text(places.last);
  }
  return figures + "keep the loss scale below " + rounded_text(places.overflow_scale) +
         ", the smallest that overflowed (max_scale), let it grow less often (growth_interval, where the policy goes by it), "
         "or lower the learning rate" +
         place_text(places.last);
}
[[nodiscard]] inline std::string share_text(const HistoryFacts& facts) {
  return rounded_text(100.0 * *facts.underflow_share) + " % of the gradients become zero in their format";
}
[[nodiscard]] inline std::string underflow_text(const HistoryFacts& facts, const StepRecord& last,
                                                const HistoryConfig& config) {
  const std::string advice = ": let the loss scale, now " + rounded_text(last.loss_scale) +
                             ", start higher (initial_scale) or grow sooner (growth_interval)";
  if (facts.underflow_share) return share_text(facts) + advice;
  const std::string size = last.report.finite ? rounded_text(last.report.max_abs) : "not finite";
  return "in " + std::to_string(facts.kept.low) + " of " + std::to_string(facts.kept.with_peak) +
         " steps the largest gradient, now " + size + ", times the loss scale was below " + rounded_text(config.lowest_peak) +
         ", where the others may become zero" + advice;
}
[[nodiscard]] inline std::string spike_text(const HistoryFacts& facts, const StepRecord& last, const HistoryConfig& config) {
  const double octaves = octaves_of_spike(facts, last, config);
  const bool is_skipped = last.reason == SkipReason::spike;
  const std::string size =
      (is_skipped ? "the step was skipped as a spike: the largest gradient is " : "the largest gradient is ") +
      rounded_text(last.report.max_abs);
  if (!(octaves > 0.0)) return size;
  return size + ", " + rounded_text(octaves) + " octaves above the mean of the kept steps: look at this batch" +
         (is_skipped ? "" : "; a SpikeGuard skips such steps");
}

[[nodiscard]] inline std::string warm_up_text(const HistoryTotals& totals, const StepRecord& last, const KeptPlaces& places,
                                              const HistoryConfig& config) {
  const std::string figures =
      std::to_string(totals.not_finite) + " of the first " + std::to_string(totals.steps) + " steps were not finite";
  if (is_as_wide_as_float(config.dynamic_range)) return totals.not_finite == 0 ? figures : figures + place_text(places.last);
  return figures + ", which is usual while the loss scale, now " + rounded_text(last.loss_scale) + ", comes down";
}

/// Of totals alone, when no step is kept.
[[nodiscard]] inline std::string totals_text(Verdict verdict, const HistoryFacts& facts) {
  const HistoryTotals& totals = facts.totals;
  const std::string share = verdict == Verdict::underflowing ? share_text(facts) + ", and " : std::string();
  if (totals.steps == 0) return share + "no step has been recorded";
  return share + std::to_string(totals.skipped()) + " of " + std::to_string(totals.steps) + " steps were skipped" +
         (totals.skipped() == 0 ? "" : ", " + std::to_string(totals.longest_run) + " in a row at most") +
         "; none has been recorded since this state was loaded";
}

[[nodiscard]] inline std::string explanation_of(Verdict verdict, const HistoryFacts& facts, const StepRecord& last,
                                                const KeptPlaces& places, const HistoryConfig& config) {
  switch (verdict) {
    case Verdict::loss_is_not_finite:
      return loss_text(facts, last, places);
    case Verdict::at_floor:
      return floor_text(facts, last, places, config);
    case Verdict::warming_up:
      return warm_up_text(facts.totals, last, places, config);
    case Verdict::too_many_skips:
      return skips_text(facts, last, places, config);
    case Verdict::underflowing:
      return underflow_text(facts, last, config);
    case Verdict::spike:
      return spike_text(facts, last, config);
    case Verdict::healthy:
      break;
  }
  return std::to_string(facts.totals.skipped()) + " of " + std::to_string(facts.totals.steps) +
         " steps were skipped, and the loss scale is " + rounded_text(last.loss_scale);
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
