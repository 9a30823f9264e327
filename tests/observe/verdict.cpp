#include <headroom/dtype/bfloat16.hpp>
#include <headroom/dtype/cbfloat16.hpp>
#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/observe/history.hpp>
#include <headroom/observe/verdict.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/noop.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/history.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::GradientReport;
using headroom::History;
using headroom::HistoryConfig;
using headroom::NonFinite;
using headroom::NonFiniteKind;
using headroom::Verdict;

using namespace support::steps;

TEST_CASE("warming up: fewer than 100 steps") {
  History history;
  CHECK(history.verdict() == Verdict::warming_up);
  skip(history, 17);
  take(history, 82);
  CHECK(history.verdict() == Verdict::warming_up);
  CHECK(history.explanation() ==
        "step 98, warming_up: 17 of the first 99 steps were not finite, which is usual while the loss scale, now 1024, comes "
        "down");
  take(history, 1);
  CHECK(history.verdict() == Verdict::healthy);  // and those 17 are forgotten
  CHECK(history.explanation() == "step 99, healthy: 17 of 100 steps were skipped, and the loss scale is 1024");

  HistoryConfig config;
  config.warm_up = 0;
  CHECK(History(config).verdict() == Verdict::healthy);
}

TEST_CASE("too many skips: more than 5 % of the kept steps after the warm-up, which count as 100 at least") {
  History history = warm();
  skip(history, 5);
  CHECK(history.verdict() == Verdict::healthy);
  take(history, 10);
  skip(history, 1);
  CHECK(history.verdict() == Verdict::too_many_skips);
  take(history, 103);
  CHECK(history.verdict() == Verdict::too_many_skips);  // 6 of 119
  take(history, 1);
  CHECK(history.verdict() == Verdict::healthy);  // 6 of 120
}

TEST_CASE("too many skips are those in the window, with the advice for most of them") {
  HistoryConfig config;
  config.capacity = 200;
  History history = warm(config);
  take(history, 200);
  for (int i = 0; i < 10; ++i) {
    take(history, 9);
    history.record(1024.0F, GradientReport{true, 1.0}, true);  // a finite step is skipped as a spike
  }
  take(history, 9);
  CHECK(history.verdict() == Verdict::healthy);  // 10 of 200
  history.record(1024.0F, overflow, true, nans(1));
  CHECK(history.verdict() == Verdict::too_many_skips);
  CHECK(history.explanation() ==
        "step 409, too_many_skips: 11 of 200 steps with gradients were skipped (1 not finite, 10 spikes): look at their "
        "batches; if those are sound, give the SpikeGuard more sigmas");
  History diverging = history;
  for (int i = 0; i < 9; ++i) diverging.record(1024.0F, overflow, true, nans(1));
  CHECK_THAT(
      diverging.explanation(),
      ContainsSubstring(
          "(10 not finite, 10 spikes): keep the loss scale below 1024, the smallest that overflowed (max_scale), let it grow "
          "less often (growth_interval, where the policy goes by it), or lower the learning rate; at step 418 layers[3].weight "
          "had a NaN at index 17, of 40 "
          "NaN and 1 Inf in all"));
  take(history, 100);
  CHECK(history.verdict() == Verdict::healthy);

  config.skip_tolerance = 0.0;
  History strict = warm(config);
  CHECK(strict.verdict() == Verdict::healthy);
  skip(strict, 1);
  CHECK(strict.verdict() == Verdict::too_many_skips);
  config.skip_tolerance = 1.0;
  History lenient = warm(config);
  skip(lenient, 300);
  CHECK(lenient.verdict() == Verdict::healthy);
}

TEST_CASE("too many skips, most of them of NaN alone: a smaller scale is no cure") {
  const auto advice = [](int infs, int nans_alone, int unknown, std::optional<double> loss = std::nullopt,
                         const HistoryConfig& config = {}) {
    History history(config);
    for (int i = 0; i < 10; ++i) history.record(65536.0F, overflow, true, nans(1));  // of the warm-up
    take(history, 90);
    const auto skipped = [&](const std::optional<NonFinite>& place) {
      if (loss) history.record_loss(*loss);
      history.record(1024.0F, overflow, true, place);
      take(history, 1);
    };
    for (int i = 0; i < nans_alone; ++i) skipped(nans());
    for (int i = 0; i < infs; ++i) skipped(nans(1));
    for (int i = 0; i < unknown; ++i) skipped(std::nullopt);
    REQUIRE(history.verdict() == Verdict::too_many_skips);
    const std::string text = history.explanation(), begin = "0 spikes): ";
    return text.substr(text.find(begin) + begin.size());
  };
  const std::string no_scale = ", which no loss scale mends: ", loss = "see whether the loss is finite, and ",
                    causes =
                        "look at the named tensor and at their batches for 0/0, log 0 or an overflow in the forward pass; ",
                    last = " layers[3].weight had a NaN at index 17, of 40 NaN and 0 Inf in all";
  const std::string nine = "only NaN was counted in 9" + no_scale, at_116 = causes + "at step 116" + last;
  CHECK(advice(0, 9, 0) == nine + loss + at_116);
  CHECK(advice(0, 9, 0, 1.0) == nine + at_116);
  CHECK(advice(0, 9, 8) == nine + loss + at_116);
  CHECK(advice(8, 9, 0) == nine + loss + at_116);
  CHECK(advice(0, 9, 0, 1.0, HistoryConfig::for_dtype<headroom::bfloat16>()) == nine + at_116);
  CHECK_THAT(advice(9, 9, 0), ContainsSubstring("keep the loss scale below"));
  CHECK_THAT(advice(0, 0, 9), ContainsSubstring("keep the loss scale below"));  // nobody has looked
  CHECK_THAT(advice(0, 9, 9), ContainsSubstring("keep the loss scale below"));  // nor often enough
  CHECK_THAT(advice(0, 1, 49), ContainsSubstring("keep the loss scale below"));

  History jump = warm();  // Infs of both signs in every sum, until the scale has come down
  descend(jump, 8, 1024.0F, nans());
  History lasting = jump;
  CHECK_THAT(jump.explanation(), ContainsSubstring("only NaN was counted in 8"));
  descend(jump, 1, 4.0F, nans(1));
  CHECK_THAT(jump.explanation(), ContainsSubstring("keep the loss scale below 4"));
  take(lasting, 1);
  descend(lasting, 1, 4.0F, nans(1));
  CHECK_THAT(lasting.explanation(), ContainsSubstring("only NaN was counted in 8"));

  History apart = warm();
  for (int i = 0; i < 10; ++i) {
    apart.record(1024.0F, overflow, true, NonFinite{"A", 0, NonFiniteKind::nan, 1, 0});
    take(apart, 1);
  }
  for (const std::size_t inf_count : {0U, 0U, 1U}) {  // an overflow, as the last says
    apart.record(1024.0F, overflow, true, NonFinite{"B", 0, NonFiniteKind::nan, 1, inf_count});
  }
  CHECK_THAT(apart.explanation(), ContainsSubstring("only NaN was counted in 10"));
  CHECK_THAT(apart.explanation(), ContainsSubstring("at step 118 A had a NaN"));
  apart.record(1024.0F, overflow, true, NonFinite{"C", 0, NonFiniteKind::nan, 1, 0});
  CHECK_THAT(apart.explanation(), ContainsSubstring("only NaN was counted in 11"));
  CHECK_THAT(apart.explanation(), ContainsSubstring("at step 123 C had a NaN"));
}

