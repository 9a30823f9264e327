#include <headroom/observe/history.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/history.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::GradientReport;
using headroom::History;
using headroom::HistoryConfig;
using headroom::NonFinite;
using headroom::NonFiniteKind;
using headroom::SkipReason;
using headroom::StepRecord;
using headroom::Verdict;

using namespace support::steps;

namespace {

struct Optimizer {
  std::vector<std::vector<headroom::half>> leaves{{headroom::half(1.0F)}, {headroom::half(2.0F), headroom::half(3.0F)}};
  auto& gradients() { return leaves; }
  void step() {}
};

}  // namespace

TEST_CASE("the last steps are kept, the oldest first, and numbered") {
  History history(3);
  CHECK(history.size() == 0);
  CHECK(history.totals().steps == 0);
  for (int i = 0; i < 8; ++i) {
    history.record(std::ldexp(1.0F, i), GradientReport{i % 3 != 0, i % 3 == 0 ? infinity : 0.5});
    const std::size_t kept = std::min<std::size_t>(static_cast<std::size_t>(i) + 1, 3);
    REQUIRE(history.size() == kept);
    for (std::size_t k = 0; k < kept; ++k) {
      const int step = i - static_cast<int>(kept - 1 - k);
      CHECK(history[k].step == step);
      CHECK(history[k].loss_scale == std::ldexp(1.0F, step));
      CHECK(history[k].skipped() == (step % 3 == 0));
      CHECK(history[k].report.finite == (step % 3 != 0));
    }
  }
  CHECK(history.totals().steps == 8);
  CHECK(history.totals().not_finite == 3);
  history.set_next_step(5000);
  history.record(1.0F, overflow);
  CHECK(history[2].step == 5000);
  history.record(1.0F, overflow);
  CHECK(history[2].step == 5001);
  CHECK_THAT(support::message_of([&] { history.set_next_step(-1); }), ContainsSubstring("step is -1"));
  history.set_next_step(std::int64_t{1} << 62);
  history.record(1.0F, overflow);
  history.record(1.0F, overflow);
  CHECK(history[2].step == std::int64_t{1} << 62);
}

TEST_CASE("totals by reason, the longest run, the share of the last steps") {
  History history(4);
  CHECK(history.skipped_share(10) == 0.0);
  history.record(1.0F, overflow);
  history.record(1.0F, GradientReport{true, 1.0}, true);
  history.record(1.0F, no_gradients);
  CHECK(history.totals().run == 3);
  history.record(1.0F, GradientReport{true, 1.0});
  CHECK(history.totals().run == 0);
  history.record(1.0F, GradientReport{false, infinity}, false);  // taken all the same
  history.record(1.0F, overflow);
  const headroom::HistoryTotals& totals = history.totals();
  CHECK(totals.steps == 6);
  CHECK(totals.not_finite == 2);
  CHECK(totals.no_gradients == 1);
  CHECK(totals.spikes == 1);
  CHECK(totals.skipped() == 4);
  CHECK(totals.run == 1);
  CHECK(totals.longest_run == 3);
  CHECK(history.skipped_share(1) == 1.0);
  CHECK(history.skipped_share(3) == Catch::Approx(1.0 / 3));
  CHECK(history.skipped_share(1000) == 0.5);
  CHECK(history.skipped_share(0) == 0.0);
}

TEST_CASE("the result of a step is recorded, with the reason and the place where it has them") {
  struct Bare {
    bool skipped = true;
    GradientReport report = overflow;
  };
  History history(8);
  history.record(2.0F, Bare());
  CHECK(history[0].reason == SkipReason::not_finite);
  CHECK_FALSE(history[0].has_place());

  history.record(2.0F, Result{true, overflow, SkipReason::not_finite, NonFinite{"a", 3, NonFiniteKind::nan, 1, 2}});
  CHECK(history[1].has_place());
  CHECK(history[1].nonfinite.path == "a");
  CHECK(history[1].nonfinite.index == 3);
  CHECK(history[1].nonfinite.kind == NonFiniteKind::nan);
  CHECK(history[1].nonfinite.nan_count == 1);
  CHECK(history[1].nonfinite.inf_count == 2);

  history.record(2.0F, Result{true, {true, 9.0}, SkipReason::spike, {}});
  CHECK(history[2].reason == SkipReason::spike);
  history.record(2.0F, Result{false, {true, 9.0}, SkipReason::none, {}});
  CHECK_FALSE(history[3].skipped());
  history.record(2.0F, Result{true, overflow, SkipReason::none, {}});  // by somebody who forgets to say
  CHECK(history[4].reason == SkipReason::not_finite);
}

