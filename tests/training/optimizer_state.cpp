#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/optimizer_state.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/strided.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::GradScaler;
using support::logic_error_of;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

/// What backward adds: the gradient of the unscaled loss times the loss.
void backward(float loss, float gradient, Sgd& optimizer) {
  if (optimizer.grads.empty()) optimizer.grads = {0.0F};
  optimizer.grads[0] += gradient * loss;
}

}  // namespace

TEST_CASE("an optimizer may go away between steps, and another come to its place") {
  GradScaler scaler(presets::torch());
  for (int step = 0; step < 100; ++step) {
    const auto optimizer = std::make_unique<Sgd>(Sgd{{1.0F}, {scaler.scale(1.0F)}});
    CHECK_FALSE(scaler.step(*optimizer).skipped);
    scaler.update();
  }
  CHECK(scaler.policy().counter() == 100);
}

TEST_CASE("an optimizer that moves between unscale and step is unscaled once") {
  std::vector<Sgd> optimizers(1, Sgd{{1.0F}, {}});
  GradScaler scaler(presets::torch(1024.0));
  backward(scaler.scale(1.0F), 2.0F, optimizers[0]);
  (void)scaler.unscale_(optimizers[0]);
  const Sgd* const before = optimizers.data();
  optimizers.reserve(100);
  REQUIRE(optimizers.data() != before);
  CHECK_FALSE(scaler.step(optimizers[0]).skipped);
  CHECK(optimizers[0].weights == Weights{-1.0F});
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizers[0]); }), ContainsSubstring("stepped already"));
}

TEST_CASE("an optimizer that has moved since the last update is known by its gradients") {
  std::vector<Sgd> optimizers(1, Sgd{{1.0F}, {2048.0F}});
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(optimizers[0]);
  scaler.update();
  optimizers.reserve(100);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizers[0]); }),
             ContainsSubstring("unscaled before the last update already"));
  CHECK(optimizers[0].grads == Weights{2.0F});
}

TEST_CASE("an optimizer may come to where one was that has moved") {
  GradScaler scaler(presets::torch(1024.0));
  std::optional<Sgd> place(Sgd{{1.0F}, {2048.0F}});
  (void)scaler.unscale_(*place);
  Sgd moved = std::move(*place);
  CHECK_FALSE(scaler.step(moved).skipped);
  place.emplace(Sgd{{1.0F}, {4096.0F}});
  CHECK_FALSE(scaler.step(*place).skipped);
  CHECK(moved.weights == Weights{-1.0F});
  CHECK(place->weights == Weights{-3.0F});
}

TEST_CASE("another optimizer at the address of one that was unscaled is not taken for it") {
  GradScaler scaler(presets::torch(1024.0));
  std::optional<Sgd> optimizer(Sgd{{1.0F}, {2048.0F}});
  (void)scaler.unscale_(*optimizer);
  const Weights keeps_its_place = std::move(optimizer->grads);
  optimizer.emplace(Sgd{{1.0F}, {2048.0F}});
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(*optimizer); }), ContainsSubstring("are not where they were"));
  CHECK(optimizer->weights == Weights{1.0F});
  scaler.update();
  (void)scaler.step(*optimizer);
  CHECK(optimizer->weights == Weights{-1.0F});
}

TEST_CASE("an optimizer that is the first member of another is another one") {
  struct Outer {
    Sgd inner;
    Weights grads;
    int steps = 0;
    Weights& gradients() { return grads; }
    int step() { return ++steps; }
  };
  GradScaler scaler(presets::torch(1024.0));
  Outer outer{Sgd{{1.0F}, {2048.0F}}, {4096.0F}};
  REQUIRE(static_cast<void*>(&outer) == static_cast<void*>(&outer.inner));
  (void)scaler.step(outer.inner);
  CHECK(scaler.step(outer).report.max_abs == 4.0);
  CHECK(outer.grads == Weights{4.0F});
  CHECK(outer.inner.grads == Weights{2.0F});
}

TEST_CASE("two optimizers of the same gradients do not unscale them twice") {
  struct Wrapper {
    Sgd& wrapped;
    Weights& gradients() { return wrapped.grads; }
    int step() { return wrapped.step(); }
  };
  GradScaler scaler(presets::torch(1024.0));
  Sgd optimizer{{1.0F}, {2048.0F}};
  Wrapper wrapper{optimizer};
  (void)scaler.unscale_(optimizer);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(wrapper); }), ContainsSubstring("as another one's"));
  CHECK(optimizer.grads == Weights{2.0F});
}

