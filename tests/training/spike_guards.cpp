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
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
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
using support::logic_error_of;
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
  scaler.use_spike_guard(1);
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

TEST_CASE("an optimizer whose window is named keeps it however seldom it is used, and wherever in the iteration") {
  // A GAN: in one iteration of 50 the other optimizer, with norms 20 times as large, or both in another order.
  for (const bool alternating : {true, false}) {
    GradScaler<> scaler;
    scaler.set_spike_guard(SpikeGuard(64));
    One discriminator, generator;
    int steps = 0, spikes = 0;
    const auto step = [&](One& optimizer, float norm) {
      optimizer.grads = {norm * scaler.get_scale()};
      scaler.use_spike_guard(&optimizer == &discriminator ? 0 : 1);
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
      if (i != 1248) continue;  // before an iteration that begins with the other one
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

namespace {

enum class Fate { none, moved, copied, replaced };

/// A training with optimizers that are moved, copied or replaced between iterations, as another seed says.
struct Training {
  GradScaler<headroom::ConstantLossScale> scaler{headroom::ConstantLossScale(4.0F)};
  std::vector<std::unique_ptr<One>> optimizers, gone;  // these stay, so that all addresses differ
  std::mt19937 fates;
  std::vector<std::uint64_t> digests{};

  Training(std::size_t count, unsigned seed) : fates(seed) {
    for (std::size_t i = 0; i < count; ++i) optimizers.push_back(std::make_unique<One>());
    scaler.set_reducer([this](const GradientSums& here, std::uint64_t digest) { return digests.push_back(digest), here; });
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Returns whether the guard has to be told.
  bool meet(std::size_t i, Fate fate) {
    std::unique_ptr<One>& optimizer = optimizers[i];
    if (fate == Fate::none) return false;
    auto next = fate == Fate::moved    ? std::make_unique<One>(std::move(*optimizer))
                : fate == Fate::copied ? std::make_unique<One>(*optimizer)
                                       : std::make_unique<One>();
    gone.push_back(std::exchange(optimizer, std::move(next)));
    return fate != Fate::moved;
  }
  SkipReason step(std::size_t i, float norm, Way way, bool is_named) {
    const auto fate = static_cast<Fate>(fates() % 4);
    if (meet(i, fate) || is_named) scaler.use_spike_guard(i);
    return train(scaler, *optimizers[i], norm, way).reason;
  }
};

/// Which optimizers an iteration steps.
struct Schedule {
  std::size_t count;
  bool is_named;
  std::vector<std::size_t> (*of)(int iteration);
};
using Places = std::vector<std::size_t>;
const Schedule schedules[] = {
    {1, false, [](int) { return Places{0}; }},
    {3, false,
     [](int) {
       return Places{0, 1, 2};
     }},
    {2, false,
     [](int i) {
       return i % 6 == 5 ? Places{0, 1} : Places{0};
     }},                                                            // the second one rests
    {2, true, [](int i) { return Places{i % 6 == 5 ? 1U : 0U}; }},  // a GAN
    {2, true,
     [](int i) {
       return i % 6 == 5 ? Places{1, 0} : Places{0};
     }},
};

}  // namespace

TEST_CASE("a resumed run is the run that was saved, whatever becomes of the optimizers between iterations") {
  int spikes = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    for (const Schedule& schedule : schedules) {
      std::mt19937 random(seed);
      Training live(schedule.count, seed);
      live.scaler.set_spike_guard(SpikeGuard(8, 3.0));
      std::unique_ptr<Training> resumed;
      for (int i = 0; i < 90; ++i) {
        if (i % 30 == 29 - static_cast<int>(seed)) {
          resumed = std::make_unique<Training>(schedule.count, seed + 100);
          resumed->scaler.load_state_dict(headroom::from_text(headroom::to_text(live.scaler.state_dict())));
          live.digests.clear();
        }
        for (const std::size_t place : schedule.of(i)) {
          const float far = i > 40 ? 100.0F : 1.0F;  // the norms of 100 from there on are ordinary
          const float norm =
              far * std::pow(20.0F, static_cast<float>(place)) * (1.0F + static_cast<float>(random() % 64) / 640.0F);
          const float now = random() % 10 == 0 ? 10.0F * norm : norm;
          const Way way = random() % 2 == 0 ? Way::step : Way::clip;
          const SkipReason reason = live.step(place, now, way, schedule.is_named);
          if (reason == SkipReason::spike) ++spikes;
          if (resumed) REQUIRE(resumed->step(place, now, way, schedule.is_named) == reason);
        }
        live.scaler.update();
        if (!resumed) continue;
        resumed->scaler.update();
        REQUIRE(resumed->scaler.state_dict() == live.scaler.state_dict());
        REQUIRE(resumed->digests == live.digests);
      }
      CHECK_FALSE(live.scaler.get_spike_guard(schedule.count).has_value());  // as many windows as optimizers
    }
  }
  CHECK(spikes > 50);
}

TEST_CASE("windows do not become more while an optimizer moves from one iteration to the next") {
  GradScaler<> scaler;
  scaler.set_spike_guard(SpikeGuard(8));
  std::vector<std::unique_ptr<One>> all;
  std::size_t keys = 0;
  for (int step = 0; step < 50; ++step) {
    all.push_back(all.empty() ? std::make_unique<One>() : std::make_unique<One>(std::move(*all.back())));
    (void)train(scaler, *all.back(), ordinary(step), Way::step);
    scaler.update();
    const headroom::StateDict state = scaler.state_dict();
    const auto count = static_cast<std::size_t>(std::distance(state.begin(), state.end()));
    if (step == 0) keys = count;
    CHECK(count == keys);
  }
  CHECK(scaler.get_spike_guard()->values().size() == 8);
}

TEST_CASE("an optimizer that may be another one has to say which window is its own") {
  const char* const message = "call use_spike_guard(place) first";
  GradScaler<> scaler;
  scaler.set_spike_guard(SpikeGuard(8));
  One first, second;
  const auto step = [&](One& optimizer) { (void)train(scaler, optimizer, 1.0F, Way::step); };
  const auto refused = [&](One& optimizer) {
    const headroom::StateDict before = scaler.state_dict();
    const int steps = optimizer.steps;
    CHECK_THAT(logic_error_of([&] { step(optimizer); }), ContainsSubstring(message));
    CHECK(scaler.state_dict() == before);
    CHECK(optimizer.steps == steps);
  };
  const auto sizes = [&] {
    std::vector<std::size_t> all;
    while (const auto guard = scaler.get_spike_guard(all.size())) all.push_back(guard->values().size());
    return all;
  };
  using Sizes = std::vector<std::size_t>;
  step(first);
  scaler.update();
  refused(second);  // taking turns
  scaler.use_spike_guard(1);
  step(second);
  scaler.update();
  CHECK(sizes() == Sizes{1, 1});
  step(first);
  step(second);  // in order
  scaler.update();
  CHECK(sizes() == Sizes{2, 2});
  refused(second);  // in another one
  scaler.use_spike_guard(1);
  step(second);
  One third;
  step(third);  // those behind it get the next windows
  scaler.use_spike_guard(0);
  step(first);
  scaler.update();
  CHECK(sizes() == Sizes{3, 3, 1});

  One moved;  // with its gradients
  refused(moved);
  scaler.use_spike_guard(0);
  step(moved);
  scaler.update(1024.0F);
  step(moved);  // once is enough
  scaler.use_spike_guard(0);
  CHECK_THAT(logic_error_of([&] { step(second); }), ContainsSubstring("give use_spike_guard another place"));
  scaler.use_spike_guard(1);
  step(second);
  scaler.use_spike_guard(2);  // for nobody
  scaler.update();
  CHECK(sizes() == Sizes{4, 4, 1});
  step(moved);
  scaler.update();
  CHECK(sizes() == Sizes{5, 4, 1});

  scaler.set_reducer([](const GradientSums&) -> GradientSums { throw std::runtime_error("no network"); });
  scaler.use_spike_guard(1);
  moved.grads = {2.0F * scaler.scale(1.0F)};
  CHECK_THROWS_AS(scaler.unscale_and_clip_(moved, 1.0), std::runtime_error);
  scaler.set_reducer(nullptr);
  (void)scaler.unscale_and_clip_(moved, 1.0);  // the same call again
  (void)scaler.step(moved);
  scaler.update();
  CHECK(scaler.get_spike_guard(1)->values().back() == 2.0);

  CHECK_THAT(message_of([&] { scaler.use_spike_guard(1024); }), ContainsSubstring("place is 1024; it must be below 1024"));
  scaler.set_spike_guard(std::nullopt);
  scaler.use_spike_guard(1);
  step(first);
  scaler.update();
  CHECK(sizes().empty());
}

TEST_CASE("places are those of all optimizers of the iteration: without gradients, or unscaled before there was a guard") {
  GradScaler<> scaler;
  One first, second, last;
  struct Other {  // of another type, with the same gradients
    Weights& grads;
    Weights& gradients() { return grads; }
    void step(GradientFactor) {}
  } other{first.grads};
  struct Empty {
    std::vector<Weights> grads;
    std::vector<Weights>& gradients() { return grads; }
    void step(GradientFactor) {}
  } empty;
  const auto sizes = [&](std::size_t place) { return scaler.get_spike_guard(place)->values().size(); };
  (void)train(scaler, first, 1.0F, Way::step);
  (void)train(scaler, second, 1.0F, Way::step);
  scaler.set_spike_guard(SpikeGuard(8));
  (void)train(scaler, last, 1.0F, Way::step);
  scaler.update();
  CHECK(sizes(0) + sizes(1) == 0);
  CHECK(sizes(2) == 1);
  scaler.use_spike_guard(3);
  CHECK(scaler.step(empty).reason == SkipReason::no_gradients);
  (void)train(scaler, last, 1.0F, Way::step);
  scaler.update();
  CHECK(sizes(3) == 0);
  CHECK(sizes(4) == 1);
  (void)train(scaler, first, 1.0F, Way::step);
  scaler.update();
  first.grads = {0.0F, scaler.scale(1.0F)};
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(other); }), ContainsSubstring("use_spike_guard"));
}

