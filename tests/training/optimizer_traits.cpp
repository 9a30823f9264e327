#include <headroom/dtype/half.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/optimizer_traits.hpp>

#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using namespace headroom;
using namespace support;

namespace {

/// A class of another library, with fp16 gradients.
struct Foreign {
  std::vector<half> flat;
  bool applied = false;
};

/// Multiplies its gradients by the factor in its own step.
template <class Tree>
struct Fused {
  static constexpr bool takes_gradient_factor = true;
  Tree grads;
  double factor = 0.0, rate = 0.0;
  Tree& gradients() { return grads; }
  void step(GradientFactor by, double learning_rate = 1.0) {
    factor = by.value;
    rate = learning_rate;
  }
};
template <class Tree>
Fused(Tree) -> Fused<Tree>;

struct Remote {
  Weights grads;
  std::vector<std::string> calls{};
  std::size_t threads = 0;
};
/// A Remote whose traits have no find_nonfinite.
struct Blind : Remote {};

struct RemoteTraits {
  static inline Remote* current = nullptr;
  static Weights& gradients(Remote& optimizer) {
    current = &optimizer;
    return optimizer.grads;
  }
  static void step(Remote&) {}
  static GradientReport unscale(Weights& grads, float scale, const Executor& executor) {
    current->threads = executor.concurrency();
    current->calls.push_back("unscale");
    return headroom::unscale_in_place(grads, scale, executor);
  }
  static GradientNorm measure(const Weights& grads, const Executor& executor) {
    current->calls.push_back("measure");
    return headroom::measure(grads, executor);
  }
  static GradientReport scale(Weights& grads, double factor, const Executor& executor) {
    current->calls.push_back("scale");
    return headroom::unscale_in_place(grads, static_cast<float>(1.0 / factor), executor);
  }
};

/// Its passes find nothing but that the gradients are not finite.
struct NotFinite {
  Weights grads{1.0F};
};

/// Its unscale throws after the first element.
struct Breaking {
  Weights grads;
};

}  // namespace

template <>
struct headroom::optimizer_traits<Breaking> {
  static Weights& gradients(Breaking& optimizer) { return optimizer.grads; }
  static void step(Breaking&) {}
  static GradientReport unscale(Weights& grads, float scale, const Executor&) {
    grads[0] /= scale;
    throw std::runtime_error("the device is gone");
  }
  static GradientNorm measure(const Weights&, const Executor&) { return {}; }
  static GradientReport scale(Weights&, double, const Executor&) { return {}; }
};
template <>
struct headroom::optimizer_traits<NotFinite> {
  static Weights& gradients(NotFinite& optimizer) { return optimizer.grads; }
  static void step(NotFinite&) {}
  static GradientReport unscale(Weights&, float, const Executor&) { return {false, 0.0}; }
  static GradientNorm measure(const Weights&, const Executor&) { return {{false, 0.0}, 0.0}; }
  static GradientReport scale(Weights&, double, const Executor&) { return {false, 0.0}; }
};
template <>
struct headroom::optimizer_traits<Foreign> {
  static constexpr bool allow_fp16_gradients = true;
  static auto gradients(Foreign& optimizer) { return std::tie(optimizer.flat); }
  static void step(Foreign& optimizer) { optimizer.applied = true; }
};
template <>
struct headroom::optimizer_traits<Blind> : RemoteTraits {};
template <>
struct headroom::optimizer_traits<Remote> : RemoteTraits {
  static std::optional<NonFinite> find_nonfinite(const Weights& grads, const Executor&) {
    current->calls.push_back("find");
    return NonFinite{"on the device", grads.size(), NonFiniteKind::nan, 1, 2};
  }
};

TEST_CASE("a user's traits return a tree of views, and allow fp16 gradients") {
  GradScaler scaler(ConstantLossScale(8.0F));
  Foreign optimizer{{half(8.0F), half(-4.0F)}};
  const auto result = scaler.step(optimizer);
  static_assert(std::is_same_v<decltype(result), const StepResult<void>>);
  CHECK(optimizer.applied);
  CHECK(optimizer.flat == std::vector<half>{half(1.0F), half(-0.5F)});
  CHECK(result.report.max_abs == 1.0);
}

