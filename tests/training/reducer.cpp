#include <headroom/dtype/half.hpp>
#include <headroom/ops/policy_verbs.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/rank_report.hpp>
#include <headroom/training/reducer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using headroom::GradientNorm;
using headroom::GradientSums;
using headroom::GradScaler;
using support::bits_of;
using support::infinity;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

GradientSums combined(const GradientSums& a, const GradientSums& b) {
  headroom::RankReport all(a);
  all.combine(headroom::RankReport(b));
  return all.sums();
}

struct Shard {
  std::vector<Weights> grads;
  std::vector<Weights>& gradients() { return grads; }
  int step() { return ++steps; }
  int steps = 0;
};

/// Ranks in step, one after the other: what the others would say is found out by copies of them.
struct Ranks {
  std::vector<Shard> shards;

  template <class Pass>
  GradientSums others(std::size_t rank, float scale, const Pass& pass) const {
    GradientSums all;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (i == rank) continue;
      Shard copy = shards[i];
      GradScaler scaler{presets::torch(static_cast<double>(scale))};
      scaler.set_reducer([&](const GradientSums& sums) {
        all = combined(all, sums);
        return sums;
      });
      pass(scaler, copy);
    }
    return all;
  }
};

}  // namespace

TEST_CASE("all ranks clip by one norm, that of all gradients, and say so") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 200; ++run) {
    const float scale = std::ldexp(1.0F, static_cast<int>(random() % 12) - 1);
    const double max_norm = 0.25 * static_cast<double>(1 + random() % 16);
    Ranks ranks;
    ranks.shards.resize(1 + random() % 4);
    Shard whole;
    for (Shard& shard : ranks.shards) {
      for (std::size_t leaf = random() % 3; leaf > 0; --leaf) {
        Weights grads(random() % 5);
        for (float& grad : grads) grad = static_cast<float>(static_cast<int>(random() % 17) - 8) * scale;
        if (random() % 20 == 0 && !grads.empty()) grads[0] = infinity();
        whole.grads.push_back(grads);
        shard.grads.push_back(grads);
      }
    }
    if (whole.grads.empty()) continue;
    GradScaler one{presets::torch(static_cast<double>(scale))};
    const GradientNorm expected = one.unscale_and_clip_(whole, max_norm);
    std::size_t at = 0;
    const auto pass = [&](auto& scaler, Shard& shard) { (void)scaler.unscale_and_clip_(shard, max_norm); };
    const Ranks before = ranks;
    for (std::size_t rank = 0; rank < ranks.shards.size(); ++rank) {
      Shard& shard = ranks.shards[rank];
      GradScaler scaler{presets::torch(static_cast<double>(scale))};
      int calls = 0;
      scaler.set_reducer([&](const GradientSums& here) {
        ++calls;
        return combined(here, before.others(rank, scale, pass));
      });
      const GradientNorm found = scaler.unscale_and_clip_(shard, max_norm);
      REQUIRE(calls == 1);
      REQUIRE(found.finite == expected.finite);
      REQUIRE(support::bits_of(found.max_abs) == support::bits_of(expected.max_abs));
      if (expected.finite) {
        REQUIRE(found.norm == Approx(expected.norm));
      } else {
        REQUIRE(support::bits_of(found.norm) == support::bits_of(expected.norm));
      }
      for (const Weights& grads : shard.grads) {
        for (std::size_t i = 0; i < grads.size(); ++i) {
          const float other = whole.grads[at][i];
          if (support::bits_of(other) != support::bits_of(grads[i]))
            REQUIRE(grads[i] == Approx(static_cast<double>(other)).epsilon(1e-6));
        }
        ++at;
      }
      REQUIRE(scaler.step(shard).skipped == !expected.finite);
      scaler.update();
      REQUIRE((scaler.get_scale() < scale) == !expected.finite);
    }
  }
}