TEST_CASE("a place is forgotten with its step") {
  History history(2);
  history.record(1.0F, overflow, true, NonFinite{"a rather long path, beyond any small string", 3, NonFiniteKind::nan, 1, 2});
  history.record(1.0F, overflow);
  history.record(1.0F, overflow);
  CHECK_FALSE(history[1].has_place());
  CHECK(history[1].nonfinite.path.empty());
  CHECK(history[1].nonfinite.index == 0);
  CHECK(history[1].nonfinite.kind == NonFiniteKind::inf);
}

TEST_CASE("beside a GradScaler, an AsyncGradScaler and a policy") {
  Optimizer optimizer;
  headroom::GradScaler<> scaler(1024.0);
  History history;
  for (int step = 0; step < 3; ++step) {
    optimizer.leaves[1][1] = headroom::half(step == 1 ? 70000.0F : 4.0F);
    (void)scaler.scale(1.0F);
    history.record(scaler.step(optimizer));
    scaler.update();
  }
  CHECK(history.totals().not_finite == 1);
  CHECK(history[0].report.max_abs == 4.0 / 1024.0);
  CHECK(history[1].skipped());
  CHECK(history[2].loss_scale == 512.0F);

  headroom::AsyncGradScaler<> async(headroom::presets::torch(1024.0));
  std::vector<std::future<headroom::StepResult<void>>> results;
  for (int step = 0; step < 3; ++step) {
    optimizer.leaves[1][1] = headroom::half(step == 1 ? 70000.0F : 4.0F);
    (void)async.scale(1.0F);
    results.push_back(async.submit(optimizer));
    async.update();
    async.synchronize();
  }
  History later;
  for (auto& result : results) later.record(result.get());
  CHECK(later.csv() == history.csv());

  headroom::DynamicLossScale policy;
  const auto grads = std::vector<float>{1.0F, headroom::detail::bit_cast<float>(std::uint32_t{0x7F800000})};
  const auto report = policy.unscale<float>(grads).report;
  History alone;
  alone.record(policy.loss_scale(), report, !report.finite, headroom::find_nonfinite(grads));
  CHECK(alone[0].nonfinite.index == 1);
  CHECK(alone[0].reason == SkipReason::not_finite);
}

TEST_CASE("a scale that is none is refused, and nothing recorded") {
  History history(2);
  for (const float scale : {0.0F, -1.0F, headroom::largest_loss_scale * 2, static_cast<float>(quiet_nan)}) {
    CHECK_THAT(support::message_of([&] { history.record(scale, overflow); }), ContainsSubstring("loss_scale is "));
  }
  CHECK(history.size() == 0);
  CHECK(history.totals().steps == 0);
}

