#include <headroom/observe/format_shares.hpp>

#include <cmath>

#include "support/bits.hpp"
#include "support/catch.hpp"

using headroom::binary64;
using headroom::detail::RoundingEdge;
using headroom::detail::WideFloat;

namespace {

double value_of(const WideFloat& wide) { return std::ldexp(static_cast<double>(wide.digits), wide.exponent - 63); }
/// `digits` is in [1, 2).
WideFloat wide_of(double digits, int exponent) { return {static_cast<std::uint64_t>(std::ldexp(digits, 63)), exponent}; }
bool same(const WideFloat& wide, double digits, int exponent) { return wide == wide_of(digits, exponent); }

/// The bits that the numbers just below an edge, at it and just above it are rounded to.
template <class Format>
void check_edge(const RoundingEdge& edge, std::uint64_t below, std::uint64_t above) {
  const auto rounded = [](std::uint64_t bits) { return std::uint64_t{headroom::detail::convert_bits<binary64, Format>(bits)}; };
  const std::uint64_t at = support::bits_of(value_of(edge.at));
  CHECK(rounded(at - 1) == below);
  CHECK(rounded(at) == (edge.is_below ? below : above));
  CHECK(rounded(at + 1) == above);
}

}  // namespace

TEST_CASE("edges lie where conversions change") {
  support::for_each_storage_float([](auto tag) {
    using Format = headroom::detail::format_of<typename decltype(tag)::type>;
    check_edge<Format>(headroom::detail::underflow_edge<Format>(), 0, 1);
    check_edge<Format>(headroom::detail::overflow_edge<Format>(), Format::largest_finite_bits, Format::overflow_bits);
    const auto normal = headroom::detail::convert_bits<binary64, Format>(
        support::bits_of(value_of(headroom::detail::normal_edge<Format>().at)));
    CHECK(normal == Format::mantissa_mask + 1);
  });
}

TEST_CASE("wide floats: of bits, products, and their order") {
  CHECK(same(WideFloat::of<headroom::binary32>(0x3FC00000), 1.5, 0));
  CHECK(same(WideFloat::of<headroom::binary32>(1), 1.0, -149));
  CHECK(same(WideFloat::of<headroom::binary32>(0x007FFFFF), 2.0 - 0x1p-22, -127));
  CHECK(same(WideFloat::of<binary64>(1), 1.0, -1074));
  CHECK(same(WideFloat::of<headroom::binary16>(3), 1.5, -23));
  CHECK(same(wide_of(1.5, 3) * wide_of(1.25, -5), 1.875, -2));
  CHECK(same(wide_of(1.5, 3) * wide_of(1.5, -5), 1.125, -1));
  // Rounded to odd, with carries through the middle.
  constexpr std::uint64_t all = ~std::uint64_t{0}, one = WideFloat::one;
  CHECK(WideFloat{all, 0} * WideFloat{all, 0} == WideFloat{all, 1});
  CHECK(WideFloat{one + 1, 0} * WideFloat{one + 1, 0} == WideFloat{one + 3, 0});
  CHECK(WideFloat{one + 2, 0} * WideFloat{one, 0} == WideFloat{one + 2, 0});
  CHECK(WideFloat{one + (std::uint64_t{1} << 32), 0} * WideFloat{one + (std::uint64_t{1} << 30), 0} ==
        WideFloat{one + (std::uint64_t{5} << 30) + 1, 0});
  CHECK(wide_of(1.9, 2) < wide_of(1.0, 3));
  CHECK(wide_of(1.0, 3) < wide_of(1.5, 3));
  CHECK_FALSE(wide_of(1.5, 3) < wide_of(1.5, 3));
}

TEST_CASE("ranges of counts") {
  CHECK(headroom::CountRange{3, 3}.is_exact());
  CHECK_FALSE(headroom::CountRange{3, 4}.is_exact());
}