TEST_CASE("a rank without gradients takes part, and steps where all do") {
  for (const bool others_finite : {true, false}) {
    for (const bool clips : {true, false}) {
      GradScaler scaler(presets::torch(1024.0));
      int calls = 0;
      scaler.set_reducer([&](const GradientSums& here) {
        ++calls;
        CHECK(here.finite);
        CHECK(here.max_abs == 0.0);
        CHECK(here.sum_of_squares == 0.0);
        return GradientSums{others_finite, 2.0, 4.0};
      });
      Shard nothing;
      if (clips) CHECK(scaler.unscale_and_clip_(nothing, 1.0).finite == others_finite);
      const auto result = scaler.step(nothing);
      CHECK(calls == 1);
      CHECK(result.skipped == !others_finite);
      CHECK(nothing.steps == (others_finite ? 1 : 0));
      if (others_finite) CHECK(result.report.max_abs == 2.0);
      scaler.update();
      CHECK(scaler.get_scale() == (others_finite ? 1024.0F : 512.0F));
    }
  }
}

TEST_CASE("a rank without gradients takes part in an iteration without a loss of its own, and adjusts as the others do") {
  GradScaler scaler(presets::torch(1024.0, 2.0, 0.5, 2));
  int calls = 0;
  scaler.set_reducer([&](const GradientSums& here) { return ++calls, here; });
  Shard optimizer{{{scaler.scale(1.0F)}}};
  (void)scaler.step(optimizer);
  scaler.update();
  optimizer.grads.clear();
  const auto result = scaler.step(optimizer);
  CHECK(calls == 2);
  CHECK(result.reason == headroom::SkipReason::none);
  CHECK(optimizer.steps == 2);
  scaler.update();
  CHECK(scaler.get_scale() == 2048.0F);

  optimizer.grads = {{scaler.scale(1.0F)}};
  (void)scaler.step(optimizer);
  scaler.update();
  Shard late;  // that had no part in the iteration with a loss
  CHECK(scaler.step(late).reason == headroom::SkipReason::none);
  late.grads = {{1.0F}};
  Shard old = late;
  CHECK_THROWS_AS(scaler.step(old), std::logic_error);
}

TEST_CASE("an overflow here is one whatever the reducer says, and gradients are unscaled all the same") {
  for (const bool clips : {true, false}) {
    GradScaler scaler(presets::torch(1024.0));
    scaler.set_reducer([](const GradientSums&) { return GradientSums{true, 1.0, 1.0}; });
    Sgd optimizer{{1.0F, 1.0F}, {infinity(), 2048.0F}};
    if (clips) {
      const GradientNorm norm = scaler.unscale_and_clip_(optimizer, 1.0);
      CHECK_FALSE(norm.finite);
      CHECK(support::bits_of(norm.norm) == headroom::binary64::infinity_bits);
    } else {
      CHECK_FALSE(scaler.unscale_(optimizer).finite);
    }
    CHECK(optimizer.grads[1] == 2.0F);
    CHECK(scaler.step(optimizer).skipped);
    scaler.update();
    CHECK(scaler.get_scale() == 512.0F);
  }
}

TEST_CASE("an overflow elsewhere: nothing is clipped, the norm is not finite, the step is skipped") {
  GradScaler scaler(presets::torch(1024.0));
  scaler.set_reducer([](const GradientSums& here) { return GradientSums{false, here.max_abs, here.sum_of_squares}; });
  Sgd optimizer{{1.0F, 1.0F}, {3072.0F, 4096.0F}};
  const GradientNorm norm = scaler.unscale_and_clip_(optimizer, 1.0);
  CHECK_FALSE(norm.finite);
  CHECK(support::bits_of(norm.norm) == headroom::binary64::infinity_bits);
  CHECK(support::bits_of(norm.max_abs) == headroom::binary64::infinity_bits);
  CHECK(optimizer.grads == Weights{3.0F, 4.0F});
  CHECK(scaler.step(optimizer).skipped);
}

TEST_CASE("what overflows when it is unscaled is known before the reducer is asked") {
  GradScaler scaler(headroom::ConstantLossScale(0.5F));
  std::optional<bool> said;
  scaler.set_reducer([&](const GradientSums& here) {
    said = here.finite;
    return here;
  });
  Sgd optimizer{{1.0F}, {0x1.8p127F}};
  CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1.0).finite);
  CHECK(said == false);
  scaler.update();
  struct Narrow {
    std::vector<headroom::half> grads;
    std::vector<headroom::half>& gradients() { return grads; }
    void step() {}
  } narrow{{headroom::half(60000.0F), headroom::half(1.0F)}};
  said.reset();
  CHECK_FALSE(scaler.unscale_and_clip_(narrow, 1.0).finite);
  CHECK(said == false);
}

