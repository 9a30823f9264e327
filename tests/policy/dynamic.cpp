#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>

#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/policies.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::DynamicLossScale;
using headroom::GradientReport;
using headroom::HysteresisConfig;
using headroom::HysteresisScale;
using headroom::LossScaleConfig;
using support::after;
using support::message_of;

namespace {

constexpr LossScaleConfig every_third_step() {
  LossScaleConfig config;
  config.growth_interval = 3;
  return config;
}
constexpr LossScaleConfig with_bounds(float initial, float min, float max) {
  LossScaleConfig config;
  config.initial_scale = initial;
  config.growth_interval = 1;
  config.min_scale = min;
  config.max_scale = max;
  return config;
}
constexpr DynamicLossScale start(every_third_step());

/// Lookup by argument finds headroom's operators for it. Its `scale` is not a LossScaleConfig.
template <class T>
struct Quantized {
  float scale;
};
template <class T>
using equality_t = decltype(std::declval<const T&>() == std::declval<const T&>());
template <class T>
using inequality_t = decltype(std::declval<const T&>() != std::declval<const T&>());

// Rule 1: after growth_interval finite steps the scale grows and the counter is 0.
static_assert(start.loss_scale() == 32768.0F && start.counter() == 0);
static_assert(after(start, "++").loss_scale() == 32768.0F && after(start, "++").counter() == 2);
static_assert(after(start, "+++").loss_scale() == 65536.0F && after(start, "+++").counter() == 0);
static_assert(after(start, "+++++").loss_scale() == 65536.0F && after(start, "++++++").loss_scale() == 131072.0F);

// Rule 1: growth stops at the maximum; the counter is 0 there too.
constexpr DynamicLossScale below_bound(with_bounds(6.0F, 1.0F, 10.0F));
static_assert(after(below_bound, "+").loss_scale() == 10.0F && after(below_bound, "+").counter() == 0);
static_assert(after(below_bound, "++").loss_scale() == 10.0F && after(below_bound, "++").counter() == 0);

// Rule 2: an overflow lowers the scale at once, not below the minimum, and the counter is 0.
static_assert(after(start, "-").loss_scale() == 16384.0F && after(start, "++-").loss_scale() == 16384.0F);
static_assert(after(start, "++-+++").loss_scale() == 32768.0F);
constexpr DynamicLossScale above_floor(with_bounds(3.0F, 2.0F, 10.0F));
static_assert(after(above_floor, "-").loss_scale() == 2.0F && after(above_floor, "--").loss_scale() == 2.0F);

// Rule 3: the product is formed in double and rounded once. In float, 1.1F is 1.10000002 and the product differs.
constexpr LossScaleConfig by_a_tenth() {
  LossScaleConfig config = with_bounds(1000003.0F, 1.0F, 0x1p126F);
  config.growth_factor = 1.1;
  config.backoff_factor = 0.1;
  return config;
}
static_assert(after(DynamicLossScale(by_a_tenth()), "+").loss_scale() ==
              1100003.25F);  // of 1100003.3; with floats it would be 1100003.375
static_assert(after(DynamicLossScale(by_a_tenth()), "-").loss_scale() == static_cast<float>(1000003.0 * 0.1));

// adjust(report) is adjust(report.finite).
static_assert(start.adjust(GradientReport{false, 1.0}) == start.adjust(false));
static_assert(start.adjust(GradientReport{true, 0.0}) == start.adjust(true));
static_assert(start.with_loss_scale(2.0F) != start && above_floor != start);

static_assert(noexcept(start.adjust(true)) && noexcept(start.adjust(GradientReport{})));
static_assert(std::is_trivially_copyable_v<DynamicLossScale>);
static_assert(sizeof(DynamicLossScale) - sizeof(LossScaleConfig) <= 32);

}  // namespace

TEST_CASE("DynamicLossScale has the documented defaults, and adjust does not change the object") {
  const DynamicLossScale scale;
  CHECK(scale.loss_scale() == 32768.0F);
  CHECK(scale.inv_scale() == 1.0F / 32768.0F);
  CHECK(scale.counter() == 0);
  CHECK(scale.config() == LossScaleConfig{32768.0F, 2000, 2.0, 0.5, 1.0F, 0x1p126F});
  CHECK(scale.adjust(false).loss_scale() == 16384.0F);
  CHECK(scale == DynamicLossScale());
}

