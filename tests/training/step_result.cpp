#include <headroom/dtype/bfloat16.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/ops/for_each_block.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/step_result.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using headroom::bfloat16;
using headroom::GradientFactor;
using headroom::GradientReport;
using headroom::GradientSums;
using headroom::GradScaler;
using headroom::half;
using headroom::NonFinite;
using headroom::NonFiniteKind;
using headroom::SkipReason;
using support::infinity;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

struct Layer {
  std::vector<half> weight;
  std::vector<bfloat16> bias;
  HEADROOM_TREE(Layer, weight, bias);
};
struct Model {
  std::vector<Layer> layers = std::vector<Layer>(2, Layer{std::vector<half>(40), std::vector<bfloat16>(5)});
  std::map<std::string, Weights> heads = {{"a", Weights(33)}, {"b", Weights(1)}};
  std::vector<double> wide = std::vector<double>(9);
  HEADROOM_TREE(Model, layers, heads, wide);
};
/// An optimizer of any tree, in both modes.
template <class Tree>
struct Owner {
  Tree grads;
  int steps = 0;
  double factor = 0.0;
  Tree& gradients() { return grads; }
  void step(GradientFactor by) {
    ++steps;
    factor = by.value;
  }
};
template <class Tree>
Owner(Tree) -> Owner<Tree>;

/// In the plainest way: element by element, by the library's own walk, multiplied as an optimizer does it.
template <class Tree>
std::optional<NonFinite> reference(Tree& tree, float scale) {
  std::optional<NonFinite> found;
  headroom::for_each_leaf_with_path(tree, [&](const std::string& path, auto& leaf) {
    for (std::size_t i = 0; i < leaf.size(); ++i) {
      using Computed = std::conditional_t<std::is_same_v<decltype(leaf[i]), double&>, double, float>;
      const auto product = static_cast<Computed>(leaf[i]) * static_cast<Computed>(1.0 / static_cast<double>(scale));
      using Format = headroom::detail::format_of<Computed>;
      const auto magnitude = support::bits_of(product) & Format::abs_mask;
      if (magnitude <= Format::largest_finite_bits) continue;
      const bool is_nan = magnitude > Format::infinity_bits;
      if (!found) found = NonFinite{path, i, is_nan ? NonFiniteKind::nan : NonFiniteKind::inf, 0, 0};
      ++(is_nan ? found->nan_count : found->inf_count);
    }
  });
  return found;
}
void check_same(const std::optional<NonFinite>& a, const std::optional<NonFinite>& b) {
  REQUIRE(a.has_value() == b.has_value());
  if (!a) return;
  REQUIRE(a->path == b->path);
  REQUIRE(a->index == b->index);
  REQUIRE(a->kind == b->kind);
  REQUIRE(a->nan_count == b->nan_count);
  REQUIRE(a->inf_count == b->inf_count);
}

/// Random values, some near the largest that there are, and `bad` of them Inf or NaN.
template <class Tree>
void fill(Tree& tree, std::mt19937& random, unsigned bad) {
  const std::size_t count = headroom::element_count(tree);
  std::vector<bool> is_bad(count);
  for (; bad > 0; --bad) is_bad[random() % count] = true;
  std::size_t at = 0;
  headroom::for_each_leaf(tree, [&](auto& leaf) {
    for (auto& element : leaf) {
      using T = std::decay_t<decltype(element)>;
      using Format = headroom::detail::format_of<T>;
      using Bits = typename Format::bits_type;
      const auto sign = static_cast<Bits>(random() % 2 == 0 ? 0 : Format::sign_mask);
      const Bits special[] = {Format::infinity_bits, Format::quiet_nan_bits, static_cast<Bits>(Format::infinity_bits + 1)};
      element = T(static_cast<float>(random() % 1000) * 0.01F);
      if (random() % 30 == 0) support::set_bits(element, Format::largest_finite_bits);
      if (is_bad[at++]) support::set_bits(element, static_cast<Bits>(sign | special[random() % 3]));
    }
  });
}