TEST_CASE("too many skips: the scale to stay below is the smallest that overflowed, whatever came last") {
  const auto below = [](const History& history) {
    REQUIRE(history.verdict() == Verdict::too_many_skips);
    const std::string text = history.explanation(), begin = "keep the loss scale below ";
    return text.substr(text.find(begin) + begin.size(), 36);
  };
  const std::string is_131072 = "131072, the smallest that overflowed";
  History history;
  skip(history, 1, 64.0F);  // of the warm-up
  take(history, 99, 1.0, 65536.0F);
  skip(history, 6, 131072.0F);
  CHECK(below(history) == is_131072);
  take(history, 1, 1.0, 65536.0F);
  CHECK(below(history) == is_131072);
  for (int i = 0; i < 2; ++i) history.record(262144.0F, overflow, true, nans(1));
  CHECK(below(history) == is_131072);
  history.record(1024.0F, overflow, true, nans());  // of NaN alone, which no scale mends
  CHECK(below(history) == is_131072);
  history.record(16.0F, no_gradients);
  CHECK(below(history) == is_131072);
  history.record(16.0F, GradientReport{true, 1.0}, true);  // a spike
  CHECK(below(history) == is_131072);
  history.record(65536.0F, overflow, true, nans(1));
  CHECK(below(history) == "65536, the smallest that overflowed ");
}

TEST_CASE("too many skips of AmaxLossScale: its scale right after one may be the smallest that overflowed") {
  headroom::AmaxConfig config;
  config.scale.min_scale = 1.0F;
  headroom::AmaxLossScale policy(config);
  History history = warm();
  bool is_second = false, has_advised = false;
  float smallest = headroom::largest_loss_scale;
  for (int i = 0; i < 1000; ++i) {
    const double max_abs = i % 30 < 27 ? 0x1p-10 : 0x1p14;  // three large steps in 30
    const bool finite = max_abs * static_cast<double>(policy.loss_scale()) <= 65504.0;
    if (!finite && policy.loss_scale() < smallest) {
      smallest = policy.loss_scale();
      is_second = !history[history.size() - 1].report.finite;
    }
    const GradientReport report = finite ? GradientReport{true, max_abs} : overflow;
    history.record(policy.loss_scale(), report);
    policy = policy.adjust(report);
    if (history.verdict() == Verdict::too_many_skips) {
      has_advised = true;
      CHECK_THAT(history.explanation(),
                 ContainsSubstring("keep the loss scale below " + headroom::detail::rounded_text(smallest) + ", the smallest"));
    }
  }
  CHECK(is_second);
  CHECK(has_advised);
}

TEST_CASE("steps without gradients are no skips too many, and make no share smaller") {
  History in_turns = warm();
  for (int i = 0; i < 200; ++i) {  // of two networks the other one
    in_turns.record(1024.0F, no_gradients);
    take(in_turns, 1);
  }
  CHECK(in_turns.verdict() == Verdict::healthy);
  skip(in_turns, 10);
  CHECK(in_turns.verdict() == Verdict::healthy);  // 10 of 210
  skip(in_turns, 1);
  CHECK(in_turns.verdict() == Verdict::too_many_skips);
  CHECK_THAT(in_turns.explanation(), ContainsSubstring("11 of 211 steps with gradients were skipped (11 not finite, 0"));
}

TEST_CASE("the usual rhythm of a dynamic scale is healthy") {
  for (const int growth_interval : {20, 100, 1000, 2000}) {
    History history;
    for (int i = 0; i < 5; ++i) {
      take(history, growth_interval, 40.0, 1024.0F);
      CHECK((history.verdict() == Verdict::healthy || history.totals().steps < 100));
      skip(history, 1, 2048.0F);
      CHECK((history.verdict() == Verdict::healthy || history.totals().steps < 100));
    }
  }
}

TEST_CASE("at the floor: two steps that were not finite there, and the scale has not risen since") {
  HistoryConfig config;
  config.capacity = 150;
  config.min_scale = 16.0F;
  History history = warm(config);
  skip(history, 3, 17.0F);
  CHECK(history.verdict() == Verdict::healthy);
  skip(history, 1, 16.0F);
  CHECK(history.verdict() == Verdict::healthy);
  take(history, 1, 1.0, 16.0F);
  CHECK(history.verdict() == Verdict::healthy);
  skip(history, 1, 8.0F);
  CHECK(history.verdict() == Verdict::at_floor);
  CHECK(history.explanation() ==
        "step 105, at_floor: 2 of the kept steps were not finite at a loss scale of 16 or less: the gradients are too large or "
        "NaN; nobody has looked which (a recorded StepResult tells, on the rank that has them): lower the learning rate or "
        "clip the gradients, and see whether the unscaled loss is finite; no tensor has been named");
  take(history, 1, 1.0, 16.0F);
  CHECK(history.verdict() == Verdict::at_floor);
  take(history, 1, 1.0, 32.0F);
  CHECK(history.verdict() == Verdict::healthy);
  take(history, 1, 1.0, 16.0F);
  CHECK(history.verdict() == Verdict::at_floor);
  take(history, 144, 1.0, 16.0F);
  skip(history, 1, 16.0F);
  CHECK(history.verdict() == Verdict::at_floor);  // the second of the two and this one
  take(history, 149, 1.0, 16.0F);
  skip(history, 1, 16.0F);
  CHECK(history.verdict() == Verdict::healthy);  // which is the only one that is kept
}

