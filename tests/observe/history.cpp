#include <headroom/observe/history.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <headroom/headroom.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;

namespace {

const double infinity = headroom::detail::bit_cast<double>(headroom::binary64::infinity_bits);
const double quiet_nan = headroom::detail::bit_cast<double>(headroom::binary64::quiet_nan_bits);
const GradientReport overflow{false, infinity};
const headroom::StepResult<void> no_gradients{true, {}, SkipReason::no_gradients, {}, 1024.0F};

/// Record steps, and return the verdict after them.
Verdict take(History& history, int steps, double max_abs = 1.0, float loss_scale = 1024.0F) {
  for (int i = 0; i < steps; ++i) history.record(loss_scale, GradientReport{true, max_abs});
  return history.verdict();
}
Verdict skip(History& history, int steps, float loss_scale = 1024.0F, std::size_t nans = 0,
             std::size_t infs = 0) {
  const NonFinite place{"layers[3].weight", 17, nans > 0 ? NonFiniteKind::nan : NonFiniteKind::inf,
                        nans, infs};
  const auto found = nans + infs > 0 ? std::optional<NonFinite>(place) : std::nullopt;
  for (int i = 0; i < steps; ++i) history.record(loss_scale, overflow, found);
  return history.verdict();
}
/// A history after its warm-up.
History warm(HistoryConfig config = {}) {
  History history(config);
  take(history, 100);
  return history;
}

}  // namespace

TEST_CASE("a history keeps the last steps, oldest first and numbered, and totals of all steps") {
  History history(3);
  CHECK(history.size() == 0);
  for (int i = 0; i < 8; ++i) {
    history.record(std::ldexp(1.0F, i), GradientReport{i % 3 != 0, i % 3 == 0 ? infinity : 0.5});
    const auto kept = static_cast<std::size_t>(i < 3 ? i + 1 : 3);
    REQUIRE(history.size() == kept);
    for (std::size_t k = 0; k < kept; ++k) {
      const int step = i - static_cast<int>(kept - 1 - k);
      CHECK((history[k].step == step && history[k].loss_scale == std::ldexp(1.0F, step)));
      CHECK(
          (history[k].skipped() == (step % 3 == 0) && history[k].report.finite == (step % 3 != 0)));
    }
  }
  history.record(no_gradients);
  skip(history, 2);
  const headroom::HistoryTotals& totals = history.totals();
  CHECK((totals.steps == 11 && totals.skipped == 6 && totals.not_finite == 5 &&
         totals.skipped_in_a_row == 3));
  take(history, 1);
  CHECK((totals.skipped_in_a_row == 0 && totals.most_skipped_in_a_row == 3));
  CHECK(History(1).size() == 0);
  CHECK(history.config().capacity == 3);
}

TEST_CASE("a history records the steps of a GradScaler, an AsyncGradScaler and a policy") {
  support::Owner optimizer{std::vector<support::Weights>{{1.0F}, {2.0F, 3.0F}}};
  headroom::GradScaler<> scaler(1024.0);
  headroom::AsyncGradScaler<> async(headroom::presets::torch(1024.0));
  History history, later;
  for (const float gradient : {4.0F, -std::numeric_limits<float>::infinity(), 4.0F}) {
    optimizer.grads[1][1] = gradient;
    (void)scaler.scale(1.0F);
    history.record(scaler.step(optimizer));
    scaler.update();
    optimizer.grads = {{1.0F}, {2.0F, gradient}};
    (void)async.scale(1.0F);
    auto result = async.submit(optimizer);
    async.update();
    async.synchronize();
    later.record(result.get());
  }
  CHECK(history.totals().not_finite == 1);
  CHECK((history[0].report.max_abs == 4.0 / 1024.0 && history[2].loss_scale == 512.0F));
  CHECK((history[1].nonfinite.path == "[1]" && history[1].nonfinite.index == 1 &&
         history[1].reason == SkipReason::not_finite));
  CHECK(later.csv() == history.csv());

  headroom::DynamicLossScale policy;
  const auto grads =
      std::vector<float>{1.0F, headroom::detail::bit_cast<float>(std::uint32_t{0x7F800000})};
  History alone;
  alone.record(policy.loss_scale(), policy.unscale<float>(grads).report,
               headroom::find_nonfinite(grads));
  CHECK((alone[0].nonfinite.index == 1 && alone[0].reason == SkipReason::not_finite));
}