TEST_CASE("a clip that the reducer does not let pass can be tried again, for nothing has been written") {
  GradScaler scaler(presets::torch(1024.0));
  bool throws = true;
  scaler.set_reducer([&](const GradientSums& here) {
    if (throws) throw std::runtime_error("timeout");
    return here;
  });
  Sgd optimizer{{1.0F}, {2048.0F}};
  CHECK_THROWS_AS(scaler.unscale_and_clip_(optimizer, 1.0), std::runtime_error);
  CHECK(optimizer.grads == Weights{2048.0F});
  throws = false;
  CHECK(scaler.unscale_and_clip_(optimizer, 1.0).norm == 2.0);
  CHECK(optimizer.grads == Weights{1.0F});
}

TEST_CASE("a sum of squares over all ranks that is beyond double is an overflow") {
  GradScaler scaler(presets::torch(1024.0));
  scaler.set_reducer([](const GradientSums& here) {
    return GradientSums{true, here.max_abs, static_cast<double>(infinity())};
  });
  Sgd optimizer{{1.0F}, {1024.0F}};
  CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1.0).finite);
  CHECK(scaler.step(optimizer).skipped);
}

namespace {

/// Half of its gradients are held by another rank too, which counts them.
struct Tied : Shard {
  int step(headroom::GradientFactor factor) {
    factors.push_back(factor.value);
    return ++steps;
  }
  std::vector<double> factors;
  auto duplicate_gradients() { return std::vector<headroom::span<float>>{{grads[0].data(), grads[0].size()}}; }
};
/// The same by optimizer_traits.
struct TiedByTraits : Shard {};
/// The same with gradients that are handed over.
struct TiedStateless {
  std::vector<Weights>& duplicate_gradients(std::vector<Weights>& gradients) {
    ++asked;
    return gradients;
  }
  void step(std::vector<Weights>&) {}
  int asked = 0;
};

/// The digests that a reducer gets in some calls of a scaler.
template <class Scaler>
std::vector<std::uint64_t> digests_in(Scaler& scaler, const std::function<void()>& calls) {
  std::vector<std::uint64_t> digests;
  scaler.set_reducer([&](const GradientSums& here, std::uint64_t digest) {
    digests.push_back(digest);
    return here;
  });
  calls();
  scaler.set_reducer(nullptr);
  return digests;
}

}  // namespace

template <>
struct headroom::optimizer_traits<TiedByTraits> : headroom::optimizer_traits<Shard> {
  static auto& duplicate_gradients(TiedByTraits& optimizer) { return optimizer.grads[1]; }
};

TEMPLATE_TEST_CASE("the squares of gradients that another rank counts are left out of the sum, and nothing else is", "", Tied,
                   TiedByTraits) {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 300; ++run) {
    const float scale = std::ldexp(1.0F, static_cast<int>(random() % 12) - 3);
    const bool clips = random() % 3 != 0, enabled = random() % 4 != 0,
               deferred = std::is_same_v<TestType, Tied> && enabled && random() % 2 == 0;
    TestType optimizer;
    for (int leaf = 0; leaf < 2; ++leaf) {
      Weights grads(1 + random() % 4);
      for (float& grad : grads) grad = static_cast<float>(random() % 9) * (enabled ? scale : 1.0F);
      optimizer.grads.push_back(grads);
    }
    const std::size_t own_leaf = std::is_same_v<TestType, Tied> ? 1 : 0;
    double own = 0.0, largest = 0.0;
    for (std::size_t leaf = 0; leaf < 2; ++leaf) {
      for (const float grad : optimizer.grads[leaf]) {
        const double unscaled = static_cast<double>(grad) / (enabled ? static_cast<double>(scale) : 1.0);
        own += leaf == own_leaf ? unscaled * unscaled : 0.0;
        largest = std::max(largest, unscaled);
      }
    }
    GradScaler scaler{presets::torch(static_cast<double>(scale)), enabled};
    if (deferred) scaler.set_deferred(true);
    int calls = 0;
    scaler.set_reducer([&](const GradientSums& here) {
      ++calls;
      CHECK(here.sum_of_squares == Approx(clips ? own : 0.0).epsilon(1e-12).margin(1e-12));
      CHECK(here.max_abs == largest);
      return GradientSums{true, here.max_abs, 1e4};
    });
    const double first = static_cast<double>(optimizer.grads[own_leaf][0]);
    if (clips) {
      CHECK(scaler.unscale_and_clip_(optimizer, 50.0).norm == 100.0);
      const double factor = 0.5 / (enabled ? static_cast<double>(scale) : 1.0);
      CHECK(static_cast<double>(optimizer.grads[own_leaf][0]) == Approx(deferred ? first : first * factor));
    } else {
      (void)scaler.unscale_(optimizer);
    }
    CHECK(calls == (clips || enabled ? 1 : 0));
  }
}

