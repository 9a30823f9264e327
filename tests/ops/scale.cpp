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

using Catch::Matchers::ContainsSubstring;
using headroom::bfloat16;
using headroom::half;

namespace {

constexpr double large = 65536.0;

}  // namespace

TEST_CASE("T20: a 16-bit loss is scaled as float") {
  static_assert(std::is_same_v<decltype(headroom::scale(half(2.0F), large)), float>);
  static_assert(std::is_same_v<decltype(headroom::scale(bfloat16(2.0F), large)), float>);
  CHECK(headroom::scale(half(2.0F), large) == 131072.0F);  // the largest half is 65504
  CHECK(headroom::scale(bfloat16(-2.0F), large) == -131072.0F);
  CHECK(headroom::scale(half(0.5F), large, headroom::sequential) == 32768.0F);
  CHECK(std::tuple_size_v<decltype(headroom::scale(std::tuple<>{}, large))> == 0);
  CHECK(headroom::scale(std::unique_ptr<std::vector<float>>{}, large) == nullptr);
}

TEST_CASE("float and double losses keep their dtype") {
  static_assert(std::is_same_v<decltype(headroom::scale(1.0F, large)), float> &&
                std::is_same_v<decltype(headroom::scale(1.0, large)), double>);
  CHECK(headroom::scale(1.5F, large) == 98304.0F);
  CHECK(headroom::scale(1e300, large) == 1e300 * 65536.0);
  double loss = 0.1;
  CHECK(headroom::scale(loss, 3.0) == 0.1 * 3.0);
}

TEST_CASE("scaling a tree keeps its type, its structure and what is no floating-point number") {
  const auto network = support::network_of(0.25F);  // an lvalue, so it is copied
  const auto scaled = headroom::scale(network, 8.0);
  static_assert(std::is_same_v<decltype(scaled), const support::Network<float>>);
  CHECK(is_network_of(scaled, 2.0F));
  CHECK(is_network_of(network, 0.25F));

  const auto halves = headroom::scale(support::network_of(half(0.25F)), 8.0);
  static_assert(std::is_same_v<decltype(halves), const support::Network<half>>);
  CHECK(is_network_of(halves, half(2.0F)));
  CHECK(headroom::scale(std::make_pair(1.0F, std::vector<int>{1, 2}), 8.0).second ==
        std::vector<int>{1, 2});
}

TEST_CASE("scale_in_place writes where the elements lie") {
  auto network = support::network_of(0.5F);
  headroom::scale_in_place(network, large);
  CHECK(is_network_of(network, 32768.0F));

  std::vector<float> values = {1.0F, 2.0F};
  headroom::scale_in_place(headroom::span<float>(values), large);
  CHECK(values == std::vector<float>{65536.0F, 131072.0F});
  headroom::scale_in_place(std::ref(values), 0.5, headroom::parallel(2));
  CHECK(values == std::vector<float>{32768.0F, 65536.0F});
  float loss = 3.0F;
  headroom::scale_in_place(loss, 0.5);
  CHECK(loss == 1.5F);
}

TEST_CASE("scaling rounds once, to nearest even, into the dtype of the leaf") {
  // 2049 * 3 = 6147 is between the halves 6144 and 6148. In half, 1 + 2^-10 times 1 + 2^-23 rounds
  // to 1 + 2^-10.
  CHECK(headroom::scale(std::vector<half>{half(2050.0F)}, 3.0)[0] == half(6150.0F));
  CHECK(headroom::scale(std::vector<double>{1.0}, static_cast<double>(1.0F / 3.0F))[0] ==
        static_cast<double>(1.0F / 3.0F));
  CHECK(headroom::scale(std::vector<half>{half(2.0F)}, large)[0].bits() ==
        headroom::binary16::infinity_bits);
}

TEST_CASE("a factor beyond float is refused, and nothing is written") {
  std::vector<float> tree = {1.0F};
  CHECK_THROWS_AS(headroom::scale(tree, 0x1p128), std::invalid_argument);
  CHECK_THROWS_AS(headroom::scale_in_place(tree, 0x1p128), std::invalid_argument);
  CHECK_THROWS_AS(headroom::scale(1.0F, 0x1p128), std::invalid_argument);
  CHECK(tree == std::vector<float>{1.0F});
}
