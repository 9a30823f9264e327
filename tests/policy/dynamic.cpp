#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/policies.hpp"

using namespace headroom;
using namespace support;

namespace {

constexpr LossScaleConfig with_bounds(float initial, float min, float max) {
  return {initial, 1, 2.0, 0.5, min, max};
}
constexpr DynamicLossScale start(LossScaleConfig{32768.0F, 3});

/// Lookup by argument finds headroom's operators for it. Its `scale` is not a LossScaleConfig.
template <class T>
struct Quantized {
  float scale;
};
template <class T>
using equality_t = decltype(std::declval<const T&>() == std::declval<const T&>());
static_assert(!headroom::detail::is_detected_v<equality_t, Quantized<GradientReport>>);
static_assert(LossScaleConfig() == LossScaleConfig() && LossScaleConfig() != LossScaleConfig{1.0F});
static_assert(HysteresisConfig() == HysteresisConfig() &&
              HysteresisConfig() != HysteresisConfig{{}, 3} &&
              HysteresisConfig() != HysteresisConfig{{1.0F}, 2});

static_assert(after(start, "+++").loss_scale() == 65536.0F);
static_assert(after(DynamicLossScale(with_bounds(6.0F, 2.0F, 10.0F)), "+").loss_scale() == 10.0F);
static_assert(start.adjust(GradientReport{false, 1.0}) == start.adjust(false));
static_assert(start.adjust(GradientReport{true, 0.0}) == start.adjust(true));
static_assert(start.with_loss_scale(2.0F) != start);
static_assert(noexcept(start.adjust(true)) && noexcept(start.adjust(GradientReport{})));
static_assert(std::is_trivially_copyable_v<DynamicLossScale>);
static_assert(sizeof(DynamicLossScale) - sizeof(LossScaleConfig) <= 16);

}  // namespace

TEST_CASE("DynamicLossScale has the documented defaults, and adjust does not change the object") {
  const DynamicLossScale scale;
  CHECK(scale.loss_scale() == 32768.0F);
  CHECK(scale.inv_scale() == 1.0F / 32768.0F);
  CHECK(scale.config() == LossScaleConfig{32768.0F, 2000, 2.0, 0.5, 1.0F, 0x1p126F});
  CHECK(scale.adjust(false).loss_scale() == 16384.0F);
  CHECK(scale == DynamicLossScale());
}

TEST_CASE("rule 3: the product is formed in double and rounded once") {
  const DynamicLossScale by_a_tenth(LossScaleConfig{1000003.0F, 1, 1.1, 0.1});
  // Of 1100003.3; with floats it would be 1100003.375
  CHECK(by_a_tenth.adjust(true).loss_scale() == 1100003.25F);
  CHECK(by_a_tenth.adjust(false).loss_scale() == static_cast<float>(1000003.0 * 0.1));
}

TEST_CASE("T3: growth stops at the ceiling; without one growth to Inf keeps the scale") {
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
  // 0.75 * 6 * 2^126 is beyond float
  const double infinite[] = {6.0, 1e300, std::numeric_limits<double>::max()};
  for (const double factor : {2.0, 3.0, 5.0, 6.0, 1e300})
    check_grows_to(factor, headroom::largest_loss_scale);
  config.max_scale = std::numeric_limits<float>::max();
  for (const double factor : {2.0, 3.0, 5.0}) check_grows_to(factor, headroom::largest_loss_scale);
  for (const double factor : infinite) check_grows_to(factor, config.initial_scale);
  config.max_scale = headroom::largest_loss_scale * 0.875F;
  for (const double factor : infinite) check_grows_to(factor, config.max_scale);
}

namespace {

/// A user's rules. This one has no settings of its own.
struct StayPut {
  using Config = LossScaleConfig;
  static constexpr const char* name = "stay_put";
  constexpr explicit StayPut(const Config&) noexcept {}
  [[nodiscard]] static constexpr bool backs_off(bool, std::int64_t, const Config&) noexcept {
    return false;
  }
  constexpr void grow(const Config&) noexcept {}
  template <class Visit>
  static constexpr void fields(Visit&&, const Config&) {}
};
/// These settings are those of GrowPatiently in addition to those of a hysteresis.
struct PatientConfig : HysteresisConfig {
  std::int32_t patience = 3;

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    HysteresisConfig::fields(visit);
    visit("patience", &PatientConfig::patience, 0, 1000);
  }
};
/// Grows on every finite step except the first `patience` ones of all and after a backoff.
class GrowPatiently {
 public:
  using Config = PatientConfig;
  static constexpr const char* name = "patient";
  constexpr explicit GrowPatiently(const Config& config) noexcept : wait_(config.patience) {}

  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return wait_; }
  [[nodiscard]] constexpr bool grows(bool grads_finite, const Config&) noexcept {
    if (grads_finite && wait_ == 0) return true;
    wait_ -= grads_finite ? 1 : 0;
    return false;
  }
  constexpr void back_off(const Config& config) noexcept { wait_ = config.patience; }
  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config& config) {
    visit("wait", &GrowPatiently::wait_, 0, config.patience);
  }

 private:
  std::int32_t wait_;
};

}  // namespace

