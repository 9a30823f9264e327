#include <headroom/dtype/half.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/gradient_passes.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using headroom::GradientFactor;
using headroom::GradientReport;
using headroom::GradientSums;
using headroom::GradScaler;
using headroom::half;
using headroom::LossScaleConfig;
using support::infinity;
using support::logic_error_of;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

/// One whose passes end halfway.
struct Breaking {
  Weights grads;
  bool breaks = false;
  void step() {}
};

/// An optimizer whose gradients nobody but its traits may touch.
struct Remote {
  Weights grads;
  std::vector<std::string> calls;
  std::size_t threads = 0;
};

}  // namespace

template <>
struct headroom::optimizer_traits<Remote> {
  static Weights& gradients(Remote& optimizer) {
    current = &optimizer;
    return optimizer.grads;
  }
  static void step(Remote&, GradientFactor) {}
  static GradientReport unscale(const ParallelExecutor& executor, Weights& grads, float scale) {
    current->threads = executor.concurrency();
    current->calls.push_back("unscale");
    return headroom::unscale_in_place(executor, grads, scale);
  }
  static GradientNorm measure(const ParallelExecutor& executor, const Weights& grads) {
    current->calls.push_back("measure");
    return headroom::measure(executor, grads);
  }
  static GradientReport scale(const ParallelExecutor& executor, Weights& grads, double factor) {
    current->calls.push_back("scale");
    return headroom::unscale_in_place(executor, grads, static_cast<float>(1.0 / factor));
  }
  static inline Remote* current = nullptr;
};

template <>
struct headroom::optimizer_traits<Breaking> {
  static Weights& gradients(Breaking& optimizer) {
    breaks = optimizer.breaks;
    return optimizer.grads;
  }
  static void step(Breaking&) {}
  static GradientReport unscale(const ParallelExecutor& executor, Weights& grads, float scale) {
    return multiplied(executor, grads, 1.0 / static_cast<double>(scale));
  }
  static GradientNorm measure(const ParallelExecutor& executor, const Weights& grads) {
    return headroom::measure(executor, grads);
  }
  static GradientReport scale(const ParallelExecutor& executor, Weights& grads, double factor) {
    return multiplied(executor, grads, factor);
  }
  static GradientReport multiplied(const ParallelExecutor& executor, Weights& grads, double factor) {
    grads[0] *= static_cast<float>(factor);
    if (breaks) throw std::bad_alloc();
    for (std::size_t i = 1; i < grads.size(); ++i) grads[i] *= static_cast<float>(factor);
    return headroom::measure(executor, grads);
  }
  static inline bool breaks = false;
};

TEST_CASE("the combined report is that of all optimizers") {
  const GradientReport small{true, 1.0}, large{true, 2.0}, bad{false, static_cast<double>(infinity())};
  CHECK(headroom::detail::combined(small, large).max_abs == 2.0);
  CHECK(headroom::detail::combined(large, small).max_abs == 2.0);
  CHECK_FALSE(headroom::detail::combined(bad, small).finite);
  CHECK_FALSE(headroom::detail::combined(small, bad).finite);
  CHECK_FALSE(headroom::detail::combined(GradientReport{false, 0.0}, small).finite);  // as traits of a user's own may say it
  CHECK_FALSE(headroom::detail::combined(small, GradientReport{false, 0.0}).finite);
}

TEST_CASE("gradients elsewhere are left to the functions of their optimizer_traits") {
  Remote optimizer{{2048.0F}, {}, 0};
  GradScaler scaler(presets::torch(1024.0));
  CHECK(scaler.unscale_(optimizer).max_abs == 2.0);
  CHECK(optimizer.calls == std::vector<std::string>{"unscale"});
  scaler.update();
  optimizer = {{2048.0F}, {}, 0};
  CHECK(scaler.unscale_and_clip_(optimizer, 0.5).norm == 2.0);
  CHECK(optimizer.grads == Weights{0.5F});
  CHECK(optimizer.calls == std::vector<std::string>{"measure", "scale"});
  scaler.update();
  optimizer = {{2048.0F}, {}, 0};
  CHECK(scaler.unscale_and_clip_(optimizer, 5.0).norm == 2.0);
  CHECK(optimizer.grads == Weights{2.0F});
  CHECK(optimizer.calls == std::vector<std::string>{"measure", "unscale"});
  scaler.update();
  scaler.set_deferred(true);
  optimizer = {{2048.0F}, {}, 0};
  CHECK(scaler.unscale_(optimizer).max_abs == 2.0);
  CHECK(optimizer.calls == std::vector<std::string>{"measure"});
}