TEST_CASE("at the floor until 64 steps after the last that was not finite there") {
  const auto after_two = [](int steps, float loss_scale, int without_gradients = 0) {
    History history = warm();
    skip(history, 2, 1.0F);
    for (int i = 0; i < without_gradients; ++i) history.record(1.0F, no_gradients);
    take(history, steps, 1.0, loss_scale);
    take(history, 1, 1.0, 1.0F);
    return history;
  };
  CHECK(after_two(63, 1.0F).verdict() == Verdict::at_floor);
  CHECK(after_two(64, 1.0F).verdict() == Verdict::healthy);
  CHECK(after_two(63, 1024.0F).verdict() == Verdict::at_floor);  // whatever it was in between
  CHECK(after_two(64, 1024.0F).verdict() == Verdict::healthy);
  CHECK(after_two(53, 1.0F, 10).verdict() == Verdict::at_floor);  // every step counts
  CHECK(after_two(54, 1.0F, 10).verdict() == Verdict::healthy);
  History again = after_two(800, 1.0F);
  CHECK(again.verdict() == Verdict::healthy);
  skip(again, 1, 1.0F);
  CHECK(again.verdict() == Verdict::at_floor);
  take(again, 64, 1.0, 1.0F);
  skip(again, 1, 2.0F);  // not there
  take(again, 1, 1.0, 1.0F);
  CHECK(again.verdict() == Verdict::healthy);
}

TEST_CASE("what is advised at the floor is what the record shows") {
  const auto at_floor = [](History history, const NonFinite& first, const NonFinite& second, bool loss_recorded = false) {
    for (const NonFinite& place : {first, second}) {
      if (loss_recorded) history.record_loss(1.0);
      history.record(1.0F, overflow, true, place);
    }
    REQUIRE(history.verdict() == Verdict::at_floor);
    const std::string text = history.explanation(), begin = "at a loss scale of 1 or less: ";
    const auto from = text.find(begin) + begin.size();
    return text.substr(from, text.find("; at step") - from);
  };
  const auto at = [](const char* path, std::size_t nan_count, std::size_t inf_count) {
    return NonFinite{path, 0, nan_count > 0 ? NonFiniteKind::nan : NonFiniteKind::inf, nan_count, inf_count};
  };
  const std::string usual = "lower the learning rate or clip the gradients",
                    loss = ", and see whether the unscaled loss is finite";
  History calm = warm(), rising = warm();
  take(calm, 1, 1.0, 7.0F);

  SECTION("nothing in particular") {
    CHECK(at_floor(calm, at("a", 1, 1), at("b", 0, 1)) == usual + loss);
    CHECK(at_floor(calm, at("a", 1, 1), at("b", 0, 1), true) == usual);
    CHECK(at_floor(calm, at("a", 1, 1), at("a", 0, 1)) == usual + loss);  // the first of many, maybe
    CHECK(at_floor(calm, at("a", 1, 1), at("a", 1, 0)) == usual + loss);
  }
  SECTION("NaN alone is no want of range") {
    const std::string nan_alone = "only NaN was counted there, as from a loss or weights that are not finite: see whether ";
    CHECK(at_floor(calm, at("a", 1, 0), at("b", 7, 0)) == nan_alone + "they are");
    CHECK(at_floor(calm, at("a", 1, 0), at("b", 7, 0), true) ==
          "only NaN was counted there, though the loss is finite: see whether the weights are, and what divides by 0");
    CHECK(at_floor(warm(), at("a", 1, 0), at("b", 7, 0)) == nan_alone + "they are");  // rather than how far the scale fell
  }
  SECTION("Inf alone, and always in one tensor") {
    const std::string narrow = "only Inf was counted there, first in a each time: compute that layer in float or bfloat16";
    CHECK(at_floor(calm, at("a", 0, 1), at("a", 0, 2)) == narrow + loss);
    CHECK(at_floor(calm, at("a", 0, 1), at("a", 0, 2), true) == narrow);
    CHECK(at_floor(calm, at("a", 0, 1), at("b", 0, 2), true) == usual);
    HistoryConfig config = HistoryConfig::for_dtype<headroom::bfloat16>();  // than which float is not wider
    config.min_scale = 1.0F;
    History wide = warm(config);
    take(wide, 1, 1.0, 7.0F);
    CHECK(at_floor(wide, at("a", 0, 1), at("a", 0, 2), true) == usual);
    History only_once = calm;
    skip(only_once, 1, 1.0F);
    only_once.record(1.0F, overflow, true, at("a", 0, 1));
    CHECK_THAT(only_once.explanation(), ContainsSubstring(usual + loss));
    History elsewhere = calm;
    elsewhere.record(64.0F, overflow, true, at("b", 1, 1));  // not at the floor
    CHECK(at_floor(elsewhere, at("a", 0, 1), at("a", 0, 2)) == narrow + loss);
  }
  SECTION("the scale has fallen far since the last finite step") {
    CHECK(at_floor(warm(), at("a", 0, 1), at("a", 0, 1)) ==
          "the gradients have grown more than 1024-fold since the last finite step: " + usual + loss);
    History by_8 = calm;
    take(by_8, 1, 1.0, 8.0F);
    CHECK(at_floor(by_8, at("a", 0, 1), at("b", 0, 1), true) ==
          "the gradients have grown more than 8-fold since the last finite step: " + usual);
    take(by_8, 1, 1.0, 7.99F);
    CHECK(at_floor(by_8, at("a", 0, 1), at("b", 0, 1), true) == usual);
  }
  SECTION("how far the scale has fallen says how far gradients have grown only where only Inf was counted") {
    CHECK(at_floor(warm(), at("a", 0, 1), at("a", 1, 1)) == usual + loss);
    CHECK(at_floor(warm(), at("a", 1, 0), at("a", 1, 1), true) == usual);
    // NaN on the way down comes of Infs of both signs; what counts is the last step
    CHECK(at_floor(warm(), at("a", 1, 1), at("a", 0, 1)) ==
          "the gradients have grown more than 1024-fold since the last finite step: " + usual + loss);
    History since = warm();
    for (int i = 0; i < 2; ++i) since.record(1.0F, overflow, true, at("a", 0, 1));
    const std::string by_1024 = "the gradients have grown more than 1024-fold since the last finite step: ";
    since.record(0.125F, no_gradients);  // which says nothing of them
    CHECK_THAT(since.explanation(), ContainsSubstring("1 or less: " + by_1024));
    take(since, 1);
    since.record(1.0F, no_gradients);
    CHECK_THAT(since.explanation(), !ContainsSubstring("grown"));
    skip(since, 1, 1.0F);  // of which nobody knows
    CHECK_THAT(since.explanation(), ContainsSubstring("1 or less: only Inf was counted there, first in a each time"));
    take(since, 1, 1.0, 1.0F);
    CHECK_THAT(since.explanation(), !ContainsSubstring("grown"));
  }
  SECTION("nobody has looked") {
    const std::string looked = "; nobody has looked which (a recorded StepResult tells, on the rank that has them): ";
    const auto advice = [](History history, bool loss_recorded = false) {
      for (int i = 0; i < 2; ++i) {
        if (loss_recorded) history.record_loss(1.0);
        skip(history, 1, 1.0F);
      }
      const std::string text = history.explanation();
      return text.substr(text.find("or less: ") + 9);
    };
    const std::string grown = "the gradients have grown more than 1024-fold since the last finite step, or are NaN";
    CHECK(advice(warm()) == grown + looked + usual + loss + "; no tensor has been named");
    CHECK(advice(warm(), true) == grown + looked + usual + "; no tensor has been named");
    CHECK(advice(calm) == "the gradients are too large or NaN" + looked + usual + loss + "; no tensor has been named");
    History by_8 = calm;
    take(by_8, 1, 1.0, 8.0F);
    CHECK_THAT(advice(by_8), ContainsSubstring("the gradients have grown more than 8-fold since"));
    History elsewhere = warm();
    elsewhere.record(64.0F, overflow, true, at("b", 0, 1));  // not at the floor
    CHECK_THAT(advice(elsewhere), ContainsSubstring(grown + looked + usual + loss + "; at step 100 b had an Inf"));
    History first;
    CHECK_THAT(advice(first), ContainsSubstring("the gradients are too large or NaN; nobody"));
  }
  SECTION("the largest gradient had grown before") {
    take(rising, 1, 7.9, 1.0F);
    CHECK(at_floor(rising, at("a", 0, 1), at("b", 0, 1), true) == usual);
    take(rising, 1, 9.0, 1.0F);
    CHECK(at_floor(rising, at("a", 0, 1), at("a", 0, 1), true) ==
          "the largest gradient had grown to 9, 3.09557 octaves above the mean of the kept steps: " + usual);
    History since = rising;
    skip(since, 2, 1.0F);
    take(since, 1, 1.0, 1.0F);
    CHECK_THAT(since.explanation(), !ContainsSubstring("octaves"));
    skip(rising, 2, 1.0F);  // of which nobody knows more than that
    CHECK_THAT(rising.explanation(), ContainsSubstring("1 or less: the largest gradient had grown to 9, 3.09557 octaves"));
  }
}

