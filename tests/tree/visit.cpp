// What for_each_leaf hands to a user: each leaf as what it is, const if the tree is.
#include <headroom/tree/visit.hpp>

#include <headroom/dtype/half.hpp>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/network.hpp"

using headroom::element_count;
using headroom::half;
using headroom::leaf_count;

TEST_CASE("leaves arrive as what they are, and can be written") {
  std::tuple<float, std::vector<half>, int> tree{1.0F, {half(2.0F)}, 3};
  headroom::for_each_leaf(tree, [](auto& leaf) {
    using Leaf = std::remove_reference_t<decltype(leaf)>;
    static_assert(std::is_same_v<Leaf, float> || std::is_same_v<Leaf, std::vector<half>>);
    if constexpr (std::is_same_v<Leaf, float>) {
      leaf = 4.0F;
    } else {
      leaf.push_back(half(5.0F));
    }
  });
  CHECK(tree == std::tuple<float, std::vector<half>, int>{4.0F, {half(2.0F), half(5.0F)}, 3});
}

TEST_CASE("leaves are const where the tree is") {
  const auto check_const = [](auto&& tree) {
    std::size_t leaves = 0;
    headroom::for_each_leaf(tree, [&](auto& leaf) {
      static_assert(std::is_const_v<std::remove_reference_t<decltype(leaf)>>);
      ++leaves;
    });
    headroom::for_each_leaf_with_path(
        tree, [](const std::string&, auto& leaf) { static_assert(std::is_const_v<std::remove_reference_t<decltype(leaf)>>); });
    CHECK(leaves > 0);
  };
  check_const(std::as_const(*std::make_unique<std::vector<std::vector<float>>>(2)));
  const auto network = support::network_of(1.0F);
  check_const(network);
  const std::unique_ptr<std::vector<float>> owner = std::make_unique<std::vector<float>>(2);
  check_const(owner);
  const std::optional<float> maybe = 1.0F;
  check_const(maybe);
  const std::variant<std::vector<float>, float> either = std::vector<float>(1);
  check_const(either);
  const std::tuple<float, std::pair<float, float>> parts;
  check_const(parts);
  const std::map<int, std::list<float>> map = {{1, {1.0F}}};
  check_const(map);
  const float array[2][2] = {};
  check_const(array);
  std::vector<float> values(2);
  check_const(std::cref(values));
}

TEST_CASE("what a const pointer of several owners points to is not const") {
  const auto shared = std::make_shared<std::vector<float>>(1, 1.0F);
  headroom::for_each_leaf(shared, [](std::vector<float>& leaf) { leaf[0] = 2.0F; });
  CHECK((*shared)[0] == 2.0F);
  std::vector<float> value = {1.0F};
  const auto reference = std::ref(value);
  headroom::for_each_leaf(reference, [](std::vector<float>& leaf) { leaf[0] = 2.0F; });
  CHECK(value[0] == 2.0F);
}

TEST_CASE("empty trees have no leaves") {
  CHECK(leaf_count(std::vector<std::vector<float>>{}) == 0);
  CHECK(leaf_count(std::map<int, float>{}) == 0);
  CHECK(leaf_count(std::vector<float>{}) == 1);
  CHECK(element_count(std::vector<float>{}) == 0);
}
