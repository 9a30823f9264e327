#include <headroom/quantize/block_rules.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "support/catch.hpp"

using namespace headroom;

TEST_CASE(
    "a scale of e4m3 is what the conversion rounds to, from subnormal numbers to those that "
    "saturate") {
  unsigned different = 0;
  const auto compare = [&](std::uint32_t bits) {
    const std::uint8_t expected = detail::convert_bits<binary32, detail::saturating<e4m3>>(bits);
    different += detail::to_e4m3(bits).bits() != expected ? 1 : 0;
  };
  // Each number, each tie, and their neighbours
  for (std::uint32_t code = 0; code <= 0x7F; ++code) {
    const std::uint32_t bits =
        detail::bits_of(float8_e4m3::from_bits(static_cast<std::uint8_t>(code)));
    for (const std::uint32_t half : {0U, 1U << 19})
      for (const std::uint32_t step : {0U, 1U, ~0U}) compare(bits + half + step);
  }
  for (std::uint32_t bits = 0; bits <= binary32::quiet_nan_bits; bits += 0xFFFF) compare(bits);
  CHECK(different == 0);
}

TEST_CASE("TorchaoNvfp4: the scales and factors of correctly rounded divisions") {
  using namespace headroom::detail;
  std::mt19937 random(1);
  unsigned different = 0;
  const auto compare = [&](std::uint32_t amax, std::uint32_t level, auto format) {
    const auto divided = over(over(amax, largest_bits<decltype(format)>), level);
    const auto stored = to_e4m3(larger_of(divided, bits_of(0x1p-6F)));
    const auto factor = over(over(bits_of(1.0F), level), bits_of(stored));
    const auto made =
        TorchaoNvfp4{bit_cast<float>(level)}.scale<decltype(format)>(bit_cast<float>(amax), 1.0F);
    different += made.stored.bits() != stored.bits() || magnitude_bits(made.factor) != factor;
  };
  for (int i = 0; i < 100'000; ++i) {
    const auto level = static_cast<std::uint32_t>(1 + random() % 0x7F000000),
               near = level + static_cast<std::uint32_t>(random() % 0x06000000),
               any = static_cast<std::uint32_t>(random() % 0x7F800000);
    // Near the middle between two scales, too
    const auto middle = bits_of(static_cast<float>(17 + 2 * (random() % 8)));
    const auto tie =
        times(times(middle, bits_of(6.0F)), level) + static_cast<std::uint32_t>(i % 3) - 1;
    for (const std::uint32_t amax :
         {smaller_of(near, 0x7F7FFFFFU), any, smaller_of(tie, 0x7F7FFFFFU)}) {
      compare(amax, level, e2m1{});
      if (i % 8 == 0) compare(amax, level, e4m3{});
    }
  }
  CHECK(different == 0);
}

TEST_CASE("NVFP4: a scale that e4m3 does not have saturates") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float amax : {6.0F * 448.0F, 6.0F * 470.0F, 6.0F * 480.0F, 1e30F, infinity}) {
    INFO(amax);
    const auto of_torchao = TorchaoNvfp4{}.scale<e2m1>(amax, infinity),
               of_modelopt = ModelOptNvfp4{}.scale<e2m1>(amax, infinity);
    const auto of_te = TeNvfp4{2688.0F}.scale<e2m1>(amax, infinity);
    CHECK((of_torchao.stored.bits() == 0x7E && of_torchao.factor == 1.0F / 448.0F));
    CHECK((of_modelopt.stored.bits() == 0x7E && of_modelopt.factor == 448.0F));
    CHECK((of_te.stored.bits() == 0x7E && of_te.factor == 1.0F / 448.0F));
  }
}

TEST_CASE("NVFP4: TransformerEngine scales a tensor with Inf as one whose amax is 2688") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto made = TeNvfp4{infinity}.scale<e2m1>(12.0F, infinity);
  CHECK((made.stored == float8_e4m3(2.0F) && made.factor == 0.5F));
}

TEST_CASE(
    "Mxfp4ToNvfp4: every code of every MXFP4 block is exact, down to 2^-17 of the largest scale") {
  using detail::widened;
  const auto as_float = [](double value) {
    return detail::bit_cast<float>(detail::nearest_float_bits(value));
  };
  const auto value_of = [](const float& number) { return widened(detail::magnitude_bits(number)); };
  const double codes[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  unsigned scales = 0, wrong_scales = 0, inexact = 0, beyond = 0;
  // Of the MX block; 6 * 2^126 is Inf
  for (int exponent = -127; exponent <= 125; ++exponent) {
    // Of the largest MX scale
    for (int above = 0; above <= 40 && exponent + above <= 125; ++above) {
      for (const double largest : codes) {  // of that block
        const double tensor_amax = std::ldexp(largest, exponent + above);
        const float level = Mxfp4ToNvfp4::tensor_scale_of(as_float(tensor_amax));
        for (int a = 0; a < 8 && std::ldexp(codes[a], exponent) <= tensor_amax; ++a) {
          const auto made =
              Mxfp4ToNvfp4{level}.scale<e2m1>(as_float(std::ldexp(codes[a], exponent)), 0.0F);
          const double factor = value_of(made.factor);
          ++scales;
          wrong_scales +=
              factor != value_of(static_cast<float>(made.stored)) * value_of(level) ? 1 : 0;
          bool exact = true;
          for (int other = 0; other <= a; ++other) {
            const double quotient = std::ldexp(codes[other], exponent) / factor;
            bool found = false;
            for (const double code : codes) found = found || quotient == code;
            exact = exact && found;
          }
          inexact += above <= 17 && !exact ? 1 : 0;
          beyond += !exact ? 1 : 0;
          // An element that is not exact is rounded with the smallest scale.
          wrong_scales += !exact && made.stored.bits() != 1 ? 1 : 0;
        }
      }
    }
  }
  CHECK(scales > 500'000);
  CHECK(Mxfp4ToNvfp4::tensor_scale_of(0.0F) == 0x1p-126F);
  CHECK(wrong_scales == 0);
  CHECK(inexact == 0);
  CHECK(beyond > 0);
  const float nan =
      Mxfp4ToNvfp4{}.scale<e2m1>(std::numeric_limits<float>::quiet_NaN(), 0.0F).factor;
  CHECK(detail::magnitude_bits(nan) > binary32::infinity_bits);
}
