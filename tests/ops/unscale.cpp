#include <headroom/headroom.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/flush.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;
using namespace headroom::detail;
using support::bits_of;

namespace {

float float_of(std::uint32_t bits) {
  float value = 0.0F;
  support::set_bits(value, bits);
  return value;
}

}  // namespace

TEST_CASE(
    "every scale that is a power of two multiplies by its exact reciprocal, its neighbours "
    "divide") {
  for (int exponent = -126; exponent <= 126; ++exponent) {
    const float scale = std::ldexp(1.0F, exponent);
    INFO("scale 2^" << exponent);
    const auto exact = unscale_pass(scale);
    CHECK((exact.op == Op::scale && exact.factor == std::ldexp(1.0, -exponent)));
    for (const float neighbour : {float_of(bits_of(scale) + 1), float_of(bits_of(scale) - 1)}) {
      if (neighbour < 0x1p-126F || neighbour > 0x1p126F) continue;
      const auto divides = unscale_pass(neighbour);
      CHECK((divides.op == Op::unscale && divides.factor == static_cast<double>(neighbour)));
    }
  }
}

TEST_CASE("unscale gives floats, or the dtype that is asked for, or the tree's own") {
  const auto network = support::network_of(half(3.0F));
  const auto same = unscale<same_dtype>(network, 2.0F);
  static_assert(std::is_same_v<decltype(same), const Unscaled<support::Network<half>>>);
  CHECK(is_network_of(same.grads, half(1.5F)));
  CHECK(same.report.max_abs == 1.5);

  const auto wide = unscale(network, 2.0F);
  static_assert(std::is_same_v<decltype(wide), const Unscaled<support::Network<float>>>);
  CHECK(is_network_of(wide.grads, 1.5F));
  CHECK(wide.report);
  CHECK(is_network_of(unscale<float>(network, 2.0F, sequential).grads, 1.5F));
  CHECK(is_network_of(unscale(network, 2.0F, parallel(2)).grads, 1.5F));
  CHECK(is_network_of(unscale<double>(network, 2.0F).grads, 1.5));
  CHECK(is_network_of(network, half(3.0F)));

  const auto mixed = std::make_tuple(std::vector<bfloat16>{bfloat16(3.0F)}, 3.0, half(3.0F),
                                     float8_e5m2(3.0F), 7, std::vector<float>{3.0F});
  using Wide = std::tuple<std::vector<float>, double, float, float, int, std::vector<float>>;
  CHECK(unscale(mixed, 2.0F).grads == Wide({1.5F}, 1.5, 1.5F, 1.5F, 7, {1.5F}));
}

TEST_CASE("T23: widened gradients do not underflow again") {
  const std::vector<half> scaled = {half(0.5F)};
  const float scale = 0x1p30F;
  CHECK(unscale(scaled, scale).grads[0] == 0x1p-31F);
  CHECK(unscale<same_dtype>(scaled, scale).grads[0].bits() == 0);
  CHECK(unscale(scaled, scale).report.max_abs == 0x1p-31);
}

TEST_CASE("after a non-finite gradient every leaf is unscaled all the same") {
  for (const std::uint16_t bad : support::nonfinite_bits<binary16>()) {
    auto network = support::network_of(half(3.0F));
    support::set_bits(network.heads["encoder"][2], bad);
    auto [grads, report] = unscale<float>(network, 2.0F);
    CHECK_FALSE(static_cast<bool>(report));
    CHECK(bits_of(report.max_abs) == binary64::infinity_bits);
    CHECK_FALSE(support::is_finite<binary32>(bits_of(grads.heads["encoder"][2])));
    grads.heads["encoder"][2] = 1.5F;
    CHECK(is_network_of(grads, 1.5F));
    CHECK_FALSE(unscale_in_place<allow_fp16_gradients>(network, 2.0F).finite);
    network.heads["encoder"][2] = half(1.5F);
    CHECK(is_network_of(network, half(1.5F)));
  }
}

TEST_CASE("T21: a scale that fp16 cannot hold unscales fp16 gradients all the same") {
  for (const float scale : {0x1p15F, 0x1p20F, 0x1p24F, 0x1p30F}) {
    std::vector<half> grads(9, half(65504.0F));
    const GradientReport report = unscale_in_place<allow_fp16_gradients>(grads, scale);
    CHECK(report.finite);
    CHECK(grads.back() == half(65504.0F / scale));
    CHECK(unscale<float>(std::vector<half>(9, half(1.0F)), scale).grads[8] == 1.0F / scale);
  }
}

