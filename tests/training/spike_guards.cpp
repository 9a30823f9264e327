#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/policy/spike_guard.hpp>
#include <headroom/state/text.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"

// GradScalers with a SpikeGuard. The guard by itself: tests/policy/spike_guard.cpp.

using Catch::Matchers::ContainsSubstring;
using headroom::GradientFactor;
using headroom::GradientSums;
using headroom::GradScaler;
using headroom::SkipReason;
using headroom::SpikeGuard;
using support::message_of;
using support::Weights;
namespace presets = headroom::presets;

namespace {

/// An optimizer with one gradient, whose magnitude is its norm.
struct One {
  Weights grads;
  int steps = 0;
  Weights& gradients() { return grads; }
  void step(GradientFactor) { ++steps; }
};

/// What a GradScaler is asked for, with gradients of this norm once unscaled.
enum class Way { step, unscale, clip };
template <class Scaler>
auto train(Scaler& scaler, One& optimizer, float norm, Way way) {
  optimizer.grads = {0.0F, scaler.scale(norm)};
  if (way == Way::unscale) (void)scaler.unscale_(optimizer);
  if (way == Way::clip) (void)scaler.unscale_and_clip_(optimizer, 1.0);
  return scaler.step(optimizer);
}
float ordinary(int step) { return 1.0F + static_cast<float>(step * 7 % 16) / 64.0F; }

}  // namespace

TEST_CASE("a scaler skips the step of a spike, and adjusts its policy as by any finite step") {
  for (const bool deferred : {false, true}) {
    for (const Way way : {Way::step, Way::unscale, Way::clip}) {
      for (const float scale : {1024.0F, 1.0F, 0.75F}) {
        GradScaler scaler{headroom::ConstantLossScale(scale)}, plain = scaler;
        scaler.set_deferred(deferred);
        scaler.set_spike_guard(SpikeGuard(8));
        SpikeGuard expected(8);
        One optimizer;
        for (int step = 0; step < 30; ++step) {
          const bool is_spike = step > 10 && step % 13 == 0;
          const float norm = is_spike ? 100.0F : step % 7 == 6 ? support::infinity() : ordinary(step);
          const auto result = train(scaler, optimizer, norm, way);
          const bool finite = is_spike || step % 7 != 6;
          REQUIRE(result.report.finite == finite);
          REQUIRE(result.skipped == (is_spike || !finite));
          REQUIRE(result.reason == (is_spike ? SkipReason::spike : finite ? SkipReason::none : SkipReason::not_finite));
          REQUIRE(result.nonfinite.has_value() == !finite);
          if (is_spike) REQUIRE(result.report.max_abs == 100.0);
          scaler.update();
          if (finite) expected = std::move(expected).adjust(static_cast<double>(norm));
          REQUIRE(scaler.get_spike_guard()->values().size() == expected.values().size());
          for (std::size_t i = 0; i < expected.values().size(); ++i) {
            REQUIRE(scaler.get_spike_guard()->values()[i] == Catch::Approx(expected.values()[i]).epsilon(1e-6));
          }
        }
      }
    }
  }
  GradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 3));
  scaler.set_spike_guard(SpikeGuard(8));
  One optimizer;
  int steps = 0;
  for (int step = 0; step < 12; ++step) {
    if (train(scaler, optimizer, step % 4 == 3 ? 1e6F : ordinary(step), Way::step).skipped) ++steps;
    scaler.update();
  }
  CHECK(steps == 1);  // the second and third are no longer far from the mean
  CHECK(optimizer.steps == 12 - steps);
  CHECK(scaler.get_scale() == 16384.0F);  // after 3, 6, 9 and 12 finite steps
}

