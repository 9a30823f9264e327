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
struct NamedAndShared {
  Named named;
  std::pair<Named, std::shared_ptr<std::vector<float>>> pair;
  std::shared_ptr<std::vector<float>> shared[2];
  HEADROOM_TREE(NamedAndShared, named, pair, shared)
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

/// An allocator with state, and no other to begin with.
template <class T>
struct Arena {
  using value_type = T;
  int* allocations;
  explicit Arena(int* counter) : allocations(counter) {}
  template <class U>
  Arena(const Arena<U>& other) : allocations(other.allocations) {}  // NOLINT: implicit, as allocators are
  T* allocate(std::size_t n) {
    ++*allocations;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* memory, std::size_t n) { std::allocator<T>().deallocate(memory, n); }
  template <class U>
  bool operator==(const Arena<U>& other) const {
    return allocations == other.allocations;
  }
  template <class U>
  bool operator!=(const Arena<U>& other) const {
    return allocations != other.allocations;
  }
};

bool descending(int a, int b) { return a > b; }
struct Modulo {
  std::size_t modulus = 0;  // not to be used as it is by default
  std::size_t operator()(int key) const { return static_cast<std::size_t>(key) % modulus; }
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

TEST_CASE("arrays of what cannot be made first and assigned later") {
  const std::array<Named, 2> tree{{{{1.0F}, "first", 7}, {{2.0F, 3.0F}, "second", 8}}};
  const auto copy = cast<float>(tree);
  CHECK(copy[1].weight == tree[1].weight);
  CHECK(copy[1].weight.data() != tree[1].weight.data());
  CHECK(copy[1].name == "second");
  CHECK(copy[1].version == 8);
  const Named array[2][1] = {{tree[0]}, {tree[1]}};
  CHECK(cast<float>(array)[1][0].version == 8);
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

TEST_CASE("a part that cannot be assigned beside one that shares its elements") {
  const auto shared = std::make_shared<std::vector<float>>(2, 1.0F);
  const NamedAndShared tree{{{1.0F}, "first", 7}, {{{2.0F}, "second", 8}, shared}, {shared, nullptr}};
  const auto copy = cast<float>(tree);
  CHECK(copy.named.weight == tree.named.weight);
  CHECK(copy.pair.first.weight == tree.pair.first.weight);
  CHECK(copy.pair.first.version == 8);
  CHECK(copy.pair.second != shared);
  CHECK(*copy.pair.second == *shared);
  CHECK(copy.shared[0] != shared);
  CHECK(*copy.shared[0] == *shared);
  CHECK_FALSE(copy.shared[1]);
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

TEST_CASE("integers whose owners cannot be copied are copied in depth") {
  using Owned = std::optional<std::unique_ptr<int>>;
  std::tuple<float, std::unique_ptr<int>, Owned> tree(1.0F, std::make_unique<int>(3), std::make_unique<int>(4));
  const auto copy = cast<half>(tree);
  REQUIRE(std::get<1>(copy));
  CHECK(std::get<1>(copy) != std::get<1>(tree));
  CHECK(*std::get<1>(copy) == 3);
  CHECK(**std::get<2>(copy) == 4);
  std::get<1>(tree).reset();
  CHECK_FALSE(std::get<1>(cast<half>(tree)));
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

TEST_CASE("a new map orders and hashes its keys as the old one does") {
  std::map<int, float, bool (*)(int, int)> ordered(descending);
  ordered[1] = 1.0F;
  ordered[2] = 2.0F;
  CHECK(cast<half>(ordered).begin()->first == 2);
  std::unordered_map<int, float, Modulo> hashed(8, Modulo{7});
  hashed[9] = 1.5F;
  CHECK(cast<half>(hashed).at(9) == half(1.5F));
}

TEST_CASE("a new container has the allocator that a copy would have") {
  int allocations = 0;
  const Arena<float> arena(&allocations);
  using Leaf = std::vector<float, Arena<float>>;
  const Leaf leaf(3, 1.0F, arena);
  const std::vector<half, Arena<half>> narrow = cast<half>(leaf);
  CHECK(narrow.size() == 3);
  CHECK(narrow.get_allocator() == arena);
  const std::vector<Leaf, Arena<Leaf>> leaves(2, leaf, arena);
  CHECK(cast<half>(leaves).get_allocator() == arena);
  CHECK(cast<half>(leaves)[1].get_allocator() == arena);
  const std::list<float, Arena<float>> list(2, 1.0F, arena);
  CHECK(cast<half>(list).get_allocator() == arena);
  using Pair = std::pair<const int, float>;
  std::map<int, float, std::less<int>, Arena<Pair>> ordered({{1, 2.0F}}, arena);
  CHECK(cast<half>(ordered).get_allocator() == arena);
  std::unordered_map<int, float, Modulo, std::equal_to<int>, Arena<Pair>> hashed(8, Modulo{7}, {}, arena);
  hashed[9] = 1.5F;
  CHECK(cast<half>(hashed).get_allocator() == arena);
  CHECK(cast<half>(hashed).at(9) == half(1.5F));
}