TEST_CASE("in the other thread the window is named for what is submitted next") {
  headroom::AsyncGradScaler<> scaler;
  scaler.configure([](auto& settings) { settings.set_spike_guard(SpikeGuard(8)); });
  One first, second;
  const auto iterate = [&](One& optimizer, std::size_t place) {
    optimizer.grads = {scaler.scale(1.0F)};
    scaler.configure([place](auto& settings) { settings.use_spike_guard(place); });
    (void)scaler.submit(optimizer);
    scaler.update(false);
  };
  iterate(first, 0);
  iterate(second, 1);
  iterate(first, 0);
  std::vector<std::size_t> sizes;
  scaler.configure([&sizes](auto& settings) {
    while (const auto guard = settings.get_spike_guard(sizes.size())) sizes.push_back(guard->values().size());
  });
  scaler.synchronize();
  CHECK(sizes == std::vector<std::size_t>{2, 1});
}

TEST_CASE("loaded windows go to the optimizers by their places, gradients or not") {
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
  CHECK_THAT(message_of([&] { loaded.load_state_dict(bad); }), ContainsSubstring(" spike_guard.1.window is 2"));
  bad = state;
  bad.set("counter", -1);
  CHECK_THROWS(loaded.load_state_dict(bad));
  CHECK(loaded.get_spike_guard(0) == SpikeGuard(8, 5.0));
  CHECK(loaded.policy() == headroom::DynamicLossScale());
}

