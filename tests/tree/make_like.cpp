// New trees like others, seen through cast: of the same structure, with elements of their own and everything else copied.
#include <headroom/tree/make_like.hpp>

#include <headroom/headroom.hpp>

#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "support/catch.hpp"

using headroom::cast;
using headroom::half;

namespace {

/// A tree of its own kind, with owners that cannot be copied.
struct Owners {
  std::unique_ptr<std::vector<float>> weight;
  std::unique_ptr<Owners> next;
  HEADROOM_TREE(Owners, weight, next)
};
struct ManyOwners {
  std::vector<std::unique_ptr<std::vector<float>>> weights;
  HEADROOM_TREE(ManyOwners, weights)
};
struct Named {
  std::vector<float> weight;
  std::string name;
  const int version;  // neither default constructible nor assignable
  HEADROOM_TREE(Named, weight)
};
struct Shared {
  std::shared_ptr<std::vector<float>> weight;
  std::string name;
  HEADROOM_TREE(Shared, weight)
};
template <class T>
struct Node {
  std::vector<T> value;
  std::vector<Node> below;
  HEADROOM_TREE(Node, value, below)
};

template <class T>
struct WithIntegerArrays {
  T weight[2];
  int step[2];
  int grid[2][3];
  HEADROOM_TREE(WithIntegerArrays, weight, step, grid)
};

}  // namespace

TEST_CASE("owners that cannot be copied are copied in depth") {
  Owners tree;
  tree.weight = std::make_unique<std::vector<float>>(2, 1.0F);
  tree.next = std::make_unique<Owners>();
  tree.next->weight = std::make_unique<std::vector<float>>(1, 2.0F);
  const auto copy = cast<float>(tree);
  static_assert(std::is_same_v<decltype(copy), const Owners>);
  REQUIRE(copy.next);
  CHECK(copy.weight != tree.weight);
  CHECK(*copy.weight == *tree.weight);
  CHECK(*copy.next->weight == std::vector<float>{2.0F});
  CHECK_FALSE(copy.next->next);
}

TEST_CASE("a container of owners claims to be copyable, and is copied in depth") {
  ManyOwners tree;
  tree.weights.push_back(std::make_unique<std::vector<float>>(2, 1.0F));
  const auto copy = cast<float>(tree);
  static_assert(std::is_same_v<decltype(copy), const ManyOwners>);
  CHECK(copy.weights.at(0) != tree.weights[0]);
  CHECK(*copy.weights.at(0) == std::vector<float>{1.0F, 1.0F});
}

TEST_CASE("a copy has the members that are no children") {
  const Named tree{{1.0F}, "name", 7};
  const auto copy = cast<float>(tree);
  CHECK(copy.weight == tree.weight);
  CHECK(copy.name == "name");
  CHECK(copy.version == 7);
}

TEST_CASE("shared elements are copied, too") {
  const Shared tree{std::make_shared<std::vector<float>>(2, 1.0F), "name"};
  const auto copy = cast<float>(tree);
  CHECK(copy.weight != tree.weight);
  CHECK(*copy.weight == *tree.weight);
  CHECK(copy.name == "name");
  CHECK(*cast<half>(tree.weight) == std::vector<half>(2, half(1.0F)));
  CHECK(cast<half>(std::shared_ptr<float>()) == nullptr);
}

TEST_CASE("a new struct of one that holds itself") {
  const Node<float> tree{{1.0F}, {{{2.0F}, {}}, {{}, {{{3.0F}, {}}}}}};
  const Node<half> narrow = cast<half>(tree);
  REQUIRE(narrow.below.size() == 2);
  CHECK(narrow.below[0].value == std::vector<half>{half(2.0F)});
  CHECK(narrow.below[1].below.at(0).value == std::vector<half>{half(3.0F)});
}

TEST_CASE("integers are copied as they are") {
  const auto result = cast<half>(std::make_tuple(1.0F, std::vector<bool>{true, false}, std::string("text"), 16777217));
  CHECK(result == std::make_tuple(half(1.0F), std::vector<bool>{true, false}, std::string("text"), 16777217));
}

TEST_CASE("empty trees stay empty") {
  CHECK(cast<half>(std::vector<float>{}).empty());
  CHECK(cast<half>(std::map<int, std::vector<float>>{}).empty());
  CHECK_FALSE(cast<half>(std::optional<float>()).has_value());
  CHECK(cast<half>(std::unique_ptr<float>()) == nullptr);
}

TEST_CASE("C arrays of integers are copied") {
  const auto result = cast<half>(WithIntegerArrays<float>{{1.0F, 2.0F}, {7, 8}, {{1, 2, 3}, {4, 5, 6}}});
  CHECK(result.weight[1] == half(2.0F));
  CHECK(result.step[0] == 7);
  CHECK(result.step[1] == 8);
  CHECK(result.grid[1][2] == 6);
}