TEST_CASE(
    "what an unscaled tree holds that is not finite is found on request, for nothing if the report "
    "says that all is") {
  const std::vector<std::vector<half>> grads16 = {{half(1.0F)}, {half(2.0F), half(60000.0F)}};
  const auto good = unscale<float>(grads16, 1024.0F);
  CHECK_FALSE(good.find_nonfinite().has_value());
  const auto narrow = unscale<same_dtype>(
      grads16, 0.5F);  // 120000 is beyond fp16; the report describes the stored values
  const auto found = narrow.find_nonfinite();
  REQUIRE(found.has_value());
  CHECK(found->path == "[1]");
  CHECK(found->index == 1);
  CHECK(found->kind == NonFiniteKind::inf);
  CHECK_FALSE(unscale<float>(grads16, 0.5F).find_nonfinite().has_value());
  auto [grads, report] = unscale<float>(grads16, 0.5F);
  CHECK(report.finite);
  support::set_bits(grads[0][0], binary32::quiet_nan_bits);
  const Unscaled<std::vector<std::vector<float>>> unread{grads, report};
  CHECK_FALSE(unread.find_nonfinite().has_value());  // the report says finite, so nothing is read
}

namespace {

/// Correctly rounded: divides in double, which no flag turns into a multiplication by a reciprocal,
/// and rounds to Compute.
template <class Compute, class In>
Compute quotient_of(In value, float loss_scale) {
  return static_cast<Compute>(detail::hide_from_optimizer(
      static_cast<double>(value) / detail::hide_from_optimizer(static_cast<double>(loss_scale))));
}

/// Element by element, in the order of the roundings: the quotient to float (to double if one side
/// is double), the sum likewise, and the result to the destination. Volatile, so that no compiler
/// fuses them.
template <class In, class Out>
void accumulate_slowly(const std::vector<In>& source, std::vector<Out>& destination,
                       float loss_scale) {
  using Compute =
      std::conditional_t<std::is_same_v<In, double> || std::is_same_v<Out, double>, double, float>;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const volatile auto quotient = quotient_of<Compute>(source[i], loss_scale);
    const volatile Compute sum = static_cast<Compute>(destination[i]) + quotient;
    destination[i] = static_cast<Out>(sum);
  }
}

template <class T>
std::vector<T> finite_values(std::mt19937& random, std::size_t n) {
  std::uniform_real_distribution<float> uniform(-1000.0F, 1000.0F);
  std::vector<T> values(n);
  for (T& value : values) value = static_cast<T>(uniform(random));
  return values;
}

template <class In, class Out>
void check_pair(std::mt19937& random) {
  for (const float loss_scale : {1.0F, 1024.0F, 3.0F, 0x1p-3F}) {
    for (const std::size_t n : {0U, 1U, 7U, 16U, 33U, 200U, 1000U}) {
      const auto source = finite_values<In>(random, n);
      auto expected = finite_values<Out>(random, n), destination = expected;
      accumulate_slowly(source, expected, loss_scale);
      double largest = 0.0;
      for (const In value : source) {
        largest =
            std::max(largest, std::abs(static_cast<double>(quotient_of<float>(value, loss_scale))));
      }
      const GradientReport report = accumulate_into(source, destination, loss_scale);
      INFO(support::name_of<In>() << " into " << support::name_of<Out>() << ", scale " << loss_scale
                                  << ", " << n);
      CHECK(bits_of(destination) == bits_of(expected));
      CHECK(report.finite);
      if (!std::is_same_v<In, double> && !std::is_same_v<Out, double>)
        CHECK(report.max_abs == largest);
    }
  }
}

}  // namespace

TEST_CASE(
    "destination += source / scale, rounded step by step, for all pairs of dtypes, on every "
    "instruction set") {
  support::for_each_isa([](Isa) {
    std::mt19937 random(support::seed);
    check_pair<half, float>(random);
    check_pair<bfloat16, float>(random);
    check_pair<float, float>(random);
    check_pair<half, double>(random);
    check_pair<double, double>(random);
    check_pair<float, bfloat16>(random);
    check_pair<bfloat16, bfloat16>(random);
    check_pair<half, half>(random);
    check_pair<float, half>(random);
    check_pair<double, float>(random);
  });
}

TEST_CASE("micro-batches in fp16 add up in float to what none of them could hold") {
  std::vector<std::vector<float>> main_grads{{0.0F}, {0.0F, 0.0F}};
  const std::vector<std::vector<half>> micro_batch{{half(0x1p-24F)}, {half(60000.0F), half(-1.0F)}};
  for (int i = 0; i < 1000; ++i)
    CHECK(accumulate_into(micro_batch, main_grads, 1024.0F).max_abs == 60000.0 / 1024.0);
  CHECK(main_grads[0][0] == 1000 * 0x1p-34F);
  CHECK(main_grads[1][1] == -1000.0F / 1024.0F);
}

TEST_CASE("the report is of what is added, not of the sum") {
  support::for_each_isa([](Isa) {
    for (const auto bad : support::nonfinite_bits<binary16>()) {
      auto source = std::vector<half>(40, half(2.0F));
      source[20] = half::from_bits(bad);
      std::vector<float> destination(40, 1.0F);
      const GradientReport report = accumulate_into(source, destination, 2.0F);
      CHECK_FALSE(report.finite);
      CHECK(bits_of(report.max_abs) == binary64::infinity_bits);
      CHECK(destination[0] == 2.0F);
      CHECK(destination[39] == 2.0F);  // every element is added, also after Inf and NaN
    }
    const std::vector<float> source{1.0F};
    std::vector<float> destination{std::numeric_limits<float>::max()};
    support::set_bits(destination[0], std::uint32_t{0x7F800000});
    CHECK(accumulate_into(source, destination, 1.0F).finite);
  });
}

