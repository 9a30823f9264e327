// The results of `scale` for scalars and trees.
#include <headroom/headroom.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/network.hpp"

using namespace headroom;

namespace {

constexpr double large = 65536.0;

}  // namespace

TEST_CASE("T20: a 16-bit loss is scaled as float") {
  static_assert(std::is_same_v<decltype(scale(half(2.0F), large)), float>);
  static_assert(std::is_same_v<decltype(scale(bfloat16(2.0F), large)), float>);
  CHECK(scale(half(2.0F), large) == 131072.0F);  // the largest half is 65504
  CHECK(scale(bfloat16(-2.0F), large) == -131072.0F);
  CHECK(scale(half(0.5F), large, sequential) == 32768.0F);
  CHECK(std::tuple_size_v<decltype(scale(std::tuple<>{}, large))> == 0);
  CHECK(scale(std::unique_ptr<std::vector<float>>{}, large) == nullptr);
}

TEST_CASE("float and double losses keep their dtype") {
  static_assert(std::is_same_v<decltype(scale(1.0F, large)), float> &&
                std::is_same_v<decltype(scale(1.0, large)), double>);
  CHECK(scale(1.5F, large) == 98304.0F);
  CHECK(scale(1e300, large) == 1e300 * 65536.0);
  double loss = 0.1;
  CHECK(scale(loss, 0.1) == 0.1 * 0.1);
}

TEST_CASE("scaling a tree keeps its type, its structure and what is no floating-point number") {
  const auto network = support::network_of(0.25F);  // an lvalue, so it is copied
  const auto scaled = scale(network, 8.0);
  static_assert(std::is_same_v<decltype(scaled), const support::Network<float>>);
  CHECK(is_network_of(scaled, 2.0F));
  CHECK(is_network_of(network, 0.25F));

  const auto halves = scale(support::network_of(half(0.25F)), 8.0);
  static_assert(std::is_same_v<decltype(halves), const support::Network<half>>);
  CHECK(is_network_of(halves, half(2.0F)));
  CHECK(scale(std::make_pair(1.0F, std::vector<int>{1, 2}), 8.0).second == std::vector<int>{1, 2});
}

TEST_CASE("scale_in_place writes where the elements lie") {
  auto network = support::network_of(0.5F);
  scale_in_place(network, large);
  CHECK(is_network_of(network, 32768.0F));

  std::vector<float> values = {1.0F, 2.0F};
  scale_in_place(span<float>(values), large);
  CHECK(values == std::vector<float>{65536.0F, 131072.0F});
  scale_in_place(std::ref(values), 0.5, parallel(2));
  CHECK(values == std::vector<float>{32768.0F, 65536.0F});
  float loss = 3.0F;
  scale_in_place(loss, 0.5);
  CHECK(loss == 1.5F);
}

TEST_CASE("a factor beyond float is refused, and nothing is written") {
  std::vector<float> tree = {1.0F};
  CHECK_THROWS_AS(scale(tree, 0x1p128), std::invalid_argument);
  CHECK_THROWS_AS(scale_in_place(tree, 0x1p128), std::invalid_argument);
  CHECK_THROWS_AS(scale(1.0F, 0x1p128), std::invalid_argument);
  CHECK(tree == std::vector<float>{1.0F});
}
