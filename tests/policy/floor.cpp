// The range of the scale, which is the same for every rule.
#include <headroom/policy/any.hpp>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/any_policies.hpp"
#include "support/catch.hpp"
#include "support/samples.hpp"

using headroom::LossScaleConfig;

namespace {

/// Calls `check` for a policy of each rule, with these settings. The first overflow lowers each scale.
template <class Check>
void for_each_rule(const LossScaleConfig& config, Check check) {
  support::for_each_adaptive(config, {1, 0x1p-10, false}, check);
}

/// Whether a finite step keeps the scale.
template <class Policy>
bool is_kept(const Policy& policy) {
  return policy.adjust(true).loss_scale() == policy.loss_scale();
}

}  // namespace

TEST_CASE("a scale stays in its range, and only an overflow raises a scale below its floor to the floor") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 200; ++run) {
    const LossScaleConfig config = support::random_config(random);
    for_each_rule(config, [&](auto policy) {
      for (int step = 0; step < 100; ++step) {
        const bool finite = random() % 3 != 0;
        const auto next = policy.adjust(finite);
        const float scale = next.loss_scale(), inverse = next.inv_scale();
        REQUIRE((finite || scale <= std::max(policy.loss_scale(), config.min_scale)));
        REQUIRE(support::is_within(scale, std::min(policy.loss_scale(), config.min_scale), config.max_scale));
        REQUIRE(support::is_within(inverse, headroom::smallest_loss_scale, headroom::largest_loss_scale));
        const double product = static_cast<double>(scale) * static_cast<double>(inverse);
        REQUIRE(std::abs(product - 1.0) <= (headroom::detail::is_power_of_two(scale) ? 0.0 : 0x1p-23));
        REQUIRE(next.counter() >= 0);
        policy = next;
      }
    });
  }
}

TEST_CASE("a scale that starts below 1 falls to its min_scale") {
  LossScaleConfig config;
  config.initial_scale = 0.25F;
  config.min_scale = 0.1F;
  for_each_rule(config, [](auto policy) {
    CHECK(policy.adjust(false).loss_scale() == 0.125F);
    CHECK(policy.adjust(false).adjust(false).loss_scale() == 0.1F);
  });
}

TEST_CASE("the next backoff raises a scale that was set below the floor to the floor") {
  for_each_rule(LossScaleConfig(), [](const auto& policy) {
    const auto lower = policy.with_loss_scale(0x1p-10F);
    CHECK(is_kept(lower));
    CHECK(lower.adjust(false).loss_scale() == 1.0F);
  });
}
