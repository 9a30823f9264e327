// The values that cast gives, as far as tests/kernel/kernel_cast.cpp does not tell. The types are
// in tests/tree/make_like.cpp, trees that do not match in plan.cpp.
#include <headroom/headroom.hpp>

#include <limits>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace headroom::detail;
using support::bits_of;

namespace {

/// The number of elements of `result` that differ from a single saturating conversion of the
/// source.
template <class To, class From>
std::size_t wrong_casts(const std::vector<From>& source, const std::vector<To>& result) {
  using In = format_of<From>;
  using Out = format_of<To>;
  std::size_t wrong = source.size() == result.size() ? 0 : 1;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto from = bits_of(source[i]);
    const auto sign =
        static_cast<support::bits_type<To>>((from & In::sign_mask) != 0 ? Out::sign_mask : 0);
    auto expected = static_cast<support::bits_type<To>>(sign | Out::overflow_bits);
    if (support::is_nan<In>(from)) expected = Out::quiet_nan_bits;
    if (support::is_finite<In>(from)) expected = support::nearest<Out>(support::decode<In>(from));
    const bool is_too_large = !support::is_nan<In>(from) && !support::is_finite<Out>(expected);
    if (is_too_large)
      expected = static_cast<support::bits_type<To>>(sign | Out::largest_finite_bits);
    wrong += support::same_bits<Out>(bits_of(result[i]), expected) ? 0 : 1;
  }
  return wrong;
}

template <class From, class To>
void check_saturating_cast() {
  INFO(support::name_of<From>() << " to " << support::name_of<To>());
  const auto source = support::values_with<From>(support::sample_bits<format_of<From>>());
  CHECK(wrong_casts(source, cast<To>(source, saturate)) == 0);
  CHECK(wrong_casts(source, cast<To>(source, saturate, parallel(2))) == 0);
  CHECK(wrong_casts(source, cast<To>(std::vector<From>(source), saturate)) == 0);
  std::vector<To> destination(source.size(), To(7.0F));
  cast_into(source, span<To>(destination), saturate, sequential);
  CHECK(wrong_casts(source, destination) == 0);
}

}  // namespace

TEST_CASE("cast of a scalar") {
  static_assert(std::is_same_v<decltype(cast<half>(1.0F)), half>);
  CHECK(cast<half>(1.5F) == half(1.5F));
  CHECK(cast<double>(bfloat16(-2.0F)) == -2.0);
}

// ---- saturating casts, and 8-bit leaves ----

TEST_CASE("casts that saturate, on every instruction set") {
  support::for_each_isa([](Isa) {
    check_saturating_cast<float, float8_e4m3>();
    check_saturating_cast<float8_e5m2, float8_e4m3>();
    check_saturating_cast<double, float8_e5m2>();
    check_saturating_cast<float, half>();
    check_saturating_cast<float, bfloat16>();
    check_saturating_cast<half, half>();
  });
}

TEST_CASE("a cast that saturates is asked for after the trees, with an executor or without") {
  const auto source = support::network_of(1000.0F);
  CHECK(is_network_of(cast<float8_e4m3>(source, saturate), float8_e4m3(448.0F)));
  auto destination = support::network_of(half(0.0F));
  cast_into(source, destination, saturate, parallel(2));
  CHECK(is_network_of(destination, half(1000.0F)));
  CHECK(cast<float8_e4m3>(-1e30, saturate) == float8_e4m3(-448.0F));
  CHECK(support::is_nan<e4m3>(cast<float8_e4m3>(-1e30).bits()));
  static_assert(std::is_same_v<decltype(cast<half>(source, saturate, sequential)),
                               decltype(cast<half>(source))>);
}

TEST_CASE("gradients in E5M2 and E4M3 are unscaled into float, checked and measured") {
  support::for_each_isa([](Isa) {
    const ConstantLossScale loss_scale(1024.0F);
    const auto e5m2 = support::network_of(float8_e5m2(-6.0F));
    const auto [grads, report] = loss_scale.unscale<float>(e5m2);
    CHECK(is_network_of(grads, -6.0F / 1024.0F));
    CHECK((report.finite && report.max_abs == 6.0 / 1024.0));

    std::vector<std::vector<float8_e4m3>> e4m3{std::vector<float8_e4m3>(40, float8_e4m3(2.0F)),
                                               {float8_e4m3(448.0F)}};
    CHECK(all_finite(e4m3));
    CHECK(measure(e4m3).max_abs == 448.0);
    CHECK(loss_scale.unscale_in_place<allow_fp16_gradients>(e4m3).max_abs == 0.4375);
    CHECK(e4m3[0][39] == std::numeric_limits<float8_e4m3>::denorm_min());
    loss_scale.scale_in_place(e4m3);
    CHECK((e4m3[0][0] == float8_e4m3(2.0F) && e4m3[1][0] == float8_e4m3(448.0F)));
    loss_scale.scale_in_place(e4m3);
    CHECK_FALSE(all_finite(e4m3));
    CHECK_FALSE(loss_scale.unscale<float>(e4m3).report.finite);
  });
}