TEST_CASE("at the floor even while warming up") {
  History history;
  descend(history, 17, 65536.0F);
  CHECK(history.verdict() == Verdict::warming_up);
  skip(history, 1, 1.0F);
  CHECK(history.verdict() == Verdict::at_floor);
}

TEST_CASE("a loss that is recorded and not finite is named at once, and only for its step") {
  for (const double loss : {infinity, -infinity, quiet_nan}) {
    History history = warm();
    history.record_loss(loss);
    CHECK(history.verdict() == Verdict::healthy);  // it is that of the next step
    take(history, 1);
    CHECK(history.verdict() == Verdict::loss_is_not_finite);
    CHECK_THAT(history.explanation(), ContainsSubstring("step 100, loss_is_not_finite: the loss is Inf or NaN"));
    take(history, 1);
    CHECK(history.verdict() == Verdict::healthy);
    history.record_loss(1.0);
    take(history, 1);
    CHECK(history.verdict() == Verdict::healthy);
    history.record_loss(loss);  // one of several
    history.record_loss(1.0);
    take(history, 1);
    CHECK(history.verdict() == Verdict::loss_is_not_finite);
  }
  History history = warm();
  history.record_loss(headroom::detail::bit_cast<float>(std::uint32_t{0x7FC00000}));
  take(history, 1);
  CHECK(history.verdict() == Verdict::loss_is_not_finite);
}

TEST_CASE("gradients that jump are no loss that is not finite, whatever was counted while the scale came down") {
  const NonFinite kinds[] = {{"w", 0, NonFiniteKind::inf, 0, 1}, nans(1), nans()};
  for (const int octaves : {1, 10, 13, 15, 16, 24, 38}) {
    for (const NonFinite& kind : kinds) {
      CAPTURE(octaves, kind.nan_count, kind.inf_count);
      headroom::DynamicLossScale policy;
      History history;
      bool is_blamed = false;
      double max_abs = 0.75;
      for (int step = 0; step < 300; ++step) {
        if (step == 150) max_abs = std::ldexp(max_abs, octaves);
        const float loss_scale = policy.loss_scale();
        const bool finite = max_abs * static_cast<double>(loss_scale) < 65520.0;
        if (finite) {
          history.record(loss_scale, GradientReport{true, max_abs});
        } else {
          history.record(loss_scale, overflow, true, kind);
        }
        policy = policy.adjust(finite);
        is_blamed = is_blamed || history.verdict() == Verdict::loss_is_not_finite;
      }
      // At the floor, where no step will be taken any more, NaN alone looks the same.
      CHECK(is_blamed == (octaves > 16 && kind.inf_count == 0));
    }
  }
}

