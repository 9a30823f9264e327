#include <headroom/headroom.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/flush.hpp"
#include "support/isa.hpp"
#include "support/own_formats.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace headroom::detail;
using namespace support;

namespace {

template <class In, class Out>
bits_type<Out> nearest(bits_type<In> bits) {
  using From = format_of<In>;
  using To = format_of<Out>;
  const auto sign = static_cast<bits_type<Out>>((bits & From::sign_mask) != 0 ? To::sign_mask : 0);
  if (is_nan<From>(bits)) return static_cast<bits_type<Out>>(sign | To::quiet_nan_bits);
  if (!is_finite<From>(bits)) return static_cast<bits_type<Out>>(sign | overflow<To>());
  return nearest<To>(decode<From>(bits));
}

void compare(const AnyBits& elements, const AnyBits& expected, const AnyBits& actual,
             const support::Layout& layout) {
  Mismatches wrong, wrong_sign;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto describe = [&] {
      return hex(elements[i]) + " became " + hex(actual[i]) + ", not " + hex(expected[i]);
    };
    wrong.expect(layout.same_bits(actual[i], expected[i]), describe);
    wrong_sign.expect(((actual[i] ^ expected[i]) & layout.sign_mask) == 0, describe);
  }
  CHECK(wrong.first() == "");
  CHECK(wrong_sign.first() == "");
}

template <class In, class Out>
AnyBits cast(const AnyBits& elements) {
  const auto source = values_with<In>({elements.begin(), elements.end()});
  std::vector<Out> destination(elements.size());
  cast_into(source, destination);
  return any_bits_of(destination);
}
/// Casts never flush subnormals: they use integers, or instructions that ignore that mode.
void check_cast(const std::string& from, const std::string& to, AnyBits (*cast)(const AnyBits&),
                const AnyBits& elements, const AnyBits& expected, const support::Layout& layout) {
  INFO(from << " to " << to);
  for_each_isa([&](Isa) { compare(elements, expected, cast(elements), layout); });
}
template <class In, class Out>
void check_cast(const AnyBits& elements) {
  AnyBits expected;
  for (const auto element : elements)
    expected.push_back(nearest<In, Out>(static_cast<bits_type<In>>(element)));
  check_cast(name_of<In>(), name_of<Out>(), &cast<In, Out>, elements, expected,
             support::layout_of<format_of<Out>>);
}

/// The expected bits come from the definition, not from the reference conversion.
template <class Wide, class Narrow>
void check_boundaries() {
  AnyBits elements, expected;
  for (const auto& boundary : boundaries<format_of<Wide>, format_of<Narrow>>()) {
    elements.push_back(boundary.wide);
    expected.push_back(boundary.nearest);
  }
  check_cast(name_of<Wide>(), name_of<Narrow>(), &cast<Wide, Narrow>, elements, expected,
             support::layout_of<format_of<Narrow>>);
}

}  // namespace

TEST_CASE("cast rounds to the nearest value of each dtype, from all patterns", "[kernel]") {
  for_each_dtype([&](auto in) {
    using In = typename decltype(in)::type;
    const auto elements = any_sample_bits<format_of<In>>();
    for_each_dtype([&](auto out) { check_cast<In, typename decltype(out)::type>(elements); });
  });
}

TEST_CASE("cast at every boundary between neighbouring 16-bit values", "[kernel]") {
  check_boundaries<float, half>();
  check_boundaries<float, bfloat16>();
  check_boundaries<double, half>();
  check_boundaries<double, bfloat16>();
}

TEST_CASE("cast from and to formats without instructions", "[kernel]") {
  for_each_type<float8_e4m3, float8_e5m2, cbfloat16, own8, own14, own16>([](auto type) {
    using T = typename decltype(type)::type;
    const auto elements = any_sample_bits<format_of<T>>();
    check_cast<T, float>(elements);
    check_cast<T, half>(elements);
    check_cast<float, T>(any_sample_bits<binary32>());
    check_cast<double, T>(any_sample_bits<binary64>());
    check_cast<half, T>(any_sample_bits<binary16>());
    check_boundaries<float, T>();
  });
  check_boundaries<double, float8_e4m3>();
}

TEST_CASE("T15: cast of a NaN of every kind to bfloat16 is a NaN", "[kernel]") {
  // Rounding by an addition alone would turn 0x7fffffff into -0. Keeping only the upper half would
  // lose the payload of 0x7f800001.
  check_cast<float, bfloat16>(
      {0x7FFFFFFF, 0xFFFFFFFF, 0x7FFF8000, 0x7F800001, 0xFF800001, 0x7F80FFFF, 0x7FC00000});
}

TEST_CASE("cast to the same dtype copies, and may be in place", "[kernel]") {
  for_each_isa([&](Isa) {
    for_each_dtype([&](auto type) {
      using T = typename decltype(type)::type;
      auto values = values_with<T>(sample_bits<format_of<T>>());
      const AnyBits before = any_bits_of(values);
      cast_into(values, values);
      INFO(name_of<T>());
      compare(before, before, any_bits_of(values), support::layout_of<format_of<T>>);
    });
  });
}

TEST_CASE("T11: casts to bfloat16 and back keep subnormal numbers", "[kernel]") {
  std::vector<std::uint32_t> subnormals;
  for (std::uint32_t upper = 1; upper < 0x80; ++upper) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) subnormals.push_back(sign | upper << 16);
  }
  for_each_isa([&](Isa) {
    std::vector<float> floats(subnormals.size());
    std::memcpy(floats.data(), subnormals.data(), subnormals.size() * sizeof(float));
    std::vector<bfloat16> narrow(floats.size());
    cast_into(floats, narrow);
    std::vector<float> back(floats.size(), 1.0F);
    cast_into(narrow, back);
    CHECK(bits_of(back) == subnormals);
    CHECK(narrow.front().bits() == 1);
  });
}

TEST_CASE("T16: casts and checks are the same whether this program flushes subnormals or not",
          "[kernel]") {
  INFO("subnormals are flushed: " << flushes_subnormals());
  for_each_isa([](Isa) {
    const std::vector<half> smallest(3, half::from_bits(1));
    CHECK(all_finite(smallest));
    CHECK(measure(smallest).max_abs == 0x1p-24);
    std::vector<float> wide(3);
    cast_into(smallest, wide);
    CHECK(wide[2] == 0x1p-24F);
    std::vector<half> back(3);
    cast_into(wide, back);
    CHECK(back[0].bits() == 1);
  });
}
