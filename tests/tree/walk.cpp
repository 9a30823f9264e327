// The walk over one tree (leaves, paths, const) and over two trees side by side. std.cpp tests the
// containers one by one.
#include <headroom/tree/walk.hpp>

#include <headroom/tree/make_like.hpp>

#include <array>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/network.hpp"
#include "support/paths.hpp"

using namespace headroom;
using namespace headroom::detail;
using support::paths_of;
using Floats = std::vector<float>;
using Paths = std::vector<std::string>;

namespace {

/// The pairs of numbers in two trees of scalars: "path:source/destination".
struct Pairs {
  std::string text;
  template <class Source, class Destination>
  void operator()(const Path& path, const Source& source, const Destination& destination) {
    text += path.text() + ':' + std::to_string(static_cast<int>(source)) + '/' +
            std::to_string(static_cast<int>(destination)) + ' ';
  }
};
template <class Source, class Destination>
std::string pairs_of(const Source& source, const Destination& destination) {
  Pairs pairs;
  walk(Path(), pairs, source, destination);
  return pairs.text;
}
template <class Source, class Destination>
void check_differ(const Source& source, const Destination& destination,
                  const std::string& message) {
  CHECK(MESSAGE_OF(pairs_of(source, destination)) == "headroom: " + message);
}

/// Copies of it throw, which makes a variant lose its value.
struct Throws {
  Throws() = default;
  Throws(const Throws&) { throw_invalid_argument({"copied"}); }
  Throws& operator=(const Throws&) = default;
  float value = 0.0F;
  HEADROOM_TREE(Throws, value)
};

/// A user-defined container with no more than a sequence needs. It accepts elements by rvalue only.
template <class T>
struct Ring : private std::deque<T> {
  using std::deque<T>::deque, std::deque<T>::begin, std::deque<T>::end, std::deque<T>::size;
  void push_back(T&& element) { std::deque<T>::push_back(std::move(element)); }
};
int calls = 0;

struct Traits {
  Floats a, b;
};

struct Nothing {
  template <class... Leaves>
  void operator()(const Path&, Leaves&...) const {}
};

}  // namespace

template <class T>
struct headroom::tree_traits<Ring<T>> {
  static constexpr branch_kind kind = branch_kind::sequence;
  template <class To>
  using rebuilt = Ring<To>;
};
template <>
struct headroom::tree_traits<Traits> {
  template <class Self>
  static auto children(Self& self) {
    return ++calls, std::tie(self.a, self.b);
  }
};

TEST_CASE("nested to any depth") {
  std::map<std::string,
           std::vector<std::optional<std::tuple<float, std::unique_ptr<std::vector<double>>>>>>
      tree;
  tree["a"].resize(2);
  tree["a"][1].emplace(1.0F, std::make_unique<std::vector<double>>(5));
  CHECK(paths_of(tree) == Paths{"[\"a\"][1]<0>", "[\"a\"][1]<1>"});
  CHECK(element_count(tree) == 6);
}

TEST_CASE("members with names read like C++") {
  const auto network = support::network_of(1.0F);
  CHECK(paths_of(network) == Paths{"layers[0].weight", "layers[0].bias", "layers[1].weight",
                                   "layers[1].bias", "heads[\"decoder\"]", "heads[\"encoder\"]",
                                   "temperature"});
  CHECK(leaf_count(network) == support::network_leaves);
  CHECK(element_count(network) == support::network_elements);
}

TEST_CASE("leaves are const where the tree is") {
  const auto check_const = [](auto&& tree) {
    std::size_t leaves = 0;
    for_each_leaf(tree, [&](auto& leaf) {
      static_assert(std::is_const_v<std::remove_reference_t<decltype(leaf)>>);
      ++leaves;
    });
    for_each_leaf_with_path(tree, [](const std::string&, auto& leaf) {
      static_assert(std::is_const_v<std::remove_reference_t<decltype(leaf)>>);
    });
    CHECK(leaves > 0);
  };
  const std::unique_ptr<std::vector<float>> owner = std::make_unique<std::vector<float>>(2);
  check_const(owner);
  const std::variant<std::vector<float>, float> either = std::vector<float>(1);
  check_const(either);
  const std::tuple<float, std::pair<float, float>> parts;
  check_const(parts);
  const std::map<int, std::list<float>> map = {{1, {1.0F}}};
  check_const(map);
  std::vector<float> values(2);
  check_const(std::cref(values));
  check_const(std::as_const(*std::make_unique<Traits>()));
}

TEST_CASE("a const pointer that shares its tree does not make it const") {
  const auto shared = std::make_shared<std::vector<float>>(1, 1.0F);
  for_each_leaf(shared, [](std::vector<float>& leaf) { leaf[0] = 2.0F; });
  CHECK((*shared)[0] == 2.0F);
}