/// Whether a GradScaler in deferred mode takes this gradient for finite exactly if it is once multiplied by the GradientFactor:
/// a double in double, anything else as for_each_block does it; and that clipping makes none infinite. Returns whether it is.
template <class T>
bool check_edge(T gradient, float scale) {
  Owner optimizer{std::vector<std::vector<T>>{{T(0.0F)}, {T(0.0F), T(1.0F), gradient}}};
  GradScaler scaler{headroom::ConstantLossScale(scale)};
  scaler.set_deferred(true);
  const double factor = 1.0 / static_cast<double>(scale);
  const auto is_finite_times = [&](double by) {
    if constexpr (std::is_same_v<T, double>) return support::is_finite<headroom::binary64>(support::bits_of(gradient * by));
    bool all_finite = true;
    headroom::for_each_block(optimizer.grads, [&](std::size_t, std::size_t, headroom::span<const float> block) {
      for (const float& each : block) {
        const volatile float product = each * static_cast<float>(by);
        all_finite = all_finite && support::is_finite<headroom::binary32>(support::bits_of(static_cast<float>(product)));
      }
    });
    return all_finite;
  };
  const bool is_finite = is_finite_times(factor);
  const auto result = scaler.step(optimizer);
  CAPTURE(static_cast<double>(gradient), scale);
  REQUIRE(result.skipped != is_finite);
  REQUIRE(result.report.finite == is_finite);
  REQUIRE(optimizer.factor == (is_finite ? factor : 0.0));
  if (!std::is_same_v<T, double>) {  // whose norm would be beyond double
    scaler.update();
    const double norm = std::abs(static_cast<double>(gradient)) * factor;
    REQUIRE(scaler.unscale_and_clip_(optimizer, norm * (1.0 - 0x1p-51)).finite == is_finite);
    REQUIRE(scaler.step(optimizer).skipped != is_finite);
    if (is_finite) REQUIRE((optimizer.factor <= factor && is_finite_times(optimizer.factor)));
  }
  return is_finite;
}
/// Gradients that a scale below 1 brings to the edge of their range, or within a few units of it.
template <class T>
void check_edges(std::mt19937& random) {
  using Format = headroom::detail::format_of<T>;
  using Bits = typename Format::bits_type;
  const double largest = std::is_same_v<T, double> ? std::numeric_limits<double>::max() : 0x1.fffffep127;
  int overflows = 0, runs = 0;
  for (int run = 0; run < support::cases(200); ++run) {
    constexpr bool is_narrow = std::is_same_v<T, half>;
    const int high = is_narrow ? 14 : std::is_same_v<T, double> ? 1022 : 126;
    const Bits bits = support::random_magnitude<Format>(random, is_narrow ? 3 : high - 123, high);
    T gradient{};
    support::set_bits(gradient, bits);
    const auto scale = static_cast<float>(std::ldexp(static_cast<double>(gradient), std::is_same_v<T, double> ? -1024 : -128));
    for (const float near : {std::nextafter(scale, 0.0F), scale, std::nextafter(scale, 1.0F)}) {
      const auto edge = static_cast<double>(near) * largest;
      for (int units = -3; units <= 3; ++units) {
        T other = sizeof(T) == 2 ? gradient : T(edge);
        support::set_bits(other, static_cast<Bits>((support::bits_of(other) + static_cast<Bits>(units)) ^
                                                   (random() % 2 == 0 ? Format::sign_mask : 0)));
        overflows += check_edge(other, near) ? 0 : 1;
        ++runs;
      }
    }
  }
  CHECK(overflows > runs / 4);
  CHECK(overflows < runs * 3 / 4);
}

}  // namespace