TEST_CASE("the sums over the kept steps are those of a history that has seen nothing else") {
  std::mt19937 random(support::seed);
  for (const std::size_t capacity : {std::size_t{2}, std::size_t{3}, std::size_t{63}, std::size_t{100}}) {
    HistoryConfig config;
    config.capacity = capacity;
    config.warm_up = 7;
    config.skip_tolerance = 0.3;
    History history(config);
    for (int step = 0; step < 300; ++step) {
      if (random() % 8 == 0) history.record_loss(random() % 4 == 0 ? quiet_nan : 1.0);
      const float scale = std::ldexp(1.0F, static_cast<int>(random() % 20) - 4);
      const auto below = [&random](unsigned end) { return static_cast<int>(random() % end); };
      const double sizes[] = {0.0, quiet_nan, std::ldexp(1.0 + below(1000) / 1000.0, below(30) - 25)};
      Result result{below(3) == 0, {true, sizes[std::min(below(8), 2)]}, SkipReason::none, {}};
      if (random() % 4 == 0) result.report = overflow;
      if (result.skipped) result.reason = static_cast<SkipReason>(1 + random() % 3);
      if (!result.report.finite && random() % 2 == 0) result.nonfinite = NonFinite{"a", 1, NonFiniteKind::nan, 1, random() % 2};
      history.record(scale, result);

      History again(config);  // the kept steps alone, after the same number of others
      again.load_state_dict(headroom::StateDict{{"version", 1},
                                                {"policy", "history"},
                                                {"next_step", history[0].step},
                                                {"steps", history[0].step},
                                                {"not_finite", 0},
                                                {"no_gradients", 0},
                                                {"spikes", 0},
                                                {"longest_run", 0},
                                                {"run", 0}});
      for (std::size_t i = 0; i < history.size(); ++i) {
        const StepRecord& record = history[i];
        if (record.loss_finite) again.record_loss(*record.loss_finite ? 1.0 : infinity);
        again.record(record.loss_scale, Result{record.skipped(), record.report, record.reason,
                                               record.has_place() ? std::optional<NonFinite>(record.nonfinite) : std::nullopt});
      }
      REQUIRE(again.csv() == history.csv());
      // Runs may begin before what is kept.
      if (history.verdict() != Verdict::loss_is_not_finite) REQUIRE(again.verdict() == history.verdict());
    }
  }
}

TEST_CASE("CSV: every kept step, quoted as in RFC 4180") {
  History history(5);
  history.record(1.0F, GradientReport{true, 1.0});  // overwritten
  history.record_loss(2.5);
  history.record(32768.0F, GradientReport{true, 0.1});
  history.record(0.7F, overflow, true, NonFinite{"heads[\"a,b\"]", 17, NonFiniteKind::nan, 3, 4});
  history.record_loss(quiet_nan);
  history.record(headroom::smallest_loss_scale, GradientReport{true, quiet_nan}, true);
  history.record(1.0F, no_gradients);
  history.record(1.0F, overflow, true, NonFinite{"layers[1].bias", 0, NonFiniteKind::inf, 0, 1});
  CHECK(history.csv() ==
        "step,loss_scale,finite,max_abs,skipped,reason,loss_finite,path,index,is_nan,nan_count,inf_count\n"
        "1,32768,1,0.1,0,none,1,,,,,\n"
        "2,0.7,0,,1,not_finite,,\"heads[\"\"a,b\"\"]\",17,1,3,4\n"
        "3,1.1754944e-38,1,,1,spike,0,,,,,\n"
        "4,1,1,0,1,no_gradients,,,,,,\n"
        "5,1,0,,1,not_finite,,layers[1].bias,0,0,0,1\n");
  const double sizes[] = {infinity, -infinity, quiet_nan, -quiet_nan, 0.5};
  for (std::size_t i = 0; i < 5; ++i) {
    History one(2);
    one.record(1.0F, GradientReport{true, sizes[i]}, false);
    one.record(1.0F, GradientReport{false, sizes[i]}, false);  // of which no size is known
    const std::string number = i == 4 ? "0.5" : "";
    CHECK_THAT(one.csv(), ContainsSubstring("\n0,1,1," + number + ",0,none,,,,,,\n1,1,0,,0,none,,,,,,\n"));
  }
  for (const char separator : {',', '"', '\r', '\n'}) {
    History one(2);
    const std::string path = std::string("a") + separator + "b";
    one.record(1.0F, overflow, true, NonFinite{path, 0, NonFiniteKind::inf, 0, 1});
    CHECK_THAT(one.csv(), ContainsSubstring(separator == '"' ? ",\"a\"\"b\",0," : ",\"" + path + "\",0,"));
  }
  CHECK(History(3).csv() ==
        "step,loss_scale,finite,max_abs,skipped,reason,loss_finite,path,index,is_nan,nan_count,inf_count\n");
}

