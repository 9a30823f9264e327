#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AsyncGradScaler;
using headroom::AsyncGradScalerConfig;
using headroom::GradScaler;
using support::infinity;
using support::logic_error_of;
using support::Sgd;
using support::Stateless;
using support::Weights;
namespace presets = headroom::presets;

namespace {

void wait_a_moment(std::mt19937& random) {
  const auto kind = random() % 64;
  if (kind == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
  if (kind < 8) std::this_thread::yield();
}

}  // namespace

TEST_CASE("the optimizer unscales and steps in another thread, by the scale of its loss") {
  Sgd optimizer{{1.0F, 2.0F}, {}};
  AsyncGradScaler scaler(presets::torch());
  const float loss = scaler.scale(1.0F);
  CHECK(loss == 65536.0F);
  optimizer.grads = {0.5F * loss, -1.0F * loss};
  auto future = scaler.submit(optimizer, 0.5F);
  scaler.update();
  scaler.synchronize();
  const auto result = future.get();
  CHECK_FALSE(result.skipped);
  CHECK(result.value == 1);
  CHECK(result.report.max_abs == 1.0);
  CHECK(optimizer.weights == Weights{0.75F, 2.5F});
  CHECK(optimizer.thread != std::this_thread::get_id());
  CHECK(scaler.policy(true) == presets::torch().adjust(true));
}

TEST_CASE("RoundPipe's recorded sequences are followed, asynchronous and synchronous") {
  std::size_t followed = 0, differences = 0;
  for (const auto& trace : support::golden("roundpipe.trace")) {
    const bool is_async = trace.config_or("is_async", 0.0) != 0.0;
    const auto policy = presets::torch(trace.config_or("initial_scale", 65536.0), 2.0, 0.5,
                                       static_cast<std::int64_t>(trace.config_or("growth_interval", 2000.0)));
    AsyncGradScalerConfig config;
    config.backs_off_twice = true;
    Stateless optimizer{{1.0F}}, other{{1.0F}};
    AsyncGradScaler scaler(policy, config), unobserved(policy, config);
    const auto &main = trace.scales.at("scale_main"), &pending = trace.scales.at("scale_pending");
    for (std::size_t step = 0; step < main.size(); ++step) {
      const Weights grads = {trace.overflow[step] ? infinity() : 1.0F};
      (void)scaler.submit_gradients(optimizer, grads);
      scaler.update(is_async);
      differences += static_cast<double>(scaler.get_scale()) != main[step] ? 1 : 0;
      differences += static_cast<double>(scaler.policy(true).loss_scale()) != pending[step] ? 1 : 0;
      (void)unobserved.submit_gradients(other, grads);
      unobserved.update(is_async);
      differences += static_cast<double>(unobserved.get_scale()) != main[step] ? 1 : 0;
    }
    INFO(trace.name);
    CHECK(differences == 0);
    ++followed;
  }
  CHECK(followed == 25);
}

TEST_CASE("one scale that is too large backs off once, or twice as in RoundPipe") {
  for (const bool twice : {false, true}) {
    AsyncGradScalerConfig config;
    config.backs_off_twice = twice;
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0), config);
    int skipped = 0;
    std::vector<std::future<headroom::StepResult<void>>> results;
    for (int step = 0; step < 6; ++step) {  // 1024 is too large, 512 is not
      const float loss = scaler.scale(1.0F);
      results.push_back(scaler.submit_gradients(optimizer, Weights{loss > 512.0F ? infinity() : loss}));
      scaler.update();
    }
    for (auto& result : results) skipped += result.get().skipped ? 1 : 0;
    CHECK(skipped == 2);
    CHECK(optimizer.weights == Weights{1.0F - 4.0F});
    CHECK(scaler.policy(true).loss_scale() == (twice ? 256.0F : 512.0F));
  }
}

TEST_CASE("an iteration keeps the scale that its loss was scaled with, whoever waits meanwhile") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));  // grows every step
  (void)scaler.submit_gradients(optimizer, Weights{1024.0F});
  scaler.update();
  const float loss = scaler.scale(1.0F);
  CHECK(loss == 1024.0F);
  scaler.synchronize();
  CHECK(scaler.policy(true).loss_scale() == 2048.0F);
  (void)scaler.submit_gradients(optimizer, Weights{loss});
  scaler.update();
  scaler.synchronize();
  CHECK(optimizer.weights == Weights{-1.0F});  // two steps by 1
}

TEST_CASE("synchronous updates are those of GradScaler") {
  AsyncGradScaler async(presets::torch(65536.0, 2.0, 0.5, 3));
  GradScaler scaler(presets::torch(65536.0, 2.0, 0.5, 3));
  Sgd a{{1.0F}, {}}, b{{1.0F}, {}};
  std::mt19937 random(support::seed);
  for (int step = 0; step < 200; ++step) {
    const float grad = random() % 4 == 0 ? infinity() : 0.5F;
    a.grads = {grad * async.scale(1.0F)};
    b.grads = {grad * scaler.scale(1.0F)};
    (void)async.submit(a);
    async.update(false);
    (void)scaler.step(b);
    scaler.update();
    REQUIRE(a.weights == b.weights);
    REQUIRE(async.get_scale() == scaler.get_scale());
    REQUIRE(async.policy() == scaler.policy());
  }
}