TEST_CASE("whatever comes before the step, it names the first element that is not finite, of those that are stored") {
  std::mt19937 random(support::seed);
  int overflows = 0, only_products = 0;
  for (int run = 0; run < support::cases(600); ++run) {
    const float scale = std::ldexp(1.0F, static_cast<int>(random() % 40) - 20) * (random() % 3 == 0 ? 1.5F : 1.0F);
    GradScaler scaler{headroom::ConstantLossScale(scale)};
    const bool deferred = random() % 2 == 0;
    scaler.set_deferred(deferred);
    if (random() % 2 == 0) scaler.set_executor(headroom::parallel(2));
    Owner<Model> optimizer{};
    fill(optimizer.grads, random, static_cast<unsigned>(random() % 3));
    const bool has_bad = reference(optimizer.grads, 1.0F).has_value();
    bool finite = true;
    switch (random() % 3) {
      case 0:
        finite = scaler.unscale_(optimizer).finite;
        break;
      case 1:
        finite = scaler.unscale_and_clip_(optimizer, 0.5).finite;
        break;
      default:
        break;
    }
    const auto result = scaler.step(optimizer);
    const std::optional<NonFinite> expected = reference(optimizer.grads, deferred ? scale : 1.0F);
    REQUIRE(result.report.finite == (result.reason == SkipReason::none));
    REQUIRE(result.skipped == !result.report.finite);
    REQUIRE((finite || result.skipped));
    if (result.skipped) check_same(result.nonfinite, expected);
    if (!result.skipped) REQUIRE_FALSE(result.nonfinite.has_value());
    overflows += result.nonfinite.has_value() ? 1 : 0;
    only_products += result.nonfinite.has_value() && !has_bad ? 1 : 0;
  }
  CHECK(overflows > support::cases(600) / 3);
  CHECK(only_products > 0);
}

TEST_CASE("deferred, what only the product makes infinite is named, at the very edge") {
  const float largest = 0x1.fffffep127F, scale = 0.25F;
  for (const float gradient : {largest * scale, std::nextafter(largest * scale, largest), 0x1p127F}) {
    Owner optimizer{std::vector<Weights>{{1.0F}, {2.0F, -gradient}, {gradient}}};
    GradScaler scaler{headroom::ConstantLossScale(scale)};
    scaler.set_deferred(true);
    const auto result = scaler.step(optimizer);
    REQUIRE(result.skipped == (gradient > largest * scale));
    if (!result.skipped) continue;
    REQUIRE(result.nonfinite.has_value());
    CHECK(result.nonfinite->path == "[1]");
    CHECK(result.nonfinite->index == 1);
    CHECK(result.nonfinite->kind == NonFiniteKind::inf);
    CHECK(result.nonfinite->inf_count == 2);
  }
  Owner narrow{std::vector<std::vector<half>>{{half(3.5F), half(4.0F)}, {half(5.0F)}}};
  GradScaler scaler{headroom::ConstantLossScale(0x1p-126F)};  // 4 * 2^126 is 2^128, beyond float
  scaler.set_deferred(true);
  const auto result = scaler.step(narrow);
  REQUIRE(result.nonfinite.has_value());
  CHECK(result.nonfinite->path == "[0]");
  CHECK(result.nonfinite->index == 1);
  CHECK(result.nonfinite->inf_count == 2);
}

TEST_CASE("deferred, what is found finite is finite once multiplied, and the other way round, at the edge of every scale") {
  std::mt19937 random(support::seed);
  check_edges<half>(random);
  check_edges<bfloat16>(random);
  check_edges<float>(random);
  check_edges<double>(random);
}

TEST_CASE("gradients are looked at when they are stepped, and only those of that optimizer") {
  GradScaler<> scaler;
  Sgd one{{1.0F, 1.0F}, {1.0F, infinity()}}, other{{1.0F}, {1.0F}};
  CHECK_FALSE(scaler.unscale_(one).finite);
  one.grads[1] = 0.0F;  // too late: the report stands
  const auto result = scaler.step(one);
  CHECK(result.reason == SkipReason::not_finite);
  CHECK_FALSE(result.nonfinite.has_value());
  CHECK(scaler.step(other).reason == SkipReason::none);
}