TEST_CASE("no scale helps: it has fallen by the range of fp16 since the last finite step, in 8 steps or more") {
  HistoryConfig config;
  config.min_scale = headroom::smallest_loss_scale;
  History history = warm(config);
  take(history, 1, 1.0, 65536.0F);
  descend(history, 40, 65536.0F);
  CHECK(history.verdict() == Verdict::too_many_skips);  // at 2^-39 of it a gradient 2^39.99 times larger would overflow
  skip(history, 1, 0x1p-24F);
  CHECK(history.verdict() == Verdict::loss_is_not_finite);
  CHECK_THAT(history.explanation(),
             ContainsSubstring(
                 "step 141, loss_is_not_finite: the last 41 steps were not finite, down to a loss scale of 5.96046e-08"));
  take(history, 1, 1.0, 64.0F);
  CHECK(history.verdict() == Verdict::too_many_skips);

  SECTION("a rule that divides by 64 gets there sooner") {
    History steep = warm(config);
    take(steep, 1, 1.0, 0x1p40F);
    skip(steep, 7, 1.0F);
    CHECK(steep.verdict() == Verdict::too_many_skips);
    skip(steep, 1, 1.0F);
    CHECK(steep.verdict() == Verdict::loss_is_not_finite);
  }
  SECTION("not from the first step on, when nobody knows which scale is right") {
    History first(config);
    descend(first, 90, 0x1p32F);
    CHECK(first.verdict() == Verdict::warming_up);
  }
  SECTION("not if the loss is recorded and finite") {
    History recorded = warm();
    for (int i = 0; i < 60; ++i) {
      recorded.record_loss(1.0);
      recorded.record(std::ldexp(1.0F, 10 - i), overflow);
    }
    CHECK(recorded.verdict() == Verdict::at_floor);
    CHECK_THAT(recorded.explanation(), !ContainsSubstring("see whether the loss"));
  }
  SECTION("a step without gradients changes nothing") {
    History with_gap = warm(config);
    descend(with_gap, 26, 1024.0F);
    with_gap.record(0x1p-16F, no_gradients);
    descend(with_gap, 15, 0x1p-16F);
    CHECK(with_gap.verdict() == Verdict::loss_is_not_finite);
  }
}

TEST_CASE("no scale helps beyond the range of another dtype") {
  static_assert(HistoryConfig().dynamic_range == headroom::dynamic_range_v<headroom::half>);
  static_assert(headroom::dynamic_range_v<headroom::half> == 65504.0 * 0x1p24);
  static_assert(headroom::dynamic_range_v<headroom::float8_e5m2> == 57344.0 * 0x1p16);
  static_assert(headroom::dynamic_range_v<headroom::float8_e4m3> == 448.0 * 0x1p9);
  static_assert(headroom::dynamic_range_v<headroom::bfloat16> > 0x1p260);
  CHECK(headroom::dynamic_range_v<double> == headroom::detail::largest_double);  // the ratio is beyond double
  const auto after_fall = [](HistoryConfig config, int octaves) {
    config.min_scale = headroom::smallest_loss_scale;
    History history = warm(config);
    take(history, 1, 1.0, headroom::largest_loss_scale);
    descend(history, octaves + 1, headroom::largest_loss_scale);
    return history.verdict();
  };
  HistoryConfig exact;
  exact.dynamic_range = 1024.0;
  CHECK(after_fall(exact, 9) == Verdict::too_many_skips);
  CHECK(after_fall(exact, 10) == Verdict::loss_is_not_finite);
  const auto e4m3 = HistoryConfig::for_dtype<headroom::float8_e4m3>(), e5m2 = HistoryConfig::for_dtype<headroom::float8_e5m2>();
  CHECK(after_fall(e4m3, 17) == Verdict::too_many_skips);
  CHECK(after_fall(e4m3, 18) == Verdict::loss_is_not_finite);
  CHECK(after_fall(e5m2, 31) == Verdict::too_many_skips);
  CHECK(after_fall(e5m2, 32) == Verdict::loss_is_not_finite);
  CHECK(after_fall(HistoryConfig::for_dtype<headroom::bfloat16>(), 251) == Verdict::too_many_skips);
}

TEST_CASE("no scale helps: 8 steps of NaN and no Inf, at the floor") {
  const auto verdict_after = [](int steps_of_nan, std::size_t inf_count, float loss_scale) {
    History history;
    take(history, 1, 1.0, 4.0F);  // too near for the other rule
    for (int i = 0; i < 2; ++i) history.record(4.0F, overflow, true, nans(1));
    for (int i = 0; i < steps_of_nan; ++i) history.record(loss_scale, overflow, true, nans());
    if (inf_count > 0) history.record(loss_scale, overflow, true, nans(inf_count));
    return history.verdict();
  };
  CHECK(verdict_after(8, 0, 1.0F) == Verdict::loss_is_not_finite);
  CHECK(verdict_after(7, 0, 1.0F) == Verdict::at_floor);
  CHECK(verdict_after(8, 1, 1.0F) == Verdict::at_floor);
  CHECK(verdict_after(8, 0, 2.0F) == Verdict::warming_up);
  History from_the_first;
  for (int i = 0; i < 7; ++i) from_the_first.record(1.0F, overflow, true, nans());
  CHECK(from_the_first.verdict() == Verdict::at_floor);
  from_the_first.record(1.0F, overflow, true, nans());
  CHECK(from_the_first.verdict() == Verdict::loss_is_not_finite);
  CHECK_THAT(from_the_first.explanation(), ContainsSubstring("the last 8 steps were not finite"));
  History unknown;
  skip(unknown, 50, 1.0F);
  CHECK(unknown.verdict() == Verdict::at_floor);  // where nobody has looked
}