TEST_CASE("T3: growth stops at the ceiling, and without one at the largest float, also under -ffast-math") {
  LossScaleConfig config;
  config.growth_interval = 1;
  config.initial_scale = headroom::largest_loss_scale * 0.75F;
  const auto check_grows_to = [&](double factor, float expected) {
    config.growth_factor = factor;
    const DynamicLossScale scale = DynamicLossScale(config).adjust(true);
    CHECK(support::bits_of(scale.loss_scale()) == support::bits_of(expected));
    CHECK(scale.counter() == 0);
  };
  check_grows_to(1.25, 0.9375F * headroom::largest_loss_scale);
  for (const double factor : {2.0, 3.0, 5.0}) check_grows_to(factor, headroom::largest_loss_scale);
  const double infinite[] = {6.0, 1e300, std::numeric_limits<double>::max()};  // 0.75 * 6 * 2^126 is beyond float
  for (const double factor : infinite) check_grows_to(factor, config.initial_scale);
  config.max_scale = headroom::largest_loss_scale * 0.875F;
  for (const double factor : infinite) check_grows_to(factor, config.max_scale);
}

namespace {

/// A user's rules: one grows on every finite step, the other never backs off.
struct GrowEveryStep {
  static constexpr const char* name = "every_step";
  constexpr explicit GrowEveryStep(const LossScaleConfig&) noexcept {}
  [[nodiscard]] static constexpr std::int64_t counter() noexcept { return 0; }
  [[nodiscard]] static constexpr bool grows(bool grads_finite, const LossScaleConfig&) noexcept { return grads_finite; }
  constexpr void back_off(const LossScaleConfig&) noexcept {}
  template <class Visit, class Config>
  static constexpr void fields(Visit&&, const Config&) {}
};
struct StayPut {
  using Config = LossScaleConfig;
  static constexpr const char* name = "stay_put";
  constexpr explicit StayPut(const Config&) noexcept {}
  [[nodiscard]] static constexpr bool backs_off(bool, std::int64_t, const Config&) noexcept { return false; }
  constexpr void grow(const Config&) noexcept {}
  template <class Visit>
  static constexpr void fields(Visit&&, const Config&) {}
};

}  // namespace

TEST_CASE("the rules for growing and backing off are template parameters") {
  using Policy = headroom::BasicDynamicLossScale<GrowEveryStep, StayPut>;
  constexpr Policy scale;
  static_assert(after(scale, "+").loss_scale() == 65536.0F);
  CHECK(after(scale, "--+").loss_scale() == 65536.0F);
  CHECK(Policy::policy_name() == "every_step_stay_put");
  CHECK(Policy::from_state_dict(after(scale, "--+").state_dict()) == after(scale, "--+"));
}

namespace {

/// Settings of a user's growth rule in addition to those of a hysteresis.
struct BothConfig : headroom::HysteresisConfig {
  double steepness = 4.0;

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    HysteresisConfig::fields(visit);
    visit("steepness", &BothConfig::steepness, 0.0, 100.0);
  }
};
struct GrowSteeply : GrowEveryStep {
  using Config = BothConfig;
  static constexpr const char* name = "steep";
  constexpr explicit GrowSteeply(const BothConfig& config) noexcept : GrowEveryStep(config.scale) {}
  [[nodiscard]] static constexpr bool grows(bool grads_finite, const BothConfig& config) noexcept {
    return grads_finite && config.steepness > 1.0;
  }
  constexpr void back_off(const BothConfig&) noexcept {}
};

}  // namespace

TEST_CASE("a growth rule may add settings to those of the backoff rule") {
  using Policy = headroom::BasicDynamicLossScale<GrowSteeply, headroom::BackOffAfterHysteresis<>>;
  static_assert(std::is_same_v<Policy::Config, BothConfig>);
  BothConfig config;
  config.hysteresis = 3;
  const Policy scale(config);
  CHECK(scale.hysteresis_left() == 3);
  CHECK(after(scale, "+").loss_scale() == 65536.0F);
  CHECK(after(scale, "--").loss_scale() == 32768.0F);
  CHECK(after(scale, "---").loss_scale() == 16384.0F);
  CHECK(Policy::from_state_dict(after(scale, "--").state_dict()) == after(scale, "--"));
  CHECK(scale.with_settings({{"steepness", 0.5}}).adjust(true).loss_scale() == 32768.0F);
  CHECK(scale.with_settings({{"steepness", 0.5}}).hysteresis_left() == 3);
  config.hysteresis = 0;
  CHECK_THAT(support::message_of([&] { (void)Policy(config); }), ContainsSubstring("hysteresis is 0"));
  CHECK_THAT(support::message_of([&] {
               (void)scale.with_settings({{"steep", 1.0}});
             }),
             ContainsSubstring("the key 'steep' is unknown"));
}