TEST_CASE("the callback is called when the verdict changes, and may throw") {
  HistoryConfig config;
  config.warm_up = 3;
  History history(config);
  std::vector<std::string> log;
  history.set_on_verdict([&log](const History& h) { log.push_back(to_string(h.verdict())); });
  for (int i = 0; i < 5; ++i) history.record(8.0F, GradientReport{true, 1.0});
  CHECK(log == std::vector<std::string>{"healthy"});
  for (const float scale : {2.0F, 2.0F, 1.0F, 1.0F}) history.record(scale, overflow);
  CHECK(log == std::vector<std::string>{"healthy", "too_many_skips", "at_floor"});
  const History copy = history;
  history.set_on_verdict([](const History& h) { throw std::runtime_error(h.explanation()); });
  CHECK_THROWS_WITH(history.record(8.0F, GradientReport{true, 1.0}), ContainsSubstring("step 9, too_many_skips"));
  CHECK(history.totals().steps == 10);
  history.record(8.0F, GradientReport{true, 1.0});  // it has been told
  history.set_on_verdict(nullptr);
  history.record(1.0F, GradientReport{true, 1.0});
  CHECK(copy.totals().steps == 9);
}

TEST_CASE("copies are independent, and what is moved from is whole") {
  History history(2);
  history.record(1.0F, overflow, true, NonFinite{"a", 0, NonFiniteKind::inf, 0, 1});
  History copy = history;
  copy.record(2.0F, GradientReport{true, 1.0});
  CHECK(history.size() == 1);
  CHECK(copy.size() == 2);
  const History moved = std::move(history);
  history.record(4.0F, GradientReport{true, 1.0});
  CHECK(history.size() == 2);
  CHECK(moved.size() == 1);
  history = moved;
  CHECK(history.csv() == moved.csv());
}

TEST_CASE("totals go on from a checkpoint") {
  History history(4);
  history.set_next_step(900);
  for (int i = 0; i < 120; ++i) history.record(1024.0F, i % 3 == 0 ? overflow : GradientReport{true, 1.0});
  history.record(1024.0F, GradientReport{true, 1.0}, true);
  const headroom::StateDict state = history.state_dict();
  CHECK(state == headroom::StateDict{{"version", 1},
                                     {"policy", "history"},
                                     {"next_step", 1021},
                                     {"steps", 121},
                                     {"not_finite", 40},
                                     {"no_gradients", 0},
                                     {"spikes", 1},
                                     {"longest_run", 1},
                                     {"run", 1}});
  History resumed(4);
  int calls = 0;
  resumed.set_on_verdict([&calls](const History&) { ++calls; });
  resumed.record(1.0F, overflow);
  resumed.load_state_dict(state);
  CHECK(resumed.size() == 0);
  CHECK(resumed.verdict() == Verdict::healthy);  // it has been warm before
  CHECK(resumed.state_dict() == state);
  resumed.record(1024.0F, overflow);
  CHECK(resumed[0].step == 1021);
  CHECK(resumed.totals().longest_run == 2);
  CHECK(calls == 0);

  for (const char* key : {"next_step", "steps", "not_finite", "no_gradients", "spikes", "longest_run", "run"}) {
    for (const std::int64_t value : {std::int64_t{-1}, (std::int64_t{1} << 62) + 1}) {
      headroom::StateDict bad = state;
      bad.set(key, value);
      CHECK_THAT(support::message_of([&] { resumed.load_state_dict(bad); }), ContainsSubstring(std::string(key) + " is "));
    }
    headroom::StateDict bad = state;
    (void)bad.erase(key);
    CHECK_THAT(support::message_of([&] { resumed.load_state_dict(bad); }), ContainsSubstring(key));
  }
  headroom::StateDict too_many = state;
  too_many.set("spikes", 82);  // with the 40 more than there were steps
  CHECK_THAT(support::message_of([&] { resumed.load_state_dict(too_many); }), ContainsSubstring("spikes is 82"));
  too_many.set("extra", 1);
  too_many.set("spikes", 1);
  CHECK_THAT(support::message_of([&] { resumed.load_state_dict(too_many); }), ContainsSubstring("extra"));
  CHECK(resumed.totals().longest_run == 2);  // unchanged

  headroom::StateDict huge = state;
  for (const char* key : {"next_step", "steps", "not_finite", "longest_run", "run"}) huge.set(key, std::int64_t{1} << 62);
  huge.set("spikes", 0);
  headroom::StateDict two_kinds = state;
  two_kinds.set("no_gradients", 60);
  two_kinds.set("spikes", 22);  // of 121 steps
  CHECK_THAT(support::message_of([&] { resumed.load_state_dict(two_kinds); }), ContainsSubstring("spikes is 22"));
  two_kinds.set("spikes", 21);
  CHECK(support::message_of([&] { History(4).load_state_dict(two_kinds); }).empty());
  resumed.load_state_dict(huge);
  resumed.record(1.0F, overflow);
  CHECK(resumed.totals().steps == std::int64_t{1} << 62);
  CHECK(resumed.totals().run == std::int64_t{1} << 62);
}