TEST_CASE("each optimizer of an iteration has its own window, and those without a norm leave theirs as it is") {
  GradScaler<> scaler;
  CHECK_FALSE(scaler.get_spike_guard().has_value());
  scaler.set_spike_guard(SpikeGuard(8));
  One small, large, nothing;
  for (int step = 0; step < 20; ++step) {
    const float loss = scaler.scale(ordinary(step));
    if (step == 0) {  // the second optimizer comes later
      large.grads = {1000.0F * loss};
      REQUIRE_FALSE(scaler.step(large).skipped);
      scaler.update();
      continue;
    }
    if (step == 1) CHECK_FALSE(scaler.get_spike_guard(1).has_value());
    if (step == 2) CHECK(scaler.get_spike_guard(1)->values().size() == 1);
    small.grads = {loss};
    large.grads = {1000.0F * loss};
    (void)scaler.unscale_and_clip_(large, 1.0);
    REQUIRE_FALSE(scaler.step(small).skipped);
    REQUIRE_FALSE(scaler.step(large).skipped);
    scaler.update();
  }
  CHECK(scaler.get_spike_guard(0)->values().back() > 900.0);
  CHECK(scaler.get_spike_guard(1)->values().front() < 2.0);
  CHECK(scaler.get_spike_guard(1)->values().back() < 2.0);
  CHECK_FALSE(scaler.get_spike_guard(2).has_value());
  (void)scaler.scale(1.0F);
  small.grads = large.grads = {1000.0F * scaler.get_scale()};
  CHECK_FALSE(scaler.step(large).skipped);
  CHECK(scaler.step(small).reason == SkipReason::spike);

  const auto first = scaler.get_spike_guard(0), second = scaler.get_spike_guard(1);
  scaler.update(1024.0F);  // adjusts nothing
  CHECK(scaler.get_spike_guard(0) == first);
  (void)scaler.scale(1.0F);
  small.grads = {support::infinity()};
  struct Empty {
    std::vector<Weights> grads;
    std::vector<Weights>& gradients() { return grads; }
    void step(GradientFactor) {}
  } empty;
  CHECK(scaler.step(small).reason == SkipReason::not_finite);
  CHECK(scaler.step(empty).reason == SkipReason::no_gradients);
  scaler.update();
  CHECK(scaler.get_spike_guard(0) == first);
  CHECK(scaler.get_spike_guard(1) == second);
  scaler.set_spike_guard(std::nullopt);
  CHECK_FALSE(scaler.get_spike_guard().has_value());
}

TEST_CASE("an optimizer keeps its window however seldom it is used, and wherever in the iteration") {
  // A GAN: in one iteration of 50 the other optimizer, with norms 20 times as large, or both in another order.
  for (const bool alternating : {true, false}) {
    GradScaler<> scaler;
    scaler.set_spike_guard(SpikeGuard(64));
    One discriminator, generator;
    int steps = 0, spikes = 0;
    const auto step = [&](One& optimizer, float norm) {
      optimizer.grads = {norm * scaler.get_scale()};
      ++steps;
      if (scaler.step(optimizer).reason == SkipReason::spike) ++spikes;
    };
    for (int i = 0; i < 2000; ++i) {
      const bool is_rare = i % 50 == 49;
      (void)scaler.scale(1.0F);
      if (is_rare) step(generator, 20.0F * ordinary(i));
      if (!is_rare || !alternating) step(discriminator, ordinary(i));
      if (!is_rare && !alternating) step(generator, 20.0F * ordinary(i));
      scaler.update();
      if (i != 1203) continue;  // before an iteration that uses the same one first as the very first did
      const headroom::StateDict state = scaler.state_dict();
      scaler = GradScaler<>();
      scaler.load_state_dict(state);
      CHECK(scaler.state_dict() == state);
    }
    CHECK(spikes == 0);
    CHECK(steps == discriminator.steps + generator.steps);
    CHECK(scaler.get_spike_guard(0)->values().back() < 2.0);
    CHECK((scaler.get_spike_guard(1).has_value() && scaler.get_spike_guard(1)->values().back() >= 20.0));
    CHECK_FALSE(scaler.get_spike_guard(2).has_value());
    (void)scaler.scale(1.0F);
    step(generator, 200.0F);
    step(discriminator, 20.0F);
    CHECK(spikes == 2);
  }
}