TEST_CASE("growth and backoff may follow a user's rules") {
  using Patient = BasicDynamicLossScale<GrowPatiently, BackOffAfterHysteresis<>>;
  static_assert(std::is_same_v<Patient::Config, PatientConfig>);
  static_assert(after(Patient(), "++++").loss_scale() == 65536.0F);
  const Patient scale = Patient().with_settings({{"hysteresis", 3}, {"patience", 1}});
  CHECK(scale.hysteresis_left() == 3);
  CHECK(after(scale, "+++").loss_scale() == 131072.0F);
  CHECK(after(scale, "+---+").loss_scale() == 16384.0F);
  CHECK(after(scale, "+---++").loss_scale() == 32768.0F);
  CHECK(Patient::policy_name() == "patient_hysteresis");
  CHECK(Patient::from_state_dict(after(scale, "+-").state_dict()) == after(scale, "+-"));
  CHECK(message_of([&] {
          (void)scale.with_settings({{"hysteresis", 0}});
        }) == "headroom: hysteresis is 0; it must be at least 1");
  using Stubborn = BasicDynamicLossScale<GrowAfterFiniteSteps, StayPut>;
  CHECK(after(Stubborn(LossScaleConfig{8.0F, 2}), "--++").loss_scale() == 16.0F);
  CHECK(Stubborn::policy_name() == "stay_put");
}

TEST_CASE("with_loss_scale changes only the scale, and with_config only the settings") {
  const DynamicLossScale scale = after(start, "++");
  // Below the floor until the next overflow
  const DynamicLossScale other = scale.with_loss_scale(0.5F);
  CHECK(other.loss_scale() == 0.5F);
  CHECK(other.counter() == 2);
  CHECK(other.config() == scale.config());
  CHECK(other.adjust(false).loss_scale() == 1.0F);
  CHECK(message_of([&] { (void)scale.with_loss_scale(0.0F); }) ==
        "headroom: loss_scale is 0; it must be in [2^-126, 2^126]");
  const LossScaleConfig bounds = with_bounds(6.0F, 1.0F, 10.0F);
  CHECK(other.with_config(bounds).config() == bounds);
  CHECK(other.with_config(bounds).loss_scale() == 0.5F);
  CHECK(other.with_config(bounds).counter() == 2);
  CHECK(message_of([&] { (void)scale.with_config(bounds); }) ==
        "headroom: loss_scale is 32768, above max_scale, which is 10");
}

TEST_CASE("a counter above the interval grows the scale, and stays at its largest value") {
  StateDict state = DynamicLossScale().state_dict();
  state.set("counter", headroom::detail::largest_counter);
  CHECK(DynamicLossScale::from_state_dict(state).adjust(true).loss_scale() == 65536.0F);
  state.set("growth_interval", headroom::detail::largest_counter + 1);
  CHECK(DynamicLossScale::from_state_dict(state).adjust(true).counter() ==
        headroom::detail::largest_counter);
}

// Clang refuses explicit default constructors there
TEST_CASE("a policy may be a member initialised by {}") {
  struct Trainer {
    DynamicLossScale scaler;
    HysteresisScale other;
  };
  const Trainer trainer = {{}, {}};
  CHECK(trainer.scaler == DynamicLossScale());
}

namespace {

/// Every policy refuses `config` with a message that has field and value.
void check_refused(const LossScaleConfig& config, const std::string& message) {
  CHECK_THAT(message_of([&] { (void)DynamicLossScale(config); }),
             Catch::Matchers::StartsWith("headroom: " + message));
  CHECK_THAT(message_of([&] {
               (void)HysteresisScale({config, 2});
             }),
             Catch::Matchers::StartsWith("headroom: " + message));
}

/// The values are made from bits, so that the compiler cannot assume that none is NaN.
template <class T>
struct Bad {
  support::bits_type<T> bits;
  const char* text;
};
template <class T>
void check_refused_values(T LossScaleConfig::*field, const std::string& name,
                          const std::vector<Bad<T>>& values) {
  for (const Bad<T>& bad : values) {
    LossScaleConfig config;
    support::set_bits(config.*field, bad.bits);
    check_refused(config, name + " is " + bad.text);
  }
}

}  // namespace

TEST_CASE("settings out of range are refused") {
  const std::vector<Bad<float>> scales = {
      {0x00000000, "0;"},   {0x80000000, "-0;"},  {0xC7000000, "-32768;"},
      {0x7F800000, "inf;"}, {0x7FC00000, "nan;"}, {0xFFC00001, "nan;"},
      {0x007FFFFF, ""},     {0x00000001, ""},     {0x7E800001, "8.50706e+37;"}};
  check_refused_values(&LossScaleConfig::initial_scale, "initial_scale", scales);
  check_refused_values(&LossScaleConfig::min_scale, "min_scale", scales);
  check_refused_values(&LossScaleConfig::max_scale, "max_scale", scales);
  std::vector<Bad<double>> factors = {
      {0x0000000000000000, "0;"},   {0x8000000000000000, "-0;"},
      {0xC000000000000000, "-2;"},  {0x7FF0000000000000, "inf;"},
      {0xFFF0000000000000, "-inf"}, {0x7FF8000000000000, "nan;"},
      {0xFFF8000000000001, "nan;"}, {0x3FEFFFFFFFFFFFFF, "0.9999999999999999;"}};
  check_refused_values(&LossScaleConfig::growth_factor, "growth_factor", factors);
  factors.back() = {0x3FF0000000000000, "1;"};
  check_refused_values(&LossScaleConfig::backoff_factor, "backoff_factor", factors);
  check_refused({32768.0F, 0}, "growth_interval is 0; it must be at least 1");
  for (const std::int32_t hysteresis : {0, std::numeric_limits<std::int32_t>::min()}) {
    CHECK(message_of([&] {
            (void)HysteresisScale({{}, hysteresis});
          }) ==
          "headroom: hysteresis is " + std::to_string(hysteresis) + "; it must be at least 1");
  }
  check_refused(with_bounds(32768.0F, 1.0F, 1024.0F),
                "initial_scale is 32768, above max_scale, which is 1024");
  check_refused(with_bounds(0.5F, 1.0F, 0.5F), "min_scale is 1, above max_scale, which is 0.5");
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
