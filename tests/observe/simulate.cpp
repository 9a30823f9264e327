#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/observe/simulate.hpp>
#include <headroom/policy/any.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/any_policies.hpp"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using namespace headroom;
using support::with_bits;

namespace {

using MaxAbs = std::vector<double>;

}  // namespace

TEST_CASE("a simulation of given overflows adjusts every policy step by step") {
  std::mt19937 random(support::seed);
  std::vector<bool> grads_finite;
  for (int step = 0; step < 2000; ++step) grads_finite.push_back(random() % 10 != 0);
  for (const AnyLossScale& policy : support::every_policy()) {
    const Simulation found = simulate(policy, grads_finite);
    AnyLossScale stepped = policy;
    std::vector<float> scales;
    for (const bool finite : grads_finite) {
      scales.push_back(stepped.loss_scale());
      stepped = stepped.adjust(finite);
    }
    CHECK(found.steps == 2000);
    CHECK(static_cast<long>(found.skipped) ==
          std::count(grads_finite.begin(), grads_finite.end(), false));
    CHECK(found.scales == scales);
    CHECK(found.final_scale == stepped.loss_scale());
  }
}

TEST_CASE("a policy gets adjust(bool) for bools, and adjust(report) for magnitudes") {
  struct Watching {
    std::vector<double>* seen;
    float loss_scale() const { return 1.0F; }
    Watching adjust(bool finite) const {
      seen->push_back(finite ? -1.0 : -2.0);
      return *this;
    }
    Watching adjust(const GradientReport& report) const {
      seen->push_back(report.max_abs);
      return *this;
    }
  };
  std::vector<double> seen;
  CHECK(simulate(Watching{&seen}, std::vector<bool>{true, false}).skipped == 1);
  CHECK(simulate(Watching{&seen}, MaxAbs{0.5, 1e6}).skipped == 1);
  REQUIRE(seen.size() == 4);
  CHECK((seen[0] == -1.0 && seen[1] == -2.0 && seen[2] == 0.5));
  CHECK(support::bits_of(seen[3]) == headroom::binary64::infinity_bits);
}

TEST_CASE("a step overflows if the scaled gradient is beyond the dtype's largest finite value") {
  const ConstantLossScale policy(1024.0F);
  CHECK(simulate(policy, MaxAbs{65504.0 / 1024.0}).skipped == 0);
  CHECK(simulate(policy, MaxAbs{65505.0 / 1024.0}).skipped == 1);
  // 448 is its largest finite value
  CHECK(simulate<headroom::float8_e4m3>(policy, MaxAbs{448.0 / 1024.0}).skipped == 0);
  CHECK(simulate<headroom::float8_e4m3>(policy, MaxAbs{449.0 / 1024.0}).skipped == 1);
  const double largest = 0x1.FEp127;
  CHECK(simulate<bfloat16>(policy, MaxAbs{largest / 1024.0}).skipped == 0);
  CHECK(simulate<bfloat16>(policy, MaxAbs{largest / 1023.0}).skipped == 1);
  CHECK(simulate<float>(policy, MaxAbs{0x1.fffffep127 / 1024.0}).skipped == 0);
  CHECK(simulate<float>(policy, MaxAbs{0x1p118}).skipped == 1);
  for (const std::uint64_t bits :
       {headroom::binary64::infinity_bits, headroom::binary64::quiet_nan_bits,
        headroom::binary64::quiet_nan_bits | headroom::binary64::sign_mask}) {
    CHECK(simulate(policy, MaxAbs{with_bits(bits)}).skipped == 1);
  }
  CHECK(simulate(policy, MaxAbs{1.7e308}).skipped == 1);
  CHECK(simulate(policy, MaxAbs{-0.0}).skipped == 0);
}

TEST_CASE("the best scale is the policy's, doubled while the gradient does not overflow") {
  const ConstantLossScale policy(1024.0F);
  const auto found = simulate(policy, MaxAbs{65504.0 / 1024.0, 65504.0 / 2048.0, 65504.0 / 2047.0,
                                             1e6, 0.0, 65504.0 / 65536.0});
  CHECK(found.steps == 6);
  CHECK(found.skipped == 1);
  CHECK(found.below_best == 2);                               // the second and the last
  CHECK(found.wasted_bits == Approx((0.0 + 1 + 0 + 6) / 4));  // a step with gradient 0 is left out
  CHECK(found.scales == std::vector<float>(6, 1024.0F));
  CHECK(simulate(ConstantLossScale(headroom::largest_loss_scale / 2), MaxAbs{1e-300}).wasted_bits ==
        1.0);  // one doubling reaches the largest scale
}