TEST_CASE("an overflow of another rank, or of the norm, has no place here") {
  GradScaler<> scaler;
  scaler.set_reducer([](const GradientSums& here) { return GradientSums{false, here.max_abs, here.sum_of_squares}; });
  Sgd optimizer{{1.0F}, {1.0F}};
  auto result = scaler.step(optimizer);
  CHECK(result.reason == SkipReason::not_finite);
  CHECK_FALSE(result.nonfinite.has_value());
  scaler.update();
  optimizer.grads = {infinity()};
  CHECK(scaler.step(optimizer).nonfinite.has_value());

  GradScaler<> alone;
  Owner wide{std::vector<double>(4, 1.7e308)};
  CHECK_FALSE(alone.unscale_and_clip_(wide, 1.0).finite);
  const auto of_norm = alone.step(wide);
  CHECK(of_norm.reason == SkipReason::not_finite);
  CHECK_FALSE(of_norm.nonfinite.has_value());
}

TEST_CASE("the scale in the result is that of the gradients, whether they were stepped or not") {
  GradScaler<> scaler(1024.0);
  Sgd optimizer{{1.0F}, {1024.0F}}, bad{{1.0F}, {infinity()}};
  Owner empty{std::vector<Weights>()};
  CHECK(scaler.scale(1.0F) == 1024.0F);
  scaler.update(64.0F);  // of the next iteration
  REQUIRE(scaler.get_scale() == 64.0F);
  const auto result = scaler.step(optimizer);
  CHECK(result.loss_scale == 1024.0F);
  CHECK(result.report.max_abs == 1.0);
  CHECK(scaler.step(bad).loss_scale == 1024.0F);
  const auto without = scaler.step(empty);
  CHECK(without.reason == SkipReason::no_gradients);
  CHECK(without.loss_scale == 1024.0F);
  scaler.update();
  optimizer.grads = {64.0F};
  CHECK(scaler.unscale_and_clip_(optimizer, 1.0).norm == 2.0);  // 64, halved
  CHECK(scaler.step(optimizer).loss_scale == 32.0F);
  scaler.update();

  scaler.set_spike_guard(headroom::SpikeGuard(8));
  SkipReason reason = SkipReason::none;
  for (int step = 0; step < 9; ++step) {
    optimizer.grads = {step < 8 ? 32.0F : 32000.0F};
    const auto each = scaler.step(optimizer);
    CHECK(each.loss_scale == 32.0F);
    reason = each.reason;
    scaler.update();
  }
  CHECK(reason == SkipReason::spike);

  Owner deferred{std::vector<half>{half(8.0F)}};
  scaler.set_deferred(true);
  scaler.set_spike_guard(std::nullopt);
  CHECK(scaler.step(deferred).loss_scale == 32.0F);

  GradScaler<> disabled(headroom::DynamicLossScale(), false);
  CHECK(disabled.step(optimizer).loss_scale == 1.0F);
}

TEST_CASE("the scale in the result is that of the iteration, not the one that the optimizer's thread has come to") {
  headroom::AsyncGradScaler<> scaler(presets::torch(1024.0));
  Sgd optimizer{{1.0F}, {1024.0F}}, other{{1.0F}, {infinity()}};
  CHECK(scaler.scale(1.0F) == 1024.0F);
  scaler.configure([](auto& settings) { settings.update(64.0F); });
  auto first = scaler.submit(optimizer);
  auto second = scaler.submit_and_clip(other, 1.0);
  scaler.update(false);
  CHECK(first.get().loss_scale == 1024.0F);
  CHECK(second.get().loss_scale == 1024.0F);
  REQUIRE(scaler.get_scale() < 1024.0F);
}

