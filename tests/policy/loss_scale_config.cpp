// Settings out of range, for both policies that have them: refused, naming the field and the value.
#include <headroom/policy/deepspeed.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/tolerance.hpp>

#include <limits>
#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::DynamicLossScale;
using headroom::HysteresisConfig;
using headroom::HysteresisScale;
using headroom::LossScaleConfig;
using support::message_of;

namespace {

/// `config` is refused by every policy made from it, with a message that has both texts.
void check_refused(const LossScaleConfig& config, const std::string& field, const std::string& value) {
  HysteresisConfig hysteresis;
  hysteresis.scale = config;
  const std::string words = field + " is " + value;
  CHECK_THAT(message_of([&] { (void)DynamicLossScale(config); }), ContainsSubstring(words));
  CHECK_THAT(message_of([&] { (void)HysteresisScale(hysteresis); }), ContainsSubstring(words));
}
void check_accepted(const LossScaleConfig& config) {
  CHECK(message_of([&] { (void)DynamicLossScale(config); }) == "");
  HysteresisConfig hysteresis;
  hysteresis.scale = config;
  CHECK(message_of([&] { (void)HysteresisScale(hysteresis); }) == "");
}

/// The values are made from bits, so that no compiler assumes that there is no NaN among them.
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

const std::vector<Bad<float>> bad_scales = {
    {0x00000000, "0"},
    {0x80000000, "-0"},
    {0xBF800000, "-1"},
    {0x7F800000, "inf"},
    {0xFF800000, "-inf"},
    {0x7FC00000, "nan"},
    {0xFFC00001, "nan"},
    {0x7F800001, "nan"},
    {0xC7000000, "-32768"},
    {0x7F000000, "1.7014118e+38"},
    {0x7F7FFFFF, "3.4028235e+38"},
    {0x7E800001, "8.50706e+37"},
};
const std::vector<Bad<double>> bad_numbers = {
    {0x0000000000000000, "0"},    {0x8000000000000000, "-0"},  {0xC000000000000000, "-2"},  {0x7FF0000000000000, "inf"},
    {0xFFF0000000000000, "-inf"}, {0x7FF8000000000000, "nan"}, {0xFFF8000000000001, "nan"}, {0x7FF0000000000001, "nan"},
    {0xBFE0000000000000, "-0.5"}, {0x3FF0000000000000, "1"},
};

}  // namespace

TEST_CASE("a scale that is none is refused in every field") {
  check_refused_values(&LossScaleConfig::initial_scale, "initial_scale", bad_scales);
  check_refused_values(&LossScaleConfig::min_scale, "min_scale", bad_scales);
  check_refused_values(&LossScaleConfig::max_scale, "max_scale", bad_scales);
}

TEST_CASE("a subnormal scale is refused") {
  for (const std::uint32_t bits : {0x00000001U, 0x00400000U, 0x007FFFFFU}) {  // up to just below 2^-126
    LossScaleConfig initial, min, max;
    support::set_bits(initial.initial_scale, bits);
    support::set_bits(min.min_scale, bits);
    support::set_bits(max.max_scale, bits);
    check_refused(initial, "initial_scale", "");
    check_refused(min, "min_scale", "");
    check_refused(max, "max_scale", "");
  }
}

TEST_CASE("factors out of range are refused") {
  check_refused_values(&LossScaleConfig::growth_factor, "growth_factor", bad_numbers);
  check_refused_values<double>(&LossScaleConfig::growth_factor, "growth_factor",
                               {{0x3FEFFFFFFFFFFFFF, "0.9999999999999999"}, {0x3FE0000000000000, "0.5"}});
  check_refused_values(&LossScaleConfig::backoff_factor, "backoff_factor", bad_numbers);
  check_refused_values<double>(&LossScaleConfig::backoff_factor, "backoff_factor",
                               {{0x3FF0000000000001, "1.0000000000000002"}, {0x4000000000000000, "2"}});
}

TEST_CASE("an interval below 1 is refused") {
  LossScaleConfig config;
  config.growth_interval = 0;
  check_refused(config, "growth_interval", "0");
  config.growth_interval = -1;
  check_refused(config, "growth_interval", "-1");
  config.growth_interval = std::numeric_limits<std::int64_t>::min();
  check_refused(config, "growth_interval", "-9223372036854775808");
}