TEST_CASE("a callback may set another, or go back to a state") {
  History history(16);
  const auto state = history.state_dict();
  std::vector<int> calls(2, 0);
  const std::string text(100, 'x');
  history.set_on_verdict([&history, &calls, state, text](const History&) {
    history.load_state_dict(state);
    history.set_on_verdict([&calls](const History&) { ++calls[1]; });
    calls[0] += text.size() == 100 ? 1 : 0;
  });
  for (int step = 0; step < 400; ++step) history.record(1024.0F, headroom::GradientReport{step % 2 == 0, 1.0});
  CHECK(calls[0] == 1);
  CHECK(calls[1] > 0);
}

TEST_CASE("the share that underflows survives a load; the peak of doubles is one") {
  History history(50);
  history.set_underflow_share(0.5);
  for (int step = 0; step < 200; ++step) history.record(1024.0F, headroom::GradientReport{true, 1.0});
  CHECK(history.verdict() == headroom::Verdict::underflowing);
  history.load_state_dict(history.state_dict());
  history.record(1024.0F, headroom::GradientReport{true, 1.0});
  CHECK(history.verdict() == headroom::Verdict::underflowing);

  headroom::HistoryConfig config;
  config.lowest_peak = headroom::lowest_peak_v<double>;
  CHECK(History(config).size() == 0);
}

TEST_CASE("before the first step, and before the first after a load, the explanation makes none up") {
  History history(16);
  CHECK(history.explanation() == "before step 0, warming_up: no step has been recorded");
  history.set_next_step(700);
  CHECK(history.explanation() == "before step 700, warming_up: no step has been recorded");
  take(history, 150, 1.0, 64.0F);
  skip(history, 2, 64.0F);
  history.record(64.0F, no_gradients);
  History resumed(16);
  skip(resumed, 40);
  resumed.load_state_dict(history.state_dict());
  const std::string known =
      " 3 of 153 steps were skipped, 3 in a row at most; none has been recorded since this state was loaded";
  CHECK(resumed.explanation() == "before step 853, healthy:" + known);
  resumed.set_underflow_share(0.25);
  CHECK(resumed.explanation() ==
        "before step 853, underflowing: 25 % of the gradients become zero in their format, and" + known);
  resumed.set_underflow_share(0.0);
  take(resumed, 1, 1.0, 64.0F);
  CHECK(resumed.explanation() == "step 853, healthy: 3 of 154 steps were skipped, and the loss scale is 64");
  History calm(16);
  take(calm, 120);
  calm.load_state_dict(calm.state_dict());
  CHECK(calm.explanation() ==
        "before step 120, healthy: 0 of 120 steps were skipped; none has been recorded since this state was loaded");
}
