#include <headroom/dtype/half.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <atomic>
#include <cfenv>
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

using namespace headroom;
using namespace support;

namespace {

void wait_a_moment(std::mt19937& random) {
  const auto kind = random() % 64;
  if (kind == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
  if (kind < 8) std::this_thread::yield();
}

/// An iteration with one optimizer, whose gradient of the unscaled loss is 1.
template <class Optimizer>
void iterate(AsyncGradScaler<>& scaler, Optimizer& optimizer) {
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.update();
}

}  // namespace

TEST_CASE("another thread unscales and steps; calls in the wrong order are logic errors") {
  Sgd optimizer{{1.0F, 2.0F}, {}};
  AsyncGradScaler scaler(presets::torch());
  CHECK_LOGIC_ERROR("update: nothing has been submitted", scaler.update());
  const float loss = scaler.scale(1.0F);
  CHECK(loss == 65536.0F);
  optimizer.grads = {0.5F * loss, -1.0F * loss};
  auto future = scaler.submit(optimizer, 0.5F);
  CHECK_LOGIC_ERROR("submitted since the last update", scaler.submit(optimizer));
  CHECK_LOGIC_ERROR("state_dict: call update before", scaler.state_dict());
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

TEST_CASE("a step has the rounding mode and flush-to-zero of the call that submits it") {
  struct Modes {
    int rounding = -1;
    unsigned flush_to_zero = 1;
    void step(Weights&) {
      rounding = std::fegetround();
#if defined(__SSE2__)
      flush_to_zero = __builtin_ia32_stmxcsr() & 0x8000U;
#endif
    }
  } optimizer;
  std::fenv_t usual;
  std::fegetenv(&usual);
  AsyncGradScaler<> scaler;
  const auto step = [&] {
    (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)}).get();
    scaler.update();
  };
  for (const int mode : {FE_UPWARD, FE_TONEAREST}) {
    std::fesetround(mode);
    step();
    CHECK(optimizer.rounding == mode);
  }
#if defined(__SSE2__)
  for (const unsigned flush_to_zero : {0x8000U, 0U}) {
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~0x8000U) | flush_to_zero);
    step();
    CHECK(optimizer.flush_to_zero == flush_to_zero);
  }
#endif
  std::fesetenv(&usual);
}

TEST_CASE("an AsyncGradScaler follows RoundPipe's recorded sequences") {
  for (const auto& trace : support::golden("roundpipe")) {
    INFO(trace.name);
    AsyncGradScalerConfig config;
    config.backs_off_twice = true;
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(
        presets::torch(trace.real("init_scale"), trace.real("growth_factor"),
                       trace.real("backoff_factor"), trace.whole("growth_interval")),
        config);
    std::vector<double> scales;
    for (const double overflow : trace.overflow) {
      (void)scaler.submit_gradients(optimizer, Weights{overflow != 0.0 ? infinity() : 1.0F});
      scaler.update();
      scales.push_back(static_cast<double>(scaler.get_scale()));
    }
    CHECK(scales == trace.scale);
  }
}

TEST_CASE("two overflows at one scale lower it once, or twice as in RoundPipe") {
  for (const bool twice : {false, true}) {
    AsyncGradScalerConfig config;
    config.backs_off_twice = twice;
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0), config);
    int skipped = 0;
    std::vector<std::future<StepResult<void>>> results;
    for (int step = 0; step < 6; ++step) {  // 1024 is too large, 512 is not
      const float loss = scaler.scale(1.0F);
      results.push_back(
          scaler.submit_gradients(optimizer, Weights{loss > 512.0F ? infinity() : loss}));
      scaler.update();
    }
    for (auto& result : results) skipped += result.get().skipped ? 1 : 0;
    CHECK(skipped == 2);
    CHECK(optimizer.weights == Weights{1.0F - 4.0F});
    CHECK(scaler.policy(true).loss_scale() == (twice ? 256.0F : 512.0F));
  }
}