TEST_CASE("values out of range are refused, and nothing is recorded") {
  History history(2);
  for (const float scale :
       {0.0F, -1.0F, headroom::largest_loss_scale * 2, static_cast<float>(quiet_nan)}) {
    CHECK_INVALID("loss_scale is ", history.record(scale, overflow));
  }
  CHECK(history.totals().steps == 0);
  const auto message = [](auto change) {
    HistoryConfig config;
    change(config);
    return support::message_of([&] { (void)History(config); });
  };
  CHECK(message([](HistoryConfig&) {}).empty());
  CHECK(message([](HistoryConfig& c) { c.capacity = 0; }) ==
        "headroom: capacity is 0; it must be in [1, 2^24]");
  CHECK_THAT(message([](HistoryConfig& c) { c.min_scale = 0.0F; }),
             ContainsSubstring("min_scale is 0"));
  CHECK_THAT(message([](HistoryConfig& c) { c.warm_up = -1; }), ContainsSubstring("warm_up is -1"));
  CHECK_THAT(message([](HistoryConfig& c) { c.skip_tolerance = 1.5; }),
             ContainsSubstring("skip_tolerance is 1.5"));
  CHECK(message([](HistoryConfig& c) { c.skip_tolerance = 0.0; }).empty());
  CHECK_THAT(message([](HistoryConfig& c) { c.lowest_max_abs = 0.0; }),
             ContainsSubstring("lowest_max_abs is 0"));
}

TEST_CASE("the CSV has every kept step, quoted as in RFC 4180") {
  History history(5);
  take(history, 1);  // overwritten
  history.record_loss(2.5);
  history.record(32768.0F, GradientReport{true, 0.1});
  history.record(0.75F, overflow, NonFinite{"heads[\"a,b\"]", 17, NonFiniteKind::nan, 3, 4});
  history.record_loss(1.0);
  history.record_loss(quiet_nan);
  history.record(0.0625F, GradientReport{true, 0.0});
  history.record(no_gradients);
  history.record(1.0F, overflow, NonFinite{"layers[1].bias", 0, NonFiniteKind::inf, 0, 1});
  CHECK(history.csv() ==
        "step,loss_scale,finite,max_abs,skipped,reason,loss_finite,path,index,is_nan,nan_count,inf_"
        "count\n"
        "1,32768,1,0.1,0,none,1,,,,,\n"
        "2,0.75,0,,1,not_finite,,\"heads[\"\"a,b\"\"]\",17,1,3,4\n"
        "3,0.0625,1,0,0,none,0,,,,,\n"
        "4,1024,1,0,1,no_gradients,,,,,,\n"
        "5,1,0,,1,not_finite,,layers[1].bias,0,0,0,1\n");
  for (const char separator : {',', '"', '\r', '\n'}) {
    History one;
    const std::string path = std::string("a") + separator + "b";
    one.record(1.0F, overflow, NonFinite{path, 0, NonFiniteKind::inf, 0, 1});
    CHECK_THAT(one.csv(),
               ContainsSubstring(separator == '"' ? ",\"a\"\"b\",0," : ",\"" + path + "\",0,"));
  }
}

TEST_CASE("the callback is called when the verdict changes, may throw, and may set another") {
  HistoryConfig config;
  config.warm_up = 3;
  History history(config);
  std::vector<std::string> log;
  history.set_on_verdict([&log](const History& h) { log.push_back(to_string(h.verdict())); });
  take(history, 5, 1.0, 8.0F), skip(history, 6, 2.0F), skip(history, 2, 1.0F);
  CHECK(log == std::vector<std::string>{"healthy", "too_many_skips", "at_floor"});
  history.set_on_verdict([](const History& h) { throw std::runtime_error(h.explanation()); });
  CHECK_THROWS_WITH(take(history, 1, 1.0, 8.0F), ContainsSubstring("step 13, too_many_skips"));
  CHECK(history.totals().steps == 14);
  take(history, 1, 1.0, 8.0F);  // the callback was called for this verdict before it threw
  int calls = 0;
  history.set_on_verdict(
      [&](const History&) { history.set_on_verdict([&calls](const History&) { ++calls; }); });
  skip(history, 2, 1.0F);
  take(history, 1, 1.0, 8.0F);
  CHECK(calls == 1);
  calls = 0;
  History late = warm();
  late.set_on_verdict([&calls](const History&) { ++calls; });
  take(late, 1);
  CHECK(calls == 0);  // the verdict was healthy before
  skip(late, 6);
  CHECK(calls == 1);
}