TEST_CASE("two optimizers that share some of their gradients, in whatever order, do not unscale them twice") {
  struct Shares {
    std::vector<Weights*> all;
    std::vector<headroom::span<float>> gradients() {
      std::vector<headroom::span<float>> spans;
      for (Weights* part : all) spans.emplace_back(*part);
      return spans;
    }
    void step() {}
  };
  for (const bool steps : {false, true}) {
    for (const bool shared_first : {false, true}) {
      Weights own(3, 2048.0F), shared(2, 4096.0F), other(1, 1024.0F);
      Shares a{{&own, &shared}}, b{{&other, &shared}};
      if (shared_first) std::swap(b.all[0], b.all[1]);
      GradScaler scaler(presets::torch(1024.0));
      steps ? (void)scaler.step(a) : (void)scaler.unscale_(a);
      CHECK_THAT(logic_error_of([&] { (void)scaler.step(b); }), ContainsSubstring("as another one's"));
      CHECK(shared[0] == 4.0F);
      CHECK(other[0] == 1024.0F);
      CHECK(b.all.size() == 2);
    }
  }
}

TEST_CASE("two optimizers whose gradients overlap in part do not unscale them twice") {
  struct Flat {
    std::vector<headroom::span<float>> all;
    std::vector<headroom::span<float>>& gradients() { return all; }
    void step() {}
  };
  Weights buffer(8, 1024.0F), apart(1, 2048.0F);
  for (const std::size_t from : {0U, 3U, 7U}) {
    for (const bool whole_first : {true, false}) {
      CAPTURE(from, whole_first);
      std::fill(buffer.begin(), buffer.end(), 1024.0F);
      Flat whole{{apart, buffer}}, part{{headroom::span<float>(&buffer[from], from == 7 ? 1 : 5)}};
      GradScaler scaler(presets::torch(1024.0));
      (void)scaler.unscale_(whole_first ? whole : part);
      CHECK_THAT(logic_error_of([&] { (void)scaler.unscale_(whole_first ? part : whole); }),
                 ContainsSubstring("as another one's"));
      apart[0] = 2048.0F;
    }
  }
  std::fill(buffer.begin(), buffer.end(), 1024.0F);
  Flat first{{headroom::span<float>(buffer.data(), 4)}}, second{{headroom::span<float>(buffer.data() + 4, 4)}};
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(second);
  (void)scaler.unscale_(first);
  CHECK(buffer == Weights(8, 1.0F));
}

TEST_CASE("two optimizers may have rows of one matrix whose elements lie between each other's") {
  struct Row {
    support::Strided<float> row;
    support::Strided<float>& gradients() { return row; }
    void step() {}
  };
  Weights matrix(6, 1024.0F);
  Row a{{matrix.data(), {3}, {2}}}, b{{matrix.data() + 1, {3}, {2}}}, again = b;
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(a);
  (void)scaler.unscale_(b);
  CHECK(matrix == Weights(6, 1.0F));
  CHECK_THROWS_AS(scaler.unscale_(again), std::logic_error);
}

namespace {

/// A tensor on a device, on which its optimizer works by itself: even its strides cannot be asked for.
struct OnDevice {};
struct WorksOnDevice {
  OnDevice grads;
};

}  // namespace

template <>
struct headroom::tensor_traits<OnDevice> {
  using value_type = float;
  static constexpr bool is_view = true;
  static float* data(const OnDevice&) { return nullptr; }
  static std::size_t size(const OnDevice&) { return 4; }
  static Layout layout(const OnDevice&) { throw std::runtime_error("no strides"); }
  static const char* obstacle(const OnDevice&) { return "is on a device"; }
};
template <>
struct headroom::optimizer_traits<WorksOnDevice> {
  static OnDevice& gradients(WorksOnDevice& optimizer) { return optimizer.grads; }
  static void step(WorksOnDevice&) {}
  static GradientReport unscale(const ParallelExecutor&, const OnDevice&, float) { return {true, 1.0}; }
  static GradientNorm measure(const ParallelExecutor&, const OnDevice&) { return {{true, 1.0}, 2.0}; }
  static GradientReport scale(const ParallelExecutor&, const OnDevice&, double) { return {true, 1.0}; }
};

TEST_CASE("gradients that only their optimizer can reach are not asked for their layout") {
  GradScaler scaler(presets::torch(1024.0));
  WorksOnDevice optimizer;
  (void)scaler.unscale_(optimizer);
  CHECK_FALSE(scaler.step(optimizer).skipped);
}