TEST_CASE("with_loss_scale changes only the scale") {
  const DynamicLossScale scale = after(DynamicLossScale(every_third_step()), "++");
  const DynamicLossScale other = scale.with_loss_scale(0.5F);  // a set scale may be below the floor until the next overflow
  CHECK(other.loss_scale() == 0.5F);
  CHECK(other.counter() == 2);
  CHECK(other.config() == scale.config());
  CHECK(other.adjust(false).loss_scale() == 1.0F);
  CHECK_THAT(support::message_of([&] { (void)scale.with_loss_scale(0.0F); }), ContainsSubstring("loss_scale is 0"));
  const DynamicLossScale bounded(with_bounds(6.0F, 1.0F, 10.0F));
  CHECK_THAT(support::message_of([&] { (void)bounded.with_loss_scale(11.0F); }),
             ContainsSubstring("loss_scale is 11, above max_scale, which is 10"));
}

TEST_CASE("a counter above the interval grows the scale on the next finite step, and stays at its largest value") {
  headroom::StateDict state = DynamicLossScale().state_dict();
  state.set("counter", headroom::detail::largest_counter);
  CHECK(DynamicLossScale::from_state_dict(state).adjust(true).loss_scale() == 65536.0F);
  state.set("growth_interval", headroom::detail::largest_counter + 1);
  CHECK(DynamicLossScale::from_state_dict(state).adjust(true).counter() == headroom::detail::largest_counter);
}

TEST_CASE("a policy may be a member initialised by {}") {  // clang refuses explicit default constructors there
  struct Trainer {
    DynamicLossScale scaler;
    headroom::HysteresisScale other;
    int steps;
  };
  const Trainer trainer = {{}, {}, 3};
  CHECK(trainer.scaler == DynamicLossScale());
  CHECK(trainer.other == headroom::HysteresisScale());
}

// ---- settings ----

namespace {

/// Every policy refuses `config` with a message that has field and value.
void check_refused(const LossScaleConfig& config, const std::string& field, const std::string& value) {
  const std::string words = field + " is " + value;
  CHECK_THAT(message_of([&] { (void)DynamicLossScale(config); }), ContainsSubstring(words));
  CHECK_THAT(message_of([&] { (void)HysteresisScale(HysteresisConfig{config, 2}); }), ContainsSubstring(words));
}

/// The values are made from bits, so that the compiler cannot assume that none is NaN.
template <class T>
struct Bad {
  support::bits_type<T> bits;
  const char* text;
};
template <class T>
void check_refused_values(T LossScaleConfig::*field, const char* name, const std::vector<Bad<T>>& values) {
  for (const Bad<T>& bad : values) {
    LossScaleConfig config;
    support::set_bits(config.*field, bad.bits);
    check_refused(config, name, bad.text);
  }
}
const std::vector<Bad<double>> bad_factors = {
    {0x0000000000000000, "0"},    {0x8000000000000000, "-0"},  {0xC000000000000000, "-2"}, {0x7FF0000000000000, "inf"},
    {0xFFF0000000000000, "-inf"}, {0x7FF8000000000000, "nan"}, {0xFFF8000000000001, "nan"}};

}  // namespace

TEST_CASE("scales out of range are refused in every field") {
  const std::vector<Bad<float>> bad = {{0x00000000, "0"},   {0x80000000, "-0"},  {0xC7000000, "-32768"},
                                       {0x7F800000, "inf"}, {0x7FC00000, "nan"}, {0xFFC00001, "nan"},
                                       {0x007FFFFF, ""},    {0x00000001, ""},    {0x7E800001, "8.50706e+37"}};
  check_refused_values(&LossScaleConfig::initial_scale, "initial_scale", bad);
  check_refused_values(&LossScaleConfig::min_scale, "min_scale", bad);
  check_refused_values(&LossScaleConfig::max_scale, "max_scale", bad);
}

