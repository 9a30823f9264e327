#include <headroom/policy/amax.hpp>
#include <headroom/policy/dynamic.hpp>

#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"

namespace {

/// A piece of somebody's own: the scale that brings the largest gradient to 1.
struct Normalise {
  using Config = headroom::LossScaleConfig;
  static constexpr const char* name = "normalise";
  constexpr explicit Normalise(const Config&) noexcept {}
  [[nodiscard]] static constexpr float next_scale(const headroom::GradientReport& report, float, const Config&) noexcept {
    return report.finite && report.max_abs > 0.0 ? static_cast<float>(1.0 / report.max_abs) : 0.0F;
  }
  template <class Visit>
  static constexpr void fields(Visit&&, const Config&) {}
};
using Normalised = headroom::BasicDynamicLossScale<headroom::GrowAfterFiniteSteps, headroom::BackOffAtOnce, Normalise>;

}  // namespace

TEST_CASE("a piece of one's own follows magnitudes, within bounds, and falls back") {
  Normalised policy;
  CHECK(policy.adjust({true, 0.25}).loss_scale() == 4.0F);
  CHECK(policy.adjust({true, 8.0}).loss_scale() == 1.0F);  // min_scale
  CHECK(policy.adjust({true, 0.0}).counter() == 1);
  CHECK(policy.adjust({false, 0.0}).loss_scale() == 16384.0F);
  CHECK(policy.adjust(false).loss_scale() == 16384.0F);
  CHECK(Normalised::from_state_dict(policy.adjust({true, 0.25}).state_dict()).loss_scale() == 4.0F);
  CHECK(policy.policy_name() == "normalise");
  static_assert(sizeof(headroom::DynamicLossScale) <= sizeof(headroom::LossScaleConfig) + 16);
}

TEST_CASE("logarithms in 2^-20 bits are rounded down, everywhere") {
  using namespace headroom::detail;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-1020.0, 1023.0);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::exp2(exponent(random)), log = std::log2(value);
    REQUIRE(log2_below(value) <= 0x1p20 * log);
    REQUIRE(log2_below(value) > 0x1p20 * (log - 0.0861));
  }
  static_assert(log2_below(65504.0) == (16 << 20) - (1 << 10) && log2_below(4.0) == 2 << 20);
  static_assert(power_of_two(-200) == 0x1p-126F && power_of_two(3) == 8.0F && power_of_two(200) == 0x1p126F);
  static_assert(bits_lower(1024.0F, 8) == 4.0F && bits_lower(0x1p-120F, 8) == 0x1p-126F);
  static_assert(is_positive(1e-310) && !is_positive(0.0) && !is_positive(-1.0) && !is_positive(-0.0));
}
