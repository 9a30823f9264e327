#include <headroom/kernel/action.hpp>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"

using namespace headroom::detail;
using headroom::binary32;
using headroom::binary64;
using support::bits_of;
using support::hex;

namespace {

float float_of(std::uint32_t bits) {
  float value = 0.0F;
  support::set_bits(value, bits);
  return value;
}
bool is_refused(double factor) {
  try {
    check_factor(factor);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("factors are finite, as floats, whatever their sign", "[kernel]") {
  const std::vector<std::uint64_t> allowed = {0, 1, bits_of(1.0), bits_of(0x1p-1074), bits_of(0x1.fffffep127)};
  const std::vector<std::uint64_t> refused = {bits_of(0x1.fffffep127) + 1, bits_of(0x1p128), binary64::infinity_bits,
                                              binary64::quiet_nan_bits, binary64::infinity_bits + 1};
  for (const std::uint64_t sign : {std::uint64_t{0}, binary64::sign_mask}) {
    double factor = 0.0;
    for (const std::uint64_t bits : allowed) {
      support::set_bits(factor, bits | sign);
      CHECK_FALSE(is_refused(factor));
    }
    for (const std::uint64_t bits : refused) {
      support::set_bits(factor, bits | sign);
      CHECK(is_refused(factor));
    }
  }
}

TEST_CASE("every scale that is a power of two multiplies by its exact reciprocal, its neighbours divide", "[kernel]") {
  for (int exponent = -126; exponent <= 126; ++exponent) {
    const float scale = std::ldexp(1.0F, exponent);
    INFO("scale 2^" << exponent);
    const Action exact = unscaling_by(scale);
    CHECK(exact.op == Op::scale);
    CHECK(exact.factor == std::ldexp(1.0, -exponent));
    for (const float neighbour : {float_of(bits_of(scale) + 1), float_of(bits_of(scale) - 1)}) {
      if (neighbour < 0x1p-126F || neighbour > 0x1p126F) continue;
      const Action divides = unscaling_by(neighbour);
      CHECK(divides.op == Op::unscale);
      CHECK(divides.factor == static_cast<double>(neighbour));
    }
  }
}

TEST_CASE("a scale outside of its range unscales nothing", "[kernel]") {
  for (const std::uint32_t bits : {0U, 1U, bits_of(0x1p-126F) - 1, bits_of(0x1p126F) + 1, bits_of(-1.0F),
                                   binary32::infinity_bits, binary32::quiet_nan_bits}) {
    INFO(hex(bits));
    CHECK_THROWS_AS(unscaling_by(float_of(bits)), std::invalid_argument);
  }
}

TEST_CASE("what was found becomes a report and a norm", "[kernel]") {
  const Found none{0, 0.0}, some{bits_of(3.0), 25.0}, bad{binary64::infinity_bits, 7.0};
  CHECK(report_of(none).finite);
  CHECK(report_of(none).max_abs == 0.0);
  CHECK(norm_of(none).norm == 0.0);
  CHECK(report_of(some).max_abs == 3.0);
  CHECK(norm_of(some).finite);
  CHECK(norm_of(some).max_abs == 3.0);
  CHECK(norm_of(some).norm == 5.0);

  CHECK_FALSE(report_of(bad).finite);
  CHECK(bits_of(report_of(bad).max_abs) == binary64::infinity_bits);
  for (const headroom::GradientNorm& norm : {norm_of(bad), overflow()}) {
    CHECK_FALSE(norm.finite);
    CHECK(bits_of(norm.max_abs) == binary64::infinity_bits);
    CHECK(bits_of(norm.norm) == binary64::infinity_bits);
  }
}