#if HEADROOM_EXCEPTIONS
TEST_CASE("gradients that a pass has left half unscaled are not unscaled again") {
  Breaking optimizer;
  GradScaler scaler(headroom::ConstantLossScale(2.0F));
  for (const bool clips : {false, true}) {
    optimizer.grads = {8.0F, 8.0F};
    optimizer.breaks = true;
    CHECK_THROWS_AS(clips ? (void)scaler.unscale_and_clip_(optimizer, 1.0) : (void)scaler.unscale_(optimizer), std::bad_alloc);
    optimizer.breaks = false;
    const Weights left = optimizer.grads;
    CHECK(left != Weights{8.0F, 8.0F});
    CHECK(scaler.step(optimizer).skipped);
    CHECK(optimizer.grads == left);
    scaler.update();
  }
}

TEST_CASE("a call that was refused before anything was written can be repeated") {
  const auto shared = std::make_shared<Weights>(Weights{8.0F});
  struct Tied {
    std::vector<std::shared_ptr<Weights>> grads;
    auto& gradients() { return grads; }
    void step() {}
  } optimizer{{shared, shared}};
  GradScaler scaler(headroom::ConstantLossScale(2.0F));
  CHECK_THAT(support::message_of([&] { (void)scaler.step(optimizer); }), ContainsSubstring("share elements"));
  optimizer.grads.pop_back();
  CHECK_FALSE(scaler.step(optimizer).skipped);
  CHECK(*shared == Weights{4.0F});
}
#endif

TEST_CASE("what overflows when it is unscaled and clipped is an overflow") {
  LossScaleConfig config;
  config.initial_scale = 0.5F;
  config.min_scale = 0.25F;
  GradScaler scaler{headroom::DynamicLossScale(config)};
  Remote optimizer{{0x1.8p127F}, {}, 0};
  const auto norm = scaler.unscale_and_clip_(optimizer, 1e300);
  CHECK_FALSE(norm.finite);
  CHECK(scaler.step(optimizer).skipped);
}

TEST_CASE("an executor that is set is the one that works") {
  Remote optimizer{{2048.0F}, {}, 0};
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(optimizer);
  CHECK(optimizer.threads == 1);
  scaler.update();
  scaler.set_executor(headroom::parallel(3));
  (void)scaler.scale(1.0F);
  (void)scaler.unscale_(optimizer);
  CHECK(optimizer.threads == 3);
}

TEST_CASE("several threads find the same") {
  GradScaler scaler(presets::torch());
  scaler.set_executor(headroom::parallel(2));
  Sgd optimizer{Weights(1000000, 1.0F), Weights(1000000, 65536.0F)};
  optimizer.grads.back() = -131072.0F;
  CHECK(scaler.step(optimizer).report.max_abs == 2.0);
  CHECK(optimizer.weights.front() == 0.0F);
  CHECK(optimizer.weights.back() == 3.0F);
}

TEST_CASE("clipped gradients are those that were left, however they were rounded, when another loss has been scaled") {
  std::mt19937 random(support::seed);
  for (const double scale : {32768.0, 30000.0, 1.0}) {
    for (int run = 0; run < 200; ++run) {
      const auto gradient = static_cast<float>(random() % 1000 + 1) * 0.001F;
      struct Narrow {
        std::vector<headroom::half> grads;
        std::vector<headroom::half>& gradients() { return grads; }
        void step() {}
      };
      GradScaler scaler(presets::torch(scale));
      Sgd d{{0.0F, 0.0F}, {}}, g{{0.0F}, {}};
      d.grads = {scaler.scale(gradient), scaler.scale(0.3F)};
      Narrow narrow{{headroom::half(gradient), headroom::half(0.3F)}};
      const double max_norm = run % 2 == 0 ? 0.05 : 10.0;
      (void)scaler.unscale_and_clip_(d, max_norm);
      (void)scaler.unscale_and_clip_(narrow, max_norm * 1e-5);
      g.grads = {scaler.scale(1.0F)};
      REQUIRE_FALSE(scaler.step(d).skipped);
      REQUIRE_FALSE(scaler.step(narrow).skipped);
      REQUIRE_FALSE(scaler.step(g).skipped);
    }
  }
}