TEST_CASE("loaded windows go to the optimizers in the order of their first use, gradients or not") {
  GradScaler<> scaler;
  scaler.set_spike_guard(SpikeGuard(8));
  struct Frozen {
    std::vector<Weights> grads;
    std::vector<Weights>& gradients() { return grads; }
    void step(GradientFactor) {}
  } frozen;
  One one;
  const auto iterate = [&](float norm) {  // 0: frozen
    const float loss = scaler.scale(1.0F);
    frozen.grads.clear();
    if (norm > 0.0F) frozen.grads = {{norm * loss}};
    one.grads = {loss};
    (void)scaler.step(frozen);
    (void)scaler.step(one);
    scaler.update();
  };
  const auto values = [&](std::size_t place) {
    const auto guard = scaler.get_spike_guard(place);
    REQUIRE(guard.has_value());
    return guard->values();
  };
  iterate(0.0F);
  CHECK(values(0).empty());
  CHECK(values(1) == std::vector<double>{1.0});
  scaler.load_state_dict(scaler.state_dict());
  iterate(2.0F);
  CHECK(values(0) == std::vector<double>{2.0});
  CHECK(values(1) == std::vector<double>{1.0, 1.0});
  scaler.set_spike_guard(scaler.get_spike_guard(1));  // whose window is the first one's then
  iterate(3.0F);
  CHECK(values(0) == std::vector<double>{1.0, 1.0, 3.0});
  CHECK(values(1) == std::vector<double>{1.0});
}

TEST_CASE("a guard follows an optimizer that moves within an iteration, and judges what is unscaled after it was set") {
  GradScaler<> scaler;
  scaler.set_spike_guard(SpikeGuard(8));
  One here, there;
  const auto unscale = [&](One& optimizer) {
    optimizer.grads = {scaler.scale(1.0F)};
    (void)scaler.unscale_(optimizer);
  };
  unscale(here);
  there = std::move(here);
  (void)scaler.step(there);
  scaler.update();
  unscale(there);
  (void)scaler.step(there);
  scaler.update();
  CHECK(scaler.get_spike_guard(0)->values().size() == 2);
  CHECK_FALSE(scaler.get_spike_guard(1).has_value());

  unscale(there);
  scaler.set_spike_guard(SpikeGuard(9));
  CHECK_FALSE(scaler.step(there).skipped);
  scaler.update();
  CHECK(scaler.get_spike_guard() == SpikeGuard(9));
}

TEST_CASE("the guards travel in the scaler's state, over here and over there; older states have none") {
  GradScaler<> scaler;
  const headroom::StateDict old = scaler.state_dict();
  scaler.set_spike_guard(SpikeGuard(8, 5.0));
  One one, two;
  for (int step = 0; step < 12; ++step) {
    one.grads = two.grads = {scaler.scale(ordinary(step))};
    (void)scaler.step(one);
    if (step % 2 == 0) (void)scaler.step(two);
    scaler.update();
  }
  const headroom::StateDict state = headroom::from_text(headroom::to_text(scaler.state_dict()));
  GradScaler<> loaded;
  loaded.load_state_dict(state);
  CHECK(loaded.policy() == scaler.policy());
  CHECK(loaded.get_spike_guard(0) == scaler.get_spike_guard(0));
  CHECK(loaded.get_spike_guard(1) == scaler.get_spike_guard(1));
  CHECK(loaded.state_dict() == scaler.state_dict());

  headroom::AsyncGradScaler<> async;
  async.load_state_dict(state);
  headroom::StateDict there = async.state_dict();
  CHECK(there.erase("main_scale"));
  CHECK(there == state);
  auto future = [&] {
    one.grads = {0.0F, 100.0F * async.scale(1.0F)};
    return async.submit_and_clip(one, 1.0);
  }();
  async.update(false);
  const auto result = future.get();
  CHECK(result.reason == SkipReason::spike);
  CHECK(result.norm == 100.0);
  CHECK(async.state_dict() != there);
  GradScaler<> back;
  there = async.state_dict();
  (void)there.erase("main_scale");
  back.load_state_dict(there);
  CHECK(back.get_spike_guard(0)->values().back() == 100.0);

  loaded.load_state_dict(old);  // the settings stay, the window is another run's
  CHECK(loaded.get_spike_guard(0) == SpikeGuard(8, 5.0));
  CHECK_FALSE(loaded.get_spike_guard(1).has_value());
  headroom::StateDict bad = state;
  bad.set("spike_guard.1.window", 2);
  CHECK_THAT(message_of([&] { loaded.load_state_dict(bad); }), ContainsSubstring("window is 2"));
  bad = state;
  bad.set("counter", -1);
  CHECK_THROWS(loaded.load_state_dict(bad));
  CHECK(loaded.get_spike_guard(0) == SpikeGuard(8, 5.0));
  CHECK(loaded.policy() == headroom::DynamicLossScale());
}