TEST_CASE("the verdicts warming_up and healthy") {
  History history;
  CHECK(history.verdict() == Verdict::warming_up);
  CHECK(history.explanation() == "no step has been recorded");
  History clean;
  take(clean, 10);
  CHECK(clean.explanation() == "step 9, warming_up: the loss scale is 1024");
  skip(history, 1, 1024.0F, 0, 1);
  skip(history, 14);
  CHECK(take(history, 84) == Verdict::warming_up);
  CHECK_THAT(
      history.explanation(),
      ContainsSubstring(
          "step 98, warming_up: 15 of the last 99 steps were not finite, and the loss scale is "
          "1024; that is usual while the loss scale comes down; at step 0 layers[3].weight had"));
  CHECK(take(history, 1) == Verdict::healthy);  // skips of the warm-up do not count
  CHECK(history.explanation() ==
        "step 99, healthy: 15 of the last 100 steps were not finite, and the loss scale is 1024");
}

TEST_CASE("too_many_skips: more than 5 % of the kept steps since the warm-up, or of 100") {
  History history = warm();
  CHECK(skip(history, 5) == Verdict::healthy);
  CHECK(skip(history, 1, 512.0F, 0, 3) == Verdict::too_many_skips);
  CHECK(history.explanation() ==
        "step 105, too_many_skips: 6 of the last 106 steps were not finite, and the loss scale is "
        "512; let the loss scale grow less often or not so high, or lower the learning rate; at "
        "step 105 layers[3].weight had an Inf at index 17, of 0 NaN and 3 Inf in all");
  for (int i = 0; i < 500; ++i) history.record(no_gradients);  // these do not count
  CHECK(history.verdict() == Verdict::too_many_skips);
  CHECK(take(history, 113) == Verdict::too_many_skips);
  CHECK(take(history, 1) == Verdict::healthy);  // 6 of 120
  HistoryConfig none;
  none.skip_tolerance = 0.0;
  History strict = warm(none);
  CHECK(skip(strict, 1) == Verdict::too_many_skips);
  CHECK(take(strict, 1024) == Verdict::healthy);  // the skipped step is no longer kept
}

TEST_CASE("at_floor: the last step ran at the floor, and two of the last 64 overflowed there") {
  History history = warm();
  CHECK(skip(history, 1, 1.0F) == Verdict::healthy);
  CHECK(skip(history, 1, 2.0F) == Verdict::healthy);
  CHECK(skip(history, 1, 1.0F) == Verdict::at_floor);
  CHECK(take(history, 61, 1.0, 1.0F) == Verdict::at_floor);
  CHECK_THAT(
      history.explanation(),
      ContainsSubstring("the loss scale is 1, min_scale or below: see whether the loss is finite"));
  CHECK(take(history, 1, 1.0, 1.0F) == Verdict::healthy);
  CHECK(skip(history, 2, 0.5F) == Verdict::at_floor);
  CHECK(take(history, 1, 1.0, 2.0F) != Verdict::at_floor);
  History wide = warm(HistoryConfig::for_dtype<headroom::bfloat16>());  // its floor is below 1
  CHECK(skip(wide, 4, 1.0F) == Verdict::healthy);
}

