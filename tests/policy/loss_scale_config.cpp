// Settings out of range, for policies that have them: refused, naming the field and the value.
#include <headroom/policy/deepspeed.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/policy/tolerance.hpp>

#include <limits>
#include <string>
#include <vector>

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
  const std::string words = field + " is " + value;
  CHECK_THAT(message_of([&] { (void)DynamicLossScale(config); }), ContainsSubstring(words));
  CHECK_THAT(message_of([&] { (void)HysteresisScale(HysteresisConfig{config, 2}); }), ContainsSubstring(words));
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
const std::vector<Bad<double>> bad_factors = {
    {0x0000000000000000, "0"},    {0x8000000000000000, "-0"},  {0xC000000000000000, "-2"},  {0x7FF0000000000000, "inf"},
    {0xFFF0000000000000, "-inf"}, {0x7FF8000000000000, "nan"}, {0xFFF8000000000001, "nan"}, {0x3FF0000000000000, "1"}};

}  // namespace

TEST_CASE("a scale that is none is refused in every field") {
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
  check_refused_values<double>(&LossScaleConfig::backoff_factor, "backoff_factor",
                               {{0x3FF0000000000001, "1.0000000000000002"}});
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

TEST_CASE("bounds in the wrong order are refused, naming both") {
  LossScaleConfig config;
  config.max_scale = 1024.0F;
  check_refused(config, "initial_scale", "32768, above max_scale, which is 1024");
  config = {};
  config.min_scale = 65536.0F;
  check_refused(config, "min_scale", "65536, above initial_scale, which is 32768");
  config = {};  // the default floor above the ceiling
  config.initial_scale = config.max_scale = 0.5F;
  check_refused(config, "min_scale", "1, above max_scale, which is 0.5");
}

TEST_CASE("the ends of each range are inside") {
  LossScaleConfig config{32768.0F, 1, 0x1.0000000000001p0, 0x1.fffffffffffffp-1};
  CHECK(message_of([&] { (void)DynamicLossScale(config); }) == "");
  config = {32768.0F, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<double>::max(),
            std::numeric_limits<double>::min()};
  for (const float end : {headroom::smallest_loss_scale, 1.0F, headroom::largest_loss_scale}) {
    config.initial_scale = config.min_scale = config.max_scale = end;
    CHECK(DynamicLossScale(config).adjust(true).loss_scale() == end);
    CHECK(DynamicLossScale(config).adjust(false).loss_scale() == end);
  }
}

TEST_CASE("settings are equal where every field is") {
  const LossScaleConfig config;
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
  static_assert(LossScaleConfig() == LossScaleConfig() && HysteresisConfig() == HysteresisConfig{{}, 2});
  CHECK(HysteresisConfig{config, 2} != HysteresisConfig{config, 3});
  CHECK(headroom::DelayedShiftConfig{config, 1, false} != headroom::DelayedShiftConfig{config, 1, true});
  CHECK(headroom::ToleranceConfig{config, 0.0} != headroom::ToleranceConfig{config, 0.25});
}