TEST_CASE("underflowing: in more than half of 64 steps or more the largest gradient times the scale is below 2^-8") {
  HistoryConfig config;
  config.warm_up = 0;
  const auto verdict_of = [&](int steps, double max_abs, float loss_scale, int others) {
    History history(config);
    take(history, steps, max_abs, loss_scale);
    take(history, others);
    return history.verdict();
  };
  const double below = std::nextafter(0x1p-18, 0.0);
  CHECK(verdict_of(64, below, 1024.0F, 0) == Verdict::underflowing);
  CHECK(verdict_of(63, below, 1024.0F, 0) == Verdict::healthy);
  CHECK(verdict_of(64, 0x1p-18, 1024.0F, 0) == Verdict::healthy);
  CHECK(verdict_of(64, 0x1p-18, 1023.0F, 0) == Verdict::underflowing);
  CHECK(verdict_of(33, below, 1024.0F, 31) == Verdict::underflowing);
  CHECK(verdict_of(32, below, 1024.0F, 32) == Verdict::healthy);
  CHECK(verdict_of(64, 0.0, 1024.0F, 0) == Verdict::underflowing);  // all of them
  CHECK(verdict_of(64, -0.0, 1024.0F, 0) == Verdict::underflowing);
  CHECK(verdict_of(64, quiet_nan, 1024.0F, 0) == Verdict::healthy);  // not known
  CHECK(verdict_of(64, -1e-9, 1024.0F, 0) == Verdict::healthy);
  CHECK(verdict_of(64, 1e300, headroom::largest_loss_scale, 0) == Verdict::healthy);

  config.lowest_peak = headroom::lowest_peak_v<headroom::float8_e5m2>;
  CHECK(verdict_of(64, 0x1p-10, 1024.0F, 0) == Verdict::healthy);
  CHECK(verdict_of(64, 0x1p-11, 1024.0F, 0) == Verdict::underflowing);
}

TEST_CASE("underflowing is explained by figures with six digits") {
  HistoryConfig config;
  config.warm_up = 0;
  History history(config);
  take(history, 30, 1.0);
  take(history, 70, 1.23456789e-9);
  CHECK(
      history.explanation() ==
      "step 99, underflowing: in 70 of 100 steps the largest gradient, now 1.23457e-09, times the loss scale was below "
      "0.00390625, where the others may become zero: let the loss scale, now 1024, start higher (initial_scale) or grow sooner "
      "(growth_interval)");
  skip(history, 1);
  CHECK_THAT(history.explanation(), ContainsSubstring("the largest gradient, now not finite, times"));
}

TEST_CASE("the lowest peak is 2^16 times the smallest number of the format") {
  CHECK(headroom::lowest_peak_v<headroom::half> == HistoryConfig().lowest_peak);
  CHECK(headroom::lowest_peak_v<headroom::bfloat16> == 0x1p-117);
  CHECK(headroom::lowest_peak_v<headroom::float8_e5m2> == 1.0);
  CHECK(headroom::lowest_peak_v<headroom::float8_e4m3> == 1.0);  // from 2^-9 to 2^8
  struct e3m4 : headroom::ieee_format<std::uint8_t, 3, 4> {};
  CHECK(headroom::lowest_peak_v<headroom::storage_float<e3m4>> == 0.5);  // from 2^-6 to 2^3
  CHECK(headroom::lowest_peak_v<float> == 0x1p-133);
  HistoryConfig config;
  config.lowest_peak = headroom::lowest_peak_v<float>;
  CHECK(warm(config).verdict() == Verdict::healthy);
}

TEST_CASE("a dtype as wide as loss scales are needs none") {
  CHECK(headroom::detail::is_as_wide_as_float(0x1p252));
  CHECK_FALSE(headroom::detail::is_as_wide_as_float(0x1.fffffffffffffp251));
}

TEST_CASE("without a loss scale, in bfloat16: the settings say which dtype it is") {
  constexpr auto config = HistoryConfig::for_dtype<headroom::bfloat16>();
  static_assert(config.lowest_peak == headroom::lowest_peak_v<headroom::bfloat16> && config.capacity == 1024);
  History history(config), defaults(HistoryConfig::for_dtype<headroom::half>());
  take(history, 200, 1e-3, headroom::NoOpLossScale().loss_scale());
  take(defaults, 200, 1e-3, headroom::NoOpLossScale().loss_scale());
  CHECK(history.verdict() == Verdict::healthy);
  CHECK(defaults.verdict() == Verdict::underflowing);
}

TEST_CASE("for_dtype: no floor where no loss scale is needed, as with 8 bits of exponent or more") {
  for (const auto& config : {HistoryConfig::for_dtype<headroom::bfloat16>(), HistoryConfig::for_dtype<float>(),
                             HistoryConfig::for_dtype<double>()}) {
    CHECK(config.min_scale == headroom::smallest_loss_scale);
  }
  for (const auto& config : {HistoryConfig(), HistoryConfig::for_dtype<headroom::half>(),
                             HistoryConfig::for_dtype<headroom::float8_e5m2>(), HistoryConfig::for_dtype<headroom::cbfloat16>(),
                             HistoryConfig::for_dtype<headroom::storage_float<headroom::ieee_format<std::uint16_t, 7, 8>>>()}) {
    CHECK(config.min_scale == 1.0F);
  }
}

TEST_CASE("without a loss scale, in bfloat16: a step that is not finite says nothing of a scale") {
  const auto config = HistoryConfig::for_dtype<headroom::bfloat16>();
  History history(config);
  for (int step = 0; step < 1100; ++step) {
    if (step == 150 || step == 160) {
      skip(history, 1, 1.0F);
    } else {
      take(history, 1, 1e-3, 1.0F);
    }
    CHECK(history.verdict() == (step < 99 ? Verdict::warming_up : Verdict::healthy));
  }
  skip(history, 50, 1.0F);
  CHECK(history.verdict() == Verdict::too_many_skips);
  CHECK(history.explanation() ==
        "step 1149, too_many_skips: 52 of 1024 steps with gradients were skipped (52 not finite, 0 spikes): their dtype needs "
        "no loss scale: see whether the loss is finite, and lower the learning rate or clip the gradients; no tensor has been "
        "named");

  history.record_loss(1.0);
  skip(history, 1, 1.0F);
  CHECK_THAT(history.explanation(), ContainsSubstring("no loss scale: lower the learning rate or clip the gradients; no"));

  History from_the_first(config), calm(config);
  take(calm, 2, 1.0, 1.0F);
  CHECK(calm.explanation() == "step 1, warming_up: 0 of the first 2 steps were not finite");
  for (int i = 0; i < 7; ++i) from_the_first.record(1.0F, overflow, true, nans());
  CHECK(from_the_first.verdict() == Verdict::warming_up);
  CHECK(from_the_first.explanation() ==
        "step 6, warming_up: 7 of the first 7 steps were not finite; at step 6 layers[3].weight had a NaN at index 17, of 40 "
        "NaN and 0 Inf in all");
  History too_large = from_the_first;
  from_the_first.record(1.0F, overflow, true, nans());
  CHECK(from_the_first.verdict() == Verdict::loss_is_not_finite);  // at any scale
  too_large.record(1.0F, overflow, true, nans(1));
  CHECK(too_large.verdict() == Verdict::warming_up);
}