TEST_CASE("traits that say that gradients are not finite are believed, whatever else they say") {
  for (const float scale : {0.5F, 1.0F, 2.0F}) {
    for (const bool clips : {false, true}) {
      GradScaler scaler(ConstantLossScale{scale});
      NotFinite optimizer;
      if (clips) CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1.0).finite);
      CHECK(scaler.step(optimizer).reason == SkipReason::not_finite);
    }
  }
}

TEST_CASE("the first gradient is that of the first leaf with elements") {
  std::vector<Weights> some{{}, {1.0F}, {2.0F}}, none{{}, {}};
  CHECK(headroom::detail::look_at(some).first == some[1].data());
  CHECK_FALSE(headroom::detail::look_at(none).has_elements);
}

TEST_CASE("arguments of step are passed on, by value and by reference") {
  struct Optimizer : Sgd {
    void step(std::unique_ptr<int> number, Weights& log, const std::string& name) {
      log.push_back(static_cast<float>(*number) * static_cast<float>(name.size()));
    }
  } optimizer;
  optimizer.grads = {1.0F};
  Weights log;
  GradScaler<> scaler;
  CHECK_FALSE(scaler.step(optimizer, std::make_unique<int>(2), log, "four").skipped);
  CHECK(log == Weights{8.0F});
}

TEST_CASE("bfloat16 is unscaled in place, and fp16 if the policy does not scale") {
  Owner brain{std::vector{bfloat16(1024.0F)}};
  CHECK(GradScaler(1024.0).step(brain).report.max_abs == 1.0);
  Owner narrow{std::vector{half(1024.0F)}};
  CHECK(GradScaler(NoOpLossScale()).step(narrow).report.max_abs == 1024.0);
  CHECK(GradScaler(NoOpLossScale()).unscale_and_clip_(narrow, 2.0).norm == 1024.0);
  CHECK(narrow.grads[0] == half(2.0F));
}

TEST_CASE("takes_gradient_factor: gradients stay as they are, and the optimizer gets the factor") {
  for (const double max_norm : {1e9, 2.5}) {
    for (const float size : {1.0F, infinity()}) {
      GradScaler scaler(presets::torch(4096.0)), deferred(presets::torch(4096.0));
      Sgd plain{{0.0F, 0.0F}, {3.0F * 4096.0F, -4.0F * 4096.0F * size}};
      Fused fused{plain.grads};
      const Weights before = fused.grads;
      const GradientNorm first = scaler.unscale_and_clip_(plain, max_norm),
                         second = deferred.unscale_and_clip_(fused, max_norm);
      CHECK(support::bits_of(first.norm) == support::bits_of(second.norm));
      CHECK(support::bits_of(first.max_abs) == support::bits_of(second.max_abs));
      CHECK(fused.grads == before);
      CHECK(scaler.step(plain).skipped == deferred.step(fused, 0.5).skipped);
      if (size == 1.0F) CHECK(fused.factor == Approx((max_norm > 5.0 ? 1.0 : 0.5) / 4096));
      if (size == 1.0F) CHECK(fused.rate == 0.5);
      scaler.update();
      deferred.update();
      CHECK(scaler.policy() == deferred.policy());
    }
  }
  GradScaler scaler(presets::torch(1024.0));
  Fused narrow{std::vector<half>{half(0x1p-24F)}};
  CHECK(scaler.step(narrow).report.max_abs == 0x1p-34);
  CHECK(narrow.factor == 1.0 / 1024);
  scaler.update();
  narrow.grads[0] = half(infinity());
  CHECK(scaler.step(narrow).nonfinite->inf_count == 1);
  GradScaler disabled(presets::torch(1024.0), false);
  Fused floats{Weights{4.0F}};
  CHECK(disabled.unscale_and_clip_(floats, 1.0).norm == 4.0);
  disabled.step(floats);
  CHECK(floats.grads[0] == 1.0F);
  CHECK(floats.factor == 1.0);
}

TEST_CASE("without takes_gradient_factor, a GradientFactor keeps its default argument") {
  struct Optional : Sgd {
    double factor = 0.0;
    void step(GradientFactor by = {}) { factor = by.value; }
  } optimizer;
  optimizer.grads = {1024.0F};
  CHECK_FALSE(GradScaler(1024.0).step(optimizer).skipped);
  CHECK(optimizer.factor == 1.0);
  CHECK(optimizer.grads[0] == 1.0F);
}