TEST_CASE("what is wrong with the state of a guard is named by its whole key") {
  GradScaler<> scaler;
  scaler.set_spike_guard(SpikeGuard(8));
  std::vector<One> optimizers(3);
  for (One& optimizer : optimizers) (void)train(scaler, optimizer, 1.0F, Way::step);
  scaler.update();
  const headroom::StateDict state = scaler.state_dict();
  const auto refused = [&state](const char* key, const std::optional<headroom::StateValue>& value) {
    headroom::StateDict bad = state;
    value ? bad.set(key, *value) : (void)bad.erase(key);
    GradScaler<> loaded;
    return message_of([&] { loaded.load_state_dict(bad); });
  };
  CHECK_THAT(refused("spike_guard.1.version", 0), ContainsSubstring(" spike_guard.1.version is 0"));
  CHECK_THAT(refused("spike_guard.1.version", 2), ContainsSubstring(" spike_guard.1.version is 2, the state of a newer"));
  CHECK_THAT(refused("spike_guard.1.version", "1"), ContainsSubstring(" spike_guard.1.version is '1'"));
  CHECK_THAT(refused("spike_guard.1.policy", "dynamic"), ContainsSubstring(" spike_guard.1.policy is 'dynamic'"));
  CHECK_THAT(refused("spike_guard.1.rule", "none"), ContainsSubstring(" spike_guard.1.rule is 'none'"));
  CHECK_THAT(refused("spike_guard.1.window", 7), ContainsSubstring(" spike_guard.1.window is 7"));
  CHECK_THAT(refused("spike_guard.1.window", 8.5), ContainsSubstring(" spike_guard.1.window is 8.5"));
  CHECK_THAT(refused("spike_guard.2.sigmas", 0.0), ContainsSubstring(" spike_guard.2.sigmas is 0"));
  CHECK_THAT(refused("spike_guard.2.sigmas", "6"), ContainsSubstring(" spike_guard.2.sigmas is '6'"));
  CHECK_THAT(refused("spike_guard.0.values", "3ff"), ContainsSubstring(" spike_guard.0.values is '3ff'"));
  CHECK_THAT(refused("spike_guard.0.values", 1), ContainsSubstring(" spike_guard.0.values is 1"));
  CHECK_THAT(refused("spike_guard.1.more", 3), ContainsSubstring("'spike_guard.1.more' is unknown"));
  CHECK_THAT(refused("spike_guard.1.main_scale", 1.0), ContainsSubstring("'spike_guard.1.main_scale' is unknown"));
  for (const auto& [key, value] : state) {
    if (key.find("spike_guard.") != 0) continue;
    CHECK_THAT(refused(key.c_str(), std::nullopt), ContainsSubstring("'" + key + "' is missing"));
  }

  headroom::StateDict without;  // a hole
  for (const auto& [key, value] : state) {
    if (key.find("spike_guard.1.") != 0) without.add(key, value);
  }
  CHECK_THAT(message_of([&] { scaler.load_state_dict(without); }),
             ContainsSubstring("'spike_guard.1.version' is missing") && ContainsSubstring("'spike_guard.2.version' is there"));
  CHECK(scaler.state_dict() == state);
  CHECK_THAT(refused("spike_guard.03.window", 8),
             ContainsSubstring("'spike_guard.3.version' is missing") && ContainsSubstring("'spike_guard.03.window' is there"));
}

TEST_CASE("as many guards as there may be are read in whatever order") {
  GradScaler<> scaler;
  scaler.set_spike_guard(SpikeGuard(8));
  std::vector<One> optimizers(1024);
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    (void)train(scaler, optimizers[i], 1.0F + static_cast<float>(i), Way::step);
  }
  scaler.update();
  GradScaler<> loaded;
  loaded.load_state_dict(scaler.state_dict());
  CHECK(loaded.state_dict() == scaler.state_dict());

  const headroom::StateDict state = scaler.state_dict();
  std::vector<headroom::StateDict::Entry> entries(state.begin(), state.end());
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  headroom::StateDict sorted;  // as JSON may be, 10 before 2
  for (const auto& [key, value] : entries) sorted.add(key, value);
  loaded.load_state_dict(sorted);
  CHECK(loaded.state_dict() == state);
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
    scaler.use_spike_guard(swapped ? 1 : 0);
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
