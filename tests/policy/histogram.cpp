#include <headroom/policy/histogram.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

#include "support/catch.hpp"
#include "support/errors.hpp"

using headroom::GradientReport;
using headroom::HistogramConfig;
using headroom::HistogramLossScale;
using support::message_of;

namespace {

constexpr GradientReport overflow{false, std::numeric_limits<double>::infinity()};

constexpr HistogramLossScale start;
static_assert(std::is_trivially_copyable_v<HistogramLossScale>&& noexcept(start.adjust(overflow)));
// An eighth of the largest half is 8188. From it on the scale backs off, below it grows.
static_assert(HistogramLossScale().adjust(GradientReport{true, 8184.0 / 32768.0}).loss_scale() == 65536.0F);
static_assert(HistogramLossScale().adjust(GradientReport{true, 8188.0 / 32768.0}).loss_scale() == 16384.0F);
static_assert(HistogramLossScale().adjust(overflow).loss_scale() == 16384.0F);
static_assert(HistogramLossScale().adjust(GradientReport{true, 0.0}).loss_scale() == 65536.0F);  // they may have underflowed

}  // namespace

TEST_CASE("HistogramLossScale follows popart's rule for trees of up to ten million gradients") {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  HistogramLossScale policy;
  double scale = 32768.0;
  for (int step = 0; step < 20000; ++step) {
    const double max_abs = std::exp2(-9.0 + 3.0 * std::sin(step / 500.0) + normal(random));
    const bool finite = max_abs * scale <= 65504.0;
    policy = policy.adjust(finite ? GradientReport{true, max_abs} : overflow);
    const double above = max_abs * scale >= 0.125 * 65504.0 ? 1.0 : 0.0, below = 1e7 - 2.0 - above;
    scale *= above > below * 1e-7 / (1.0 - 1e-7) ? 0.5 : 2.0;
    REQUIRE(static_cast<double>(policy.loss_scale()) == scale);
  }
}

TEST_CASE("HistogramLossScale stays in range; its state and settings are whole") {
  HistogramConfig config;
  config.scale.max_scale = 1e6F;
  config.bin_edge = 0.5;
  HistogramLossScale policy(config);
  for (int step = 0; step < 200; ++step) policy = policy.adjust(GradientReport{true, 1e-300});
  CHECK(policy.loss_scale() == 1e6F);
  CHECK(HistogramLossScale::from_state_dict(policy.state_dict()) == policy);
  for (int step = 0; step < 200; ++step) policy = policy.adjust(GradientReport{true, 1e300});
  CHECK(policy.loss_scale() == 1.0F);
  CHECK(policy.policy_name() == "histogram");
  CHECK(policy.adjust(true).counter() == 1);
  config.bin_edge = 2.0;
  CHECK(message_of([&] { (void)HistogramLossScale(config); }) == "headroom: bin_edge is 2; it must be in [2^-20, 1]");
}