TEST_CASE("gradients are divided by the scale of their loss, also if synchronize was called") {
  struct Throws {
    void step(Weights&) { throw std::runtime_error("disk full"); }
  } failing;
  for (const bool throws : {false, true}) {
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));  // grows every step
    (void)scaler.submit_gradients(optimizer, Weights{1024.0F});
    scaler.update();
    const float loss = scaler.scale(1.0F);
    CHECK(loss == 1024.0F);
    if (throws) {
      (void)scaler.submit_gradients(failing, Weights{loss});
      CHECK_THROWS_AS(scaler.synchronize(), std::runtime_error);
    }
    if (!throws) scaler.synchronize();
    CHECK(scaler.policy(true).loss_scale() == 2048.0F);
    (void)scaler.submit_gradients(optimizer, Weights{loss});
    scaler.update(false);
    CHECK(optimizer.weights == Weights{-1.0F});  // two steps of 1
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
  std::future<StepResult<void>> last;
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
  CHECK(optimizer.sum ==
        static_cast<double>(
            optimizer.steps));  // each gradient was divided by its own scale, which gives exactly 1
  CHECK(skipped > steps / 200);
}

TEST_CASE("submit passes std::ref arguments by reference, and moves the others into step") {
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

TEST_CASE("synchronize makes the newest scale current, except during an iteration") {
  Stateless optimizer{{1.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
  iterate(scaler, optimizer);
  scaler.synchronize();
  CHECK(scaler.get_scale() == 2048.0F);  // no loss has been scaled since the update
  (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  scaler.configure([](auto& there) { there.update(16.0F); });
  scaler.synchronize();
  // Gradients have been submitted, so the iteration keeps its scale
  CHECK(scaler.get_scale() == 2048.0F);
  scaler.load_state_dict(GradScaler(presets::torch(64.0)).state_dict());
  CHECK_LOGIC_ERROR("nothing has been submitted", scaler.update());
  CHECK(scaler.get_scale() == 64.0F);
  scaler.synchronize();
  CHECK(scaler.get_scale() == 64.0F);
}

TEST_CASE("an exception is rethrown by the next call that waits, and abandons the iteration") {
  struct Throws {
    Weights grads{1.0F};
    bool throws = true;
    std::atomic<bool> may_go_on{true};
    Weights& gradients() { return grads; }
    void step() {
      while (!may_go_on) std::this_thread::yield();
      if (throws) throw std::runtime_error("disk full");
    }
  };
  Throws optimizer, behind;
  AsyncGradScaler scaler(presets::torch());
  const auto calls = {+[](AsyncGradScaler<>& s, Throws&) { s.synchronize(); },
                      +[](AsyncGradScaler<>& s, Throws&) { (void)s.policy(true); },
                      +[](AsyncGradScaler<>& s, Throws& o) {
                        s.update();  // neither update nor submit waits for the exception
                        (void)s.submit(o);
                        s.update();
                      }};
  for (const auto call : calls) {
    optimizer.throws = true;
    optimizer.may_go_on = false;
    auto thrown = scaler.submit(optimizer);
    auto dropped = scaler.submit(behind);
    optimizer.may_go_on = true;
    CHECK_THROWS_WITH(call(scaler, optimizer), "disk full");
    CHECK_THROWS_AS(thrown.get(), std::runtime_error);
    CHECK_THROWS_AS(dropped.get(), std::runtime_error);
    CHECK_LOGIC_ERROR("nothing has been submitted", scaler.update());
    optimizer.throws = false;
    const auto before = scaler.policy(true);
    optimizer.grads = {1.0F};
    auto result = scaler.submit(optimizer);
    scaler.update();
    CHECK_FALSE(result.get().skipped);
    CHECK(scaler.policy(true) == before.adjust(true));
  }
}

TEST_CASE("if submit throws, nothing has been submitted, and it can be repeated") {
  struct Argument {
    int* copies_left;
    explicit Argument(int& left) : copies_left(&left) {}
    Argument(const Argument& other) : copies_left(other.copies_left) {
      if ((*copies_left)-- == 0) throw std::runtime_error("copied");
    }
  };
  struct Counts {
    Weights grads{1.0F};
    int steps = 0;
    Weights& gradients() { return grads; }
    void step(const Argument&) { ++steps; }
  } optimizer;
  AsyncGradScaler scaler(ConstantLossScale(1.0F));
  int failures = 0;
  for (bool fails = true; fails; ++failures) {
    int left = failures;
    const Argument argument(left);
    try {
      (void)scaler.submit(optimizer, argument);
      fails = false;
    } catch (const std::runtime_error&) {
      left = 1000;
      CHECK_LOGIC_ERROR("nothing has been submitted", scaler.update());
      (void)scaler.submit(optimizer, argument);
    }
    scaler.update(false);
    REQUIRE(optimizer.steps == failures + 1);
  }
  CHECK(failures > 3);
}

TEST_CASE("submit_gradients takes several optimizers, each once an iteration") {
  Stateless a{{1000.0F}}, b{{1000.0F}};
  AsyncGradScaler scaler(presets::torch(1024.0));
  std::vector<std::future<StepResult<void>>> results;
  for (int step = 0; step < 300; ++step) {
    for (Stateless* optimizer : {&a, &b}) {
      results.push_back(scaler.submit_gradients(*optimizer, Weights{scaler.scale(1.0F)}));
      results.back().wait();  // the submitted gradients are freed, and their address may be reused
      if (optimizer == &b) {
        CHECK_LOGIC_ERROR("submit: this optimizer has been submitted since the last update",
                          scaler.submit_gradients(b, Weights{1.0F}));
      }
    }
    scaler.update();
  }
  scaler.synchronize();
  for (auto& result : results) CHECK_FALSE(result.get().skipped);
  CHECK(a.weights == Weights{700.0F});
  CHECK(b.weights == Weights{700.0F});
}

TEST_CASE("submitted fp16 gradients arrive as floats, and an overflow is reported by path") {
  AsyncGradScaler scaler(presets::torch(1024.0));
  struct Sums {
    float sum = 0.0F;
    void step(std::vector<Weights>& grads) { sum += grads[1][0]; }
  } optimizer, other;
  std::vector<std::vector<half>> narrow{{}, {half(0x1p-20F)}};
  std::vector<Weights> wide{{1.0F}, {1.0F, infinity()}};
  (void)scaler.scale(1.0F);
  (void)scaler.submit_gradients(optimizer, narrow);
  auto overflow = scaler.submit_gradients(other, std::ref(wide));
  scaler.update();
  const auto result = overflow.get();
  REQUIRE(result.nonfinite.has_value());
  CHECK(result.nonfinite->path == "[1]");
  CHECK(result.loss_scale == 1024.0F);
  (void)scaler.scale(1.0F);
  auto nothing = scaler.submit_gradients(optimizer, std::vector<Weights>());
  scaler.update(false);
  CHECK(nothing.get().reason == SkipReason::no_gradients);
  CHECK(optimizer.sum == 0x1p-30F);
  CHECK(scaler.policy() == presets::torch(1024.0).adjust(false));
}

TEST_CASE("the destructor finishes all submitted steps") {
  struct Slow {
    std::atomic<int> steps{0};
    void step(Weights&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++steps;
    }
  };
  Slow first, second;
  {
    AsyncGradScaler<> scaler;
    (void)scaler.submit_gradients(first, Weights{1.0F});
    (void)scaler.submit_gradients(second, Weights{1.0F});
  }
  CHECK(first.steps == 1);
  CHECK(second.steps == 1);
  { const AsyncGradScaler<> idle; }
}

TEST_CASE("when synchronize returns, submitted functions have been destroyed") {
  struct Slow {
    std::atomic<bool>& is_gone;
    ~Slow() {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      is_gone = true;
    }
  };
  std::atomic<bool> is_gone{false};
  AsyncGradScaler scaler(presets::torch());
  scaler.configure([held = std::shared_ptr<Slow>(new Slow{is_gone})](auto&) { (void)held; });
  scaler.synchronize();
  CHECK(is_gone);
}

TEST_CASE("submit_gradients refuses gradients of the previous iteration") {
  for (const bool loads : {false, true}) {
    Stateless a{{1.0F}}, b{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 1));
    const float loss = scaler.scale(1.0F);
    (void)scaler.submit_gradients(a, Weights{loss});
    loads ? scaler.load_state_dict(GradScaler<>().state_dict()) : scaler.update();
    CHECK_LOGIC_ERROR("no loss has been scaled since the last update",
                      scaler.submit_gradients(b, Weights{loss}));
    (void)scaler.submit_gradients(b, Weights{scaler.scale(1.0F)});
    scaler.update();
    scaler.synchronize();
    CHECK(a.weights == Weights{0.0F});
    CHECK(b.weights == Weights{0.0F});
  }
}

TEST_CASE("a scale set by configure applies from the next update on, whichever thread is faster") {
  for (const bool waits : {false, true}) {
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0));
    scaler.configure([](auto& there) { there.update(8.0F); });
    (void)scaler.submit_gradients(optimizer, Weights{1.0F});
    if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    scaler.update();
    CHECK(scaler.get_scale() == 1024.0F);
    (void)scaler.submit_gradients(optimizer, Weights{1.0F});
    scaler.update();
    CHECK(scaler.get_scale() == 8.0F);
  }
}

TEST_CASE("a resumed training equals one that was never stopped") {
  const auto policy = presets::torch(65536.0, 2.0, 0.5, 3);
  Stateless a{{1.0F}}, b{{1.0F}};
  AsyncGradScaler scaler(policy);
  auto resumed = std::make_unique<AsyncGradScaler<>>(policy);
  std::mt19937 random(support::seed);
  for (int step = 0; step < 100; ++step) {
    const StateDict state = resumed->state_dict();
    resumed = std::make_unique<AsyncGradScaler<>>(presets::torch());
    resumed->load_state_dict(state);
    const float grad = random() % 4 == 0 ? infinity() : 0.5F;
    (void)scaler.submit_gradients(a, Weights{grad * scaler.scale(1.0F)});
    (void)resumed->submit_gradients(b, Weights{grad * resumed->scale(1.0F)});
    scaler.update();
    resumed->update();
    REQUIRE(scaler.get_scale() == resumed->get_scale());
    REQUIRE(scaler.policy(true) == resumed->policy(true));
    REQUIRE(a.weights == b.weights);
  }
  GradScaler<> synchronous(presets::torch(8.0));
  resumed->load_state_dict(synchronous.state_dict());
  CHECK(resumed->get_scale() == 8.0F);
  StateDict bad = synchronous.state_dict();
  bad.add("main_scale", 0.0);
  CHECK_INVALID("main_scale is 0", resumed->load_state_dict(bad));
  CHECK_INVALID("main_scale is 0", synchronous.load_state_dict(bad));
  CHECK(resumed->get_scale() == 8.0F);
}

TEST_CASE("a disabled scaler neither scales nor skips, and steps in the other thread") {
  AsyncGradScalerConfig config;
  config.enabled = false;
  AsyncGradScaler scaler(presets::torch(), config);
  Sgd optimizer{{1.0F}, {scaler.scale(0.25F)}};
  auto result = scaler.submit(optimizer);
  scaler.update();
  CHECK_FALSE(result.get().skipped);
  CHECK(optimizer.weights == Weights{0.75F});
  CHECK(scaler.get_scale() == 1.0F);
  CHECK(scaler.state_dict().empty());
  StateDict unread;
  unread.set("main_scale", -1.0);
  scaler.load_state_dict(unread);  // does nothing, so it does not throw
  scaler.update();                 // no error, as in a disabled GradScaler
  // Each one is taken
  for (int step = 0; step < 2; ++step) CHECK_FALSE(scaler.submit(optimizer).get().skipped);
  struct Keeps {
    float first = 0.0F;
    void step(Weights& grads) { first = grads[0]; }
  } keeps;
  CHECK_FALSE(scaler.submit_gradients(keeps, std::vector<half>{half(1.0F)}).get().skipped);
  CHECK(keeps.first == 1.0F);
  scaler.synchronize();
}

TEST_CASE("abandon keeps the scale, and begins an iteration") {
  for (const bool submits : {false, true}) {
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0));
    const float scale = scaler.scale(1.0F);
    if (submits) (void)scaler.submit_gradients(optimizer, Weights{infinity()});
    scaler.abandon();
    scaler.update();  // of the abandoned iteration: no decision, and no error, as in a GradScaler
    CHECK(scaler.policy(true) == presets::torch(1024.0));
    CHECK_LOGIC_ERROR("nothing has been submitted", scaler.update());
    CHECK_LOGIC_ERROR("no loss has been scaled since the last update, abandon or load",
                      scaler.submit_gradients(optimizer, Weights{scale}));
    const auto result = scaler.submit_gradients(optimizer, Weights{scaler.scale(0.5F)});
    scaler.abandon();  // the step is taken, and does not count
    (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(0.25F)});
    scaler.update();
    CHECK(scaler.policy(true) == presets::torch(1024.0).adjust(true));
    CHECK(optimizer.weights == Weights{0.25F});
  }
}