TEST_CASE("gradients that are handed over are asked for their duplicates too") {
  headroom::AsyncGradScaler<> scaler;
  TiedStateless optimizer;
  double sum = -1.0;
  scaler.configure([&](auto& settings) {
    settings.set_reducer([&](const GradientSums& here) {
      sum = here.sum_of_squares;
      return here;
    });
  });
  (void)scaler.submit_gradients_and_clip(optimizer, std::vector<Weights>{{1.0F, 2.0F}}, 1.0);
  scaler.update(false);
  CHECK(optimizer.asked == 1);
  CHECK(sum == 0.0);
}

TEST_CASE("a disabled scaler clips by the norm of all ranks too") {
  Shard optimizer{{{3.0F, 4.0F}}};
  GradScaler scaler{presets::torch(), false};
  scaler.set_reducer([](const GradientSums& here) { return combined(here, {true, 12.0, 144.0}); });
  const GradientNorm found = scaler.unscale_and_clip_(optimizer, 6.5);
  CHECK(found.norm == 13.0);
  CHECK(found.max_abs == 12.0);
  CHECK(optimizer.grads[0] == Weights{1.5F, 2.0F});
  scaler.set_reducer(
      [](const GradientSums& here) { return combined(here, headroom::gradient_sums(headroom::detail::overflow())); });
  CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1.0).finite);
  CHECK(optimizer.grads[0] == Weights{1.5F, 2.0F});
}

TEST_CASE("a reducer's answer that is no norm is an overflow") {
  double nan = 0.0;
  support::set_bits(nan, headroom::binary64::quiet_nan_bits);
  for (const double sum : {nan, -1.0, static_cast<double>(infinity())}) {
    Shard optimizer{{{3.0F, 4.0F}}};
    GradScaler scaler{presets::torch(1.0)};
    scaler.set_reducer([sum](const GradientSums& here) { return GradientSums{true, here.max_abs, sum}; });
    CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1.0).finite);
    CHECK(scaler.step(optimizer).skipped);
  }
}

TEST_CASE("the digest changes with all that a decision depends on, and with nothing else") {
  using Digests = std::vector<std::uint64_t>;
  GradScaler<> a, b;
  std::deque<Shard> shards;  // each stays where it is
  const auto step = [&](GradScaler<>& scaler, const std::vector<Weights>& grads) {
    Shard& shard = shards.emplace_back(Shard{grads});
    return digests_in(scaler, [&] { (void)scaler.step(shard); });
  };
  const auto clip = [&](GradScaler<>& scaler, const std::vector<Weights>& grads) {
    Shard& shard = shards.emplace_back(Shard{grads});
    return digests_in(scaler, [&] { (void)scaler.unscale_and_clip_(shard, 1.0); });
  };
  const auto next = [&] {
    a.update();
    b.update();
    (void)a.scale(1.0F);
    (void)b.scale(1.0F);
  };
  const Digests first = step(a, {{1.0F}});
  REQUIRE(first.size() == 1);
  CHECK(step(b, {}) == first);                  // other gradients, or none at all
  CHECK(step(a, {{2.0F, 3.0F}, {}}) != first);  // the second optimizer of the iteration
  CHECK(clip(b, {{4.0F}}) != first);
  next();
  const Digests clipped = clip(a, {{1.0F}});
  CHECK(clip(b, {{2.0F}, {}}) == clipped);
  next();
  const Digests third = step(a, {{1.0F}});
  CHECK(third != first);
  b.set_growth_interval(1999);  // other settings
  CHECK(step(b, {{1.0F}}) != third);
  b.set_growth_interval(2000);
  next();
  headroom::StateDict older = b.state_dict();  // another number of steps, at the same scale
  older.set("counter", 1);
  b.load_state_dict(older);
  (void)b.scale(1.0F);
  CHECK(a.get_scale() == b.get_scale());
  CHECK(step(a, {{1.0F}}) != step(b, {{1.0F}}));
  next();
  b.load_state_dict(a.state_dict());
  (void)b.scale(1.0F);
  CHECK(step(a, {{1.0F}}) == step(b, {{1.0F}}));
  next();
  a.update(2.0F * a.get_scale());  // after the loss was scaled, so that its gradients have the old one
  b.update(2.0F * b.get_scale());
  CHECK(a.policy() == b.policy());
  b.load_state_dict(a.state_dict());
  (void)b.scale(1.0F);
  CHECK(step(a, {{1.0F}}) != step(b, {{1.0F}}));
}

