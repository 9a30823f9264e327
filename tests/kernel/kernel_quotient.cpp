// Quotients by scales that are no powers of two. SIMD kernels compute most of them from the
// reciprocal of the scale, the portable ones divide. Both store the same bits.
#include <headroom/headroom.hpp>

#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/kernels.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace headroom::detail;
using namespace support;

namespace {

float scale_of(int exponent, std::uint32_t mantissa) {
  float scale = 0.0F;
  set_bits(scale, static_cast<std::uint32_t>(exponent + 127) << 23 | mantissa);
  return scale;
}
std::uint32_t random_mantissa(std::mt19937& random) {
  return static_cast<std::uint32_t>(random()) & 0x7fffff;
}
/// The ends of the mantissa and random ones, for exponents inside and outside of the range of
/// reciprocals, [0, 60].
std::vector<float> scales() {
  std::mt19937 random(seed);
  std::vector<float> all = {scale_of(60, 0), 3.0F, 10.0F, 1000.0F, 65504.0F};
  for (const int exponent : {-126, -61, -60, -1, 0, 1, 14, 16, 30, 47, 48, 59, 60, 61, 100, 125}) {
    for (const std::uint32_t mantissa :
         {1U, 2U, 0x3fffffU, 0x400000U, 0x7ffffdU, 0x7ffffeU, 0x7fffffU}) {
      all.push_back(scale_of(exponent, mantissa));
    }
    all.push_back(scale_of(exponent, random_mantissa(random)));
  }
  for (int i = 0; i < 100; ++i) all.push_back(scale_of(i % 61, random_mantissa(random)));
  return all;
}
template <class In>
std::vector<bits_type<In>> all_patterns(float) {
  std::vector<bits_type<In>> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<bits_type<In>>(i);
  return bits;
}
/// Near products of the scale and both sides of the least magnitude whose quotient comes from the
/// reciprocal; zeros beside them, for registers in which no element is smaller; random ones with
/// every exponent.
template <>
std::vector<std::uint32_t> all_patterns<float>(float scale) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> bits;
  for (const float least : {0x1p-78F, scale * 0x1p-125F}) {
    for (std::uint32_t i = 0; i < 100; ++i) bits.push_back(bits_of(least) + i);
    bits.resize(bits.size() + 92, 0x80000000);
    for (std::uint32_t i = 0; i < 64; ++i) bits.push_back(bits_of(least) - i);
  }
  for (int i = 0; i < 3000; ++i) {
    const auto sign_and_step = static_cast<std::uint32_t>(random());
    const float product = scale_of(0, random_mantissa(random)) * scale;
    bits.push_back((bits_of(product) + sign_and_step % 3 - 1) | (sign_and_step & 0x80000000));
  }
  for (int i = 0; i < 2000; ++i) bits.push_back(static_cast<std::uint32_t>(random()));
  for (const std::uint32_t end :
       {0U, 1U, 0x7fffffU, 0x800000U, 0x7f7fffffU, 0x7f800000U, 0x7fc00000U}) {
    bits.insert(bits.end(), {end, end | 0x80000000});
  }
  return bits;
}

template <class In>
void check_quotients() {
  for (const float scale : scales()) {
    const auto bits = all_patterns<In>(scale);
    const auto elements = values_with<In>(bits);
    std::vector<float> expected(elements.size());
    for_each_isa([&](Isa isa) {
      std::vector<float> quotients(elements.size());
      (void)run_kernel<Op::unscale>(elements.data(), quotients.data(), elements.size(),
                                    static_cast<double>(scale));
      if (isa == Isa::portable) expected = quotients;
      Mismatches wrong;
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const std::uint32_t actual = bits_of(quotients[i]), wanted = bits_of(expected[i]);
        wrong.expect(support::layout_of<binary32>.same_bits(actual, wanted), [&] {
          return hex(bits[i]) + " gave " + hex(actual) + ", not " + hex(wanted);
        });
      }
      INFO(name_of<In>() << " by " << hex(bits_of(scale)) << ": " << wrong.first());
      CHECK(wrong.count() == 0);
    });
  }
}

}  // namespace

TEST_CASE(
    "quotients are those of a division: all 16-bit patterns, floats at the limits of reciprocals",
    "[kernel]") {
  check_quotients<half>();
  check_quotients<bfloat16>();
  check_quotients<float>();
}
