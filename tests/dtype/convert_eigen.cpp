// Eigen's conversions are an independent implementation of the same rule. Without Eigen this file
// is empty.
#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#define HAS_EIGEN 1
#elif __has_include(<eigen3/Eigen/Core>)
#include <eigen3/Eigen/Core>
#define HAS_EIGEN 1
#endif

#ifdef HAS_EIGEN

#include <headroom/dtype/half.hpp>

#include <cstdint>
#include <random>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/samples.hpp"

using namespace support;
using namespace headroom;

namespace {

std::uint16_t rounded_by_eigen(half, const float& value) {
  return Eigen::half_impl::float_to_half_rtne(value).x;
}
std::uint16_t rounded_by_eigen(bfloat16, const float& value) {
  return Eigen::bfloat16_impl::float_to_bfloat16_rtne<false>(value).value;
}

/// Compares one narrowing conversion. convert.cpp tests NaNs, because under -ffast-math Eigen's own
/// test for them is gone.
template <class T>
void compare(Mismatches& wrong, std::uint32_t bits) {
  if (is_nan<binary32>(bits)) return;
  float value = 0.0F;
  set_bits(value, bits);
  const std::uint16_t expected = rounded_by_eigen(T{}, value), actual = T(value).bits();
  wrong.expect(actual == expected, [&] {
    return hex(bits) + " became " + hex(actual) + ", by Eigen " + hex(expected);
  });
}

}  // namespace

TEST_CASE(
    "conversions as Eigen makes them: random floats, those in the range of half, all boundaries, "
    "all patterns",
    "[dtype]") {
  for_each_type<half, bfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    std::mt19937 random(seed);
    Mismatches wrong;
    for (int i = 0; i < cases(10'000'000); ++i)
      compare<T>(wrong, static_cast<std::uint32_t>(random()));
    for (int i = 0; i < cases(2'000'000); ++i) {
      const auto exponent = static_cast<std::uint32_t>(127 - 30 + random() % 50);
      compare<T>(wrong, (static_cast<std::uint32_t>(random()) & 0x807FFFFFU) | (exponent << 23));
    }
    for (const auto& boundary : boundaries<binary32, typename T::format>())
      compare<T>(wrong, boundary.wide);
    using Theirs = std::conditional_t<std::is_same_v<T, half>, Eigen::half, Eigen::bfloat16>;
    for (std::uint32_t pattern = 0; pattern <= 0xFFFF; ++pattern) {
      const auto bits = static_cast<std::uint16_t>(pattern);
      const auto expected = bits_of(static_cast<float>(Eigen::numext::bit_cast<Theirs>(bits)));
      const auto actual = bits_of(static_cast<float>(T::from_bits(bits)));
      wrong.expect(same_bits<binary32>(actual, expected),
                   [&] { return hex(pattern) + " widened"; });
    }
    CHECK(wrong.first() == "");
  });
}

#endif
