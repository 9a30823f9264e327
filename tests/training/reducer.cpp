#include <headroom/policy/any.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/training/grad_scaler.hpp>
#include <headroom/training/reducer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using namespace headroom;
using headroom::detail::RankMessage;
using namespace support;

namespace {

constexpr std::uint64_t infinity_bits = headroom::binary64::infinity_bits;

using Shard = Owner<std::vector<Weights>>;

/// The sums of two ranks with different gradients.
GradientSums combined(const GradientSums& a, const GradientSums& b) {
  return headroom::detail::sums_of({RankMessage(a, 0, 1), RankMessage(b, 0, 1)}, 1);
}
GradientSums random_sums(std::mt19937& random) {
  if (random() % 6 == 0) return headroom::gradient_sums(headroom::detail::overflow());
  if (random() % 6 == 0) return {};
  return {true, std::ldexp(1.0, static_cast<int>(random() % 600) - 300),
          std::ldexp(1.0, static_cast<int>(random() % 20))};
}
std::string error_of(const std::vector<std::uint64_t>& digests) {
  std::vector<RankMessage> ranks;
  for (const std::uint64_t digest : digests) ranks.emplace_back(GradientSums(), digest, 1);
  try {
    (void)headroom::detail::sums_of(ranks, 1);
  } catch (const ReductionError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("messages of ranks give the largest magnitude and the sum in the order of ranks") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 2000; ++run) {
    std::vector<RankMessage> ranks;
    GradientSums expected;
    const std::uint64_t digest = random() % 2 - 1U;
    for (std::size_t n = 1 + random() % 8; n > 0; --n) {
      GradientSums here = random_sums(random);
      here.sum_of_squares /= 3.0;  // so that the order counts
      ranks.emplace_back(here, digest, 4);
      expected.finite = expected.finite && here.finite;
      expected.max_abs = std::max(expected.max_abs, here.max_abs);
      volatile double sum = expected.sum_of_squares;  // -ffast-math would reorder it
      sum = sum + here.sum_of_squares;
      expected.sum_of_squares = sum;
    }
    const GradientSums all = headroom::detail::sums_of(ranks, 4);
    REQUIRE(all.finite == expected.finite);
    REQUIRE(bits_of(all.max_abs) == bits_of(expected.max_abs));
    REQUIRE(bits_of(all.sum_of_squares) == bits_of(expected.sum_of_squares / 4.0));
    ranks.emplace_back(GradientSums(), digest ^ (std::uint64_t{1} << random() % 64), 4);
    REQUIRE_THROWS_AS((void)headroom::detail::sums_of(ranks, 4), ReductionError);
  }
  for (const GradientSums& here :
       {GradientSums{true, std::numeric_limits<double>::quiet_NaN(), 0.0},
        GradientSums{false, 1.0, 0.0},
        GradientSums{true, std::numeric_limits<double>::infinity(), 0.0}}) {
    const GradientSums all = combined(here, {true, 2.0, 4.0});
    CHECK((!all.finite && bits_of(all.max_abs) == infinity_bits &&
           bits_of(all.sum_of_squares) == infinity_bits));
  }
}

TEST_CASE("errors name ranks out of step; replicas must divide the number of ranks") {
  CHECK(error_of({3, 3, 3}).empty());
  CHECK_THAT(error_of({3, 3, 4}),
             ContainsSubstring("out of step: 1 of 3 differ from rank 0, the first is rank 2;"));
  CHECK_THAT(error_of({1, 2}),
             ContainsSubstring("1 of 2 differ from rank 0, the first is rank 1;"));
  CHECK_THAT(error_of({5, 4, 4, 4}),
             ContainsSubstring("3 of 4 differ from rank 0, the first is rank 1;"));
  for (const int size : {1, 6}) {
    for (int replicas = -1; replicas <= 7; ++replicas) {
      const std::string message =
          support::message_of([&] { headroom::detail::check_replicas(replicas, size); });
      CHECK(message.empty() == (replicas > 0 && size % replicas == 0));
    }
  }
}

TEST_CASE("all ranks clip by the norm of all gradients, and return it") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 300; ++run) {
    const float scale = std::ldexp(1.0F, static_cast<int>(random() % 12) - 1);
    const double max_norm = 0.25 * static_cast<double>(1 + random() % 16);
    std::vector<Shard> shards(1 + random() % 4);
    Shard whole;
    for (Shard& shard : shards) {
      for (std::size_t leaf = random() % 3; leaf > 0; --leaf) {
        Weights grads(random() % 5);
        for (float& grad : grads)
          grad = static_cast<float>(static_cast<int>(random() % 17) - 8) * scale;
        if (random() % 20 == 0 && !grads.empty()) grads[0] = infinity();
        whole.grads.push_back(grads);
        shard.grads.push_back(grads);
      }
    }
    if (whole.grads.empty()) continue;
    GradScaler one(scale);
    const GradientNorm expected = one.unscale_and_clip_(whole, max_norm);
    // The sums of each rank. The reducer is called before anything is written.
    GradientSums all;
    for (Shard copy : shards) {
      GradScaler scaler(scale);
      scaler.set_reducer([&](const GradientSums& here) { return all = combined(all, here), here; });
      (void)scaler.unscale_and_clip_(copy, max_norm);
    }
    std::size_t at = 0;
    for (Shard& shard : shards) {
      GradScaler scaler(scale);
      int calls = 0;
      scaler.set_reducer([&](const GradientSums&) { return ++calls, all; });
      const GradientNorm found = scaler.unscale_and_clip_(shard, max_norm);
      REQUIRE(calls == 1);
      REQUIRE(found.finite == expected.finite);
      REQUIRE(bits_of(found.max_abs) == bits_of(expected.max_abs));
      REQUIRE((expected.finite ? found.norm == Approx(expected.norm)
                               : bits_of(found.norm) == infinity_bits));
      for (const Weights& grads : shard.grads) {
        for (std::size_t i = 0; i < grads.size(); ++i) {
          const float other = whole.grads[at][i];
          REQUIRE((bits_of(other) == bits_of(grads[i]) || grads[i] == Approx(other).epsilon(1e-6)));
        }
        ++at;
      }
      REQUIRE(scaler.step(shard).skipped == !expected.finite);
      scaler.update();
      REQUIRE((scaler.get_scale() < scale) == !expected.finite);
    }
  }
}

