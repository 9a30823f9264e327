// What is peculiar to the rules of single systems.
#include <headroom/policy/presets.hpp>

#include <cmath>
#include <cstdint>

#include "support/catch.hpp"
#include "support/policies.hpp"

namespace presets = headroom::presets;

TEST_CASE("DeepSpeed grows on clean step window + 1 and then every window steps, and an overflow starts anew") {
  auto policy = presets::deepspeed(1024.0, 2.0, 3);
  CHECK(support::after(policy, "+++").loss_scale() == 1024.0F);
  CHECK(support::after(policy, "++++").loss_scale() == 2048.0F);
  CHECK(support::after(policy, "+++++++").loss_scale() == 4096.0F);
  CHECK(support::after(policy, "++++-+++").loss_scale() == 1024.0F);
  CHECK(support::after(policy, "++++-++++").loss_scale() == 2048.0F);
  CHECK(support::after(policy, "++++-++++").counter() == 4);
}

TEST_CASE("older DeepSpeed grows on clean step window") {
  constexpr auto policy = presets::deepspeed_0_16(1024.0, 2.0, 3, 1.0, 2);
  static_assert(support::after(policy, "++").loss_scale() == 1024.0F && support::after(policy, "+++").loss_scale() == 2048.0F);
  static_assert(support::after(policy, "++-+++").loss_scale() == 2048.0F);
  static_assert(support::after(policy, "--").loss_scale() == 512.0F && support::after(policy, "-+-").loss_scale() == 512.0F);
  CHECK(support::after(policy, "++++++").loss_scale() == 4096.0F);
}

TEST_CASE("Cerebras' scale can double on a step that overflowed") {
  const auto policy = presets::cerebras_fp16(1024.0, 4, 0.0, 0.0, 0.5);
  const auto before = support::after(policy, "++++");
  CHECK(before.loss_scale() == 1024.0F);
  CHECK(before.adjust(false).loss_scale() == 2048.0F);
  CHECK(before.adjust(false).counter() == 0);
  CHECK(before.adjust(false).backoff().overflows() == 0);
}

TEST_CASE("metaseq's window goes with the scale") {
  const auto policy = presets::metaseq(4.0, 2.0, 2);
  CHECK(support::after(policy, "++").loss_scale() == 8.0F);
  CHECK(support::after(policy, "++").growth().window() == 4.0);
  CHECK(support::after(policy, "++++").loss_scale() == 16.0F);  // 4 steps since the last overflow, as its modulus has it
  CHECK(support::after(policy, "++++").growth().window() == 8.0);
  CHECK(support::after(policy, "-").growth().window() == 1.0);
  CHECK(support::after(policy, "--").growth().window() == 1.0);
  CHECK(support::after(policy, "--+").loss_scale() == 2.0F);
  // Not cut off when it grows: 3 * 1.5 is no number of steps, 9 is the first that is a multiple of it.
  const auto broken = presets::metaseq(4.0, 1.5, 3);
  CHECK(support::after(broken, "+++").growth().window() == 4.5);
  CHECK(support::after(broken, "++++++++").loss_scale() == 6.0F);
  CHECK(support::after(broken, "+++++++++").loss_scale() == 9.0F);
  CHECK(support::after(broken, "+++-").growth().window() == 3.0);
  CHECK(support::after(presets::metaseq(4.0, 49.0, 98), "-").growth().window() == 2.0);  // 98 * (1.0 / 49) is below 2
}

TEST_CASE("a window that is not whole has the multiples that fmod says") {
  for (const double factor : {1.5, 1.25, 1.75, 1.1, 2.5}) {
    for (const std::int64_t window : {1, 2, 3, 5, 6}) {
      auto policy = presets::metaseq(1.0, factor, window);
      std::int64_t steps = 0;
      for (int step = 0; step < 2000; ++step) {
        const double before = policy.growth().window();
        policy = policy.adjust(true);
        const bool grew = policy.growth().window() != before;
        REQUIRE(grew == (std::fmod(static_cast<double>(++steps), before) == 0.0));
      }
    }
  }
}

TEST_CASE("fairseq's share is formed in double: 7 of 10 are 0.7") {
  const auto policy = presets::fairseq(1024.0, 2.0, 2000, 0.7);
  CHECK(support::after(policy, "+++------").loss_scale() == 1024.0F);
  CHECK(support::after(policy, "+++-------").loss_scale() == 512.0F);
}

TEST_CASE("a window never overflows") {
  constexpr auto most = static_cast<double>(headroom::detail::largest_counter);
  auto policy = presets::metaseq(1.0, 1e300, headroom::detail::largest_counter);
  CHECK(policy.growth().window() == most);
  auto growth = policy.growth();
  growth.back_off(policy.config().scale);
  CHECK(growth.window() == 1.0);
  CHECK(growth.grows(true, policy.config().scale));
  CHECK(growth.window() == most);
}
