// The values cast gives; the types are in tests/tree/rebind.cpp, trees that do not match in check.cpp.
#include <headroom/ops/cast.hpp>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using headroom::bfloat16;
using headroom::cast;
using headroom::cast_into;
using headroom::half;
using headroom::detail::format_of;
using support::bits_of;

namespace {

template <class To, class From>
std::size_t wrong_casts(const std::vector<From>& source, const std::vector<To>& result) {
  using In = format_of<From>;
  using Out = format_of<To>;
  std::size_t wrong = source.size() == result.size() ? 0 : 1;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto from = bits_of(source[i]);
    const auto sign = static_cast<support::bits_type<To>>((from & In::sign_mask) != 0 ? Out::sign_mask : 0);
    auto expected = static_cast<support::bits_type<To>>(sign | Out::infinity_bits);
    if (support::is_nan<In>(from)) expected = Out::quiet_nan_bits;
    if (support::is_finite<In>(from)) expected = support::nearest<Out>(support::decode<In>(from));
    wrong += support::same_bits<Out>(bits_of(result[i]), expected) ? 0 : 1;
  }
  return wrong;
}

template <class From, class To>
void check_cast() {
  INFO(support::name_of<From>() << " to " << support::name_of<To>());
  const auto source = support::values_with<From>(support::sample_bits<format_of<From>>());
  CHECK(wrong_casts(source, cast<To>(source)) == 0);
  CHECK(wrong_casts(source, cast<To>(headroom::parallel(2), source)) == 0);
  std::vector<To> destination(source.size(), To(7.0F));
  cast_into(source, destination);
  CHECK(wrong_casts(source, destination) == 0);
}

}  // namespace

TEST_CASE("casts round to nearest even; Inf, NaN and -0 stay what they are") {
  support::for_each_isa([](headroom::Isa) {
    support::for_each_dtype([](auto from) {
      support::for_each_dtype([&](auto to) { check_cast<typename decltype(from)::type, typename decltype(to)::type>(); });
    });
  });
}

TEST_CASE("cast of a scalar") {
  static_assert(std::is_same_v<decltype(cast<half>(1.0F)), half>);
  CHECK(cast<half>(1.5F) == half(1.5F));
  CHECK(cast<double>(bfloat16(-2.0F)) == -2.0);
}

TEST_CASE("cast leaves its source alone") {
  const auto source = support::network_of(1.5F);
  CHECK(is_network_of(cast<half>(source), half(1.5F)));
  CHECK(is_network_of(source, 1.5F));
}

TEST_CASE("cast_into writes floating-point elements and nothing else") {
  const auto source = support::network_of(half(1.5F));
  auto destination = support::network_of(0.0);
  destination.layers[0].step = 99;
  destination.tokens = {1};
  cast_into(headroom::sequential, source, destination);
  CHECK(destination.layers[0].step == 99);
  CHECK(destination.tokens == std::vector<int>{1});
  destination.layers[0].step = 1;
  destination.tokens = source.tokens;
  CHECK(is_network_of(destination, 1.5));
}

TEST_CASE("cast_into takes a temporary view as destination") {
  std::vector<half> values(3);
  cast_into(std::vector<float>{1.0F, 2.0F, 3.0F}, headroom::span<half>(values));
  CHECK(values[2] == half(3.0F));
}