TEST_CASE("an optimizer inside of another one, and gradients of both, are not unscaled twice") {
  struct Outer {
    Weights more{1024.0F};
    Sgd inner;
    auto gradients() { return std::tie(more, inner.grads); }
    void step() {}
  } outer{{1024.0F}, Sgd{{1.0F}, {2048.0F}}};
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(outer.inner);
  CHECK_THROWS_AS(scaler.unscale_(outer), std::logic_error);
  CHECK(outer.inner.grads == Weights{2.0F});
}

TEST_CASE("an optimizer is the same one by a reference to its base") {
  struct Derived : Sgd {
    int other = 0;
  } derived;
  derived.weights = {1.0F};
  derived.grads = {2048.0F};
  Sgd& base = derived;
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(base);
  CHECK_FALSE(scaler.step(derived).skipped);
  CHECK(derived.weights == Weights{-1.0F});
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(base); }), ContainsSubstring("stepped already"));
}

TEST_CASE("one buffer may have the gradients of one optimizer after the other") {
  struct Uses {
    Weights& buffer;
    float weight = 0.0F;
    Weights& gradients() { return buffer; }
    void step() { weight -= buffer[0]; }
  };
  Weights buffer{0.0F};
  Uses a{buffer}, b{buffer};
  GradScaler scaler(presets::torch(1024.0));
  const float loss = scaler.scale(1.0F);
  buffer = {2.0F * loss};
  (void)scaler.step(a);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(b); }), ContainsSubstring("as another one's"));
  buffer[0] = 3.0F * loss;
  (void)scaler.step(b);
  CHECK(a.weight == -2.0F);
  CHECK(b.weight == -3.0F);
}

TEST_CASE("an optimizer that moves with its gradients in it is refused") {
  struct Inline {
    std::array<float, 2> grads{2048.0F, 1024.0F};
    float weight = 0.0F;
    std::array<float, 2>& gradients() { return grads; }
    void step() { weight -= grads[0]; }
  };
  {
    std::vector<Inline> two(2);
    GradScaler scaler(presets::torch(1024.0));
    (void)scaler.unscale_(two[0]);
    two.erase(two.begin());
    CHECK_THAT(logic_error_of([&] { (void)scaler.step(two[0]); }), ContainsSubstring("have become larger"));
  }
  std::vector<Inline> optimizers(1);
  GradScaler scaler(presets::torch(1024.0));
  (void)scaler.unscale_(optimizers[0]);
  optimizers.reserve(100);
  CHECK_THAT(logic_error_of([&] { (void)scaler.step(optimizers[0]); }), ContainsSubstring("has moved since"));
  Inline other;
  CHECK_FALSE(scaler.step(other).skipped);  // whose gradients are scaled
  CHECK(other.weight == -2.0F);
}

TEST_CASE("the memory of gradients that were handed over with a call may be that of others") {
  struct Given {
    float weight = 0.0F;
    void step(const Weights& gradients) { weight -= gradients[0]; }
  } a, b;
  GradScaler scaler(presets::torch(1024.0));
  headroom::detail::WithGradients<Given, Weights> first(a, {2048.0F});
  (void)scaler.step(first);
  Weights memory = std::move(first.gradients());
  memory = {2.0F};
  headroom::detail::WithGradients<Given, Weights> second(b, std::move(memory));
  (void)scaler.step(second);
  CHECK(a.weight == -2.0F);
  CHECK(b.weight == -0x1p-9F);
}

TEST_CASE("an iteration begins without the gradients of the one before") {
  headroom::detail::OptimizerStates states;
  Sgd optimizer{{1.0F}, {1.0F}};
  for (int iteration = 0; iteration < 3; ++iteration) {
    const headroom::detail::OptimizerId id = states.identify(optimizer, optimizer.grads);
    CHECK(id.begin == 0);
    CHECK(id.end == 1);
    states.add(id);
    states.start_iteration(false);
  }
}

TEST_CASE("gradients that begin right behind an optimizer are not in it") {
  struct Plain {
    float weight;
    std::array<float, 2> grads;
  };
  struct Pair {
    Plain optimizer;
    std::array<float, 2> behind;
  } pair{};
  headroom::detail::OptimizerStates states;
  CHECK(states.identify(pair.optimizer, pair.optimizer.grads).is_inline);
  CHECK_FALSE(states.identify(pair.optimizer, pair.behind).is_inline);
}
