// The range of the scale, which is the same for every rule.
#include <headroom/policy/any.hpp>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/any_policies.hpp"
#include "support/catch.hpp"
#include "support/policies.hpp"
#include "support/samples.hpp"

namespace {

constexpr support::SetOwnFields backs_off_at_once{1, 0x1p-10, false};

}  // namespace

TEST_CASE("a scale stays in its range, and only an overflow raises it to its floor") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 200; ++run) {
    const headroom::LossScaleConfig config = support::random_config(random);
    support::for_each_adaptive(config, backs_off_at_once, [&](auto policy) {
      for (int step = 0; step < 100; ++step) {
        const bool finite = random() % 3 != 0;
        const auto next = policy.adjust(finite);
        const float scale = next.loss_scale(), inverse = next.inv_scale();
        REQUIRE((finite || scale <= std::max(policy.loss_scale(), config.min_scale)));
        REQUIRE(support::is_within(scale, std::min(policy.loss_scale(), config.min_scale),
                                   config.max_scale));
        REQUIRE(support::is_within(inverse, headroom::smallest_loss_scale,
                                   headroom::largest_loss_scale));
        const double product = static_cast<double>(scale) * static_cast<double>(inverse);
        REQUIRE(std::abs(product - 1.0) <=
                (headroom::detail::is_power_of_two(scale) ? 0.0 : 0x1p-23));
        REQUIRE(next.counter() >= 0);
        policy = next;
      }
    });
  }
}

TEST_CASE("an overflow lowers the scale to its floor, or raises it to the floor") {
  headroom::LossScaleConfig config{0.25F};
  config.min_scale = 0.1F;
  support::for_each_adaptive(config, backs_off_at_once, [](const auto& policy) {
    CHECK(policy.adjust(false).loss_scale() == 0.125F);
    CHECK(policy.adjust(false).adjust(false).loss_scale() == 0.1F);
    const auto lower = policy.with_loss_scale(0x1p-10F);
    CHECK(lower.adjust(true).loss_scale() == 0x1p-10F);
    CHECK(lower.adjust(false).loss_scale() == 0.1F);
  });
  config.min_scale = 3.0F;
  support::for_each_adaptive(config, backs_off_at_once, [](const auto& policy) {
    CHECK(policy.adjust(true).loss_scale() == 0.25F);
    CHECK(policy.adjust(false).loss_scale() == 3.0F);
  });
}