TEST_CASE("after a step has thrown, abandon begins anew, and the next steps are taken") {
  struct Fails {
    int calls = 0;
    void step(Weights&) {
      if (++calls == 1) throw std::runtime_error("disk full");
    }
  } optimizer;
  AsyncGradScaler scaler(presets::torch(4.0));
  auto failed = scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
  CHECK_THROWS_AS(failed.get(), std::runtime_error);
  scaler.abandon();
  for (int i = 0; i < 2; ++i) {
    iterate(scaler, optimizer);
  }
  scaler.synchronize();
  CHECK(optimizer.calls == 3);
  CHECK(scaler.policy() == presets::torch(4.0).adjust(true).adjust(true));
}

TEST_CASE("configure changes only settings, also in the middle of an iteration") {
  const GradScaler saved(presets::torch(8.0));
  for (const bool loads : {false, true}) {
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0));
    (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
    scaler.configure([&](GradScaler<>& there) {
      loads ? there.load_state_dict(saved.state_dict()) : there.update(8.0F);
    });
    scaler.update(false);
    CHECK(scaler.get_scale() == 8.0F);
    // The new scale is for the next iteration, so nothing has adjusted it
    CHECK(scaler.policy(true).counter() == 0);
    iterate(scaler, optimizer);
    scaler.synchronize();
    CHECK(optimizer.weights == Weights{-1.0F});
    scaler.configure([](auto& there) { there.set_policy(presets::torch(64.0)); });
    (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
    scaler.update(false);
    CHECK(scaler.get_scale() == 64.0F);
  }
}