TEST_CASE("underflowing by the share that was counted, if one was") {
  History history = warm();
  history.set_underflow_share(0.0501);
  CHECK(history.verdict() == Verdict::underflowing);
  CHECK(history.explanation() ==
        "step 99, underflowing: 5.01 % of the gradients become zero in their format: let the loss scale, now 1024, start "
        "higher (initial_scale) or grow sooner (growth_interval)");
  history.set_underflow_share(0.05);
  CHECK(history.verdict() == Verdict::healthy);
  take(history, 1000, 1e-9);
  CHECK(history.verdict() == Verdict::healthy);
  history.set_underflow_share(-0.0);
  CHECK(history.verdict() == Verdict::healthy);
  for (const double share : {-0.1, 1.1, quiet_nan, infinity}) {
    CHECK_THAT(support::message_of([&] { history.set_underflow_share(share); }), ContainsSubstring("share is "));
  }
}

TEST_CASE("spike: skipped as one, or further above the mean than six deviations of 64 other steps, of half an octave or more") {
  HistoryConfig config;
  config.warm_up = 0;
  const auto after = [&](int others, double max_abs) {
    History history(config);
    take(history, others);
    take(history, 1, max_abs);
    return history;
  };
  CHECK(after(64, 8.0).verdict() == Verdict::healthy);
  CHECK(after(64, 8.0 + 1.0 / 32).verdict() == Verdict::spike);
  CHECK(after(63, 8.0 + 1.0 / 32).verdict() == Verdict::healthy);
  CHECK(after(64, 1.0 / 16).verdict() == Verdict::healthy);
  CHECK(after(64, 1024.0).explanation() ==
        "step 64, spike: the largest gradient is 1024, 10 octaves above the mean of the kept steps: look at this batch; a "
        "SpikeGuard skips such steps");

  const auto after_wide = [&](double max_abs) {  // others with a standard deviation of two octaves
    History history(config);
    for (int i = 0; i < 50; ++i) {
      take(history, 1, 0.25);
      take(history, 1, 4.0);
    }
    take(history, 1, max_abs);
    return history;
  };
  CHECK(after_wide(4096.0).verdict() == Verdict::healthy);
  History wide = after_wide(4096.0 * 1.01);
  CHECK(wide.verdict() == Verdict::spike);
  take(wide, 1);
  CHECK(wide.verdict() == Verdict::healthy);

  History skipped(config);
  take(skipped, 99);
  skipped.record(1024.0F, GradientReport{true, 1.5}, true);
  CHECK(skipped.verdict() == Verdict::spike);
  CHECK(skipped.explanation() == "step 99, spike: the step was skipped as a spike: the largest gradient is 1.5");
  skipped.record(1024.0F, GradientReport{true, 1024.0}, true);
  CHECK(skipped.explanation() ==
        "step 100, spike: the step was skipped as a spike: the largest gradient is 1024, 9.995 octaves above the mean of the "
        "kept steps: look at this batch");
  skipped.record(1024.0F, GradientReport{true, quiet_nan}, true);
  CHECK_THAT(skipped.explanation(), ContainsSubstring("the largest gradient is NaN"));
  skipped.record(1024.0F, GradientReport{true, infinity}, true);
  CHECK_THAT(skipped.explanation(), ContainsSubstring("the largest gradient is Inf"));

  config.spike_sigmas = 1.0;
  CHECK(after(64, 1.5).verdict() == Verdict::healthy);
  CHECK_THAT(after(64, 1.625).explanation(), ContainsSubstring("the largest gradient is 1.625, 0.625 octaves above"));
}

TEST_CASE("a spike is one wherever the mean lies") {
  HistoryConfig config;
  config.warm_up = 0;
  config.lowest_peak = 0x1p-50;
  for (const double mean : {0x1p-40, 0x1p-5, 1.0, 0x1p7}) {
    History history(config);
    for (int i = 0; i < 50; ++i) {  // with a standard deviation of two octaves
      take(history, 1, mean / 4);
      take(history, 1, mean * 4);
    }
    History high = history;
    take(history, 1, mean * 4096.0);
    CHECK(history.verdict() == Verdict::healthy);
    take(high, 1, mean * 4096.0 * 1.01);
    CHECK(high.verdict() == Verdict::spike);
  }
}

TEST_CASE("in a small window half of it is enough to conclude from") {
  HistoryConfig config;
  config.capacity = 40;
  config.warm_up = 0;
  History low(config), jumping(config);
  take(low, 19, 1e-9);
  CHECK(low.verdict() == Verdict::healthy);
  take(low, 1, 1e-9);
  CHECK(low.verdict() == Verdict::underflowing);
  take(jumping, 19);
  History sooner = jumping;
  take(sooner, 1, 9.0);
  CHECK(sooner.verdict() == Verdict::healthy);
  take(jumping, 1);
  take(jumping, 1, 9.0);
  CHECK(jumping.verdict() == Verdict::spike);
}

TEST_CASE("of several verdicts the first in the list is given") {
  const std::vector<std::pair<Verdict, std::function<void(History&)>>> causes = {
      {Verdict::spike, [](History& history) { take(history, 1, 1e6, 0x1p-30F); }},
      {Verdict::underflowing, [](History& history) { history.set_underflow_share(1.0); }},
      {Verdict::too_many_skips,
       [](History& history) {
         skip(history, 50);
         take(history, 1, 1e6, 0x1p-30F);
       }},
      {Verdict::at_floor, [](History& history) { skip(history, 7, 0x1p-40F); }},
      {Verdict::loss_is_not_finite, [](History& history) { skip(history, 1, 0x1p-70F); }},
  };
  HistoryConfig config;
  config.min_scale = 0x1p-35F;
  History history = warm(config);
  CHECK(history.verdict() == Verdict::healthy);
  for (const auto& [verdict, cause] : causes) {
    cause(history);
    CHECK(history.verdict() == verdict);
  }
}

