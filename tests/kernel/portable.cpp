// The two halves of Isa::scalar: what vectors of the language store and find is, to the bit, what comes of one element at a
// time. (Other tests compare both with exact integer arithmetic.)
#include <headroom/dtype/cbfloat16.hpp>
#include <headroom/dtype/float8.hpp>
#include <headroom/headroom.hpp>

#include <algorithm>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/samples.hpp"

#if HEADROOM_DETAIL_HAS_VECTORS

using headroom::bfloat16;
using headroom::half;
using headroom::detail::format_of;
using headroom::detail::Found;
using headroom::detail::Op;
using headroom::detail::Piece;
namespace portable = headroom::detail::portable;
namespace scalar = headroom::detail::scalar;
using support::bits_type;
using support::hex;
using support::Mismatches;
using support::name_of;

namespace {

template <class Kernels, Op op, class In, class Out>
Found run(const In* source, Out* destination, std::size_t n, double factor) {
  Found found{0, 0.0};
  const Piece piece{source, destination, n};
  Kernels::template kernel<op, format_of<In>, format_of<Out>>(&piece, &piece + 1, factor, found);
  return found;
}

/// All elements in spans of 0 to 70 of them in turn, which begin at any address, and then at once.
template <Op op, class In, class Out>
void check(const std::vector<In>& source, const std::vector<Out>& before, double factor) {
  auto expected = before, actual = before, at_once = before;
  Mismatches wrong, wrong_report;
  for (std::size_t begin = 0, length = 0; begin < source.size(); begin += length, length = (length + 1) % 71) {
    const std::size_t n = std::min(length, source.size() - begin);
    const Found by_one = run<scalar::Kernels, op>(&source[begin], &expected[begin], n, factor);
    const Found by_vectors = run<portable::Kernels, op>(&source[begin], &actual[begin], n, factor);
    wrong_report.expect(by_one.largest == by_vectors.largest,
                        [&] { return hex(by_vectors.largest) + ", not " + hex(by_one.largest); });
  }
  (void)run<portable::Kernels, op>(source.data(), at_once.data(), source.size(), factor);
  for (std::size_t i = 0; i < source.size(); ++i) {
    for (const Out& stored : {actual[i], at_once[i]}) {
      const auto bits = support::bits_of(stored), by_one = support::bits_of(expected[i]);
      wrong.expect(support::same_bits<format_of<Out>>(bits, by_one),
                   [&] { return hex(support::bits_of(source[i])) + " gave " + hex(bits) + ", not " + hex(by_one); });
    }
  }
  INFO(name_of<In>() << " to " << name_of<Out>() << ", op " << static_cast<int>(op) << " by " << factor << ": " << wrong.first()
                     << ", " << wrong_report.first());
  CHECK(wrong.count() == 0);
  CHECK(wrong_report.count() == 0);
}

template <class In, class Out>
void check_pair() {
  const auto source = support::values_with<In>(support::sample_bits<format_of<In>>());
  auto addends = support::sample_bits<format_of<Out>>();
  std::shuffle(addends.begin(), addends.end(), std::mt19937(support::seed));
  std::vector<bits_type<Out>> before;
  while (before.size() < source.size()) before.push_back(addends[before.size() % addends.size()]);
  const auto destination = support::values_with<Out>(before);
  check<Op::cast>(source, destination, 1.0);
  for (const double factor : {1.0, -1.0, 0.0, -0.0, 0x1p-24, 0x1p15, 0x1p100, static_cast<double>(0.1F)}) {
    check<Op::scale>(source, destination, factor);
    check<Op::add_scaled>(source, destination, factor);
  }
  for (const double loss_scale : {3.0, 1000.0, 0x1.fffffep-100}) {
    check<Op::unscale>(source, destination, loss_scale);
    check<Op::add_unscaled>(source, destination, loss_scale);
  }
}

}  // namespace

TEST_CASE("vectors store and find what one element at a time does, to the bit", "[kernel]") {
  support::for_each_type<half, bfloat16, float>([](auto in) {
    support::for_each_type<half, bfloat16, float>(
        [](auto out) { check_pair<typename decltype(in)::type, typename decltype(out)::type>(); });
  });
  support::for_each_type<headroom::float8_e4m3, headroom::cbfloat16>([](auto type) {
    using T = typename decltype(type)::type;
    check_pair<T, T>();
    check_pair<T, float>();
    check_pair<float, T>();
  });
}

#endif