TEST_CASE("disabled, nothing is skipped and nothing looked for") {
  GradScaler<> scaler(headroom::DynamicLossScale(), false);
  Sgd optimizer{{1.0F}, {infinity()}}, nothing;
  const auto result = scaler.step(optimizer);
  CHECK(result.reason == SkipReason::none);
  CHECK_FALSE(result.nonfinite.has_value());
  CHECK(result.value == 1);
}

namespace {

/// Gradients that headroom may not read.
struct Remote {
  Weights grads;
};
struct Seen : Remote {};

struct RemotePasses {
  static Weights& gradients(Remote& optimizer) { return optimizer.grads; }
  static void step(Remote&) {}
  static GradientReport unscale(const headroom::ParallelExecutor&, Weights& grads, float scale) {
    return headroom::unscale_in_place(grads, scale);
  }
  static headroom::GradientNorm measure(const headroom::ParallelExecutor&, const Weights& grads) {
    return headroom::measure(grads);
  }
  static GradientReport scale(const headroom::ParallelExecutor&, Weights&, double) { return {}; }
};

}  // namespace

template <>
struct headroom::optimizer_traits<Remote> : RemotePasses {};
template <>
struct headroom::optimizer_traits<Seen> : RemotePasses {
  static std::optional<NonFinite> find_nonfinite(const headroom::ParallelExecutor&, const Weights& grads) {
    ++asked;
    return NonFinite{"on the device", grads.size(), NonFiniteKind::nan, 1, 2};
  }
  static inline int asked = 0;
};

TEST_CASE("passes of optimizer_traits are asked if they can tell, and only after an overflow") {
  GradScaler<> scaler;
  Remote remote{{infinity()}};
  Seen seen{{{infinity(), 1.0F}}}, finite{{{1.0F}}};
  CHECK_FALSE(scaler.step(finite).skipped);
  CHECK(headroom::optimizer_traits<Seen>::asked == 0);
  const auto unseen = scaler.step(remote);
  CHECK(unseen.reason == SkipReason::not_finite);
  CHECK_FALSE(unseen.nonfinite.has_value());
  const auto result = scaler.step(seen);
  REQUIRE(result.nonfinite.has_value());
  CHECK(result.nonfinite->path == "on the device");
  CHECK(result.nonfinite->index == 2);
  CHECK(headroom::optimizer_traits<Seen>::asked == 1);
}

TEST_CASE("the place comes back from the optimizer's thread, by the path in the tree that was handed over") {
  headroom::AsyncGradScaler<> scaler;
  struct Stateless {
    void step(std::vector<Weights>&) { ++steps; }
    int steps = 0;
  } optimizer, other;
  std::vector<Weights> buffer = {{1.0F}, {1.0F, infinity()}};
  (void)scaler.scale(1.0F);
  auto moved = scaler.submit_gradients(optimizer, std::vector<Weights>{{infinity()}, {infinity()}});
  auto referred = scaler.submit_gradients_and_clip(other, std::ref(buffer), 1.0);
  scaler.update();
  const auto first = moved.get();
  const auto second = referred.get();
  CHECK(first.reason == SkipReason::not_finite);
  REQUIRE(first.nonfinite.has_value());
  CHECK(first.nonfinite->path == "[0]");
  CHECK(first.nonfinite->inf_count == 2);
  REQUIRE(second.nonfinite.has_value());
  CHECK(second.nonfinite->path == "[1]");
  CHECK(second.nonfinite->index == 1);
  CHECK(optimizer.steps + other.steps == 0);

  (void)scaler.scale(1.0F);
  auto nothing = scaler.submit_gradients(optimizer, std::vector<Weights>{});
  scaler.update(false);
  CHECK(nothing.get().reason == SkipReason::no_gradients);
  CHECK(scaler.get_scale() == 16384.0F);  // by the first iteration
  CHECK(scaler.policy().counter() == 0);
}
