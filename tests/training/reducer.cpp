#include <headroom/dtype/half.hpp>
#include <headroom/ops/policy_verbs.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/reducer.hpp>

#include <cmath>
#include <cstddef>
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
using support::infinity;
using support::Sgd;
using support::Weights;
namespace presets = headroom::presets;

namespace {

GradientSums combined(const GradientSums& a, const GradientSums& b) {
  return {a.finite && b.finite, a.max_abs > b.max_abs ? a.max_abs : b.max_abs, a.sum_of_squares + b.sum_of_squares};
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
