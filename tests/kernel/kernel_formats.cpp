// Formats without SIMD kernels, user-defined ones among them. Every instruction set gives the bits of exact integer arithmetic.
#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/headroom.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/flush.hpp"
#include "support/isa.hpp"
#include "support/kernels.hpp"
#include "support/own_formats.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using headroom::cbfloat16;
using headroom::float8_e4m3;
using headroom::float8_e5m2;
using headroom::half;
using headroom::detail::format_of;
using headroom::detail::Op;
using support::AnyBits;
using support::bits_of;
using support::bits_type;
using support::hex;
using support::Mismatches;
using support::name_of;
using support::own14;
using support::own16;
using support::own8;

namespace {

/// Whether the report describes the stored bits.
template <class T>
bool describes(const headroom::GradientReport& report, const std::vector<T>& stored) {
  using Format = format_of<T>;
  bits_type<T> largest = 0;
  for (const auto bits : bits_of(stored)) largest = std::max(largest, static_cast<bits_type<T>>(bits & Format::abs_mask));
  if (!support::is_finite<Format>(largest)) {
    return !report.finite && bits_of(report.max_abs) == std::uint64_t{headroom::binary64::infinity_bits};
  }
  return report.finite && bits_of(report.max_abs) == support::nearest<headroom::binary64>(support::decode<Format>(largest));
}

template <Op op, class In, class Out>
headroom::GradientReport run(const std::vector<In>& source, std::vector<Out>& destination, float factor = 1.0F) {
  return headroom::detail::report_of(
      support::run_kernel<op>(source.data(), destination.data(), source.size(), static_cast<double>(factor)));
}

template <Op op, class In, class Out>
void check_values(const std::vector<bits_type<In>>& elements, float factor) {
  const auto source = support::values_with<In>(elements);
  std::vector<support::Outcome> expected;
  for (const auto element : elements) {
    const auto operation = op == Op::scale ? &support::product : &support::quotient;
    expected.push_back(support::compute<format_of<In>, format_of<Out>>(operation, element, factor));
  }
  const auto& layout = support::layout_of<format_of<Out>>;
  support::for_each_isa([&](headroom::Isa) {
    std::vector<Out> destination(source.size());
    const headroom::GradientReport report = run<op>(source, destination, factor);
    const AnyBits stored = support::any_bits_of(destination);
    Mismatches wrong;
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const bool flushed =
          support::flushes_subnormals() && expected[i].met_subnormal && stored[i] == (expected[i].bits & layout.sign_mask);
      wrong.expect(flushed || layout.same_bits(stored[i], expected[i].bits),
                   [&] { return hex(elements[i]) + " gave " + hex(stored[i]) + ", not " + hex(expected[i].bits); });
    }
    INFO(name_of<In>() << " to " << name_of<Out>() << " by " << factor << ": " << wrong.first());
    CHECK(wrong.count() == 0);
    CHECK(describes(report, destination));
  });
}
/// Scales by powers of two and by other factors: all elements at once, and the finite ones alone, whose report says more.
template <class In, class Out>
void check_values() {
  auto elements = support::sample_bits<format_of<In>>();
  for (int pass = 0; pass < 2; ++pass) {
    for (const float factor : {1.0F, 0x1p-10F, 0x1p15F, -0.1F}) check_values<Op::scale, In, Out>(elements, factor);
    for (const float loss_scale : {3.0F, 1000.0F}) check_values<Op::unscale, In, Out>(elements, loss_scale);
    const auto is_not_finite = [](auto bits) { return !support::is_finite<format_of<In>>(bits); };
    elements.erase(std::remove_if(elements.begin(), elements.end(), is_not_finite), elements.end());
  }
}

}  // namespace

TEST_CASE("scale and unscale from formats without instructions, to them and within them", "[kernel]") {
  support::for_each_type<float8_e4m3, cbfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    check_values<T, T>();
    check_values<T, float>();
    check_values<float, T>();
  });
  check_values<float8_e5m2, float>();
  check_values<own8, half>();
  check_values<own14, float>();
  check_values<own16, float>();
}

TEST_CASE("in E4M3 two patterns of all 256 are not finite", "[kernel]") {
  support::for_each_isa([](headroom::Isa) {
    std::vector<int> found;
    for (int bits = 0; bits < 256; ++bits) {
      const std::vector<float8_e4m3> values(20, float8_e4m3::from_bits(static_cast<std::uint8_t>(bits)));
      if (!headroom::all_finite(values)) found.push_back(bits);
    }
    CHECK(found == std::vector<int>{0x7F, 0xFF});
  });
}

TEST_CASE("norms of formats without instructions are those of the same floats", "[kernel]") {
  support::for_each_type<float8_e4m3, cbfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    std::vector<T> values;
    std::vector<float> wide;
    for (const auto bits : support::sample_bits<format_of<T>>()) {
      if (!support::is_finite<format_of<T>>(bits)) continue;
      values.push_back(T::from_bits(bits));
      wide.push_back(static_cast<float>(values.back()));
    }
    support::for_each_isa([&](headroom::Isa) {
      const headroom::GradientNorm measured = headroom::measure(values);
      CHECK(measured.max_abs == static_cast<double>(std::numeric_limits<T>::max()));
      CHECK(bits_of(measured.norm) == bits_of(headroom::measure(wide).norm));
    });
  });
}