TEST_CASE("explanations of NaN without Inf, and of an Inf at one place in ten steps in a row") {
  History nan = warm();
  skip(nan, 6, 1024.0F, 4);
  CHECK(nan.explanation() ==
        "step 105, too_many_skips: 6 of the last 106 steps were not finite, and the loss scale is "
        "1024; NaN without Inf: look at the loss and the weights; at step 105 layers[3].weight had "
        "a NaN at index 17, of 4 NaN and 0 Inf in all");
  nan.record_loss(infinity);
  skip(nan, 1, 1024.0F, 4);
  CHECK_THAT(nan.explanation(), ContainsSubstring("no loss scale helps"));

  const char* const uncleared =
      "Inf in all, as in the 9 steps before: see whether gradients are cleared after a skipped "
      "step";
  History engine = warm();
  skip(engine, 9, 1.0F, 0, 3);
  CHECK_THAT(engine.explanation(), !ContainsSubstring("cleared"));
  skip(engine, 1, 1.0F, 0, 4);
  CHECK_THAT(engine.explanation(), ContainsSubstring(uncleared));
  for (const NonFinite& other : {NonFinite{"layers[3].weight", 18, NonFiniteKind::inf, 0, 1},
                                 NonFinite{"layers[3].bias", 17, NonFiniteKind::inf, 0, 1}}) {
    History moved = engine;
    moved.record(1.0F, overflow, other);
    CHECK_THAT(moved.explanation(), !ContainsSubstring("cleared"));
  }
  for (int i = 0; i < 15; ++i) {  // a tree of one leaf; the sixth place is unknown
    const NonFinite place{"", 0, NonFiniteKind::inf, 0, 1};
    engine.record(1.0F, overflow, i == 5 ? std::nullopt : std::optional<NonFinite>(place));
  }
  CHECK_THAT(engine.explanation(), !ContainsSubstring("cleared"));
}

TEST_CASE("a place without counts, as of a GPU's first_overflow, is named") {
  History history = warm();
  for (int i = 0; i < 12; ++i) history.record(1024.0F, overflow, NonFinite{"layers[3].weight"});
  const std::string text = history.explanation();
  CHECK_THAT(text, ContainsSubstring("too_many_skips"));
  CHECK_THAT(text, ContainsSubstring("; at step 111 layers[3].weight had an Inf or NaN"));
  CHECK_THAT(text, !ContainsSubstring("cleared") && !ContainsSubstring("NaN without Inf"));
  CHECK_THAT(history.csv(), ContainsSubstring(",not_finite,,layers[3].weight,,,,\n"));
}

TEST_CASE("loss_is_not_finite: the loss of the last step was Inf or NaN") {
  History history = warm();
  history.record_loss(infinity);
  CHECK(take(history, 1) == Verdict::loss_is_not_finite);
  CHECK_THAT(
      history.explanation(),
      ContainsSubstring("; no loss scale helps: see whether the loss and the weights are finite"));
  history.record_loss(1.0);
  CHECK(take(history, 1) == Verdict::healthy);
  // NaN gradients alone do not mean that the loss is NaN
  CHECK(skip(history, 20, 1024.0F, 2) == Verdict::too_many_skips);
}

TEST_CASE("underflowing: the scaled max_abs is below lowest_max_abs in most finite steps") {
  History history = warm();
  CHECK(take(history, 100, 0x1p-18) == Verdict::healthy);  // 2^-8
  history = warm();
  CHECK(take(history, 100, 0x1.8p-19) == Verdict::healthy);
  CHECK(take(history, 1, 0x1.8p-19) == Verdict::underflowing);
  CHECK(history.explanation() ==
        "step 200, underflowing: the loss scale is 1024; gradients may become zero: let the loss "
        "scale start higher or grow sooner");
  HistoryConfig config;
  config.warm_up = 0;
  History few(config);
  CHECK(take(few, 63, 0.0) == Verdict::healthy);
  CHECK(take(few, 1, 0.0) == Verdict::underflowing);
  // A product beyond double
  CHECK(take(few, 1000, 1e300, headroom::largest_loss_scale) == Verdict::healthy);
}

TEST_CASE("settings by dtype") {
  const HistoryConfig of_half = HistoryConfig::for_dtype<half>();
  CHECK((of_half.lowest_max_abs == 0x1p-8 && of_half.min_scale == 1.0F));
  CHECK(HistoryConfig::for_dtype<float8_e4m3>().lowest_max_abs == 1.0);
  CHECK(HistoryConfig::for_dtype<bfloat16>().lowest_max_abs == 0x1p-117);
  CHECK(HistoryConfig::for_dtype<float>().min_scale == smallest_loss_scale);
  (void)History(HistoryConfig::for_dtype<double>());
}

TEST_CASE("a record without a reason counts as an overflow if its report is not finite") {
  History history;
  for (int i = 0; i < 3; ++i) history.record(StepRecord{0, 1.0F, overflow});
  CHECK_THAT(history.explanation(), ContainsSubstring("3 of the last 3 steps were not finite"));
}
