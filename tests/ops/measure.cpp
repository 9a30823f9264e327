#include <headroom/ops/measure.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"

using namespace headroom;
using support::bits_of;

namespace {

static_assert(std::is_same_v<decltype(measure(std::vector<half>{})), GradientNorm>);
static_assert(std::is_same_v<decltype(global_norm(std::vector<half>{})), double>);
static_assert(std::is_base_of_v<GradientReport, GradientNorm>);

/// The norm in units of `unit`. Multiplies both by a power of two first, because under -ffast-math
/// neither 1 / unit nor a difference from it is reliable near the limits of double.
double relative(const GradientNorm& found, double unit) {
  const volatile double norm = found.norm, power = std::ldexp(1.0, -std::ilogb(unit) / 2);
  const volatile double norm_once = norm * power, unit_once = unit * power;
  const volatile double norm_twice = norm_once * power, unit_twice = unit_once * power;
  return norm_twice / unit_twice;
}

}  // namespace

TEST_CASE("the norm is over all leaves together") {
  const auto tree = std::make_tuple(std::vector<float>{1.0F, -2.0F}, 7,
                                    std::vector<half>{half(2.0F)}, -4.0, bfloat16(0.0F));
  const GradientNorm found = measure(tree);
  CHECK(found.finite);
  CHECK(found.max_abs == 4.0);
  CHECK(found.norm == 5.0);
  CHECK(global_norm(tree) == 5.0);
  CHECK(global_norm(tree, sequential) == 5.0);
  CHECK(measure(tree, parallel(2)).norm == 5.0);
}