TEST_CASE("verdicts have the names of their enumerators") {
  CHECK(std::string(to_string(Verdict::loss_is_not_finite)) == "loss_is_not_finite");
  CHECK(std::string(to_string(Verdict::at_floor)) == "at_floor");
  CHECK(std::string(to_string(Verdict::warming_up)) == "warming_up");
  CHECK(std::string(to_string(Verdict::too_many_skips)) == "too_many_skips");
  CHECK(std::string(to_string(Verdict::underflowing)) == "underflowing");
  CHECK(std::string(to_string(Verdict::spike)) == "spike");
  CHECK(std::string(to_string(Verdict::healthy)) == "healthy");
  CHECK(std::string(to_string(static_cast<Verdict>(7))) == "unknown");
  CHECK(std::string(to_string(static_cast<Verdict>(-1))) == "unknown");
}

TEST_CASE(
    "whatever the settings, every verdict can be given, and a long warm-up in a small window asks for no more than that") {
  for (const std::size_t capacity : {std::size_t{2}, std::size_t{3}, std::size_t{16}, std::size_t{65}, std::size_t{200}}) {
    for (const std::int64_t warm_up : {0, 1, 15, 16, 17, 200, 5000}) {
      for (const double skip_tolerance : {0.0, 0.05, 0.5, 0.99}) {
        CAPTURE(capacity, warm_up, skip_tolerance);
        HistoryConfig config;
        config.capacity = capacity;
        config.warm_up = warm_up;
        config.skip_tolerance = skip_tolerance;
        const auto window = static_cast<int>(capacity);
        History calm(config);
        take(calm, static_cast<int>(warm_up) + window);
        CHECK(calm.verdict() == Verdict::healthy);
        History skipping = calm, in_turns = calm, low = calm, jumping = calm;
        const int tolerated = std::max(static_cast<int>(skip_tolerance * window), skip_tolerance > 0.0 ? 1 : 0);
        skip(skipping, tolerated);
        CHECK(skipping.verdict() == Verdict::healthy);
        skip(skipping, 1);
        CHECK(skipping.verdict() == Verdict::too_many_skips);
        for (int i = 0; i < window; ++i) {  // of two networks the other one
          in_turns.record(1024.0F, no_gradients);
          skip(in_turns, 1);
        }
        CHECK((in_turns.verdict() == Verdict::too_many_skips) == (capacity > 2 || skip_tolerance == 0.0));
        take(low, window, 1e-9);
        CHECK(low.verdict() == Verdict::underflowing);
        take(jumping, 1, 9.0);
        CHECK(jumping.verdict() == Verdict::spike);
        skip(jumping, 2, 1.0F);
        CHECK(jumping.verdict() == Verdict::at_floor);
      }
    }
  }
}

TEST_CASE("after the warm-up the steps to come count as taken, until there are as many as it had or the window holds") {
  HistoryConfig config;
  config.capacity = 40;
  config.warm_up = 1000;
  config.skip_tolerance = 0.1;
  History history(config);
  skip(history, 1000);
  skip(history, 4);
  CHECK(history.verdict() == Verdict::healthy);  // 4 of 40
  skip(history, 1);
  CHECK(history.verdict() == Verdict::too_many_skips);
  config.warm_up = 20;
  History soon(config);
  skip(soon, 20);
  soon.record(1024.0F, no_gradients);
  soon.record(1024.0F, no_gradients);
  skip(soon, 1);
  CHECK(soon.verdict() == Verdict::healthy);  // 1 of 18 that may have gradients
  skip(soon, 1);
  CHECK(soon.verdict() == Verdict::too_many_skips);  // 2 of 18
}

TEST_CASE("settings out of range are refused by name") {
  const auto message = [](const std::function<void(HistoryConfig&)>& change) {
    HistoryConfig config;
    change(config);
    return support::message_of([&] { History{config}; });
  };
  CHECK(message([](HistoryConfig&) {}).empty());
  CHECK_THAT(message([](HistoryConfig& c) { c.capacity = 0; }), ContainsSubstring("capacity is 0; it must be in [2, 2^24]"));
  CHECK_THAT(message([](HistoryConfig& c) { c.capacity = 1; }), ContainsSubstring("capacity is 1"));
  CHECK_THAT(support::message_of([] { History(1); }), ContainsSubstring("capacity is 1"));
  CHECK_THAT(message([](HistoryConfig& c) { c.capacity = (1U << 24U) + 1; }), ContainsSubstring("capacity is 16777217"));
  CHECK_THAT(message([](HistoryConfig& c) { c.min_scale = 0.0F; }), ContainsSubstring("min_scale is 0"));
  CHECK_THAT(message([](HistoryConfig& c) { c.warm_up = -1; }), ContainsSubstring("warm_up is -1"));
  CHECK_THAT(message([](HistoryConfig& c) { c.warm_up = (std::int64_t{1} << 62) + 1; }),
             ContainsSubstring("warm_up is 4611686018427387905; it must be in [0, 2^62]"));
  CHECK_THAT(message([](HistoryConfig& c) { c.skip_tolerance = 1.5; }), ContainsSubstring("skip_tolerance is 1.5"));
  CHECK_THAT(message([](HistoryConfig& c) { c.skip_tolerance = quiet_nan; }), ContainsSubstring("skip_tolerance is nan"));
  CHECK_THAT(message([](HistoryConfig& c) { c.lowest_peak = 0.0; }), ContainsSubstring("lowest_peak is 0"));
  CHECK_THAT(message([](HistoryConfig& c) { c.lowest_peak = infinity; }), ContainsSubstring("lowest_peak is inf"));
  CHECK_THAT(message([](HistoryConfig& c) { c.dynamic_range = 0.5; }), ContainsSubstring("dynamic_range is 0.5"));
  CHECK_THAT(message([](HistoryConfig& c) { c.dynamic_range = infinity; }), ContainsSubstring("dynamic_range is inf"));
  CHECK_THAT(message([](HistoryConfig& c) { c.underflow_tolerance = -0.5; }), ContainsSubstring("underflow_tolerance is -0.5"));
  CHECK_THAT(message([](HistoryConfig& c) { c.spike_sigmas = -6.0; }), ContainsSubstring("spike_sigmas is -6"));
  CHECK(message([](HistoryConfig& c) {
          c.skip_tolerance = 0.0;
          c.underflow_tolerance = 1.0;
          c.warm_up = 0;
          c.capacity = 2;
        }).empty());
}
