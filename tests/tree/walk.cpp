// What a walk meets in each kind of branch, by what path, and what it passes by. Paths themselves: path.cpp; structs:
// tree_traits.cpp.
#include <headroom/headroom.hpp>

#include <array>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/network.hpp"
#include "support/paths.hpp"

using headroom::element_count;
using headroom::half;
using headroom::leaf_count;
using support::paths_of;
using Paths = std::vector<std::string>;

namespace {

/// A struct that holds itself.
struct Node {
  std::vector<float> value;
  std::vector<Node> children_;
  HEADROOM_TREE(Node, value, children_)
};

enum class Colour { red, green };
enum Shade { dark };

}  // namespace

TEST_CASE("a tree that is a leaf has an empty path") {
  CHECK(paths_of(1.0F) == Paths{""});
  CHECK(paths_of(half(1.0F)) == Paths{""});
  CHECK(paths_of(std::vector<double>(3)) == Paths{""});
  CHECK(paths_of(std::array<half, 4>{}) == Paths{""});
  CHECK(paths_of(headroom::span<const float>()) == Paths{""});
  float array[5] = {};
  CHECK(paths_of(array) == Paths{""});
  CHECK(element_count(array) == 5);
  CHECK(leaf_count(array) == 1);
}

TEST_CASE("sequences") {
  CHECK(paths_of(std::vector<std::vector<float>>(2)) == Paths{"[0]", "[1]"});
  CHECK(paths_of(std::array<std::vector<float>, 2>{}) == Paths{"[0]", "[1]"});
  CHECK(paths_of(std::deque<float>{1.0F, 2.0F}) == Paths{"[0]", "[1]"});
  CHECK(paths_of(std::list<std::vector<float>>(2)) == Paths{"[0]", "[1]"});
  float matrix[2][3] = {};
  CHECK(paths_of(matrix) == Paths{"[0]", "[1]"});
  CHECK(element_count(matrix) == 6);
  float cube[2][1][3] = {};
  CHECK(paths_of(cube) == Paths{"[0][0]", "[1][0]"});
  std::vector<float> array_of_vectors[2] = {{1.0F}, {2.0F, 3.0F}};
  CHECK(paths_of(array_of_vectors) == Paths{"[0]", "[1]"});
  CHECK(element_count(array_of_vectors) == 3);
}

TEST_CASE("maps") {
  CHECK(paths_of(std::map<std::string, std::vector<float>>{{"encoder", {}}, {"decoder", {}}}) ==
        Paths{"[\"decoder\"]", "[\"encoder\"]"});
  CHECK(paths_of(std::map<int, float>{{3, 1.0F}, {-1, 1.0F}}) == Paths{"[-1]", "[3]"});
  CHECK(paths_of(std::map<Colour, float>{{Colour::green, 1.0F}}) == Paths{"[1]"});
  CHECK(paths_of(std::map<const char*, float>{{"key", 1.0F}}) == Paths{"[\"key\"]"});
  CHECK(paths_of(std::unordered_map<std::string, float>{{"key", 1.0F}}) == Paths{"[\"key\"]"});
  CHECK(paths_of(std::map<std::pair<int, int>, float>{{{1, 2}, 1.0F}}) == Paths{"[?]"});
}

TEST_CASE("tuples and pairs") {
  CHECK(paths_of(std::tuple<float, std::vector<half>>{}) == Paths{"<0>", "<1>"});
  CHECK(paths_of(std::pair<float, std::vector<half>>{}) == Paths{"first", "second"});
  CHECK(paths_of(std::vector<std::pair<float, int>>(1)) == Paths{"[0].first"});
  CHECK(paths_of(std::tuple<std::tuple<int, float>>{}) == Paths{"<0><1>"});
  float value = 1.0F;
  CHECK(element_count(std::tie(value)) == 1);
}

