#include <headroom/policy/log_max.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

#include "support/catch.hpp"
#include "support/errors.hpp"

using headroom::GradientReport;
using headroom::LogMaxConfig;
using headroom::LogMaxLossScale;
using support::message_of;

namespace {

constexpr GradientReport overflow{false, std::numeric_limits<double>::infinity()};

constexpr LogMaxLossScale start;
static_assert(std::is_trivially_copyable_v<LogMaxLossScale>&& noexcept(start.adjust(overflow)));
static_assert(LogMaxLossScale().loss_scale() == 1.0F);
// One step: no deviation yet, so the scale is 2^16 over its magnitude.
static_assert(start.adjust(GradientReport{true, 0x1p-4}).loss_scale() > 0x1.fffffp19F &&
              start.adjust(GradientReport{true, 0x1p-4}).loss_scale() <= 0x1p20F);

/// The formula of the documentation, over all steps from the beginning.
struct Reference {
  long double fast = 0.0L, slow = 0.0L, squares = 0.0L, power1 = 1.0L, power2 = 1.0L;
  long double step(long double x) {
    const long double beta1 = 0.99, beta2 = 0.999;
    fast = beta1 * fast + (1 - beta1) * x;
    slow = beta2 * slow + (1 - beta2) * x;
    squares = beta2 * squares + (1 - beta2) * x * x;
    power1 *= beta1;
    power2 *= beta2;
    const long double mean = slow / (1 - power2), variance = squares / (1 - power2) - mean * mean;
    const long double scale = std::exp2(16 - fast / (1 - power1) - 3.09L * std::sqrt(variance > 0 ? variance : 0.0L));
    return scale < 1 ? 1.0L : scale > 0x1p24L ? 0x1p24L : scale;
  }
};

}  // namespace

TEST_CASE("log2 and 2^x, which can be computed at compile time, are as those of the standard library") {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-1074.0, 1023.9), small(-1.0, 1.0);
  static_assert(headroom::detail::log2_of(8.0) == 3.0 && headroom::detail::exp2_of(-3.0) == 0.125);
  for (int i = 0; i < 100000; ++i) {
    const double x = i % 2 == 0 ? std::exp2(exponent(random)) : 1.0 + 0.01 * small(random);
    REQUIRE(std::fabs(headroom::detail::log2_of(x) - std::log2(x)) <= 4e-16 * (1.0 + std::fabs(std::log2(x))));
    const double y = 0.9 * exponent(random);
    REQUIRE(std::fabs(headroom::detail::exp2_of(y) / std::exp2(y) - 1.0) <= 1e-12);
  }
  CHECK(headroom::detail::log2_of(std::numeric_limits<double>::denorm_min()) == -1074.0);
}

TEST_CASE("LogMaxLossScale follows OpenSeq2Seq's formula") {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  for (const double noise : {0.0, 0.3, 3.0}) {
    LogMaxLossScale policy;
    Reference reference;
    for (int step = 0; step < 5000; ++step) {
      const double max_abs = std::exp2(-6.0 - step / 1000.0 + noise * normal(random));
      const bool finite = step % 700 != 699;
      policy = policy.adjust(finite ? GradientReport{true, max_abs} : overflow);
      const long double expected = reference.step(finite ? std::log2(static_cast<long double>(max_abs)) : 16.0L);
      INFO("noise " << noise << ", step " << step);
      REQUIRE(std::fabs(static_cast<double>(policy.loss_scale() / expected) - 1.0) < 1e-6);
    }
  }
}

TEST_CASE("LogMaxLossScale: one overflow is forgotten, and zeros count as adjust(true)") {
  LogMaxLossScale policy;
  for (int step = 0; step < 3000; ++step) policy = policy.adjust(GradientReport{true, step % 2 == 0 ? 0.01 : 0.02});
  const float before = policy.loss_scale();
  CHECK(policy.adjust(GradientReport{true, 0.0}) == policy.adjust(true));
  policy = policy.adjust(overflow);
  CHECK(policy.loss_scale() < before / 2.0F);
  CHECK(policy.loss_scale() > before / 8.0F);
  for (int step = 0; step < 3000; ++step) policy = policy.adjust(GradientReport{true, step % 2 == 0 ? 0.01 : 0.02});
  CHECK(policy.loss_scale() > before / 2.0F);
}

TEST_CASE("LogMaxLossScale stays in range, and its state is whole") {
  LogMaxConfig config;
  config.scale.min_scale = 0x1p-126F;
  config.scale.max_scale = 0x1p126F;
  CHECK(LogMaxLossScale(config).adjust(GradientReport{true, 1e-300}).loss_scale() == 0x1p126F);
  CHECK(LogMaxLossScale(config).adjust(GradientReport{true, 1e300}).loss_scale() == 0x1p-126F);
  LogMaxLossScale policy(config);
  for (int step = 0; step < 100; ++step) policy = policy.adjust(GradientReport{true, 0.1 + step});
  CHECK(LogMaxLossScale::from_state_dict(policy.state_dict()) == policy);
  CHECK(policy.adjust(true).counter() == 1);
  config.beta1 = 1.0;
  CHECK(message_of([&] { (void)LogMaxLossScale(config); }) == "headroom: beta1 is 1; it must be at least 2^-20 and below 1");
  auto state = policy.state_dict();
  state.set("b2_correction", 1.5);
  CHECK(message_of([&] { (void)LogMaxLossScale::from_state_dict(state); }).find("headroom: b2_correction is 1.5") == 0);
  state = policy.state_dict();
  state.set("xsquared_hat", 1210000.0);  // 1100^2, and log2 of a double is at most 1074
  CHECK(message_of([&] { (void)LogMaxLossScale::from_state_dict(state); }) == "");
  state.set("xsquared_hat", 1210001.0);
  CHECK(message_of([&] { (void)LogMaxLossScale::from_state_dict(state); }).find("headroom: xsquared_hat is 1210001") == 0);
  state = policy.state_dict();
  state.set("x_hat", std::numeric_limits<double>::quiet_NaN());
  CHECK(message_of([&] { (void)LogMaxLossScale::from_state_dict(state); }).find("headroom: x_hat is nan") == 0);
}