TEST_CASE("a hysteresis below 1 is refused") {
  for (const std::int32_t hysteresis : {0, -1, std::numeric_limits<std::int32_t>::min()}) {
    const std::string words = "hysteresis is " + std::to_string(hysteresis);
    const HysteresisConfig config{{}, hysteresis};
    CHECK_THAT(message_of([&] { (void)HysteresisScale(config); }), ContainsSubstring(words));
    CHECK_THAT(message_of([&] { (void)headroom::BasicHysteresisScale<headroom::RefillOnGrowth>(config); }),
               ContainsSubstring(words));
    CHECK_THAT(message_of([&] { (void)headroom::BasicHysteresisScale<headroom::RefillOnBackoff>(config); }),
               ContainsSubstring(words));
  }
  CHECK(HysteresisScale({{}, 1}).hysteresis_left() == 1);
}

TEST_CASE("bounds in the wrong order are refused, naming both") {
  LossScaleConfig config;
  config.max_scale = 1024.0F;
  check_refused(config, "initial_scale", "32768, above max_scale, which is 1024");
  config = {};
  config.min_scale = 65536.0F;
  check_refused(config, "min_scale", "65536, above initial_scale, which is 32768");
  config.min_scale = 0.5F;
  config.initial_scale = 0.25F;
  check_refused(config, "min_scale", "0.5, above initial_scale, which is 0.25");
  // The default floor above the ceiling.
  config = {};
  config.initial_scale = config.max_scale = 0.5F;
  check_refused(config, "min_scale", "1, above max_scale, which is 0.5");
}

TEST_CASE("the ends of each range are inside") {
  LossScaleConfig config;
  config.growth_interval = 1;
  config.growth_factor = 0x1.0000000000001p0;
  config.backoff_factor = 0x1.fffffffffffffp-1;
  check_accepted(config);
  config.growth_interval = std::numeric_limits<std::int64_t>::max();
  config.growth_factor = std::numeric_limits<double>::max();
  config.backoff_factor = std::numeric_limits<double>::min();
  check_accepted(config);
  for (const float end : {headroom::smallest_loss_scale, 1.0F, headroom::largest_loss_scale}) {
    config.initial_scale = config.min_scale = config.max_scale = end;
    check_accepted(config);
    CHECK(DynamicLossScale(config).adjust(true).loss_scale() == end);
    CHECK(DynamicLossScale(config).adjust(false).loss_scale() == end);
  }
}

TEST_CASE("the default floor of 1 does not keep a scale from starting below") {
  LossScaleConfig config;
  config.initial_scale = 0.25F;
  check_accepted(config);
}

TEST_CASE("settings are equal where every field is") {
  const LossScaleConfig config;
  CHECK(config == LossScaleConfig{});
  CHECK_FALSE(config != LossScaleConfig{});
  LossScaleConfig other[7];
  other[0].initial_scale = 2.0F;
  other[1].growth_interval = 1;
  other[2].growth_factor = 3.0;
  other[3].backoff_factor = 0.25;
  other[4].min_scale = 2.0F;
  other[5].max_scale = 65536.0F;
  other[6].refuse_infinite_growth = true;
  for (const LossScaleConfig& changed : other) {
    CHECK(config != changed);
    CHECK(HysteresisConfig{config, 2} != HysteresisConfig{changed, 2});
  }
  const headroom::DelayedShiftConfig shift{config, 1, false};
  CHECK(shift == headroom::DelayedShiftConfig{});
  CHECK(shift != headroom::DelayedShiftConfig{config, 2, false});
  CHECK(shift != headroom::DelayedShiftConfig{config, 1, true});
  CHECK(shift != headroom::DelayedShiftConfig{other[0], 1, false});
  const headroom::ToleranceConfig tolerance{config, 0.0};
  CHECK(tolerance == headroom::ToleranceConfig{});
  CHECK(tolerance != headroom::ToleranceConfig{config, 0.25});
  CHECK(tolerance != headroom::ToleranceConfig{other[0], 0.0});
  CHECK(HysteresisConfig{config, 2} == HysteresisConfig{});
  CHECK(HysteresisConfig{config, 2} != HysteresisConfig{config, 3});
}