TEST_CASE("pointers add nothing to a path, and an empty one has no leaves") {
  CHECK(paths_of(std::make_unique<std::vector<float>>()) == Paths{""});
  CHECK(paths_of(std::make_shared<std::pair<float, float>>()) == Paths{"first", "second"});
  CHECK(paths_of(std::optional<float>(1.0F)) == Paths{""});
  CHECK(paths_of(std::optional<float>()).empty());
  CHECK(paths_of(std::unique_ptr<float>()).empty());
  CHECK(paths_of(std::shared_ptr<std::vector<float>>()).empty());
  std::vector<float> value(3);
  CHECK(paths_of(std::ref(value)) == Paths{""});
  CHECK(paths_of(std::vector<std::reference_wrapper<std::vector<float>>>{value, value}) == Paths{"[0]", "[1]"});
  CHECK(element_count(std::cref(value)) == 3);
}

TEST_CASE("variants are what they hold") {
  using Tree = std::variant<std::monostate, float, std::vector<float>, std::pair<float, int>, int>;
  CHECK(paths_of(Tree{}).empty());
  CHECK(paths_of(Tree{1.0F}) == Paths{""});
  CHECK(element_count(Tree{std::vector<float>(4)}) == 4);
  CHECK(paths_of(Tree{std::pair<float, int>{}}) == Paths{"first"});
  CHECK(paths_of(Tree{7}).empty());
}

TEST_CASE("nested to any depth") {
  std::map<std::string, std::vector<std::optional<std::tuple<float, std::unique_ptr<std::vector<double>>>>>> tree;
  tree["a"].resize(2);
  tree["a"][1].emplace(1.0F, std::make_unique<std::vector<double>>(5));
  CHECK(paths_of(tree) == Paths{"[\"a\"][1]<0>", "[\"a\"][1]<1>"});
  CHECK(element_count(tree) == 6);
  using Deep = std::vector<std::vector<std::vector<std::vector<std::vector<std::vector<float>>>>>>;
  CHECK(paths_of(Deep{{{{{{1.0F}}}}}}) == Paths{"[0][0][0][0][0]"});
}

TEST_CASE("a struct that holds itself") {
  const Node tree{{1.0F}, {{{2.0F, 3.0F}, {}}, {{}, {{{4.0F}, {}}}}}};
  CHECK(paths_of(tree) == Paths{"value", "children_[0].value", "children_[1].value", "children_[1].children_[0].value"});
  CHECK(element_count(tree) == 4);
}

TEST_CASE("members with names read like C++") {
  const auto network = support::network_of(1.0F);
  CHECK(paths_of(network) == Paths{"layers[0].weight", "layers[0].bias", "layers[1].weight", "layers[1].bias",
                                   "heads[\"decoder\"]", "heads[\"encoder\"]", "temperature"});
  CHECK(leaf_count(network) == support::network_leaves);
  CHECK(element_count(network) == support::network_elements);
}

TEST_CASE("what has no floating-point elements is passed by") {
  CHECK(leaf_count(7) == 0);
  CHECK(leaf_count(true) == 0);
  CHECK(leaf_count('x') == 0);
  CHECK(leaf_count(Colour::red) == 0);
  CHECK(leaf_count(dark) == 0);
  CHECK(leaf_count(nullptr) == 0);
  CHECK(leaf_count(std::string("text")) == 0);
  CHECK(leaf_count(std::vector<bool>(3)) == 0);
  CHECK(leaf_count(std::vector<int>(3)) == 0);
  CHECK(leaf_count(std::vector<std::string>(3)) == 0);
  CHECK(leaf_count(std::array<std::uint8_t, 3>{}) == 0);
  CHECK(leaf_count(std::map<std::string, int>{{"a", 1}}) == 0);
  CHECK(leaf_count(std::vector<std::vector<bool>>(3)) == 0);
  CHECK(leaf_count(std::optional<int>(1)) == 0);
  int array[3] = {};
  CHECK(leaf_count(array) == 0);
  CHECK(paths_of(std::tuple<int, std::string, float, std::vector<bool>>{}) == Paths{"<2>"});
}

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

TEST_CASE("spans of integers are left alone; keys may be string views") {
  const int labels[] = {1, 2};
  const auto tree = std::make_tuple(headroom::span<const int>(labels), std::map<std::string_view, float>{{"loss", 1.0F}});
  CHECK(paths_of(tree) == Paths{"<1>[\"loss\"]"});
}