TEST_CASE("a walk calls children() once for each struct") {
  Traits tree{{1.0F}, {2.0F}};
  const Traits constant = tree;
  Nothing visit;
  calls = 0;
  (void)leaf_count(constant);
  CHECK(calls == 1);
  CHECK(paths_of(tree) == Paths{"<0>", "<1>"});
  CHECK(calls == 2);
  walk(Path(), visit, constant, tree);
  CHECK(calls == 4);
}

TEST_CASE("sequences of different containers, element by element") {
  CHECK(pairs_of(std::list<float>{1, 2}, std::deque<double>{3, 4}) == "[0]:1/3 [1]:2/4 ");
  const float array[2][1] = {{1}, {2}};
  CHECK(pairs_of(std::list<std::list<float>>{{1}, {2}},
                 std::array<std::list<float>, 2>{{{3}, {4}}}) == "[0][0]:1/3 [1][0]:2/4 ");
  CHECK(make_container<double>(array).size() == 2);
  check_differ(std::list<float>{1, 2}, std::list<float>{1},
               "the trees differ: source has 2 elements, destination has 1");
  check_differ(std::vector<std::list<float>>{{1}}, std::vector<std::list<float>>{{}},
               "the trees differ at [0]: source has 1 elements, destination has 0");
}

TEST_CASE("maps, by key") {
  CHECK(pairs_of(std::map<int, float>{{1, 1}, {2, 2}},
                 std::map<int, float, std::greater<int>>{{1, 3}, {2, 4}}) == "[1]:1/3 [2]:2/4 ");
  CHECK(pairs_of(std::map<int, float>{{1, 1}, {2, 2}},
                 std::unordered_map<int, double>{{2, 4}, {1, 3}}) == "[1]:1/3 [2]:2/4 ");
  check_differ(std::map<int, float>{{1, 1}}, std::map<int, float>{{2, 1}},
               "the trees differ at [1]: the destination does not have this key");
  check_differ(std::map<int, float>{{1, 1}}, std::map<int, float>{},
               "the trees differ: source has 1 elements, destination has 0");
}

TEST_CASE("pointers, and what they point to") {
  const float one = 1;
  CHECK(pairs_of(std::make_unique<float>(1.0F), std::make_shared<float>(2.0F)) == ":1/2 ");
  CHECK(pairs_of(std::optional<float>(1.0F), 2.0) == ":1/2 ");
  CHECK(pairs_of(2.0, std::cref(one)) == ":2/1 ");
  CHECK(pairs_of(std::optional<float>(), std::unique_ptr<float>()).empty());
  check_differ(std::optional<float>(), one, "the trees differ: the source is empty");
  check_differ(std::make_tuple(1.0F), std::make_tuple(std::unique_ptr<float>()),
               "the trees differ at <0>: the destination is empty");
}

TEST_CASE("variants that hold the same alternative") {
  using Source = std::variant<float, std::pair<float, int>>;
  using Destination = std::variant<double, std::tuple<double, int>>;
  CHECK(pairs_of(Source{1.0F}, Destination{2.0}) == ":1/2 ");
  CHECK(pairs_of(Source{std::pair<float, int>{1, 2}}, Destination{std::tuple<double, int>{3, 4}}) ==
        "first:1/3 ");
  check_differ(Source{1.0F}, Destination{std::tuple<double, int>{3, 4}},
               "the trees differ: source holds alternative 0, destination holds 1");
  const Source last{std::in_place_index<1>, 1.0F, 2};
  CHECK(make_variant<double>(last).index() == 1);
}

TEST_CASE("a variant without a value is refused") {
  std::variant<float, Throws> valueless = 1.0F;
  const std::variant<float, Throws> value = 2.0F, source{std::in_place_index<1>};
  CHECK(MESSAGE_OF(valueless = source) == "headroom: copied");
  REQUIRE(valueless.valueless_by_exception());
  check_differ(valueless, value, "the tree is a variant that has lost its value");
  check_differ(value, valueless, "the tree is a variant that has lost its value");
  CHECK(MESSAGE_OF(make_like<float>(valueless)) ==
        "headroom: a variant of the tree has lost its value");
}

TEST_CASE("sequences of a user's own") {
  using Leaves = std::vector<float>;
  const Ring<Leaves> ring{{1.0F, 2.0F}, {3.0F}};
  const Ring<std::vector<double>> made = make_like<double>(ring);
  CHECK(made.size() == 2);
  CHECK((made.begin()[0].size() == 2 && made.begin()[1].size() == 1));
  CHECK(pairs_of(Ring<float>{1.0F, 2.0F}, Ring<double>{3.0, 4.0}) == "[0]:1/3 [1]:2/4 ");
  check_differ(Ring<float>{1.0F}, Ring<float>(),
               "the trees differ: source has 1 elements, destination has 0");
}