TEST_CASE("a reducer gets a digest where it asks for one") {
  Shard optimizer{{{1.0F}}};
  const auto seen_by = [&](auto reducer) {
    GradScaler scaler;
    scaler.set_reducer(reducer);
    (void)scaler.step(optimizer);
  };
  std::uint64_t seen = 0;
  seen_by([&](const GradientSums& here, std::uint64_t digest = 0) { return seen = digest, here; });
  CHECK(seen != 0);
  seen = 0;
  seen_by([&](const GradientSums& here, const std::uint64_t& digest) { return seen = digest, here; });
  CHECK(seen != 0);
  seen = 0;
  seen_by([&](auto here, auto digest) { return seen = digest, here; });
  CHECK(seen != 0);
  int root = -1;
  seen_by([&](const GradientSums& here, int from = 0) { return root = from, here; });
  CHECK(root == 0);
  bool is_verbose = true;
  seen_by([&](const GradientSums& here, bool verbose = false) { return is_verbose = verbose, here; });
  CHECK_FALSE(is_verbose);
}

TEST_CASE("duplicates that are no part of the gradients are an error, before anything is reduced") {
  for (const float duplicate : {4.0F, infinity()}) {
    TiedByTraits optimizer;
    optimizer.grads = {{1.0F}, {2.0F}};
    struct Other : Shard {
      Weights others;
      Weights& duplicate_gradients() { return others; }
    } other;
    other.grads = {{1.0F}, {2.0F}};
    other.others = {duplicate};
    GradScaler scaler(1.0);
    int calls = 0;
    scaler.set_reducer([&](const GradientSums& here) { return ++calls, here; });
    CHECK_THROWS_AS(scaler.unscale_and_clip_(other, 1.0), std::logic_error);
    CHECK(calls == 0);
    CHECK(other.grads[1][0] == 2.0F);
    CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 10.0).norm == 0.0);
  }
}

TEST_CASE("a norm of all ranks beyond double is an overflow for a policy too") {
  const GradientNorm here{{true, 1e200}, 1e200};
  const GradientNorm all = headroom::detail::norm_of_all(here, headroom::gradient_sums(here));
  CHECK_FALSE(all.finite);
  CHECK(bits_of(all.max_abs) == headroom::binary64::infinity_bits);
}

TEST_CASE("a policy without states is compared by its scale") {
  struct Own {
    float s = 8.0F;
    [[nodiscard]] float loss_scale() const { return s; }
    [[nodiscard]] Own adjust(bool) const { return {s / 2.0F}; }
    [[nodiscard]] Own adjust(const headroom::GradientReport&) const { return {s / 2.0F}; }
  };
  Shard one{{{1.0F}}}, two{{{1.0F}}}, three{{{1.0F}}};
  GradScaler<Own> own;
  GradScaler<headroom::AnyLossScale> any{headroom::AnyLossScale(Own())};
  const auto first = digests_in(own, [&] { (void)own.step(one); });
  CHECK(digests_in(any, [&] { (void)any.step(two); }) == first);
  struct Saved : Own {  // that cannot be read back
    [[nodiscard]] Saved adjust(bool) const { return *this; }
    [[nodiscard]] Saved adjust(const headroom::GradientReport&) const { return *this; }
    [[nodiscard]] headroom::StateDict state_dict() const { return {{"n", n}}; }
    int n = 1;
  };
  Saved saved, later;
  later.n = 2;
  CHECK(headroom::AnyLossScale(saved).state_digest() != headroom::AnyLossScale(later).state_digest());
  own.update();
  CHECK(digests_in(own, [&] { (void)own.step(three); }) != first);
}