TEST_CASE("ranks judge by the norm of all, compare their guards, and one without gradients decides as the others do") {
  const auto digests = [](const std::optional<SpikeGuard>& guard, float norm) {
    GradScaler<> scaler;
    scaler.set_spike_guard(guard);
    std::vector<std::uint64_t> seen;
    scaler.set_reducer([&](const GradientSums& here, std::uint64_t digest) { return seen.push_back(digest), here; });
    One optimizer;
    for (int step = 0; step < 2; ++step) {
      (void)train(scaler, optimizer, norm, Way::step);
      scaler.update();
    }
    return seen;
  };
  CHECK(digests(SpikeGuard(8), 1.0F) == digests(SpikeGuard(8), 1.0F));
  CHECK(digests(SpikeGuard(8), 1.0F)[0] == digests(SpikeGuard(8), 2.0F)[0]);
  CHECK(digests(SpikeGuard(8), 1.0F)[1] != digests(SpikeGuard(8), 2.0F)[1]);
  CHECK(digests(SpikeGuard(8), 1.0F)[0] != digests(SpikeGuard(9), 1.0F)[0]);
  CHECK(digests(SpikeGuard(8), 1.0F)[0] != digests(std::nullopt, 1.0F)[0]);
  CHECK(digests(std::nullopt, 1.0F)[1] == digests(std::nullopt, 2.0F)[1]);

  const auto last_digest = [](bool swapped) {
    GradScaler<> scaler;
    scaler.set_spike_guard(SpikeGuard(8));
    std::uint64_t last = 0;
    scaler.set_reducer([&](const GradientSums& here, std::uint64_t digest) { return last = digest, here; });
    One one, two;
    const auto step = [&](One& optimizer) {
      optimizer.grads = {scaler.scale(1.0F)};
      (void)scaler.step(optimizer);
    };
    step(one);
    step(two);
    scaler.update();
    step(swapped ? two : one);
    return last;
  };
  CHECK(last_digest(false) == last_digest(false));
  CHECK(last_digest(false) != last_digest(true));

  struct Shard {
    std::vector<Weights> grads;
    int steps = 0;
    std::vector<Weights>& gradients() { return grads; }
    void step() { ++steps; }
  };
  GradScaler<> scaler(headroom::ConstantLossScale(2.0F).loss_scale());
  scaler.set_spike_guard(SpikeGuard(8));
  double there = 0.0;
  scaler.set_reducer([&](const GradientSums& here) {
    return GradientSums{here.finite, std::max(here.max_abs, there), here.sum_of_squares + there * there};
  });
  Shard shard;
  for (int step = 0; step < 20; ++step) {
    shard.grads.clear();
    if (step % 3 == 0) shard.grads = {{3.0F * scaler.scale(1.0F)}};
    there = step == 15 ? 1000.0 : 4.0 + step % 2;
    const auto result = scaler.step(shard);
    REQUIRE(result.reason == (step == 15 ? SkipReason::spike : SkipReason::none));
    scaler.update();
    REQUIRE(scaler.get_spike_guard()->values().back() == Catch::Approx(std::hypot(there, step % 3 == 0 ? 3.0 : 0.0)));
  }
  CHECK(shard.steps == 19);
}

TEST_CASE("gradients that another rank counts have no part in the norm that is judged") {
  struct Tied {
    std::vector<Weights> grads;
    std::vector<Weights>& gradients() { return grads; }
    Weights& duplicate_gradients() { return grads[1]; }
    void step() {}
  };
  GradScaler<> scaler;
  scaler.set_spike_guard(SpikeGuard(8));
  scaler.set_reducer([](const GradientSums& here) { return here; });
  const float loss = scaler.scale(1.0F);
  Tied optimizer{{{3.0F * loss}, {4.0F * loss}}};
  (void)scaler.step(optimizer);
  scaler.update();
  CHECK(scaler.get_spike_guard()->values() == std::vector<double>{3.0});
}

TEST_CASE("disabled, nobody is skipped") {
  GradScaler<> scaler(headroom::DynamicLossScale(), false);
  scaler.set_spike_guard(SpikeGuard(8));
  One optimizer;
  for (int step = 0; step < 20; ++step) {
    CHECK_FALSE(train(scaler, optimizer, step == 15 ? 1e9F : 1.0F, Way::clip).skipped);
    scaler.update();
  }
  CHECK(scaler.get_spike_guard()->values().empty());
}