TEST_CASE("takes_gradient_factor: a gradient is finite if its product in float is finite") {
  std::mt19937 random(support::seed);
  int overflows = 0, runs = 0;
  for (int run = 0; run < support::cases(400); ++run) {
    const auto scale = std::ldexp(1.0F + static_cast<float>(random() % 1024) / 1024.0F,
                                  -static_cast<int>(1 + random() % 120));
    const auto edge = static_cast<float>(static_cast<double>(scale) * 0x1.fffffep127);
    for (int units = -3; units <= 3; ++units) {
      float gradient = edge;
      support::set_bits(gradient, support::bits_of(edge) + static_cast<unsigned>(units));
      Fused optimizer{std::vector<Weights>{{0.0F}, {1.0F, -gradient}}};
      GradScaler scaler{ConstantLossScale(scale)};
      const bool clips = random() % 2 == 0;
      if (clips) scaler.unscale_and_clip_(optimizer, 1e30);
      const bool skipped = scaler.step(optimizer).skipped;
      const float product = gradient * static_cast<float>(1.0 / static_cast<double>(scale));
      REQUIRE(skipped != support::is_finite<headroom::binary32>(support::bits_of(product)));
      if (!skipped) {
        const float taken = gradient * static_cast<float>(optimizer.factor);
        REQUIRE(support::is_finite<headroom::binary32>(support::bits_of(taken)));
      }
      overflows += skipped ? 1 : 0;
      ++runs;
    }
  }
  CHECK(overflows > runs / 4);
  CHECK(overflows < runs * 3 / 4);
}

TEST_CASE("passes of optimizer_traits replace headroom's") {
  using Calls = std::vector<std::string>;
  GradScaler scaler(presets::torch(1024.0));
  Remote optimizer{{2048.0F}};
  CHECK(scaler.unscale_(optimizer).max_abs == 2.0);
  CHECK(optimizer.calls == Calls{"unscale"});
  CHECK(optimizer.threads == 1);
  scaler.update();
  optimizer = {{2048.0F}};
  CHECK(scaler.unscale_and_clip_(optimizer, 0.5).norm == 2.0);
  CHECK(optimizer.grads == Weights{0.5F});
  CHECK(optimizer.calls == Calls{"measure", "scale"});
  scaler.update();
  optimizer = {{2048.0F}};
  CHECK(scaler.unscale_and_clip_(optimizer, 5.0).norm == 2.0);
  CHECK(optimizer.grads == Weights{2.0F});
  CHECK(optimizer.calls == Calls{"measure", "unscale"});
  scaler.update();
  optimizer = {{infinity()}};
  scaler.set_executor(headroom::parallel(3));
  const auto result = scaler.step(optimizer);
  CHECK(result.nonfinite->path == "on the device");
  CHECK(optimizer.calls == Calls{"unscale", "find"});
  CHECK(optimizer.threads == 3);
  Blind blind{{{infinity()}}};
  const auto unseen = scaler.step(blind);
  CHECK(unseen.reason == SkipReason::not_finite);
  CHECK_FALSE(unseen.nonfinite.has_value());
}

TEST_CASE("if a pass throws halfway, gradients are not unscaled again, and the step is skipped") {
  GradScaler scaler(ConstantLossScale(2.0F));
  Breaking optimizer{{8.0F, 8.0F}};
  CHECK_THROWS_AS(scaler.unscale_(optimizer), std::runtime_error);
  CHECK(optimizer.grads == Weights{4.0F, 8.0F});
  CHECK(scaler.step(optimizer).skipped);
  CHECK(optimizer.grads == Weights{4.0F, 8.0F});
}

TEST_CASE("a call that throws before it writes anything can be repeated") {
  const auto shared = std::make_shared<Weights>(Weights{8.0F});
  Owner optimizer{std::vector{shared, shared}};
  GradScaler scaler(ConstantLossScale(2.0F));
  CHECK_THROWS_AS(scaler.step(optimizer), std::invalid_argument);
  optimizer.grads.pop_back();
  CHECK_FALSE(scaler.step(optimizer).skipped);
  CHECK(*shared == Weights{4.0F});
}
