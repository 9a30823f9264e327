#include <headroom/ops/find_nonfinite.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using namespace headroom;

namespace {

template <class T>
constexpr support::bits_type<T> plus_infinity = detail::format_of<T>::infinity_bits;
template <class T>
constexpr support::bits_type<T> minus_infinity =
    static_cast<support::bits_type<T>>(plus_infinity<T> | detail::format_of<T>::sign_mask);
template <class T>
constexpr support::bits_type<T> quiet_nan = detail::format_of<T>::quiet_nan_bits;
template <class T>
constexpr support::bits_type<T> signalling_nan =
    static_cast<support::bits_type<T>>(plus_infinity<T> + 1);

void check(const std::optional<NonFinite>& found, const NonFinite& expected) {
  REQUIRE(found.has_value() == (expected.nan_count + expected.inf_count > 0));
  if (!found) return;
  CHECK(found->path == expected.path);
  CHECK(found->index == expected.index);
  CHECK(found->leaf == expected.leaf);
  CHECK(found->kind == expected.kind);
  CHECK(found->nan_count == expected.nan_count);
  CHECK(found->inf_count == expected.inf_count);
}

}  // namespace

TEST_CASE("nothing is found where all is finite") {
  CHECK_FALSE(find_nonfinite(support::network_of(half(65504.0F))).has_value());
  CHECK_FALSE(find_nonfinite(std::vector<float>(16, 3e38F)).has_value());
  CHECK_FALSE(find_nonfinite(std::vector<float>{}).has_value());
  CHECK_FALSE(find_nonfinite(std::vector<std::vector<float>>{}).has_value());
  CHECK_FALSE(find_nonfinite(std::make_pair(1.0F, std::vector<int>{0x7F800000})).has_value());
  CHECK_FALSE(find_nonfinite(std::unique_ptr<float>()).has_value());
}

TEST_CASE("the first is named, all are counted, in every dtype") {
  support::for_each_dtype([](auto tag) {
    using T = typename decltype(tag)::type;
    auto network = support::network_of(T(1.0F));
    support::set_bits(network.heads["decoder"][1], minus_infinity<T>);
    support::set_bits(network.heads["encoder"][0], quiet_nan<T>);
    support::set_bits(network.heads["encoder"][2], plus_infinity<T>);
    support::set_bits(network.heads["encoder"][3], signalling_nan<T>);
    support::set_bits(*network.temperature, quiet_nan<T>);
    check(find_nonfinite(network), {"heads[\"decoder\"]", 1, NonFiniteKind::inf, 3, 2, 4});
    support::set_bits(network.layers[1].bias, quiet_nan<T>);
    check(find_nonfinite(network, parallel(2)), {"layers[1].bias", 0, NonFiniteKind::nan, 4, 2, 3});
  });
}

TEST_CASE(
    "elements between those of a strided leaf are nobody's; the index counts the leaf's own") {
  std::vector<float> store(2000, 1.0F);
  const std::map<int, support::Strided<float>> tree = {{3, {store.data(), {900}, {2}}}};
  support::set_bits(store[601], quiet_nan<float>);
  CHECK_FALSE(find_nonfinite(tree).has_value());
  support::set_bits(store[800], plus_infinity<float>);
  support::set_bits(store[1798], quiet_nan<float>);
  check(find_nonfinite(tree), {"[3]", 400, NonFiniteKind::inf, 1, 1});
}

TEST_CASE("any number of Inf and NaN in leaves of any size, against a count one by one") {
  std::mt19937 random(support::seed);
  support::for_each_dtype([&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int run = 0; run < support::cases(20); ++run) {
      std::vector<std::vector<T>> tree(3);
      NonFinite expected;
      for (std::size_t leaf = 0; leaf < tree.size(); ++leaf) {
        tree[leaf].assign(random() % 1600, T(1.0F));
        const unsigned one_in = run % 4 == 0 ? 1 : 1U << random() % 12;
        for (std::size_t i = 0; i < tree[leaf].size(); ++i) {
          if (random() % one_in != 0) continue;
          const bool is_nan = (random() & 1U) != 0;
          support::set_bits(tree[leaf][i], is_nan ? quiet_nan<T> : minus_infinity<T>);
          if (expected.nan_count + expected.inf_count == 0) {
            expected.path = "[" + std::to_string(leaf) + "]";
            expected.leaf = leaf;
            expected.index = i;
            expected.kind = is_nan ? NonFiniteKind::nan : NonFiniteKind::inf;
          }
          ++(is_nan ? expected.nan_count : expected.inf_count);
        }
      }
      check(find_nonfinite(tree), expected);
    }
  });
}