TEST_CASE("a rank without gradients takes part in the reduction, and steps if the others do") {
  for (const bool others_finite : {true, false}) {
    for (const bool clips : {true, false}) {
      GradScaler scaler(1024.0);
      int calls = 0;
      scaler.set_reducer([&](const GradientSums& here) {
        ++calls;
        CHECK((here.finite && here.max_abs == 0.0 && here.sum_of_squares == 0.0));
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

TEST_CASE("an overflow on any rank is an overflow on all, and nothing is clipped") {
  for (const bool is_here : {true, false}) {
    GradScaler scaler(1024.0);
    scaler.set_reducer([&](const GradientSums&) {
      return GradientSums{is_here, 4.0, 25.0};
    });  // a local overflow counts even if the reducer says finite
    Shard optimizer{{{is_here ? infinity() : 3072.0F, 4096.0F}}};
    const GradientNorm norm = scaler.unscale_and_clip_(optimizer, 1.0);
    CHECK((!norm.finite && bits_of(norm.norm) == infinity_bits &&
           bits_of(norm.max_abs) == infinity_bits));
    CHECK(optimizer.grads[0][1] == 4.0F);
    CHECK(scaler.step(optimizer).skipped);
    scaler.update();
    CHECK(scaler.get_scale() == 512.0F);
  }
}

TEST_CASE("if the reducer throws, the gradients count as an overflow until the iteration ends") {
  GradScaler scaler(1024.0);
  scaler.set_reducer(
      [](const GradientSums&) -> GradientSums { throw std::runtime_error("timeout"); });
  Shard optimizer{{{scaler.scale(1.0F)}}};
  CHECK_THROWS_AS(scaler.unscale_and_clip_(optimizer, 0.5), std::runtime_error);
  CHECK(scaler.step(optimizer).reason == SkipReason::not_finite);
  scaler.update();
  CHECK(scaler.get_scale() == 512.0F);
  scaler.set_reducer(nullptr);
  optimizer.grads = {{scaler.scale(1.0F)}};
  CHECK_FALSE(scaler.step(optimizer).skipped);
}

TEST_CASE("an overflow by unscaling is found before the reducer is called") {
  GradScaler scaler(ConstantLossScale(0.5F));
  scaler.set_reducer([](const GradientSums& here) {
    CHECK_FALSE(here.finite);
    return here;
  });
  Shard optimizer{{{0x1.8p127F}}};
  CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1.0).finite);
}

TEST_CASE("a reducer's NaN, Inf or negative sum is an overflow") {
  for (const double sum :
       {std::numeric_limits<double>::quiet_NaN(), -1.0, std::numeric_limits<double>::infinity()}) {
    Shard optimizer{{{3.0F, 4.0F}}};
    GradScaler scaler(1.0);
    scaler.set_reducer([sum](const GradientSums& here) {
      return GradientSums{true, here.max_abs, sum};
    });
    CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1.0).finite);
    CHECK(scaler.step(optimizer).skipped);
  }
  const GradientNorm here{{true, 1e200}, 1e200};  // its square is beyond double
  CHECK_FALSE(headroom::detail::norm_of_all(here, headroom::gradient_sums(here)).finite);
}

TEST_CASE("a disabled scaler also clips by the norm of all ranks") {
  Shard optimizer{{{3.0F, 4.0F}}};
  GradScaler scaler(DynamicLossScale(), false);
  scaler.set_reducer([](const GradientSums& here) { return combined(here, {true, 12.0, 144.0}); });
  const GradientNorm found = scaler.unscale_and_clip_(optimizer, 6.5);
  CHECK((found.norm == 13.0 && found.max_abs == 12.0));
  CHECK(optimizer.grads[0] == Weights{1.5F, 2.0F});
  scaler.set_reducer(
      [](const GradientSums&) { return headroom::gradient_sums(headroom::detail::overflow()); });
  CHECK_FALSE(scaler.unscale_and_clip_(optimizer, 1.0).finite);
  CHECK(optimizer.grads[0] == Weights{1.5F, 2.0F});
}

namespace {

/// Another rank also holds the first of its gradients, and counts them.
struct Tied : Shard {
  auto duplicate_gradients() {
    return std::vector<headroom::span<float>>{{grads[0].data(), grads[0].size()}};
  }
};
/// The same with optimizer_traits.
struct TiedByTraits : Shard {};

}  // namespace

template <>
struct headroom::optimizer_traits<TiedByTraits> : headroom::optimizer_traits<Shard> {
  static auto& duplicate_gradients(TiedByTraits& optimizer) { return optimizer.grads[0]; }
};

TEMPLATE_TEST_CASE(
    "gradients that another rank counts are left out of the sum of squares, and of nothing else",
    "", Tied, TiedByTraits) {
  for (const bool enabled : {true, false}) {
    const float scale = enabled ? 1024.0F : 1.0F;
    TestType optimizer;
    optimizer.grads = {{12.0F * scale}, {3.0F * scale, 4.0F * scale}};
    GradScaler scaler(ConstantLossScale(1024.0F), enabled);
    scaler.set_reducer([&](const GradientSums& here) {
      CHECK(here.sum_of_squares == Approx(25.0).epsilon(1e-12));
      CHECK(here.max_abs == 12.0);
      return GradientSums{true, here.max_abs, 169.0};
    });
    CHECK(scaler.unscale_and_clip_(optimizer, 6.5).norm == 13.0);
    CHECK(optimizer.grads[0][0] == 6.0F);
  }
}

namespace {

using Digests = std::vector<std::uint64_t>;
/// The digests passed to the reducer while `calls(scaler)` runs.
template <class Scaler, class Calls>
Digests digests_in(Scaler& scaler, const Calls& calls) {
  Digests digests;
  scaler.set_reducer([&](const GradientSums& here, std::uint64_t digest) {
    return digests.push_back(digest), here;
  });
  calls(scaler);
  scaler.set_reducer(nullptr);
  return digests;
}

}  // namespace

TEST_CASE("the digest changes with everything that a decision depends on, and with nothing else") {
  // The digests of a scaler's second iteration. The first iteration is always the same.
  const auto digests_of = [](const auto& iteration) {
    GradScaler<> scaler;
    Shard one{{{scaler.scale(1.0F)}}}, two{{{2.0F, 3.0F}, {}}};
    (void)scaler.step(one);
    scaler.update();
    return digests_in(scaler, [&](auto& s) { iteration(s, one, two); });
  };
  const auto after = [&](const auto& change) {
    return digests_of([&](auto& scaler, Shard& one, Shard&) {
      change(scaler);
      (void)scaler.scale(1.0F);
      (void)scaler.step(one);
    });
  };
  const Digests usual = after([](auto&) {});
  REQUIRE(usual.size() == 1);
  CHECK(after([](auto& scaler) { scaler.load_state_dict(scaler.state_dict()); }) == usual);
  // A different step
  CHECK(after([](auto& scaler) { scaler.load_state_dict(GradScaler<>().state_dict()); }) != usual);
  CHECK(after([](auto& scaler) { scaler.set_growth_interval(1999); }) != usual);
  CHECK(after([](auto& scaler) { scaler.update(1024.0F); }) != usual);
  const auto clipped = [&](double max_norm, bool both) {
    return digests_of([&](auto& scaler, Shard& one, Shard& two) {
      (void)scaler.scale(1.0F);
      (void)scaler.unscale_and_clip_(both ? two : one, max_norm);
      if (both) (void)scaler.unscale_and_clip_(one, max_norm);
    });
  };
  CHECK(clipped(1.0, false) != usual);
  CHECK(clipped(2.0, false) != clipped(1.0, false));
  CHECK(clipped(1.0, true)[0] == clipped(1.0, false)[0]);  // different gradients, same digest
  CHECK(clipped(1.0, true)[1] != clipped(1.0, false)[0]);  // the second optimizer of the iteration
  // The gradients' scale is not the policy's
  CHECK(digests_of([](auto& scaler, Shard& one, Shard&) {
          (void)scaler.scale(1.0F);
          scaler.update(2.0F * scaler.get_scale());
          (void)scaler.step(one);
        }) != after([](auto& scaler) { scaler.update(2.0F * scaler.get_scale()); }));
}

TEST_CASE("all_reduce gives a policy the report of all ranks, and compares their policies") {
  struct Own {
    float s = 8.0F;
    [[nodiscard]] float loss_scale() const { return s; }
    [[nodiscard]] Own adjust(bool) const { return {s / 2.0F}; }
    [[nodiscard]] Own adjust(const GradientReport&) const { return {s / 2.0F}; }
  };
  Digests digests;
  const auto reducer = [&](const GradientSums& here, std::uint64_t digest) {
    digests.push_back(digest);
    return combined(here, {true, 12.0, 144.0});
  };
  const Own own;
  const GradientNorm norm = all_reduce(GradientNorm{{true, 4.0}, 5.0}, reducer, own);
  CHECK((norm.finite && norm.max_abs == 12.0 && norm.norm == 13.0));
  CHECK(all_reduce(GradientReport{true, 14.0}, reducer, own.adjust(true)).max_abs == 14.0);
  CHECK_FALSE(all_reduce(GradientReport{false, 14.0}, reducer, AnyLossScale(own)).finite);
  CHECK(digests[1] != digests[0]);
  CHECK(digests[2] == digests[0]);
}