TEST_CASE("gradients without elements are a step with nothing to unscale; no gradients at all are none") {
  struct Module {
    std::vector<Weights> grads;
    int steps = 0;
    std::vector<Weights>& gradients() { return grads; }
    int step() { return ++steps; }
  };
  GradScaler scaler(presets::torch(1024.0));
  Module frozen{{{}, {}}}, before_backward{};
  const auto result = scaler.step(frozen);
  CHECK_FALSE(result.skipped);
  CHECK(result.report.finite);
  CHECK(result.report.max_abs == 0.0);
  CHECK(frozen.steps == 1);
  scaler.update();
  CHECK(scaler.policy().counter() == 1);
  CHECK(scaler.unscale_and_clip_(frozen, 1.0).norm == 0.0);
  CHECK(scaler.step(before_backward).reason == headroom::SkipReason::no_gradients);
  CHECK(before_backward.steps == 0);
}

TEST_CASE("a norm beyond all doubles counts as an overflow where gradients are clipped, and nowhere else") {
  struct Doubles {
    std::vector<double> grads;
    std::vector<double>& gradients() { return grads; }
    void step() {}
    void step(GradientFactor) {}
  };
  for (const bool enabled : {true, false}) {
    GradScaler scaler(presets::torch(1024.0), enabled);
    Doubles large{{1e100 * static_cast<double>(scaler.get_scale())}};
    CHECK(scaler.unscale_and_clip_(large, 1e-100).norm == Approx(1e100));
    CHECK(large.grads[0] == Approx(1e-100));
  }
  const std::vector<double> beyond(16, 1.7e308);
  for (const bool deferred : {true, false}) {
    for (const bool reduces : {true, false}) {
      GradScaler scaler(presets::torch(1024.0));
      scaler.set_deferred(deferred);
      if (reduces) scaler.set_reducer([](const headroom::GradientSums& here) { return here; });
      Doubles optimizer{beyond}, other{beyond};
      CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 4.0).finite);
      CHECK(scaler.step(optimizer).skipped);
      CHECK(scaler.unscale_(other).finite);
      CHECK_FALSE(scaler.step(other).skipped);
    }
  }
  GradScaler disabled(presets::torch(), false);
  Doubles optimizer{beyond};
  CHECK_FALSE(disabled.unscale_and_clip_(optimizer, 4.0).finite);
  CHECK(optimizer.grads == beyond);
}

TEST_CASE("deferred and in place agree on what overflows, in every dtype") {
  const auto check = [](auto gradient, float scale, bool finite, bool has_norm = true) {
    using T = decltype(gradient);
    struct Fused {
      std::tuple<Weights, std::vector<T>> grads;
      std::tuple<Weights, std::vector<T>>& gradients() { return grads; }
      void step(GradientFactor) {}
    };
    Fused in_place{{{1.0F}, {gradient}}}, deferred = in_place;
    for (const bool clips : {false, true}) {
      GradScaler first{headroom::ConstantLossScale(scale)}, second = first;
      second.set_deferred(true);
      const auto found = [&](auto& scaler, Fused optimizer) {
        headroom::GradientReport report = clips ? scaler.unscale_and_clip_(optimizer, 1e300) : scaler.unscale_(optimizer);
        return report;
      };
      const auto a = found(first, in_place), b = found(second, deferred);
      CHECK(a.finite == (finite && (has_norm || !clips)));
      CHECK(b.finite == a.finite);
      CHECK(support::bits_of(a.max_abs) == support::bits_of(b.max_abs));
    }
  };
  check(1e300, 0.5F, true, false);  // its square is beyond double
  check(1e308, 0.5F, false);
  check(1e100, 1024.0F, true);
  check(0x1p126F, 0.25F, false);
  check(0x1p126F, 0.5F, true);
  check(0x1p100F, 1024.0F, true);
}