TEST_CASE("a policy set between two updates is not adjusted by gradients of the previous scale") {
  for (const bool waits : {false, true}) {
    Stateless optimizer{{1.0F}};
    AsyncGradScaler scaler(presets::torch(1024.0));
    iterate(scaler, optimizer);
    scaler.configure([](auto& there) { there.set_policy(presets::torch(64.0)); });
    if (waits) scaler.synchronize();  // then the next loss has the scale of the new policy
    CHECK(scaler.get_scale() == (waits ? 64.0F : 1024.0F));
    (void)scaler.submit_gradients(optimizer, Weights{scaler.scale(1.0F)});
    scaler.update(false);
    CHECK(scaler.get_scale() == 64.0F);
    CHECK(scaler.policy().counter() == (waits ? 1 : 0));
    CHECK(optimizer.weights == Weights{-1.0F});
  }
}

TEST_CASE("both scalers can load each other's states, and the policy's") {
  const auto policy = presets::torch(1024.0, 2.0, 0.5, 2);
  Stateless optimizer{{1.0F}};
  AsyncGradScaler async(policy);
  for (const float gradient : {1.0F, infinity(), 1.0F}) {
    (void)async.submit_gradients(optimizer, Weights{gradient * async.scale(1.0F)});
    async.update();
  }
  const StateDict state = async.state_dict();
  REQUIRE(state.contains("main_scale"));
  const auto decided = async.policy(true);
  CHECK(decided.counter() == 1);
  GradScaler<> scaler;
  scaler.load_state_dict(state);
  CHECK(scaler.policy() == decided);
  AsyncGradScaler<> back;
  back.load_state_dict(scaler.state_dict());
  CHECK(back.policy() == decided);
  CHECK(back.get_scale() == scaler.get_scale());
  back.load_state_dict(decided.state_dict());
  CHECK(back.policy() == decided);

  const StateDict of_disabled = GradScaler<>(policy, false).state_dict();
  CHECK_INVALID("disabled scaler", scaler.load_state_dict(of_disabled));
  CHECK_INVALID("disabled scaler", back.load_state_dict(of_disabled));
  CHECK(scaler.policy() == decided);
  CHECK(back.policy() == decided);
}