namespace {

template <class Leaf>
void fill(Leaf& leaf, std::size_t size, std::mt19937& random) {
  leaf.resize(size);
  for (auto& value : leaf) {
    const auto whole = static_cast<float>(static_cast<int>(random() % 60'000) - 30'000);
    value = typename Leaf::value_type(std::ldexp(whole, -static_cast<int>(random() % 20)));
  }
}
/// The bits of the sum of squares.
template <class Tree>
std::uint64_t sum_of_squares(const Tree& tree, const Executor& executor) {
  using detail::Op;
  const detail::Pass pass{Op::measure};
  return bits_of(
      detail::plan_and_run<detail::Ops<Op::measure>, detail::Access::read>(pass, executor, tree)
          .sum_of_squares);
}

}  // namespace

TEST_CASE(
    "the sum of squares of small and large leaves together is the same for any number of threads") {
  // Not the norm, because the root hides the last digits. Some leaves and some groups of leaves
  // have the 65,536 elements of one sum, or one more, or one less.
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::cases(20); ++run) {
    std::tuple<std::vector<std::vector<float>>, std::vector<half>, std::vector<std::vector<float>>>
        tree;
    constexpr std::size_t most[] = {3, 700, 5000, 140'000},
                          exactly[] = {65'536, 65'535, 65'537, 32'768, 32'768, 1};
    const auto size = [&] {
      return random() % 3 == 0 ? exactly[random() % 6] : random() % most[random() % 4];
    };
    std::get<0>(tree).resize(random() % 60);
    std::get<2>(tree).resize(run % 2 == 0 ? 64 : random() % 60);
    for (auto& leaf : std::get<0>(tree)) fill(leaf, size(), random);
    fill(std::get<1>(tree), size(), random);
    for (auto& leaf : std::get<2>(tree)) fill(leaf, run % 2 == 0 ? 32'768 : size(), random);
    const auto expected = sum_of_squares(tree, sequential);
    for (const int threads : {2, 3, 7}) CHECK(sum_of_squares(tree, parallel(threads)) == expected);
    std::vector<std::vector<float>> lone(1);
    fill(lone[0], run < 6 ? exactly[run] : 200'000, random);
    lone[0][0] = 1e10F;  // beside it, double rounds the others
    CHECK(sum_of_squares(lone[0], sequential) == sum_of_squares(lone, sequential));
  }
}

TEST_CASE(
    "sums of 256 groups are added first, and then these sums, both in the order of the tree") {
  const Executor executors[] = {sequential, parallel(2), parallel(4)};
  // Neighbours of different dtypes are groups of one element. Beside 2^54 a sum of 1 is lost, and a
  // sum of 256 is not. The first 512 groups are ones, and of every 256 later groups one is.
  std::tuple<std::vector<std::pair<float, half>>, std::vector<float>> tree;
  std::get<0>(tree).resize(1280);
  for (std::size_t i = 0; i < 1280; ++i) {
    std::get<0>(tree)[i] = {i < 256 || i % 128 == 0 ? 1.0F : 0.0F, half(i < 256 ? 1.0F : 0.0F)};
  }
  std::get<0>(tree)[0].first = 0x1p27F;
  std::get<1>(tree).resize(600'000);  // zeros, enough work for four threads
  for (const Executor& executor : executors)
    CHECK(sum_of_squares(tree, executor) == bits_of(0x1p54 + 256.0));
  std::get<0>(tree).resize(128);
  for (const Executor& executor : executors)
    CHECK(sum_of_squares(tree, executor) == bits_of(0x1p54));
}

TEST_CASE(
    "integers are not looked at; trees without floating-point elements are finite and measure 0") {
  for (const GradientNorm& found :
       {measure(std::vector<std::vector<half>>{}), measure(std::tuple<>()),
        measure(std::make_tuple(std::vector<int>{0x7F800000, -1}, std::string("nan"),
                                std::optional<float>())),
        measure(span<const double>()), measure(std::unique_ptr<float>())}) {
    CHECK(found.finite);
    CHECK(bits_of(found.max_abs) == 0);
    CHECK(bits_of(found.norm) == 0);
  }
  CHECK(all_finite(std::make_tuple(1, true, std::vector<bool>(3), 1.0F)));
}

TEST_CASE("one non-finite element anywhere in a tree is found") {
  support::for_each_isa([](Isa) {
    support::for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      const auto network = support::network_of(T(1.0F));
      CHECK(all_finite(network));
      for (const auto bad : support::nonfinite_bits<detail::format_of<T>>()) {
        for (std::size_t where = 0; where < support::network_elements; ++where) {
          auto spoilt = network;
          std::size_t position = 0;
          for_each_leaf(spoilt, [&](auto& leaf) {
            auto* elements = detail::data_of(leaf);
            for (std::size_t i = 0; i < detail::size_of(leaf); ++i, ++position) {
              if (position == where) support::set_bits(elements[i], bad);
            }
          });
          REQUIRE(position == support::network_elements);
          CHECK_FALSE(all_finite(spoilt));
          CHECK(bits_of(global_norm(spoilt)) == binary64::infinity_bits);
          CHECK_FALSE(all_finite(spoilt, sequential));
          CHECK_FALSE(all_finite(spoilt, parallel(2)));
        }
      }
    });
  });
}

TEST_CASE(
    "T22: many large values are finite and have a norm, though their sum and the sum of their "
    "squares are not") {
  CHECK(measure(std::vector<float>(16, 3e38F)).norm == Approx(1.2e39).epsilon(1e-6));
  CHECK(measure(std::vector<double>{3e150, 4e150}).norm == Approx(5e150).epsilon(1e-12));
  CHECK(relative(measure(std::vector<std::vector<double>>{{3e-150}, {4e-150}}), 5e-150) ==
        Approx(1.0).epsilon(1e-12));
  CHECK(all_finite(std::vector<float>(16, -std::numeric_limits<float>::max())));
  CHECK(all_finite(std::vector<float>{1.9e19F}));
  CHECK(all_finite(std::vector<half>(100, half(65504.0F))));
  CHECK(all_finite(std::vector<double>(16, std::numeric_limits<double>::max())));
}