TEST_CASE("a hundred thousand iterations with random delays") {
  constexpr int steps = support::cases(100000);
  AsyncGradScaler scaler(presets::torch(65536.0, 2.0, 0.5, 20));
  struct Delayed {
    std::mt19937 random{support::seed};
    double sum = 0.0;
    std::int64_t steps = 0;
    void step(Weights& grads) {
      wait_a_moment(random);
      sum += static_cast<double>(grads[0]);
      ++steps;
    }
  } optimizer;
  std::mt19937 random(support::seed + 1);
  std::int64_t skipped = 0;
  std::future<headroom::StepResult<void>> last;
  for (int step = 0; step < steps; ++step) {
    wait_a_moment(random);
    const float loss = scaler.scale(1.0F);
    const bool overflows = loss > 0x1p24F || random() % 100 == 0;
    auto result = scaler.submit_gradients(optimizer, Weights{overflows ? infinity() : loss, 0.0F});
    if (last.valid()) skipped += last.get().skipped ? 1 : 0;
    last = std::move(result);
    scaler.update(random() % 100 != 0);
    if (random() % 1000 == 0) scaler.synchronize();
    if (random() % 1000 == 0) (void)scaler.policy(random() % 2 == 0);
  }
  skipped += last.get().skipped ? 1 : 0;
  scaler.synchronize();
  CHECK(optimizer.steps + skipped == steps);
  CHECK(optimizer.sum == static_cast<double>(optimizer.steps));  // each unscaled by its own scale, to exactly 1
  CHECK(skipped > steps / 200);
}

TEST_CASE("what std::ref refers to stays where it is; what is copied is moved on") {
  struct Logs {
    Weights grads;
    std::vector<std::string> seen{};
    Weights& gradients() { return grads; }
    void step(std::vector<std::string>& log, std::unique_ptr<int> number) {
      log.push_back(std::to_string(*number));
      seen = log;
    }
  };
  Logs optimizer{{1024.0F}};
  std::vector<std::string> log{"a line that is too long to be kept without an allocation"};
  AsyncGradScaler scaler(presets::torch(1024.0));
  (void)scaler.submit(optimizer, std::ref(log), std::make_unique<int>(7));
  scaler.update();
  scaler.synchronize();
  CHECK(log.size() == 2);
  CHECK(log.back() == "7");
  CHECK(optimizer.seen == log);
}

TEST_CASE("clipping over there is by the scale of the loss, and by the norm of unscaled gradients") {
  Sgd by_member{{0.0F, 0.0F}, {}};
  Stateless by_hand{{0.0F, 0.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));  // grows every step
  for (int step = 0; step < 3; ++step) {
    const float loss = scaler.scale(1.0F);
    const Weights grads = {3.0F * loss, -4.0F * loss};
    by_member.grads = grads;  // the other thread's from here on
    auto member = scaler.submit_and_clip(by_member, 2.5);
    auto hand = scaler.submit_gradients_and_clip(by_hand, grads, 2.5);
    CHECK(member.get().norm == 5.0);
    scaler.update();
    CHECK_FALSE(hand.get().skipped);
  }
  scaler.synchronize();
  CHECK(by_member.weights == Weights{-4.5F, 6.0F});
  CHECK(by_hand.weights == Weights{-4.5F, 6.0F});
  CHECK(scaler.policy(true).loss_scale() == 8192.0F);
  CHECK_THROWS_AS(scaler.submit_and_clip(by_member, -1.0), std::invalid_argument);
  by_member.grads = {infinity(), 0.0F};
  auto overflow = scaler.submit_and_clip(by_member, 1.0);
  scaler.update();
  CHECK(overflow.get().skipped);
}

TEST_CASE("a finite iteration at a scale that has been lowered since still counts") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 10));
  (void)scaler.submit_gradients(optimizer, Weights{infinity()});
  scaler.update();
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});  // by 1024 still
  scaler.update();
  scaler.synchronize();
  CHECK(scaler.policy(true).loss_scale() == 512.0F);
  CHECK(scaler.policy(true).counter() == 1);
  CHECK(optimizer.weights == Weights{0.0F});
}

TEST_CASE("an iteration that begins with a synchronize has the scale decided last, one that has begun keeps its own") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.update();
  scaler.synchronize();
  CHECK(scaler.get_scale() == 2048.0F);  // nobody has scaled a loss since the update
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.configure([](auto& there) { there.update(16.0F); });
  scaler.synchronize();
  CHECK(scaler.get_scale() == 2048.0F);  // something has been submitted
  scaler.update();
  scaler.synchronize();
  (void)scaler.submit_gradients(optimizer, Weights{scaler.get_scale()});  // by who multiplies himself
  scaler.configure([](auto& there) { there.update(16.0F); });
  scaler.synchronize();
  CHECK(scaler.get_scale() == 32.0F);
  scaler.load_state_dict(GradScaler(presets::torch(64.0)).state_dict());
  CHECK_THAT(logic_error_of([&] { scaler.update(); }), ContainsSubstring("nothing has been submitted"));
  CHECK(scaler.get_scale() == 64.0F);
  scaler.synchronize();
  CHECK(scaler.get_scale() == 64.0F);
}
