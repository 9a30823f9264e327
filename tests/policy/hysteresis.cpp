#include <headroom/policy/hysteresis.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/policies.hpp"

using headroom::BasicHysteresisScale;
using headroom::GradientReport;
using headroom::HysteresisConfig;
using headroom::HysteresisScale;
using headroom::RefillOnBackoff;
using headroom::RefillOnCleanStep;
using headroom::RefillOnGrowth;
using support::after;

namespace {

constexpr HysteresisConfig small_config() {
  HysteresisConfig config;
  config.scale.growth_interval = 4;
  config.scale.initial_scale = 1024.0F;
  config.hysteresis = 3;
  return config;
}
template <class Refill>
constexpr float scale_after(const char* steps) {
  return after(BasicHysteresisScale<Refill>(small_config()), steps).loss_scale();
}
template <class Refill>
constexpr int left_after(const char* steps) {
  return after(BasicHysteresisScale<Refill>(small_config()), steps).hysteresis_left();
}

// Rule 5: each overflow uses up one; when none is left the scale backs off, and so does every further overflow.
static_assert(left_after<RefillOnCleanStep>("") == 3 && left_after<RefillOnCleanStep>("-") == 2);
static_assert(scale_after<RefillOnCleanStep>("--") == 1024.0F && scale_after<RefillOnCleanStep>("---") == 512.0F);
static_assert(scale_after<RefillOnCleanStep>("----") == 256.0F && left_after<RefillOnCleanStep>("----") == 0);

// On a clean step: only overflows in a row back off.
static_assert(left_after<RefillOnCleanStep>("--+") == 3 && scale_after<RefillOnCleanStep>("--+--+--+--") == 1024.0F);
static_assert(scale_after<RefillOnCleanStep>("---+--") == 512.0F && scale_after<RefillOnCleanStep>("---+---") == 256.0F);

// On growth: clean steps in between do not help.
static_assert(left_after<RefillOnGrowth>("--+") == 1 && scale_after<RefillOnGrowth>("-+-+-") == 512.0F);
static_assert(scale_after<RefillOnGrowth>("-+-+-+-+-") == 128.0F && left_after<RefillOnGrowth>("---++++") == 3);
static_assert(scale_after<RefillOnGrowth>("---++++") == 1024.0F && scale_after<RefillOnGrowth>("---++++--") == 1024.0F);

// On a backoff: every third overflow backs off, whenever it comes. Growth refills, too.
static_assert(scale_after<RefillOnBackoff>("---") == 512.0F && left_after<RefillOnBackoff>("---") == 3);
static_assert(scale_after<RefillOnBackoff>("-----") == 512.0F && scale_after<RefillOnBackoff>("------") == 256.0F);
static_assert(scale_after<RefillOnBackoff>("-+-+-+-+-") == 512.0F && left_after<RefillOnBackoff>("--++++") == 3);

// Rules 1 and 2 hold as for the dynamic scale: a tolerated overflow starts the count again as well.
static_assert(scale_after<RefillOnCleanStep>("+++-+++") == 1024.0F && scale_after<RefillOnCleanStep>("+++-++++") == 2048.0F);
static_assert(after(HysteresisScale(small_config()), "+++").counter() == 3 &&
              after(HysteresisScale(small_config()), "+++-").counter() == 0);
static_assert(after(HysteresisScale(small_config()), "++++").counter() == 0);

static_assert(HysteresisScale().loss_scale() == 32768.0F && HysteresisScale().hysteresis_left() == 2);
constexpr HysteresisScale start(small_config());
static_assert(start.adjust(GradientReport{false, 1.0}) == start.adjust(false));
static_assert(start.adjust(GradientReport{true, 0.0}) == start.adjust(true));
static_assert(noexcept(start.adjust(true)) && noexcept(start.adjust(GradientReport{})));
static_assert(std::is_trivially_copyable_v<HysteresisScale>);
static_assert(sizeof(HysteresisScale) - sizeof(HysteresisConfig) <= 32);
static_assert(!std::is_convertible_v<HysteresisConfig, HysteresisScale>);

template <class Refill>
void check_follows(const char* file, std::size_t traces_in_file, const HysteresisConfig& defaults) {
  const auto traces = support::golden(file);
  CHECK(traces.size() == traces_in_file);
  for (const auto& trace : traces) {
    CHECK(support::first_difference(BasicHysteresisScale<Refill>(support::config_of(trace, defaults)), trace) == "");
  }
}
/// Megatron keeps its factors in float. Under -ffast-math the way to float and back would be left out: hence volatile.
double rounded_to_float(double factor) {
  const volatile auto narrow = static_cast<float>(factor);
  return static_cast<double>(narrow);
}
HysteresisConfig starting_at(float initial_scale, float min_scale) {
  HysteresisConfig config;
  config.scale.initial_scale = initial_scale;
  config.scale.min_scale = min_scale;
  return config;
}

template <class Refill>
void check_never_leaves_its_range(std::mt19937& random) {
  HysteresisConfig config;
  config.scale = support::random_config(random);
  config.hysteresis = 1 + static_cast<std::int32_t>(random() % 4);
  BasicHysteresisScale<Refill> scale(config);
  for (int step = 0; step < 400; ++step) {
    scale = scale.adjust(random() % 2 != 0);
    REQUIRE(support::is_within(scale.loss_scale(), config.scale.min_scale, config.scale.max_scale));
    REQUIRE(support::is_within(scale.inv_scale(), 0x1p-126F, 0x1p126F));
    const double product = static_cast<double>(scale.loss_scale()) * static_cast<double>(scale.inv_scale());
    const bool power_of_two = (support::bits_of(scale.loss_scale()) & headroom::binary32::mantissa_mask) == 0;
    REQUIRE((power_of_two ? product == 1.0 : std::abs(product - 1.0) <= 0x1p-23));
    REQUIRE((scale.counter() >= 0 && scale.counter() < config.scale.growth_interval));
    REQUIRE((scale.hysteresis_left() >= 0 && scale.hysteresis_left() <= config.hysteresis));
  }
}

}  // namespace

TEST_CASE("HysteresisScale follows apex's kernel step by step") {
  check_follows<RefillOnCleanStep>("apex_hysteresis.trace", 51, starting_at(65536.0F, headroom::smallest_loss_scale));
}

TEST_CASE("with the refill on growth it follows Megatron step by step") {
  HysteresisConfig defaults = starting_at(0x1p32F, 1.0F);
  defaults.scale.growth_interval = 1000;
  const auto traces = support::golden("megatron_dynamic.trace");
  CHECK(traces.size() == 54);
  for (const auto& trace : traces) {
    HysteresisConfig config = support::config_of(trace, defaults);
    config.scale.growth_factor = rounded_to_float(config.scale.growth_factor);
    config.scale.backoff_factor = rounded_to_float(config.scale.backoff_factor);
    CHECK(support::first_difference(BasicHysteresisScale<RefillOnGrowth>(config), trace) == "");
  }
}

TEST_CASE("with the refill on backoff it follows its recorded sequences") {
  check_follows<RefillOnBackoff>("hysteresis_refill_on_backoff.trace", 19, starting_at(65536.0F, 1.0F));
}

TEST_CASE("no sequence takes a scale with hysteresis out of its range") {
  std::mt19937 random(support::seed);
  for (int i = 0; i < 60; ++i) {
    check_never_leaves_its_range<RefillOnCleanStep>(random);
    check_never_leaves_its_range<RefillOnGrowth>(random);
    check_never_leaves_its_range<RefillOnBackoff>(random);
  }
}
