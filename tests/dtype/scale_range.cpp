#include <headroom/dtype/scale_range.hpp>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using namespace support;
using namespace headroom;
using namespace headroom::detail;

// T19: loss scales and their reciprocals are normal floats.
static_assert(smallest_loss_scale == 0x1p-126F && largest_loss_scale == 0x1p126F);
static_assert(smallest_loss_scale == std::numeric_limits<float>::min());
static_assert(1.0F / largest_loss_scale >= std::numeric_limits<float>::min(),
              "2^127 has a subnormal reciprocal");

TEST_CASE("is_within judges numbers by their bits", "[kernel]") {
  static_assert(is_within(1.0F, 1.0F, 2.0F) && is_within(2.0F, 1.0F, 2.0F) &&
                is_within(1.5F, 1.0F, 2.0F));
  static_assert(!is_within(0x1.fffffep-1F, 1.0F, 2.0F) && !is_within(0x1.000002p1F, 1.0F, 2.0F));
  static_assert(!is_within(-1.5F, 1.0F, 2.0F) && !is_within(0.0F, 1.0F, 2.0F) &&
                !is_within(-0.0F, 1.0F, 2.0F));
  static_assert(is_within(1.0, 1.0, 2.0) && is_within(2.0, 1.0, 2.0) && !is_within(-1.5, 1.0, 2.0));
  static_assert(!is_within(0x1.fffffffffffffp-1, 1.0, 2.0) &&
                !is_within(0x1.0000000000001p1, 1.0, 2.0));
  static_assert(!is_within(0.0, 1e-300, 2.0) && !is_within(-0.0, 1e-300, 2.0));
  std::vector<std::uint32_t> bits = nonfinite_bits<binary32>();
  bits.push_back(0x007FFFFF);  // subnormal
  for (const float& value : values_with<float>(bits)) {
    INFO(hex(bits_of(value)));
    CHECK_FALSE(is_within(value, smallest_loss_scale, std::numeric_limits<float>::max()));
  }
  for (const double& value : values_with<double>(nonfinite_bits<binary64>())) {
    INFO(hex(bits_of(value)));
    CHECK_FALSE(is_within(value, 1e-300, std::numeric_limits<double>::max()));
  }
}

TEST_CASE("is_power_of_two over all exponents", "[kernel]") {
  static_assert(power_of_two(127) == largest_loss_scale &&
                power_of_two(-127) == smallest_loss_scale && power_of_two(3) == 8.0F);
  static_assert(exponent_of(1.0) == 0 && exponent_of(15.0) == 3 &&
                exponent_of(0x1.8p-126) == -126 && exponent_of(0x1p126) == 126);
  static_assert(is_power_of_two(largest_loss_scale) && !is_power_of_two(1000.0F) &&
                !is_power_of_two(65504.0F));
  Mismatches wrong;
  for (std::uint32_t exponent = 1; exponent <= 253; ++exponent) {
    for (std::uint32_t bit = 0; bit <= 23; ++bit) {
      float value = 0.0F;
      const std::uint32_t bits = (exponent << 23) | (bit == 23 ? 0 : 1U << bit);
      set_bits(value, bits);
      wrong.expect(is_power_of_two(value) == (bit == 23), [&] { return hex(bits); });
    }
  }
  CHECK(wrong.first() == "");
}

TEST_CASE("check_loss_scale names the field and the value", "[kernel]") {
  static_assert((check_loss_scale("loss_scale", 1024.0F), true),
                "a constant expression where it does not throw");
  CHECK_NOTHROW(check_loss_scale("loss_scale", smallest_loss_scale));
  CHECK_NOTHROW(check_loss_scale("loss_scale", largest_loss_scale));
  CHECK_THROWS_AS(check_loss_scale("min_scale", 0.0F), std::invalid_argument);
  CHECK_THROWS_WITH(check_loss_scale("min_scale", -3.0F),
                    "headroom: min_scale is -3; it must be in [2^-126, 2^126]");
}

TEST_CASE("factors are finite, as floats, whatever their sign", "[kernel]") {
  const std::uint64_t largest = bits_of(0x1.fffffep127);
  const auto factors =
      values_with<double>({0, 1, largest, largest + 1, bits_of(0x1p128), binary64::infinity_bits,
                           binary64::quiet_nan_bits, binary64::infinity_bits + 1});
  for (std::size_t i = 0; i < factors.size(); ++i) {
    for (const std::uint64_t sign : {std::uint64_t{0}, binary64::sign_mask}) {
      double factor = 0.0;
      set_bits(factor, bits_of(factors[i]) | sign);
      CHECK(MESSAGE_OF(check_factor(factor)).empty() == (i < 3));
    }
  }
}