TEST_CASE("trees, tensors with strides, threads") {
  std::vector<float> place(300, 1.0F), by_threads(600'000, 0.5F), expected = by_threads;
  std::vector<half> source(100, half(8.0F)), many(600'000, half(3.0F));
  const support::Strided<float> every_third{place.data(), {100}, {3}};
  CHECK(accumulate_into(source, every_third, 4.0F).max_abs == 2.0);
  for (std::size_t i = 0; i < 300; ++i) CHECK(place[i] == (i % 3 == 0 ? 3.0F : 1.0F));
  CHECK(accumulate_into(many, by_threads, 2.0F, parallel(3)).max_abs == 1.5);
  (void)accumulate_into(many, expected, 2.0F);
  CHECK(by_threads == expected);
  CHECK(by_threads.back() == 2.0F);
  std::vector<float> self{1.0F, 2.0F};  // a leaf may be its own destination
  CHECK(accumulate_into(self, self, 2.0F).max_abs == 1.0);
  CHECK(self == std::vector<float>{1.5F, 3.0F});
}

namespace {

/// A 16-bit float of another library.
struct ForeignHalf {
  std::uint16_t stored;
};

}  // namespace

template <>
struct headroom::dtype_traits<ForeignHalf> {
  using format = binary16;
};

TEST_CASE("elements of foreign types, without a conversion") {
  support::for_each_isa([&](Isa) {
    std::vector<ForeignHalf> foreign(21, ForeignHalf{0x3C00});
    foreign[17].stored = 0x7C00;
    std::vector<float> results(21);
    CHECK_FALSE(unscale_into(foreign, results, 2.0F).finite);
    CHECK(results[16] == 0.5F);
    foreign[17].stored = 0xC000;
    CHECK(unscale_in_place<allow_fp16_gradients>(foreign, 2.0F).max_abs == 1.0);
    CHECK(foreign[17].stored == 0xBC00);
    std::vector<bfloat16> bfloats(21);
    cast_into(foreign, bfloats);
    CHECK(bfloats[17] == bfloat16(-1.0F));
#if HEADROOM_DETAIL_HAS_FLOAT16
    std::vector<_Float16> theirs(21, static_cast<_Float16>(3.0F));
    CHECK(unscale_into(theirs, results, 3.0F).max_abs == 1.0);
    CHECK(measure(theirs).max_abs == 3.0);
    cast_into(results, theirs);
    CHECK(bits_of(theirs[20]) == 0x3C00);
#endif
#if HEADROOM_DETAIL_HAS_BF16
    std::vector<__bf16> brains(21);
    cast_into(std::vector<float>(21, 3.0F), brains);
    CHECK(unscale_into(brains, results, 3.0F).max_abs == 1.0);
    CHECK(all_finite(brains));
#endif
  });
}

TEST_CASE(
    "a loss scale outside of [2^-126, 2^126] is refused by field and value, and nothing has been "
    "written") {
  const bool flushing = support::flushes_subnormals();
  const std::pair<float, std::string> refused[] = {
      {0.0F, " 0;"},
      {float_of(0x80000000), "0;"},
      {-2.0F, " -2;"},
      {float_of(0x7FC00000), " nan;"},
      {float_of(0xFF800001), " nan;"},
      {float_of(0x7F800000), " inf;"},
      {float_of(0xFF800000), " -inf;"},
      {0x1p127F, " 1.7014118e+38;"},
      {0x1.000002p126F, " 8.50706e+37;"},
      // 2^-127, a subnormal
      {float_of(0x00400000), flushing ? " 0;" : " 5.877472e-39;"},
      {float_of(0x007FFFFF), flushing ? " 0;" : " 1.1754942e-38;"}};
  for (const auto& given : refused) {
    const float& scale = given.first;
    std::vector<half> gradients(20, half(3.0F));
    std::vector<float> destination(20, 7.0F);
    const std::string message = MESSAGE_OF(unscale_into(gradients, destination, scale));
    INFO(message << "; expected" << given.second);
    CHECK_THAT(message, ContainsSubstring("loss_scale is "));
    CHECK_THAT(message, ContainsSubstring(given.second));
    CHECK_THROWS_AS(unscale_in_place<allow_fp16_gradients>(gradients, scale),
                    std::invalid_argument);
    CHECK(destination == std::vector<float>(20, 7.0F));
    CHECK(gradients == std::vector<half>(20, half(3.0F)));
  }
  std::vector<double> values{1.0};
  CHECK_NOTHROW((void)unscale_in_place(values, 0x1p126F));
  CHECK_NOTHROW((void)unscale_in_place(values, 0x1p-126F));
  CHECK(values[0] == 1.0);
}