TEST_CASE("factors and counts out of range are refused") {
  check_refused_values(&LossScaleConfig::growth_factor, "growth_factor", bad_factors);
  check_refused_values<double>(&LossScaleConfig::growth_factor, "growth_factor", {{0x3FEFFFFFFFFFFFFF, "0.9999999999999999"}});
  check_refused_values(&LossScaleConfig::backoff_factor, "backoff_factor", bad_factors);
  check_refused_values<double>(&LossScaleConfig::backoff_factor, "backoff_factor", {{0x3FF0000000000000, "1"}});
  LossScaleConfig config;
  config.growth_interval = 0;
  check_refused(config, "growth_interval", "0; it must be at least 1");
  for (const std::int32_t hysteresis : {0, std::numeric_limits<std::int32_t>::min()}) {
    CHECK_THAT(message_of([&] {
                 (void)HysteresisScale({{}, hysteresis});
               }),
               ContainsSubstring("hysteresis is " + std::to_string(hysteresis)));
  }
}

TEST_CASE("the error for bounds in the wrong order names both") {
  LossScaleConfig config;
  config.max_scale = 1024.0F;
  check_refused(config, "initial_scale", "32768, above max_scale, which is 1024");
  config = {};  // the default floor is above this maximum
  config.initial_scale = config.max_scale = 0.5F;
  check_refused(config, "min_scale", "1, above max_scale, which is 0.5");
}

TEST_CASE("ranges include their ends") {
  LossScaleConfig config{32768.0F, 1, 1.0, 0x1.fffffffffffffp-1};
  CHECK(message_of([&] { (void)DynamicLossScale(config); }) == "");
  config = {32768.0F, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<double>::max(),
            std::numeric_limits<double>::min()};
  for (const float end : {headroom::smallest_loss_scale, 1.0F, headroom::largest_loss_scale}) {
    config.initial_scale = config.min_scale = config.max_scale = end;
    CHECK(DynamicLossScale(config).adjust(true).loss_scale() == end);
    CHECK(DynamicLossScale(config).adjust(false).loss_scale() == end);
  }
}

TEST_CASE("policies differ in their settings, scale, or the state of a rule") {
  const DynamicLossScale scale;
  CHECK(scale != DynamicLossScale(every_third_step()));
  CHECK(scale != scale.with_loss_scale(2.0F));
  CHECK(scale != scale.adjust(true));
  const headroom::HysteresisScale hysteresis;
  REQUIRE(hysteresis.adjust(false).loss_scale() == hysteresis.loss_scale());
  CHECK(hysteresis != hysteresis.adjust(false));
}

TEST_CASE("settings are equal if all fields are equal") {
  const LossScaleConfig config;
  LossScaleConfig other[6];
  other[0].initial_scale = 2.0F;
  other[1].growth_interval = 1;
  other[2].growth_factor = 3.0;
  other[3].backoff_factor = 0.25;
  other[4].min_scale = 2.0F;
  other[5].max_scale = 65536.0F;
  for (const LossScaleConfig& changed : other) {
    CHECK(config != changed);
    CHECK(HysteresisConfig{config, 2} != HysteresisConfig{changed, 2});
  }
  static_assert(LossScaleConfig() == LossScaleConfig() && HysteresisConfig() == HysteresisConfig{{}, 2});
  CHECK(HysteresisConfig{config, 2} != HysteresisConfig{config, 3});
  CHECK(headroom::DelayedShiftConfig{config, 1, false} != headroom::DelayedShiftConfig{config, 1, true});
  CHECK(headroom::ToleranceConfig{config, 0.0} != headroom::ToleranceConfig{config, 0.25});
}

TEST_CASE("the operators for settings apply to no other type with a member `scale`") {
  using headroom::detail::is_detected_v;
  static_assert(is_detected_v<equality_t, HysteresisConfig> && is_detected_v<inequality_t, HysteresisConfig>);
  static_assert(!is_detected_v<equality_t, Quantized<GradientReport>>);
  static_assert(!is_detected_v<inequality_t, Quantized<GradientReport>>);
  SUCCEED();
}