TEST_CASE("a simulation of magnitudes equals one of the overflows that they cause") {
  std::mt19937 random(support::seed);
  std::vector<double> max_abs;
  for (int step = 0; step < 2000; ++step)
    max_abs.push_back(std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1000.0,
                                 static_cast<int>(random() % 20) - 4));
  for (const AnyLossScale& policy : support::every_policy()) {
    const auto closed = simulate(policy, max_abs);
    std::vector<bool> grads_finite;
    std::size_t skipped = 0;
    for (std::size_t step = 0; step < max_abs.size(); ++step) {
      grads_finite.push_back(max_abs[step] * static_cast<double>(closed.scales[step]) <= 65504.0);
      skipped += grads_finite.back() ? 0U : 1U;
    }
    CHECK(closed.skipped == skipped);
    const std::string name = policy.policy_name();
    if (name == "amax") continue;  // it also follows magnitudes
    const auto open = simulate(policy, grads_finite);
    CHECK(open.scales == closed.scales);
    CHECK(open.final_scale == closed.final_scale);
    CHECK(open.skipped == skipped);
  }
}

TEST_CASE("steps may be a braced list, also an empty one, and magnitudes may be floats") {
  CHECK(simulate(presets::torch(), {true, false}).skipped == 1);
  CHECK(simulate(presets::torch(1024.0), {0.5, 0.25, 64.0}).skipped == 1);
  CHECK(simulate(presets::torch(1024.0), {0.5F, 64.0F}).skipped == 1);
  CHECK(simulate<bfloat16>(presets::torch(1024.0), {0.5, 0.25, 64.0}).skipped == 0);
  CHECK(simulate(presets::torch(), {}).steps == 0);
  CHECK(simulate<bfloat16>(presets::torch(), {}).final_scale == 65536.0F);
  const std::vector<float> recorded = {0.5F, 0.25F, 64.0F, 0.1F};
  const auto found = simulate(presets::torch(1024.0), recorded);
  const auto same = simulate(presets::torch(1024.0), MaxAbs(recorded.begin(), recorded.end()));
  CHECK(
      (found.skipped == 1 && found.scales == same.scales && found.wasted_bits == same.wasted_bits));
  CHECK(simulate<float>(presets::torch(1024.0), recorded).skipped == 0);
}

TEST_CASE("noise is the deviation of log2 of the magnitudes among 64 steps") {
  const auto noise = [](const std::vector<double>& max_abs) {
    return headroom::simulate(headroom::NoOpLossScale(), max_abs).noise;
  };
  std::vector<double> max_abs(63, 3.0);
  CHECK(noise({1.0, 2.0}) == 0.0);
  CHECK(noise(max_abs) == 0.0);
  max_abs.clear();
  for (int i = 0; i < 64; ++i) max_abs.push_back(i % 2 == 0 ? 1.0 : 4.0);
  CHECK(noise(max_abs) == 1.0);
  max_abs.insert(max_abs.begin() + 5, {0.0, std::numeric_limits<double>::infinity()});
  CHECK(noise(max_abs) == 1.0);  // magnitudes alone
  // A trend from block to block is none; the mean is of squares.
  for (int i = 0; i < 64; ++i) max_abs.push_back(1e-9);
  CHECK(std::fabs(noise(max_abs) - std::sqrt(0.5)) < 1e-6);
}

TEST_CASE("an empty list gives no steps, and a negative magnitude is an error") {
  CHECK(simulate(presets::torch(), MaxAbs()).steps == 0);
  CHECK(simulate(presets::torch(), MaxAbs()).final_scale == 65536.0F);
  CHECK(simulate(presets::torch(), std::vector<bool>()).final_scale == 65536.0F);
  // The mean of no steps is 0.
  CHECK(support::bits_of(simulate(presets::torch(), MaxAbs()).wasted_bits) == 0);
  CHECK(support::bits_of(simulate(presets::torch(), MaxAbs{0.0, 1e300}).wasted_bits) == 0);
  const auto refused = [](const MaxAbs& max_abs) {
    return support::message_of([&] { (void)simulate(presets::torch(), max_abs); });
  };
  CHECK_THAT(refused({1.0, -2.0}), ContainsSubstring("max_abs[1] is -2"));
  CHECK_THAT(refused({with_bits(0xFFF0000000000000)}), ContainsSubstring("max_abs[0] is -inf"));
}

TEST_CASE("the policy gets 0 as magnitude if the scaled gradient underflows") {
  // In half, values up to 2^-25 = 2.98e-8 become 0. 1e-12 * 32768 is 3.3e-8, above that; 1e-12 *
  // 16384 is below.
  const AmaxLossScale amax;
  CHECK(simulate(amax.with_loss_scale(32768.0F), MaxAbs{1e-12}).final_scale == 0x1p53F);
  CHECK(simulate(amax.with_loss_scale(16384.0F), MaxAbs{1e-12}).final_scale == 16384.0F);
  CHECK(simulate<float>(amax.with_loss_scale(16384.0F), MaxAbs{1e-12}).final_scale == 0x1p53F);
}
