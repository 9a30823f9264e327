#include <headroom/dtype/bfloat16.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/ops/accumulate.hpp>
#include <headroom/ops/cast.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using headroom::accumulate_into;
using headroom::bfloat16;
using headroom::binary64;
using headroom::GradientReport;
using headroom::half;
using support::bits_of;

namespace {

/// Correctly rounded: in double, which no flag makes a multiplication by a reciprocal of, and from there to Compute.
template <class Compute, class In>
Compute quotient_of(In value, float loss_scale) {
  using headroom::detail::launder;
  return static_cast<Compute>(launder(static_cast<double>(value) / launder(static_cast<double>(loss_scale))));
}

/// Element by element, in the order of the roundings: the quotient to float (double where one side is double), the sum to the
/// same, and that to the destination. Volatile, for no compiler may fuse them.
template <class In, class Out>
void accumulate_slowly(const std::vector<In>& source, std::vector<Out>& destination, float loss_scale) {
  using Compute = std::conditional_t<std::is_same_v<In, double> || std::is_same_v<Out, double>, double, float>;
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
        largest = std::max(largest, std::abs(static_cast<double>(quotient_of<float>(value, loss_scale))));
      }
      const GradientReport report = accumulate_into(source, destination, loss_scale);
      INFO(support::name_of<In>() << " into " << support::name_of<Out>() << ", scale " << loss_scale << ", " << n);
      CHECK(bits_of(destination) == bits_of(expected));
      CHECK(report.finite);
      if (!std::is_same_v<In, double> && !std::is_same_v<Out, double>) CHECK(report.max_abs == largest);
    }
  }
}

/// Has its elements in the places that a pattern says, as a sparse matrix has.
struct Patterned {
  int pattern;
  std::vector<float> values;
};

}  // namespace

template <>
struct headroom::tensor_traits<Patterned> {
  using value_type = float;
  static float* data(Patterned& tensor) { return tensor.values.data(); }
  static const float* data(const Patterned& tensor) { return tensor.values.data(); }
  static std::size_t size(const Patterned& tensor) { return tensor.values.size(); }
  static bool same_structure(const Patterned& a, const Patterned& b) { return a.pattern == b.pattern; }
};

TEST_CASE("a leaf by itself whose structure differs is refused before anything is written") {
  const Patterned source{1, {2.0F, 4.0F}};
  Patterned destination{2, {1.0F, 1.0F}};
  const auto says_so = Catch::Matchers::ContainsSubstring("elements in different places");
  CHECK_THAT(support::message_of([&] { (void)accumulate_into(source, destination, 2.0F); }), says_so);
  CHECK_THAT(support::message_of([&] { headroom::cast_into(source, destination); }), says_so);
  CHECK(destination.values == std::vector<float>{1.0F, 1.0F});
}

TEST_CASE("destination += source / scale, rounded step by step, for all pairs of dtypes, on every instruction set") {
  support::for_each_isa([](headroom::Isa) {
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
  for (int i = 0; i < 1000; ++i) CHECK(accumulate_into(micro_batch, main_grads, 1024.0F).max_abs == 60000.0 / 1024.0);
  CHECK(main_grads[0][0] == 1000 * 0x1p-34F);
  CHECK(main_grads[1][1] == -1000.0F / 1024.0F);
}

TEST_CASE("the report is of what is added, not of the sum") {
  support::for_each_isa([](headroom::Isa) {
    for (const auto bad : support::nonfinite_bits<headroom::binary16>()) {
      auto source = std::vector<half>(40, half(2.0F));
      source[20] = half::from_bits(bad);
      std::vector<float> destination(40, 1.0F);
      const GradientReport report = accumulate_into(source, destination, 2.0F);
      CHECK_FALSE(report.finite);
      CHECK(bits_of(report.max_abs) == binary64::infinity_bits);
      CHECK(destination[0] == 2.0F);
      CHECK(destination[39] == 2.0F);  // everything is done, whatever an earlier element held
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
  CHECK(accumulate_into(headroom::parallel(3), many, by_threads, 2.0F).max_abs == 1.5);
  (void)accumulate_into(many, expected, 2.0F);
  CHECK(by_threads == expected);
  CHECK(by_threads.back() == 2.0F);
}

TEST_CASE("what does not fit is refused before anything is added") {
  const std::vector<std::vector<half>> source{{half(1.0F)}, {half(1.0F), half(1.0F)}};
  std::vector<std::vector<float>> destination{{1.0F}, {1.0F}};
  CHECK_THAT(support::message_of([&] { (void)accumulate_into(source, destination, 1.0F); }),
             Catch::Matchers::ContainsSubstring("[1]"));
  CHECK(destination[0][0] == 1.0F);
  float zero = 0.0F;
  CHECK_THAT(support::message_of([&] { (void)accumulate_into(source, destination, zero); }),
             Catch::Matchers::ContainsSubstring("loss_scale is 0"));
  std::vector<float> self{1.0F, 2.0F};
  CHECK(accumulate_into(self, self, 2.0F).max_abs == 1.0);
  CHECK(self == std::vector<float>{1.5F, 3.0F});
}
